"""Gelato as a training task: pair model, enhanced graph, heuristic, ranking loss.

Each step weighs the enhanced edges with the pair model, hides the batch's positives,
scores them and their negatives and passes the loss back to the pair model.
Autocovariance is standardised by the deviation of all n^2 scores, as in the paper; any
other heuristic, or a mixture of several, by the pairs of the batch.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gelato.errors import UsageError
from gelato.graph import Graph, IntArray
from gelato.kernels.chunks import generator
from gelato.kernels.walk_structure import PairLists, SelfLoops, WalkStructure
from gelato.nn.autocovariance import (
    SIGMA_SAMPLE,
    TrainingPairs,
    choose_sigma,
    standardised_scores,
)
from gelato.nn.enhancement import EnhancedGraph, ReadsEdges
from gelato.nn.first_layer import PairFeatures
from gelato.nn.losses import CrossEntropyLoss, NPairLoss, make_loss
from gelato.nn.step import NearBatch, n_pair_step, near_step
from gelato.nn.two_steps import HeuristicMixture
from gelato.ranking.scorers import RowScorer
from gelato.training.enhanced_scorers import HeuristicName, enhanced_scorer
from gelato.training.near_negatives import (
    NearFarNegatives,
    NearNegatives,
    NegativeKinds,
    choose_near,
)
from gelato.training.negatives import (
    NegativePairs,
    Negatives,
    NegativeSampler,
    make_sampler,
)
from gelato.training.validation import RankedTask, ValidationLoss


@dataclass(frozen=True, eq=False)
class Step:
    """What a step scores pairs with.

    Parameters
    ----------
    number : (int, int)
        Epoch and batch.
    weights : (M,) Tensor
        Enhanced weights of what may be seen.
    hidden : (H,) int64
        Enhanced edges that may not.
    positives : (P,) int64
        The batch's training edges.
    """

    number: tuple[int, int]
    weights: Tensor
    hidden: IntArray
    positives: IntArray


class StepScores(Protocol):
    """What a task asks: a loss, and scores for samplers that follow the model."""

    def loss(self, loss: nn.Module, step: Step, negatives: Negatives) -> Tensor:
        """Return the loss of a step."""

    def score(self, step: Step, lists: PairLists) -> npt.NDArray[Any]:
        """Return the scores of uniformly drawn pairs, without a gradient."""


class WalkScores:
    """Standardised autocovariance.

    Parameters
    ----------
    pairs : TrainingPairs
        Training edges and diagonal.
    t : int
        Length of the walk.
    uniform : bool
        Whether a step's negatives are a uniform sample of all.
    seed : int
        Draws negatives for the deviation alone, where a step's do not suit.

    Attributes
    ----------
    far_errors : list of float
        Per step on near and far negatives, the standard error of the far part of a
        group's sum, relative to that part.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        *,
        t: int,
        uniform: bool,
        seed: int,
    ) -> None:
        self.pairs, self.uniform, self.seed = pairs, uniform, seed
        self.options: dict[str, Any] = {"t": t}
        structure = pairs.structure
        self.all_negatives = NegativePairs(structure.num_nodes, pairs.training_edges)
        self.far_errors: list[float] = []

    def loss(self, loss: nn.Module, step: Step, negatives: Negatives) -> Tensor:
        """Return the loss of a step, fused where the loss and sampler allow it."""
        if isinstance(negatives, NearFarNegatives):
            return self._near_loss(step, negatives)
        lists, groups = negatives.lists, negatives.groups
        num_nodes = self.pairs.structure.num_nodes
        sigma = choose_sigma(num_nodes, len(lists), uniform=self.uniform)
        batch = (step.weights, self.pairs, step.positives, lists)
        options = {"hidden": step.hidden, **self.options}
        if isinstance(loss, NPairLoss) and sigma == "estimate":
            return n_pair_step(*batch, groups=groups, **options)
        z_positive, z_negative = standardised_scores(
            *batch,
            sigma=sigma or "estimate",
            sample=None if sigma else self._sigma_sample(*step.number),
            **options,
        )
        value: Tensor = loss(z_positive, z_negative, groups)
        return value

    def _near_loss(self, step: Step, negatives: NearFarNegatives) -> Tensor:
        """Return the N-pair loss on near and far negatives; keep the far part's error.

        All of the batch's positives are hidden, also those that are not compared.
        """
        batch = NearBatch(
            step.positives[negatives.used],
            negatives.lists,
            negatives.groups,
            negatives.num_near,
            negatives.far,
            negatives.weight,
        )
        # Of the batch's negatives only near ones have large scores, and all of those
        # are here: what they stand for decides, as in plain training.
        num_nodes = self.pairs.structure.num_nodes
        sigma = choose_sigma(num_nodes, int(batch.size), uniform=True)
        options = {"sigma": sigma or "estimate", "hidden": step.hidden, **self.options}
        loss, error = near_step(step.weights, self.pairs, batch, **options)
        self.far_errors.append(error)
        return loss

    def score(self, step: Step, lists: PairLists) -> npt.NDArray[Any]:
        """Return the scores of uniformly drawn pairs, without a gradient."""
        given = (step.weights.detach(), self.pairs, step.positives, lists)
        _, z = standardised_scores(*given, hidden=step.hidden, **self.options)
        return z.numpy()

    def _sigma_sample(self, epoch: int, batch: int) -> PairLists:
        """Draw uniform negatives for the deviation alone."""
        random = generator(self.seed, "sigma", epoch, batch)
        count = min(SIGMA_SAMPLE, self.all_negatives.count)
        sample = self.all_negatives.sample(count, random)
        return self.pairs.structure.sort_pairs(sample)[0]


