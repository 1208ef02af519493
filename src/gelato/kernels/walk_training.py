"""Random-walk scores at chosen pairs, and their exact gradient, row by row.

Notation: A symmetric weights with loops, d its row sums, E = D^-1, vol = sum d.
For row u let c be row u of (A E)^(t-1), so that S[u, v] = sum over the neighbours l
of v of c[l] A[l, v], and R[u, v] = S[u, v] / vol - d_u d_v / vol^2.

The gradient is one-sided: each pair is visited once, at its row. With g over the
row's pairs (already divided by vol), T = (g A) E and H = (grad of c) follow by
scattering along the pairs' columns; the walk of c is then traversed backwards.
Memory is O(n) per thread and one gradient per slot of the matrix and chunk.

Nothing here knows about torch, masks or losses; ``kernels.walk_structure`` prepares
the matrix and ``nn.autocovariance`` gives the functions their autograd form.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = Any  # numba specialises on the dtype: float32 for speed, float64 for checks

# Sums may be reordered by the compiler (the order is fixed once compiled); nothing
# that would hide an infinite or undefined value is allowed.
_FAST = {"reassoc", "contract", "nsz"}


@numba.njit(cache=True, nogil=True, fastmath=_FAST, inline="always")
def _push(indptr, indices, values, k, factor, into):
    """Add ``factor`` times row k of a matrix to a dense buffer."""
    for s in range(indptr[k], indptr[k + 1]):
        into[indices[s]] += factor * values[s]


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _two_hop_cost(indptr, indices, u):
    cost = 0
    for s in range(indptr[u], indptr[u + 1]):
        k = indices[s]
        cost += indptr[k + 1] - indptr[k]
    return cost


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def walk_row(indptr, indices, reach, u, t, levels):
    """Fill ``levels[i]`` with row u of (A E)^(i+1), for the levels that are used.

    Row ``t - 2`` of ``levels`` is c; for t = 1, where c is the unit vector, it is
    row 0. Rows must be zero on entry. Level 0 is skipped for t > 2: it is row u of
    ``reach`` (= A E) itself.
    """
    if t == 1:
        levels[0, u] = 1
    elif t == 2:
        _push(indptr, indices, reach, u, 1, levels[0])
    else:
        c = levels[1]
        for s in range(indptr[u], indptr[u + 1]):
            _push(indptr, indices, reach, indices[s], reach[s], c)
        for i in range(2, t - 1):
            for k in range(levels.shape[1]):
                if levels[i - 1, k] != 0:
                    _push(indptr, indices, reach, k, levels[i - 1, k], levels[i])


@numba.njit(cache=True, nogil=True)
def _clear_walk(indptr, indices, u, t, levels):
    """Zero what ``walk_row`` wrote, at the lesser of two costs."""
    if t > 3 or _two_hop_cost(indptr, indices, u) * 4 > levels.shape[1]:
        levels[:] = 0
    elif t == 1:
        levels[0, u] = 0
    elif t == 2:
        for s in range(indptr[u], indptr[u + 1]):
            levels[0, indices[s]] = 0
    else:
        for s in range(indptr[u], indptr[u + 1]):
            k = indices[s]
            for r in range(indptr[k], indptr[k + 1]):
                levels[1, indices[r]] = 0


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _score_row(matrix, u, c, begin, columns, out):
    """Write R[u, v] for the row's pairs; return the sum of (2 - [u = v]) R^2."""
    indptr, indices, weights, _, degrees, volume = matrix
    per_volume = c.dtype.type(1 / volume)
    shift = c.dtype.type(degrees[u] / (volume * volume))
    squares = 0.0
    for i in range(out.shape[0]):
        v = columns[begin + i]
        total = c.dtype.type(0)
        for s in range(indptr[v], indptr[v + 1]):
            total += c[indices[s]] * weights[s]
        score = total * per_volume - shift * c.dtype.type(degrees[v])
        out[i] = score
        squares += (1.0 if v == u else 2.0) * (np.float64(score) * np.float64(score))
    return squares


