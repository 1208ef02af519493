"""Dot products of spectral embeddings: the leading eigenvectors of a graph.

With ``N = D^-1/2 A D^-1/2``, its k largest eigenvalues and their vectors, the scores
are those of the matrix of rank k that is nearest to the positive part of N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, Graph, IntArray
from gelato.heuristics.declared import heuristic
from gelato.heuristics.linear import normalised
from gelato.heuristics.similar import DotScorer
from gelato.parameters import whole


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
    n = graph.num_nodes
    if n < 3 or graph.num_edges == 0:
        return SpectralScorer(DotScorer(np.zeros((n, 1))))
    count = min(dimensions, n - 2)
    values, vectors = leading_eigenvectors(normalised(graph.adjacency), count)
    return SpectralScorer(DotScorer(vectors * np.sqrt(np.maximum(values, 0.0))))


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
    """Dot products of embeddings, to ten digits.

    The last bits of eigenvectors depend on where a library puts its arrays.
    """

    dots: DotScorer

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        scores: FloatArray = np.round(self.dots.score_rows(rows), 10) + 0.0
        return scores