class MixtureScores:
    """One or several heuristics, each standardised over the batch.

    Parameters
    ----------
    pairs : TrainingPairs
        The training edges.
    mixture : HeuristicMixture
        What is scored; its coefficients are learned where it has several.
    """

    def __init__(self, pairs: TrainingPairs, mixture: HeuristicMixture) -> None:
        self.pairs, self.mixture = pairs, mixture

    def loss(self, loss: nn.Module, step: Step, negatives: Negatives) -> Tensor:
        """Return the loss of a step."""
        edges = self.pairs.training_edges[step.positives]
        both = np.concatenate([edges, self._outside(negatives.lists)])
        single = step.weights.to(self.mixture.raw.dtype)
        z = self.mixture(single, self.pairs.structure, both, mask=step.hidden)
        count = len(edges)
        value: Tensor = loss(z[:count], z[count:], negatives.groups)
        return value

    def score(self, step: Step, lists: PairLists) -> npt.NDArray[Any]:
        """Return the scores of uniformly drawn pairs, without a gradient."""
        # A copy, because these pairs must not enter the running statistics.
        mixture = deepcopy(self.mixture)
        with torch.no_grad():
            z: Tensor = mixture(
                step.weights.to(mixture.raw.dtype),
                self.pairs.structure,
                self._outside(lists),
                mask=step.hidden,
            )
        return z.numpy()

    def _outside(self, lists: PairLists) -> IntArray:
        ends = np.stack([lists.rows(), lists.listed_columns()], axis=1)
        return self.pairs.structure.outside[ends]


TrainingSet = Literal["unbiased", "biased", "partitioned", "adversarial"]


@dataclass(frozen=True)
class StepSettings:
    """What a training step of Gelato does.

    Parameters
    ----------
    heuristic : {"ac", "cn", "aa", "ra", "mixture"}
        What scores pairs on the enhanced graph.
    t : int
        Length of the walk of "ac".
    self_loops : {"isolated", "all"}
        Where loops of weight 1 are added.
    batches : int
        Steps per epoch.
    loss : str
        A name of :data:`gelato.nn.losses.LOSSES`.
    training : {"unbiased", "biased", "partitioned", "adversarial"}
        Which negatives a step sees.
    bias : {"zero", "log-odds"}
        Where the bias of cross entropy's unit starts.
    redraw : bool
        Draw the negatives of biased training anew each epoch.
    negatives : {"auto", "all", "near"}
        Whether unbiased training deals all negatives one by one, or only near ones,
        with a sample for the far ones (N-pair loss of "ac").
    near_rate : float, optional
        Share of the near negatives to train on; by default as many as suit.
    metric : str
        Validation reports this value besides the usual ones.
    seed : int
        Decides batches and negatives.
    """

    heuristic: HeuristicName = "ac"
    t: int = 3
    self_loops: SelfLoops = "isolated"
    batches: int = 10
    loss: str = "n-pair"
    training: TrainingSet = "unbiased"
    bias: str = "zero"
    redraw: bool = True
    negatives: NegativeKinds = "all"
    near_rate: float | None = None
    metric: str = "prec@100%"
    seed: int = 0


