"""Scores of the pairs that a walk of exactly ``steps`` edges joins, row by row.

With A the adjacency matrix and F a diagonal of node factors, row u of
``A (F A)^(steps - 1)`` is built by pushing sparse rows one edge at a time; only
the nodes that are reached are ever touched. Common neighbours, Adamic-Adar,
resource allocation and autocovariance are all of this form.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def reach_bounds(indptr: Any, indices: Any, steps: int) -> Any:
    """Bound the number of nodes that each node reaches in exactly ``steps`` edges.

    The number of walks, capped by n; the sum over rows bounds memory and time.
    """
    n = indptr.size - 1
    walks = np.ones(n)
    for _ in range(steps):
        following = np.zeros(n)
        for u in range(n):
            total = 0.0
            for slot in range(indptr[u], indptr[u + 1]):
                total += walks[indices[slot]]
            following[u] = min(total, float(n))
        walks = following
    return walks.astype(np.int64)


@numba.njit(cache=True, nogil=True)
def _push(
    indptr: Any,
    indices: Any,
    data: Any,
    node: int,
    value: float,
    above: int,
    out: Any,
    touched: Any,
    count: int,
) -> int:
    """Add ``value * A[node, v]`` to every v above a bound; list new entries.

    Rows are sorted, so that walking them from the end stops at the bound.
    """
    slot, start = indptr[node + 1] - 1, indptr[node]
    while slot >= start and indices[slot] > above:
        v = indices[slot]
        before = out[v]
        after = before + value * data[slot]
        out[v] = after
        # Without a branch: the entry is kept only where it was empty before.
        touched[count] = v
        count += (before == 0.0) & (after > 0.0)
        slot -= 1
    return count


@numba.njit(cache=True, nogil=True)
def near_rows(
    rows: Any,
    indptr: Any,
    indices: Any,
    data: Any,
    factor: Any,
    steps: int,
    upper: bool,
    out_indptr: Any,
    out_columns: Any,
    out_walks: Any,
) -> None:
    """Write the columns each row reaches, with the weight of the walks.

    Parameters
    ----------
    rows : (b,) int64
        Rows to score.
    indptr, indices, data
        CSR of A with sorted indices and positive values.
    factor : (n,) float64
        Diagonal of F.
    steps : int
        Number of edges of a walk, at least 1.
    upper : bool
        Only columns larger than the row.
    out_indptr : (b + 1,) int64
        Filled with the extent of every row.
    out_columns, out_walks
        Filled; as large as the sum of :func:`reach_bounds` over the rows.
    """
    n = indptr.size - 1
    current = np.zeros(n)
    following = np.zeros(n)
    touched = np.empty(n + 1, dtype=np.int32)
    touched_next = np.empty(n + 1, dtype=np.int32)
    filled = 0
    out_indptr[0] = 0
    for i in range(rows.size):
        u = rows[i]
        current[u] = 1.0
        touched[0] = u
        count = 1
        for step in range(steps):
            above = u if upper and step == steps - 1 else -1
            count_next = 0
            for j in range(count):
                k = touched[j]
                value = current[k] if step == 0 else current[k] * factor[k]
                current[k] = 0.0
                count_next = _push(
                    indptr, indices, data, k, value, above,
                    following, touched_next, count_next,
                )  # fmt: skip
            current, following = following, current
            touched, touched_next = touched_next, touched
            count = count_next
        for j in range(count):
            v = touched[j]
            if v != u:
                out_columns[filled] = v
                out_walks[filled] = current[v]
                filled += 1
            current[v] = 0.0
        out_indptr[i + 1] = filled


# Scores keep 40 significant bits (relative error 5e-13). The same walks summed in
# another order differ in their last bits; rounding makes such pairs the ties that
# they are, in whatever order they were summed.
_DROPPED_BITS = 52 - 40


@numba.njit(cache=True, nogil=True)
def finish_scores(
    rows: Any,
    indptr: Any,
    columns: Any,
    values: Any,
    multiplier: float,
    scale: float,
    left: Any,
    right: Any,
) -> None:
    """Turn walk weights into scores: ``multiplier * walks + scale * l_u * r_v``."""
    bits = values.view(np.int64)
    half = np.int64(1) << (_DROPPED_BITS - 1)
    mask = ~((np.int64(1) << _DROPPED_BITS) - 1)
    for i in range(rows.size):
        u = rows[i]
        for slot in range(indptr[i], indptr[i + 1]):
            far = scale * (left[u] * right[columns[slot]])
            values[slot] = multiplier * values[slot] + far
            bits[slot] = (bits[slot] + half) & mask


@numba.njit(cache=True, nogil=True)
def pick_near(
    indptr: Any, columns: Any, scores: Any, pair_rows: Any, pair_columns: Any, out: Any
) -> None:
    """Fill ``out`` with the scores of pairs that are in a near block.

    ``pair_rows`` holds positions within the block, ascending. Entries of pairs that
    are not near are left as they are.
    """
    n = 0
    for slot in range(indptr[-1]):
        n = max(n, columns[slot] + 1)
    place = np.full(n, -1, dtype=np.int64)
    p = 0
    while p < pair_rows.size:
        i = pair_rows[p]
        for slot in range(indptr[i], indptr[i + 1]):
            place[columns[slot]] = slot
        while p < pair_rows.size and pair_rows[p] == i:
            v = pair_columns[p]
            if v < n and place[v] >= 0:
                out[p] = scores[place[v]]
            p += 1
        for slot in range(indptr[i], indptr[i + 1]):
            place[columns[slot]] = -1
