"""SEAL: a graph classifier on the labelled subgraph of each pair."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.seal.scorer import CHANNELS, WIDTH, SEALScorer
from gelato.baselines.shared_layers.link_module import glorot, zeros
from gelato.baselines.shared_layers.subgraph_model import (
    Neighbours,
    SubgraphModel,
    SubgraphModule,
    neighbours,
    packed_average,
)
from gelato.baselines.shared_layers.subgraphs import pack_subgraphs
from gelato.graph import FloatArray, Graph, IntArray
from gelato.nn.messages import FEATURES, SparseMatrix
from gelato.parameters import Dimension, choice, number, unlisted, whole

LABELS = 1000
"""Rows of the table of labels; larger labels share the last one."""
NO_FEATURES = "none"
# Share of the training subgraphs whose nodes are all kept by the sort pooling, and the
# fewest nodes that the convolutions after it can work on.
_WHOLE, _LEAST = 0.6, 2 * WIDTH
_SECOND, _UNITS = 32, 128

# The graph, and the first layer's product for every node, if it has features.
Inputs = tuple[Neighbours, SparseMatrix | None]
States = tuple[Neighbours, Tensor | None]


class SEALModule(SubgraphModule):
    """Four graph convolutions, sort pooling, two flat convolutions, two layers."""

    def __init__(self, graph: Graph, model: SEAL, top: int) -> None:
        features = None if model.features == NO_FEATURES else model.features
        super().__init__(graph, features, hops=model.hops, max_nodes=model.max_nodes)
        self.hidden, self.dropout, self.kept = model.hidden, model.dropout, top
        hidden = model.hidden
        self.register_buffer("top", torch.tensor(top))
        self.labels = nn.Embedding(LABELS, hidden)
        widths = [hidden + self.num_features, hidden, hidden, hidden, 1]
        self.weights = nn.ParameterList(glorot(*width) for width in pairwise(widths))
        self.biases = zeros(*widths[1:])
        self.per_node = nn.Linear(3 * hidden + 1, CHANNELS)
        self.second = nn.Conv1d(CHANNELS, _SECOND, WIDTH)
        self.inner = nn.Linear(_SECOND * (top // 2 - WIDTH + 1), _UNITS)
        self.outer = nn.Linear(_UNITS, 1)

    def prepare(self, graph: Graph) -> Inputs:
        """Return the graph's neighbours, and features if they are used."""
        used = self.num_features > 0
        return neighbours(graph), self.feature_matrix(graph) if used else None

    def encode(self, inputs: Inputs) -> States:
        """Return the first layer's product for every node."""
        graph, features = inputs
        if features is None:
            return graph, None
        return graph, features.times(self.weights[0][self.hidden :])

    def describe(self, states: States, pairs: Tensor) -> Tensor:
        """Return what the flat convolutions make of the nodes that are kept."""
        packed = pack_subgraphs(
            pairs.numpy(),
            states[0],
            hops=self.hops,
            limit=self.max_nodes,
            last_label=LABELS - 1,
        )
        rows = self.label_rows(int(packed.labels.max()) + 1)
        y = rows.index_select(0, torch.from_numpy(packed.labels))
        if states[1] is not None:
            y = y + states[1].index_select(0, torch.from_numpy(packed.nodes))
        layers = [torch.tanh(packed_average(packed, y) + self.biases[0])]
        for weights, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            layers.append(
                torch.tanh(packed_average(packed, layers[-1] @ weights) + bias)
            )
        kept, places = self._sort(layers[-1], packed.start, packed.owners)
        chosen = torch.cat([layer.index_select(0, kept) for layer in layers], dim=1)
        # The first flat convolution has the stride of its kernel: a map per node. A
        # missing node is a row of zeros, of which the bias is left.
        slots = len(pairs) * self.kept
        vectors = functional.linear(chosen, self.per_node.weight)
        rows = vectors.new_zeros(slots, CHANNELS).index_copy(0, places, vectors)
        rows = (rows + self.per_node.bias).relu().view(len(pairs), self.kept, CHANNELS)
        pooled = functional.max_pool1d(rows.transpose(1, 2), 2)
        found: Tensor = self.second(pooled).relu().flatten(1)
        return found

    def classify(self, described: Tensor) -> Tensor:
        """Return the logits of two linear layers."""
        units = self.inner(described).relu()
        logits: Tensor = self.outer(
            functional.dropout(units, self.dropout, self.training)
        )
        return logits

    def label_rows(self, count: int) -> Tensor:
        """Return the first layer's product for the first labels."""
        rows: Tensor = self.labels.weight[:count] @ self.weights[0][: self.hidden]
        return rows

    def scorer(self, states: States) -> SEALScorer:
        """Return the logits, pairs far apart by merging sorted balls."""
        return SEALScorer.of(self, *states)

    def _sort(
        self, keys: Tensor, start: IntArray, owners: IntArray
    ) -> tuple[Tensor, Tensor]:
        """Return the nodes with the largest keys of each pair, and their places."""
        order = np.lexsort((-keys.detach().numpy()[:, 0], owners))
        rank = np.arange(len(owners)) - start[owners]
        kept = np.flatnonzero(rank < self.kept)
        places = owners[kept] * self.kept + rank[kept]
        return torch.from_numpy(order[kept]), torch.from_numpy(places)


class SEAL(SubgraphModel):
    """Subgraph classification (Zhang and Chen, 2018), with DGCNN as classifier.

    Parameters
    ----------
    hidden : int
        Units of the graph convolutions.
    dropout : float
        Share of the last hidden units left out in training.
    features : {"none", "attributes", "one-hot", "degree"}
        What the network is given about nodes besides their labels.
    hops, max_nodes, batch_size, steps
        See :class:`gelato.baselines.shared_layers.subgraph_model.SubgraphModel`.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> SEAL(hops=2)
    SEAL(hops=2)
    """

    name = "seal"
    summary = "graph classifier on the labelled subgraph of each pair"
    copies = 2  # the reference lists positives in both directions

    search_space: ClassVar = {
        "lr": Dimension((0.0001, 0.001, 0.01), 2e-5, 2e-2, log=True),
        "hops": Dimension((1, 2, 3)),
        "features": Dimension((NO_FEATURES, "attributes")),
        "hidden": unlisted(32, 64, 256),
    }
    presets: ClassVar = {
        "cora": {"hops": 3, "hidden": 256, "features": "attributes"},
        "citeseer": {"hops": 3, "hidden": 256},
        "pubmed": {"hops": 3, "features": "attributes"},
    }

    hidden: int = whole(32)
    dropout: float = number(0.5, least=0, below=1)
    features: str = choice(NO_FEATURES, (NO_FEATURES, *FEATURES))
    lr: float = 0.0001

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> SEALModule:
        if stored is not None and "top" in stored:
            top = int(stored["top"])
        else:
            sizes = np.sort(self._measured(graph)[:, 0])
            top = max(_LEAST, int(sizes[math.ceil(_WHOLE * len(sizes)) - 1]))
        return SEALModule(graph, self, top)

    def _pair_bytes(self, sizes: IntArray) -> FloatArray:
        # Products, averages and states of three layers, with gradients; indices.
        bytes_each: FloatArray = sizes @ np.array([100.0 * self.hidden, 100.0])
        return bytes_each
