"""The loss of held-out edges, on pairs that stay the same from epoch to epoch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gelato.graph import IntArray
from gelato.nn.autocovariance import Walk, list_scores, sum_of_squares
from gelato.nn.standardise import TrainingPairs, choose_sigma, estimated_squares
from gelato.training.batches import NegativePairs, generator

# Enough that the sample is no source of noise, and a fraction of a step's cost.
_SAMPLE = 500_000


class ValidationLoss:
    """What the training loss is on validation edges, with the whole training graph.

    They are compared with a uniform sample of the pairs that are neither training nor
    validation edges, the same in every epoch. Nothing is selected by it: it shows
    whether a loss that falls in training falls for unseen edges, too.

    Parameters
    ----------
    pairs : TrainingPairs
        Training edges and diagonal.
    validation : (k, 2) int64
        The held-out edges.
    t : int
        Length of the walk.
    seed : int
        Draws the sample.
    threads : int, optional
        Threads of the kernels; results do not depend on it.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        validation: IntArray,
        *,
        t: int,
        seed: int,
        threads: int | None,
    ) -> None:
        structure = pairs.structure
        known = np.unique(np.concatenate([pairs.training_edges, validation]), axis=0)
        negatives = NegativePairs(structure.num_nodes, known)
        random = generator(seed, "validation loss")
        drawn = negatives.sample(min(_SAMPLE, negatives.count), random)
        lists, order = structure.sort_pairs(np.concatenate([validation, drawn]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.pairs, self.lists = pairs, lists
        self.positives = torch.from_numpy(place[: len(validation)])
        self.negatives = torch.from_numpy(place[len(validation) :])
        # As equal groups as can be; the sample is in no order.
        groups = np.arange(len(drawn)) % len(validation)
        self.groups = groups.astype(np.int32)
        self.walk = Walk(structure, t, None, threads)

    def value(self, loss: nn.Module, weights: Tensor) -> float:
        """Return the loss under given weights of the enhanced edges."""
        n = self.pairs.structure.num_nodes
        with torch.no_grad():
            steady, drawn = list_scores(
                weights, self.walk, (self.pairs.lists, self.lists)
            )
            negative = drawn[self.negatives]
            if choose_sigma(n, len(negative), uniform=True) == "exact":
                squares = sum_of_squares(weights, self.walk)
            else:
                squares = estimated_squares(steady, negative, self.pairs)
            scale = (squares / (n * n - 1.0)).rsqrt().to(weights.dtype)
            z = (drawn[self.positives] * scale, negative * scale)
            return float(loss(*z, self.groups))
