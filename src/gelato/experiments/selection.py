"""Whether validation would select the paper's hyper-parameters again.

Recorded runs of the sensitivity analysis hold the best validation value of each
combination, so that the question needs no run of its own.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gelato.experiments.paper import Row, read_experiment, read_facts
from gelato.experiments.tables import row_records

_NAMES = ("eta", "alpha", "beta")


@dataclass(frozen=True)
class Selection:
    """What validation selects on a graph.

    Parameters
    ----------
    cells : tuple of str
        Dataset, the paper's values, ours, among how many, validation value.
    lacking : str
        What is missing, in words; empty if nothing.
    command : str
        What runs it.
    """

    cells: tuple[str, ...]
    lacking: str = ""
    command: str = ""


def selections(results: Path) -> list[Selection]:
    """Return, for every graph of the paper, what recorded combinations select."""
    experiment = read_experiment("sensitivity")
    return [
        _selection(
            dataset,
            values,
            [r for r in experiment.rows if r.dataset == dataset],
            results,
        )
        for dataset, values in read_facts("hyperparameters")["rows"].items()
    ]


def _selection(
    dataset: str, values: list[float], rows: list[Row], results: Path
) -> Selection:
    paper = _text(dict(zip(_NAMES, values, strict=True)))
    if not rows:
        command = f"gelato tune --dataset {dataset} --search line"
        lacking = f"search on {dataset}"
        return Selection((dataset, paper, "missing", "-", "-"), lacking, command)
    found = [(row, row_records(row, results)) for row in rows]
    known = [
        (statistics.fmean(r["training"]["best_value"] for r in records), row)
        for row, records in found
        if records
    ]
    count = f"{len(known)} of {len(rows)} combinations"
    command = f"gelato reproduce sensitivity --datasets {dataset}"
    lacking = f"{len(rows) - len(known)} combinations on {dataset}"
    if not known:
        cells = (dataset, paper, "missing", count, "-")
        return Selection(cells, lacking, command)
    value, best = max(known, key=lambda item: item[0])
    chosen = _text({name: best.parameters[name] for name in _NAMES})
    chosen += f", {best.label}" if best.label else ""
    cells = (dataset, paper, chosen, count, f"{100 * value:.2f}")
    done = len(known) == len(rows)
    return Selection(cells, "" if done else lacking, "" if done else command)


def _text(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())
