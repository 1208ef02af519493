"""A training step on near negatives beside one on all negatives, in the same run.

Loss, cosine of the gradients of all weights, error of the far part, and time of a step
(dropout off, so that both see the same weights). Graphs by name, or synthetic ones by
their number of nodes. Writes ``results/benchmarks/near.json``.

    python benchmarks/near.py [GRAPH ...]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

import gelato
from gelato.graph import Graph
from gelato.io import write_text_atomic
from gelato.models.registry import preset
from gelato.storage import environment

TARGET = Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "near.json"
GRAPHS = ("cora", "pubmed", "20000")
RECIPE = {"average_degree": 6.0, "exponent": 2.5, "max_degree": 1000}
STEPS = 3


def graph_and_parameters(name: str) -> tuple[Graph, dict[str, Any]]:
    if name.isdigit():
        return gelato.make_synthetic_graph(int(name), seed=0, **RECIPE), {}
    return gelato.load_dataset(name), preset(name)


def steps(graph: Graph, **parameters: Any) -> dict[str, Any]:
    """Return losses, gradients and the best time of a few steps."""
    split = gelato.split_edges(graph)
    model = gelato.Gelato(**parameters, seed=1, dropout=0.0)
    model._begin(split)
    task = model._task(split)
    task.module.eval()
    losses, gradients, seconds = [], [], []
    for batch in range(STEPS):
        task.module.zero_grad()
        started = time.perf_counter()
        loss = task.loss(1, batch)
        loss.backward()
        seconds.append(time.perf_counter() - started)
        losses.append(float(loss.detach()))
        parts = [p.grad.ravel() for p in task.module.parameters() if p.grad is not None]
        gradients.append(torch.cat(parts))
    values = task.epoch_values()
    # The first step also deals the epoch's negatives and loads kernels.
    return {
        "losses": losses,
        "gradients": gradients,
        "step_seconds": min(seconds[1:]),
        **values,
    }


def measure(name: str) -> dict[str, Any]:
    graph, parameters = graph_and_parameters(name)
    every = steps(graph, **parameters, negatives="all")
    near = steps(graph, **parameters, negatives="near", near_rate=1.0)
    pairs = zip(every["gradients"], near["gradients"], strict=True)
    return {
        "nodes": graph.num_nodes,
        "loss_all": every["losses"],
        "loss_near": near["losses"],
        "cosine": [
            float(torch.cosine_similarity(a.double(), b.double(), dim=0))
            for a, b in pairs
        ],
        "far_error": near.get("far_error"),
        "step_seconds_all": every["step_seconds"],
        "step_seconds_near": near["step_seconds"],
        "times_faster": every["step_seconds"] / near["step_seconds"],
    }


def main() -> None:
    found = {}
    for name in sys.argv[1:] or GRAPHS:
        found[name] = measure(name)
        print(name, json.dumps(found[name]))
    record = {"environment": environment(), "graphs": found}
    write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
