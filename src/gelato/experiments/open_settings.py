"""Settings that descriptions leave open, side by side: validation first, then test."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gelato.experiments.paper import Experiment, Row
from gelato.experiments.tables import row_records

HEADER = (
    *("setting", "graph", "validation, balanced", "validation AP, all pairs"),
    *("test AP", "test AUC", "paper's AP"),
)
"""Columns of :func:`settings_rows`."""


def settings_rows(
    experiment: Experiment, results: Path
) -> tuple[list[tuple[str, ...]], dict[str, str]]:
    """Return a row of text per recorded setting, and what is missing by command."""
    rows, missing = [], {}
    for row in experiment.rows:
        records = row_records(row, results)
        if records:
            rows.append(_texts(row, records))
        else:
            command = f"gelato reproduce {experiment.name} --datasets {row.dataset}"
            missing[f"{row.name} on {row.dataset}"] = command
    return rows, missing


def _texts(row: Row, records: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return (
        f"{row.name}, {row.label}" if row.label else row.name,
        row.dataset,
        _percent([_selected(record, "sampled-mean") for record in records]),
        _percent([_selected(record, "ap") for record in records]),
        _percent([record["metrics"]["ap"] for record in records]),
        _percent([record["metrics"]["auc"] for record in records]),
        f"{row.published['ap']:.2f}" if "ap" in row.published else "-",
    )


def _selected(record: dict[str, Any], name: str) -> float | None:
    """Return a validation value of the selected epoch, or of the nearest one with it.

    Rankings of all pairs are recorded every so many epochs only.
    """
    training = record["training"]
    known = [entry for entry in training["history"] if name in entry]
    if not known:
        return None
    best = training["best_epoch"]
    near = min(known, key=lambda entry: (abs(entry["epoch"] - best), entry["epoch"]))
    return float(near[name])


def _percent(values: Sequence[float | None]) -> str:
    found = [value for value in values if value is not None]
    return f"{100 * statistics.fmean(found):.2f}" if found else "-"
