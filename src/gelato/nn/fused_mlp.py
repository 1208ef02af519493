"""Forward and backward of the pair MLP by hand, in few passes over few buffers.

Per pair and hidden unit only three numbers are kept: both layers' activations after
their ReLU, and the first one's after dropout. The backward pass overwrites them.
Dropout masks are drawn again from their key, so that a second backward pass through
the same graph can recompute what the first one overwrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelato.kernels import norm_dropout as kernels
from gelato.kernels.parts import Parts, run_shares
from gelato.kernels.random_bits import derive_key
from gelato.nn.pair_features import PairFeatures
from gelato.nn.sparse_rows import Array


class Buffers:
    """Large arrays that are used step after step.

    Fresh ones would have to be mapped page by page by the operating system at every
    step, which costs as much as some of the passes over them.
    """

    def __init__(self) -> None:
        self._free: list[list[Array]] = []

    def take(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> list[Array]:
        """Return three arrays, used before if possible."""
        for index, arrays in enumerate(self._free):
            if arrays[0].shape == shape and arrays[0].dtype == dtype:
                return self._free.pop(index)
        self._free.clear()  # of another shape: a new graph, or another precision
        return [np.empty(shape, dtype) for _ in range(3)]

    def give_back(self, arrays: list[Array]) -> None:
        """Take back arrays that are not needed any more."""
        self._free.append(arrays)

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
    threads: int | None
    buffers: Buffers
    states: list[NormState] = field(default_factory=list)

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Run a kernel over all parts."""
        run_shares(
            lambda start, stop: kernel(*arguments, start, stop),
            len(self.parts),
            self.threads,
        )

    def dropout(self, layer: int, dtype: np.dtype[Any]) -> tuple[Any, int, int, Any]:
        """Return key, chance, last digit and factor of one layer's dropout."""
        return derive_key(*self.key, layer), *kernels.keep_chance(self.drop, dtype)

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
        first.weight,
        first.bias,
        plan.parts,
        out=active1,
        sums=sums,
        threads=plan.threads,
    )
    state1 = plan.statistics(0, sums)
    places = (plan.parts.start, plan.parts.chunk)
    plan.run(
        kernels.norm_dropout,
        active1,
        *folded(state1, first, dtype),
        *places,
        *plan.dropout(0, dtype),
        dropped1,
    )
    weight = torch.from_numpy(second.weight)
    torch.mm(torch.from_numpy(dropped1), weight.T, out=torch.from_numpy(active2))
    plan.run(kernels.relu_sums, active2, second.bias, plan.parts.start, sums)
    plan.states[:] = [state1, plan.statistics(1, sums)]
    return buffers


def folded(state: NormState, layer: Layer, dtype: Any) -> tuple[Array, Array]:
    """Return normalisation, gain and shift as one factor and one offset per chunk."""
    scale = state.inverse * layer.gain
    return scale.astype(dtype), (layer.shift - state.mean * scale).astype(dtype)


def backward_norm(
    plan: Plan, layer: int, weights: Layer, upstream: Array, active: Array, out: Array
) -> tuple[Array, Array, Array]:
    """Go back through dropout, normalisation and ReLU.

    ``upstream`` is (M, h), or (M, 1) if ``weights.weight`` (1, h) spreads it over the
    columns. Returns the parts' sums ``keep * upstream`` and ``keep * upstream *
    x_hat`` by chunk, and the gradient of the bias.
    """
    dtype, width = active.dtype, active.shape[1]
    state = plan.states[layer]
    places = (plan.parts.start, plan.parts.chunk)
    mean, inverse = state.mean.astype(dtype), state.inverse.astype(dtype)
    dropout = plan.dropout(layer, dtype)
    sums = np.empty((len(plan.parts), 2, width))
    plan.run(
        kernels.gradient_sums, upstream, active, mean, inverse, *places, *dropout, sums
    )
    total = plan.parts.by_chunk(sums)
    spread = weights.weight[0] if upstream.shape[1] == 1 else 1.0
    gain = (state.inverse * weights.gain * spread).astype(dtype)
    means = total / plan.parts.sizes[:, None, None]
    if plan.norms[layer].running_mean is not None:
        means = np.zeros_like(total)  # the statistics do not depend on the input
    plain, normed = (np.ascontiguousarray(means[:, i]).astype(dtype) for i in (0, 1))
    bias = np.empty((len(plan.parts), width))
    plan.run(
        kernels.gradient_through,
        upstream,
        active,
        mean,
        inverse,
        gain,
        plain,
        normed,
        *places,
        *dropout,
        out,
        bias,
    )
    return total[:, 0].sum(axis=0), total[:, 1].sum(axis=0), bias.sum(axis=0)


