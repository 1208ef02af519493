"""A graph network in the place of the pair MLP (the paper names it as an option)."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.graph import Graph
from gelato.nn.first_layer import PairFeatures
from gelato.nn.messages import SparseMatrix, node_features, symmetric_average


class PairGCN(nn.Module):
    """Weighs pairs by two graph convolutions over the edges it may read.

    Parameters
    ----------
    graph : Graph
        Undirected, with attributes; its edges are read until :meth:`read` is called.
    hidden : int
        Units of each layer.
    dropout : float
        Share of the first layer's units that are dropped in training.
    seed : int
        Decides the initial weights.

    Examples
    --------
    >>> graph = Graph.from_indices(3, [(0, 1)], attributes=torch.eye(3).numpy())
    >>> model = PairGCN(graph, hidden=4)
    >>> model(PairFeatures(graph.attributes, [(0, 1), (1, 2)])).shape
    torch.Size([2])
    """

    def __init__(
        self, graph: Graph, *, hidden: int = 128, dropout: float = 0.5, seed: int = 0
    ) -> None:
        super().__init__()
        graph.require_undirected('Gelato with pair_model="gcn"')
        self.dropout = dropout
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.first = nn.Linear(graph.num_attributes, hidden)
            # Layers of attributes that are counts would else saturate at the start.
            self.norm1 = nn.LayerNorm(hidden)
            self.second = nn.Linear(hidden, hidden)
            self.norm2 = nn.LayerNorm(hidden)
            self.output = nn.Linear(hidden, 1)
        self._attributes: Any = None
        self.read(graph)

    def read(self, graph: Graph) -> None:
        """Let messages run over the edges of a graph from now on."""
        self._average = SparseMatrix(symmetric_average(graph))
        if self._attributes is not graph.attributes:  # hiding edges leaves them alone
            self._attributes = graph.attributes
            features = node_features(graph, "attributes", normalise=False)
            self._features = SparseMatrix(features)

    def states(self) -> Tensor:
        """Return the states of all nodes, (n, hidden)."""
        mapped = self._features.times(self.first.weight.T.contiguous())
        hidden = self.norm1(self._average.times(mapped) + self.first.bias).relu()
        hidden = functional.dropout(hidden, self.dropout, self.training)
        return cast(Tensor, self.norm2(self._average.times(self.second(hidden))))

    def forward(self, features: PairFeatures) -> Tensor:
        """Return the weight of every pair, (M,), each in (0, 1)."""
        states = self.states()
        u, v = torch.from_numpy(features.pairs).T
        return cast(Tensor, self.output(states[u] * states[v])[:, 0].sigmoid())
