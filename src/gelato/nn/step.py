"""Scores, deviation, N-pair loss and gradient of a step in one go.

The same numbers as ``standardised_scores`` followed by ``NPairLoss``, without the
intermediate passes over millions of pairs that autograd would make.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gelato.errors import UsageError
from gelato.kernels.walk_structure import PairLists, StepMatrix
from gelato.nn.autocovariance import (
    IntArray,
    Sigma,
    TrainingPairs,
    Walk,
    as_array,
    pull_gradients,
    score_pairs,
    sum_of_squares,
)
from gelato.nn.losses import NPairTerms, n_pair_terms, through_deviation

Groups = npt.NDArray[np.int32]


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FarSample:
    """Far negatives that stand for all of them.

    Parameters
    ----------
    pairs : (S, 2) int64
        Uniform far negatives, in the structure's inside labels.
    count : int
        Number of far negatives of the graph.
    per_positive : float
        How many of them a positive is compared with, in expectation.
    complete : bool
        Whether the sample is all of them.
    """

    pairs: IntArray
    count: int
    per_positive: float
    complete: bool = False


NO_FAR = FarSample(np.empty((0, 2), np.int64), 0, 0.0, complete=True)


@dataclass(frozen=True, eq=False)
class NearBatch:
    """What a step compares.

    Parameters
    ----------
    positives : (P,) int64
        Positions in the training edges.
    near : PairLists
        Near negatives, a uniform sample of all of them.
    groups : (K,) int32
        The positive, 0 .. P-1, that each near negative is compared with.
    num_near : int
        Number of near negatives of the graph.
    far : FarSample
        The far negatives.
    weight : float
        How many near negatives of its group each one stands for.
    """

    positives: IntArray
    near: PairLists
    groups: Groups
    num_near: int
    far: FarSample
    weight: float = 1.0

    @property
    def size(self) -> float:
        """Number of pairs that the step stands for."""
        return (
            len(self.positives) * (1.0 + self.far.per_positive)
            + len(self.near) * self.weight
        )


class _FarPart:
    """Scores of the far sample, their sum in a group, and its gradient."""

    def __init__(self, matrix: StepMatrix, far: FarSample) -> None:
        self.far, self.num_nodes = far, matrix.num_nodes
        roots = matrix.roots[far.pairs]
        self.scores: Floats = -np.square(roots.prod(axis=1) / matrix.volume)
        self.multiplicity = 2.0 * far.count / max(1, len(far.pairs))

    def squares(self) -> float:
        """Estimate the sum of R^2 over both entries of every far pair."""
        return float(self.multiplicity * (self.scores @ self.scores))

    def group_sum(self, sigma: float) -> tuple[float, Floats, float]:
        """Return the log of a group's far sum, its gradient, and its error.

        The gradient is with respect to each z; the error is the standard error of
        the sum, relative to it.
        """
        size = len(self.scores)
        if not size or self.far.per_positive == 0:
            return -math.inf, np.zeros(size), 0.0
        z = self.scores / sigma
        top = z.max()
        terms = np.exp(z - top)
        total = terms.sum()
        error = 0.0
        if not self.far.complete:
            error = float(terms.std() / terms.mean()) / math.sqrt(size)
        log_sum = top + math.log(total / size * self.far.per_positive)
        return float(log_sum), terms / total, error

    def at_nodes(self, by_score: Floats) -> Floats:
        """Return the sum of 2 g R over the pairs of every node."""
        ends = self.far.pairs.ravel()
        values = np.repeat(2.0 * by_score * self.scores, 2)
        sums = np.bincount(ends, weights=values, minlength=self.num_nodes)
        return sums.astype(np.float64)


class _NearStep(torch.autograd.Function):
    """The loss is a scalar, so its gradient is computed at once and scaled later."""

    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        squares: Tensor | None,
        walk: Walk,
        pairs: TrainingPairs,
        batch: NearBatch,
    ) -> tuple[Tensor, Tensor]:
        step = _Step(as_array(weights), walk, pairs, batch)
        loss, error = step.loss(None if squares is None else float(squares))
        ctx.gradient = torch.from_numpy(step.gradient()).to(weights)
        ctx.by_squares = None if squares is None else -0.5 * step.coefficient
        ctx.mark_non_differentiable(error_tensor := torch.tensor(error))
        return weights.new_tensor(loss), error_tensor

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        by_squares = None
        if ctx.by_squares is not None:
            by_squares = gradients[0].double() * ctx.by_squares
        return ctx.gradient * gradients[0], by_squares, None, None, None


class _Step:
    """One evaluation of the loss; keeps what its gradient needs."""

    def __init__(
        self,
        weights: npt.NDArray[Any],
        walk: Walk,
        pairs: TrainingPairs,
        batch: NearBatch,
    ) -> None:
        self.walk, self.pairs, self.batch = walk, pairs, batch
        self.matrix = walk.structure.step(weights, walk.mask)
        self.lists = (pairs.lists, batch.near)
        self.scores, self.sums = score_pairs(self.matrix, self.lists, walk)
        self.far = _FarPart(self.matrix, batch.far)
        self.near_factor = batch.num_near / max(1, len(batch.near))
        self.terms: NPairTerms
        self.sigma = self.coefficient = 0.0
        self.through_pairs = True

    def loss(self, squares: float | None) -> tuple[float, float]:
        """Return the loss and the relative error of the far part of a group's sum.

        Without ``squares``, the sum of R^2 over all n^2 entries, it is estimated.
        """
        self.through_pairs = squares is None
        if squares is None:
            near = self.near_factor * self.sums[1]
            squares = float(self.sums[0] + near + self.far.squares())
        entries = float(self.walk.structure.num_nodes) ** 2 - 1.0
        self.sigma = math.sqrt(squares / entries)
        common, self.far_shares, error = self.far.group_sum(self.sigma)
        steady, drawn = self.scores
        self.terms = n_pair_terms(
            steady[self.pairs.position[self.batch.positives]],
            drawn,
            self.batch.groups,
            scale=1.0 / self.sigma,
            weight=self.batch.weight,
            common=common,
        )
        dot = self.terms.dot
        dot += self.terms.by_common * float(self.far_shares @ self.far.scores)
        # With g the gradient of z, sigma passes -(sum g R) m R / (sigma^3 (n^2 - 1))
        # to a pair that stands for m entries of the matrix.
        self.coefficient = dot / (self.batch.size * self.sigma**3 * entries)
        return self.terms.total / self.batch.size, error

    def gradient(self) -> npt.NDArray[np.float64]:
        """Return the gradient of the loss with respect to every edge's weight."""
        steady, drawn = self.scores
        scale = 1.0 / (self.sigma * self.batch.size)
        through = self.coefficient if self.through_pairs else 0.0
        by_near = self.terms.by_negative
        through_deviation(by_near, drawn, scale, 2.0 * self.near_factor * through)
        by_steady = -through * self.pairs.multiplicity * steady
        at = self.pairs.position[self.batch.positives]
        np.add.at(by_steady, at, scale * self.terms.by_positive)
        by_far = scale * self.terms.by_common * self.far_shares
        by_far -= through * self.far.multiplicity * self.far.scores
        return pull_gradients(
            self.matrix,
            self.lists,
            self.scores,
            (by_steady.astype(steady.dtype), by_near),
            self.walk,
            at_nodes=self.far.at_nodes(by_far),
        )


