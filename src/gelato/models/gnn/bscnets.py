"""BScNets: graph convolutions beside an embedding by block Hodge Laplacians."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gelato.graph import Graph, IntArray
from gelato.models.gnn.base import GNNModel
from gelato.models.gnn.decoders import DifferenceNetScorer
from gelato.models.gnn.difference_net import (
    at_most_one,
    convolve_twice,
    net_logits,
    net_scorer,
    start_net,
)
from gelato.models.gnn.features import refuse_large, symmetric_average
from gelato.models.gnn.module import LinkModule, glorot, pick
from gelato.models.gnn.simplices import Peaks, prepare_simplices, sample_edges
from gelato.nn.ahead import Ahead
from gelato.nn.sparse_matrix import SparseMatrix

SIMPLEX_SHARE = 0.1  # weight of the simplicial embedding's differences
# Tables of e x e numbers alive at once in a step and ahead of it, and copies of every
# parameter (value, gradient, two moments of Adam, the best epoch's).
_TABLES, _COPIES = 14, 5


@dataclass(frozen=True, eq=False)
class Inputs:
    """Averages over neighbours, features, both Laplacians, and what comes of them.

    The simplicial embedding knows no dropout: validation computes it ahead of a step.
    """

    average: SparseMatrix
    features: SparseMatrix
    lower: Peaks
    upper: Peaks
    ahead: Ahead = field(default_factory=Ahead)


class BScNetsModule(LinkModule):
    """Two embeddings of nodes, and a small net on their squared differences."""

    chunked = True

    def __init__(
        self,
        graph: Graph,
        *,
        features: str,
        normalise: bool,
        hidden: int,
        dimensions: int,
        simplex_units: int,
        simplex_dimensions: int,
        pair_units: int,
        dropout: float,
        edges: IntArray,
    ) -> None:
        super().__init__(graph, features, normalise=normalise)
        self.dropout = dropout
        size = len(edges)
        refuse_block(size, self.num_features)
        self.sample: Tensor
        self.register_buffer("sample", torch.from_numpy(edges))
        self.first = glorot(self.num_features, hidden)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = glorot(hidden, dimensions)
        self.second_bias = nn.Parameter(torch.zeros(dimensions))
        self.lift = _kaiming(self.num_features, 2 * size)
        self.off = _kaiming(size, size)
        self.lower = _kaiming(size, simplex_units)
        self.upper = _kaiming(size, simplex_units)
        self.down = _kaiming(2 * size, simplex_dimensions)
        self.pair = nn.Linear(dimensions + simplex_dimensions, pair_units)
        self.out = nn.Linear(pair_units, 1)
        start_net(self.pair, self.out)
        share = torch.ones(dimensions + simplex_dimensions)
        share[dimensions:] = SIMPLEX_SHARE
        self.share: Tensor
        self.register_buffer("share", share, persistent=False)

    def prepare(self, graph: Graph) -> Inputs:
        """Return averages, features, and Laplacians of the sampled edges left."""
        return Inputs(
            SparseMatrix(symmetric_average(graph)),
            self.feature_matrix(graph),
            *prepare_simplices(self.sample.numpy(), graph),
        )

    def encode(self, inputs: Inputs) -> Tensor:
        """Return both embeddings side by side, each of norm at most 1."""
        convolved = convolve_twice(
            inputs.average,
            inputs.features,
            (self.first, self.first_bias),
            (self.second, self.second_bias),
            dropout=self.dropout if self.training else 0.0,
        )
        simplicial = inputs.ahead.value(
            lambda: self._simplicial(inputs),
            (self.lift, self.off, self.lower, self.upper, self.down),
            training=self.training,
        )
        parts = [at_most_one(convolved), at_most_one(simplicial)]
        return torch.cat(parts, dim=1)

    def _simplicial(self, inputs: Inputs) -> Tensor:
        """Return ``X E S W``, multiplied from the right, S never formed."""
        size = len(self.sample)
        lower = self.off @ inputs.lower.squared_times(self.lower)  # (e, units)
        across = lower @ inputs.upper.squared_times(self.upper).T  # (e, e)
        top, bottom = self.down[:size], self.down[size:]
        mixed = torch.cat(
            [
                inputs.lower.softmax_times(across, top, bottom),
                inputs.upper.softmax_times(across.T, bottom, top),
            ]
        )
        return inputs.features.times(self.lift @ mixed)

    def decode(self, states: Tensor, pairs: Tensor) -> Tensor:
        """Return Fermi-Dirac logits of the net's size."""
        u, v = pick(states, pairs)
        units = self.pair(self.share * (u - v) ** 2)
        return net_logits(units, self.out, training=self.training)

    def scorer(self, states: Tensor) -> DifferenceNetScorer:
        """Return minus the net's size, not clamped."""
        mix = self.pair.weight * self.share
        return net_scorer(states, mix, self.pair.bias, self.out)


def refuse_block(size: int, num_features: int) -> None:
    """Raise if the blocks of so many sampled edges will not fit into memory."""
    parameters = size * size + 2 * size * num_features
    refuse_large(
        f"BScNets with {size:,} sampled edges and {num_features:,} features",
        4.0 * (_TABLES * size * size + _COPIES * parameters),
        hint="Sample fewer edges: sampled_edges=2500.",
    )


def _kaiming(rows: int, columns: int) -> nn.Parameter:
    weights = torch.empty(rows, columns)
    nn.init.kaiming_uniform_(weights, a=math.sqrt(5), mode="fan_out")
    return nn.Parameter(weights)


@dataclass(kw_only=True, repr=False, eq=False)
class BScNets(GNNModel):
    """Block simplicial complex network (Chen et al., 2022), its version for cora.

    Parameters
    ----------
    hidden, dimensions : int
        Units of the two graph convolutions.
    simplex_units, simplex_dimensions : int
        Units between the Laplacians, and of the simplicial embedding.
    pair_units : int
        Hidden units of the net on pairs.
    dropout : float
        Share of inputs and hidden units left out in training.
    sampled_edges : int
        Directed edges drawn once, between which Laplacians are taken.
    normalise : bool
        Divide rows of features by their sums.
    **others
        See :class:`gelato.models.gnn.base.GNNModel`.

    Examples
    --------
    >>> BScNets(sampled_edges=1500)
    BScNets(sampled_edges=1500)
    """

    name = "bscnets"
    summary = "graph convolutions and block Hodge Laplacians of sampled edges"

    hidden: int = 64
    dimensions: int = 32
    simplex_units: int = 32
    simplex_dimensions: int = 8
    pair_units: int = 32
    dropout: float = 0.5
    sampled_edges: int = 2500
    normalise: bool = True
    lr: float = 0.005
    epochs: int = 2000
    patience: int | None = 200

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> BScNetsModule:
        if stored is not None and "sample" in stored:
            edges = stored["sample"].numpy()
        else:
            edges = sample_edges(graph, self.sampled_edges, self.seed)
        return BScNetsModule(
            graph,
            features=self.features,
            normalise=self.normalise,
            hidden=self.hidden,
            dimensions=self.dimensions,
            simplex_units=self.simplex_units,
            simplex_dimensions=self.simplex_dimensions,
            pair_units=self.pair_units,
            dropout=self.dropout,
            edges=edges,
        )
