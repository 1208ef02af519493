"""Perform the runs of experiments one after another, by priority, resumably.

``python scripts/run_queue.py gelato:cora gelato:photo:1`` runs all seeds of the first
and seed 1 of the second; finished ones are skipped.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gelato.experiments.paper import read_experiment
from gelato.experiments.runs import perform, result_path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run what the command line asks for."""
    results, work = ROOT / "results", ROOT / "runs"
    for item in sys.argv[1:]:
        name, dataset, *seeds = item.split(":")
        for row in read_experiment(name).rows:
            if row.dataset != dataset:
                continue
            for spec in row.runs(tuple(map(int, seeds)) or None):
                if result_path(results, spec).exists():
                    continue
                print(time.strftime("%H:%M:%S"), spec.name, flush=True)
                record = perform(
                    spec,
                    results,
                    work,
                    report=lambda line: print(" ", line, flush=True),
                )
                ap = 100 * record["metrics"]["ap"]
                print(f"  AP {ap:.2f}, {record['fit_seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
