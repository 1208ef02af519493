"""Neo-GNN's view of a graph, and its scores of whole rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels.pair_overlaps import overlap_rows, scalar_net
from gelato.models.gnn.decoders import ProductNet
from gelato.models.gnn.features import adjacency_pattern, refuse_large
from gelato.nn.sparse_matrix import SparseMatrix

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
class NeoScorer:
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

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        rows = np.asarray(rows, dtype=np.int64)
        matrix = (self.reach.indptr, self.reach.indices, self.reach.data)
        overlaps = np.empty((len(rows), self.num_nodes))
        overlap_rows(rows, *matrix, self.weights, overlaps)
        structure = np.empty_like(overlaps)
        scalar_net(overlaps.ravel(), *self.inner, *self.outer, structure.ravel())
        with single_blas_thread():
            feature = np.stack([self.product.row(int(u)) for u in rows])
        one, two = self.shares
        yes = np.logaddexp(one + _log_sigmoid(structure), two + _log_sigmoid(feature))
        no = np.logaddexp(one + _log_sigmoid(-structure), two + _log_sigmoid(-feature))
        odds: FloatArray = yes - no
        return odds


def _log_sigmoid(x: FloatArray) -> FloatArray:
    return -np.logaddexp(0.0, -x)