class GelatoModule(nn.Module):
    """Everything that is learned.

    Parameters
    ----------
    pair_model : nn.Module, optional
        Weighs pairs; none where the weights are fixed.
    loss : nn.Module
        Some losses have a unit to learn.
    mixture : HeuristicMixture, optional
        Standardises and combines heuristics other than autocovariance.
    """

    def __init__(
        self,
        pair_model: nn.Module | None,
        loss: nn.Module,
        mixture: HeuristicMixture | None = None,
    ) -> None:
        super().__init__()
        self.pair_model = pair_model
        self.loss = loss
        self.mixture = mixture


class EnhancedTask(RankedTask):
    """What every way of training Gelato shares: weights, batches, validation.

    Parameters
    ----------
    graph, validation
        As for :class:`~gelato.training.validation.RankedTask`.
    enhanced : EnhancedGraph
        The graph's edges and similarity pairs.
    pair_model : nn.Module, optional
        Maps :class:`PairFeatures` to a weight per pair (``PairMLP`` in the paper);
        not needed where the weights depend on no model.
    settings : StepSettings
        What a step does.
    """

    def __init__(
        self,
        graph: Graph,
        enhanced: EnhancedGraph,
        validation: IntArray,
        pair_model: nn.Module | None,
        settings: StepSettings,
    ) -> None:
        batches, metric, seed = settings.batches, settings.metric, settings.seed
        super().__init__(graph, validation, batches=batches, metric=metric, seed=seed)
        self.graph, self.settings, self.enhanced = graph, settings, enhanced
        mixture = None
        if settings.heuristic != "ac":
            mixture = _mixture(settings, graph.num_edges)
        self.module = GelatoModule(pair_model, _make_loss(settings, graph), mixture)
        self.features = None
        if pair_model is not None:
            self.features = PairFeatures(
                graph.attributes, enhanced.pairs, directed=graph.directed
            )

    def trained(self, hidden: IntArray | None = None) -> Tensor | None:
        """Return what the pair model says of every enhanced pair.

        Parameters
        ----------
        hidden : (h,) int, optional
            Edges, by position, that a pair model which reads edges may not see.
        """
        model = self.module.pair_model
        if model is None:
            return None
        if isinstance(model, ReadsEdges):
            edges = self.graph.edges
            if hidden is not None:
                edges = np.delete(edges, hidden, axis=0)
            model.read(self.graph.with_edges(edges))
        said: Tensor = model(self.features)
        return said

    def weights(self) -> Tensor:
        """Return the enhanced weights with the module as it is (evaluation mode)."""
        self.module.eval()
        with torch.no_grad():
            return self.enhanced.weights(self.trained())

    def scorer(self, weights: Tensor) -> RowScorer:
        """Return what scores pairs under given enhanced weights."""
        return enhanced_scorer(
            self.enhanced,
            weights.double().numpy(),
            heuristic=self.settings.heuristic,
            t=self.settings.t,
            self_loops=self.settings.self_loops,
            mixture=self.module.mixture,
        )

    def validate(self) -> dict[str, float]:
        """Rank the validation edges among all pairs that are not training edges."""
        weights = self.weights()
        return self.ranked(self.scorer(weights)) | self.told(weights)

    def told(self, weights: Tensor) -> dict[str, float]:
        """Return what a validation tells besides; nothing here."""
        return {}


