"""Layers that NCN and the refined GAE share: linear, normalised, then an activation.

In training they are torch's modules; along rows of all pairs they are products of
small matrices and one compiled pass that normalises and activates in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn
from torch.nn import functional

from gelato.graph import FloatArray
from gelato.kernels.compiled import kernel

ACTIVATIONS = ("relu", "gelu", "silu")
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}
_EPSILON = 1e-5  # torch's
_ANY_ORDER = {"reassoc", "contract", "nsz"}
Array = npt.NDArray[Any]


@kernel(fastmath=_ANY_ORDER)
def normalise(x, bias, gain, shift, activation):  # type: ignore[no-untyped-def]
    """Add a bias to rows, give them mean 0 and deviation 1, scale, shift, activate."""
    width = x.shape[1]
    for i in range(x.shape[0]):
        row = x[i]
        total = 0.0
        for k in range(width):
            row[k] += bias[k]
            total += row[k]
        mean, spread = total / width, 0.0
        for k in range(width):
            spread += (row[k] - mean) ** 2
        scale = 1.0 / math.sqrt(spread / width + _EPSILON)
        for k in range(width):
            row[k] = (row[k] - mean) * scale * gain[k] + shift[k]
        if activation == 0:
            for k in range(width):
                row[k] = max(row[k], 0.0)
        elif activation == 1:
            for k in range(width):
                row[k] *= 0.5 * (1.0 + math.erf(row[k] * math.sqrt(0.5)))
        else:
            for k in range(width):
                row[k] /= 1.0 + math.exp(-row[k])


@kernel(fastmath=_ANY_ORDER)
def outputs(x, weights, bias, out):  # type: ignore[no-untyped-def]
    """Write the inner product of every row with weights, plus a bias."""
    for i in range(x.shape[0]):
        total = bias
        for k in range(x.shape[1]):
            total += x[i, k] * weights[k]
        out[i] = total


class NormedLayer(nn.Module):
    """A linear layer, normalised, with dropout and an activation.

    Parameters
    ----------
    inputs, units : int
        Widths.
    dropout : float
        Share of units left out in training.
    activation : {"relu", "gelu", "silu"}
        What comes last.
    """

    def __init__(
        self, inputs: int, units: int, dropout: float, activation: str = "relu"
    ) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(inputs, units), nn.LayerNorm(units)
        self.dropout, self.activation = dropout, activation

    def forward(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Return the units; ``added`` joins them before they are normalised."""
        x = self.linear(x)
        x = self.norm(x if added is None else x + added)
        x = _FUNCTIONS[self.activation](x)
        return functional.dropout(x, self.dropout, self.training)

    def along_rows(self, dtype: npt.DTypeLike = np.float32) -> RowLayer:
        """Return the layer for rows of all pairs."""
        weights, bias = linear_arrays(self.linear, dtype)
        gain, shift = (
            x.detach().numpy().astype(dtype) for x in (self.norm.weight, self.norm.bias)
        )
        activation = ACTIVATIONS.index(self.activation)
        return RowLayer(weights, bias, gain, shift, activation)


@dataclass(frozen=True, eq=False)
class RowLayer:
    """Arrays of a :class:`NormedLayer`; weights are ``(in, out)``."""

    weights: Array
    bias: Array
    gain: Array
    shift: Array
    activation: int

    def __call__(self, x: Array, added: Array | None = None) -> Array:
        """Return the units, as the torch layer does without dropout."""
        x = x @ self.weights
        if added is not None:
            x += added
        normalise(x, self.bias, self.gain, self.shift, self.activation)
        return x


@dataclass(frozen=True, eq=False)
class RowOutput:
    """A linear layer with one output; rows are added up one by one, as a pair is."""

    weights: Array
    bias: float

    @classmethod
    def of(cls, layer: nn.Linear) -> RowOutput:
        """Return a layer for rows of all pairs."""
        weights, bias = linear_arrays(layer)
        return cls(weights[:, 0].copy(), float(bias[0]))

    def __call__(self, x: Array) -> FloatArray:
        """Return the output of every row."""
        scores = np.empty(len(x))
        outputs(x, self.weights, self.bias, scores)
        return scores


def linear_arrays(
    layer: nn.Linear, dtype: npt.DTypeLike = np.float32
) -> tuple[Array, Array]:
    """Return the weights ``(in, out)`` and the bias of a linear layer."""
    weights = np.ascontiguousarray(layer.weight.detach().numpy().T, dtype=dtype)
    return weights, layer.bias.detach().numpy().astype(dtype)


def rows_of(layers: nn.ModuleList) -> list[RowLayer]:
    """Return some :class:`NormedLayer` for rows of all pairs."""
    return [layer.along_rows() for layer in layers if isinstance(layer, NormedLayer)]
