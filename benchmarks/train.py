"""One training step of Gelato: the sparse exact step against its dense twin.

The dense twin is plain torch in float32 on all cores: two n x n matrix products
forward, autograd backward, the same MLP, batch and loss. Both are timed in one run;
the sparse step as the best of several. Prints where the time goes, an epoch's time
and what a whole training takes, and writes ``results/benchmarks/train.json``.

    python benchmarks/train.py [cora photo computers pubmed]
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gelato
from gelato.kernels.vectors import HAS_BFLOAT
from gelato.kernels.walk_training import pull_gradients, score_pairs
from gelato.models.registry import preset
from gelato.nn.dense import dense_adjacency, dense_autocovariance, dense_standardise
from gelato.nn.enhancement import enhance
from gelato.nn.losses import n_pair_terms
from gelato.nn.pair_mlp import PairMLP
from gelato.storage import environment, peak_bytes
from gelato.training.gelato_task import GelatoTask, StepSettings
from gelato.training.loop import FitOptions, TrainSettings, train

ROOT = Path(__file__).resolve().parent.parent
DENSE = ("cora", "photo")  # the others' dense step would take many minutes
STEPS = 6


def make_task(name: str) -> tuple[GelatoTask, dict[str, Any]]:
    settings = preset(name)
    split = gelato.split_edges(gelato.load_dataset(name))
    graph = split.train_graph
    shares = {key: settings[key] for key in ("eta", "alpha", "beta")}
    mlp = PairMLP(2 * graph.num_attributes, chunk=settings["chunk"], seed=1)
    steps = StepSettings(self_loops=settings.get("self_loops", "isolated"), seed=1)
    return GelatoTask(
        graph, enhance(graph, **shares), split.valid, mlp, steps
    ), settings


def best(function: Any, times: int) -> float:
    """Return the shortest of several times, the first run not counted."""
    function()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def sparse_step(task: GelatoTask) -> None:
    task.module.zero_grad(set_to_none=True)
    task.loss(1, 0).backward()


def dense_step(task: GelatoTask) -> float:
    """Take the same step by dense matrices; return its seconds."""
    n = task.structure.num_nodes
    positives = task.positives.batch(1, 0)
    drawn = task.sampler.draw(1, 0, len(positives), lambda lists: np.zeros(0))
    outside = torch.from_numpy(task.structure.outside)
    rows = outside[torch.from_numpy(drawn.lists.rows())]
    columns = outside[torch.from_numpy(drawn.lists.listed_columns())]
    edges = torch.from_numpy(task.pairs.training_edges[positives])
    started = time.perf_counter()
    task.module.zero_grad(set_to_none=True)
    hidden, weights = task.hide(task.trained(), positives)
    matrix = dense_adjacency(
        weights,
        torch.from_numpy(task.enhanced.pairs),
        n,
        self_loops=task.settings.self_loops,
        mask=torch.from_numpy(hidden),
    )
    z = dense_standardise(dense_autocovariance(matrix, t=3))
    loss = task.module.loss(z[edges[:, 0], edges[:, 1]], z[rows, columns], drawn.groups)
    loss.backward()
    return time.perf_counter() - started


def gflops(n: int) -> float:
    matrix = torch.rand(n, n)
    return 2 * n**3 / best(lambda: matrix @ matrix, 1) / 1e9


def phases(task: GelatoTask) -> dict[str, float]:
    """Return seconds of each part of a step, each as the best of several."""
    positives = task.positives.batch(1, 0)
    draw = lambda: task.sampler.draw(1, 0, len(positives), lambda _: np.zeros(0))  # noqa: E731
    drawn = draw()
    with torch.no_grad():
        hidden, weights = task.hide(task.trained(), positives)
    matrix = task.structure.step(weights.numpy(), hidden)
    lists = (task.pairs.lists, drawn.lists)
    walk: dict[str, Any] = {"t": 3, "near": task.pairs.walk(3).near}
    scores, _ = score_pairs(matrix, lists, **walk)
    steady, other = scores
    terms = n_pair_terms(
        steady[task.pairs.position[positives]], other, drawn.groups, scale=1.0
    )
    gradients = (np.zeros_like(steady), terms[2])
    output = task.trained()

    def backward() -> None:
        output.backward(torch.ones_like(output), retain_graph=True)

    epochs = iter(range(2, 99))

    def deal() -> None:  # a new epoch each time, so that its negatives are dealt anew
        task.sampler.draw(next(epochs), 0, len(positives), lambda _: np.zeros(0))

    return {
        "mlp forward": best(task.trained, STEPS),
        "mlp backward": best(backward, STEPS),
        "groups of negatives": best(draw, STEPS),
        "negatives, per epoch": best(deal, STEPS),
        "walks forward": best(lambda: score_pairs(matrix, lists, **walk), STEPS),
        "loss": best(
            lambda: n_pair_terms(
                steady[task.pairs.position[positives]], other, drawn.groups, scale=1.0
            ),
            STEPS,
        ),
        "walks backward": best(
            lambda: pull_gradients(
                matrix, lists, scores, gradients, task.structure.num_edges, **walk
            ),
            STEPS,
        ),
        "validation, per epoch": best(task.validate, 2),
    }


def measure(name: str) -> dict[str, Any]:
    task, settings = make_task(name)
    entry: dict[str, Any] = {
        "edges": len(task.enhanced.pairs),
        "pairs_per_epoch": task.pairs.num_negatives + len(task.pairs.training_edges),
        "first_layer": task.features.path,
    }
    task.module.train()
    step = best(lambda: sparse_step(task), STEPS)
    entry["step_seconds"] = step
    if HAS_BFLOAT:
        task.module.pair_model.precision = "bfloat16"
        entry["bfloat16_step_seconds"] = best(lambda: sparse_step(task), STEPS)
        task.module.pair_model.precision = "float32"
        print(f"{name}: bfloat16 step {entry['bfloat16_step_seconds']:.3f} s")
    entry["phases"] = phases(task)
    history: list[dict[str, Any]] = []
    told = FitOptions(on_epoch=lambda entry, _: history.append(entry))
    train(task, TrainSettings(epochs=2), told)
    epoch = history[-1]["seconds"]
    entry |= {
        "epoch_seconds": epoch,
        "training_minutes": epoch * settings["epochs"] / 60,
        "peak_mb": peak_bytes() / 2**20,
    }
    print(
        f"{name}: step {step:.3f} s, epoch {epoch:.2f} s, {settings['epochs']} epochs "
        f"in {entry['training_minutes']:.1f} min, {entry['peak_mb']:.0f} MB peak",
        flush=True,
    )
    for phase, seconds in entry["phases"].items():
        print(f"  {phase}: {seconds:.4f} s")
    if name in DENSE:
        task.module.train()
        n = task.structure.num_nodes
        dense_seconds = min(dense_step(task) for _ in range(3 if n < 5000 else 1))
        entry |= {
            "dense_step_seconds": dense_seconds,
            "dense_gflops": gflops(n),
            "times_faster": dense_seconds / step,
        }
        print(
            f"  dense step {dense_seconds:.2f} s (matrix products at "
            f"{entry['dense_gflops']:.0f} GFLOP/s): {entry['times_faster']:.0f} times "
            "slower",
            flush=True,
        )
    return entry


def main() -> None:
    names = sys.argv[1:] or ["cora", "photo", "computers", "pubmed"]
    target = ROOT / "results" / "benchmarks" / "train.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"environment": environment(), "graphs": {}}
    for name in names:
        # A process of its own, so that its peak memory is its own.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            record["graphs"][name] = pool.apply(measure, (name,))
        target.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
