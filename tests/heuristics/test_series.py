"""Katz and rooted PageRank against dense inverses and networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gelato
from gelato import heuristics
from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.heuristics.series import largest_eigenvalue
from gelato.io import to_networkx
from support.strategies import graphs


def scores_of(scorer):
    scores = scorer.score_rows(np.arange(scorer.num_nodes))
    np.fill_diagonal(scores, 0.0)
    return scores


def without_diagonal(matrix):
    return matrix - np.diag(np.diag(matrix))


@given(graph=graphs(directed=False), share=st.floats(0.05, 0.9))
def test_katz_is_the_inverse(graph, share):
    A = graph.adjacency.toarray()
    largest = largest_eigenvalue(graph.adjacency)
    assert largest == pytest.approx(np.linalg.eigvalsh(A)[-1])
    beta = share / largest if largest else 0.5
    expected = np.linalg.inv(np.eye(len(A)) - beta * A)
    found = scores_of(heuristics.katz(graph, beta=beta))
    np.testing.assert_allclose(found, without_diagonal(expected), atol=1e-8)


@given(graph=graphs(directed=False), steps=st.integers(2, 5))
def test_katz_to_some_length_is_a_sum_of_powers(graph, steps):
    A = graph.adjacency.toarray()
    powers = [0.5**k * np.linalg.matrix_power(A, k) for k in range(1, steps + 1)]
    found = scores_of(heuristics.katz(graph, beta=0.5, steps=steps))
    np.testing.assert_allclose(found, without_diagonal(sum(powers)), rtol=1e-11)


def test_katz_that_does_not_converge_names_the_largest_factor():
    star = Graph.from_indices(5, [(0, v) for v in range(1, 5)])  # eigenvalue 2
    with pytest.raises(
        UsageError, match="largest eigenvalue of the graph is 2"
    ) as told:
        heuristics.katz(star, beta=0.5)
    assert "below 0.5" in told.value.hint
    assert heuristics.katz(star, beta=0.49).steps > 1000
    assert heuristics.katz(star).factor == 0.25


@given(graph=graphs(directed=False), alpha=st.sampled_from([0.5, 0.85]))
def test_rooted_pagerank_is_the_inverse_in_both_directions(graph, alpha):
    A = graph.adjacency.toarray()
    degrees = A.sum(axis=1)
    P = A / np.where(degrees > 0, degrees, 1)[:, None]
    one_way = (1 - alpha) * np.linalg.inv(np.eye(len(A)) - alpha * P)
    found = scores_of(heuristics.rooted_pagerank(graph, alpha=alpha))
    np.testing.assert_allclose(found, without_diagonal(one_way + one_way.T), atol=1e-9)


def test_rooted_pagerank_is_that_of_networkx():
    graph = gelato.make_synthetic_graph(30, seed=2)
    other = to_networkx(graph)
    found = scores_of(heuristics.rooted_pagerank(graph))
    rank = [nx.pagerank(other, personalization={u: 1}, tol=1e-12) for u in range(30)]
    for u in range(30):
        for v in range(u):
            expected = rank[u][v] + rank[v][u]
            assert found[u, v] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("make", [heuristics.katz, heuristics.rooted_pagerank])
def test_bits_do_not_depend_on_the_rows_of_a_block(make):
    scorer = make(gelato.make_synthetic_graph(90, seed=3))
    whole = scorer.score_rows(np.arange(90))
    for rows in ([7], [7, 80], list(range(3, 60))):
        np.testing.assert_array_equal(scorer.score_rows(rows), whole[rows])
    np.testing.assert_allclose(whole, whole.T, rtol=1e-11)


def test_an_explanation_adds_up():
    graph = gelato.make_synthetic_graph(40, seed=4)
    for name in ("katz", "ppr"):
        why = gelato.make(name).fit(graph).explain(0, 7, top=1000)
        listed = sum(walk.contribution for walk in why.walks)
        assert listed == pytest.approx(why.walk_score)
        assert listed + why.longer == pytest.approx(why.score)
        assert "from longer walks" in str(why)
