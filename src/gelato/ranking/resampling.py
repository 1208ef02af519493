"""Error of a difference in average precision, over resampled held-out edges.

The held-out edges are drawn again with replacement, for both rankings alike, while
the negatives stay: their number is large, and they are all there is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gelato.graph import FloatArray, IntArray
from gelato.ranking.candidates import Candidates
from gelato.ranking.counts import RankCounts, rank_counts
from gelato.ranking.pair_scores import score_pairs
from gelato.ranking.scorers import RowScorer

RESAMPLES = 200


@dataclass(frozen=True, eq=False)
class RankedPositives:
    """Where each positive stands in a ranking.

    Parameters
    ----------
    counts : RankCounts
        By distinct score.
    group : (p,) int64
        For each positive, which of the distinct scores it has.
    """

    counts: RankCounts
    group: IntArray

    def average_precision(self, times: FloatArray) -> float:
        """Return the average precision with each positive taken so many times."""
        positives = np.bincount(
            self.group, weights=times, minlength=len(self.counts.scores)
        )
        found = np.cumsum(positives)
        negatives = self.counts.above + self.counts.tied
        precision = found / np.maximum(found + negatives, 1.0)
        return float(precision @ positives / positives.sum())


def rank_positives(
    scorer: RowScorer, positives: IntArray, candidates: Candidates
) -> RankedPositives:
    """Rank positives among candidates, as :func:`~gelato.ranking.rank_counts` does."""
    counts = rank_counts(scorer, positives, candidates)
    scores = score_pairs(scorer, positives, candidates.num_nodes)
    return locate_positives(counts, scores)


def locate_positives(counts: RankCounts, scores: FloatArray) -> RankedPositives:
    """Find each positive, by its score, among counts that were taken of all."""
    ascending = counts.scores[::-1]
    group: IntArray = len(ascending) - 1 - np.searchsorted(ascending, scores)
    return RankedPositives(counts, group)


def margin(error: float, size: int) -> float:
    """Return the half-width of a 95 % interval from a bootstrap standard error.

    ``size`` positives were drawn again; few of them know their own spread badly, and
    draws with replacement spread by ``(n - 1) / n`` too little.
    """
    from scipy.special import stdtrit

    if size < 2:
        return math.inf
    freedom = min(size, RESAMPLES) - 1
    wider = math.sqrt(size / (size - 1))
    return float(stdtrit(freedom, 0.975)) * error * wider


def paired_gain(
    one: RankedPositives, other: RankedPositives, *, seed: int = 0
) -> tuple[float, float]:
    """Return by how much one average precision exceeds another, and its error.

    Parameters
    ----------
    one, other : RankedPositives
        Two rankings of the same positives.
    seed : int
        Draws the resamples.

    Returns
    -------
    gain, error : float
        The difference, and its bootstrap standard error over the positives.

    Examples
    --------
    >>> from gelato.ranking.counts import counts_of_scores
    >>> counts = counts_of_scores(np.array([2.0, 1.0]), np.array([0.0]))
    >>> same = RankedPositives(counts, np.array([0, 1]))
    >>> paired_gain(same, same)
    (0.0, 0.0)
    """
    size = len(one.group)
    rng = np.random.default_rng(seed)
    whole = np.ones(size)
    gain = one.average_precision(whole) - other.average_precision(whole)
    drawn = []
    for _ in range(RESAMPLES):
        times = _draw(rng, size)
        drawn.append(one.average_precision(times) - other.average_precision(times))
    return gain, float(np.std(drawn, ddof=1))


def resampled_precision(one: RankedPositives, *, seed: int = 0) -> FloatArray:
    """Return the average precision over positives drawn again, many times.

    Equal seeds draw equal positives: of two rankings of the same positives, the
    differences are those of :func:`paired_gain`.
    """
    rng = np.random.default_rng(seed)
    size = len(one.group)
    return np.array([one.average_precision(_draw(rng, size)) for _ in range(RESAMPLES)])


def _draw(rng: Any, size: int) -> FloatArray:
    chosen = rng.integers(0, size, size)
    return np.bincount(chosen, minlength=size).astype(np.float64)
