"""What a pair, or a source, costs networks that work pair by pair; and the forecasts.

Untrained networks with the settings of the paper's tables. The cost is that of the
forecast which ``--dry-run`` gives, on all cores, beside what the designs of the
networks estimated for two cores. Evaluations that are forecast to take
at most ``LONGEST`` seconds are run, and their real time stands beside the forecast.
Writes ``results/benchmarks/pair_cost.json``.

    python benchmarks/pair_cost.py [GRAPH ...]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import gelato
from gelato.io import write_text_atomic
from gelato.models.registry import make, preset
from gelato.ranking.evaluate import candidates_of
from gelato.ranking.forecast import forecast
from gelato.storage import environment

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmarks"
# Before its first score TLC-GNN takes many minutes on photo, and subgraphs of WalkPool
# are nearly the whole graph there.
GRAPHS = {
    "cora": ("tlc-gnn", "nbfnet", "walkpool", "seal"),
    "citeseer": ("tlc-gnn", "nbfnet", "walkpool", "seal"),
    "photo": ("nbfnet", "seal"),
}
LONGEST = 30.0
# Seconds on two cores, from an idle to a busy machine, as estimated before anything was
# written: per source for NBFNet, per pair for the others.
ESTIMATES = {
    ("tlc-gnn", "cora"): (8e-7, 8e-7),
    ("tlc-gnn", "citeseer"): (9e-7, 9e-7),
    ("tlc-gnn", "photo"): (1e-6, 1e-6),
    ("nbfnet", "cora"): (0.03, 0.055),
    ("nbfnet", "photo"): (0.15, 0.3),
    ("walkpool", "cora"): (4e-4, 1e-3),
    ("walkpool", "citeseer"): (1.6e-4, 4.3e-4),
    ("seal", "cora"): (1.3e-3, 5.9e-3),
    ("seal", "citeseer"): (1.1e-4, 3.3e-4),
    ("seal", "photo"): (1.2e-4, 8.6e-4),
}


def measure(name: str, dataset: str) -> dict[str, Any]:
    """Return the cost of a pair or source, the forecast, and the time it took."""
    split = gelato.split_edges(gelato.load_dataset(dataset))
    started = time.perf_counter()
    model = make(name, seed=1, **preset(dataset, name)).untrained(split)
    scorer = model.scorer(split.train_graph)
    prepared = time.perf_counter() - started
    candidates = candidates_of(split, "test")
    told = forecast(
        scorer, split.train_graph, candidates=candidates, positives=len(split.test)
    )
    by_source = name == "nbfnet"
    count = split.graph.num_nodes if by_source else told.pairs
    found: dict[str, Any] = {
        "model": name,
        "dataset": dataset,
        "prepared_seconds": prepared,
        "unit": "source" if by_source else "pair",
        "threads": told.threads,
        "seconds_per_unit": told.seconds / count,
        "estimated": ESTIMATES.get((name, dataset)),
        "forecast_seconds": told.seconds,
        "seconds": None,
    }
    if told.seconds <= LONGEST:
        started = time.perf_counter()
        gelato.evaluate(scorer, split)
        found["seconds"] = time.perf_counter() - started
    return found


def line(found: dict[str, Any]) -> str:
    text = (
        f"{found['model']} on {found['dataset']}: "
        f"{1e3 * found['seconds_per_unit']:.3g} ms a {found['unit']}"
    )
    if found["estimated"]:
        low, high = found["estimated"]
        text += f" (estimated {1e3 * low:.3g} to {1e3 * high:.3g})"
    text += f", all pairs forecast {found['forecast_seconds']:.3g} s"
    if found["seconds"] is not None:
        text += f", took {found['seconds']:.3g} s"
    return text


def main() -> None:
    rows = []
    for dataset in sys.argv[1:] or GRAPHS:
        for name in GRAPHS[dataset]:
            rows.append(measure(name, dataset))
            print(line(rows[-1]), flush=True)
    content = {"environment": environment(), "rows": rows}
    target = RESULTS / "pair_cost.json"
    write_text_atomic(target, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
