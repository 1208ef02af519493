"""HGCN: graph convolutions in hyperbolic space (the Poincare ball)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers import hyperbolic as h
from gelato.baselines.shared_layers.decoders import BallScorer
from gelato.baselines.shared_layers.dots import pair_dots
from gelato.baselines.shared_layers.link_module import LinkModule, glorot, pick, zeros
from gelato.baselines.shared_layers.messages import SparseMatrix, row_average
from gelato.baselines.shared_layers.network import LEARNING_RATES, GNNModel
from gelato.graph import Graph
from gelato.models.trained import DROPOUTS
from gelato.parameters import Dimension, flag, number, unlisted, whole

# Averages over neighbours, features, norms of the features' rows.
Inputs = tuple[SparseMatrix, SparseMatrix, Tensor]
# Points of the last ball, and its curvature.
States = tuple[Tensor, Tensor]

RADIUS, TEMPERATURE = 2.0, 1.0  # of the Fermi-Dirac decoder


class HGCNModule(LinkModule):
    """Moebius layers, averages in the tangent space, one curvature per layer."""

    def __init__(self, graph: Graph, model: HGCN) -> None:
        super().__init__(graph, model.features, normalise=True)
        self.dropout = model.dropout
        widths = [self.num_features] + [model.dimensions] * model.layers
        self.weights = nn.ParameterList(
            glorot(out, width, gain=math.sqrt(2)) for width, out in pairwise(widths)
        )
        self.biases = zeros(*widths[1:])
        self.curvatures = h.curvatures(
            model.layers + 1, model.curvature, trainable=model.trainable_curvature
        )

    def prepare(self, graph: Graph) -> Inputs:
        """Return averages over neighbours, features, and norms of their rows."""
        features = self.feature_matrix(graph)
        return SparseMatrix(row_average(graph)), features, row_norms(features)

    def encode(self, inputs: Inputs) -> States:
        """Return points of the last ball, and its curvature."""
        average, features, norm = inputs
        c = h.positive_curvature(self.curvatures[0])
        # The lifted features are the features with rescaled rows, so that the first
        # layer stays a sparse product.
        scale = h.ball_exp_scale(norm, c)
        scale = scale * h.ball_shrink(norm * scale, c)
        product = scale * features.times(self._dropped(0).T)
        lengths = (norm * scale).clamp_min(1e-15)
        x = product
        for i, bias in enumerate(self.biases):
            if i:
                product, lengths = x @ self._dropped(i).T, h.norms(x)
            moved = h.mobius_image(product, lengths, c)
            shift = h.ball_exp(bias[None, :], c)
            moved = h.ball_project(h.mobius_add(moved, shift, c), c)
            mixed = h.ball_exp(average.times(h.ball_log(moved, c)), c)
            following = h.positive_curvature(self.curvatures[i + 1])
            x = h.ball_exp(h.ball_log(mixed, c).relu(), following)
            c = following
        return x, c

    def _dropped(self, layer: int) -> Tensor:
        return functional.dropout(self.weights[layer], self.dropout, self.training)

    def decode(self, states: States, pairs: Tensor) -> Tensor:
        """Return Fermi-Dirac logits of squared hyperbolic distances."""
        # In double precision: differences near the rim lose most digits.
        x, c = states[0].double(), states[1].double()
        squares = (x * x).sum(dim=1)
        u, v = pick(squares, pairs)
        apart = (u + v - 2 * pair_dots(x, x, pairs)).clamp_min(0.0)
        distance = h.ball_squared_distance(h.ball_gap(apart, u, v, c), c)
        return ((RADIUS - distance) / TEMPERATURE)[:, None]

    def scorer(self, states: States) -> BallScorer:
        """Return minus an increasing function of the distance."""
        return BallScorer(states[0].double().numpy(), float(states[1]))


def row_norms(matrix: SparseMatrix) -> Tensor:
    """Return the norm of every row of a sparse matrix, ``(n, 1)``."""
    ones = torch.ones(matrix.shape[1], 1)
    squares = matrix.times(ones, matrix.values * matrix.values)
    return squares.clamp_min(0.0).sqrt().clamp_min(1e-15)


class HGCN(GNNModel):
    """Hyperbolic graph convolutions (Chami et al., 2019).

    Parameters
    ----------
    dimensions, layers : int
        Width of every layer, and number of layers.
    dropout : float
        Share of the weights (not of the activations) left out in training.
    curvature : float
        Curvature c of the first ball, or of all of them.
    trainable_curvature : bool
        Learn one curvature per layer.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> HGCN(dropout=0.4)
    HGCN(dropout=0.4)
    """

    name = "hgcn"
    summary = "hyperbolic graph convolutions on the Poincare ball"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": DROPOUTS,
        "weight_decay": Dimension((1e-3, 0.0, 1e-4)),
        "dimensions": unlisted(16, 32, 64),
    }
    # Its authors' where they give any; elsewhere those for cora, the defaults.
    presets: ClassVar = {
        "pubmed": {"dropout": 0.4, "weight_decay": 1e-4, "trainable_curvature": False}
    }

    dimensions: int = whole(16)
    layers: int = whole(2)
    dropout: float = number(0.5, least=0, below=1)
    curvature: float = number(1.0, above=0)
    trainable_curvature: bool = flag(True)
    weight_decay: float = 1e-3
    epochs: int = 5000
    metric: str = "sampled-mean"
    patience: int | None = 100

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> HGCNModule:
        return HGCNModule(graph, self)
