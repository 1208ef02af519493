"""SimRank against networkx and its equation."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import gelato
from gelato import heuristics
from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.heuristics import recursive
from gelato.io import to_networkx
from gelato.ranking.forecast import forecast

GRAPH = gelato.make_synthetic_graph(25, seed=1)


def test_simrank_is_that_of_networkx():
    scores = heuristics.simrank(GRAPH, decay=0.8).score_rows(np.arange(25))
    expected = nx.simrank_similarity(
        to_networkx(GRAPH), importance_factor=0.8, tolerance=1e-6
    )
    for u in range(25):
        for v in range(25):
            assert scores[u, v] == pytest.approx(expected[u][v], abs=5e-4)
    np.testing.assert_array_equal(scores, scores.T)


def test_with_weights_the_equation_holds():
    weights = np.random.default_rng(0).uniform(0.5, 2, GRAPH.num_edges)
    graph = Graph.from_indices(25, GRAPH.edges, weights=weights)
    S = heuristics.simrank(graph, decay=0.6).score_rows(np.arange(25))
    A = graph.adjacency.toarray()
    W = A / np.maximum(A.sum(axis=1, keepdims=True), 1e-9)
    expected = 0.6 * W @ S @ W.T
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(S, expected, atol=2e-4)


def test_a_graph_that_is_too_large_is_refused_with_what_it_would_take(monkeypatch):
    monkeypatch.setattr(recursive, "MOST_NODES", 20)
    with pytest.raises(
        UsageError, match=r"25 nodes would take 0 GB and about < 0\.1 s"
    ):
        heuristics.simrank(GRAPH)


def test_a_forecast_does_not_compute_all_pairs():
    made = heuristics.simrank(GRAPH)
    assert forecast(made, GRAPH).peak_bytes > made.table_bytes
    assert "matrix" not in vars(made)
