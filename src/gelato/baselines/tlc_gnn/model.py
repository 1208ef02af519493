"""Scores of whole rows where some pairs have an image beside their states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import thread_time
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers.decoders import DifferenceNetScorer, RowsOrHalf
from gelato.baselines.shared_layers.difference_net import (
    at_most_one,
    convolve_twice,
    net_logits,
    net_of_pairs,
    net_of_units,
    net_scorer,
    start_net,
)
from gelato.baselines.shared_layers.link_module import (
    CHUNK,
    LinkModule,
    glorot,
    pick,
)
from gelato.baselines.shared_layers.network import LEARNING_RATES, GNNModel
from gelato.baselines.shared_layers.products import shifted_net_pairs
from gelato.baselines.tlc_gnn.curvature import edge_curvatures, pair_cost
from gelato.baselines.tlc_gnn.images import SIZE, GraphImages, near_pairs, pair_images
from gelato.baselines.tlc_gnn.resumable import PartFolder
from gelato.graph import FloatArray, Graph, IntArray, find_pairs
from gelato.kernels.chunks import default_threads
from gelato.models.trained import DROPOUTS
from gelato.nn.messages import SparseMatrix, symmetric_average
from gelato.parameters import flag, number, unlisted, whole
from gelato.splits import EdgeSplit


@dataclass(frozen=True, eq=False)
class ImageNetScorer(RowsOrHalf):
    """A net of squared differences, its units shifted for listed pairs.

    Parameters
    ----------
    net : DifferenceNetScorer
        Scores all pairs that are not listed.
    pairs : (k, 2) int64
        Sorted pairs u < v.
    shifts : (k, units) float64
        What each of them adds to the hidden units.
    """

    net: DifferenceNetScorer
    pairs: IntArray
    shifts: FloatArray

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.net.num_nodes

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        scores = self.net.pair_scores(pairs)
        position = find_pairs(self.pairs, np.sort(pairs, axis=1), self.num_nodes)
        at = np.flatnonzero(position >= 0)
        scores[at] = self._shifted(pairs[at, 0], pairs[at, 1], position[at])
        return scores

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = self.net._rows(rows, above=above)
        for i, u in enumerate(rows.tolist()):
            span = slice(self._listed.indptr[u], self._listed.indptr[u + 1])
            columns = self._listed.indices[span].astype(np.int64)
            position = self._listed.data[span] - 1
            if above:
                columns, position = columns[columns > u], position[columns > u]
            u_s = np.full(len(columns), u)
            scores[i, columns] = self._shifted(u_s, columns, position)
        return scores

    @cached_property
    def _listed(self) -> sp.csr_array:
        """Position + 1 of every listed pair, at both of its places."""
        count, n = len(self.pairs), self.num_nodes
        u, v = self.pairs.T
        entries = (np.tile(np.arange(1, count + 1), 2), (np.r_[u, v], np.r_[v, u]))
        return sp.csr_array(sp.coo_array(entries, shape=(n, n)))

    def _shifted(self, u: IntArray, v: IntArray, position: IntArray) -> FloatArray:
        """Return scores of listed pairs by their positions."""
        scores = np.empty(len(position))
        shifts = self.shifts[position]
        shifted_net_pairs(u, v, *self.net._net, shifts, scores)
        return self.net._sizes(scores)


_DRAWS = 96  # pairs that are timed


def images_seconds(graph: Graph, hops: int, *, edges: bool = True) -> float:
    """Return about how long all images that a training needs will take.

    Parameters
    ----------
    graph : Graph
        The training graph.
    hops : int
        As for :class:`gelato.baselines.tlc_gnn.images.GraphImages`.
    edges : bool
        Whether images of edges are needed, as training sees them.
    """
    if not graph.num_edges or (hops == 1 and not edges):
        return 0.0
    matrix = graph.adjacency
    pattern = (matrix.indptr, matrix.indices)
    spread, image = np.empty(_DRAWS), np.empty((_DRAWS, SIZE), np.float32)
    lengths = np.ones(matrix.nnz)

    def curve(first: int, last: int, pairs: IntArray) -> None:
        edge_curvatures(first, last, pairs, *pattern, spread)

    def draw(first: int, last: int, pairs: IntArray) -> None:
        pair_images(first, last, pairs, hops, False, *pattern, lengths, image)

    total = _seconds(curve, graph, graph.edges)
    if edges:
        total += _seconds(draw, graph, graph.edges)
    if hops > 1:
        total += _seconds(draw, graph, near_pairs(graph, hops))
    return total / default_threads()


def _seconds(
    work: Callable[[int, int, IntArray], None], graph: Graph, pairs: IntArray
) -> float:
    """Time pairs drawn in proportion to their cost, and carry over to all of them.

    Each drawn pair stands for an equal share of the whole cost, so that few pairs
    suffice although some cost a thousand times as much as others. Only the time of
    this thread counts: other work of the machine would weigh heavily on so few.
    """
    cost = pair_cost(graph, pairs)
    drawn = _even_draws(cost)
    few = np.ascontiguousarray(pairs[drawn])
    work(0, 1, few)  # loads compiled code, and touches memory
    share = float(cost.sum()) / len(drawn)
    total = 0.0
    for i, at in enumerate(drawn.tolist()):
        started = thread_time()
        work(i, i + 1, few)
        total += (thread_time() - started) * share / cost[at]
    return total


def _even_draws(cost: FloatArray) -> IntArray:
    """Return positions at equal steps of the summed cost."""
    count = min(_DRAWS, len(cost))
    sums = np.cumsum(cost)
    steps = (np.arange(count) + 0.5) / count * sums[-1]
    drawn: IntArray = np.searchsorted(sums, steps).astype(np.int64)
    return drawn


# Averages over neighbours, features, and images of pairs.
Inputs = tuple[SparseMatrix, SparseMatrix, GraphImages]
# States of nodes, and images of pairs.
States = tuple[Tensor, GraphImages]


class TLCGNNModule(LinkModule):
    """Two convolutions, and a net on squared differences and a pair's image.

    Parameters
    ----------
    graph : Graph
        The training graph.
    model : TLCGNN
        Has the settings.
    folder : Path, optional
        Where images of the training graph are kept while they are computed.
    rehearse : bool
        Let ones stand for images of the training graph, to time everything else.
    """

    def __init__(
        self,
        graph: Graph,
        model: TLCGNN,
        *,
        folder: Path | None = None,
        rehearse: bool = False,
    ) -> None:
        super().__init__(graph, model.features, normalise=model.normalise)
        self.dropout = model.dropout
        hidden, dimensions, units = model.hidden, model.dimensions, model.pair_units
        self.first = glorot(self.num_features, hidden)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = glorot(hidden, dimensions)
        self.second_bias = nn.Parameter(torch.zeros(dimensions))
        self.pair = nn.Linear(dimensions + SIZE, units)
        self.out = nn.Linear(units, 1)
        start_net(self.pair, self.out)
        place = None if folder is None else PartFolder.of(folder, graph)
        self._images = GraphImages(
            graph,
            model.hops,
            hide_target=model.hide_target,
            place=place,
            rehearse=rehearse,
        )

    def prepare(self, graph: Graph) -> Inputs:
        """Return averages, features, and images, none of which is computed yet."""
        average = SparseMatrix(symmetric_average(graph))
        return average, self.feature_matrix(graph), self._images_of(graph)

    def _images_of(self, graph: Graph) -> GraphImages:
        known = self._images
        if graph.num_nodes == known.graph.num_nodes and np.array_equal(
            graph.edges, known.graph.edges
        ):
            return known
        return GraphImages(graph, known.hops, hide_target=known.hide_target)

    def encode(self, inputs: Inputs) -> States:
        """Return states of norm at most 1."""
        average, features, images = inputs
        convolved = convolve_twice(
            average,
            features,
            (self.first, self.first_bias),
            (self.second, self.second_bias),
            dropout=self.dropout if self.training else 0.0,
        )
        return at_most_one(convolved), images

    def decode(self, states: States, pairs: Tensor) -> Tensor:
        """Return Fermi-Dirac logits; only images other than 0 are multiplied."""
        nodes, images = states
        at, found = images.of_pairs(pairs.numpy(), training=self.training)
        filled = (torch.from_numpy(at), torch.from_numpy(found))
        if len(pairs) > CHUNK:
            first = (self._mixes()[0], self.pair.bias)
            output = net_of_pairs(nodes, first, self.out, pairs)
            everyone = (torch.arange(len(at)), filled[1])
            shown = self._output(nodes, pairs[filled[0]], everyone)
            output = output.index_copy(0, filled[0], shown)
        else:
            output = self._output(nodes, pairs, filled)
        return net_logits(output, training=self.training)

    def _output(
        self, nodes: Tensor, pairs: Tensor, images: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return the net's output, given which pairs have images, and these."""
        mix, of_image = self._mixes()
        u, v = pick(nodes, pairs)
        units = functional.linear((u - v) ** 2, mix, self.pair.bias)
        if len(images[0]):
            units = units.index_add(0, images[0], images[1] @ of_image.T)
        return net_of_units(units, self.out)

    def scorer(self, states: States) -> DifferenceNetScorer | ImageNetScorer:
        """Return minus the net's size, not clamped."""
        nodes, images = states
        mix, of_image = self._mixes()
        net = net_scorer(nodes, mix, self.pair.bias, self.out)
        if images.hops == 1:  # no candidate has an image
            return net
        pairs, found = images.near
        weights = of_image.detach().double().numpy()
        return ImageNetScorer(net, pairs, found.astype(np.float64) @ weights.T)

    def _mixes(self) -> tuple[Tensor, Tensor]:
        """Return the first layer's weights of states and of the image."""
        weights = self.pair.weight
        return weights[:, :-SIZE], weights[:, -SIZE:]