@numba.njit(cache=True, nogil=True)
def forward_rows(first, last, matrix, t, pairs, out, squares):
    """Score the pairs of rows ``first .. last - 1``.

    Parameters
    ----------
    first, last : int
        Bounds of the rows.
    matrix : tuple
        ``(indptr, indices, weights, reach, degrees, volume)``, loops included;
        ``reach`` holds A E, slot by slot.
    t : int
        Length of the walk.
    pairs : tuple of (begin, offsets, columns)
        One or more lists of pairs by row: the pairs of row u have the columns
        ``columns[begin[u] : begin[u] + offsets[u + 1] - offsets[u]]``.
    out : tuple of (K,) arrays
        Scores of each list, row u at ``offsets[u]``.
    squares : (lists, n) float64
        Per list and row, sum of R^2, counted twice off the diagonal.
    """
    levels = np.zeros((max(1, t - 1), matrix[0].shape[0] - 1), matrix[2].dtype)
    c = levels[max(0, t - 2)]
    for u in range(first, last):
        wanted = 0
        for _, offsets, _ in pairs:
            wanted += offsets[u + 1] - offsets[u]
        if wanted == 0:
            continue
        walk_row(matrix[0], matrix[1], matrix[3], u, t, levels)
        begin, offsets, columns = pairs[0]
        row = out[0][offsets[u] : offsets[u + 1]]
        squares[0, u] = _score_row(matrix, u, c, begin[u], columns, row)
        begin, offsets, columns = pairs[1]
        row = out[1][offsets[u] : offsets[u + 1]]
        squares[1, u] = _score_row(matrix, u, c, begin[u], columns, row)
        _clear_walk(matrix[0], matrix[1], u, t, levels)


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _scatter_row(matrix, u, c, begin, columns, gradient, T, by_slot, by_degree):
    """Fold the gradients of a row's pairs into T, the last step and the degrees.

    Returns sum over v of g_v d_v.
    """
    indptr, indices, _, reach, degrees, volume = matrix
    per_volume = c.dtype.type(1 / volume)
    shift = degrees[u] / (volume * volume)
    weighted = 0.0
    for i in range(gradient.shape[0]):
        v = columns[begin + i]
        g = gradient[i] * per_volume
        for s in range(indptr[v], indptr[v + 1]):
            T[indices[s]] += g * reach[s]
        for s in range(indptr[v], indptr[v + 1]):
            by_slot[s] += g * c[indices[s]]
        by_degree[v] -= gradient[i] * shift
        weighted += gradient[i] * degrees[v]
    return weighted


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _pull_first_steps(matrix, u, T, by_slot, by_degree):
    """Pass T back through the middle step and the first one (t >= 3)."""
    indptr, indices, weights, reach, degrees, _ = matrix
    for first in range(indptr[u], indptr[u + 1]):
        k = indices[first]
        factor = reach[first]
        total = T.dtype.type(0)
        for s in range(indptr[k], indptr[k + 1]):
            value = T[indices[s]]
            total += weights[s] * value
            by_slot[s] += factor * value
        pulled = total / T.dtype.type(degrees[k])
        by_slot[first] += pulled
        by_degree[k] -= factor * pulled


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _pull_level(matrix, earlier, T, by_slot, by_degree, new):
    """Pass T back through one step of a long walk; ``new`` becomes the next T."""
    indptr, indices, weights, _, degrees, _ = matrix
    for k in range(T.shape[0]):
        total = T.dtype.type(0)
        for s in range(indptr[k], indptr[k + 1]):
            value = T[indices[s]]
            total += weights[s] * value
            by_slot[s] += earlier[k] * value
        new[k] = total / T.dtype.type(degrees[k])
        by_degree[k] -= earlier[k] * new[k]
    T[:] = new


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _fold_dot(c, T, dot):
    for k in range(c.shape[0]):
        dot[k] += c[k] * T[k]


