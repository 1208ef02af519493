"""The N-pair loss over groups of negatives, and its gradient, in three passes.

For a positive with score p and its group's negatives z_k, the loss is
log(1 + sum exp(z_k - p)) = log(sum exp(z_k - m) + exp(p - m)) + m - p, with m the
largest score of the group, the positive included: no exponential can overflow.
Negatives may carry a weight, and every group a further term in common, such as what
its far negatives add up to: log(1 + weight * sum exp(z_k - p) + exp(common - p)).
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from gelato.kernels.chunks import NUM_CHUNKS, run_chunks

Floats = npt.NDArray[Any]


@numba.njit(cache=True, nogil=True)
def _group_maxima(negatives, groups, largest):
    for i in range(negatives.shape[0]):
        g = np.uint32(groups[i])
        if negatives[i] > largest[g]:
            largest[g] = negatives[i]


@numba.njit(cache=True, nogil=True)
def _group_sums(negatives, groups, largest, scale, shares, sums):
    """Write exp(scale (z - m)) to ``shares`` and add it to its group's sum."""
    tiny = shares.dtype.type(1e-30)
    for i in range(negatives.shape[0]):
        g = np.uint32(groups[i])
        share = math.exp((negatives[i] - largest[g]) * scale)
        if share < tiny:  # denormal numbers would slow down all that follows
            share = tiny * 0
        shares[i] = share
        sums[g] += share


@numba.njit(cache=True, nogil=True)
def _finish_shares(negatives, groups, inverse, shares):
    """Divide the shares by their group's total; return sum of share * z."""
    dot = 0.0
    for i in range(negatives.shape[0]):
        share = shares[i] * inverse[np.uint32(groups[i])]
        shares[i] = share
        dot += np.float64(share) * np.float64(negatives[i])
    return dot


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _combine(gradient, scores, factor, coefficient):
    """Replace g by factor * g - coefficient * R."""
    for i in range(gradient.shape[0]):
        gradient[i] = factor * gradient[i] - coefficient * scores[i]


def through_deviation(
    gradient: Floats,
    scores: Floats,
    factor: float,
    coefficient: float,
) -> None:
    """Turn a gradient of z = R / sigma into one of R, in place.

    ``factor`` is 1 / sigma; ``coefficient`` times R is what passes through sigma.
    """
    dtype = gradient.dtype.type
    numbers = (dtype(factor), dtype(coefficient))

    def work(chunk: int, part: slice) -> None:
        _combine(gradient[part], scores[part], *numbers)

    _each_part(work, len(gradient))


class NPairTerms(NamedTuple):
    """The summed N-pair loss of a batch and its gradient."""

    total: float
    """Sum of the losses of the positives."""
    by_positive: Floats
    """(P,) gradient with respect to ``scale`` times each positive's score."""
    by_negative: Floats
    """(K,) the same for negatives."""
    dot: float
    """Sum of gradient times (unscaled) score over all of them."""
    by_common: float
    """Gradient with respect to ``common``."""


def n_pair_terms(
    positives: Floats,
    negatives: Floats,
    groups: npt.NDArray[np.int32],
    *,
    scale: float = 1.0,
    weight: float = 1.0,
    common: float = -math.inf,
) -> NPairTerms:
    """Return the summed N-pair loss of ``scale`` times the scores, and its gradient.

    Parameters
    ----------
    positives : (P,) float
        Scores of the positives.
    negatives : (K,) float
        Scores of the negatives.
    groups : (K,) int32
        The positive, 0 .. P-1, that each negative is compared with.
    scale : float
        A positive factor on all scores, such as 1 / sigma.
    weight : float
        How many negatives each of them stands for.
    common : float
        Logarithm of what every group's sum of exponentials has besides; not scaled.
    """
    dtype, count, size = negatives.dtype, len(positives), len(negatives)
    largest = np.repeat(positives[None], NUM_CHUNKS, axis=0)
    shares = np.empty(size, dtype)
    sums, dots = np.zeros((NUM_CHUNKS, count)), np.zeros(NUM_CHUNKS)

    def find_maxima(chunk: int, part: slice) -> None:
        _group_maxima(negatives[part], groups[part], largest[chunk])

    def add_up(chunk: int, part: slice) -> None:
        _group_sums(
            negatives[part], groups[part], top, factor, shares[part], sums[chunk]
        )

    def finish(chunk: int, part: slice) -> None:
        dots[chunk] = _finish_shares(
            negatives[part], groups[part], inverse, shares[part]
        )

    _each_part(find_maxima, size)
    top = np.maximum(largest.max(axis=0), dtype.type(common / scale))
    factor = dtype.type(scale)
    _each_part(add_up, size)
    gap = (top - positives).astype(np.float64) * scale
    own = np.exp(-gap)
    shared = np.exp(common - top.astype(np.float64) * scale)
    total = weight * sums.sum(axis=0) + own + shared
    inverse = (weight / total).astype(dtype)
    _each_part(finish, size)
    by_positive = own / total - 1.0
    dot = float(dots.sum() + by_positive @ positives.astype(np.float64))
    loss = float(np.sum(np.log(total) + gap))
    by_common = float(np.sum(shared / total))
    return NPairTerms(loss, by_positive.astype(dtype), shares, dot, by_common)


def _each_part(work: Callable[[int, slice], None], size: int) -> None:
    """Call ``work`` for each of a fixed number of parts of an array."""
    bounds = [size * i // NUM_CHUNKS for i in range(NUM_CHUNKS + 1)]
    run_chunks(lambda i: work(i, slice(bounds[i], bounds[i + 1])), NUM_CHUNKS)
