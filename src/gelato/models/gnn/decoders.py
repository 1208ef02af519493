"""Scores of whole rows from node states, one scorer per kind of decoder.

Everything is computed in double precision by loops that add in a fixed order, so
that a pair has the same score in every block and with its ends exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gelato.graph import FloatArray, IntArray
from gelato.kernels import pair_products


@dataclass(frozen=True, eq=False)
class ProductScorer:
    """``left[u] . right[v]``, which must be symmetric.

    Parameters
    ----------
    left, right : (n, d) float64
        States of nodes; equal for an inner product, one of them reflected for that
        of the hyperboloid.
    """

    left: FloatArray
    right: FloatArray

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.left)

    @cached_property
    def _columns(self) -> FloatArray:
        return np.ascontiguousarray(self.right.T)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        rows = np.asarray(rows, dtype=np.int64)
        scores = np.empty((len(rows), self.num_nodes))
        pair_products.row_products(rows, self.left, self._columns, scores)
        return scores


@dataclass(frozen=True, eq=False)
class BallScorer:
    """Minus ``|u - v|^2 / ((1 - c|u|^2)(1 - c|v|^2))``: decreasing in distance.

    Parameters
    ----------
    states : (n, d) float64
        Points of the ball.
    curvature : float
        The ball's c.
    """

    states: FloatArray
    curvature: float

    @cached_property
    def _products(self) -> ProductScorer:
        return ProductScorer(self.states, self.states)

    @cached_property
    def _squares(self) -> FloatArray:
        # By the same loop as the products, so that equal points are at distance 0.
        squares = np.empty(len(self.states))
        nodes = np.arange(len(self.states))
        pair_products.pair_dots(self.states, self.states, nodes, nodes, squares)
        return squares

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.states)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        scores = self._products.score_rows(rows)
        squares = self._squares
        room = 1.0 - self.curvature * squares
        scores *= -2.0
        scores += squares[rows, None] + squares[None, :]
        np.maximum(scores, 0.0, out=scores)
        scores /= room[rows, None] * room[None, :]
        np.negative(scores, out=scores)
        return scores


@dataclass(frozen=True, eq=False)
class DifferenceNetScorer:
    """Minus the size of a one-layer net of squared differences.

    Parameters
    ----------
    states : (n, d) float64
        States of nodes.
    mix : (d, units) float64
        First layer, one column per unit.
    bias, weights : (units,) float64
        Of the hidden units.
    last : float
        Bias of the output.
    slope : float
        Of the leaky activation.
    """

    states: FloatArray
    mix: FloatArray
    bias: FloatArray
    weights: FloatArray
    last: float
    slope: float

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.states)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        rows = np.asarray(rows, dtype=np.int64)
        scores = np.empty((len(rows), self.num_nodes))
        pair_products.difference_net_rows(
            rows, self.states, self.mix, self.bias, self.weights, self.slope, scores
        )
        size: FloatArray = -np.abs(scores + self.last)
        return size


Layers = list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]


@dataclass(frozen=True, eq=False)
class ProductNet:
    """A net on the product of two nodes' states, along rows.

    Parameters
    ----------
    states : (n, d) float32
        States of nodes.
    layers : list of (weights, bias)
        Weights ``(in, out)``; a ReLU between layers.
    """

    states: npt.NDArray[np.float32]
    layers: Layers

    # Columns per product: fixed, so that a pair is always part of the same product
    # and gets the same bits.
    _TILE = 512

    def row(self, u: int) -> FloatArray:
        """Return the net's output for a node with all nodes, shape ``(n,)``."""
        n = len(self.states)
        out = np.empty(n)
        for start in range(0, n, self._TILE):
            values = self.states[start : start + self._TILE] * self.states[u]
            for weights, bias in self.layers[:-1]:
                values = values @ weights
                values += bias
                np.maximum(values, 0.0, out=values)
            weights, bias = self.layers[-1]
            out[start : start + self._TILE] = (values @ weights)[:, 0] + bias[0]
        return out
