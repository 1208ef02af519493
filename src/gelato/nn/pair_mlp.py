"""The pair MLP: how strongly two nodes' attributes speak for a link (paper, eq. 3).

Forward and backward are written by hand, in few passes over few buffers. Per pair and
hidden unit only three numbers are kept: both layers' activations after their ReLU, and
the first one's after dropout. The backward pass overwrites them. Dropout masks are
drawn again from their key, so that a second backward pass through the same graph can
recompute what the first one overwrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gelato.errors import UsageError
from gelato.kernels import hidden_layer as kernels
from gelato.kernels.chunks import Parts, derive_key, run_shares
from gelato.kernels.hidden_layer import hidden_backward, hidden_forward
from gelato.kernels.tiles import (
    Array,
    bfloat_tiles,
    column_tiles,
    from_inner_tiles,
    inner_shape,
)
from gelato.kernels.vectors import HAS_BFLOAT
from gelato.nn.first_layer import PairFeatures

Precision = Literal["float32", "bfloat16"]
# Given a block's number and its logits: the derivative of the loss by them.
Slopes = Callable[[int, Tensor], Tensor]
_GROUPS = 16  # of parts, each with its own sum of a weight's gradient
KEPT_BYTES = 1 << 30
"""Buffers that several blocks may keep between forward and backward pass."""
WHOLE_BYTES = 1 << 31
"""Buffers up to which all pairs are a single block, which keeps them."""
_BLOCK_BYTES = 1 << 29  # buffers of a block, where there are several
_BUFFERS = 3


class Buffers:
    """Large arrays that are used step after step.

    Fresh ones would have to be mapped page by page by the operating system at every
    step, which costs as much as some of the passes over them.
    """

    def __init__(self) -> None:
        self._free: list[list[Array]] = []

    def take(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> list[Array]:
        """Return three arrays, used before if possible."""
        rows, width = shape
        for index, (one, *_) in enumerate(self._free):
            if len(one) >= rows and one.shape[1] == width and one.dtype == dtype:
                return [array[:rows] for array in self._free.pop(index)]
        self._free.clear()  # too small: a new graph, or another precision
        return [np.empty(shape, dtype) for _ in range(_BUFFERS)]

    def give_back(self, arrays: list[Array]) -> None:
        """Take back arrays that are not needed any more."""
        self._free.append([a if a.base is None else a.base for a in arrays])

    def __deepcopy__(self, memo: Any) -> Buffers:
        return Buffers()


@dataclass(frozen=True)
class NormPlan:
    """How to normalise one layer: by chunk (training) or by given statistics."""

    epsilon: float
    running_mean: Array | None = None
    running_variance: Array | None = None


@dataclass
class NormState:
    """Statistics of one layer, one row per chunk (float64)."""

    mean: Array
    variance: Array
    inverse: Array


@dataclass(frozen=True)
class Plan:
    """Everything about one forward pass that is not a tensor."""

    features: PairFeatures
    parts: Parts
    norms: tuple[NormPlan, NormPlan]
    drop: float
    key: tuple[int, ...]
    buffers: Buffers
    bfloat: bool = False
    states: list[NormState] = field(default_factory=list)

    @property
    def places(self) -> tuple[Array, Array]:
        """Where parts start, and their chunks, as kernels take them."""
        return self.parts.start, self.parts.chunk

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Run a kernel over all parts."""
        run_shares(partial(kernel, *arguments), len(self.parts))

    def dropout(self, layer: int, dtype: np.dtype[Any]) -> tuple[Any, int, int, Any]:
        """Return key, chance, last digit and factor of one layer's dropout."""
        return derive_key(*self.key, layer), *kernels.keep_chance(self.drop, dtype)

    def tiles(self, matrix: Array) -> tuple[Array | None, Array | None]:
        """Return a matrix to multiply by as kernels take it: tiles, or words."""
        if self.bfloat:
            return None, bfloat_tiles(matrix)
        return column_tiles(matrix), None

    def statistics(self, layer: int, sums: Array) -> NormState:
        """Return the statistics to normalise with, from the parts' sums."""
        norm, sizes = self.norms[layer], self.parts.sizes[:, None]
        if norm.running_mean is None or norm.running_variance is None:
            total = self.parts.by_chunk(sums)  # (chunks, 2, h)
            mean = total[:, 0] / sizes
            variance = np.maximum(total[:, 1] / sizes - mean * mean, 0.0)
        else:
            ones = np.ones_like(sizes, dtype=np.float64)
            mean, variance = ones * norm.running_mean, ones * norm.running_variance
        return NormState(mean, variance, 1.0 / np.sqrt(variance + norm.epsilon))


