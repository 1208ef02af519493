"""Forecasts of training and ranking beside what recorded runs took.

For every recorded run with seed 1 of the networks that work pair by pair, biased
training: what ``gelato fit --dry-run`` and ``gelato evaluate --dry-run`` forecast, with
as many threads as the runs had, beside the run's real time. A forecast of training is
that of the epochs which the run really had: it may have stopped early. Trainings below
``SHORT`` seconds are done again here, since other work beside the recorded run weighs
heavily on them. Writes ``results/benchmarks/forecasts.json`` run by run; what is known
of others stays.

    python benchmarks/forecasts.py [MODEL ...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gelato.io import write_text_atomic
from gelato.storage import environment

RESULTS = Path(__file__).resolve().parent.parent / "results"
MODELS = ("tlc-gnn", "nbfnet", "walkpool", "seal")
# The recorded runs had one thread each.
ONE_THREAD = {"GELATO_THREADS": "1", "OMP_NUM_THREADS": "1"}
SHORT = 120.0


def run(command: str, spec: dict[str, Any], *more: str) -> dict[str, Any]:
    """Return what a command says."""
    name, dataset = spec["method"], spec["dataset"]
    words = [sys.executable, "-m", "gelato", command, "--dataset", dataset]
    words += ["--model", name, "--seed", str(spec["seed"]), "--json", "-q", *more]
    for key, value in spec["parameters"].items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--set", f"{key}={'none' if value is None else text}"]
    done = subprocess.run(
        words, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(record: dict[str, Any]) -> dict[str, Any]:
    spec = record["spec"]
    training = run("fit", spec, "--dry-run")["training_forecast"]
    rate = spec.get("estimate")
    more = () if rate is None else ("--estimate", str(rate))
    ranking = run("evaluate", spec, "--dry-run", *more)["forecast"][0]
    epochs = len(record["training"]["history"])
    before, each = training["preparation_seconds"], training["epoch_seconds"]
    seconds = record["fit_seconds"]
    if seconds < SHORT:
        with tempfile.TemporaryDirectory() as folder:
            seconds = run("fit", spec, "-o", f"{folder}/run")["training"]["seconds"]
    return {
        "model": spec["method"],
        "dataset": spec["dataset"],
        "label": spec["label"],
        "estimate": rate,
        "epochs": epochs,
        "training_forecast": before + each * epochs,
        "training_seconds": seconds,
        "ranking_forecast": ranking["seconds"],
        "ranking_seconds": record["metrics"]["seconds"],
    }


def line(row: dict[str, Any]) -> str:
    text = f"{row['model']} on {row['dataset']}:"
    for phase in ("training", "ranking"):
        forecast, seconds = row[f"{phase}_forecast"], row[f"{phase}_seconds"]
        text += f" {phase} forecast {forecast:.3g} s, took {seconds:.3g} s,"
        text += f" ratio {forecast / seconds:.2f};"
    return text.rstrip(";")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["model"], row["dataset"], row["label"], row["estimate"]


def main() -> None:
    names = sys.argv[1:] or MODELS
    target = RESULTS / "benchmarks" / "forecasts.json"
    rows = json.loads(target.read_text("utf-8"))["rows"] if target.exists() else []
    for name in names:
        for path in sorted((RESULTS / "runs").glob(f"*/{name}-*-seed1-*.json")):
            record = json.loads(path.read_text("utf-8"))
            if record["spec"]["parameters"].get("training", "biased") != "biased":
                continue
            found = compare(record)
            print(line(found), flush=True)
            rows = [row for row in rows if _key(row) != _key(found)] + [found]
            content = {"environment": environment(), "rows": rows}
            write_text_atomic(target, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
