"""Training losses behind one small interface: scores in, a scalar out.

A loss is called with the scores of the batch's positives (P,), of its negatives
(K,) and, for each negative, the positive it is compared with (K,), 0 .. P-1. A loss
that does not group ignores the last. Register others in ``LOSSES``.

The N-pair loss over groups of negatives, and its gradient, takes three passes. For a
positive with score p and its group's negatives z_k, it is
log(1 + sum exp(z_k - p)) = log(sum exp(z_k - m) + exp(p - m)) + m - p, with m the
largest score of the group, the positive included: no exponential can overflow.
Negatives may carry a weight, and every group a further term in common, such as what
its far negatives add up to: log(1 + weight * sum exp(z_k - p) + exp(common - p)).
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.errors import UnknownNameError, UsageError
from gelato.kernels.chunks import NUM_CHUNKS, run_chunks
from gelato.kernels.compiled import kernel

Floats = npt.NDArray[Any]


@kernel()
def _group_maxima(negatives, groups, largest):
    for i in range(negatives.shape[0]):
        g = np.uint32(groups[i])
        if negatives[i] > largest[g]:
            largest[g] = negatives[i]


@kernel()
def _group_sums(negatives, groups, largest, scale, shares, sums):
    """Write exp(scale (z - m)) to ``shares`` and add it to its group's sum."""
    tiny = shares.dtype.type(1e-30)
    for i in range(negatives.shape[0]):
        g = np.uint32(groups[i])
        share = math.exp((negatives[i] - largest[g]) * scale)
        if share < tiny:  # denormal numbers would slow down all that follows
            share = tiny * 0
        shares[i] = share
        sums[g] += share


@kernel()
def _finish_shares(negatives, groups, inverse, shares):
    """Divide the shares by their group's total; return sum of share * z."""
    dot = 0.0
    for i in range(negatives.shape[0]):
        share = shares[i] * inverse[np.uint32(groups[i])]
        shares[i] = share
        dot += np.float64(share) * np.float64(negatives[i])
    return dot


@kernel(fastmath={"contract"})
def _combine(gradient, scores, factor, coefficient):
    """Replace g by factor * g - coefficient * R."""
    for i in range(gradient.shape[0]):
        gradient[i] = factor * gradient[i] - coefficient * scores[i]


def through_deviation(
    gradient: Floats,
    scores: Floats,
    factor: float,
    coefficient: float,
) -> None:
    """Turn a gradient of z = R / sigma into one of R, in place.

    ``factor`` is 1 / sigma; ``coefficient`` times R is what passes through sigma.
    """
    dtype = gradient.dtype.type
    numbers = (dtype(factor), dtype(coefficient))

    def work(chunk: int, part: slice) -> None:
        _combine(gradient[part], scores[part], *numbers)

    _each_part(work, len(gradient))


class NPairTerms(NamedTuple):
    """The summed N-pair loss of a batch and its gradient."""

    total: float
    """Sum of the losses of the positives."""
    by_positive: Floats
    """(P,) gradient with respect to ``scale`` times each positive's score."""
    by_negative: Floats
    """(K,) the same for negatives."""
    dot: float
    """Sum of gradient times (unscaled) score over all of them."""
    by_common: float
    """Gradient with respect to ``common``."""


def n_pair_terms(
    positives: Floats,
    negatives: Floats,
    groups: npt.NDArray[np.int32],
    *,
    scale: float = 1.0,
    weight: float = 1.0,
    common: float = -math.inf,
) -> NPairTerms:
    """Return the summed N-pair loss of ``scale`` times the scores, and its gradient.

    Parameters
    ----------
    positives : (P,) float
        Scores of the positives.
    negatives : (K,) float
        Scores of the negatives.
    groups : (K,) int32
        The positive, 0 .. P-1, that each negative is compared with.
    scale : float
        A positive factor on all scores, such as 1 / sigma.
    weight : float
        How many negatives each of them stands for.
    common : float
        Logarithm of what every group's sum of exponentials has besides; not scaled.
    """
    dtype, count, size = negatives.dtype, len(positives), len(negatives)
    largest = np.repeat(positives[None], NUM_CHUNKS, axis=0)
    shares = np.empty(size, dtype)
    sums, dots = np.zeros((NUM_CHUNKS, count)), np.zeros(NUM_CHUNKS)

    def find_maxima(chunk: int, part: slice) -> None:
        _group_maxima(negatives[part], groups[part], largest[chunk])

    def add_up(chunk: int, part: slice) -> None:
        _group_sums(
            negatives[part], groups[part], top, factor, shares[part], sums[chunk]
        )

    def finish(chunk: int, part: slice) -> None:
        dots[chunk] = _finish_shares(
            negatives[part], groups[part], inverse, shares[part]
        )

    _each_part(find_maxima, size)
    top = np.maximum(largest.max(axis=0), dtype.type(common / scale))
    factor = dtype.type(scale)
    _each_part(add_up, size)
    gap = (top - positives).astype(np.float64) * scale
    own = np.exp(-gap)
    shared = np.exp(common - top.astype(np.float64) * scale)
    total = weight * sums.sum(axis=0) + own + shared
    inverse = (weight / total).astype(dtype)
    _each_part(finish, size)
    by_positive = own / total - 1.0
    dot = float(dots.sum() + by_positive @ positives.astype(np.float64))
    loss = float(np.sum(np.log(total) + gap))
    by_common = float(np.sum(shared / total))
    return NPairTerms(loss, by_positive.astype(dtype), shares, dot, by_common)