@dataclass
class Layer:
    """Weights of a linear layer and of the normalisation after it, as arrays."""

    weight: Array
    bias: Array
    gain: Array
    shift: Array


def forward_hidden(plan: Plan, first: Layer, second: Layer) -> list[Array]:
    """Fill three buffers: relu 1, dropout 1, relu 2; set the plan's states."""
    shape = (len(plan.features), len(first.bias))
    dtype = first.weight.dtype
    buffers = plan.buffers.take(shape, dtype)
    active1, dropped1, active2 = buffers
    sums = np.empty((len(plan.parts), 2, shape[1]))
    plan.features.relu_layer(
        first.weight, first.bias, plan.parts, out=active1, sums=sums
    )
    state1 = plan.statistics(0, sums)
    given = (active1, folded(state1, first, dtype), plan.places, plan.dropout(0, dtype))
    tiles = plan.tiles(second.weight.T)
    plan.run(hidden_forward, *given, *tiles, second.bias, dropped1, active2, sums)
    plan.states[:] = [state1, plan.statistics(1, sums)]
    return buffers


def folded(state: NormState, layer: Layer, dtype: Any) -> tuple[Array, Array]:
    """Return normalisation, gain and shift as one factor and one offset per chunk."""
    scale = state.inverse * layer.gain
    return scale.astype(dtype), (layer.shift - state.mean * scale).astype(dtype)


class _NormGradient:
    """Back through dropout, normalisation and ReLU of one layer, in two passes."""

    def __init__(self, plan: Plan, layer: int, dtype: np.dtype[Any]) -> None:
        state = plan.states[layer]
        self.plan, self.layer, self.dtype = plan, layer, dtype
        self.known = (state.mean.astype(dtype), state.inverse.astype(dtype))
        self.dropout = plan.dropout(layer, dtype)
        self.sums = np.empty((len(plan.parts), 2, state.mean.shape[1]))
        self.bias_sums = np.empty((len(plan.parts), state.mean.shape[1]))

    def finish_sums(self) -> None:
        """Add up the parts' sums once they are all there."""
        total = self.plan.parts.by_chunk(self.sums)  # (chunks, 2, h)
        self.plain, self.normed = total.sum(axis=0)
        means = total / self.plan.parts.sizes[:, None, None]
        if self.plan.norms[self.layer].running_mean is not None:
            means = np.zeros_like(total)  # the statistics do not depend on the input
        self.means = [means[:, i].astype(self.dtype) for i in (0, 1)]

    def statistics(self, gain: Array) -> tuple[Array, ...]:
        """Return the arrays, one row per chunk, that the second pass needs."""
        slope = self.plan.states[self.layer].inverse * gain
        return *self.known, slope.astype(self.dtype), *self.means


def backward_hidden(
    plan: Plan, parameters: tuple[Layer, Layer, Layer], logits: Array, buffers: Any
) -> list[Any]:
    """Return the gradients of all ten parameters; overwrites the buffers."""
    first, second, head = parameters
    active1, dropped1, active2 = buffers
    dtype, width = active1.dtype, active1.shape[1]
    parts = plan.places
    norm1, norm2 = (_NormGradient(plan, layer, dtype) for layer in (0, 1))
    given = (logits, active2, norm2.known, parts, norm2.dropout)
    plan.run(kernels.gradient_sums, *given, norm2.sums)
    norm2.finish_sums()
    groups = np.arange(_GROUPS + 1, dtype=np.int64) * len(plan.parts) // _GROUPS
    shape = inner_shape(width, width, bfloat=plan.bfloat)
    weight_sums = np.zeros((_GROUPS, *shape), dtype)
    back = partial(
        hidden_backward,
        (active2, norm2.statistics(second.gain * head.weight[0]), norm2.dropout),
        (dropped1, active1, norm1.known, norm1.dropout),
        logits,
        parts,
        groups,
        *plan.tiles(second.weight),
        (norm2.bias_sums, weight_sums, norm1.sums),
    )
    run_shares(back, _GROUPS)
    norm1.finish_sums()
    through = (norm1.statistics(first.gain), parts, norm1.dropout)
    out = (dropped1, norm1.bias_sums)
    plan.run(kernels.gradient_through, dropped1, active1, *through, *out)
    weight1 = plan.features.weight_gradient(dropped1)
    weight2 = from_inner_tiles(weight_sums.sum(axis=0), width, width)
    head_weight = second.gain * norm2.normed + second.shift * norm2.plain
    return [
        weight1, norm1.bias_sums.sum(axis=0), norm1.normed, norm1.plain,
        weight2, norm2.bias_sums.sum(axis=0),
        head.weight[0] * norm2.normed, head.weight[0] * norm2.plain,
        np.stack([-head_weight, head_weight]),
        np.array([-1.0, 1.0]) * logits.sum(dtype=np.float64),
    ]  # fmt: skip


