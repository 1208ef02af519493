"""Near pairs, all of them, and a random share of the far ones, row by row.

A pair is near if at most two edges lead from one end to the other. Whether a far pair
is drawn depends on the key and the pair alone, so that a sample is the same however
rows are cut into blocks. Far pairs are counted, and listed only where drawn.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

from gelato.kernels.counting import allowed, mark_row
from gelato.kernels.random_bits import mix

_FIRST_ROOM = 1024


def draw_limit(rate: float) -> np.uint64:
    """Return the largest random bits that draw a pair at a rate of at most 1."""
    return np.uint64(min(int(rate * 2.0**64), 2**64 - 1))


@numba.njit(cache=True, nogil=True)
def _mark_near(marks, stamp, u, ahead):
    """Stamp the nodes that one or two edges lead to."""
    indptr, indices = ahead
    for slot in range(indptr[u], indptr[u + 1]):
        k = indices[slot]
        marks[k] = stamp
        mark_row(marks, stamp, k, indptr, indices)


@numba.njit(cache=True, nogil=True)
def _with_room(pairs, near, count):
    """Return both lists, longer if the first ``count`` entries fill them."""
    if count < len(near):
        return pairs, near
    more_pairs = np.empty((2 * count, 2), np.int64)
    more_near = np.empty(2 * count, np.bool_)
    more_pairs[:count] = pairs
    more_near[:count] = near
    return more_pairs, more_near


@numba.njit(cache=True, nogil=True)
def draw_rows(
    rows, excluded_indptr, excluded_indices, left, right, ordered, ahead, draw
):
    """List the near candidates of rows and the far ones that are drawn.

    Parameters
    ----------
    rows : int64
        Rows, ascending.
    excluded_indptr, excluded_indices, left, right, ordered
        Which pairs are candidates, as :func:`gelato.kernels.counting.count_dense`
        takes it.
    ahead : (indptr, indices)
        CSR of the edges that make pairs near.
    draw : (uint64, uint64)
        Key, and the largest bits that draw a far pair.

    Returns
    -------
    pairs : (k, 2) int64
        Sorted.
    near : (k,) bool
        Which of them are near.
    far : int
        Far candidates in all, drawn or not.
    """
    n, count, far = left.size, 0, 0
    marks = np.zeros(n, np.int64)
    pairs, near = np.empty((_FIRST_ROOM, 2), np.int64), np.empty(_FIRST_ROOM, np.bool_)
    for i in range(rows.size):
        u, close, barred = rows[i], 2 * i + 1, 2 * i + 2
        _mark_near(marks, close, u, ahead)
        mark_row(marks, barred, u, excluded_indptr, excluded_indices)
        key = mix(draw[0] ^ np.uint64(u))
        for v in range(0 if ordered else u + 1, n):
            if v == u or marks[v] == barred or not allowed(u, v, left, right, ordered):
                continue
            if marks[v] != close:
                far += 1
                if mix(key ^ np.uint64(v)) > draw[1]:
                    continue
            pairs, near = _with_room(pairs, near, count)
            pairs[count, 0], pairs[count, 1] = u, v
            near[count] = marks[v] == close
            count += 1
    return pairs[:count].copy(), near[:count].copy(), far


@numba.njit(cache=True, nogil=True)
def draw_listed(listed, num_nodes, ahead, draw):
    """Choose from listed candidates as :func:`draw_rows` does from rows.

    Parameters
    ----------
    listed : (k, 2) int64
        Sorted candidates.
    num_nodes : int
    ahead, draw
        As for :func:`draw_rows`.

    Returns
    -------
    kept, near : (k,) bool
        Which candidates are near or drawn, and which are near.
    """
    kept, near = np.zeros(len(listed), np.bool_), np.zeros(len(listed), np.bool_)
    marks = np.full(num_nodes, -1, np.int64)
    row, key = -1, np.uint64(0)
    for i in range(len(listed)):
        u, v = listed[i]
        if u != row:
            row, key = u, mix(draw[0] ^ np.uint64(u))
            _mark_near(marks, u, u, ahead)
        near[i] = marks[v] == u
        kept[i] = near[i] or mix(key ^ np.uint64(v)) <= draw[1]
    return kept, near
