"""Confidence intervals of a mean over splits, and of one split's test edges.

Two situations, and what an interval covers in each:

* Several splits. The numbers of the splits (seeds averaged inside each) give a
  t-interval. Random splits of one graph share most of their training edges, so their
  numbers are not independent and the plain interval is too narrow. The variance of the
  mean is therefore ``s^2 (1/k + test/train)`` in place of ``s^2 / k``, the correction
  of Nadeau and Bengio (2003) for resampled train and test sets.
* One split. Its test edges are few among all links that might have been held out: they
  are drawn again with replacement, and the standard deviation over the draws is the
  error. Where there are several seeds, the error of their mean is added.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gelato.comparison.runs import RESAMPLED
from gelato.graph import FloatArray

CONFIDENCE = 0.95


def split_margin(
    values: Sequence[float], overlap: float, confidence: float = CONFIDENCE
) -> float | None:
    """Return the half-width of an interval around the mean of numbers by split.

    Parameters
    ----------
    values : sequence of float
        One per split; for paired differences, their differences.
    overlap : float
        Test edges per training edge.
    confidence : float
        How often such intervals hold what they estimate.

    Returns
    -------
    float or None
        ``None`` for fewer than two splits.

    Examples
    --------
    >>> round(split_margin([0.10, 0.12, 0.11], overlap=0.1), 4)
    0.0283
    """
    k = len(values)
    if k < 2:
        return None
    variance = float(np.var(values, ddof=1)) * (1 / k + overlap)
    return _margin([(variance, k - 1)], confidence)


def link_margin(
    resampled: FloatArray,
    links: int,
    seeds: Sequence[Sequence[float]] = (),
    confidence: float = CONFIDENCE,
) -> float | None:
    """Return the half-width of an interval around the number of one split.

    Parameters
    ----------
    resampled : (r,) float64
        The number over test edges drawn again; for paired differences, the
        differences over the same draws.
    links : int
        Test edges.
    seeds : sequence of sequences
        Independent groups of numbers by seed; the error of each group's mean is added.
    confidence : float
        How often such intervals hold what they estimate.

    Returns
    -------
    float or None
        ``None`` where a single test edge tells nothing about its spread.
    """
    if links < 2:
        return None
    # Draws with replacement spread by (n - 1) / n too little.
    spread = float(np.var(resampled, ddof=1)) * links / (links - 1)
    parts = [(spread, min(links, len(resampled)) - 1)]
    for group in seeds:
        if len(group) > 1:
            error = float(np.var(group, ddof=1)) / len(group)
            parts.append((error, len(group) - 1))
    return _margin(parts, confidence)


def _margin(parts: Sequence[tuple[float, float]], confidence: float) -> float:
    """Return the half-width from variances with their degrees of freedom.

    Several are added, with the degrees of freedom of Welch and Satterthwaite.
    """
    from scipy.special import stdtrit

    total = sum(variance for variance, _ in parts)
    if total <= 0:
        return 0.0
    freedom = total**2 / sum(variance**2 / df for variance, df in parts)
    return float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(total)


BETTER, WORSE, SAME = "better", "worse", "no difference to be seen"


@dataclass
class Part:
    """One model on one split."""

    values: dict[Any, float] = field(default_factory=dict)
    draws: list[FloatArray] = field(default_factory=list)
    links: int | None = None
    overlap: float | None = None

    def add(self, row: Mapping[str, Any], metric: str) -> None:
        """Take one more run."""
        # Without a seed, or with the same one twice, the number of the run tells
        # repetitions apart.
        seed = row.get("seed")
        key = seed if seed not in self.values else (seed, len(self.values))
        self.values[key] = float(row[metric])
        draws = row.get(RESAMPLED) if metric == "ap" else None
        if draws is not None:
            self.draws.append(np.asarray(draws, dtype=np.float64))
        train, self.links = row.get("train_edges"), row.get("test_edges")
        if train and self.links:
            self.overlap = self.links / train

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.values.values())

    @property
    def resampled(self) -> FloatArray | None:
        """The mean over seeds, by draw; ``None`` unless all runs were resampled."""
        if len(self.draws) != len(self.values) or len({*map(len, self.draws)}) != 1:
            return None
        mean: FloatArray = np.mean(self.draws, axis=0)
        return mean


@dataclass
class ModelRuns:
    """One model on all of its splits."""

    model: str
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """The mean over splits, seeds averaged inside each."""
        return statistics.fmean(part.mean for part in self.parts.values())


def runs_by_model(rows: Iterable[Mapping[str, Any]], metric: str) -> list[ModelRuns]:
    """Return the models of some rows, in their order."""
    models: dict[str, ModelRuns] = {}
    for row in rows:
        own = models.setdefault(row["model"], ModelRuns(row["model"]))
        own.parts.setdefault(str(row.get("split")), Part()).add(row, metric)
    return list(models.values())


def mean_margin(parts: Sequence[Part], confidence: float) -> float | None:
    """Return the half-width of the interval of a mean, where the runs tell it."""
    if len(parts) > 1:
        return _split_margin([part.mean for part in parts], parts, confidence)
    one, draws = parts[0], parts[0].resampled
    if draws is None or one.links is None:
        return None
    return link_margin(draws, one.links, [[*one.values.values()]], confidence)


def difference_of(
    own: ModelRuns, other: ModelRuns, confidence: float
) -> dict[str, Any]:
    """Return the difference on what two models share; nothing if that is nothing."""
    shared = [name for name in own.parts if name in other.parts]
    if not shared:
        return {}
    pairs = [(own.parts[name], other.parts[name]) for name in shared]
    gains = [one.mean - two.mean for one, two in pairs]
    gain = statistics.fmean(gains)
    if len(pairs) > 1:
        margin = _split_margin(gains, [one for one, _ in pairs], confidence)
    else:
        margin = _paired_margin(*pairs[0], confidence)
    if margin is None:
        return {"difference": gain}
    return {
        "difference": gain,
        "difference_low": gain - margin,
        "difference_high": gain + margin,
        "verdict": SAME if abs(gain) <= margin else BETTER if gain > 0 else WORSE,
    }


def _split_margin(
    values: Sequence[float], parts: Sequence[Part], confidence: float
) -> float | None:
    overlaps = [part.overlap for part in parts if part.overlap is not None]
    if len(overlaps) < len(parts):
        return None
    return split_margin(values, statistics.fmean(overlaps), confidence)


def _paired_margin(one: Part, other: Part, confidence: float) -> float | None:
    draws, others = one.resampled, other.resampled
    if draws is None or others is None or one.links is None:
        return None
    if len(draws) != len(others) or one.links != other.links:
        return None
    seeds = [[*one.values.values()], [*other.values.values()]]
    if one.values.keys() == other.values.keys():
        seeds = [[value - other.values[key] for key, value in one.values.items()]]
    return link_margin(draws - others, one.links, seeds, confidence)
