"""Ranking quality from two counts per positive, exact, ties included.

Anybody's scores can be counted; no graph is needed:

>>> counts = from_labels([1, 0, 1, 0], [0.9, 0.4, 0.3, 0.1])
>>> round(average_precision(counts), 4), area_under_roc(counts)
(0.8333, 0.75)

The tie rule differs by metric, as the paper's protocol has it: average precision
groups equal scores (scikit-learn's definition), precision at k is the expectation
under a random order of equals, hits at k is strict, AUC counts a tie one half,
and a reciprocal rank uses ``1 + above + tied / 2``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError, UsageError
from gelato.graph import FloatArray
from gelato.ranking.counts import RankCounts, counts_of_scores

PRECISION_RATIOS = tuple(step / 10 for step in range(1, 11))
HITS_KS = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400)
_LIST_KS = (1, 3, 10, 20, 50, 100)  # where every positive has its own negatives


def from_labels(y_true: npt.ArrayLike, y_score: npt.ArrayLike) -> RankCounts:
    """Count from labels and scores, in the order of scikit-learn's arguments.

    Parameters
    ----------
    y_true : (k,) array of 0 and 1, or booleans
        Whether a pair is a link.
    y_score : (k,) array
        Its score; larger is better.
    """
    labels, scores = np.asarray(y_true), _scores(y_score, "y_score", 1)
    if labels.shape != scores.shape:
        raise InputError(
            f"There are {labels.size:,} labels of shape {labels.shape} and "
            f"{scores.size:,} scores of shape {scores.shape}.",
            hint="Give one label for every score.",
        )
    wrong = ~np.isin(labels, (0, 1))
    if wrong.any():
        raise InputError(
            f"The label at place {np.flatnonzero(wrong)[0]} is "
            f"{labels[wrong][0]!r}, not 0 or 1."
        )
    is_link = labels.astype(bool)
    return from_scores(scores[is_link], scores[~is_link])


def from_scores(positives: npt.ArrayLike, negatives: npt.ArrayLike) -> RankCounts:
    """Count from the scores of positives and the scores of negatives.

    Parameters
    ----------
    positives, negatives : 1-d arrays
        Every positive is ranked against all negatives.

    Examples
    --------
    >>> hits_at(from_scores([3.0, 1.0], [2.0, 0.0]), 1)
    0.5
    """
    found = _scores(positives, "positives", 1)
    if not found.size:
        raise InputError("There are no positives to rank.")
    return counts_of_scores(found, _scores(negatives, "negatives", 1))


def own_list_measures(
    positives: npt.ArrayLike, negatives: npt.ArrayLike
) -> dict[str, float]:
    """Return MRR and hits where every positive has negatives of its own.

    As OGB evaluates ogbl-citation2 and ogbl-wikikg2: a positive's rank is 1, plus the
    negatives above it, plus half of those that tie.

    Parameters
    ----------
    positives : (p,) array
        Scores.
    negatives : (p, k) array
        Row i holds the scores of positive i's negatives.

    Examples
    --------
    >>> own_list_measures([1.0, 2.0], [[2.0, 0.0], [1.0, 0.0]])["mrr"]
    0.75
    """
    own = _scores(positives, "positives", 1)
    rest = _scores(negatives, "negatives", 2)
    if len(own) != len(rest) or not rest.size:
        raise InputError(
            f"There are {len(own):,} positives and negatives of shape {rest.shape}.",
            hint="Give one row of negatives, with at least one, for every positive.",
        )
    above = np.count_nonzero(rest > own[:, None], axis=1)
    tied = np.count_nonzero(rest == own[:, None], axis=1)
    ranks = 1.0 + above + tied / 2.0
    hits = {f"hits@{k}": float(np.mean(ranks <= k)) for k in _LIST_KS}
    return {"mrr": float(np.mean(1.0 / ranks)), **hits}


def average_precision(counts: RankCounts) -> float:
    """Area under the precision-recall curve as scikit-learn defines it."""
    return float(_average_precision(counts))


def area_under_roc(counts: RankCounts) -> float:
    """Probability that a positive outscores a negative, a tie counting one half."""
    if counts.num_negatives == 0:
        raise InputError(
            "There are no negatives: every candidate is a positive.",
            hint="A ranking needs at least one pair that is not a link.",
        )
    return float(_area_under_roc(counts))


def precision_at(counts: RankCounts, k: int) -> float:
    """Return the expected share of positives among the k best candidates.

    Where k exceeds the number of candidates, missing places count as misses.
    """
    if k < 1:
        raise UsageError(f"precision at k needs k of at least 1, not {k}.")
    return float(_precision_at(counts, k))


def precision_at_ratio(counts: RankCounts, ratio: float) -> float:
    """Precision at ``k = ceil(ratio * positives)``."""
    if not ratio > 0:
        raise UsageError(f"A precision ratio must be positive, not {ratio}.")
    return precision_at(counts, _places(counts, ratio))


def hits_at(counts: RankCounts, k: int) -> float:
    """Share of positives that score strictly above the k-th best negative.

    With fewer than k negatives there is no such negative, and every positive hits.
    """
    if k < 1:
        raise UsageError(f"hits at k needs k of at least 1, not {k}.")
    return float(_hits_at(counts, k))


def mean_reciprocal_rank(counts: RankCounts) -> float:
    """Mean over positives of the inverse rank among all negatives."""
    return float(_mean_reciprocal_rank(counts))


def tied_share(counts: RankCounts) -> float:
    """Share of positives that tie with at least one negative."""
    tied = np.sum(counts.positives[counts.tied > 0])
    return float(tied / _positives(counts))


def random_precision(counts: RankCounts) -> float:
    """Average precision to expect of a random order: the share of positives."""
    return _positives(counts) / (_positives(counts) + counts.num_negatives)


def measures(counts: RankCounts) -> dict[str, Any]:
    """Return every measure by name: ap, auc, mrr, prec@10%, ..., hits@25, ...

    Where ``above`` and ``tied`` have a first axis of several rankings of the same
    positives, so have the values.
    """
    places = {f"prec@{r:.0%}": _places(counts, r) for r in PRECISION_RATIOS}
    return {
        "ap": _average_precision(counts),
        "auc": _area_under_roc(counts),
        "mrr": _mean_reciprocal_rank(counts),
        **{name: _precision_at(counts, k) for name, k in places.items()},
        **{f"hits@{k}": _hits_at(counts, k) for k in HITS_KS},
    }


def precision_recall_curve(counts: RankCounts) -> tuple[FloatArray, FloatArray]:
    """Return precision and recall at every distinct positive score, best first."""
    return _precision_recall(counts)


def roc_curve(counts: RankCounts) -> tuple[FloatArray, FloatArray]:
    """Return false and true positive rates at every distinct positive score."""
    false_rate = (counts.above + counts.tied) / max(counts.num_negatives, 1)
    true_rate = np.cumsum(counts.positives) / _positives(counts)
    return false_rate, true_rate


def _average_precision(counts: RankCounts) -> Any:
    precision, _ = _precision_recall(counts)
    return np.sum(precision * counts.positives, axis=-1) / _positives(counts)


def _area_under_roc(counts: RankCounts) -> Any:
    below = counts.num_negatives - counts.above - counts.tied
    wins = np.sum((below + 0.5 * counts.tied) * counts.positives, axis=-1)
    return wins / (_positives(counts) * counts.num_negatives)


def _precision_at(counts: RankCounts, k: int) -> Any:
    positives_above = np.cumsum(counts.positives) - counts.positives
    before = counts.above + positives_above
    group = counts.tied + counts.positives
    share = np.clip((k - before) / group, 0.0, 1.0)
    return np.sum(share * counts.positives, axis=-1) / k


def _places(counts: RankCounts, ratio: float) -> int:
    # 0.1 * 30 is 3.0000000000000004: a hair above a whole number is that number.
    return math.ceil(ratio * _positives(counts) - 1e-9)


def _hits_at(counts: RankCounts, k: int) -> Any:
    hit = counts.above + counts.tied < k
    return np.sum(hit * counts.positives, axis=-1) / _positives(counts)


def _mean_reciprocal_rank(counts: RankCounts) -> Any:
    rank = 1.0 + counts.above + counts.tied / 2.0
    return np.sum(counts.positives / rank, axis=-1) / _positives(counts)


def _precision_recall(counts: RankCounts) -> tuple[FloatArray, FloatArray]:
    found = np.cumsum(counts.positives)
    precision = found / (found + counts.above + counts.tied)
    return precision, found / _positives(counts)


def _positives(counts: RankCounts) -> int:
    if counts.num_positives == 0:
        raise InputError(
            "There are no positives to rank.",
            hint="The held-out part is empty: hold out a larger share of the edges.",
        )
    return counts.num_positives


def _scores(given: Any, name: str, dimensions: int) -> FloatArray:
    scores = np.asarray(given, dtype=np.float64)
    if scores.ndim != dimensions:
        raise InputError(
            f"{name} has shape {scores.shape}, but must have {dimensions} "
            f"dimension{'s' if dimensions > 1 else ''}."
        )
    if np.isnan(scores).any():
        place = np.argwhere(np.isnan(scores))[0].tolist()
        raise InputError(
            f"{name} is not a number at place {place}.",
            hint="Every pair needs a score that can be compared.",
        )
    return scores
