"""NCN: states of nodes, and the states of common neighbours summed for every pair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers.decoders import TiledScorer
from gelato.baselines.shared_layers.difference_net import dropped
from gelato.baselines.shared_layers.link_module import LinkModule, pick
from gelato.baselines.shared_layers.network import LEARNING_RATES, HidingModel
from gelato.baselines.shared_layers.normed_net import (
    NormedLayer,
    RowLayer,
    RowOutput,
    linear_arrays,
    rows_of,
)
from gelato.graph import FloatArray, Graph
from gelato.kernels.compiled import kernel
from gelato.nn.messages import (
    SparseMatrix,
    adjacency_pattern,
    symmetric_average,
)
from gelato.parameters import Dimension, flag, number, whole

Table = npt.NDArray[np.float32]


@kernel()
def pool_tile(u, start, indptr, indices, states, place, nodes, pooled):  # type: ignore[no-untyped-def]
    """Sum the states of the common neighbours of u and every node of a tile.

    Rows of ``pooled`` belong to the columns ``start + nodes[i]`` that have any; their
    number is returned. Neighbours are added in ascending order, whichever end is u.

    Parameters
    ----------
    u, start : int
        A node, and the first column of the tile.
    indptr, indices
        CSR of the graph, indices ascending.
    states : (n, d)
        What is summed.
    place : (tile,) int64
        -1 everywhere, before and after.
    nodes, pooled : (tile,) int64 and (tile, d)
        Where to.
    """
    count = 0
    for s in range(indptr[u], indptr[u + 1]):
        w = indices[s]
        first, last = indptr[w], indptr[w + 1]
        at = first + np.searchsorted(indices[first:last], start)
        while at < last and indices[at] < start + place.shape[0]:
            column = indices[at] - start
            if place[column] < 0:
                place[column] = count
                nodes[count] = column
                pooled[count] = 0.0
                count += 1
            for k in range(states.shape[1]):
                pooled[place[column], k] += states[w, k]
            at += 1
    for i in range(count):
        place[nodes[i]] = -1
    return count


@dataclass(frozen=True, eq=False)
class NCNScorer(TiledScorer):
    """Scores along rows: one net for every pair, another where neighbours are common.

    Parameters
    ----------
    pattern : CSR
        The graph's edges, without weights.
    states : (padded n, d) float32
        States whose product is taken, in whole tiles.
    summed : (n, d) float32
        What common neighbours add up.
    product : RowLayer
        Of the product.
    common : tuple
        Weights and bias of the first layer on sums, and the second; float64, since
        few pairs have common neighbours, and as few of a tile as there are.
    share : float
        Weight of common neighbours beside the product.
    head : list of RowLayer
        Of both together.
    last : RowOutput
        Of the score.
    """

    pattern: sp.csr_array
    states: Table
    summed: Table
    product: RowLayer
    common: tuple[FloatArray, FloatArray, RowLayer]
    share: float
    head: list[RowLayer]
    last: RowOutput

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.summed)

    def _tile(self, u: int, start: int) -> FloatArray:
        others = self.states[start : start + self._TILE]
        values = self.product(others * self.states[u])
        nodes, pooled = self._pooled(u, start)
        near = values[nodes] + self._of_sums(pooled)
        values += self._of_nothing
        values[nodes] = near
        for layer in self.head:
            values = layer(values)
        return self.last(values)

    def _pooled(self, u: int, start: int) -> tuple[Any, FloatArray]:
        nodes = np.empty(self._TILE, np.int64)
        pooled = np.empty((self._TILE, self.summed.shape[1]))
        count = pool_tile(
            u,
            start,
            self.pattern.indptr,
            self.pattern.indices,
            self.summed,
            np.full(self._TILE, -1),
            nodes,
            pooled,
        )
        return nodes[:count], pooled[:count]

    @cached_property
    def _of_nothing(self) -> Table:
        """What pairs without common neighbours have: all but a few."""
        return self._of_sums(np.zeros((1, self.summed.shape[1])))

    def _of_sums(self, sums: FloatArray) -> Table:
        weights, bias, second = self.common
        units = self.share * second(np.maximum(sums @ weights + bias, 0.0))
        return units.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Edges without weights, averages over neighbours, and features."""

    pattern: sp.csr_array
    average: SparseMatrix
    features: SparseMatrix


# Edges left for common neighbours, states of nodes, and those that are summed.
States = tuple[sp.csr_array, Tensor, Tensor]


