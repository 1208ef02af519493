"""Which share of a list of links to expect to be true, from held-out edges.

Scores of two graphs cannot be compared (their scale moves with the number of edges),
ranks can: the best thousandth of all candidates now is read against the best
thousandth of all candidates in validation, where it is known which pairs were edges.
Nothing here says how likely one single link is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError
from gelato.graph import FloatArray, IntArray
from gelato.ranking.counts import RankCounts

# Fewer found edges than this give no share worth quoting, so the best ranks share one.
LEAST_FOUND = 10


@dataclass(frozen=True, eq=False)
class PrecisionCurve:
    """Precision among all candidates ranked at least as high, never rising.

    Parameters
    ----------
    ranks : (k,) float64
        Ranks among the validation candidates, ascending.
    precision : (k,) float64
        Precision among the candidates up to each rank, in [0, 1], non-increasing.
    num_candidates : int
        How many candidates were ranked in validation.
    found : float
        True links among all of them, as the curve counts them.
    """

    ranks: FloatArray
    precision: FloatArray
    num_candidates: int
    found: float

    def at(self, ranks: npt.ArrayLike, num_candidates: int) -> FloatArray:
        """Return the expected precision at ranks of another list.

        Parameters
        ----------
        ranks : (q,) int
            How many candidates of that list score at least as high.
        num_candidates : int
            How many candidates that list has; ranks are compared as shares of it.
        """
        share = np.asarray(ranks, dtype=np.float64) / num_candidates
        here = share * self.num_candidates
        inside = np.interp(here, self.ranks, self.precision)
        # Behind the last found edge there are no more to find.
        behind = here > self.ranks[-1]
        rest = self.found / np.maximum(here, 1.0)
        expected: FloatArray = np.where(behind, np.minimum(inside, rest), inside)
        return expected


def precision_curve(counts: RankCounts, *, hidden: int | None = None) -> PrecisionCurve:
    """Return the precision to expect at every rank, from a ranking of held-out edges.

    Precision is measured where a held-out edge (or a group of tied ones) stands, with
    equal scores taken together, then made non-increasing by pooling adjacent
    violators, each edge counting once. The ranks of the first ten edges are taken
    together: single hits at the top would promise too much.

    Parameters
    ----------
    counts : RankCounts
        How the held-out edges rank among all pairs that were not known.
    hidden : int, optional
        How many edges were hidden from the model in all, if only a random part of them
        are the positives of ``counts``: the others were counted as misses and are put
        right by their share. Default: the positives are all.

    Notes
    -----
    What it estimates: the share of true links among the candidates ranked at least
    this high, in a graph that lacks as many links as were hidden. A graph that lacks
    twice as many has about twice the precision, one that lacks nothing has none; and
    true links that nobody has recorded counted as misses here, so that the figure is
    low rather than high for the graph that it was measured on.
    """
    positives = counts.num_positives
    if positives == 0:
        raise InputError(
            "There are no positives to rank.",
            hint="The held-out part is empty: hold out a larger share of the edges.",
        )
    scale = 1.0 if hidden is None else max(1.0, hidden / positives)
    found: IntArray = np.cumsum(counts.positives)
    at_least = found + counts.above + counts.tied
    # One observation for the first edges together, then one for every tied group.
    head = int(np.searchsorted(found, min(LEAST_FOUND, positives)))
    weights = np.concatenate(([found[head]], counts.positives[head + 1 :]))
    measured = np.minimum(1.0, scale * found[head:] / at_least[head:])
    return PrecisionCurve(
        ranks=at_least[head:].astype(np.float64),
        precision=_non_increasing(measured, weights.astype(np.float64)),
        num_candidates=positives + counts.num_negatives,
        found=scale * positives,
    )


def _non_increasing(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the non-increasing values nearest to given ones (weighted squares)."""
    means: list[float] = []
    sizes: list[float] = []
    lengths: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, size, length = value, weight, 1
        while means and means[-1] < mean:
            total = sizes[-1] + size
            mean = (means.pop() * sizes[-1] + mean * size) / total
            size, length = size + sizes.pop(), length + lengths.pop()
        means.append(mean)
        sizes.append(size)
        lengths.append(length)
    return np.repeat(means, lengths)


def ranks_at_least(counts: RankCounts, scores: FloatArray) -> IntArray:
    """Return how many candidates score at least as high as each of given scores.

    ``scores`` must be among the positive scores that were counted.
    """
    at_least = np.cumsum(counts.positives) + counts.above + counts.tied
    ascending = counts.scores[::-1]
    place = np.searchsorted(ascending, scores)
    found: IntArray = at_least[::-1][place].astype(np.int64)
    return found
