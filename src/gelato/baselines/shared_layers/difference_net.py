"""What BScNets and TLC-GNN share: two convolutions, and a net of squared differences.

A pair's distance is ``|w . leaky(M (e_u - e_v)^2 + b) + b'|`` with e of norm at most
1; its logit is that of a Fermi-Dirac decoder of temperature 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers.decoders import DifferenceNetScorer
from gelato.baselines.shared_layers.messages import SparseMatrix

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


def net_logits(units: Tensor, out: nn.Linear, *, training: bool) -> Tensor:
    """Return Fermi-Dirac logits ``(K, 1)`` from hidden units before activation."""
    distance: Tensor = out(functional.leaky_relu(units, SLOPE)).abs()
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