class GelatoTask(EnhancedTask):
    """Losses of Gelato by kernels whose memory follows the edges.

    See :class:`EnhancedTask` for the parameters.
    """

    def __init__(
        self,
        graph: Graph,
        enhanced: EnhancedGraph,
        validation: IntArray,
        pair_model: nn.Module | None,
        settings: StepSettings,
    ) -> None:
        super().__init__(graph, enhanced, validation, pair_model, settings)
        self.structure = WalkStructure(
            graph.num_nodes, enhanced.pairs, self_loops=settings.self_loops
        )
        self.pairs = TrainingPairs(self.structure, graph.edges)
        self.notes: tuple[str, ...] = ()
        self.sampler = self._sampler(graph.edges)
        self.scores = self._scores()
        self.valid_loss: ValidationLoss | None = None
        # Walks from all nodes for the loss alone are too slow where near ones suffice.
        if isinstance(self.scores, WalkScores) and not isinstance(
            self.sampler, NearNegatives
        ):
            self.pairs.mark_near(settings.t)
            self.valid_loss = ValidationLoss(
                self.pairs,
                validation,
                t=settings.t,
                seed=settings.seed,
            )

    def told(self, weights: Tensor) -> dict[str, float]:
        """Return the loss of the validation edges, where it is affordable."""
        if self.valid_loss is None:
            return {}
        return {"valid_loss": self.valid_loss.value(self.module.loss, weights)}

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step."""
        positives = self.positives.batch(epoch, batch)
        with self.clock("mlp"):
            hidden, weights = self.hide(self.trained(positives), positives)
            step = Step((epoch, batch), weights, hidden, positives)
        with self.clock("negatives"):
            score = partial(self.scores.score, step)
            negatives = self.sampler.draw(epoch, batch, len(positives), score)
        with self.clock("walks"):
            return self.scores.loss(self.module.loss, step, negatives)

    def hide(
        self, trained: Tensor | None, positives: IntArray
    ) -> tuple[IntArray, Tensor]:
        """Return the edges that a batch's positives remove, and all weights."""
        return hide_edges(self.enhanced, trained, self.pairs.edge[positives])

    def epoch_values(self) -> dict[str, float]:
        """Return what an epoch's history tells besides: the error of the far part."""
        if not isinstance(self.scores, WalkScores) or not self.scores.far_errors:
            return {}
        errors, self.scores.far_errors = self.scores.far_errors, []
        return {"far_error": sum(errors) / len(errors)}

    def _sampler(self, edges: IntArray) -> NegativeSampler:
        given = self.settings
        dealt: dict[str, Any] = {"batches": given.batches, "seed": given.seed}
        if divides(given):
            options: dict[str, Any] = {"t": given.t}
            near, why = choose_near(given.negatives, self.structure, edges, **options)
            if near is not None:
                sampler = NearNegatives(
                    self.structure, edges, near, rate=given.near_rate, **dealt
                )
                self.notes = (sampler.note,)
                return sampler
            self.notes = (why,) if why else ()
        if given.training == "biased":
            dealt["redraw"] = given.redraw
        return make_sampler(given.training, self.structure, edges, **dealt)

    def _scores(self) -> StepScores:
        if self.module.mixture is not None:
            return MixtureScores(self.pairs, self.module.mixture)
        return WalkScores(
            self.pairs,
            t=self.settings.t,
            uniform=self.sampler.uniform,
            seed=self.settings.seed,
        )


def _make_loss(settings: StepSettings, graph: Graph) -> nn.Module:
    if settings.bias == "zero":
        return make_loss(settings.loss)
    # Unbiased training sees every negative, any other as many as positives.
    negatives = graph.num_edges
    if settings.training == "unbiased":
        negatives = graph.num_non_edges
    return CrossEntropyLoss(bias=math.log(graph.num_edges / negatives))


def divides(settings: StepSettings) -> bool:
    """Tell whether a training can tell near from far negatives."""
    return (
        settings.training == "unbiased"
        and settings.loss == "n-pair"
        and settings.heuristic == "ac"
    )


def hide_edges(
    enhanced: EnhancedGraph, trained: Tensor | None, edges: IntArray
) -> tuple[IntArray, Tensor]:
    """Hide edges as those of the test are hidden (positive masking).

    An edge that is a similarity pair too loses its share of the graph's own weight
    and stays in the graph, as a test edge that is similar does.

    Parameters
    ----------
    enhanced : EnhancedGraph
        What the weights belong to.
    trained : (M,) Tensor, optional
        What the pair model says.
    edges : (P,) int64
        Positions of the edges to hide.

    Returns
    -------
    removed : (H,) int64
        Positions that leave the graph.
    weights : (M,) Tensor
        Enhanced weights of what stays.
    """
    similar = enhanced.is_similar[edges]
    if np.any(similar):
        # Not subtracted afterwards: rounding would let the hidden weight show through.
        base = enhanced.base.copy()
        base[edges[similar]] = 0.0
        enhanced = replace(enhanced, base=base)
    weights = enhanced.weights(trained)
    return edges[~similar], weights if trained is not None else weights.float()


def _mixture(settings: StepSettings, num_edges: int) -> HeuristicMixture:
    if num_edges < 2 * settings.batches:
        raise UsageError(
            f"{num_edges} training edges in {settings.batches} batches leave a single "
            "positive in some, which cannot be standardised.",
            hint=f"Use at most {num_edges // 2} batches.",
        )
    if settings.heuristic == "mixture":
        return HeuristicMixture()
    return HeuristicMixture((settings.heuristic,))
