"""How an epoch's time grows with edges, nodes, attributes and hidden width.

Synthetic graphs, one quantity varied at a time, against the paper's claims: the MLP
takes O((1 + eta) m r) per epoch, k entries of autocovariance O(max(k, (1 + eta) m t)),
and there are O(r h + l h^2) parameters. A slope on logarithmic axes of 1 is linear.
Writes ``results/benchmarks/scaling.json`` and the plot beside it.

    python benchmarks/scaling.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import scipy.sparse as sp

import gelato
from gelato.graph import Graph
from gelato.nn.enhancement import enhance
from gelato.nn.pair_mlp import PairMLP
from gelato.storage import environment
from gelato.training.gelato_task import GelatoTask, StepSettings
from gelato.training.loop import TrainSettings, train

ROOT = Path(__file__).resolve().parent.parent
BASE = {"nodes": 3000, "edges": 24_000, "attributes": 400, "hidden": 128}
SWEEPS = {
    "edges": (6_000, 12_000, 24_000, 48_000, 96_000),
    "nodes": (1500, 3000, 6000, 12_000),
    "attributes": (100, 200, 400, 800, 1600),
    "hidden": (32, 64, 128, 256, 512),
}
PHASES = {"mlp": ("mlp", "backward"), "walks": ("walks",), "negatives": ("negatives",)}


def synthetic(nodes: int, edges: int, attributes: int) -> Graph:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, nodes, size=(int(1.1 * edges), 2))
    filled = sp.random_array((nodes, attributes), density=0.05, rng=rng, format="csr")
    filled.data[:] = 1.0
    return Graph.from_indices(nodes, ends, attributes=filled)


def epoch(setting: dict[str, int]) -> dict[str, Any]:
    graph = synthetic(setting["nodes"], setting["edges"], setting["attributes"])
    split = gelato.split_edges(graph)
    mlp = PairMLP(2 * setting["attributes"], hidden=setting["hidden"], seed=1)
    task = GelatoTask(
        split.train_graph,
        enhance(split.train_graph),
        split.valid,
        mlp,
        StepSettings(seed=1),
    )
    history: list[dict[str, Any]] = []
    train(task, TrainSettings(epochs=4), on_epoch=lambda e, _: history.append(e))
    best = min(history[1:], key=lambda entry: entry["seconds"])
    seconds = {
        name: sum(best["phases"].get(phase, 0.0) for phase in parts)
        for name, parts in PHASES.items()
    }
    parameters = sum(weight.numel() for weight in mlp.parameters())
    return {**setting, "seconds": seconds, "parameters": parameters}


def slope(sizes: Any, values: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-6)), 1)[0])


def draw(record: dict[str, Any], path: Path) -> None:
    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(SWEEPS), figsize=(14, 3.6), sharey=True)
    styles = {"mlp": ("#0072B2", "o"), "walks": ("#D55E00", "s")}
    styles["negatives"] = ("#009E73", "^")
    for axis, (name, points) in zip(axes, record["sweeps"].items(), strict=True):
        sizes = [point[name] for point in points]
        for part, (colour, marker) in styles.items():
            values = [point["seconds"][part] for point in points]
            label = f"{part}, slope {record['slopes'][name][part]:.2f}"
            axis.loglog(sizes, values, color=colour, marker=marker, label=label)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
        axis.minorticks_off()
        axis.set_xlabel(name)
        axis.legend(fontsize=8, frameon=False)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds per epoch")
    figure.tight_layout()
    for suffix in (".svg", ".png"):
        figure.savefig(path.with_suffix(suffix), dpi=120)


def main() -> None:
    record: dict[str, Any] = {
        "environment": environment(),
        "base": BASE,
        "sweeps": {},
        "slopes": {},
    }
    for name, sizes in SWEEPS.items():
        points = [epoch(BASE | {name: size}) for size in sizes]
        record["sweeps"][name] = points
        record["slopes"][name] = {
            part: slope(sizes, [point["seconds"][part] for point in points])
            for part in (*PHASES,)
        } | {"parameters": slope(sizes, [point["parameters"] for point in points])}
        print(name, {k: round(v, 2) for k, v in record["slopes"][name].items()})
    target = ROOT / "results" / "benchmarks" / "scaling.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
    draw(record, target.with_suffix(""))
    print(f"written to {target.relative_to(ROOT)} and a plot beside it")


if __name__ == "__main__":
    main()
