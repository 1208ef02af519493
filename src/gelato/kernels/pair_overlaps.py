"""Weighted overlaps of neighbourhoods, and a scalar net, for Neo-GNN.

The overlap of u and v is ``sum_k (A_uk w_k)(A_vk w_k)``, k ascending: the same bits
in a list, in a row and with the ends exchanged.
"""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def overlaps(indptr, indices, values, weights, u, v, out):  # type: ignore[no-untyped-def]
    """Write the overlap of listed pairs; columns of a row ascend."""
    for p in range(u.shape[0]):
        i, end_i = indptr[u[p]], indptr[u[p] + 1]
        j, end_j = indptr[v[p]], indptr[v[p] + 1]
        total = 0.0
        while i < end_i and j < end_j:
            if indices[i] < indices[j]:
                i += 1
            elif indices[i] > indices[j]:
                j += 1
            else:
                w = weights[indices[i]]
                total += (values[i] * w) * (values[j] * w)
                i += 1
                j += 1
        out[p] = total


@numba.njit(cache=True, nogil=True)
def overlaps_backward(  # type: ignore[no-untyped-def]
    indptr, indices, values, weights, u, v, gradient, by_weight
):
    """Add the gradient of every node's weight."""
    for p in range(u.shape[0]):
        i, end_i = indptr[u[p]], indptr[u[p] + 1]
        j, end_j = indptr[v[p]], indptr[v[p] + 1]
        while i < end_i and j < end_j:
            if indices[i] < indices[j]:
                i += 1
            elif indices[i] > indices[j]:
                j += 1
            else:
                k = indices[i]
                by_weight[k] += gradient[p] * 2.0 * values[i] * values[j] * weights[k]
                i += 1
                j += 1


@numba.njit(cache=True, nogil=True)
def overlap_rows(rows, indptr, indices, values, weights, out):  # type: ignore[no-untyped-def]
    """Write the overlaps of rows with all nodes, for a symmetric matrix."""
    out[:] = 0.0
    for i in range(rows.shape[0]):
        for s in range(indptr[rows[i]], indptr[rows[i] + 1]):
            k = indices[s]
            w = weights[k]
            factor = values[s] * w
            for t in range(indptr[k], indptr[k + 1]):
                out[i, indices[t]] += factor * (values[t] * w)


@numba.njit(cache=True, nogil=True)
def scalar_net(values, slopes, shifts, weights, bias, out):  # type: ignore[no-untyped-def]
    """Write ``bias + sum_j weights[j] max(slopes[j] x + shifts[j], 0)`` for every x."""
    out[:] = bias
    for j in range(slopes.shape[0]):
        slope, shift, weight = slopes[j], shifts[j], weights[j]
        for i in range(values.shape[0]):
            out[i] += weight * max(slope * values[i] + shift, 0.0)
