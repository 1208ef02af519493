"""Differentiable products of node states: at pairs, over edges, over all pairs.

None of them holds a row per pair: memory follows the nodes and one number per pair.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gelato.baselines.shared_layers import products as kernels

_BLOCK = 1024  # rows and columns of a block of all pairs


class _PairDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, pairs: Tensor) -> Tensor:
        ctx.save_for_backward(left, right, pairs)
        out = left.new_empty(len(pairs))
        kernels.training_dots(*_arrays(left, right), *_ends(pairs), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right, pairs = ctx.saved_tensors
        by_left, by_right = torch.zeros_like(left), torch.zeros_like(right)
        kernels.pair_dots_backward(
            *_arrays(left, right),
            *_ends(pairs),
            *_arrays(gradients[0], by_left, by_right),
        )
        return by_left, by_right, None


class _MixEdges(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weights: Tensor, edges: Tensor) -> Tensor:
        ctx.save_for_backward(states, weights, edges)
        out = torch.zeros_like(states, memory_format=torch.contiguous_format)
        kernels.mix_edges(*_ends(edges), *_arrays(weights, states, out))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        states, weights, edges = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        by_states = torch.zeros_like(gradient)
        by_weights = torch.empty_like(weights)
        ends = _ends(edges)
        kernels.mix_edges(*ends, *_arrays(weights, gradient, by_states))
        kernels.mix_edges_backward(*ends, *_arrays(states, gradient, by_weights))
        return by_states, by_weights, None


class _SoftplusOfProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor) -> Tensor:
        n = len(states)
        slope = torch.zeros_like(states)
        total = torch.zeros((), dtype=torch.float64)
        for a in range(0, n, _BLOCK):
            one = states[a : a + _BLOCK]
            for b in range(a, n, _BLOCK):
                two = states[b : b + _BLOCK]
                products = one @ two.T
                # A block off the diagonal stands for its mirror image too.
                copies = 1.0 if a == b else 2.0
                total += copies * functional.softplus(products).double().sum()
                rates = products.sigmoid_()
                slope[a : a + _BLOCK].addmm_(rates, two, alpha=2.0)
                if a != b:
                    slope[b : b + _BLOCK].addmm_(rates.T, one, alpha=2.0)
        ctx.save_for_backward(slope)
        return total.to(states.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return cast(Tensor, slope * gradients[0])


def pair_dots(left: Tensor, right: Tensor, pairs: Tensor) -> Tensor:
    """Return the inner product of ``left[u]`` and ``right[v]`` for every pair.

    Parameters
    ----------
    left, right : (n, d) Tensor
        States of nodes.
    pairs : (K, 2) int64 Tensor
        Pairs (u, v).

    Examples
    --------
    >>> states = torch.eye(2)
    >>> pair_dots(states, states, torch.tensor([[0, 0], [0, 1]])).tolist()
    [1.0, 0.0]
    """
    return cast(Tensor, _PairDots.apply(left, right, pairs))  # type: ignore[no-untyped-call]


def mix_edges(states: Tensor, weights: Tensor, edges: Tensor) -> Tensor:
    """Return, for every node, the weighted sum of its neighbours' states.

    Parameters
    ----------
    states : (n, d) Tensor
        States of nodes.
    weights : (m,) Tensor
        Weight of every undirected edge.
    edges : (m, 2) int64 Tensor
        Each edge once.
    """
    return cast(Tensor, _MixEdges.apply(states, weights, edges))  # type: ignore[no-untyped-call]


def softplus_of_products(states: Tensor) -> Tensor:
    """Return ``sum over all u, v of log(1 + exp(<z_u, z_v>))``, ordered and diagonal.

    Block by block, with the gradient ``2 sigmoid(Z Z^T) Z`` found on the way: memory
    is one block, not n x n.
    """
    return cast(Tensor, _SoftplusOfProducts.apply(states))  # type: ignore[no-untyped-call]


def _ends(pairs: Tensor) -> tuple[Any, Any]:
    array = pairs.numpy()
    return array[:, 0], array[:, 1]


def _arrays(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(np.ascontiguousarray(tensor.detach().numpy()) for tensor in tensors)
