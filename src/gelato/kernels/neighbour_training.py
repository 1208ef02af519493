"""Weighted common-neighbour sums at chosen pairs, and their exact gradient.

S[u, v] = sum over l of A[u, l] f_l A[l, v], with f a value per node: 1 for common
neighbours, a function of the degree for Adamic-Adar and resource allocation.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def score_neighbours(first, last, matrix, pairs, out):
    """Score the pairs of rows ``first .. last - 1``.

    Parameters
    ----------
    first, last : int
        Bounds of the rows.
    matrix : tuple
        ``(indptr, indices, weights, f)``.
    pairs : tuple
        ``(begin, offsets, columns)``, as in ``walk_training``.
    out : (K,) array
        Scores, row u at ``offsets[u]``.
    """
    indptr, indices, weights, f = matrix
    begin, offsets, columns = pairs
    c = np.zeros(f.shape[0], weights.dtype)
    for u in range(first, last):
        for s in range(indptr[u], indptr[u + 1]):
            c[indices[s]] = weights[s] * f[indices[s]]
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            total = weights.dtype.type(0)
            for s in range(indptr[v], indptr[v + 1]):
                total += c[indices[s]] * weights[s]
            out[offsets[u] + i] = total
        for s in range(indptr[u], indptr[u + 1]):
            c[indices[s]] = 0


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def pull_neighbours(first, last, matrix, pairs, gradient, by_slot, by_node):
    """Add the gradient with respect to slots of A, and to f, to two buffers."""
    indptr, indices, weights, f = matrix
    begin, offsets, columns = pairs
    c = np.zeros(f.shape[0], weights.dtype)
    q = np.zeros(f.shape[0], weights.dtype)
    for u in range(first, last):
        for s in range(indptr[u], indptr[u + 1]):
            c[indices[s]] = weights[s] * f[indices[s]]
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            g = gradient[offsets[u] + i]
            for s in range(indptr[v], indptr[v + 1]):
                q[indices[s]] += g * weights[s]
                by_slot[s] += g * c[indices[s]]
        for s in range(indptr[u], indptr[u + 1]):
            k = indices[s]
            by_slot[s] += f[k] * q[k]
            by_node[k] += weights[s] * q[k]
            c[k] = 0
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            for s in range(indptr[v], indptr[v + 1]):
                q[indices[s]] = 0
