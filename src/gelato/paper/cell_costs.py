"""What runs that are missing will take, from what was recorded and timed before.

Nothing is run for it: ``gelato reproduce --dry-run`` times the first steps instead.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from gelato.paper.experiment import Row, read_facts
from gelato.paper.records import read_record
from gelato.paper.runner import RunSpec
from gelato.paper.timing import find_times, training_seconds

_TIMED = "photo"  # the graph whose times carry over to others, by the number of pairs


class Forecasts:
    """Times of missing runs.

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
        parameters, seconds = min(found, key=lambda one: _distance(spec, one[0]))
        epochs, known = spec.parameters.get("epochs"), parameters.get("epochs")
        return seconds * epochs / known if epochs and known else seconds

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


def _distance(spec: RunSpec, parameters: dict[str, Any]) -> tuple[int, int]:
    """Return in how many parameters a recorded run differs, and how many it lacks."""
    names = set(parameters) | set(spec.parameters)
    other = sum(
        json.dumps(parameters.get(name)) != json.dumps(spec.parameters.get(name))
        for name in names
    )
    return other, len(set(parameters) ^ set(spec.parameters))
