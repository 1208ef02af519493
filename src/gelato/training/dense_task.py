"""Gelato on dense matrices: directed graphs, and the published one-sided masking.

The same losses as :class:`~gelato.training.gelato_task.GelatoTask`, by plain torch
over n x n matrices: for graphs of a few thousand nodes, and as a twin in tests.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gelato.errors import UnsupportedGraphError, UsageError
from gelato.graph import Graph, IntArray, find_pairs
from gelato.kernels.chunks import generator
from gelato.nn.dense import (
    DENSE_LIMIT,
    Masking,
    dense_adjacency,
    dense_autocovariance,
    dense_standardise,
)
from gelato.nn.enhancement import EnhancedGraph
from gelato.training.gelato_task import EnhancedTask, StepSettings, hide_edges


class DenseTask(EnhancedTask):
    """Losses of Gelato by dense matrices.

    Parameters
    ----------
    graph, enhanced, validation, pair_model, settings
        As for :class:`~gelato.training.gelato_task.EnhancedTask`.
    masking : {"both", "one-sided"}
        How the batch's positives are hidden.
    """

    def __init__(
        self,
        graph: Graph,
        enhanced: EnhancedGraph,
        validation: IntArray,
        pair_model: nn.Module | None,
        settings: StepSettings,
        *,
        masking: Masking = "both",
    ) -> None:
        refuse_dense(graph, settings, masking)
        super().__init__(graph, enhanced, validation, pair_model, settings)
        self.masking: Masking = masking
        self.directed, self.num_nodes = graph.directed, graph.num_nodes
        self.edges = graph.edges
        self.edge = find_pairs(enhanced.pairs, graph.edges, graph.num_nodes)
        self.negatives = _dense_negatives(graph)
        self._dealt: tuple[int, list[IntArray]] = (0, [])

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step."""
        positives = self.positives.batch(epoch, batch)
        with self.clock("mlp"):
            trained = self.trained(positives)
        with self.clock("walks"):
            z = self.standardised_dense(trained, positives)
            negatives = self.draw(epoch, batch, len(positives))
            groups = np.arange(len(negatives), dtype=np.int32) % len(positives)
            loss: Tensor = self.module.loss(
                _at(z, self.edges[positives]), _at(z, negatives), groups
            )
        return loss

    def standardised_dense(self, trained: Tensor | None, positives: IntArray) -> Tensor:
        """Return the scores of all pairs while a batch's positives are hidden."""
        removed, weights = hide_edges(self.enhanced, trained, self.edge[positives])
        matrix = dense_adjacency(
            weights,
            torch.from_numpy(self.enhanced.pairs),
            self.num_nodes,
            self_loops=self.settings.self_loops,
            mask=torch.from_numpy(removed),
            masking=self.masking,
            directed=self.directed,
        )
        scores = dense_autocovariance(matrix, t=self.settings.t, directed=self.directed)
        return dense_standardise(scores)

    def draw(self, epoch: int, batch: int, num_positives: int) -> IntArray:
        """Return a batch's negatives in random order."""
        if self.settings.training == "biased":
            when = epoch if self.settings.redraw else 0
            random = generator(self.settings.seed, "dense biased", when, batch)
            chosen = random.choice(len(self.negatives), num_positives, replace=False)
            return self.negatives[chosen]
        if self._dealt[0] != epoch:
            random = generator(self.settings.seed, "dense negatives", epoch)
            order = random.permutation(len(self.negatives))
            self._dealt = (epoch, np.array_split(order, self.batches))
        return self.negatives[self._dealt[1][batch]]


def refuse_dense(graph: Graph, settings: StepSettings, masking: Masking) -> None:
    """Raise unless a graph and its settings suit dense training."""
    n = graph.num_nodes
    what = "A directed graph" if graph.directed else "One-sided masking"
    if n > DENSE_LIMIT:
        raise UnsupportedGraphError(
            f"{what} is trained with dense {n:,} x {n:,} matrices, which is for up to "
            f"{DENSE_LIMIT:,} nodes.",
            hint="Ignore directions with graph.symmetrised() (--symmetrise)."
            if graph.directed
            else 'Use masking="both".',
        )
    if graph.directed and masking == "one-sided":
        raise UsageError(
            "One-sided masking hides one direction of an undirected edge; this graph "
            "is directed.",
            hint='Use masking="both".',
        )
    if settings.training not in ("unbiased", "biased"):
        raise UsageError(
            f"{what} is trained with unbiased or biased negatives, not with "
            f"{settings.training!r} ones.",
            hint='Use training="unbiased".',
        )
    if settings.heuristic != "ac":
        raise UsageError(
            f"{what} is trained with autocovariance only, not with "
            f"{settings.heuristic!r}.",
            hint='Use heuristic="ac".',
        )


def _at(matrix: Tensor, pairs: IntArray) -> Tensor:
    rows, columns = torch.from_numpy(np.ascontiguousarray(pairs.T))
    return matrix[rows, columns]


def _dense_negatives(graph: Graph) -> IntArray:
    """List every pair that is not a training edge."""
    n = graph.num_nodes
    free = ~np.eye(n, dtype=bool) if graph.directed else np.triu(np.ones((n, n)), 1) > 0
    free[graph.edges[:, 0], graph.edges[:, 1]] = False
    return np.argwhere(free)
