"""Training losses behind one small interface: scores in, a scalar out.

A loss is called with the scores of the batch's positives (P,), of its negatives
(K,) and, for each negative, the positive it is compared with (K,), 0 .. P-1. A loss
that does not group ignores the last. Register others in ``LOSSES``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.errors import UnknownNameError, UsageError
from gelato.kernels.group_loss import n_pair_terms

Groups = npt.NDArray[np.int32]


class Loss(Protocol):
    """What the training loop asks of a loss."""

    def __call__(self, positives: Tensor, negatives: Tensor, groups: Groups) -> Tensor:
        """Return the loss of a batch as a scalar."""


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

    The score z becomes the probability sigmoid(weight z + bias), weight 1 and bias 0
    at the start; the loss is the mean binary cross entropy over the P + K pairs.

    Parameters
    ----------
    learned : bool
        Whether the unit is learned; if not, the probability is sigmoid(z), for
        scores that are logits already.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, *, learned: bool = True) -> None:
        super().__init__()
        start = {"weight": torch.ones(()), "bias": torch.zeros(())}
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
