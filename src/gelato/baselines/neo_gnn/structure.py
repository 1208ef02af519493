"""Neo-GNN's view of a graph, and its scores of whole rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from gelato.baselines.neo_gnn.overlaps import overlap_rows, overlaps, scalar_net
from gelato.baselines.shared_layers.decoders import ProductNet, RowsOrHalf
from gelato.baselines.shared_layers.messages import (
    SparseMatrix,
    adjacency_pattern,
    refuse_large,
)
from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, Graph, IntArray

# Bytes per entry of A^2: value and column, twice while it is added to A.
_ENTRY_BYTES = 32


@dataclass(frozen=True, eq=False)
class Inputs:
    """What Neo-GNN needs of a graph.

    Parameters
    ----------
    reach : CSR float64
        ``A + beta A^2``, whose diagonal is that of A^2.
    levels : (l, 1) float64 Tensor
        The distinct values of ``reach``.
    histogram : SparseMatrix
        How often each node's row holds each level.
    average : SparseMatrix
        Averages over neighbours.
    smoothed : SparseMatrix or Tensor
        Features averaged once already: the first layer is linear up to there.
    """

    reach: sp.csr_array
    levels: Tensor
    histogram: SparseMatrix
    average: SparseMatrix
    smoothed: SparseMatrix | Tensor


def reach_levels(
    graph: Graph, beta: float
) -> tuple[sp.csr_array, FloatArray, sp.csr_array]:
    """Return ``A + beta A^2``, its distinct values, and their counts by row."""
    pattern = adjacency_pattern(graph)
    degrees = np.diff(pattern.indptr).astype(np.float64)
    refuse_large(
        "Neo-GNN's square of the adjacency matrix",
        _ENTRY_BYTES * min(float(degrees @ degrees), float(graph.num_nodes) ** 2),
        hint="The graph has nodes of very large degree; use another model.",
    )
    # Twice the paths plus the edge: a whole number per distinct value.
    keys = sp.csr_array(2.0 * (pattern @ pattern) + pattern)
    keys.sort_indices()
    known, level = np.unique(keys.data, return_inverse=True)
    levels = known % 2 + beta * (known // 2)
    shape = (graph.num_nodes, len(known))
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(keys.indptr))
    counts = sp.coo_array((np.ones(keys.nnz), (rows, level)), shape=shape)
    reach = keys.copy()
    reach.data = levels[level]
    return reach, levels, sp.csr_array(counts)


@dataclass(frozen=True, eq=False)
class NeoScorer(RowsOrHalf):
    """The logit of Neo-GNN's mixed probability, which never saturates.

    Parameters
    ----------
    reach : CSR float64
        ``A + beta A^2``.
    weights : (n,) float64
        Structural weights of nodes.
    inner, outer
        Slopes and shifts, weights and bias of the net on overlaps.
    product : ProductNet
        Net on the product of states.
    shares : tuple of float
        Logarithms of the shares of structure and of features.
    """

    reach: sp.csr_array
    weights: FloatArray
    inner: tuple[FloatArray, FloatArray]
    outer: tuple[FloatArray, float]
    product: ProductNet
    shares: tuple[float, float]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.weights)

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        overlap = np.empty(len(pairs))
        overlaps(*self._matrix, self.weights, pairs[:, 0], pairs[:, 1], overlap)
        with single_blas_thread():
            return self._mixed(overlap, self.product.pairs(pairs))

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = np.zeros((len(rows), self.num_nodes))
        overlap = np.empty((1, self.num_nodes))
        with single_blas_thread():
            for i, u in enumerate(rows.tolist()):
                first = u + 1 if above else 0
                overlap_rows(rows[i : i + 1], *self._matrix, self.weights, overlap)
                feature = self.product.row(u, first)
                scores[i, first:] = self._mixed(overlap[0, first:], feature)
        return scores

    @property
    def _matrix(self) -> tuple[Any, ...]:
        return self.reach.indptr, self.reach.indices, self.reach.data

    def _mixed(self, overlap: FloatArray, feature: FloatArray) -> FloatArray:
        """Return the logit of the mixture of both probabilities."""
        structure = np.empty_like(overlap)
        scalar_net(overlap, *self.inner, *self.outer, structure)
        one, two = self.shares
        yes = np.logaddexp(one + _log_sigmoid(structure), two + _log_sigmoid(feature))
        no = np.logaddexp(one + _log_sigmoid(-structure), two + _log_sigmoid(-feature))
        odds: FloatArray = yes - no
        return odds


def _log_sigmoid(x: FloatArray) -> FloatArray:
    return -np.logaddexp(0.0, -x)
