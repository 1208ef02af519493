"""Counting candidates between the scores of the positives, without listing them.

With T distinct thresholds in ascending order a score falls into one of 2T + 1
bins: bin 2i lies strictly between thresholds i - 1 and i, bin 2i + 1 holds what
ties with threshold i. The bins give, for every positive, how many candidates
score above it and how many tie with it, which is all that ranking needs.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

# The bit pattern of a magnitude, cut to its leading bits, indexes a table that
# narrows the search to a few thresholds: neighbouring floats have neighbouring
# patterns. A plain binary search would mispredict at every step.
_TABLE_SIZE = 1 << 14
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


@numba.njit(cache=True, nogil=True)
def _magnitude_table(magnitudes: Any) -> Any:
    """Build the table of ascending positive magnitudes.

    Returns ``(base, shift, starts)``: a bit pattern ``b`` from ``base`` on belongs to
    cell ``(b - base) >> shift``, and ``starts[cell]`` magnitudes lie in cells before.
    """
    bits = magnitudes.view(np.int64)
    if bits.size == 0:
        return _MAGNITUDE, np.int64(0), np.zeros(1, dtype=np.int32)
    base, shift = bits[0], np.int64(0)
    while (bits[-1] - base) >> shift >= _TABLE_SIZE:
        shift += 1
    cells = ((bits[-1] - base) >> shift) + 1
    starts = np.empty(cells + 1, dtype=np.int32)
    at = 0
    for cell in range(cells + 1):
        while at < bits.size and (bits[at] - base) >> shift < cell:
            at += 1
        starts[cell] = at
    return base, shift, starts


@numba.njit(cache=True, nogil=True)
def threshold_table(thresholds: Any) -> Any:
    """Return the tables of :func:`bin_of`, for positive and for negative scores."""
    negative = np.searchsorted(thresholds, 0.0, side="left")
    first = np.searchsorted(thresholds, 0.0, side="right")
    above = _magnitude_table(thresholds[first:].copy())
    below = _magnitude_table(-thresholds[:negative][::-1])
    return (first, *above, negative, *below)


@numba.njit(cache=True, nogil=True, inline="always")
def search(score: float, thresholds: Any, low: int, high: int) -> int:
    """Return the bin of a score that belongs between two positions."""
    while low < high:
        middle = (low + high) // 2
        if thresholds[middle] < score:
            low = middle + 1
        else:
            high = middle
    tied = low < thresholds.size and thresholds[low] == score
    return 2 * low + (1 if tied else 0)


@numba.njit(cache=True, nogil=True, inline="always")
def bin_of(score: float, bits: int, thresholds: Any, table: Any) -> int:
    """Return the bin of a score, given with its bit pattern."""
    first, base, shift, starts, negative, low_base, low_shift, low_starts = table
    if score > 0.0:
        if bits < base:
            return 2 * first
        cell = (bits - base) >> shift
        if cell >= starts.size - 1:
            return 2 * thresholds.size
        return search(score, thresholds, first + starts[cell], first + starts[cell + 1])
    if score < 0.0:
        magnitude = bits & _MAGNITUDE
        if magnitude < low_base:
            return 2 * negative
        cell = (magnitude - low_base) >> low_shift
        if cell >= low_starts.size - 1:
            return 0
        return search(
            score,
            thresholds,
            negative - low_starts[cell + 1],
            negative - low_starts[cell],
        )
    return search(score, thresholds, negative, first)


@numba.njit(cache=True, nogil=True)
def mark_row(marks: Any, stamp: int, row: int, indptr: Any, indices: Any) -> None:
    """Stamp the columns of one CSR row."""
    for slot in range(indptr[row], indptr[row + 1]):
        marks[indices[slot]] = stamp


@numba.njit(cache=True, nogil=True, inline="always")
def allowed(u: int, v: int, left: Any, right: Any, ordered: bool) -> bool:
    """Whether the node sets admit a pair; in either order unless ``ordered``."""
    return (left[u] and right[v]) or (not ordered and left[v] and right[u])


@numba.njit(cache=True, nogil=True)
def count_near(
    rows: Any,
    indptr: Any,
    columns: Any,
    scores: Any,
    excluded_indptr: Any,
    excluded_indices: Any,
    left: Any,
    right: Any,
    ordered: bool,
    scale: float,
    far_left: Any,
    far_right: Any,
    thresholds: Any,
    table: Any,
    bins: Any,
) -> int:
    """Add near candidates to the bins and take them out of the far ones.

    Every candidate is counted elsewhere as if it were far; a near one is therefore
    subtracted at its closed-form score and added at its own. Returns how many near
    candidates there were.
    """
    marks = np.zeros(left.size, dtype=np.int32)
    bits = scores.view(np.int64)
    unrestricted = left.all() and right.all()
    far = np.zeros(1)
    far_bits = far.view(np.int64)
    count = 0
    for i in range(rows.size):
        u = rows[i]
        mark_row(marks, i + 1, u, excluded_indptr, excluded_indices)
        for slot in range(indptr[i], indptr[i + 1]):
            v = columns[slot]
            if marks[v] == i + 1:
                continue
            if not unrestricted and not allowed(u, v, left, right, ordered):
                continue
            score = scores[slot]
            at = bin_of(score, bits[slot], thresholds, table)
            bins[at] += 1
            far[0] = scale * (far_left[u] * far_right[v])
            at = bin_of(far[0], far_bits[0], thresholds, table)
            bins[at] -= 1
            count += 1
    return count


@numba.njit(cache=True, nogil=True)
def count_dense(
    rows: Any,
    scores: Any,
    excluded_indptr: Any,
    excluded_indices: Any,
    left: Any,
    right: Any,
    ordered: bool,
    thresholds: Any,
    table: Any,
    bins: Any,
) -> None:
    """Add the candidates of dense rows to the bins."""
    n = left.size
    marks = np.zeros(n, dtype=np.int32)
    bits = scores.view(np.int64)
    for i in range(rows.size):
        u = rows[i]
        mark_row(marks, i + 1, u, excluded_indptr, excluded_indices)
        for v in range(0 if ordered else u + 1, n):
            if v == u or marks[v] == i + 1 or not allowed(u, v, left, right, ordered):
                continue
            score = scores[i, v]
            at = bin_of(score, bits[i, v], thresholds, table)
            bins[at] += 1


@numba.njit(cache=True, nogil=True)
def count_scores(
    scores: Any, thresholds: Any, table: Any, bins: Any, amount: int
) -> None:
    """Add ``amount`` to the bin of every score."""
    bits = scores.view(np.int64)
    for i in range(scores.size):
        at = bin_of(scores[i], bits[i], thresholds, table)
        bins[at] += amount


@numba.njit(cache=True, nogil=True)
def count_products(
    scale: float,
    lefts: Any,
    left_counts: Any,
    rights: Any,
    right_totals: Any,
    thresholds: Any,
    above: Any,
    at_least: Any,
) -> None:
    """Count, for every threshold, the products ``scale * (l * r)`` that exceed it.

    ``lefts`` and ``rights`` are distinct non-negative values, ordered so that the
    product falls along both (ascending where ``scale`` is negative, descending
    otherwise); ``right_totals[c]`` is how often the first c rights occur. Two
    staircases per threshold: rounding is monotone, so they are exact.
    """
    for i in range(thresholds.size):
        strict, loose = rights.size, rights.size
        for j in range(lefts.size):
            while strict > 0 and not (
                scale * (lefts[j] * rights[strict - 1]) > thresholds[i]
            ):
                strict -= 1
            while loose > 0 and not (
                scale * (lefts[j] * rights[loose - 1]) >= thresholds[i]
            ):
                loose -= 1
            if loose == 0:
                break
            above[i] += left_counts[j] * right_totals[strict]
            at_least[i] += left_counts[j] * right_totals[loose]