class FusedMLP(torch.autograd.Function):
    """The whole MLP as one differentiable function of its ten parameters."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, *parameters: Tensor) -> Tensor:
        """Return the weight of every pair."""
        ctx.plan = plan
        ctx.save_for_backward(*parameters)
        first, second, head = layers(parameters)
        buffers = forward_hidden(plan, first, second)
        dtype = first.weight.dtype
        logit = np.empty(len(plan.features), dtype)
        plan.run(
            kernels.norm_dropout_dot,
            buffers[2],
            *folded(plan.states[1], second, dtype),
            plan.parts.start,
            plan.parts.chunk,
            *plan.dropout(1, dtype),
            head.weight[0],
            logit,
        )
        weights = torch.sigmoid(torch.from_numpy(logit).add_(float(head.bias[0])))
        if any(ctx.needs_input_grad):
            ctx.pair_weights, ctx.buffers = weights, buffers
        else:
            plan.buffers.give_back(buffers)
        return weights

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        """Return the gradients of the parameters."""
        plan = ctx.plan
        parameters = ctx.saved_tensors
        first, second, head = layers(parameters)
        # A second backward pass finds its buffers overwritten, and computes them anew.
        buffers = ctx.buffers or forward_hidden(plan, first, second)
        ctx.buffers = None
        active1, dropped1, active2 = buffers
        weights = ctx.pair_weights
        logit = (upstream[0] * weights * (1 - weights)).contiguous()

        spread = Layer(head.weight, head.bias, second.gain, second.shift)
        plain, normed, bias2 = backward_norm(
            plan, 1, spread, logit.numpy()[:, None], active2, active2
        )
        head_weight = second.gain * normed + second.shift * plain
        gradient2, before = torch.from_numpy(active2), torch.from_numpy(dropped1)
        weight2 = torch.mm(gradient2.T, before)
        torch.mm(gradient2, torch.from_numpy(second.weight), out=before)
        plain1, normed1, bias1 = backward_norm(
            plan, 0, first, dropped1, active1, dropped1
        )
        weight1 = plan.features.weight_gradient(dropped1, plan.threads)
        plan.buffers.give_back(buffers)
        gradients = [
            weight1, bias1, normed1, plain1,
            weight2, bias2, head.weight[0] * normed, head.weight[0] * plain,
            np.stack([-head_weight, head_weight]),
            np.array([-1.0, 1.0]) * float(logit.sum(dtype=torch.float64)),
        ]  # fmt: skip
        return None, *(
            torch.as_tensor(gradient, dtype=parameter.dtype)
            for gradient, parameter in zip(gradients, parameters, strict=True)
        )


def layers(parameters: tuple[Tensor, ...]) -> tuple[Layer, Layer, Layer]:
    """Return the parameters as arrays; the head as the difference of its two rows.

    The second probability of a softmax over two logits is the sigmoid of their
    difference.
    """
    arrays = [tensor.detach().contiguous().numpy() for tensor in parameters]
    head, offset = arrays[8], arrays[9]
    none = np.empty(0, head.dtype)
    difference = Layer(head[1:] - head[:1], offset[1:] - offset[:1], none, none)
    return Layer(*arrays[:4]), Layer(*arrays[4:8]), difference
