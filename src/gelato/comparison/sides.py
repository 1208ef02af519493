"""Models of a comparison, run by run, and what two of them share."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gelato.comparison.intervals import link_margin, split_margin
from gelato.comparison.runs import RESAMPLED
from gelato.graph import FloatArray

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
class Side:
    """One model on all of its splits."""

    model: str
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """The mean over splits, seeds averaged inside each."""
        return statistics.fmean(part.mean for part in self.parts.values())


def sides_of(rows: Iterable[Mapping[str, Any]], metric: str) -> list[Side]:
    """Return the models of some rows, in their order."""
    sides: dict[str, Side] = {}
    for row in rows:
        side = sides.setdefault(row["model"], Side(row["model"]))
        side.parts.setdefault(str(row.get("split")), Part()).add(row, metric)
    return list(sides.values())


def mean_margin(parts: Sequence[Part], confidence: float) -> float | None:
    """Return the half-width of the interval of a mean, where the runs tell it."""
    if len(parts) > 1:
        return _split_margin([part.mean for part in parts], parts, confidence)
    one, draws = parts[0], parts[0].resampled
    if draws is None or one.links is None:
        return None
    return link_margin(draws, one.links, [[*one.values.values()]], confidence)


def difference_of(side: Side, other: Side, confidence: float) -> dict[str, Any]:
    """Return the difference on what two models share; nothing if that is nothing."""
    shared = [name for name in side.parts if name in other.parts]
    if not shared:
        return {}
    pairs = [(side.parts[name], other.parts[name]) for name in shared]
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
