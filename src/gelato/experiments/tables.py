"""Ours beside the paper's: means over seeds, differences, and a mark."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gelato.experiments.paper import Experiment, Row
from gelato.experiments.runs import read_result, result_path


@dataclass(frozen=True)
class Cell:
    """One number of the paper and what was measured for it.

    Parameters
    ----------
    method, dataset, metric : str
        Which number.
    values : tuple of float
        One value per recorded run, in percent.
    seeds : tuple
        Their seeds.
    published, published_sd : float, optional
        The paper's mean and deviation, in percent.
    """

    method: str
    dataset: str
    metric: str
    values: tuple[float, ...]
    seeds: tuple[int | None, ...]
    published: float | None
    published_sd: float | None
    label: str = ""

    @property
    def mean(self) -> float | None:
        """Mean of the recorded runs."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the recorded runs."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def tolerance(self) -> float | None:
        """How far a mean of this many runs may lie from the paper's by chance.

        ``3 sd sqrt(1/10 + 1/s)``: both means are of finitely many runs. Where the
        paper's deviation is 0, half of the last printed digit.
        """
        if self.published is None or not self.values:
            return None
        if not self.published_sd:
            return 0.005 + 1e-9
        return 3 * self.published_sd * math.sqrt(1 / 10 + 1 / len(self.values))

    @property
    def verdict(self) -> str:
        """One of "within", "above", "below", "missing" and "no figure"."""
        if self.mean is None:
            return "missing"
        if self.published is None or self.tolerance is None:
            return "no figure"
        difference = self.mean - self.published
        if abs(difference) <= self.tolerance:
            return "within"
        return "above" if difference > 0 else "below"

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain data."""
        return {
            "method": self.method,
            "dataset": self.dataset,
            "metric": self.metric,
            "seeds": list(self.seeds),
            "values": list(self.values),
            "mean": self.mean,
            "deviation": self.deviation,
            "published": self.published,
            "published_sd": self.published_sd,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "label": self.label,
        }


def cells(experiment: Experiment, results: Path, metric: str = "ap") -> list[Cell]:
    """Return the cells of an experiment from the runs recorded so far."""
    return [_cell(row, results, metric) for row in experiment.rows]


def _cell(row: Row, results: Path, metric: str) -> Cell:
    values, seeds = [], []
    for spec in row.runs():
        path = result_path(results, spec)
        if path.exists():
            values.append(100 * read_result(path, spec)["metrics"][metric])
            seeds.append(spec.seed)
    return Cell(
        row.method,
        row.dataset,
        metric,
        tuple(values),
        tuple(seeds),
        row.published.get(metric),
        row.published.get(f"{metric}_sd"),
        row.label,
    )
