"""What has to be done for experiments: each thing once, and what is done not again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from gelato.models.registry import facts_of
from gelato.paper.experiment import Experiment, Row, read_facts
from gelato.paper.records import Report, read_record
from gelato.paper.runner import RunSpec, Watch, find_result, paper_preset, perform
from gelato.paper.timing import (
    SECONDS,
    find_times,
    missing_times,
    record_time,
    training_seconds,
)
from gelato.paper.visual import missing_panels, record_panels

_RECORDED = (
    "runs",
    "protocols",
    "settings",
    "grid",
    "splits",
    "orders",
)  # kinds whose rows are recorded runs
_TOLD = ("without", "loss", "bias", "training", "redraw", "eta", "alpha", "beta")
_TIMED = "photo"  # the graph whose times carry over to others, by the number of pairs
Seeds = tuple[int, ...] | None


@dataclass(frozen=True)
class Place:
    """Where records and checkpoints are.

    Parameters
    ----------
    results, work : Path
        Folders of records, and of checkpoints of unfinished runs.
    time_seconds : float
        What timing gives to the steps of one training.
    """

    results: Path
    work: Path
    time_seconds: float = SECONDS


@dataclass(frozen=True)
class Job:
    """Something that is missing.

    Parameters
    ----------
    title : str
        For people.
    run : callable
        Does it, given a report and a watch, and returns what came out in a few words.
    spec : RunSpec, optional
        The recorded run that it is, if it is one.
    """

    title: str
    run: Callable[[Report | None, Watch | None], str]
    spec: RunSpec | None = None


def run_specs(experiments: Sequence[Experiment], seeds: Seeds = None) -> list[RunSpec]:
    """Return the recorded runs of experiments, each once."""
    specs = (
        spec
        for part in experiments
        if part.kind in _RECORDED
        for row in part.rows
        for spec in row.runs(seeds)
    )
    return list({spec.key: spec for spec in specs}.values())


def missing_jobs(
    experiments: Sequence[Experiment], place: Place, seeds: Seeds = None
) -> list[Job]:
    """Return what is missing: runs first, then what is made from them, then times."""
    jobs = [
        Job(run_title(spec), partial(_run, spec, place), spec)
        for spec in run_specs(experiments, seeds)
        if find_result(place.results, spec) is None
    ]
    for part in experiments:
        for row in missing_panels(part, place.results) if part.kind == "visual" else ():
            what = f"matrices of {row.name} on {row.dataset}"
            jobs.append(Job(what, partial(_see, row, place)))
    for part in experiments:
        for row in missing_times(part, place.results) if part.kind == "time" else ():
            what = f"time of {row.method} on {row.dataset}"
            jobs.append(Job(what, partial(_time, row, place)))
    return jobs


def count_parts(experiments: Sequence[Experiment], seeds: Seeds = None) -> int:
    """Return how many things experiments have to do in all, done ones included."""
    rest = (len(part.rows) for part in experiments if part.kind not in _RECORDED)
    return len(run_specs(experiments, seeds)) + sum(rest)


def run_title(spec: RunSpec) -> str:
    """Return a run in words, with what its method does otherwise than by its preset."""
    usual = spec.parameters
    if spec.dataset in facts_of("gelato").presets:
        usual = paper_preset(spec.dataset, spec.method)
    method = spec.method
    for name, value in spec.parameters.items():
        told = name in _TOLD or not spec.label  # which says why others differ
        if told and value != usual.get(name):
            method += f" {name}={value}"
    seed = "" if spec.split is None else f", split {spec.split}"
    seed += "" if spec.seed is None else f", seed {spec.seed}"
    label = f", {spec.label}" if spec.label else ""
    if spec.estimate is not None:
        label += f", ESTIMATE at {spec.estimate:g}"
    return f"{method} on {spec.dataset}{seed}{label}"


def _run(
    spec: RunSpec, place: Place, report: Report | None, watch: Watch | None
) -> str:
    record = perform(spec, place.results, place.work, report=report, watch=watch)
    return ap_text(record["metrics"])


def ap_text(metrics: dict[str, Any]) -> str:
    """Return the average precision that a record holds, in words."""
    if not metrics.get("estimated"):
        return f"AP {metrics['ap']:.2%}"
    low, high = metrics["estimate"]["intervals"]["ap"]
    return f"AP about {metrics['ap']:.2%} (ESTIMATE, {low:.2%} to {high:.2%})"


def _see(row: Row, place: Place, report: Report | None, watch: Watch | None) -> str:
    record_panels(row, place.results, place.work, report=report, watch=watch)
    return "recorded"


def _time(row: Row, place: Place, report: Report | None, watch: Watch | None) -> str:
    record = record_time(
        row, place.results, place.work, seconds=place.time_seconds, report=report
    )
    found = record["methods"][row.method]
    about = "about " if found.get("inference_forecast") else ""
    return f"exact evaluation {about}{found['inference_seconds']:.3g} s"


class Forecasts:
    """What missing runs will take, from what was recorded and timed before.

    Nothing is run for it: ``gelato reproduce --dry-run`` times the first steps instead.

    Parameters
    ----------
    results : Path
        Folder of records.
    """

    def __init__(self, results: Path) -> None:
        self.results = results

    def missing_seconds(self, row: Row, seeds: Sequence[int | None]) -> float | None:
        """Return what the missing seeds of a row take, or ``None`` if nothing tells."""
        if not seeds:
            return 0.0
        one = self.seconds(row.runs()[0])
        return None if one is None else len(seeds) * one

    def seconds(self, spec: RunSpec) -> float | None:
        """Return what a run takes: by the nearest recorded one, or by timed steps."""
        found = self._recorded.get((spec.method, spec.dataset, _training(spec)), [])
        if not found:
            return self._timed(spec)
        # The quickest of those that are as near: others are of slower code, or were
        # beside other work.
        return min((_distance(spec, one[0]), _carried(spec, *one)) for one in found)[1]

    @cached_property
    def _recorded(self) -> dict[tuple[str, ...], list[tuple[dict[str, Any], float]]]:
        known: dict[tuple[str, ...], list[tuple[dict[str, Any], float]]] = {}
        for path in sorted(self.results.glob("runs/*/*.json")):
            record = read_record(path, {})
            spec = RunSpec(**record["spec"])
            seconds = record["fit_seconds"] + record["metrics"]["seconds"]
            key = (spec.method, spec.dataset, _training(spec))
            known.setdefault(key, []).append((spec.parameters, seconds))
        return known

    def _timed(self, spec: RunSpec) -> float | None:
        """Return what the timed steps on photo come to on a graph."""
        sizes = read_facts("datasets")["rows"]
        record = find_times(self.results, _TIMED)
        timed = (record or {"methods": {}})["methods"].get(spec.method)
        kind = _training(spec)
        if spec.dataset not in sizes or not timed or kind not in timed["training"]:
            return None
        count = 0 if kind == "unbiased" else 1  # pairs grow as nodes squared, or edges
        share: float = sizes[spec.dataset][count] / sizes[_TIMED][count]
        epochs = spec.parameters.get("epochs")
        whole: float = training_seconds(
            timed["training"][kind], timed["inference_seconds"], epochs
        )
        return whole * (share**2 if kind == "unbiased" else share)


def _training(spec: RunSpec) -> str:
    usual = "unbiased" if spec.method == "gelato" else "biased"
    return str(spec.parameters.get("training", usual))


def _carried(spec: RunSpec, parameters: dict[str, Any], seconds: float) -> float:
    """Return the time of a recorded run, carried over to the epochs of another."""
    epochs, known = spec.parameters.get("epochs"), parameters.get("epochs")
    return seconds * epochs / known if epochs and known else seconds


def _distance(spec: RunSpec, parameters: dict[str, Any]) -> tuple[int, int]:
    """Return in how many parameters a recorded run differs, and how many it lacks."""
    names = set(parameters) | set(spec.parameters)
    other = sum(
        json.dumps(parameters.get(name)) != json.dumps(spec.parameters.get(name))
        for name in names
    )
    return other, len(set(parameters) ^ set(spec.parameters))
