"""Weighted overlaps of neighbourhoods, and a scalar net, for Neo-GNN.

The overlap of u and v is ``sum_k (A_uk w_k)(A_vk w_k)``, k ascending: the same bits
in a list, in a row and with the ends exchanged.
"""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


@numba.njit(cache=True, nogil=True)
def shorter_first(indptr, u, v):  # type: ignore[no-untyped-def]
    """Return two nodes, the one with the shorter row first."""
    if indptr[u + 1] - indptr[u] <= indptr[v + 1] - indptr[v]:
        return u, v
    return v, u


@numba.njit(cache=True, nogil=True)
def overlaps(indptr, indices, values, weights, u, v, out):  # type: ignore[no-untyped-def]
    """Write the overlap of listed pairs; columns of a row ascend.

    The shorter row is spread out and met by the longer one: merging two sorted rows
    would guess wrong at every other branch. Columns that only the longer row has add
    0, which changes no bit.
    """
    spread = np.zeros(weights.shape[0])
    for p in range(u.shape[0]):
        few, many = shorter_first(indptr, u[p], v[p])
        for s in range(indptr[few], indptr[few + 1]):
            spread[indices[s]] = values[s] * weights[indices[s]]
        total = 0.0
        for s in range(indptr[many], indptr[many + 1]):
            total += spread[indices[s]] * (values[s] * weights[indices[s]])
        out[p] = total
        for s in range(indptr[few], indptr[few + 1]):
            spread[indices[s]] = 0.0


@numba.njit(cache=True, nogil=True)
def overlaps_backward(  # type: ignore[no-untyped-def]
    indptr, indices, values, weights, u, v, gradient, by_weight
):
    """Write the gradient of every node's weight."""
    by_weight[:] = 0.0
    spread = np.zeros(weights.shape[0])
    for p in range(u.shape[0]):
        few, many = shorter_first(indptr, u[p], v[p])
        for s in range(indptr[few], indptr[few + 1]):
            spread[indices[s]] = gradient[p] * values[s]
        for s in range(indptr[many], indptr[many + 1]):
            by_weight[indices[s]] += spread[indices[s]] * values[s]
        for s in range(indptr[few], indptr[few + 1]):
            spread[indices[s]] = 0.0
    for k in range(weights.shape[0]):
        by_weight[k] *= 2.0 * weights[k]


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


class _Overlaps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, matrix: sp.csr_array, pairs: Tensor
    ) -> Tensor:
        ctx.save_for_backward(weights, pairs)
        ctx.matrix = matrix
        out = weights.new_empty(len(pairs))
        overlaps(*_arguments(matrix, weights, pairs), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        weights, pairs = ctx.saved_tensors
        by_weight = torch.empty_like(weights)
        overlaps_backward(
            *_arguments(ctx.matrix, weights, pairs),
            gradients[0].contiguous().numpy(),
            by_weight.numpy(),
        )
        return by_weight, None, None


def pair_overlaps(weights: Tensor, matrix: sp.csr_array, pairs: Tensor) -> Tensor:
    """Return ``sum_k A_uk A_vk w_k^2`` for every pair (u, v).

    Parameters
    ----------
    weights : (n,) float64 Tensor
        w, of the nodes.
    matrix : CSR float64
        A, symmetric, with sorted indices.
    pairs : (K, 2) int64 Tensor
        Pairs (u, v).
    """
    return cast(Tensor, _Overlaps.apply(weights, matrix, pairs))  # type: ignore[no-untyped-call]


def _arguments(matrix: sp.csr_array, weights: Tensor, pairs: Tensor) -> tuple[Any, ...]:
    ends = pairs.numpy()
    return (
        matrix.indptr,
        matrix.indices,
        matrix.data,
        weights.detach().contiguous().numpy(),
        ends[:, 0],
        ends[:, 1],
    )
