"""What training and inference take, all methods on one machine, one after another.

No training is completed: a few steps are timed and carried over to all epochs.
Inference is one exact evaluation of all candidates, by weights not trained yet, which
take as long as trained ones; where that would take long, it is forecast from a few
rows, and says so.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from gelato.errors import StoredFileError
from gelato.kernels.chunks import default_threads
from gelato.models.registry import make
from gelato.paper.experiment import Experiment, Row, read_experiment
from gelato.paper.records import (
    Report,
    code_commit,
    lock,
    make_folders,
    write_record,
)
from gelato.paper.runner import find_record, paper_graph
from gelato.ranking import evaluate, score_pairs
from gelato.ranking.evaluate import candidates_of
from gelato.ranking.forecast import forecast
from gelato.ranking.scorers import as_scorer
from gelato.splits import EdgeSplit, split_edges
from gelato.storage import environment
from gelato.training.step_times import time_steps

FORMAT = 2
SECONDS = 10.0
"""Time given to the steps of one training."""
_INFERENCE = 60.0
"""How much longer an inference may take; beyond that it is forecast."""
_FEW = 100  # pairs
KINDS = ("biased", "unbiased")


def time_path(results: Path, dataset: str) -> Path:
    """Return where the times of a dataset are recorded."""
    return results / "time" / f"{dataset}.json"


def find_times(results: Path, dataset: str) -> dict[str, Any] | None:
    """Return the recorded times of a dataset, or ``None``."""
    return find_record(time_path(results, dataset), FORMAT, dataset)


def missing_times(experiment: Experiment, results: Path) -> list[Row]:
    """Return the rows that are not timed yet."""
    return [
        row
        for row in experiment.rows
        if row.method
        not in (find_times(results, row.dataset) or {"methods": {}})["methods"]
    ]


def record_time(
    row: Row,
    results: Path,
    work: Path,
    *,
    seconds: float = SECONDS,
    report: Report | None = None,
) -> dict[str, Any]:
    """Time one method and record it beside the others of the same machine.

    Parameters
    ----------
    row : Row
        A method on a dataset.
    results, work : Path
        Folders of records and of locks.
    seconds : float
        Time given to the steps of each training.
    report : callable, optional
        Told in a line what happens.
    """
    path = time_path(results, row.dataset)
    make_folders(path.parent, work / "time")
    with lock(work / "time", report):  # two at once would disturb each other
        record = find_times(results, row.dataset) or {}
        split = split_edges(paper_graph(row.dataset))
        here = _machine(split, row.dataset)
        if record:
            _refuse_other_machine(path, record, here)
            if row.method in record["methods"]:  # another process was faster
                return record
        record = {**here, "commit": code_commit(), "methods": {}, **record}
        record["methods"][row.method] = measure(row, split, seconds)
        return write_record(path, record)


def measure(row: Row, split: EdgeSplit, seconds: float) -> dict[str, Any]:
    """Return what training and inference of a method take on a split."""
    first = make(row.method, **row.parameters)
    if not first.trains_by_epoch:
        model: Any = first.fit(split)
        kinds: dict[str, Any] = {}
    else:
        model = first.untrained(split)
        kinds = {
            kind: _training_time(row, given, split, seconds)
            for kind, given in training_settings(row).items()
        }
    return {
        "parameters": row.parameters,
        "label": row.label,
        "training": kinds,
        **_inference_time(model, split, _INFERENCE * seconds),
    }


def _inference_time(model: Any, split: EdgeSplit, most: float) -> dict[str, Any]:
    """Measure an exact evaluation, or forecast it if that takes too long."""
    graph = split.train_graph
    # Compiles, outside of what is timed.
    score_pairs(as_scorer(model, graph), split.test[:_FEW], graph.num_nodes)
    rule = candidates_of(split, "test")
    ranked = {"candidates": rule, "positives": len(split.test)}
    coming = forecast(model, graph, **ranked)  # type: ignore[arg-type]
    if coming.seconds > most:
        return {"inference_seconds": coming.seconds, "inference_forecast": True}
    return {"inference_seconds": evaluate(model, split).seconds}


def training_settings(row: Row) -> dict[str, dict[str, Any]]:
    """Return a method's parameters for biased and for unbiased training.

    Those of unbiased training are the ones of the table with unbiased training, of a
    graph on which the training is not cut short if there is one.
    """
    rows = [r for r in read_experiment("ap-unbiased").rows if r.method == row.method]
    found = (r.parameters for r in sorted(rows, key=lambda r: bool(r.label)))
    unbiased = next((x for x in found if x.get("training") == "unbiased"), {})
    steps = {k: v for k, v in unbiased.items() if k == "batches"}
    return {
        "biased": row.parameters | {"training": "biased"},
        "unbiased": steps | row.parameters | {"training": "unbiased"},
    }


def _training_time(
    row: Row, parameters: dict[str, Any], split: EdgeSplit, seconds: float
) -> dict[str, Any] | None:
    model = make(row.method, **parameters)
    times = time_steps(model, split, seconds=seconds, least=2)
    if times is None:
        return None
    return {
        **asdict(times),
        "parameters": parameters,
        "steps": model.steps_,
        "epochs": model.epochs,
        "validate_every": model.validate_every,
        "ranking_every": model.ranking_every,
    }


def training_seconds(
    found: dict[str, Any], inference: float, epochs: int | None = None
) -> float:
    """Return what a training takes, carried over from a few steps.

    Parameters
    ----------
    found : dict
        Of one training: preparation, steps and their time, epochs, validations.
    inference : float
        Time of a ranking of all pairs: a validation takes it whose own is not known.
    epochs : int, optional
        Epochs of a training that is recorded; default the most there can be.
    """
    count = found["epochs"] if epochs is None else epochs
    validation = found["validation_seconds"]
    each = inference if validation is None else validation
    checks = -(-count // found["validate_every"])
    rankings = count // found["ranking_every"] if found["ranking_every"] else 0
    steps = count * found["steps"] * found["step_seconds"]
    checking = checks * each + rankings * inference
    return float(found["preparation_seconds"] + steps + checking)


def _machine(split: EdgeSplit, dataset: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "dataset": dataset,
        "split": split.fingerprint,
        "environment": environment(),
        "threads": default_threads(),
    }


def _refuse_other_machine(
    path: Path, record: dict[str, Any], here: dict[str, Any]
) -> None:
    """Raise unless all that is compared was measured on one machine."""
    for name in ("environment", "threads"):
        if record[name] != here[name]:
            raise StoredFileError(
                f"{path} was measured on another machine or with other packages: "
                "times beside it would not be comparable.",
                hint="Delete it to time all methods here.",
            )