def _each_part(work: Callable[[int, slice], None], size: int) -> None:
    """Call ``work`` for each of a fixed number of parts of an array."""
    bounds = [size * i // NUM_CHUNKS for i in range(NUM_CHUNKS + 1)]
    run_chunks(lambda i: work(i, slice(bounds[i], bounds[i + 1])), NUM_CHUNKS)


Groups = npt.NDArray[np.int32]


class _NPair(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, positives: Tensor, negatives: Tensor, groups: Groups
    ) -> Tensor:
        terms = n_pair_terms(
            positives.detach().cpu().contiguous().numpy(),
            negatives.detach().cpu().contiguous().numpy(),
            groups,
        )
        ctx.save_for_backward(
            torch.from_numpy(terms.by_positive).to(positives.device),
            torch.from_numpy(terms.by_negative).to(negatives.device),
        )
        return positives.new_tensor(terms.total)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        by_positive, by_negative = ctx.saved_tensors
        return by_positive * gradients[0], by_negative * gradients[0], None


class NPairLoss(nn.Module):
    """Compare each positive with its whole group of negatives at once.

    The paper's loss: log(1 + sum over the group of exp(z_negative - z_positive)),
    summed over the positives and divided by the number of pairs P + K. With one
    negative per positive it is the pairwise logistic loss.

    Examples
    --------
    >>> loss = NPairLoss()
    >>> groups = np.zeros(2, np.int32)
    >>> value = loss(torch.zeros(1), torch.zeros(2), groups)  # log(1 + 2) / 3
    >>> round(float(value), 4)
    0.3662
    """

    def forward(self, positives: Tensor, negatives: Tensor, groups: Groups) -> Tensor:
        """Return the loss of a batch."""
        check_batch(positives, negatives, groups)
        total = cast(Tensor, _NPair.apply(positives, negatives, groups))  # type: ignore[no-untyped-call]
        return total / (len(positives) + len(negatives))


class CrossEntropyLoss(nn.Module):
    """Tell positives from negatives one by one, through a learned linear unit.

    The score z becomes the probability sigmoid(weight z + bias); the loss is the mean
    binary cross entropy over the P + K pairs.

    Parameters
    ----------
    learned : bool
        Whether the unit is learned; if not, the probability is sigmoid(z), for
        scores that are logits already.
    bias : float
        Where the unit's bias starts; its weight starts at 1.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, *, learned: bool = True, bias: float = 0.0) -> None:
        super().__init__()
        start = {"weight": torch.ones(()), "bias": torch.full((), float(bias))}
        for name, value in start.items():
            if learned:
                self.register_parameter(name, nn.Parameter(value))
            else:
                self.register_buffer(name, value, persistent=False)

    def forward(self, positives: Tensor, negatives: Tensor, groups: Groups) -> Tensor:
        """Return the loss of a batch; the groups play no part."""
        check_batch(positives, negatives, groups)
        weight, bias = self.weight.to(positives.dtype), self.bias.to(positives.dtype)
        # log sigmoid(x) = -softplus(-x): finite for any finite score.
        missed = functional.softplus(-(weight * positives + bias)).sum()
        alarms = functional.softplus(weight * negatives + bias).sum()
        return (missed + alarms) / (len(positives) + len(negatives))

    def slopes(self, scores: Tensor, positive: Tensor, pairs: int) -> Tensor:
        """Return the derivative by some scores of a batch; others play no part.

        Parameters
        ----------
        scores : (k,) Tensor
            Of some pairs of the batch; not weighed by a learned unit.
        positive : (k,) bool Tensor
            Which of them are positives.
        pairs : int
            Pairs of the whole batch.
        """
        scores = scores.detach().requires_grad_()
        with torch.enable_grad():
            wrong = functional.softplus(torch.where(positive, -scores, scores)).sum()
            (slope,) = torch.autograd.grad(wrong / pairs, scores)
        return slope


class ListNetLoss(nn.Module):
    """Rank the whole batch as one list: ListNet with its top-one probabilities.

    Z. Cao, T. Qin, T.-Y. Liu, M.-F. Tsai, H. Li: Learning to rank: from pairwise
    approach to listwise approach, ICML 2007. The cross entropy between the target
    (1/P on every positive, 0 on negatives) and the softmax of all P + K scores:
    log sum exp(z) - mean of z over the positives.
    """

    def forward(self, positives: Tensor, negatives: Tensor, groups: Groups) -> Tensor:
        """Return the loss of a batch; the groups play no part."""
        check_batch(positives, negatives, groups)
        everything = torch.cat([positives, negatives])
        return torch.logsumexp(everything, dim=0) - positives.mean()


LOSSES: dict[str, Callable[[], nn.Module]] = {
    "n-pair": NPairLoss,
    "cross-entropy": CrossEntropyLoss,
    "listnet": ListNetLoss,
}


def make_loss(name: str) -> nn.Module:
    """Return a new loss by name."""
    if name not in LOSSES:
        raise UnknownNameError(
            f"There is no loss {name!r}.", hint=f"Known: {', '.join(sorted(LOSSES))}."
        )
    return LOSSES[name]()


def check_batch(positives: Tensor, negatives: Tensor, groups: Groups) -> None:
    """Raise unless a batch has positives and one group per negative."""
    if len(positives) == 0:
        raise UsageError("A batch without positives has no loss.")
    if len(groups) != len(negatives):
        raise UsageError(f"{len(groups)} groups for {len(negatives)} negatives.")
    if len(groups) and (groups.min() < 0 or groups.max() >= len(positives)):
        raise UsageError(
            f"Groups run from {groups.min()} to {groups.max()}, but there are "
            f"{len(positives)} positives."
        )
