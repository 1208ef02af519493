"""Gelato 2 as a training task: hide a batch of edges, rank them above all negatives.

A step hides its positives, weighs what is left, and scores them beside negatives that
stand for all: hard ones, drawn from the best non-edges by the untrained model, and a
uniform sample of the rest. Each negative counts as many times as it stands for others.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gelato.graph import Graph, IntArray, find_pairs, pair_keys
from gelato.kernels.chunks import generator
from gelato.nn.readout import ReadoutGraph, ReadoutModule, ReadoutScorer
from gelato.ranking import all_pairs, rank_counts
from gelato.ranking.best import best_candidates
from gelato.training.gelato_task import refuse_few_negatives
from gelato.training.loop import Clock
from gelato.training.negatives import NegativePairs, PositiveBatches
from gelato.training.validation import REPORTED, validation_values

HARD = 10
"""Hard negatives per training edge; a step draws some of them."""
DRAWN_HARD = 60_000
"""Hard negatives of a step, at most."""
DRAWN_REST = 20_000
"""Other negatives of a step."""


class HardAndOtherNegatives:
    """Negatives of a step that stand for all of them.

    Parameters
    ----------
    num_nodes : int
    edges : (m, 2) int64
        The training edges.
    hard : (h, 2) int64
        Negatives that are seen often.
    seed : int
        With epoch and batch, decides what is drawn.
    """

    def __init__(
        self, num_nodes: int, edges: IntArray, hard: IntArray, *, seed: int
    ) -> None:
        self.all, self.seed = NegativePairs(num_nodes, edges), seed
        keys = np.sort(pair_keys(hard, num_nodes))
        self.hard_keys = keys
        self.hard = np.stack(np.divmod(keys, num_nodes), axis=1)

    def draw(self, epoch: int, batch: int) -> tuple[IntArray, Tensor]:
        """Return negatives, and the logarithm of how many each stands for."""
        random = generator(self.seed, "readout negatives", epoch, batch)
        hard = self.hard
        if len(hard) > DRAWN_HARD:
            hard = hard[np.sort(random.choice(len(hard), DRAWN_HARD, replace=False))]
        rest = self.all.sample(min(DRAWN_REST, self.all.count), random)
        rest = rest[~np.isin(pair_keys(rest, self.all.num_nodes), self.hard_keys)]
        parts = ((hard, len(self.hard)), (rest, self.all.count - len(self.hard)))
        stands = [
            np.full(len(drawn), math.log(whole / len(drawn)), np.float32)
            for drawn, whole in parts
            if len(drawn)
        ]
        return np.concatenate([hard, rest]), torch.from_numpy(np.concatenate(stands))


class ReadoutTask:
    """Losses and validation of Gelato 2.

    Parameters
    ----------
    graph : Graph
        The training graph, undirected.
    validation : (k, 2) int64
        Held-out edges that select the epoch.
    module : ReadoutModule
        What is trained.
    readout_graph : ReadoutGraph
        The training graph, enhanced.
    batches : int
        Steps per epoch; a step hides its share of the edges.
    metric : str
        Validation reports this value besides the usual ones.
    seed : int
        Decides batches and negatives.
    """

    def __init__(
        self,
        graph: Graph,
        validation: IntArray,
        module: ReadoutModule,
        readout_graph: ReadoutGraph,
        *,
        batches: int = 10,
        metric: str = "prec@100%",
        seed: int = 0,
    ) -> None:
        refuse_few_negatives(graph)
        self.module, self.batches, self.clock = module, batches, Clock()
        self.metrics = tuple(dict.fromkeys([*REPORTED, metric]))
        self.edges, self.validation = graph.edges, validation
        self.graph = readout_graph
        self.place = find_pairs(
            readout_graph.enhanced.pairs, graph.edges, graph.num_nodes
        )
        self.positives = PositiveBatches(graph.num_edges, batches=batches, seed=seed)
        self.candidates = all_pairs(graph, graph.edges)
        best = best_candidates(self.scorer(), self.candidates, HARD * graph.num_edges)
        self.negatives = HardAndOtherNegatives(
            graph.num_nodes, graph.edges, best.pairs, seed=seed
        )

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step.

        The mean over positives of ``log(1 + sum over all negatives of exp(z_negative
        - z_positive))``, the sum estimated by those that were drawn.
        """
        chosen = self.positives.batch(epoch, batch)
        with self.clock("negatives"):
            negatives, stands = self.negatives.draw(epoch, batch)
            pairs = np.concatenate([self.edges[chosen], negatives])
            lists, order = self.graph.structure.sort_pairs(pairs)
        with self.clock("edges"):
            view = self.graph.view(self.place[chosen])
        with self.clock("walks"):
            found = self.module.scores(self.graph, view, lists, pairs[order])
        back = torch.from_numpy(np.argsort(order))
        z = found[back]
        against = torch.logsumexp(z[len(chosen) :] + stands, dim=0)
        return functional.softplus(against - z[: len(chosen)]).mean()

    def scorer(self) -> ReadoutScorer:
        """Return what scores pairs with the module as it is (evaluation mode)."""
        self.module.eval()  # dropout would draw from the generator of the caller
        return ReadoutScorer(self.module, self.graph)

    def validate(self) -> dict[str, float]:
        """Rank the validation edges among all pairs that are not training edges."""
        counts = rank_counts(self.scorer(), self.validation, self.candidates)
        return validation_values(counts, self.metrics)
