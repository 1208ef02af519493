"""LGCN: graph convolutions on the hyperboloid, by Lorentz centroids."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers import hyperbolic as h
from gelato.baselines.shared_layers.decoders import ProductScorer
from gelato.baselines.shared_layers.dots import mix_edges, pair_dots
from gelato.baselines.shared_layers.link_module import LinkModule, glorot, zeros
from gelato.baselines.shared_layers.messages import SparseMatrix
from gelato.baselines.shared_layers.network import LEARNING_RATES, GNNModel
from gelato.graph import Graph
from gelato.models.trained import DROPOUTS
from gelato.parameters import Dimension, choice, flag, number, unlisted, whole

# Edges, and features.
Inputs = tuple[Tensor, SparseMatrix]
# Spatial parts of the points of the last hyperboloid, and its squared radius.
States = tuple[Tensor, Tensor]

RADIUS = 2.0  # of the Fermi-Dirac decoder, whose temperature is 1
FURTHEST = 50.0  # squared distance beyond which training tells pairs no more apart


class LGCNModule(LinkModule):
    """Lorentz layers, attention by distance, centroids in closed form."""

    def __init__(self, graph: Graph, model: LGCN) -> None:
        super().__init__(graph, model.features, normalise=True)
        self.dropout = model.dropout
        self.activation = getattr(functional, model.activation)
        dimensions, layers = model.dimensions, model.layers
        widths = [self.num_features] + [dimensions] * layers
        gain = math.sqrt(2)
        self.weights = nn.ParameterList(
            glorot(out, width, gain=gain) for width, out in pairwise(widths)
        )
        self.attention = nn.ParameterList(
            glorot(dimensions, dimensions, gain=gain) for _ in range(layers)
        )
        self.biases, self.attention_biases = zeros(*widths[1:]), zeros(*widths[1:])
        self.curvatures = h.curvatures(
            layers + 1, model.curvature, trainable=model.trainable_curvature
        )

    def prepare(self, graph: Graph) -> Inputs:
        """Return edges, whose weights are not used, and features."""
        return torch.from_numpy(graph.edges), self.feature_matrix(graph)

    def encode(self, inputs: Inputs) -> States:
        """Return spatial parts of points of the last hyperboloid, and its radius."""
        edges, features = inputs
        # Rows of features have at most norm 1, so that lifting them and going back to
        # the tangent space changes nothing.
        moved = features.times(self._dropped(self.weights[0]).T)
        for i, bias in enumerate(self.biases):
            c = h.positive_curvature(self.curvatures[i])
            x = h.hyperboloid_exp(moved + bias, c)
            points = h.hyperboloid_point(x, c)
            weights = self._attention(i, x, c, edges)
            mixed = points + mix_edges(points, weights, edges)
            centroid = h.lorentz_normalised(mixed, c)[:, 1:]
            tangent = self.activation(h.hyperboloid_log(centroid, c))
            if i + 1 < len(self.weights):
                moved = tangent @ self._dropped(self.weights[i + 1]).T
        last = h.positive_curvature(self.curvatures[-1])
        return h.hyperboloid_exp(tangent, last), last

    def _attention(self, layer: int, x: Tensor, c: Tensor, edges: Tensor) -> Tensor:
        """Return a weight from 1/e to 1 per edge; that of a node with itself is 1."""
        matrix = self._dropped(self.attention[layer])
        tangent = h.hyperboloid_log(x, c) @ matrix.T + self.attention_biases[layer]
        points = h.hyperboloid_point(h.hyperboloid_exp(tangent, c), c)
        apart = -(c + pair_dots(h.reflected(points), points, edges))
        return (-apart.clamp(1e-10, 1.0)).exp()

    def _dropped(self, weights: Tensor) -> Tensor:
        return functional.dropout(weights, self.dropout, self.training)

    def decode(self, states: States, pairs: Tensor) -> Tensor:
        """Return Fermi-Dirac logits of squared Lorentz distances."""
        # In double precision: far from the origin the product loses most digits.
        x, c = states[0].double(), states[1].double()
        points = h.hyperboloid_point(x, c)
        distance = -2 * (c + pair_dots(h.reflected(points), points, pairs))
        if self.training:
            distance = distance.clamp(1e-6, FURTHEST)
        return (RADIUS - distance)[:, None]

    def scorer(self, states: States) -> ProductScorer:
        """Return the Lorentz product, decreasing in distance and not clamped."""
        x, c = states[0].double(), states[1].double()
        points = h.hyperboloid_point(x, c)
        return ProductScorer(h.reflected(points).numpy(), points.numpy())


class LGCN(GNNModel):
    """Lorentzian graph convolutions (Zhang et al., 2021).

    Parameters
    ----------
    dimensions, layers : int
        Spatial width of every layer, and number of layers.
    dropout : float
        Share of the weights (not of the activations) left out in training.
    activation : {"relu", "elu"}
        Applied in the tangent space, after the last layer too.
    curvature : float
        Squared radius c of the first hyperboloid, or of all of them.
    trainable_curvature : bool
        Learn one squared radius per layer.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> LGCN(weight_decay=1e-4)
    LGCN(weight_decay=0.0001)
    """

    name = "lgcn"
    summary = "Lorentzian graph convolutions on the hyperboloid"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": DROPOUTS,
        "weight_decay": Dimension((0.0, 1e-4, 1e-3)),
        "dimensions": unlisted(64, 16, 32),
        "activation": unlisted("relu", "elu"),
    }
    presets: ClassVar = {}  # one published command, for pubmed, which is the default

    dimensions: int = whole(64)
    layers: int = whole(2)
    dropout: float = number(0.5, least=0, below=1)
    activation: str = choice("relu", ("relu", "elu"))
    curvature: float = number(1.0, above=0)
    trainable_curvature: bool = flag(True)
    lr: float = 0.005
    epochs: int = 3000
    metric: str = "sampled-mean"
    patience: int | None = 200

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> LGCNModule:
        return LGCNModule(graph, self)
