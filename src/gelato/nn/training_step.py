"""Scores, deviation, N-pair loss and gradient of a step in one go.

The same numbers as ``standardised_scores`` followed by ``NPairLoss``, without the
intermediate passes over millions of pairs that autograd would make.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gelato.engines.walk_passes import pull_gradients, score_pairs
from gelato.errors import UsageError
from gelato.kernels.group_loss import n_pair_terms, through_deviation
from gelato.kernels.walk_structure import PairLists
from gelato.nn.autocovariance import Walk, as_array
from gelato.nn.standardise import IntArray, TrainingPairs

Groups = npt.NDArray[np.int32]


class _NPairStep(torch.autograd.Function):
    """The loss is a scalar, so its gradient is computed at once and scaled later."""

    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        walk: Walk,
        pairs: TrainingPairs,
        batch: tuple[IntArray, PairLists, Groups],
    ) -> Tensor:
        loss, gradient = _loss_and_gradient(as_array(weights), walk, pairs, batch)
        ctx.gradient = torch.from_numpy(gradient).to(weights)
        return weights.new_tensor(loss)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.gradient * gradients[0], None, None, None


def n_pair_step(
    weights: Tensor,
    pairs: TrainingPairs,
    positives: IntArray,
    negatives: PairLists,
    groups: Groups,
    *,
    t: int = 3,
    hidden: IntArray | None = None,
    threads: int | None = None,
) -> Tensor:
    """Return the N-pair loss of a step of unbiased training.

    Sigma is estimated with the batch's negatives as a uniform sample.

    Parameters
    ----------
    weights, pairs, positives, negatives, t, hidden, threads
        As for :func:`gelato.nn.standardise.standardised_scores`.
    groups : (K,) int32
        The positive, 0 .. P-1, that each negative is dealt to.
    """
    if not len(positives) or not len(negatives):
        raise UsageError(
            f"A step needs positives and negatives, not {len(positives)} and "
            f"{len(negatives)}.",
            hint="Use fewer batches.",
        )
    mask = pairs.edge[positives] if hidden is None else hidden
    walk = Walk(pairs.structure, t, mask, threads)
    batch = (positives, negatives, groups)
    loss = _NPairStep.apply(weights, walk, pairs, batch)  # type: ignore[no-untyped-call]
    return cast(Tensor, loss)


def _loss_and_gradient(
    weights: npt.NDArray[Any],
    walk: Walk,
    pairs: TrainingPairs,
    batch: tuple[IntArray, PairLists, Groups],
) -> tuple[float, npt.NDArray[np.float64]]:
    positives, negatives, groups = batch
    n, lists = walk.structure.num_nodes, (pairs.lists, negatives)
    matrix = walk.structure.step(weights, walk.mask)
    scores, squares = score_pairs(matrix, lists, t=walk.t, threads=walk.threads)
    steady, drawn = scores
    factor = pairs.num_negatives / len(negatives)
    sigma = float(np.sqrt((squares[0] + factor * squares[1]) / (n * n - 1.0)))
    at = pairs.position[positives]
    total, by_positive, by_negative, dot, _ = n_pair_terms(
        steady[at], drawn, groups, scale=1.0 / sigma, threads=walk.threads
    )
    count = len(positives) + len(negatives)
    scale = 1.0 / (sigma * count)
    # With g the gradient of z, sigma passes -(sum g R) m R / (sigma^3 (n^2 - 1)) to a
    # pair that stands for m entries of the matrix.
    coefficient = dot / (count * sigma**3 * (n * n - 1.0))
    through_deviation(
        by_negative, drawn, scale, 2.0 * factor * coefficient, walk.threads
    )
    by_steady = -coefficient * pairs.multiplicity * steady
    np.add.at(by_steady, at, scale * by_positive)
    gradient = pull_gradients(
        matrix,
        lists,
        scores,
        (by_steady.astype(steady.dtype), by_negative),
        walk.structure.num_edges,
        t=walk.t,
        threads=walk.threads,
    )
    return total / count, gradient
