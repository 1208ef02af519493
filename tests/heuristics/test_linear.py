"""The ridge walk against its formula, written down densely."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gelato
from gelato.errors import UnsupportedGraphError
from gelato.graph import Graph
from gelato.heuristics import linear


def random_graph(seed=0, n=60, chance=0.12, weighted=True):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(rng.random((n, n)) < chance, 1))
    weights = rng.uniform(0.5, 2.0, len(pairs)) if weighted else None
    return Graph.from_indices(n, pairs, weights=weights)


def dense_ease(graph):
    A = graph.adjacency.toarray()
    d = A.sum(axis=1)
    scale = np.where(d > 0, 1 / np.sqrt(np.maximum(d, 1e-300)), 0.0)
    N = scale[:, None] * A * scale[None, :]
    mu = np.mean(np.diag(N @ N))
    P = np.linalg.inv(N @ N + mu * np.eye(len(A)))
    B = -P / np.diag(P)[None, :]
    np.fill_diagonal(B, 0.0)
    return A @ B + (A @ B).T


def off_diagonal(matrix):
    return matrix[~np.eye(len(matrix), dtype=bool)]


@pytest.mark.parametrize("weighted", [False, True])
def test_ease_is_the_dense_formula(weighted):
    graph = random_graph(weighted=weighted)
    scores = linear.ease(graph).score_rows(np.arange(graph.num_nodes))
    expected = dense_ease(graph)
    np.testing.assert_allclose(off_diagonal(scores), off_diagonal(expected), atol=1e-9)


def test_neighbours_add_up_to_the_score():
    graph = random_graph(3)
    scorer = linear.ease(graph)
    terms = scorer.terms(2, 9)
    assert sum(amount for *_, amount in terms) == pytest.approx(
        scorer.score_rows(np.array([2]))[0, 9], abs=1e-9
    )
    assert {node for node, _, _ in terms} <= set(graph.adjacency[[2, 9]].indices)


@given(st.integers(1, 40), st.integers(0, 2**16))
def test_inverse_in_tiles_is_the_inverse(n, seed):
    root = np.random.default_rng(seed).standard_normal((n, n))
    matrix = root @ root.T + n * np.eye(n)
    expected = np.linalg.inv(matrix)
    before, linear._TILE = linear._TILE, 7
    try:
        linear.invert_symmetric(matrix)
    finally:
        linear._TILE = before
    np.testing.assert_allclose(matrix, expected, rtol=1e-8, atol=1e-12)


def test_threads_do_not_change_bits(monkeypatch):
    monkeypatch.setattr(linear, "_TILE", 16)
    graph = random_graph(5)
    with gelato.use_threads(1):
        one = linear.ridge_inverse(graph.adjacency)
    with gelato.use_threads(3):
        two = linear.ridge_inverse(graph.adjacency)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_series_is_the_direct_form(monkeypatch, weighted):
    graph = random_graph(6, weighted=weighted)
    direct = linear.ease(graph)
    monkeypatch.setattr(linear, "MOST_DIRECT", 10)
    series = linear.ease(graph)
    assert isinstance(series, linear.RidgeSeries)
    rows = np.arange(60)
    np.testing.assert_allclose(
        series.halves(rows), direct.halves(rows), rtol=1e-9, atol=1e-10
    )
    # Bits do not depend on the rows that share a block, nor on threads.
    with gelato.use_threads(3):
        one = linear.ease(graph).score_rows(rows[31:32])
    np.testing.assert_array_equal(one[0], series.score_rows(rows)[31])
    terms = series.terms(2, 9)
    assert sum(amount for *_, amount in terms) == pytest.approx(
        direct.score_rows(np.array([2]))[0, 9], abs=1e-9
    )


def test_local_pushes_approach_the_direct_form(monkeypatch):
    graph = random_graph(1)
    direct = linear.ridge_inverse(graph.adjacency)
    near = linear.sparse_ridge_inverse(graph.adjacency, tolerance=1e-7).toarray()
    np.testing.assert_allclose(near, direct, atol=1e-5)
    monkeypatch.setattr(linear, "MOST_DIRECT", 10)
    monkeypatch.setattr(linear, "MOST_STEPS", 0)
    monkeypatch.setattr(linear, "_TOLERANCE", 1e-8)
    scorer = linear.ease(graph)
    expected = np.maximum(dense_ease(graph), 0.0)
    scores = scorer.score_rows(np.arange(60))
    np.testing.assert_allclose(off_diagonal(scores), off_diagonal(expected), atol=1e-5)
    upper = scorer.near_rows(np.arange(60), upper=True)
    at = np.repeat(np.arange(60), np.diff(upper.indptr))
    assert np.all(upper.columns > at)
    np.testing.assert_array_equal(upper.scores, scores[at, upper.columns])
    model = gelato.make("ease").fit(graph)
    model.predict(top=3)
    assert "approximate" in model.notes_[0]


def test_ease_is_a_model_for_undirected_graphs():
    graph = random_graph(2, weighted=False)
    split = gelato.split_edges(graph)
    assert gelato.evaluate(gelato.make("ease").fit(split), split).ap > 0
    lonely = Graph.from_indices(5, np.empty((0, 2), dtype=np.int64))
    assert not linear.ease(lonely).score_rows(np.arange(5)).any()
    directed = Graph.from_indices(3, [(0, 1), (2, 1)], directed=True)
    with pytest.raises(UnsupportedGraphError, match="symmetrise"):
        linear.ease(directed)


def test_an_explanation_is_the_sum_over_neighbours():
    graph = random_graph(4)
    model = gelato.make("ease").fit(graph)
    why = model.explain(3, 8, top=1000)
    assert sum(walk.contribution for walk in why.walks) == pytest.approx(why.score)
    assert why.walk_score == pytest.approx(why.score, abs=1e-9)
    assert all(len(walk.nodes) == 3 for walk in why.walks)
    assert "walk" in str(why)


def test_many_nodes_without_edges_are_not_solved_for():
    """Every column of the inverse is as long as there are nodes, however few edges."""
    graph = Graph.from_indices(200_000, np.array([[0, 1]]))
    assert isinstance(linear.ease(graph), linear.SparseRidgeScorer)
