"""Indices of shared neighbours against networkx, and dense rows of weights."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import gelato
from gelato import heuristics
from gelato.errors import UnsupportedGraphError
from gelato.graph import Graph
from gelato.io import to_networkx
from support.strategies import graphs

DIVISORS = {
    "jaccard": lambda shared, one, two: one + two - shared,
    "salton": lambda shared, one, two: np.sqrt(one * two),
    "sorensen": lambda shared, one, two: (one + two) / 2,
    "hub_promoted": lambda shared, one, two: min(one, two),
    "hub_depressed": lambda shared, one, two: max(one, two),
}


@pytest.mark.parametrize("name", DIVISORS)
@given(graph=graphs(directed=False))
def test_indices_equal_dense_rows(name, graph):
    A = graph.adjacency.toarray()
    scores = getattr(heuristics, name)(graph).score_rows(np.arange(len(A)))
    for u in range(len(A)):
        for v in range(len(A)):
            shared = A[u] @ A[v]
            divisor = DIVISORS[name](shared, A[u] @ A[u], A[v] @ A[v])
            if u != v:
                expected = shared / divisor if shared else 0.0
                assert scores[u, v] == pytest.approx(expected, rel=1e-11)


@given(graph=graphs(directed=False, weighted=False))
def test_jaccard_equals_networkx(graph):
    scores = heuristics.jaccard(graph).score_rows(np.arange(graph.num_nodes))
    pairs = [(u, v) for u in range(graph.num_nodes) for v in range(u)]
    for u, v, expected in nx.jaccard_coefficient(to_networkx(graph), pairs):
        assert scores[u, v] == expected


@pytest.mark.parametrize("name", DIVISORS)
def test_near_pairs_are_counted_as_dense_rows_are(name):
    split = gelato.split_edges(gelato.make_synthetic_graph(60, seed=1))
    scorer = getattr(heuristics, name)(split.train_graph)
    near = gelato.evaluate(scorer, split)
    dense = gelato.evaluate(scorer.score_rows(np.arange(60)), split)
    assert near.ap == dense.ap
    assert near.counts.near_pairs is not None


def test_directed_graphs_are_refused():
    directed = Graph.from_indices(3, [(0, 1), (2, 1)], directed=True)
    with pytest.raises(UnsupportedGraphError, match="symmetrise"):
        heuristics.salton(directed)


def test_an_explanation_names_the_shared_neighbours():
    square = Graph.from_indices(5, [(0, 1), (1, 2), (2, 3), (0, 3), (2, 4)])
    why = gelato.make("jaccard").fit(square).explain(0, 2)
    assert why.score == pytest.approx(2 / 3)
    assert [walk.nodes for walk in why.walks] == [(0, 1, 2), (0, 3, 2)]
    assert sum(walk.contribution for walk in why.walks) == pytest.approx(why.score)
    assert why.longer == 0
