"""HGCN and LGCN: graph convolutions in hyperbolic space, in its two pictures.

HGCN works in the Poincare ball: that of curvature -c holds the x with
``c |x|^2 < 1``. LGCN works on the hyperboloid: that with squared radius c holds the
(x0, x) with ``-x0^2 + |x|^2 = -c`` and ``x0 > 0``; only x is kept, since x0 follows
from it. Everything here is differentiable, also in c.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers.decoders import BallScorer, ProductScorer
from gelato.baselines.shared_layers.dots import mix_edges, pair_dots
from gelato.baselines.shared_layers.link_module import LinkModule, glorot, pick, zeros
from gelato.baselines.shared_layers.network import LEARNING_RATES, GNNModel
from gelato.graph import Graph
from gelato.models.trained import DROPOUTS
from gelato.nn.messages import SparseMatrix, row_average
from gelato.parameters import Dimension, choice, flag, number, unlisted, whole

RADIUS = 2.0  # of the Fermi-Dirac decoder, whose temperature is 1
FURTHEST = 50.0  # squared distance beyond which LGCN tells pairs no more apart
SMALLEST_CURVATURE = 1e-4
_TINY = 1e-15
_MOST_TANH = 15.0
_MOST_ANGLE = 50.0
_MOST_NORM = 1000.0
# How far from the rim of the ball a point must stay, by precision.
_MARGINS = {torch.float32: 4e-3, torch.float64: 1e-5}


def positive_curvature(c: Tensor) -> Tensor:
    """Return a curvature that training may have pushed to 0 or below, made positive."""
    return c.clamp_min(SMALLEST_CURVATURE)


def curvatures(count: int, start: float, *, trainable: bool) -> nn.ParameterList:
    """Return the curvatures of some layers, learned or fixed."""
    return nn.ParameterList(
        nn.Parameter(torch.tensor(start), requires_grad=trainable) for _ in range(count)
    )


def norms(x: Tensor) -> Tensor:
    """Return the norm of every row, ``(n, 1)``, at least 1e-15.

    A row of zeros has the gradient zero, not a division by zero.
    """
    squares = (x * x).sum(dim=-1, keepdim=True)
    return squares.clamp_min(_TINY**2).sqrt().clamp_min(_TINY)


def _tanh(x: Tensor) -> Tensor:
    return x.clamp(-_MOST_TANH, _MOST_TANH).tanh()


def _artanh(x: Tensor) -> Tensor:
    # In double precision, as single precision rounds 1 - 1e-15 to 1.
    return x.double().clamp(-1 + _TINY, 1 - _TINY).atanh().to(x.dtype)


def ball_project(x: Tensor, c: Tensor) -> Tensor:
    """Return points moved inside the ball, away from its rim."""
    return x * ball_shrink(norms(x), c)


def ball_shrink(norm: Tensor, c: Tensor) -> Tensor:
    """Return the factor, at most 1, that keeps a point of some norm in the ball."""
    most = (1 - _MARGINS[norm.dtype]) / c.sqrt()
    return torch.where(norm > most, most / norm, torch.ones_like(norm))


def ball_exp(u: Tensor, c: Tensor) -> Tensor:
    """Return the points that tangent vectors at the origin lead to, projected."""
    norm = norms(u)
    return ball_project(u * ball_exp_scale(norm, c), c)


def ball_exp_scale(norm: Tensor, c: Tensor) -> Tensor:
    """Return the factor by which the exponential map shrinks a vector of some norm."""
    return _tanh(c.sqrt() * norm) / (c.sqrt() * norm)


def ball_log(x: Tensor, c: Tensor) -> Tensor:
    """Return the tangent vectors at the origin that lead to points."""
    norm = c.sqrt() * norms(x)
    return _artanh(norm) / norm * x


def mobius_add(x: Tensor, y: Tensor, c: Tensor) -> Tensor:
    """Return the Moebius sum of points."""
    xy = (x * y).sum(dim=-1, keepdim=True)
    xx = (x * x).sum(dim=-1, keepdim=True)
    yy = (y * y).sum(dim=-1, keepdim=True)
    top = (1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y
    return top / (1 + 2 * c * xy + c * c * xx * yy).clamp_min(_TINY)


def mobius_image(product: Tensor, norm: Tensor, c: Tensor) -> Tensor:
    """Return the Moebius image of points under a matrix M, projected.

    Parameters
    ----------
    product : (n, d) Tensor
        M x, which may come from a sparse product.
    norm : (n, 1) Tensor
        |x|.
    c : Tensor
        Curvature.
    """
    length = norms(product)
    root = c.sqrt()
    scale = _tanh(length / norm * _artanh(root * norm)) / (root * length)
    # Where M x = 0 the image is 0, although the scale is 0 / 0 in the limit.
    return ball_project(product * scale, c)


def ball_gap(squares: Tensor, u: Tensor, v: Tensor, c: Tensor) -> Tensor:
    """Return ``|u - v|^2 / ((1 - c |u|^2)(1 - c |v|^2))``, increasing in distance.

    Parameters
    ----------
    squares : Tensor
        ``|u - v|^2``.
    u, v : Tensor
        ``|u|^2`` and ``|v|^2``.
    c : Tensor
        Curvature.
    """
    return squares / ((1 - c * u) * (1 - c * v))


def ball_squared_distance(gap: Tensor, c: Tensor) -> Tensor:
    """Return the squared hyperbolic distance of pairs by their gap.

    ``d = (2 / sqrt(c)) arsinh(sqrt(c gap))``, which equals the form with artanh of a
    Moebius difference and that with arcosh, but loses no digits at short distances.
    """
    angle = (c * gap.clamp_min(_TINY)).sqrt().asinh()
    return 4 / c * angle * angle


def hyperboloid_exp(u: Tensor, c: Tensor) -> Tensor:
    """Return the spatial part of the points that tangent vectors lead to."""
    norm, root = norms(u), c.sqrt()
    angle = (norm / root).clamp_max(_MOST_ANGLE)
    # Capped before it meets the vector, whose squares would overflow otherwise.
    length = (root * angle.sinh()).clamp_max(_MOST_NORM)
    return length / norm * u


def hyperboloid_log(x: Tensor, c: Tensor) -> Tensor:
    """Return the tangent vectors at the origin that lead to points (spatial part)."""
    norm, root = norms(x), c.sqrt()
    # arcosh(x0 / r) = arsinh(|x| / r) on the hyperboloid, without its cancellation.
    return root * (norm / root).asinh() / norm * x


def hyperboloid_point(x: Tensor, c: Tensor) -> Tensor:
    """Return whole points ``(n, 1 + d)`` from their spatial part."""
    time = (c + (x * x).sum(dim=-1, keepdim=True)).sqrt()
    return torch.cat([time, x], dim=-1)


def reflected(points: Tensor) -> Tensor:
    """Return points with x0 negated: one factor of ``<x, y>_L`` as a plain product."""
    return torch.cat([-points[:, :1], points[:, 1:]], dim=-1)


def lorentz_normalised(mixture: Tensor, c: Tensor) -> Tensor:
    """Return weighted sums of points scaled back to the hyperboloid (centroids)."""
    square = (mixture * reflected(mixture)).sum(dim=-1, keepdim=True)
    return mixture * (c / square.abs().clamp_min(1e-6)).sqrt()


# Averages over neighbours, features, norms of the features' rows.
BallInputs = tuple[SparseMatrix, SparseMatrix, Tensor]
# Points of the last ball and its curvature; or spatial parts of points of the last
# hyperboloid and its squared radius.
States = tuple[Tensor, Tensor]


class HGCNModule(LinkModule):
    """Moebius layers, averages in the tangent space, one curvature per layer."""

    in_parts = True

    def __init__(self, graph: Graph, model: HGCN) -> None:
        super().__init__(graph, model.features, normalise=True)
        self.dropout = model.dropout
        widths = [self.num_features] + [model.dimensions] * model.layers
        self.weights = nn.ParameterList(
            glorot(out, width, gain=math.sqrt(2)) for width, out in pairwise(widths)
        )
        self.biases = zeros(*widths[1:])
        self.curvatures = curvatures(
            model.layers + 1, model.curvature, trainable=model.trainable_curvature
        )

    def prepare(self, graph: Graph) -> BallInputs:
        """Return averages over neighbours, features, and norms of their rows."""
        features = self.feature_matrix(graph)
        return SparseMatrix(row_average(graph)), features, row_norms(features)

    def encode(self, inputs: BallInputs) -> States:
        """Return points of the last ball, and its curvature."""
        average, features, norm = inputs
        c = positive_curvature(self.curvatures[0])
        # The lifted features are the features with rescaled rows, so that the first
        # layer stays a sparse product.
        scale = ball_exp_scale(norm, c)
        scale = scale * ball_shrink(norm * scale, c)
        product = scale * features.times(self._dropped(0).T)
        lengths = (norm * scale).clamp_min(1e-15)
        x = product
        for i, bias in enumerate(self.biases):
            if i:
                product, lengths = x @ self._dropped(i).T, norms(x)
            moved = mobius_image(product, lengths, c)
            shift = ball_exp(bias[None, :], c)
            moved = ball_project(mobius_add(moved, shift, c), c)
            mixed = ball_exp(average.times(ball_log(moved, c)), c)
            following = positive_curvature(self.curvatures[i + 1])
            x = ball_exp(ball_log(mixed, c).relu(), following)
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
        distance = ball_squared_distance(ball_gap(apart, u, v, c), c)
        return (RADIUS - distance)[:, None]

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


# Edges, and features.
LorentzInputs = tuple[Tensor, SparseMatrix]


class LGCNModule(LinkModule):
    """Lorentz layers, attention by distance, centroids in closed form."""

    in_parts = True

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
        self.curvatures = curvatures(
            layers + 1, model.curvature, trainable=model.trainable_curvature
        )

    def prepare(self, graph: Graph) -> LorentzInputs:
        """Return edges, whose weights are not used, and features."""
        return torch.from_numpy(graph.edges), self.feature_matrix(graph)

    def encode(self, inputs: LorentzInputs) -> States:
        """Return spatial parts of points of the last hyperboloid, and its radius."""
        edges, features = inputs
        # Rows of features have at most norm 1, so that lifting them and going back to
        # the tangent space changes nothing.
        moved = features.times(self._dropped(self.weights[0]).T)
        for i, bias in enumerate(self.biases):
            c = positive_curvature(self.curvatures[i])
            x = hyperboloid_exp(moved + bias, c)
            points = hyperboloid_point(x, c)
            weights = self._attention(i, x, c, edges)
            mixed = points + mix_edges(points, weights, edges)
            centroid = lorentz_normalised(mixed, c)[:, 1:]
            tangent = self.activation(hyperboloid_log(centroid, c))
            if i + 1 < len(self.weights):
                moved = tangent @ self._dropped(self.weights[i + 1]).T
        last = positive_curvature(self.curvatures[-1])
        return hyperboloid_exp(tangent, last), last

    def _attention(self, layer: int, x: Tensor, c: Tensor, edges: Tensor) -> Tensor:
        """Return a weight from 1/e to 1 per edge; that of a node with itself is 1."""
        matrix = self._dropped(self.attention[layer])
        tangent = hyperboloid_log(x, c) @ matrix.T + self.attention_biases[layer]
        points = hyperboloid_point(hyperboloid_exp(tangent, c), c)
        apart = -(c + pair_dots(reflected(points), points, edges))
        return (-apart.clamp(1e-10, 1.0)).exp()

    def _dropped(self, weights: Tensor) -> Tensor:
        return functional.dropout(weights, self.dropout, self.training)

    def decode(self, states: States, pairs: Tensor) -> Tensor:
        """Return Fermi-Dirac logits of squared Lorentz distances."""
        # In double precision: far from the origin the product loses most digits.
        x, c = states[0].double(), states[1].double()
        points = hyperboloid_point(x, c)
        distance = -2 * (c + pair_dots(reflected(points), points, pairs))
        if self.training:
            distance = distance.clamp(1e-6, FURTHEST)
        return (RADIUS - distance)[:, None]

    def scorer(self, states: States) -> ProductScorer:
        """Return the Lorentz product, decreasing in distance and not clamped."""
        x, c = states[0].double(), states[1].double()
        points = hyperboloid_point(x, c)
        return ProductScorer(reflected(points).numpy(), points.numpy())


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
