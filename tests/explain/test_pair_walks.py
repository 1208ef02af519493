"""Walks best first, against all walks listed one by one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gelato import heuristics
from gelato.explain.pair import (
    strongest_walks,
    sum_walks,
    total_without_pair,
)
from gelato.graph import Graph
from support import strategies


def all_walks(scorer, u, v):
    """Every walk that contributes, by trying all sequences of inner nodes."""
    A, F = scorer.adjacency.toarray(), scorer.factor
    found = {}
    for inner in itertools.product(range(len(A)), repeat=scorer.steps - 1):
        walk = (u, *inner, v)
        value = scorer.multiplier
        for a, b in itertools.pairwise(walk):
            value *= A[a, b]
        for k in inner:
            value *= F[k]
        if value:
            found[walk] = value
    return found


@given(
    strategies.graphs(min_nodes=2, max_nodes=7),
    st.integers(1, 4),
    st.sampled_from(["isolated", "all"]),
    st.integers(1, 30),
    st.data(),
)
def test_sums_and_strongest_are_those_of_the_full_list(graph, t, loops, top, data):
    scorer = heuristics.autocovariance(graph, t=t, self_loops=loops)
    u = data.draw(st.integers(0, graph.num_nodes - 1))
    v = data.draw(st.integers(0, graph.num_nodes - 1).filter(lambda node: node != u))
    every = all_walks(scorer, u, v)
    sums = sum_walks(scorer, u, v)
    assert sums.count == len(every)
    assert sums.total == pytest.approx(sum(every.values()), rel=1e-12)
    assert len(sums.through) == t - 1
    for place, through in enumerate(sums.through, start=1):
        expected = np.zeros(graph.num_nodes)
        for walk, value in every.items():
            expected[walk[place]] += value
        np.testing.assert_allclose(through, expected, rtol=1e-12)
    found = strongest_walks(scorer, u, v, top)
    assert len(found) == min(top, len(every))
    assert len({walk for walk, _ in found}) == len(found)
    for walk, value in found:
        assert every[walk] == pytest.approx(value, rel=1e-12)
    best = sorted(every.values(), reverse=True)[:top]
    np.testing.assert_allclose([value for _, value in found], best, rtol=1e-12)
    steps = {(u, v)} if graph.directed else {(u, v), (v, u)}
    apart = [
        value
        for walk, value in every.items()
        if not steps & set(itertools.pairwise(walk))
    ]
    without = total_without_pair(scorer, u, v, directed=graph.directed)
    assert without == pytest.approx(sum(apart), rel=1e-12)


def test_millions_of_walks_between_hubs_are_not_listed():
    rng = np.random.default_rng(0)
    n = 3000
    hubs = [(hub, other) for hub in (0, 1) for other in range(2, n)]
    edges = np.concatenate([hubs, rng.integers(2, n, (60_000, 2))])
    graph = Graph.from_indices(n, edges, weights=rng.random(len(edges)) + 0.1)
    scorer = heuristics.autocovariance(graph, t=4)
    sums = sum_walks(scorer, 0, 1)
    assert sums.count > 2_000_000
    found = strongest_walks(scorer, 0, 1, 5)
    assert len(found) == 5
    # The best walk of all, by the largest product at every step back from the target.
    best = np.zeros(n)
    best[1] = 1.0
    for step in range(4):
        ahead = best if step == 0 else best * scorer.factor
        best = (scorer.adjacency * ahead[None, :]).max(axis=1).toarray().ravel()
    assert found[0][1] == pytest.approx(scorer.multiplier * best[0], rel=1e-12)


def test_nodes_that_count_nothing_are_not_walked_through():
    graph = Graph.from_indices(4, [(0, 1), (1, 2), (2, 3)])
    scorer = heuristics.adamic_adar(graph)
    silent = replace(scorer, factor=np.zeros(4))
    assert sum_walks(scorer, 0, 2).count == 1
    assert sum_walks(silent, 0, 2).count == 0
    assert strongest_walks(silent, 0, 2, 3) == []
    lonely = Graph.from_indices(2, [])
    assert strongest_walks(heuristics.common_neighbours(lonely), 0, 1, 3) == []
