"""Gelato as a training task: pair MLP, enhanced graph, walk scores, ranking loss.

Each step weighs the enhanced edges with the MLP, hides the batch's positives, scores
them and their negatives by autocovariance and passes the loss back to the MLP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gelato.errors import InputError
from gelato.graph import Graph, IntArray
from gelato.heuristics import autocovariance_of
from gelato.kernels.walk_structure import PairLists, SelfLoops, WalkStructure
from gelato.nn.enhancement import EnhancedGraph
from gelato.nn.losses import NPairLoss, make_loss
from gelato.nn.pair_features import PairFeatures
from gelato.nn.standardise import (
    SIGMA_SAMPLE,
    TrainingPairs,
    choose_sigma,
    standardised_scores,
)
from gelato.nn.training_step import n_pair_step
from gelato.ranking import RankCounts, WalkScorer, all_pairs, metrics, rank_counts
from gelato.training.batches import NegativePairs, PositiveBatches, generator
from gelato.training.clock import Clock
from gelato.training.negatives import Negatives, make_sampler

TrainingSet = Literal["unbiased", "biased", "partitioned", "adversarial"]


@dataclass(frozen=True)
class StepSettings:
    """What a training step of Gelato does.

    Parameters
    ----------
    t : int
        Length of the walk.
    self_loops : {"isolated", "all"}
        Where loops of weight 1 are added.
    batches : int
        Steps per epoch.
    loss : str
        A name of :data:`gelato.nn.losses.LOSSES`.
    training : {"unbiased", "biased", "partitioned", "adversarial"}
        Which negatives a step sees.
    seed : int
        Decides batches and negatives.
    threads : int, optional
        Threads of the kernels; results do not depend on it.
    """

    t: int = 3
    self_loops: SelfLoops = "isolated"
    batches: int = 10
    loss: str = "n-pair"
    training: TrainingSet = "unbiased"
    seed: int = 0
    threads: int | None = None


class GelatoModule(nn.Module):
    """Everything that is learned: the pair model and, for some losses, a unit."""

    def __init__(self, pair_model: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.pair_model = pair_model
        self.loss = loss


class GelatoTask:
    """Losses and validation of Gelato on one split.

    Parameters
    ----------
    graph : Graph
        The training graph, with attributes.
    enhanced : EnhancedGraph
        Its edges and similarity pairs.
    validation : (k, 2) int64
        Held-out edges that select the epoch.
    pair_model : nn.Module
        Maps :class:`PairFeatures` to a weight per pair; ``PairMLP`` in the paper.
    settings : StepSettings
        What a step does.
    """

    def __init__(
        self,
        graph: Graph,
        enhanced: EnhancedGraph,
        validation: IntArray,
        pair_model: nn.Module,
        settings: StepSettings,
    ) -> None:
        self.settings, self.enhanced = settings, enhanced
        self.clock = Clock()
        self.batches = settings.batches
        self.features = PairFeatures(
            graph.attributes, enhanced.pairs, directed=graph.directed
        )
        self.module = GelatoModule(pair_model, make_loss(settings.loss))
        self.structure = WalkStructure(
            graph.num_nodes, enhanced.pairs, self_loops=settings.self_loops
        )
        self.pairs = TrainingPairs(self.structure, graph.edges)
        if self.pairs.num_negatives < graph.num_edges:
            raise InputError(
                f"The graph has {graph.num_edges:,} training edges but only "
                f"{self.pairs.num_negatives:,} pairs that are not edges.",
                hint="Gelato learns from sparse graphs; use a heuristic here.",
            )
        self.positives = PositiveBatches(
            graph.num_edges, batches=settings.batches, seed=settings.seed
        )
        self.sampler = make_sampler(
            settings.training,
            self.structure,
            graph.edges,
            batches=settings.batches,
            seed=settings.seed,
        )
        self.all_negatives = NegativePairs(graph.num_nodes, graph.edges)
        self.validation = validation
        self.candidates = all_pairs(graph, graph.edges)

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step."""
        positives = self.positives.batch(epoch, batch)
        with self.clock("mlp"):
            weights = self.weights()
        with self.clock("negatives"):
            negatives = self.sampler.draw(
                epoch, batch, len(positives), self._score(weights, positives)
            )
        with self.clock("walks"):
            return self._loss(weights, positives, negatives, (epoch, batch))

    def weights(self) -> Tensor:
        """Return the enhanced weights with the module as it is."""
        return self.enhanced.weights(self.module.pair_model(self.features))

    def scorer(self) -> WalkScorer:
        """Return what scores pairs with the module as it is (evaluation mode)."""
        self.module.eval()
        with torch.no_grad():
            weights = self.weights().double().numpy()
        return enhanced_scorer(
            self.enhanced, weights, t=self.settings.t, loops=self.settings.self_loops
        )

    def validate(self) -> dict[str, float]:
        """Rank the validation edges among all pairs that are not training edges."""
        counts = rank_counts(
            self.scorer(),
            self.validation,
            self.candidates,
            threads=self.settings.threads,
        )
        return validation_values(counts)

    def _loss(
        self,
        weights: Tensor,
        positives: IntArray,
        negatives: Negatives,
        step: tuple[int, int],
    ) -> Tensor:
        hidden, weights = self._hide(weights, positives)
        options: dict[str, Any] = {
            "t": self.settings.t,
            "hidden": hidden,
            "threads": self.settings.threads,
        }
        count = len(negatives.lists)
        sigma = choose_sigma(
            self.structure.num_nodes, count, uniform=self.sampler.uniform
        )
        if isinstance(self.module.loss, NPairLoss) and sigma == "estimate":
            return n_pair_step(
                weights,
                self.pairs,
                positives,
                negatives.lists,
                negatives.groups,
                **options,
            )
        z_positive, z_negative = standardised_scores(
            weights,
            self.pairs,
            positives,
            negatives.lists,
            sigma=sigma or "estimate",
            sample=None if sigma else self._sigma_sample(*step),
            **options,
        )
        loss: Tensor = self.module.loss(z_positive, z_negative, negatives.groups)
        return loss

    def _sigma_sample(self, epoch: int, batch: int) -> PairLists:
        """Draw uniform negatives for the deviation alone."""
        random = generator(self.settings.seed, "sigma", epoch, batch)
        count = min(SIGMA_SAMPLE, self.all_negatives.count)
        lists, _ = self.structure.sort_pairs(self.all_negatives.sample(count, random))
        return lists

    def _hide(
        self, weights: Tensor, positives: IntArray
    ) -> tuple[npt.NDArray[np.int64], Tensor]:
        return hide_edges(self.enhanced, weights, self.pairs.edge[positives])

    def _score(self, weights: Tensor, positives: IntArray) -> Any:
        def score(lists: PairLists) -> npt.NDArray[Any]:
            hidden, masked = self._hide(weights.detach(), positives)
            _, z = standardised_scores(
                masked,
                self.pairs,
                positives,
                lists,
                t=self.settings.t,
                hidden=hidden,
                threads=self.settings.threads,
            )
            return z.numpy()

        return score


