"""Dot products of spectral embeddings: the leading eigenvectors of a graph.

With ``N = D^-1/2 A D^-1/2``, its k largest eigenvalues and their vectors, the scores
are those of the matrix of rank k that is nearest to the positive part of N.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, Graph, IntArray
from gelato.heuristics.declared import heuristic
from gelato.heuristics.linear import normalised
from gelato.heuristics.similar import DotScorer
from gelato.parameters import whole

# A search took _SECONDS n^_GROWTH k, from 5,000 to 60,000 nodes with three edges each;
# it holds twice the vectors that are wanted.
_SECONDS, _GROWTH, _COPIES = 1.3e-9, 1.8, 2


@heuristic(
    "spectral",
    "dot product of leading eigenvectors",
    undirected=True,
    parameters={"dimensions": whole(least=1)},
    search_space={"dimensions": (64, 16, 32, 128)},
)
def spectral(graph: Graph, *, dimensions: int = 64) -> SpectralScorer:
    """Score a pair by ``sum_k lambda_k x_k(u) x_k(v)`` over leading eigenvectors of N.

    Parameters
    ----------
    graph : Graph
        The known edges, with their weights.
    dimensions : int
        How many eigenvectors; those of negative eigenvalues do not count.
    """
    graph.require_undirected("Spectral embeddings (spectral)")
    return SpectralScorer(normalised(graph.adjacency), dimensions)


def leading_eigenvectors(
    matrix: sp.csr_array, count: int, *, tolerance: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues of a symmetric matrix, and their vectors."""
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    with single_blas_thread():
        values, vectors = eigsh(matrix, k=count, which="LA", v0=start, tol=tolerance)
    return values, vectors


@dataclass(frozen=True, eq=False)
class SpectralScorer:
    """Dot products of embeddings, to ten digits; found when a row is first asked for.

    The last bits of eigenvectors depend on where a library puts its arrays.

    Parameters
    ----------
    matrix : CSR float64
        N, symmetric.
    dimensions : int
        See :func:`spectral`.
    """

    matrix: sp.csr_array
    dimensions: int

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.matrix.shape[0])

    @cached_property
    def linked(self) -> IntArray:
        """The nodes that are searched for eigenvectors.

        Those without an edge have 0 in every vector that counts. Where they are more
        than half of all, the search hardly ends because of them; where they are fewer
        it includes them, as it did for recorded results.
        """
        lonely = np.diff(self.matrix.indptr) == 0
        if 2 * np.count_nonzero(lonely) <= len(lonely):
            return np.arange(len(lonely))
        return np.flatnonzero(~lonely)

    @cached_property
    def dots(self) -> DotScorer:
        """What scores pairs by the embeddings."""
        n, linked = self.num_nodes, self.linked
        if len(linked) < 3 or self.matrix.nnz == 0:
            return DotScorer(np.zeros((n, 1)))
        matrix = self.matrix if len(linked) == n else self.matrix[linked][:, linked]
        count = min(self.dimensions, len(linked) - 2)
        values, vectors = leading_eigenvectors(matrix, count)
        embedded = np.zeros((n, count))
        embedded[linked] = vectors * np.sqrt(np.maximum(values, 0.0))
        return DotScorer(embedded)

    def __getstate__(self) -> dict[str, Any]:
        # Workers elsewhere are sent the embeddings, and search for none of their own.
        return vars(self) | {"dots": self.dots}

    def trial(self) -> tuple[DotScorer, float, int]:
        """Return what to time in a forecast, and what comes before the first row."""
        seconds = _SECONDS * len(self.linked) ** _GROWTH * self.dimensions
        held = 8 * self.dimensions * (self.num_nodes + _COPIES * len(self.linked))
        return DotScorer(np.zeros((self.num_nodes, self.dimensions))), seconds, held

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        scores: FloatArray = np.round(self.dots.score_rows(rows), 10) + 0.0
        return scores
