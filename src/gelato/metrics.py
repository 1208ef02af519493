"""Measures of anybody's scores: labels beside scores, or positives beside negatives.

The definitions, ties included, are those of :func:`gelato.evaluate`; no graph is
needed. Counts come first, and every measure follows from them:

>>> counts = from_labels([1, 0, 1, 0], [0.9, 0.4, 0.3, 0.1])
>>> round(average_precision(counts), 4), area_under_roc(counts)
(0.8333, 0.75)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError
from gelato.graph import FloatArray
from gelato.ranking.counts import RankCounts, counts_of_scores
from gelato.ranking.metrics import (
    area_under_roc,
    average_precision,
    hits_at,
    mean_reciprocal_rank,
    measures,
    precision_at,
    precision_at_ratio,
    precision_recall_curve,
    roc_curve,
)

__all__ = [
    "area_under_roc",
    "average_precision",
    "from_labels",
    "from_scores",
    "hits_at",
    "mean_reciprocal_rank",
    "measures",
    "own_list_measures",
    "precision_at",
    "precision_at_ratio",
    "precision_recall_curve",
    "roc_curve",
]

_LIST_KS = (1, 3, 10, 20, 50, 100)


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
