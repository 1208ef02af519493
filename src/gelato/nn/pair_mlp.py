"""The pair MLP: how strongly two nodes' attributes speak for a link (paper, eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from gelato.errors import UsageError
from gelato.kernels.chunks import Parts
from gelato.nn.first_layer import PairFeatures
from gelato.nn.fused_mlp import (
    Buffers,
    FusedMLP,
    NormPlan,
    NormState,
    PairWeight,
    Plan,
)


class PairMLP(nn.Module):
    """Linear - ReLU - BatchNorm - Dropout, twice, then Linear and softmax.

    The weight of a pair is the second of the two probabilities. Training and
    evaluation mode, initial weights and batch normalisation are those of the torch
    layers of the same names; the arithmetic is fused and runs on the CPU only.

    Parameters
    ----------
    num_features : int
        Features of a pair: twice the number of node attributes.
    hidden : int
        Hidden units h of both layers.
    dropout : float
        Probability to drop a hidden unit while training.
    chunk : int
        Batch normalisation sees the pairs in chunks of this size, in their order. A
        single pair left over joins the chunk before it.
    seed : int
        Determines initial weights and, with the number of steps taken, the dropout
        masks. Torch's global generator is left alone.
    dtype : torch.dtype
        float32 or float64.

    Examples
    --------
    >>> features = PairFeatures(np.eye(3, dtype=np.float32), [(0, 1), (1, 2)])
    >>> PairMLP(features.width, hidden=4, seed=1)(features).shape
    torch.Size([2])
    """

    def __init__(
        self,
        num_features: int,
        *,
        hidden: int = 128,
        dropout: float = 0.5,
        chunk: int = 20_000,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        _check(num_features, hidden, dropout, chunk)
        if dtype not in (torch.float32, torch.float64):
            raise UsageError(f"dtype must be torch.float32 or float64, not {dtype}.")
        self.dropout, self.chunk = dropout, chunk
        self.seed = seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.hidden1 = nn.Linear(num_features, hidden, dtype=dtype)
            self.norm1 = nn.BatchNorm1d(hidden, dtype=dtype)
            self.hidden2 = nn.Linear(hidden, hidden, dtype=dtype)
            self.norm2 = nn.BatchNorm1d(hidden, dtype=dtype)
            self.output = nn.Linear(hidden, 2, dtype=dtype)
        # A buffer, so that a resumed training draws the masks it would have drawn.
        self.steps: Tensor
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self._buffers_kept = Buffers()

    def forward(self, features: PairFeatures) -> Tensor:
        """Return the weight of every pair, (M,), each in (0, 1)."""
        self._check(features)
        if len(features) == 0:
            return torch.zeros(0, dtype=self.output.weight.dtype)
        logits = self._logits([self._plan(features)])
        weights: Tensor = PairWeight.apply(logits)  # type: ignore[no-untyped-call]
        return weights

    def logits(self, blocks: Sequence[PairFeatures]) -> Tensor:
        """Return the difference of the two outputs of every pair, (M,).

        Its sigmoid is the weight, but it still tells pairs apart where the weight is
        1 for all of them.

        Parameters
        ----------
        blocks : sequence of PairFeatures
            The pairs in blocks, not empty; batch normalisation sees each block as
            one chunk.
        """
        plans = []
        for index, features in enumerate(blocks):
            self._check(features)
            rows = max(2, len(features))
            plans.append(self._plan(features, chunk=rows, key=(index,)))
        return self._logits(plans)

    def _logits(self, plans: list[Plan]) -> Tensor:
        logits: Tensor = FusedMLP.apply(plans, *self._ordered())  # type: ignore[no-untyped-call]
        if self.training:
            self.steps += 1
            for plan in plans:
                sizes = plan.parts.sizes
                for norm, state in zip(
                    (self.norm1, self.norm2), plan.states, strict=True
                ):
                    _update(norm, state, sizes)
        return logits

    def extra_repr(self) -> str:
        """Return what the layers do not show."""
        return f"dropout={self.dropout}, chunk={self.chunk}, seed={self.seed}"

    def _check(self, features: PairFeatures) -> None:
        if features.width != self.hidden1.in_features:
            raise UsageError(
                f"The pairs have {features.width} features, but the model was made for "
                f"{self.hidden1.in_features}."
            )
        if self.output.weight.device.type != "cpu":
            raise UsageError(
                f"The pair MLP runs on the CPU, not on {self.output.weight.device}.",
                hint="Move it back with .cpu(), or use another module of pairs.",
            )

    def _plan(
        self,
        features: PairFeatures,
        *,
        chunk: int | None = None,
        key: tuple[int, ...] = (),
    ) -> Plan:
        training = self.training
        return Plan(
            features=features,
            parts=Parts.cut(len(features), chunk or self.chunk),
            norms=(_norm_plan(self.norm1, training), _norm_plan(self.norm2, training)),
            drop=self.dropout if training else 0.0,
            key=(self.seed, int(self.steps), *key),
            buffers=self._buffers_kept,
        )

    def _ordered(self) -> list[Tensor]:
        modules = (self.hidden1, self.norm1, self.hidden2, self.norm2, self.output)
        return [part for module in modules for part in (module.weight, module.bias)]


def _norm_plan(norm: nn.BatchNorm1d, training: bool) -> NormPlan:
    if training:
        return NormPlan(norm.eps)
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    return NormPlan(norm.eps, mean.numpy().copy(), variance.numpy().copy())


def _update(norm: nn.BatchNorm1d, state: NormState, sizes: np.ndarray) -> None:
    """Move the running statistics towards each chunk's, one chunk after another."""
    running_mean, running_var = norm.running_mean, norm.running_var
    assert running_mean is not None
    assert running_var is not None
    assert norm.momentum is not None
    assert norm.num_batches_tracked is not None
    for mean, variance, size in zip(state.mean, state.variance, sizes, strict=True):
        unbiased = variance * (size / max(size - 1, 1))
        running_mean.lerp_(torch.from_numpy(mean).to(running_mean), norm.momentum)
        running_var.lerp_(torch.from_numpy(unbiased).to(running_var), norm.momentum)
    norm.num_batches_tracked += len(sizes)


def _check(num_features: int, hidden: int, dropout: float, chunk: int) -> None:
    if num_features < 1 or hidden < 1:
        raise UsageError(
            f"A pair MLP needs features and hidden units, not {num_features} and "
            f"{hidden}."
        )
    if not 0 <= dropout < 1:
        raise UsageError(f"dropout must be at least 0 and below 1, not {dropout}.")
    if chunk < 2:
        raise UsageError(
            f"chunk must be at least 2, not {chunk}: one pair has no variance."
        )
