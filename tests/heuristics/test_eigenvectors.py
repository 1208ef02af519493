"""Spectral embeddings against a dense decomposition."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gelato
from gelato import heuristics
from gelato.graph import Graph
from gelato.heuristics import eigenvectors
from gelato.ranking.forecast import forecast


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


def test_nodes_without_an_edge_do_not_hold_up_the_search():
    few = gelato.make_synthetic_graph(40, seed=5)
    many = Graph.from_indices(200_000, few.edges)
    alone = heuristics.spectral(few, dimensions=5).score_rows(np.arange(40))
    found = heuristics.spectral(many, dimensions=5).score_rows(np.arange(40))
    np.testing.assert_allclose(found[:, :40], alone, atol=2e-10)
    assert not found[:, 40:].any()


def test_a_forecast_does_not_search_for_eigenvectors(monkeypatch):
    def never(*_, **__):
        raise AssertionError("searched")

    monkeypatch.setattr(eigenvectors, "leading_eigenvectors", never)
    graph = gelato.make_synthetic_graph(2_000, seed=5)
    told = forecast(gelato.make("spectral").fit(graph), graph)
    assert told.pairs == 2_000 * 1_999 // 2 - graph.num_edges
    assert told.seconds > 0


def test_workers_are_sent_what_was_found(monkeypatch):
    graph = gelato.make_synthetic_graph(40, seed=5)
    scorer = heuristics.spectral(graph, dimensions=5)
    sent = pickle.dumps(scorer)
    monkeypatch.setattr(eigenvectors, "leading_eigenvectors", None)
    rows = np.arange(40)
    found = pickle.loads(sent).score_rows(rows)
    np.testing.assert_array_equal(found, scorer.score_rows(rows))
