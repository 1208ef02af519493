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
def work_arrays(num_nodes: int) -> Any:
    """Return the arrays that walking a row needs: two of values, two of nodes.

    The values are all 0 between rows; who reads them sets them back to 0.
    """
    return (
        np.zeros(num_nodes),
        np.zeros(num_nodes),
        np.empty(num_nodes + 1, dtype=np.int32),
        np.empty(num_nodes + 1, dtype=np.int32),
    )


@numba.njit(cache=True, nogil=True)
def walk_from(u: int, walks: Any, done: int, steps: int, above: int, work: Any) -> Any:
    """Walk on from a node, or go on with a walk that has come ``done`` steps.

    Parameters
    ----------
    u : int
        Where walks start.
    walks : (indptr, indices, data, factor)
        CSR of A with sorted indices and positive values, and the diagonal of F.
    done, steps : int
        Steps that ``work`` holds already, if any, and how many it is to hold.
    above : int
        The last step only reaches nodes above this one; -1 for all.
    work : (values, values, nodes, nodes, count)
        What :func:`work_arrays` made, or this function returned.

    Returns
    -------
    values, spare, touched, spare_touched, count
        ``values`` of the first ``count`` nodes in ``touched`` are filled.
    """
    indptr, indices, data, factor = walks
    current, following, touched, touched_next, count = work
    if done == 0:
        current[u] = 1.0
        touched[0] = u
        count = 1
    for step in range(done, steps):
        bound = above if step == steps - 1 else -1
        count_next = 0
        for j in range(count):
            k = touched[j]
            value = current[k] if step == 0 else current[k] * factor[k]
            current[k] = 0.0
            count_next = _push(
                indptr, indices, data, k, value, bound,
                following, touched_next, count_next,
            )  # fmt: skip
        current, following = following, current
        touched, touched_next = touched_next, touched
        count = count_next
    return current, following, touched, touched_next, count


@numba.njit(cache=True, nogil=True)
def near_rows(
    rows: Any,
    walks: Any,
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
    walks : (indptr, indices, data, factor)
        As for :func:`walk_from`.
    steps : int
        Number of edges of a walk, at least 1.
    upper : bool
        Only columns larger than the row.
    out_indptr : (b + 1,) int64
        Filled with the extent of every row.
    out_columns, out_walks
        Filled; as large as the sum of :func:`reach_bounds` over the rows.
    """
    first, second, nodes, more_nodes = work_arrays(walks[0].size - 1)
    work = (first, second, nodes, more_nodes, 0)
    filled = 0
    out_indptr[0] = 0
    for i in range(rows.size):
        u = rows[i]
        work = walk_from(u, walks, 0, steps, u if upper else -1, work)
        values, _, touched, _, count = work
        for j in range(count):
            v = touched[j]
            if v != u:
                out_columns[filled] = v
                out_walks[filled] = values[v]
                filled += 1
            values[v] = 0.0
        out_indptr[i + 1] = filled


# Scores keep 40 significant bits (relative error 5e-13). The same walks summed in
# another order differ in their last bits; rounding makes such pairs the ties that
# they are, in whatever order they were summed.
_DROPPED_BITS = 52 - 40
HALF = np.int64(1) << (_DROPPED_BITS - 1)
KEPT = ~((np.int64(1) << _DROPPED_BITS) - 1)
"""The bits of a rounded score are ``(bits + HALF) & KEPT``."""


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
    for i in range(rows.size):
        u = rows[i]
        for slot in range(indptr[i], indptr[i + 1]):
            far = scale * (left[u] * right[columns[slot]])
            values[slot] = multiplier * values[slot] + far
            bits[slot] = (bits[slot] + HALF) & KEPT


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
