"""What is kept of a dense row of scores: its best values, and pairs worth a look."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def hide_known(rows: Any, graph: Any, scores: Any) -> None:
    """Set the scores of a row with itself and with its neighbours to -inf."""
    indptr, indices = graph
    for i in range(rows.size):
        u = rows[i]
        scores[i, u] = -np.inf
        for a in range(indptr[u], indptr[u + 1]):
            scores[i, indices[a]] = -np.inf


@numba.njit(cache=True, nogil=True)
def worthwhile(
    rows: Any, scores: Any, tenth: Any, most: int, bounds: Any, out: Any
) -> int:
    """Write the keys of pairs that are among the best of a row, or of all rows.

    Parameters
    ----------
    rows : (b,) int64
    scores : (b, n) float32
        With -inf where a pair is known.
    tenth : (b,) float32
        The ``most``-th best score of each row.
    most : int
        How many of each row to keep; ties go by column.
    bounds : (floor, everywhere)
        Scores up to the floor are never kept; above ``everywhere`` always.
    out : int64
        Keys ``min * n + max``; filled.

    Returns
    -------
    int
        How many keys were filled; more than fit are not written.
    """
    floor, everywhere = bounds
    n = scores.shape[1]
    count = 0
    for i in range(rows.size):
        u, row, last = rows[i], scores[i], tenth[i]
        room = most
        for v in range(n):
            if row[v] > last:
                room -= 1
        least = min(last, everywhere)
        for v in range(n):
            # Nearly all scores end here: they are neither.
            if row[v] < least or row[v] <= floor:
                continue
            keep = row[v] > everywhere or row[v] > last
            if row[v] == last and room > 0:
                room -= 1
                keep = True
            if keep and count < out.size:
                out[count] = min(u, v) * n + max(u, v)
                count += 1
    return count


@numba.njit(cache=True, nogil=True)
def levels(nodes: Any, scores: Any, lists: Any, grid: Any, out: Any) -> None:
    """Write the rank of scores in lists, and what share of the best score they are.

    Parameters
    ----------
    nodes : (p,) int64
        Whose list.
    scores : (p,) float32
    lists : (n, g) float32
        The scores at the ranks of the grid, descending.
    grid : (g,) float32
        Ranks.
    out : (p, 2) float32
        Rank (of the first place that is not better), and score / best score.
    """
    for p in range(nodes.size):
        best = lists[nodes[p]]
        # Rows and pairs are summed in different orders: equal up to a few bits.
        score = scores[p] + np.float32(1e-5) * abs(scores[p])
        low, high = 0, grid.size
        while low < high:
            middle = (low + high) // 2
            if best[middle] > score:
                low = middle + 1
            else:
                high = middle
        out[p, 0] = grid[low] if low < grid.size else 2 * grid[-1]
        top = best[0]
        out[p, 1] = scores[p] / top if top > 0 and np.isfinite(top) else 0.0


@numba.njit(cache=True, nogil=True)
def merge_near(rows: Any, near: Any, own: Any, upper: bool, out: Any) -> None:
    """Put scores of listed pairs in the place of near ones, or beside them.

    Parameters
    ----------
    rows : (b,) int64
    near : (indptr, columns, scores)
        Near columns of the rows.
    own : (indptr, columns, scores)
        CSR over all nodes: the listed pairs, in both directions.
    upper : bool
        Only columns above the row.
    out : (indptr, columns, scores)
        Filled; room for the near and the listed columns of the rows.
    """
    indptr, columns, scores = near
    own_indptr, own_columns, own_scores = own
    out_indptr, out_columns, out_scores = out
    place = np.full(own_indptr.size - 1, -1, dtype=np.int64)
    filled = 0
    out_indptr[0] = 0
    for i in range(rows.size):
        for slot in range(indptr[i], indptr[i + 1]):
            out_columns[filled] = columns[slot]
            out_scores[filled] = scores[slot]
            place[columns[slot]] = filled
            filled += 1
        for slot in range(own_indptr[rows[i]], own_indptr[rows[i] + 1]):
            v = own_columns[slot]
            if upper and v < rows[i]:
                continue
            at = place[v]
            if at < 0:
                at = filled
                out_columns[at] = v
                filled += 1
            out_scores[at] = own_scores[slot]
        for slot in range(indptr[i], indptr[i + 1]):
            place[columns[slot]] = -1
        out_indptr[i + 1] = filled