class TLCGNN(GNNModel):
    """Topological loop-counting network (Yan et al., 2021).

    Curvature and images that take long are kept in the folder of a training while they
    are computed. An interrupted computation of them goes on where it was, whether or
    not ``resume`` is set: they depend on the graph alone.

    Parameters
    ----------
    hidden, dimensions : int
        Units of the two graph convolutions.
    pair_units : int
        Hidden units of the net on pairs.
    dropout : float
        Share of inputs and hidden units left out in training.
    hops : int
        Nodes at most so many edges from both ends of a pair make its image.
    hide_target : bool
        Leave the edge of a pair out of its image in training, too. As published the
        edge is seen, so that an image tells positives from negatives.
    normalise : bool
        Divide rows of features by their sums.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> TLCGNN(hops=2)
    TLCGNN(hops=2)
    """

    name = "tlc-gnn"
    summary = "graph convolutions and persistence images of loops around a pair"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": DROPOUTS,
        "hidden": unlisted(100, 50, 200),
        "normalise": unlisted(True, False),
        "hide_target": unlisted(False, True),
    }
    # Its authors' where they give any; elsewhere those for cora, the defaults.
    presets: ClassVar = {
        "citeseer": {"normalise": False},
        "pubmed": {"normalise": False, "hops": 2},
        "photo": {"normalise": False},
        "computers": {"normalise": False},
    }

    hidden: int = whole(100)
    dimensions: int = whole(16)
    pair_units: int = whole(25)
    dropout: float = number(0.5, least=0, below=1)
    hops: int = whole(1)
    hide_target: bool = flag(False)
    normalise: bool = flag(True)
    lr: float = 0.005
    epochs: int = 2000
    patience: int | None = 200

    def _keep(self, task: Any) -> None:
        super()._keep(task)
        if self._options.folder is not None:
            PartFolder.clear(self._options.folder)

    def untrained(self, split: EdgeSplit) -> Self:
        """Return a copy with its first weights and no images, to time ranking."""
        with self.rehearsal():
            return super().untrained(split)

    def preparation_seconds(self, split: EdgeSplit) -> float:
        """Return about how long curvature and images take before training."""
        edges = not (self._settings(split).masking or self.hide_target)
        return images_seconds(split.train_graph, self.hops, edges=edges)

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> TLCGNNModule:
        folder, rehearse = self._options.folder, self._rehearsing
        return TLCGNNModule(graph, self, folder=folder, rehearse=rehearse)
