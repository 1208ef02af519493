"""How a training step scores its positives and negatives, and what it loses.

Autocovariance is standardised by the deviation of all n^2 scores, as in the paper;
any other heuristic, or a mixture of several, by the pairs of the batch.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gelato.graph import IntArray
from gelato.kernels.walk_structure import PairLists
from gelato.nn.losses import NPairLoss
from gelato.nn.standardise import (
    SIGMA_SAMPLE,
    TrainingPairs,
    choose_sigma,
    standardised_scores,
)
from gelato.nn.step import NearBatch, n_pair_step, near_step
from gelato.nn.two_steps import HeuristicMixture
from gelato.training.batches import NegativePairs, generator
from gelato.training.near_negatives import NearFarNegatives
from gelato.training.negatives import Negatives


class StepScores(Protocol):
    """What a task asks: a loss, and scores for samplers that follow the model.

    ``hidden`` are the enhanced edges that the step may not see.
    """

    def loss(
        self,
        loss: nn.Module,
        weights: Tensor,
        hidden: IntArray,
        positives: IntArray,
        negatives: Negatives,
        step: tuple[int, int],
    ) -> Tensor:
        """Return the loss of a step (epoch, batch)."""

    def score(
        self, weights: Tensor, hidden: IntArray, positives: IntArray, lists: PairLists
    ) -> npt.NDArray[Any]:
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

    def loss(
        self,
        loss: nn.Module,
        weights: Tensor,
        hidden: IntArray,
        positives: IntArray,
        negatives: Negatives,
        step: tuple[int, int],
    ) -> Tensor:
        """Return the loss of a step, fused where the loss and sampler allow it."""
        if isinstance(negatives, NearFarNegatives):
            return self._near_loss(weights, hidden, positives, negatives)
        lists, groups = negatives.lists, negatives.groups
        num_nodes = self.pairs.structure.num_nodes
        sigma = choose_sigma(num_nodes, len(lists), uniform=self.uniform)
        batch = (weights, self.pairs, positives, lists)
        if isinstance(loss, NPairLoss) and sigma == "estimate":
            return n_pair_step(*batch, groups=groups, hidden=hidden, **self.options)
        z_positive, z_negative = standardised_scores(
            *batch,
            sigma=sigma or "estimate",
            sample=None if sigma else self._sigma_sample(*step),
            hidden=hidden,
            **self.options,
        )
        value: Tensor = loss(z_positive, z_negative, groups)
        return value

    def _near_loss(
        self,
        weights: Tensor,
        hidden: IntArray,
        positives: IntArray,
        negatives: NearFarNegatives,
    ) -> Tensor:
        """Return the N-pair loss on near and far negatives; keep the far part's error.

        All of the batch's positives are hidden, also those that are not compared.
        """
        batch = NearBatch(
            positives[negatives.used],
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
        loss, error = near_step(
            weights,
            self.pairs,
            batch,
            sigma=sigma or "estimate",
            hidden=hidden,
            **self.options,
        )
        self.far_errors.append(error)
        return loss

    def score(
        self, weights: Tensor, hidden: IntArray, positives: IntArray, lists: PairLists
    ) -> npt.NDArray[Any]:
        """Return the scores of uniformly drawn pairs, without a gradient."""
        _, z = standardised_scores(
            weights.detach(),
            self.pairs,
            positives,
            lists,
            hidden=hidden,
            **self.options,
        )
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

    def loss(
        self,
        loss: nn.Module,
        weights: Tensor,
        hidden: IntArray,
        positives: IntArray,
        negatives: Negatives,
        step: tuple[int, int],
    ) -> Tensor:
        """Return the loss of a step."""
        edges = self.pairs.training_edges[positives]
        both = np.concatenate([edges, self._outside(negatives.lists)])
        single = weights.to(self.mixture.raw.dtype)
        z = self.mixture(single, self.pairs.structure, both, mask=hidden)
        count = len(positives)
        value: Tensor = loss(z[:count], z[count:], negatives.groups)
        return value

    def score(
        self, weights: Tensor, hidden: IntArray, positives: IntArray, lists: PairLists
    ) -> npt.NDArray[Any]:
        """Return the scores of uniformly drawn pairs, without a gradient."""
        # A copy, because these pairs must not enter the running statistics.
        mixture = deepcopy(self.mixture)
        with torch.no_grad():
            z: Tensor = mixture(
                weights.to(mixture.raw.dtype),
                self.pairs.structure,
                self._outside(lists),
                mask=hidden,
            )
        return z.numpy()

    def _outside(self, lists: PairLists) -> IntArray:
        ends = np.stack([lists.rows(), lists.listed_columns()], axis=1)
        return self.pairs.structure.outside[ends]