@numba.njit(cache=True, nogil=True)
def _fold_dot_sparsely(indptr, indices, u, t, c, T, dot):
    """Add c * T to ``dot`` where the walk went (t <= 3), clearing c on the way."""
    for s in range(indptr[u], indptr[u + 1]):
        k = indices[s]
        if t < 3:
            dot[k] += c[k] * T[k]
            c[k] = 0
        else:
            for r in range(indptr[k], indptr[k + 1]):
                l = indices[r]  # noqa: E741 - the formulas call it l
                dot[l] += c[l] * T[l]
                c[l] = 0
    if t == 1:
        dot[u] += c[u] * T[u]
        c[u] = 0


@numba.njit(cache=True, nogil=True)
def _clear_columns(indptr, indices, begin, columns, count, T):
    """Zero the entries of T that the row's pairs can have touched."""
    for i in range(count):
        v = columns[begin + i]
        for s in range(indptr[v], indptr[v + 1]):
            T[indices[s]] = 0


@numba.njit(cache=True, nogil=True)
def _pull_row(matrix, u, t, levels, T, scratch, by_slot, by_degree):
    """Traverse the walk of row u backwards, from T down to its first step."""
    for i in range(t - 2, 1, -1):
        _pull_level(matrix, levels[i - 1], T, by_slot, by_degree, scratch)
    if t >= 3:
        _pull_first_steps(matrix, u, T, by_slot, by_degree)
    elif t == 2:
        for s in range(matrix[0][u], matrix[0][u + 1]):
            by_slot[s] += T[matrix[1][s]]


@numba.njit(cache=True, nogil=True)
def backward_rows(first, last, matrix, t, pairs, gradients, by_slot, by_degree, dot):
    """Add the gradient of rows ``first .. last - 1`` to three buffers.

    Parameters
    ----------
    first, last, matrix, t, pairs
        As for :func:`forward_rows`.
    gradients : tuple of (K,) arrays
        Gradient with respect to R at each list's pairs.
    by_slot : (nnz,) array
        Gradient with respect to each slot of A, degrees held fixed.
    by_degree : (n,) float64
        Gradient with respect to d, except what ``dot`` holds.
    dot : (n,) array
        Sum over rows of c * T: minus the gradient with respect to d that passes
        through the last inverse degree; ``dot . d`` is <gradient, S> / vol.

    Returns
    -------
    float
        Sum of g d_u d_v over the pairs.
    """
    n = matrix[0].shape[0] - 1
    levels = np.zeros((max(1, t - 1), n), matrix[2].dtype)
    c = levels[max(0, t - 2)]
    T = np.zeros(n, matrix[2].dtype)
    scratch = np.zeros(n if t > 3 else 0, matrix[2].dtype)
    degrees, volume = matrix[4], matrix[5]
    products = 0.0
    for u in range(first, last):
        wanted = 0
        for _, offsets, _ in pairs:
            wanted += offsets[u + 1] - offsets[u]
        if wanted == 0:
            continue
        walk_row(matrix[0], matrix[1], matrix[3], u, t, levels)
        begin, offsets, columns = pairs[0]
        g = gradients[0][offsets[u] : offsets[u + 1]]
        weighted = _scatter_row(
            matrix, u, c, begin[u], columns, g, T, by_slot, by_degree
        )
        begin, offsets, columns = pairs[1]
        g = gradients[1][offsets[u] : offsets[u + 1]]
        weighted += _scatter_row(
            matrix, u, c, begin[u], columns, g, T, by_slot, by_degree
        )
        by_degree[u] -= weighted / (volume * volume)
        products += weighted * degrees[u]
        dense = t > 3 or _two_hop_cost(matrix[0], matrix[1], u) * 4 > n
        if dense:
            _fold_dot(c, T, dot)
        _pull_row(matrix, u, t, levels, T, scratch, by_slot, by_degree)
        if dense:
            levels[:] = 0
        else:
            _fold_dot_sparsely(matrix[0], matrix[1], u, t, c, T, dot)
        if dense or wanted * 4 > n:
            T[:] = 0
        else:
            for begin, offsets, columns in (pairs[0], pairs[1]):
                count = offsets[u + 1] - offsets[u]
                _clear_columns(matrix[0], matrix[1], begin[u], columns, count, T)
    return products
