"""Spectral embeddings against a dense decomposition."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato import heuristics
from gelato.graph import Graph


@pytest.mark.parametrize("dimensions", [3, 38])
def test_scores_are_those_of_the_dense_decomposition(dimensions):
    graph = gelato.make_synthetic_graph(40, seed=5)
    A = graph.adjacency.toarray()
    scale = 1 / np.sqrt(A.sum(axis=1))
    values, vectors = np.linalg.eigh(scale[:, None] * A * scale)
    kept = slice(-dimensions, None)
    left = vectors[:, kept] * np.maximum(values[kept], 0)
    found = heuristics.spectral(graph, dimensions=dimensions).score_rows(np.arange(40))
    np.testing.assert_allclose(found, left @ vectors[:, kept].T, atol=2e-10)
    np.testing.assert_array_equal(found, found.T)


def test_graphs_too_small_for_eigenvectors_score_nothing():
    for n, edges in ((2, [(0, 1)]), (4, [])):
        graph = Graph.from_indices(n, np.array(edges, dtype=np.int64).reshape(-1, 2))
        assert not heuristics.spectral(graph).score_rows(np.arange(n)).any()
