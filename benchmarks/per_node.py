"""Measures of single nodes' lists, beside the global ones alone.

Both rank the test edges of a graph among all pairs, in turns and in one run; what is
kept is the ratio of the fastest of each. The degrees of suggested nodes, a pass of
their own, are timed apart. Writes ``results/benchmarks/per_node.json``.

    python benchmarks/per_node.py [--dataset pubmed] [--models ra,ac] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import gelato
from gelato.io import write_text_atomic
from gelato.ranking.evaluate import candidates_of
from gelato.ranking.node_metrics import list_degrees
from gelato.storage import environment

TARGET = (
    Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "per_node.json"
)


def measure(split: Any, name: str, rounds: int) -> dict[str, Any]:
    """Return the fastest times of a model, and their ratio."""
    graph, rule = split.train_graph, candidates_of(split, "test")
    scorer = gelato.make(name).fit(split).scorer(graph)
    calls = {
        "global": lambda: gelato.evaluate(scorer, split),
        "per_node": lambda: gelato.evaluate(scorer, split, per_node=True),
        "list_degrees": lambda: list_degrees(scorer, rule, graph, split.test),
    }
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds + 1):  # the first compiles, and is no faster
        for key, call in calls.items():
            started = time.perf_counter()
            call()
            best[key] = min(best[key], time.perf_counter() - started)
    return {"seconds": best, "ratio": best["per_node"] / best["global"]}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="pubmed")
    parser.add_argument("--models", default="ra,ac")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    split = gelato.split_edges(gelato.load_dataset(options.dataset))
    names = options.models.split(",")
    found = {name: measure(split, name, options.rounds) for name in names}
    told = {"dataset": options.dataset, "models": found, "environment": environment()}
    write_text_atomic(TARGET, json.dumps(told, indent=2) + "\n")
    for name, one in found.items():
        print(f"{name}: {one['ratio']:.2f} times the global measures alone")


if __name__ == "__main__":
    main()
