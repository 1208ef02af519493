"""TLC-GNN: graph convolutions beside persistence images of the graph around a pair."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.graph import Graph
from gelato.models.gnn.base import GNNModel
from gelato.models.gnn.by_parts import PartFolder
from gelato.models.gnn.decoders import DifferenceNetScorer
from gelato.models.gnn.difference_net import (
    at_most_one,
    convolve_twice,
    net_logits,
    net_scorer,
    start_net,
)
from gelato.models.gnn.features import symmetric_average
from gelato.models.gnn.image_forecast import images_seconds
from gelato.models.gnn.image_scorer import ImageNetScorer
from gelato.models.gnn.module import LinkModule, glorot, pick
from gelato.models.gnn.persistence import SIZE, GraphImages
from gelato.nn.sparse_matrix import SparseMatrix
from gelato.splits import EdgeSplit
from gelato.training.loop import EpochReport

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
    folder : Path, optional
        Where images of the training graph are kept while they are computed.
    rehearse : bool
        Let ones stand for images of the training graph, to time everything else.
    **others
        See :class:`TLCGNN`.
    """

    chunked = True

    def __init__(
        self,
        graph: Graph,
        *,
        features: str,
        normalise: bool,
        hidden: int,
        dimensions: int,
        pair_units: int,
        dropout: float,
        hops: int,
        hide_target: bool,
        folder: Path | None = None,
        rehearse: bool = False,
    ) -> None:
        super().__init__(graph, features, normalise=normalise)
        self.dropout = dropout
        self.first = glorot(self.num_features, hidden)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = glorot(hidden, dimensions)
        self.second_bias = nn.Parameter(torch.zeros(dimensions))
        self.pair = nn.Linear(dimensions + SIZE, pair_units)
        self.out = nn.Linear(pair_units, 1)
        start_net(self.pair, self.out)
        place = None if folder is None else PartFolder.of(folder, graph)
        self._images = GraphImages(
            graph, hops, hide_target=hide_target, place=place, rehearse=rehearse
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
        mix, of_image = self._mixes()
        u, v = pick(nodes, pairs)
        units = functional.linear((u - v) ** 2, mix, self.pair.bias)
        at, found = images.of_pairs(pairs.numpy(), training=self.training)
        if len(at):
            shifts = torch.from_numpy(found) @ of_image.T
            units = units.index_add(0, torch.from_numpy(at), shifts)
        return net_logits(units, self.out, training=self.training)

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


@dataclass(kw_only=True, repr=False, eq=False)
class TLCGNN(GNNModel):
    """Topological loop-counting network (Yan et al., 2021).

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
        See :class:`gelato.models.gnn.base.GNNModel`.

    Examples
    --------
    >>> TLCGNN(hops=2)
    TLCGNN(hops=2)
    """

    name = "tlc-gnn"
    summary = "graph convolutions and persistence images of loops around a pair"

    _folder: Path | None = field(default=None, init=False)
    _rehearsing = False

    hidden: int = 100
    dimensions: int = 16
    pair_units: int = 25
    dropout: float = 0.5
    hops: int = 1
    hide_target: bool = False
    normalise: bool = True
    lr: float = 0.005
    epochs: int = 2000
    patience: int | None = 200

    def fit(
        self,
        data: Graph | EdgeSplit,
        *,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: EpochReport | None = None,
        on_step: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Train; curvature and images that take long are kept in ``folder``.

        An interrupted computation of them goes on where it was, whether or not
        ``resume`` is set: they depend on the graph alone. See
        :meth:`gelato.models.gnn.base.GNNModel.fit`.
        """
        self._folder = None if folder is None else Path(folder)
        try:
            super().fit(
                data, folder=folder, resume=resume, on_epoch=on_epoch, on_step=on_step
            )
            if self._folder is not None:
                PartFolder.clear(self._folder)
        finally:
            self._folder = None
        return self

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Compute no images meanwhile, to time the steps of a training."""
        self._rehearsing = True
        try:
            yield
        finally:
            self._rehearsing = False

    def untrained(self, split: EdgeSplit) -> Self:
        """Return a copy with its first weights and no images, to time ranking."""
        with self.rehearsal():
            return super().untrained(split)

    def preparation_seconds(self, split: EdgeSplit) -> float:
        """Return about how long curvature and images take before training."""
        edges = not (self._settings(split).masking or self.hide_target)
        return images_seconds(split.train_graph, self.hops, edges=edges)

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> TLCGNNModule:
        return TLCGNNModule(
            graph,
            features=self.features,
            normalise=self.normalise,
            hidden=self.hidden,
            dimensions=self.dimensions,
            pair_units=self.pair_units,
            dropout=self.dropout,
            hops=self.hops,
            hide_target=self.hide_target,
            folder=self._folder,
            rehearse=self._rehearsing,
        )
