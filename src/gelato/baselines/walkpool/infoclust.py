"""Graph InfoClust: states of nodes that are learned without any pair as an answer."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers.decoders import ProductScorer
from gelato.baselines.shared_layers.dots import pair_dots
from gelato.baselines.shared_layers.link_module import LinkModule, glorot
from gelato.baselines.shared_layers.network import GNNModel
from gelato.baselines.shared_layers.network_task import NetworkSettings, NetworkTask
from gelato.graph import Graph
from gelato.kernels.chunks import generator
from gelato.nn.messages import SparseMatrix, symmetric_average
from gelato.parameters import number, whole
from gelato.splits import EdgeSplit

# Averages over neighbours, and features.
Inputs = tuple[SparseMatrix, SparseMatrix]
# Rounds of soft k-means before the one that has gradients.
_ROUNDS = 10
_LEAST = 1e-6  # for the length of a row without attributes


class InfoClustModule(LinkModule):
    """One graph convolution; its states, of length 1, stand for the nodes."""

    def __init__(self, graph: Graph, model: InfoClust) -> None:
        super().__init__(graph, model.features, normalise=False)
        width = model.dimensions
        self.weight = glorot(self.num_features, width)
        self.bias = nn.Parameter(torch.zeros(width))
        self.slope = nn.Parameter(torch.tensor(0.25))
        # How well a node suits a summary of the whole graph.
        self.suits = glorot(width, width)
        self.offset = nn.Parameter(torch.zeros(()))
        self.register_buffer("seeds", torch.rand(model.clusters, width))
        self.sharpness, self.graph_share = model.sharpness, model.graph_share

    def prepare(self, graph: Graph) -> Inputs:
        """Return averages over neighbours, and features."""
        return SparseMatrix(symmetric_average(graph)), self.feature_matrix(graph)

    def encode(self, inputs: Inputs) -> tuple[Tensor]:
        """Return the nodes' states, of length 1."""
        average, features = inputs
        return (unit_rows(self._gathered(average, features.times(self.weight))),)

    def decode(self, states: tuple[Tensor], pairs: Tensor) -> Tensor:
        """Return the cosines of pairs, which tell one epoch from another."""
        return pair_dots(states[0], states[0], pairs)[:, None]

    def scorer(self, states: tuple[Tensor]) -> ProductScorer:
        """Return the cosines of all pairs."""
        rows = states[0].double().numpy()
        return ProductScorer(rows, rows)

    def misfit(self, inputs: Inputs, order: Tensor) -> Tensor:
        """Return how badly true states are told from those of swapped attributes.

        Parameters
        ----------
        inputs : Inputs
            What :meth:`prepare` returned.
        order : (n,) int64 Tensor
            Whose attributes each node is given instead of its own.
        """
        average, features = inputs
        own = features.times(self.weight)
        true = self._gathered(average, own)
        false = self._gathered(average, own.index_select(0, order))
        whole = true.mean(dim=0).sigmoid()
        near = self.cluster_summaries(true).sigmoid()
        by_graph = _told_apart(
            *(h @ (self.suits @ whole) + self.offset for h in (true, false))
        )
        by_cluster = _told_apart(*((h * near).sum(dim=1) for h in (true, false)))
        return self.graph_share * by_graph + (1 - self.graph_share) * by_cluster

    def cluster_summaries(self, states: Tensor) -> Tensor:
        """Return each node's mixture of cluster centres, by soft k-means of cosines.

        Centres are found without gradients; a last round gives them theirs.
        """
        rows = unit_rows(states)
        centres = self.get_buffer("seeds")
        with torch.no_grad():
            for _ in range(_ROUNDS):
                centres, _shares = self._moved(rows, centres)
        centres, shares = self._moved(rows, centres)
        return shares @ centres

    def _moved(self, rows: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
        """Return the centres of a round, and the shares of nodes they are made of."""
        shares = (self.sharpness * rows @ unit_rows(centres).T).softmax(dim=1)
        # A centre that nothing is near keeps to the origin instead of becoming NaN.
        weights = shares.sum(dim=0).clamp_min(torch.finfo(rows.dtype).tiny)
        return shares.T @ rows / weights[:, None], shares

    def _gathered(self, average: SparseMatrix, own: Tensor) -> Tensor:
        return functional.prelu(average.times(own) + self.bias, self.slope)


def unit_rows(table: Tensor) -> Tensor:
    """Return rows divided by their lengths; rows of zeros stay."""
    return table / (table.norm(dim=1, keepdim=True) + _LEAST)


def _told_apart(true: Tensor, false: Tensor) -> Tensor:
    """Return the mean cross entropy of logits that should be high and of low ones."""
    missed, alarms = functional.softplus(-true), functional.softplus(false)
    return (missed.mean() + alarms.mean()) / 2


class InfoClustTask(NetworkTask):
    """Steps that see no pair; an epoch is judged by pairs all the same."""

    module: InfoClustModule

    def step_loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step, with attributes swapped anew."""
        shuffle = generator(self.settings.seed, "attributes", epoch, batch)
        order = torch.from_numpy(shuffle.permutation(self.graph.num_nodes))
        with self.clock("encode"):
            return self.module.misfit(self.inputs, order)


class InfoClust(GNNModel):
    """Graph InfoClust (Mavromatis and Karypis, 2021), for states of nodes.

    Parameters
    ----------
    dimensions : int
        Of the states.
    clusters : int
        Summaries between a node and the whole graph.
    sharpness : float
        Factor of the cosines from which soft k-means takes shares.
    graph_share : float
        Weight of the whole graph's summary; clusters have the rest.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> InfoClust(clusters=32)
    InfoClust(clusters=32)
    """

    name = "infoclust"
    summary = "states that tell a graph from one with its attributes swapped"
    presets: ClassVar = {}  # WalkPool's authors differ from these on pubmed

    dimensions: int = whole(32)
    clusters: int = whole(128)
    sharpness: float = number(100.0, least=0)
    graph_share: float = number(0.5, least=0, most=1)
    lr: float = 0.001
    validate_every: int = 20
    validate_exact_every: int | None = whole(None)

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> InfoClustModule:
        return InfoClustModule(graph, self)

    def _network_task(
        self, module: LinkModule, split: EdgeSplit, settings: NetworkSettings
    ) -> NetworkTask:
        return InfoClustTask(module, split, settings)