class NCNModule(LinkModule):
    """One linear layer, averages over neighbours, and a net on pairs."""

    chunked = True

    def __init__(self, graph: Graph, model: NCN) -> None:
        super().__init__(graph, model.features, normalise=model.normalise)
        self.model, hidden, share = model, model.hidden, model.dropout
        self.first = nn.Linear(self.num_features, hidden)
        self.depths = nn.Parameter(torch.randn(model.layers))
        self.own = nn.Linear(hidden, hidden)
        self.own_second = NormedLayer(hidden, hidden, share)
        self.common = nn.Linear(hidden, hidden)
        self.common_second = NormedLayer(hidden, hidden, share)
        self.share = nn.Parameter(torch.ones(1))
        self.product = NormedLayer(hidden, hidden, share)
        self.head = nn.ModuleList(
            NormedLayer(hidden, hidden, share) for _ in range(model.head_layers)
        )
        self.last = nn.Linear(hidden, 1)

    def prepare(self, graph: Graph) -> Inputs:
        """Return edges, averages over neighbours, and features."""
        average = SparseMatrix(symmetric_average(graph))
        pattern = adjacency_pattern(graph)
        pattern.sort_indices()
        return Inputs(pattern, average, self.feature_matrix(graph))

    def encode(self, inputs: Inputs) -> States:
        """Return edges for common neighbours, states, and states to be summed."""
        model = self.model
        kept = model.feature_dropout if self.training else 0.0
        values = dropped(inputs.features.values, kept) if kept else None
        states = inputs.features.times(self.first.weight.T, values) + self.first.bias
        states = self._drop(states, model.input_dropout)
        mixed = torch.zeros_like(states)
        for weight in self.depths:
            states = self._drop(inputs.average.times(states), model.state_dropout)
            mixed = mixed + weight * states
        units = self._drop(self.own(mixed), model.dropout).relu()
        return self._thinned(inputs.pattern), mixed, mixed + self.own_second(units)

    def decode(self, states: States, pairs: Tensor) -> Tensor:
        """Return the logits of pairs."""
        pattern, own, summed = states
        u, v = pairs.numpy().T
        shared = SparseMatrix(pattern[u].multiply(pattern[v]))
        units = self._drop(self.common(shared.times(summed)), self.model.dropout).relu()
        one, two = pick(own, pairs)
        x = self.share * self.common_second(units) + self.product(one * two)
        for layer in self.head:
            x = layer(x)
        logits: Tensor = self.last(x)
        return logits

    def _drop(self, x: Tensor, share: float) -> Tensor:
        return functional.dropout(x, share, self.training)

    def _thinned(self, pattern: sp.csr_array) -> sp.csr_array:
        """Leave out entries in training: a common neighbour needs both of its own."""
        if not (self.training and self.model.edge_dropout):
            return pattern
        thinned = pattern.copy()
        thinned.data = torch.rand(pattern.nnz).ge_(self.model.edge_dropout).numpy()
        thinned.eliminate_zeros()
        return thinned

    def rates(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return the learning rates of the encoder and of the net on pairs."""
        encoder = [*self.first.parameters(), self.depths]
        mine = {id(parameter) for parameter in encoder}
        rest = [p for p in self.parameters() if id(p) not in mine]
        return [(encoder, self.model.encoder_lr), (rest, self.model.lr)]

    def scorer(self, states: States) -> NCNScorer:
        """Return the logits of whole rows."""
        pattern, own, summed = states
        weights, bias = linear_arrays(self.common, np.float64)
        return NCNScorer(
            pattern,
            NCNScorer.padded(own),
            summed.numpy(),
            self.product.along_rows(),
            (weights, bias, self.common_second.along_rows(np.float64)),
            float(self.share.detach()),
            rows_of(self.head),
            RowOutput.of(self.last),
        )


# Its authors' for pubmed; nobody searched for photo and computers.
_LARGE = {
    "feature_dropout": 0.3,
    "input_dropout": 0.1,
    "state_dropout": 0.0,
    "edge_dropout": 0.0,
    "batch_size": 2048,
    "encoder_lr": 0.0097,
    "lr": 0.002,
}


class NCN(HidingModel):
    """Neural common neighbour (Wang, Yang and Zhang, 2023), without completion.

    Parameters
    ----------
    hidden, layers : int
        Width of everything, and averages over neighbours.
    head_layers : int
        Hidden layers after product and common neighbours are put together.
    feature_dropout, input_dropout, state_dropout : float
        Shares left out in training: of features, of units before the averages, and of
        states behind them.
    dropout, edge_dropout : float
        Of the net on pairs, and of the edges by which neighbours are common.
    encoder_lr : float
        Learning rate of the encoder; ``lr`` is that of the net on pairs.
    batch_size : int
        Positives per step where training is biased; they are hidden meanwhile.
    normalise : bool
        Divide rows of features by their sums.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> NCN(epochs=20)
    NCN(epochs=20)
    """

    name = "ncn"
    summary = "graph convolutions and sums of common neighbours' states"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": Dimension((0.05, 0.3, 0.55), 0.0, 0.6, step=0.05),
        "feature_dropout": Dimension((0.7, 0.4, 0.0), 0.0, 0.8, step=0.1),
        "edge_dropout": Dimension((0.4, 0.0), 0.0, 0.6, step=0.1),
    }
    # Its authors'; the defaults are those for cora.
    presets: ClassVar = {
        "citeseer": {
            "feature_dropout": 0.4,
            "input_dropout": 0.75,
            "state_dropout": 0.0,
            "dropout": 0.55,
            "edge_dropout": 0.0,
            "head_layers": 2,
            "batch_size": 384,
            "encoder_lr": 0.0085,
            "lr": 0.0078,
        },
        "pubmed": _LARGE,
        "photo": _LARGE,
        "computers": _LARGE,
    }

    hidden: int = whole(256)
    layers: int = whole(1)
    head_layers: int = whole(1)
    feature_dropout: float = number(0.7, least=0, below=1)
    input_dropout: float = number(0.05, least=0, below=1)
    state_dropout: float = number(0.3, least=0, below=1)
    dropout: float = number(0.05, least=0, below=1)
    edge_dropout: float = number(0.4, least=0, below=1)
    encoder_lr: float = number(0.0043, above=0)
    normalise: bool = flag(False)
    batch_size: int = 1152
    lr: float = 0.0024
    epochs: int = 100
    validate_exact_every: int | None = None

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> NCNModule:
        return NCNModule(graph, self)
