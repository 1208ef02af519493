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
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

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
    total = sum(variance for variance, _ in parts)
    if total <= 0:
        return 0.0
    freedom = total**2 / sum(variance**2 / df for variance, df in parts)
    return float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(total)
