"""What BScNets and TLC-GNN share: two convolutions, and a net of squared differences.

A pair's distance is ``|w . leaky(M (e_u - e_v)^2 + b) + b'|`` with e of norm at most
1; its logit is that of a Fermi-Dirac decoder of temperature 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers import products
from gelato.baselines.shared_layers.decoders import DifferenceNetScorer
from gelato.graph import IntArray
from gelato.kernels.chunks import NUM_CHUNKS, run_rows
from gelato.kernels.tiles import column_tiles, from_inner_tiles, inner_shape
from gelato.nn.messages import SparseMatrix

RADIUS = 2.0  # of the Fermi-Dirac decoder
FURTHEST = 40.0  # distance beyond which training tells pairs no more apart
SLOPE = 0.2  # of the leaky activation

# Weights and bias of a layer.
Layer = tuple[Tensor, Tensor]


def convolve_twice(
    average: SparseMatrix,
    features: SparseMatrix,
    first: Layer,
    second: Layer,
    *,
    dropout: float,
) -> Tensor:
    """Return two graph convolutions, each with dropout before and a ReLU behind."""
    # Zeros stay zeros, so that only filled entries need to be dropped.
    values = dropped(features.values, dropout) if dropout else None
    hidden = average.times(features.times(first[0], values)) + first[1]
    hidden = dropped(hidden.relu(), dropout)
    return (average.times(hidden @ second[0]) + second[1]).relu()


def dropped(x: Tensor, share: float) -> Tensor:
    """Return entries times ``1 / (1 - share)``, a share of them dropped.

    As torch's dropout does it, by draws of single precision: a third of its time on
    processors that are not Intel's.
    """
    if not share:
        return x
    kept = torch.rand_like(x).ge_(share)
    return x * kept.mul_(1.0 / (1.0 - share))


def at_most_one(x: Tensor) -> Tensor:
    """Shrink rows longer than 1 to length 1."""
    lengths = (x * x).sum(dim=1, keepdim=True).clamp_min(1e-30).sqrt()
    return x * lengths.reciprocal().clamp_max(1.0)


def start_net(*layers: nn.Linear) -> None:
    """Give layers their first weights: Xavier's normal rule, no bias."""
    for layer in layers:
        nn.init.xavier_normal_(layer.weight)
        nn.init.zeros_(layer.bias)


class _Net(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pairs: Tensor, *net: Tensor) -> Tensor:
        ctx.save_for_backward(pairs, *net)
        out = net[0].new_empty(len(pairs))
        given = (*pairs.numpy().T, _net_arrays(*net), out.numpy())
        run_rows(products.training_net, _bounds(len(pairs)), *given)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        pairs, states, mix, bias, weights = ctx.saved_tensors
        upstream = gradients[0].contiguous().numpy()
        own = tuple(
            np.zeros((NUM_CHUNKS, *shape), upstream.dtype)
            for shape in (states.shape, inner_shape(*mix.shape), (2, len(bias)))
        )
        net = _net_arrays(states, mix, bias, weights)
        given = (*pairs.numpy().T, net, upstream)
        work = products.training_net_backward
        run_rows(work, _bounds(len(pairs)), *given, own=own)
        by_state, by_mix, by_unit = (part.sum(axis=0) for part in own)
        found = (by_state, from_inner_tiles(by_mix, *mix.shape), *by_unit)
        return None, *(torch.from_numpy(np.ascontiguousarray(x)) for x in found)


def _net_arrays(
    states: Tensor, mix: Tensor, bias: Tensor, weights: Tensor
) -> tuple[Any, ...]:
    """Return the net as kernels take it."""
    given = [x.detach().contiguous().numpy() for x in (states, mix, bias, weights)]
    tiles = (column_tiles(given[1].T), column_tiles(given[1]))
    return given[0], *tiles, *given[2:], given[0].dtype.type(SLOPE)


def _bounds(count: int) -> IntArray:
    return np.arange(NUM_CHUNKS + 1, dtype=np.int64) * count // NUM_CHUNKS


def net_of_pairs(states: Tensor, pair: Layer, out: nn.Linear, pairs: Tensor) -> Tensor:
    """Return the net's output ``(K, 1)`` for many pairs, which holds no unit of them.

    Parameters
    ----------
    states : (n, d) Tensor
        Of nodes.
    pair : (weights, bias)
        First layer, of squared differences.
    out : Linear
        Second layer.
    pairs : (K, 2) int64 Tensor
    """
    net = (states, *pair, out.weight[0])
    found: Tensor = _Net.apply(pairs, *net)  # type: ignore[no-untyped-call]
    return found[:, None] + out.bias


def net_of_units(units: Tensor, out: nn.Linear) -> Tensor:
    """Return the net's output ``(K, 1)`` from hidden units before activation."""
    output: Tensor = out(functional.leaky_relu(units, SLOPE))
    return output


def net_logits(output: Tensor, *, training: bool) -> Tensor:
    """Return Fermi-Dirac logits ``(K, 1)`` from the net's output."""
    distance = output.abs()
    if training:
        distance = distance.clamp_max(FURTHEST)
    return RADIUS - distance


def net_scorer(
    states: Tensor, mix: Tensor, bias: Tensor, out: nn.Linear
) -> DifferenceNetScorer:
    """Return minus the distance of pairs, not clamped.

    Parameters
    ----------
    states : (n, d) Tensor
        Of nodes.
    mix, bias : (units, d) and (units,) Tensor
        First layer of the net.
    out : Linear
        Its second layer.
    """
    return DifferenceNetScorer(
        states.double().numpy(),
        mix.detach().double().T.contiguous().numpy(),
        bias.detach().double().numpy(),
        out.weight.detach()[0].double().numpy(),
        float(out.bias.detach()),
        SLOPE,
    )