def near_step(
    weights: Tensor,
    pairs: TrainingPairs,
    batch: NearBatch,
    *,
    t: int = 3,
    sigma: Sigma = "estimate",
    hidden: IntArray | None = None,
) -> tuple[Tensor, float]:
    """Return the N-pair loss of a step on near and far negatives.

    Parameters
    ----------
    weights : (M,) Tensor
        Weight of every edge of the structure.
    pairs : TrainingPairs
        Training edges and diagonal.
    batch : NearBatch
        Positives, near and far negatives.
    t : int
        Length of the walk.
    sigma : {"estimate", "exact"}
        "estimate" sums R^2 over edges and diagonal exactly, over near and far
        negatives by the batch's; "exact" visits all pairs.
    hidden : (H,) int64, optional
        Edges removed from the graph, as positions in the structure's edges; by
        default the batch's positives.

    Returns
    -------
    loss : Tensor
        Differentiable in the weights.
    error : float
        Standard error of the far part of a group's sum, relative to that part.
    """
    if not len(batch.positives) or not len(batch.near) + len(batch.far.pairs):
        raise UsageError(
            "A step needs positives and negatives, and one of them is missing.",
            hint="Use fewer batches.",
        )
    mask = pairs.edge[batch.positives] if hidden is None else hidden
    walk = pairs.walk(t, mask)
    squares = sum_of_squares(weights, walk) if sigma == "exact" else None
    loss, error = _NearStep.apply(weights, squares, walk, pairs, batch)  # type: ignore[no-untyped-call]
    return cast(Tensor, loss), float(error)


def n_pair_step(
    weights: Tensor,
    pairs: TrainingPairs,
    positives: IntArray,
    negatives: PairLists,
    groups: Groups,
    *,
    t: int = 3,
    hidden: IntArray | None = None,
) -> Tensor:
    """Return the N-pair loss of a step of unbiased training: no negative is far.

    Sigma is estimated with the batch's negatives as a uniform sample.

    Parameters
    ----------
    weights, pairs, positives, negatives, t, hidden
        As for :func:`gelato.nn.autocovariance.standardised_scores`.
    groups : (K,) int32
        The positive, 0 .. P-1, that each negative is dealt to.
    """
    batch = NearBatch(positives, negatives, groups, pairs.num_negatives, NO_FAR)
    return near_step(weights, pairs, batch, t=t, hidden=hidden)[0]