class FusedMLP(torch.autograd.Function):
    """The whole MLP as one differentiable function of its ten parameters.

    Pairs come in blocks, one plan each; blocks share nothing but the parameters. A
    single block keeps its buffers for the backward pass; of several, as many keep
    them as :data:`KEPT_BYTES` allows, and the others compute them again. Where not
    all are kept and the slopes of the loss are foretold, each block goes back at once.
    """

    @staticmethod
    def forward(
        ctx: Any, plans: Sequence[Plan], slopes: Slopes | None, *parameters: Tensor
    ) -> Tensor:
        """Return the logit of every pair: the difference of the two outputs."""
        first, second, head = layers(parameters)
        learns = any(ctx.needs_input_grad)
        room = KEPT_BYTES if learns else 0
        pair_bytes = _BUFFERS * first.bias.nbytes
        if sum(len(plan.features) for plan in plans) * pair_bytes <= room:
            slopes = None
        kept: list[list[Array] | None] = []
        logits, foretold, total = [], [], None
        for index, plan in enumerate(plans):
            buffers = forward_hidden(plan, first, second)
            said = torch.from_numpy(_head(plan, second, head, buffers[2]))
            logits.append(said.add_(float(head.bias[0])))
            if learns and slopes is not None:
                own = slopes(index, said).numpy()
                foretold.append(own)
                found = backward_hidden(
                    plan, (first, second, head), own[:, None], buffers
                )
                total = _added(total, found)
                kept.append(None)
                plan.buffers.give_back(buffers)
                continue
            room -= sum(array.nbytes for array in buffers)
            keep = learns and (room >= 0 or len(plans) == 1)
            kept.append(buffers if keep else None)
            if not keep:
                plan.buffers.give_back(buffers)
        ctx.plans, ctx.kept = plans, kept
        ctx.foretold, ctx.found = foretold, total
        ctx.save_for_backward(*parameters)
        return logits[0] if len(logits) == 1 else torch.cat(logits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        """Return the gradients of the parameters."""
        parameters = ctx.saved_tensors
        first, second, head = layers(parameters)
        gradient = upstream[0].contiguous().numpy()
        total, start = ctx.found, 0
        # Slopes of another loss are of no use; those of this one may round otherwise.
        if total and not np.allclose(np.concatenate(ctx.foretold), gradient, 1e-4, 0.0):
            total = None
        for index, plan in enumerate(ctx.plans if total is None else ()):
            # A second backward pass finds its buffers overwritten: computed anew.
            buffers = ctx.kept[index] or forward_hidden(plan, first, second)
            ctx.kept[index] = None
            own = gradient[start : start + len(plan.features), None]
            start += len(plan.features)
            found = backward_hidden(plan, (first, second, head), own, buffers)
            plan.buffers.give_back(buffers)
            total = _added(total, found)
        return (
            None,
            None,
            *(
                torch.as_tensor(gradient, dtype=parameter.dtype)
                for gradient, parameter in zip(total, parameters, strict=True)
            ),
        )


def _added(total: list[Any] | None, found: list[Any]) -> list[Any]:
    """Return the sums of gradients, block after block."""
    if total is None:
        return found
    return [a + b for a, b in zip(total, found, strict=True)]


def _head(plan: Plan, second: Layer, head: Layer, active: Array) -> Array:
    """Return the logits without their bias."""
    logit = np.empty(len(plan.features), active.dtype)
    dropout = plan.dropout(1, active.dtype)
    given = (active, folded(plan.states[1], second, active.dtype), plan.places)
    plan.run(kernels.norm_dropout_dot, *given, dropout, head.weight[0], logit)
    return logit


class PairWeight(torch.autograd.Function):
    """The second probability: the sigmoid of the logit."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        """Return the probabilities."""
        weights = torch.sigmoid(logits)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        """Return the gradient of the logits."""
        (weights,) = ctx.saved_tensors
        # In this order, which is not torch's: recorded runs depend on the last bit.
        gradient: Tensor = upstream[0] * weights * (1 - weights)
        return gradient


def layers(parameters: Sequence[Tensor]) -> tuple[Layer, Layer, Layer]:
    """Return the parameters as arrays; the head as the difference of its two rows.

    The second probability of a softmax over two logits is the sigmoid of their
    difference.
    """
    arrays = [tensor.detach().contiguous().numpy() for tensor in parameters]
    head, offset = arrays[8], arrays[9]
    none = np.empty(0, head.dtype)
    difference = Layer(head[1:] - head[:1], offset[1:] - offset[:1], none, none)
    return Layer(*arrays[:4]), Layer(*arrays[4:8]), difference


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
    precision : {"float32", "bfloat16"}
        What numbers are rounded to before the second layer multiplies them, while
        training; bfloat16 has 8 significant bits, and processors that multiply it
        are twice as fast at it. Sums, and evaluation, are those of ``dtype``.

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
        precision: Precision = "float32",
    ) -> None:
        super().__init__()
        _check(num_features, hidden, dropout, chunk)
        if dtype not in (torch.float32, torch.float64):
            raise UsageError(f"dtype must be torch.float32 or float64, not {dtype}.")
        _check_precision(precision, dtype)
        self.dropout, self.chunk, self.precision = dropout, chunk, precision
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
        logits = self._logits(self._plans(features))
        weights: Tensor = PairWeight.apply(logits)  # type: ignore[no-untyped-call]
        return weights

    def logits(
        self, blocks: Sequence[PairFeatures], slopes: Slopes | None = None
    ) -> Tensor:
        """Return the difference of the two outputs of every pair, (M,).

        Its sigmoid is the weight, but it still tells pairs apart where the weight is
        1 for all of them.

        Parameters
        ----------
        blocks : sequence of PairFeatures
            The pairs in blocks, not empty; batch normalisation sees each block as
            one chunk.
        slopes : callable, optional
            For a loss in which every pair stands alone: returns its derivative by
            the logits of a block, given the block's number and logits. Gradients are
            then found on the way.
        """
        plans = []
        for index, features in enumerate(blocks):
            self._check(features)
            rows = max(2, len(features))
            plans.append(self._plan(features, chunk=rows, key=(index,)))
        return self._logits(plans, slopes)

    def _logits(self, plans: list[Plan], slopes: Slopes | None = None) -> Tensor:
        given = (plans, slopes, *self._ordered())
        logits: Tensor = FusedMLP.apply(*given)  # type: ignore[no-untyped-call]
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
        told = f"dropout={self.dropout}, chunk={self.chunk}, seed={self.seed}"
        return told + ("" if self.precision == "float32" else f", {self.precision}")

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

    def _plans(self, features: PairFeatures) -> list[Plan]:
        """Return a plan for all pairs, or where buffers get too large for blocks.

        Blocks are made of whole chunks of batch normalisation.
        """
        weight = self.hidden2.weight
        chunk_bytes = _BUFFERS * self.chunk * len(weight) * weight.element_size()
        if chunk_bytes * len(features) <= WHOLE_BYTES * self.chunk:
            return [self._plan(features)]
        blocks = features.blocks(max(1, _BLOCK_BYTES // chunk_bytes) * self.chunk)
        return [self._plan(block, key=(i,)) for i, block in enumerate(blocks)]

    def _plan(
        self,
        features: PairFeatures,
        *,
        chunk: int | None = None,
        key: tuple[int, ...] = (),
    ) -> Plan:
        training = self.training
        bfloat = training and self.precision == "bfloat16"
        if bfloat:
            _refuse_processor()
        return Plan(
            features=features,
            parts=Parts.cut(len(features), chunk or self.chunk),
            norms=(_norm_plan(self.norm1, training), _norm_plan(self.norm2, training)),
            drop=self.dropout if training else 0.0,
            key=(self.seed, int(self.steps), *key),
            buffers=self._buffers_kept,
            bfloat=bfloat,
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


def _check_precision(precision: str, dtype: torch.dtype) -> None:
    if precision not in get_args(Precision):
        raise UsageError(f"precision must be float32 or bfloat16, not {precision!r}.")
    if precision == "bfloat16" and dtype != torch.float32:
        raise UsageError(f"Sums of bfloat16 are float32, and dtype is {dtype}.")


def _refuse_processor() -> None:
    """Raise where bfloat16 cannot be multiplied; what was trained can still be used."""
    if not HAS_BFLOAT:
        raise UsageError(
            "This processor does not multiply bfloat16 (avx512_bf16).",
            hint='Train with precision="float32"; the results differ slightly.',
        )


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
