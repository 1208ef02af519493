"""Neo-GNN: learned overlaps of neighbourhoods beside graph convolutions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.neo_gnn.overlaps import pair_overlaps
from gelato.baselines.neo_gnn.structure import Inputs, NeoScorer, reach_levels
from gelato.baselines.shared_layers.decoders import ProductNet
from gelato.baselines.shared_layers.link_module import LinkModule, glorot, pick
from gelato.baselines.shared_layers.messages import (
    SparseMatrix,
    node_features,
    symmetric_average,
)
from gelato.baselines.shared_layers.network import LEARNING_RATES, GNNModel
from gelato.graph import Graph
from gelato.parameters import Dimension, flag, number, unlisted, whole

# Above this share of filled entries a dense product is faster.
_DENSE_ABOVE = 0.25

# What the graph gives, states of nodes, their structural weights.
States = tuple[Inputs, Tensor, Tensor]


class NeoGNNModule(LinkModule):
    """A structural score and a score of features, mixed by learned shares."""

    chunked = True

    def __init__(
        self,
        graph: Graph,
        *,
        features: str,
        normalise: bool,
        hidden: int,
        layers: int,
        edge_units: int,
        pair_units: int,
        dropout: float,
        beta: float,
    ) -> None:
        super().__init__(graph, features, normalise=normalise)
        self.dropout, self.beta = dropout, beta
        widths = [self.num_features] + [hidden] * layers
        self.weights = nn.ParameterList(glorot(*width) for width in pairwise(widths))
        self.biases = nn.ParameterList(
            nn.Parameter(torch.zeros(hidden)) for _ in range(layers)
        )
        self.of_edge = _scalar(edge_units)
        self.of_node = _scalar(pair_units)
        self.of_overlap = _scalar(pair_units)
        self.shares = nn.Parameter(torch.zeros(2))
        self.predictor = nn.ModuleList(
            [nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)]
        )
        # The reference's predictor has two scalars that it never uses; they are kept
        # so that its published number of parameters can be checked.
        self.predictor.register_parameter("unused", nn.Parameter(torch.zeros(2)))

    def prepare(self, graph: Graph) -> Inputs:
        """Return overlaps' matrix, histogram of its values, and averaged features."""
        reach, levels, histogram = reach_levels(graph, self.beta)
        average = symmetric_average(graph)
        features = node_features(graph, self.features, normalise=self.normalise)
        self.feature_matrix(graph)  # refuses other attributes than those of training
        smoothed = sp.csr_array(average @ features)
        filled = smoothed.nnz / max(1, smoothed.shape[0] * smoothed.shape[1])
        return Inputs(
            reach,
            torch.from_numpy(levels)[:, None],
            SparseMatrix(histogram, np.float64),
            SparseMatrix(average),
            torch.from_numpy(smoothed.toarray().astype(np.float32))
            if filled > _DENSE_ABOVE
            else SparseMatrix(smoothed),
        )

    def encode(self, inputs: Inputs) -> States:
        """Return states of nodes and their structural weights."""
        return self._encode(inputs, None)

    def encode_ends(self, inputs: Inputs, pairs: Tensor) -> States:
        """Leave states of nodes that are in no pair at 0, if they are most."""
        nodes = torch.unique(pairs)
        few = 2 * len(nodes) < inputs.average.shape[0]
        return self._encode(inputs, nodes if few else None)

    def _encode(self, inputs: Inputs, nodes: Tensor | None) -> States:
        smoothed, average = inputs.smoothed, inputs.average
        first = self.weights[0]
        if isinstance(smoothed, SparseMatrix):
            states = smoothed.times(first)
        else:
            states = smoothed @ first
        states = states + self.biases[0]
        later = list(zip(self.weights[1:], self.biases[1:], strict=True))
        for i, (weights, bias) in enumerate(later, 1):
            states = functional.dropout(states.relu(), self.dropout, self.training)
            if nodes is None or i < len(later):
                states = average.times(states @ weights) + bias
            else:
                own = average.rows(nodes).times(states) @ weights + bias
                states = torch.zeros_like(states).index_copy(0, nodes, own)
        # Equal values of A + beta A^2 give equal terms: one evaluation per level.
        structure = inputs.histogram.times(self.of_edge(inputs.levels))
        return inputs, states, self.of_node(structure)[:, 0]

    def decode(self, states: States, pairs: Tensor) -> Tensor:
        """Return the logits of structure, of features, and of their mixture."""
        inputs, hidden, weights = states
        overlaps = pair_overlaps(weights, inputs.reach, pairs)
        structure = self.of_overlap(overlaps[:, None])[:, 0]
        u, v = pick(hidden, pairs)
        x = u * v
        for layer in self.predictor[:-1]:
            x = functional.dropout(layer(x).relu(), self.dropout, self.training)
        feature = self.predictor[-1](x)[:, 0].double()
        shares = functional.log_softmax(self.shares.double(), dim=0)
        odds = [
            torch.logaddexp(
                shares[0] + functional.logsigmoid(sign * structure),
                shares[1] + functional.logsigmoid(sign * feature),
            )
            for sign in (1, -1)
        ]
        return torch.stack([structure, feature, odds[0] - odds[1]], dim=1)

    def clip_groups(self) -> list[Iterable[nn.Parameter]]:
        """Return the predictor's parameters apart from all others."""
        own = list(self.predictor.parameters())
        mine = {id(parameter) for parameter in own}
        return [[p for p in self.parameters() if id(p) not in mine], own]

    def scorer(self, states: States) -> NeoScorer:
        """Return the logit of the mixed probability."""
        inputs, hidden, weights = states
        layers = [_numbers(layer) for layer in self.predictor]
        slopes, shifts = _numbers(self.of_overlap[0])
        outer, last = _numbers(self.of_overlap[2])
        shares = functional.log_softmax(self.shares.detach().double(), dim=0)
        return NeoScorer(
            inputs.reach,
            weights.numpy(),
            (slopes[0], shifts),
            (outer[:, 0].copy(), float(last[0])),
            ProductNet(hidden.numpy(), layers),
            (float(shares[0]), float(shares[1])),
        )


