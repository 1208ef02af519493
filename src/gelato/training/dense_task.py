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
from gelato.nn.dense import (
    DENSE_LIMIT,
    Masking,
    dense_adjacency,
    dense_autocovariance,
    dense_standardise,
)
from gelato.nn.enhancement import EnhancedGraph
from gelato.nn.losses import make_loss
from gelato.nn.pair_features import PairFeatures
from gelato.ranking import WalkScorer, all_pairs, rank_counts
from gelato.training.batches import PositiveBatches, generator
from gelato.training.clock import Clock
from gelato.training.gelato_task import (
    GelatoModule,
    StepSettings,
    enhanced_scorer,
    hide_edges,
    validation_values,
)


class DenseTask:
    """Losses and validation of Gelato by dense matrices.

    Parameters
    ----------
    graph, enhanced, validation, pair_model, settings
        As for :class:`~gelato.training.gelato_task.GelatoTask`.
    masking : {"both", "one-sided"}
        How the batch's positives are hidden.
    """

    def __init__(
        self,
        graph: Graph,
        enhanced: EnhancedGraph,
        validation: IntArray,
        pair_model: nn.Module,
        settings: StepSettings,
        *,
        masking: Masking = "both",
    ) -> None:
        n = graph.num_nodes
        if n > DENSE_LIMIT:
            kind = "a directed graph" if graph.directed else "one-sided masking"
            raise UnsupportedGraphError(
                f"Training on {kind} uses dense {n:,} x {n:,} matrices, and this graph "
                f"has more than {DENSE_LIMIT:,} nodes.",
                hint="Ignore directions with graph.symmetrised() (--symmetrise), and "
                "mask both directions.",
            )
        if settings.training not in ("unbiased", "biased"):
            raise UsageError(
                f"Dense training knows unbiased and biased negatives, not "
                f"{settings.training!r}."
            )
        self.settings, self.enhanced, self.masking = settings, enhanced, masking
        self.directed, self.num_nodes = graph.directed, n
        self.clock = Clock()
        self.batches = settings.batches
        self.features = PairFeatures(
            graph.attributes, enhanced.pairs, directed=graph.directed
        )
        self.module = GelatoModule(pair_model, make_loss(settings.loss))
        self.edges = graph.edges
        self.edge = find_pairs(enhanced.pairs, graph.edges, n)
        self.positives = PositiveBatches(
            graph.num_edges, batches=settings.batches, seed=settings.seed
        )
        self.negatives = _dense_negatives(graph)
        self.validation = validation
        self.candidates = all_pairs(graph, graph.edges)
        self._dealt: tuple[int, list[IntArray]] = (0, [])

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step."""
        positives = self.positives.batch(epoch, batch)
        with self.clock("mlp"):
            weights = self.enhanced.weights(self.module.pair_model(self.features))
        with self.clock("walks"):
            z = self._standardised(weights, positives)
            negatives = self._batch(epoch, batch, len(positives))
            groups = np.arange(len(negatives), dtype=np.int32) % len(positives)
            loss: Tensor = self.module.loss(
                _at(z, self.edges[positives]), _at(z, negatives), groups
            )
        return loss

    def scorer(self) -> WalkScorer:
        """Return what scores pairs with the module as it is (evaluation mode)."""
        self.module.eval()
        with torch.no_grad():
            weights = self.enhanced.weights(self.module.pair_model(self.features))
        return enhanced_scorer(
            self.enhanced,
            weights.double().numpy(),
            t=self.settings.t,
            loops=self.settings.self_loops,
        )

    def validate(self) -> dict[str, float]:
        """Rank the validation edges among all pairs that are not training edges."""
        counts = rank_counts(self.scorer(), self.validation, self.candidates)
        return validation_values(counts)

    def _standardised(self, weights: Tensor, positives: IntArray) -> Tensor:
        removed, weights = hide_edges(self.enhanced, weights, self.edge[positives])
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

    def _batch(self, epoch: int, batch: int, num_positives: int) -> IntArray:
        """Return a batch's negatives in random order."""
        if self.settings.training == "biased":
            random = generator(self.settings.seed, "dense biased", epoch, batch)
            chosen = random.choice(len(self.negatives), num_positives)
            return self.negatives[chosen]
        if self._dealt[0] != epoch:
            random = generator(self.settings.seed, "dense negatives", epoch)
            order = random.permutation(len(self.negatives))
            self._dealt = (epoch, np.array_split(order, self.batches))
        return self.negatives[self._dealt[1][batch]]


def _at(matrix: Tensor, pairs: IntArray) -> Tensor:
    rows, columns = torch.from_numpy(np.ascontiguousarray(pairs.T))
    return matrix[rows, columns]


def _dense_negatives(graph: Graph) -> IntArray:
    """List every pair that is not a training edge."""
    n = graph.num_nodes
    free = ~np.eye(n, dtype=bool) if graph.directed else np.triu(np.ones((n, n)), 1) > 0
    free[graph.edges[:, 0], graph.edges[:, 1]] = False
    return np.argwhere(free)
