"""What an estimated ranking rests on, and how far it may be from the exact one.

Counts of negatives above a positive, and with them AUC, are unbiased; average
precision is a ratio of counts, and nearly so. Intervals speak of the sampling alone:
another split of the edges would move the exact result, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gelato.graph import FloatArray, IntArray
from gelato.ranking import metrics
from gelato.ranking.counts import RankCounts, above_and_tied

NEAR_HOPS = 2
"""Pairs at most so many edges apart are near, and all of them are scored."""
LEVEL = 0.95
"""Confidence of the intervals."""

_DRAWS = 400
_CELLS = 1_000_000  # counts that are drawn at once


@dataclass(frozen=True, eq=False)
class Estimate:
    """What an estimate rests on, and how far it may be from the exact result.

    Parameters
    ----------
    rate : float
        Share of the far negatives that was asked for.
    seed : int
        Drew them.
    far_pairs : int
        Far negatives in all.
    thresholds : (t,) float64
        Distinct scores of the positives, ascending.
    positives : (t,) int64
        How many positives have each.
    near, sampled : (2t + 1,) int64
        Near and sampled negatives by bin, as :mod:`gelato.kernels.counting` has them.
    """

    rate: float
    seed: int
    far_pairs: int
    thresholds: FloatArray
    positives: IntArray
    near: IntArray
    sampled: IntArray

    @property
    def near_pairs(self) -> int:
        """Near negatives, all of which were scored."""
        return int(self.near.sum())

    @property
    def sampled_pairs(self) -> int:
        """Far negatives that were scored."""
        return int(self.sampled.sum())

    @cached_property
    def counts(self) -> RankCounts:
        """Estimated counts; fractions, since a sampled pair stands for several."""
        weight = self.far_pairs / max(1, self.sampled_pairs)
        return self._counts(weight * self.sampled)

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Interval of every measure of :func:`gelato.ranking.metrics.measures`.

        It holds the exact result of the same model on the same split with 95 %
        confidence. What was not scored is drawn again and again from what was (the
        Bayesian bootstrap of a finite population). The lower limit takes one more
        far pair as seen above every positive, as the exact interval of a count does:
        that nothing was seen there does not prove that nothing is there.
        """
        found = {k: float(v) for k, v in metrics.measures(self.counts).items()}
        if self.sampled_pairs == self.far_pairs:
            return {name: (value, value) for name, value in found.items()}
        worse = self.sampled.copy()
        worse[-1] += 1
        rest = (1 - LEVEL) / 2
        low, high = self._drawn(worse), self._drawn(self.sampled)
        return {
            name: (
                min(value, float(np.quantile(low[name], rest))),
                max(value, float(np.quantile(high[name], 1 - rest))),
            )
            for name, value in found.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain data."""
        return {
            "rate": self.rate,
            "seed": self.seed,
            "near_hops": NEAR_HOPS,
            "near_pairs": self.near_pairs,
            "far_pairs": self.far_pairs,
            "sampled_pairs": self.sampled_pairs,
            "level": LEVEL,
            "intervals": {name: list(found) for name, found in self.intervals.items()},
        }

    def _drawn(self, seen: IntArray) -> dict[str, FloatArray]:
        """Return measures with the far pairs that were not scored drawn from ``seen``.

        Shares follow a Dirichlet distribution, the pairs a multinomial one.
        """
        rng = np.random.default_rng([self.seed, self.far_pairs])
        unseen = self.far_pairs - self.sampled_pairs
        held = np.flatnonzero(seen)
        at_once = max(1, _CELLS // len(seen))
        values: dict[str, list[FloatArray]] = {}
        for first in range(0, _DRAWS, at_once):
            times = min(at_once, _DRAWS - first)
            far = np.repeat(self.sampled[None], times, axis=0)
            far[:, held] += rng.multinomial(unseen, rng.dirichlet(seen[held], times))
            for name, drawn in metrics.measures(self._counts(far)).items():
                values.setdefault(name, []).append(drawn)
        return {name: np.concatenate(found) for name, found in values.items()}

    def _counts(self, far: Any) -> RankCounts:
        above, tied = above_and_tied(self.near + far)
        return RankCounts(
            scores=self.thresholds[::-1],
            positives=self.positives[::-1],
            above=above,
            tied=tied,
            num_negatives=self.near_pairs + self.far_pairs,
        )