def _numbers(layer: Any) -> tuple[Any, Any]:
    """Return the weights ``(in, out)`` and the bias of a linear layer."""
    weights = layer.weight.detach().numpy()
    return np.ascontiguousarray(weights.T), layer.bias.detach().numpy()


def _scalar(units: int) -> nn.Sequential:
    """Return a net from a number to a number, in double precision."""
    return nn.Sequential(nn.Linear(1, units), nn.ReLU(), nn.Linear(units, 1)).double()


class NeoGNN(GNNModel):
    """Neighbourhood-overlap aware network (Yun et al., 2021).

    Parameters
    ----------
    hidden, layers : int
        Units and number of graph convolutions.
    edge_units, pair_units : int
        Units of the small nets: on values of A + beta A^2; on nodes and overlaps.
    beta : float
        Weight of paths of two edges.
    dropout : float
        Share of hidden units left out in training.
    batch_size : int
        Positives per step where training is biased; ``batches`` is then the most
        steps per epoch, which need not see every positive.
    normalise : bool
        Divide rows of features by their sums.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> NeoGNN(layers=1)
    NeoGNN(layers=1)
    """

    name = "neo-gnn"
    summary = "learned neighbourhood overlaps and graph convolutions"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": Dimension((0.0, 0.1, 0.3), 0.0, 0.6, step=0.05),
        "weight_decay": Dimension((0.0, 1e-7, 1e-4)),
        "layers": unlisted(3, 1, 2),
        "hidden": unlisted(256, 64, 128),
    }
    presets: ClassVar = {}  # its authors give none for these graphs

    hidden: int = whole(256)
    layers: int = whole(3)
    edge_units: int = whole(8)
    pair_units: int = whole(128)
    beta: float = number(0.1, least=0)
    dropout: float = number(0.0, least=0, below=1)
    batch_size: int = whole(1024)
    normalise: bool = flag(False)
    batches: int = 50
    lr: float = 0.001
    validate_every: int = 5

    def _batching(self, num_edges: int) -> tuple[int, int]:
        if self.training == "biased":
            parts = -(-num_edges // self.batch_size)
            return parts, min(parts, self.batches)
        return super()._batching(num_edges)

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> NeoGNNModule:
        return NeoGNNModule(
            graph,
            features=self.features,
            normalise=self.normalise,
            hidden=self.hidden,
            layers=self.layers,
            edge_units=self.edge_units,
            pair_units=self.pair_units,
            dropout=self.dropout,
            beta=self.beta,
        )
