"""Scores of whole rows from node states, one scorer per kind of decoder.

Everything is computed in double precision by loops that add in a fixed order, so
that a pair has the same score in every block and with its ends exchanged. All are
half scorers: see :class:`gelato.ranking.scorers.HalfScorer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gelato.baselines.shared_layers import products as pair_products
from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, IntArray


class RowsOrHalf(ABC):
    """Whole rows, or only what lies above the diagonal, by one method."""

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        return self._rows(np.asarray(rows, dtype=np.int64), above=False)

    def score_rows_above(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``, 0 where column <= row."""
        return self._rows(np.asarray(rows, dtype=np.int64), above=True)

    @abstractmethod
    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        """Return scores of rows; what is not above may be left at 0 if ``above``."""


@dataclass(frozen=True, eq=False)
class ProductScorer(RowsOrHalf):
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

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        scores = np.empty(len(pairs))
        pair_products.pair_dots(self.left, self.right, pairs[:, 0], pairs[:, 1], scores)
        return scores

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = np.empty((len(rows), self.num_nodes))
        pair_products.row_products(rows, self.left, self._columns, above, scores)
        return scores


@dataclass(frozen=True, eq=False)
class BallScorer(RowsOrHalf):
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

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        u, v = pairs.T
        return self._gaps(self._products.pair_scores(pairs), u, v)

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        products = self._products._rows(rows, above=above)
        nodes = np.arange(self.num_nodes)
        gaps = self._gaps(products, rows[:, None], nodes[None, :])
        if above:
            gaps[nodes[None, :] <= rows[:, None]] = 0.0
        return gaps

    def _gaps(self, products: FloatArray, u: IntArray, v: IntArray) -> FloatArray:
        """Turn products into minus gaps, in place."""
        squares = self._squares
        room = 1.0 - self.curvature * squares
        products *= -2.0
        products += squares[u] + squares[v]
        np.maximum(products, 0.0, out=products)
        products /= room[u] * room[v]
        return np.negative(products, out=products)


@dataclass(frozen=True, eq=False)
class DifferenceNetScorer(RowsOrHalf):
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

    @property
    def _net(self) -> tuple[Any, ...]:
        return self.states, self.mix, self.bias, self.weights, self.slope

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        scores = np.empty(len(pairs))
        ends = (pairs[:, 0], pairs[:, 1])
        pair_products.difference_net_pairs(*ends, *self._net, scores)
        return self._sizes(scores)

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = np.empty((len(rows), self.num_nodes))
        pair_products.difference_net_rows(rows, *self._net, above, scores)
        scores = self._sizes(scores)
        if above:
            scores[np.arange(self.num_nodes)[None, :] <= rows[:, None]] = 0.0
        return scores

    def _sizes(self, outputs: FloatArray) -> FloatArray:
        sizes: FloatArray = -np.abs(outputs + self.last)
        return sizes


Layers = list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]


class Tiles(ABC):
    """Values of a node with all others, by tiles of columns that never move.

    A pair is then always part of the same product of matrices and gets the same bits.
    """

    # Small, since a listed pair costs a whole tile.
    _TILE = 128

    @property
    @abstractmethod
    def num_nodes(self) -> int:
        """Number of nodes."""

    @abstractmethod
    def _tile(self, u: int, start: int) -> FloatArray:
        """Return the values of a node with the nodes of the tile from ``start`` on."""

    def row(self, u: int, first: int = 0) -> FloatArray:
        """Return the values for a node with all nodes from ``first`` on."""
        n, begin = self.num_nodes, first - first % self._TILE
        tiles = [self._tile(u, start) for start in range(begin, n, self._TILE)]
        return np.concatenate([*tiles, np.empty(0)])[first - begin : n - begin]

    def pairs(self, pairs: IntArray) -> FloatArray:
        """Return the values for listed pairs."""
        out = np.empty(len(pairs))
        tiles = pairs[:, 1] // self._TILE
        order = np.lexsort((tiles, pairs[:, 0]))
        known, values = (-1, -1), np.empty(0)
        for p in order.tolist():
            wanted = (int(pairs[p, 0]), int(tiles[p]))
            if wanted != known:
                known = wanted
                values = self._tile(wanted[0], wanted[1] * self._TILE)
            out[p] = values[pairs[p, 1] - known[1] * self._TILE]
        return out


class TiledScorer(Tiles, RowsOrHalf):
    """Scores that are the values of tiles."""

    @classmethod
    def padded(cls, states: Tensor) -> npt.NDArray[np.float32]:
        """Return states with rows of zeros up to a whole number of tiles.

        Products of matrices add up the last rows of an odd number in another order:
        without them a pair has the same bits with its ends exchanged.
        """
        return np.pad(states.numpy(), ((0, -len(states) % cls._TILE), (0, 0)))

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        with single_blas_thread():
            return self.pairs(np.asarray(pairs, dtype=np.int64))

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = np.zeros((len(rows), self.num_nodes))
        with single_blas_thread():
            for i, u in enumerate(rows.tolist()):
                first = u + 1 if above else 0
                scores[i, first:] = self.row(u, first)
        return scores


@dataclass(frozen=True, eq=False)
class ProductNet(Tiles):
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

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.states)

    def _tile(self, u: int, start: int) -> FloatArray:
        values = self.states[start : start + self._TILE] * self.states[u]
        for weights, bias in self.layers[:-1]:
            values = values @ weights
            values += bias
            np.maximum(values, 0.0, out=values)
        weights, bias = self.layers[-1]
        output: FloatArray = ((values @ weights)[:, 0] + bias[0]).astype(np.float64)
        return output


# Pairs per call of a kernel: what it sets up is then nothing beside its work.
_PART = 2048


class PairwiseScorer(RowsOrHalf):
    """Scores listed pairs, each with the same bits in every list; rows are lists.

    A pair is scored with its smaller node first. A node with itself has 0.
    """

    @property
    @abstractmethod
    def num_nodes(self) -> int:
        """Number of nodes."""

    @abstractmethod
    def _score(self, pairs: IntArray, out: FloatArray) -> None:
        """Write the scores of pairs u < v."""

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        ordered = np.sort(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=1)
        different = np.flatnonzero(ordered[:, 0] != ordered[:, 1])
        order = different[np.lexsort(ordered[different].T[::-1])]
        scores = np.zeros(len(ordered))
        for start in range(0, len(order), _PART):
            part = order[start : start + _PART]
            found = np.empty(len(part))
            self._score(ordered[part], found)
            scores[part] = found
        return scores

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = np.zeros((len(rows), self.num_nodes))
        for i, u in enumerate(rows.tolist()):
            first = u + 1 if above else 0
            others = np.arange(first, self.num_nodes)
            pairs = np.stack([np.full(len(others), u), others], axis=1)
            scores[i, first:] = self.pair_scores(pairs)
        return scores