def hide_edges(
    enhanced: EnhancedGraph, weights: Tensor, edges: IntArray
) -> tuple[IntArray, Tensor]:
    """Hide edges as those of the test are hidden (positive masking).

    An edge that is a similarity pair too loses its share of the graph's own weight
    and stays in the graph, as a test edge that is similar does.

    Parameters
    ----------
    enhanced : EnhancedGraph
        What the weights belong to.
    weights : (M,) Tensor
        Enhanced weights.
    edges : (P,) int64
        Positions of the edges to hide.

    Returns
    -------
    removed : (H,) int64
        Positions that leave the graph.
    weights : (M,) Tensor
        Weights of what stays.
    """
    similar = enhanced.is_similar[edges]
    if np.any(similar):
        lost = torch.zeros_like(weights)
        own = enhanced.alpha * enhanced.base[edges[similar]]
        lost[torch.from_numpy(edges[similar])] = torch.from_numpy(own).to(lost.dtype)
        weights = weights - lost
    return edges[~similar], weights


def enhanced_scorer(
    enhanced: EnhancedGraph, weights: npt.NDArray[Any], *, t: int, loops: SelfLoops
) -> WalkScorer:
    """Return the walk scorer of an enhanced graph with given weights."""
    u, v = enhanced.pairs.T
    if not enhanced.directed:
        u, v, weights = np.r_[u, v], np.r_[v, u], np.r_[weights, weights]
    shape = (enhanced.num_nodes, enhanced.num_nodes)
    matrix = sp.csr_array(sp.coo_array((weights, (u, v)), shape=shape))
    matrix.sort_indices()
    return autocovariance_of(matrix, t=t, self_loops=loops)


def validation_values(counts: RankCounts) -> dict[str, float]:
    """Return the values that can select an epoch."""
    return {
        "prec@100%": metrics.precision_at_ratio(counts, 1.0),
        "ap": metrics.average_precision(counts),
        "auc": metrics.area_under_roc(counts),
        "mrr": metrics.mean_reciprocal_rank(counts),
    }
