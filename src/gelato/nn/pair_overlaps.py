"""Overlaps of neighbourhoods at listed pairs, differentiable in the weights."""

from __future__ import annotations

from typing import Any, cast

import scipy.sparse as sp
import torch
from torch import Tensor

from gelato.kernels import pair_overlaps as kernels


class _Overlaps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, matrix: sp.csr_array, pairs: Tensor
    ) -> Tensor:
        ctx.save_for_backward(weights, pairs)
        ctx.matrix = matrix
        out = weights.new_empty(len(pairs))
        kernels.overlaps(*_arguments(matrix, weights, pairs), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        weights, pairs = ctx.saved_tensors
        by_weight = torch.empty_like(weights)
        kernels.overlaps_backward(
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
