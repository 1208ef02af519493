"""What a score is worth: of links scored like this one, how many were true.

Learned from rows that the trees did not see while they were fitted: pairs are dealt
into two halves by a hash, and each half is scored by trees of the other half.

Edges that a split holds out are among these rows, unknown to them, and would count as
false: how many they are is known, and that they are scored like the hidden ones is
supposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gelato.graph import FloatArray, IntArray
from gelato.stacking.folds import Fold
from gelato.stacking.ranker import Ranker, RankerFit, TreeSettings, fit_rankers

# Fewer true links than this give no share worth quoting: they form one step.
_LEAST_TRUE = 25
_Z = 1.96  # of a 95 % interval


@dataclass(frozen=True, eq=False)
class LinkPrecision:
    """The share of true links by score, a rising staircase.

    Parameters
    ----------
    bounds : (k,) float64
        Scores at which steps begin, ascending; the first is -inf in effect.
    share, low, high : (k,) float64
        Of pairs on a step, how many in 1 were true, with a 95 % interval.
    """

    bounds: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray

    def at(self, scores: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the share and its interval for scores."""
        step = np.searchsorted(self.bounds, scores, side="right") - 1
        step = np.maximum(step, 0)
        return self.share[step], self.low[step], self.high[step]


def link_precision(
    scores: FloatArray,
    labels: npt.NDArray[np.bool_],
    weights: FloatArray,
    *,
    held_out: float = 0.0,
) -> LinkPrecision:
    """Return the share of true links by score, from rows with known answers.

    ``held_out`` is how many edges, per true row, are among the rows and not labelled.

    Rows are cut into steps of some true links each, and neighbouring steps pooled
    until the share rises with the score (isotonic regression); intervals are
    Wilson's, of the pairs that a step stands for.
    """
    order = np.argsort(scores, kind="stable")
    scores, labels, weights = scores[order], labels[order], weights[order]
    true = np.cumsum(labels * weights)
    wanted = max(1, int(true[-1] // _LEAST_TRUE)) if len(true) else 1
    goals = true[-1] * np.arange(1, wanted) / wanted if len(true) else np.empty(0)
    cuts = np.unique(np.concatenate(([0], np.searchsorted(true, goals)))).astype(int)
    hits = np.add.reduceat(labels * weights, cuts) if len(true) else np.zeros(1)
    sizes = np.add.reduceat(weights, cuts) if len(true) else np.ones(1)
    starts = scores[cuts] if len(true) else np.zeros(1)
    starts, hits, sizes = _pooled(
        starts, hits, np.maximum(sizes - held_out * hits, hits)
    )
    share = np.divide(hits, sizes, out=np.zeros_like(hits), where=sizes > 0)
    low, high = _wilson(share, sizes)
    return LinkPrecision(starts, share, low, high)


@dataclass(frozen=True)
class Promise:
    """What was promised of some pairs, and what came true.

    Parameters
    ----------
    expected, observed : float
        Mean of the shares that were promised, and the share that was true.
    low, high : float
        A 95 % interval of the observed share.
    pairs : int
        How many pairs.
    """

    expected: float
    observed: float
    low: float
    high: float
    pairs: int


def reliability(
    expected: FloatArray, answers: npt.NDArray[np.bool_], *, most: int = 8
) -> list[Promise]:
    """Return how far promised shares hold on pairs with known answers, lowest first.

    Pairs are cut by what was promised of them into parts that promise equally many
    true links, at least 10 each.

    Parameters
    ----------
    expected : (k,) float64
        What was promised of every pair.
    answers : (k,) bool
        Which of them are true.
    most : int
        How many parts there may be.
    """
    order = np.argsort(expected, kind="stable")
    promised = np.cumsum(expected[order])
    if not len(promised) or promised[-1] <= 0:
        return []
    parts = int(np.clip(promised[-1] // 10, 1, most))
    goals = promised[-1] * np.arange(1, parts) / parts
    # Pairs of one promise stay together.
    values = expected[order]
    cuts = np.searchsorted(values, values[np.searchsorted(promised, goals)])
    bounds = np.unique(np.concatenate(([0], cuts, [len(values)])))
    found = []
    for first, last in pairwise(bounds.tolist()):
        size = last - first
        share = float(answers[order[first:last]].mean())
        low, high = _wilson(np.array([share]), np.array([float(size)]))
        mean = float(values[first:last].mean())
        found.append(Promise(mean, share, float(low[0]), float(high[0]), size))
    return found


def _pooled(
    starts: FloatArray, hits: FloatArray, sizes: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Pool neighbouring steps until their share rises."""
    kept: list[list[float]] = []
    for start, hit, size in zip(starts, hits, sizes, strict=True):
        kept.append([float(start), float(hit), float(size)])
        while len(kept) > 1 and kept[-2][1] * kept[-1][2] >= kept[-1][1] * kept[-2][2]:
            _, more, larger = kept.pop()
            kept[-1][1] += more
            kept[-1][2] += larger
    columns = np.array(kept)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _wilson(share: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    square = _Z**2 / sizes
    middle = (share + square / 2) / (1 + square)
    spread = np.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    # At a share of 0 or 1 rounding must not put it outside its own interval.
    low = np.clip(middle - spread, 0.0, share)
    return low, np.clip(middle + spread, share, 1.0)


def fit_and_score_unseen(
    folds: Sequence[Fold],
    names: Sequence[str],
    settings: TreeSettings,
    *,
    num_nodes: int,
    seed: int = 0,
) -> tuple[Ranker, list[FloatArray]]:
    """Return a ranker, and scores of its rows by trees that were fitted without them.

    A pair is in the same half in every fold, so that no row is scored by trees that
    saw the pair in another fold.
    """
    halves = [_half(fold.pairs, num_nodes) for fold in folds]
    one_seed = replace(settings, seeds=1)

    def without(side: bool) -> RankerFit:
        others = [
            _rows(fold, half != side) for fold, half in zip(folds, halves, strict=True)
        ]
        return RankerFit(others, names, one_seed, seed=seed)

    whole = RankerFit(folds, names, settings, seed=seed)
    ranker, *by_side = fit_rankers(whole, without(False), without(True))
    scores = [np.empty(len(fold.labels)) for fold in folds]
    for side, trees in zip((False, True), by_side, strict=True):
        for fold, half, out in zip(folds, halves, scores, strict=True):
            mine = half == side
            out[mine] = trees.scores(fold.features[mine])
    return ranker, scores


def _half(pairs: IntArray, num_nodes: int) -> npt.NDArray[np.bool_]:
    """Deal pairs into two halves by a hash (splitmix64)."""
    keys = (pairs[:, 0] * np.int64(num_nodes) + pairs[:, 1]).astype(np.uint64)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    halves: npt.NDArray[np.bool_] = ((keys ^ (keys >> np.uint64(31))) & 1) == 1
    return halves


def _rows(fold: Fold, chosen: npt.NDArray[np.bool_]) -> Fold:
    return Fold(
        fold.pairs[chosen],
        fold.features[chosen],
        fold.labels[chosen],
        fold.weights[chosen],
        fold.hidden,
    )
