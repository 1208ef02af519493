"""Walks consumed while walked equal walks listed first, to the last bit."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gelato
from gelato import heuristics
from gelato.graph import Graph
from gelato.kernels import near_walks
from gelato.ranking import (
    all_pairs,
    best_candidates,
    best_per_node,
    between,
    rank_counts,
    score_pairs,
    scorers,
)
from gelato.ranking import near as near_pass
from gelato.ranking.best import best_capped
from support.strategies import graphs, split_pairs


class Listed:
    """The same near pairs, listed block by block and not known to be walks."""

    def __init__(self, scorer):
        self.num_nodes, self.far = scorer.num_nodes, scorer.far
        self.near_rows, self.near_bounds = scorer.near_rows, scorer.near_bounds
        self.score_rows = scorer.score_rows


class Dense:
    """The same scores, without telling near pairs from far ones."""

    def __init__(self, scorer):
        self.score_rows = scorer.score_rows


def assert_same(one, other):
    for name in ("scores", "positives", "above", "tied"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.num_negatives == other.num_negatives


def assert_same_pairs(one, other):
    np.testing.assert_array_equal(one.pairs, other.pairs)
    np.testing.assert_array_equal(one.scores, other.scores)


@st.composite
def cases(draw):
    graph = draw(graphs(max_nodes=16).filter(lambda g: g.num_edges > 1))
    known, positives = draw(split_pairs(graph))
    train = graph.with_edges(known)
    t, loops = draw(st.integers(1, 4)), draw(st.sampled_from(["isolated", "all"]))
    scorer = heuristics.autocovariance(train, t=t, self_loops=loops)
    rule = all_pairs(graph, known)
    if draw(st.booleans()):
        seed = draw(st.integers(0, 999))
        sides = np.random.default_rng(seed).random((2, graph.num_nodes)) < 0.6
        sides[:, 0] = True
        rule = between(graph, *map(np.flatnonzero, sides), known)
    return scorer, rule, positives[rule.contains(positives)]


@given(
    case=cases(),
    cells=st.sampled_from([1, 30, 10**6]),
    classes=st.sampled_from([0, 1 << 20]),
    keys=st.sampled_from([0, 8, 1 << 10]),
    k=st.integers(1, 25),
)
def test_walked_listed_and_dense_agree(case, cells, classes, keys, k):
    scorer, rule, positives = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_walks, "_KEYED_NODES", 0)
        patch.setattr(near_walks, "_KEYS", keys)
        patch.setattr(near_pass, "BLOCK_CELLS", cells)
        patch.setattr(near_pass, "_MOST_CLASS_PAIRS", classes)
        for other in (Listed(scorer), Dense(scorer)):
            if 0 < len(positives) < rule.count:
                counts = [rank_counts(way, positives, rule) for way in (scorer, other)]
                assert_same(*counts)
            if rule.count:
                ways = (scorer, other)
                best = [best_candidates(way, rule, k) for way in ways]
                assert_same_pairs(*best)
                capped = [best_capped(way, rule, k, 2) for way in ways]
                assert_same_pairs(*capped)
            nodes = np.arange(rule.num_nodes)
            lists = [
                best_per_node(way, rule, nodes, min(k, 6)) for way in (scorer, other)
            ]
            for one, two in zip(*lists, strict=True):
                assert_same_pairs(one, two)


@given(case=cases(), share=st.sampled_from([0.02, 0.3, 1.0]), seed=st.integers(0, 99))
def test_pairs_score_as_their_rows_do(case, share, seed):
    """Few pairs of a row are gathered from the columns, many take the whole step."""
    scorer, rule, _ = case
    n = rule.num_nodes
    dense = scorer.score_rows(np.arange(n))
    pairs = np.argwhere(~np.eye(n, dtype=bool))
    pairs = pairs[np.random.default_rng(seed).random(len(pairs)) < share]
    found = score_pairs(scorer, pairs, n)
    np.testing.assert_array_equal(found, dense[tuple(pairs.T)])


@pytest.mark.parametrize("kind", ["hubs", "dense", "weights"])
@pytest.mark.parametrize("t", [1, 2, 3, 4])
@pytest.mark.parametrize("keyed_nodes", [0, 10**9])
def test_a_graph_of_some_size(kind, t, keyed_nodes, monkeypatch):
    monkeypatch.setattr(near_walks, "_KEYED_NODES", keyed_nodes)
    rng = np.random.default_rng(t)
    if kind == "hubs":
        graph = gelato.make_synthetic_graph(
            300, exponent=2.0, max_degree=150, attributes=0
        )
    else:
        ends = rng.integers(0, 150, size=(4000 if kind == "dense" else 300, 2))
        weights = None if kind == "dense" else rng.random(len(ends)) + 0.1
        graph = Graph.from_indices(150, ends, weights=weights)
    split = gelato.split_edges(graph)
    scorer = heuristics.autocovariance(split.train_graph, t=t)
    rule = all_pairs(graph, split.known("test"))
    walked = rank_counts(scorer, split.test, rule)
    for other in (Listed(scorer), Dense(scorer)):
        assert_same(walked, rank_counts(other, split.test, rule))
        assert_same_pairs(
            best_candidates(scorer, rule, 200),
            best_candidates(other, rule, 200),
        )


@given(case=cases(), classes=st.sampled_from([0, 1 << 20]), k=st.integers(1, 25))
def test_sites_change_no_bit(case, classes, k):
    plain, rule, positives = case
    nodes = np.arange(0, rule.num_nodes, 2)
    found = []
    for cached in (1 << 15, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scorers, "_CACHED_NODES", cached)
            patch.setattr(near_pass, "_MOST_CLASS_PAIRS", classes)
            scorer = replace(plain)
            results = [*best_per_node(scorer, rule, nodes, k)]
            if rule.count:
                results.append(best_candidates(scorer, rule, k))
            if 0 < len(positives) < rule.count:
                counts = rank_counts(scorer, positives, rule, per_node=True)
                results += [counts, counts.nodes]
            results.append(scorer.near_rows(nodes, upper=not rule.directed))
            found.append([vars(result) for result in results])
    for one, other in zip(*found, strict=True):
        assert one.keys() == other.keys()
        for name in one.keys() - {"nodes"} if "near_pairs" in one else one.keys():
            np.testing.assert_array_equal(one[name], other[name])


@given(graph=graphs(max_nodes=16))
def test_nodes_reached_together_lie_together(graph):
    matrix = graph.adjacency
    degrees = np.diff(matrix.indptr)
    order = []
    for seed in [int(np.argmax(degrees)), *range(graph.num_nodes)]:
        waiting = deque([seed])
        while waiting:
            node = waiting.popleft()
            if node not in order:
                order.append(node)
                start, stop = matrix.indptr[node : node + 2]
                waiting.extend(matrix.indices[start:stop].tolist())
    made = near_walks.nearby_nodes(matrix.indptr, matrix.indices)
    assert made.tolist() == order


def test_rows_of_a_large_graph_are_walked_by_site(monkeypatch):
    graph = gelato.make_synthetic_graph(300, attributes=0)
    scorer = heuristics.autocovariance(graph)
    some = np.arange(0, 300, 7)
    assert scorers.rows_by_site(scorer, some) is some
    monkeypatch.setattr(scorers, "_CACHED_NODES", 0)
    scorer = replace(scorer)
    by_site = scorers.rows_by_site(scorer, some)
    assert by_site.tolist() == sorted(some.tolist(), key=scorer.site_of.__getitem__)
    assert by_site.tolist() != some.tolist()


def test_nearly_all_pairs_near_is_said(caplog):
    rng = np.random.default_rng(0)
    graph = Graph.from_indices(60, rng.integers(0, 60, size=(900, 2)))
    split = gelato.split_edges(graph)
    with caplog.at_level(logging.INFO, logger="gelato"):
        result = gelato.evaluate(gelato.make("ac"), split)
    assert result.nearly_all_near
    assert "nearly all" in caplog.text
    sparse = gelato.split_edges(Graph.from_indices(60, [(i, i + 1) for i in range(59)]))
    assert not gelato.evaluate(gelato.make("ac"), sparse).nearly_all_near
