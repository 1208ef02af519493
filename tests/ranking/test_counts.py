"""Near plus far equals the full pass equals a list of every candidate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gelato import heuristics
from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.kernels.chunks import use_threads
from gelato.ranking import (
    all_pairs,
    best_candidates,
    best_per_node,
    between,
    candidates,
    listed,
    metrics,
    rank_counts,
    within_hops,
)
from gelato.ranking.counts import counts_of_scores
from gelato.ranking.scorers import row_blocks
from support import oracles
from support.small_graphs import community_graph
from support.strategies import graphs, split_pairs


class Dense:
    """The same scores, without telling near pairs from far ones."""

    def __init__(self, scorer):
        self.score_rows = scorer.score_rows


def scorers(graph, t, loops):
    found = [
        heuristics.autocovariance(graph, t=t, self_loops=loops),
        heuristics.preferential_attachment(graph),
    ]
    if not graph.directed:
        found += [
            heuristics.common_neighbours(graph),
            heuristics.adamic_adar(graph),
            heuristics.resource_allocation(graph),
        ]
    return found


def assert_equal_counts(left, right):
    np.testing.assert_array_equal(left.scores, right.scores)
    np.testing.assert_array_equal(left.positives, right.positives)
    np.testing.assert_array_equal(left.above, right.above)
    np.testing.assert_array_equal(left.tied, right.tied)
    assert left.num_negatives == right.num_negatives


@st.composite
def situations(draw):
    graph = draw(graphs().filter(lambda g: g.num_edges > 1))
    known, positives = draw(split_pairs(graph))
    n = graph.num_nodes
    kind = draw(st.sampled_from(["all", "between", "listed"]))
    sides = np.random.default_rng(draw(st.integers(0, 999))).random((2, n)) < 0.6
    sides[:, 0] = True
    train = graph.with_edges(known)
    if kind == "all":
        rule = all_pairs(graph, known)
        pairs = oracles.candidate_list(graph, known)
    elif kind == "between":
        rule = between(graph, np.flatnonzero(sides[0]), np.flatnonzero(sides[1]), known)

        def admits(u, v):
            ahead = sides[0, u] and sides[1, v]
            return ahead or (not graph.directed and sides[0, v] and sides[1, u])

        pairs = oracles.candidate_list(graph, known, admits)
    else:
        pairs = oracles.candidate_list(graph, known)[::2]
        rule = listed(graph, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    t = draw(st.integers(0, 4))
    loops = draw(st.sampled_from(["isolated", "all"]))
    inside = set(pairs)
    positives = np.array([p for p in positives.tolist() if tuple(p) in inside])
    return train, scorers(train, t, loops), rule, pairs, positives.reshape(-1, 2)


@given(situation=situations())
def test_every_way_of_counting_agrees(situation):
    _, found, rule, pairs, positives = situation
    assert rule.count == len(pairs)
    if not 0 < len(positives) < len(pairs):
        return
    for scorer in found:
        near = rank_counts(scorer, positives, rule)
        full = rank_counts(Dense(scorer), positives, rule)
        assert_equal_counts(near, full)
        scores = scorer.score_rows(np.arange(rule.num_nodes))
        expected = oracles.ranking_numbers(scores, pairs, positives)
        assert metrics.average_precision(near) == pytest.approx(expected["ap"])
        assert metrics.area_under_roc(near) == pytest.approx(expected["auc"])
        assert metrics.mean_reciprocal_rank(near) == pytest.approx(expected["mrr"])
        assert metrics.tied_share(near) == pytest.approx(expected["tied_share"])
        for k in (1, 2, 5, len(pairs), len(pairs) + 3):
            assert metrics.hits_at(near, k) == pytest.approx(expected["hits"](k))
            assert metrics.precision_at(near, k) == pytest.approx(
                expected["precision"](k)
            )


@given(situation=situations(), k=st.integers(1, 40))
def test_best_candidates_agree_with_sorting_them_all(situation, k):
    _, found, rule, pairs, _ = situation
    if not pairs:
        return
    for scorer in found:
        scores = scorer.score_rows(np.arange(rule.num_nodes))
        expected = oracles.best_of(scores, pairs, k)
        for way in (scorer, Dense(scorer)):
            best = best_candidates(way, rule, k)
            assert [tuple(pair) for pair in best.pairs.tolist()] == expected
            np.testing.assert_array_equal(best.scores, [scores[p] for p in expected])


@given(situation=situations(), k=st.integers(1, 6))
def test_best_per_node_agrees_with_sorting(situation, k):
    graph, found, rule, pairs, _ = situation
    both = pairs if graph.directed else pairs + [(v, u) for u, v in pairs]
    nodes = np.arange(graph.num_nodes)[::-1]
    for scorer in found:
        scores = scorer.score_rows(np.arange(rule.num_nodes))
        for way in (scorer, Dense(scorer)):
            lists = best_per_node(way, rule, nodes, k)
            for node, best in zip(nodes, lists, strict=True):
                own = [pair for pair in both if pair[0] == node]
                expected = oracles.best_of(scores, own, k)
                assert [tuple(pair) for pair in best.pairs.tolist()] == expected


def test_pairs_within_hops_do_not_depend_on_the_blocks(monkeypatch):
    graph = community_graph()
    whole = within_hops(graph, 3, graph.edges).pairs
    monkeypatch.setattr(candidates, "_MOST_REACHED", 10)
    assert len(list(candidates._reach_blocks(graph.adjacency.astype(float), 3))) > 5
    assert np.array_equal(within_hops(graph, 3, graph.edges).pairs, whole)
    monkeypatch.setattr(candidates, "_MOST_LISTED", len(whole) // 2)
    with pytest.raises(UsageError, match="within 3 hops"):
        within_hops(graph, 3, graph.edges)


@given(graph=graphs(min_nodes=6, directed=False), hops=st.integers(2, 4))
def test_within_hops_equals_shortest_paths(graph, hops):
    import networkx as nx

    from gelato.io import to_networkx

    lengths = dict(nx.all_pairs_shortest_path_length(to_networkx(graph), cutoff=hops))
    expected = [
        (u, v)
        for u, v in oracles.candidate_list(graph, graph.edges)
        if v in lengths.get(u, {})
    ]
    rule = within_hops(graph, hops, graph.edges)
    assert [tuple(pair) for pair in rule.pairs.tolist()] == expected


@given(
    positives=st.lists(st.integers(-3, 3), min_size=1, max_size=20),
    negatives=st.lists(st.integers(-3, 3), min_size=1, max_size=60),
)
def test_counts_do_not_change_under_monotone_maps(positives, negatives):
    p, q = np.array(positives, float), np.array(negatives, float)
    plain = counts_of_scores(p, q)
    mapped = counts_of_scores(np.exp(3 * p) - 40, np.exp(3 * q) - 40)
    np.testing.assert_array_equal(plain.above, mapped.above)
    np.testing.assert_array_equal(plain.tied, mapped.tied)


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=True, width=32),
        min_size=1,
        max_size=300,
    ),
    st.integers(0, 999),
)
def test_bins_hold_for_any_floats(values, seed):
    """Thresholds of any magnitude: the table narrows, never misplaces."""
    values = np.array(values, dtype=np.float64)
    chosen = np.random.default_rng(seed).random(len(values)) < 0.5
    chosen[0] = True
    counts = counts_of_scores(values[chosen], values[~chosen])
    for score, above, tied in zip(
        counts.scores, counts.above, counts.tied, strict=True
    ):
        assert above == np.count_nonzero(values[~chosen] > score)
        assert tied == np.count_nonzero(values[~chosen] == score)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(5)
    n = 1500
    ends = (n * rng.random((6000, 2)) ** 2).astype(int)
    graph = Graph.from_indices(n, ends, weights=rng.random(6000) + 0.1)
    held = rng.random(graph.num_edges) < 0.2
    known, positives = graph.edges[~held], graph.edges[held]
    scorer = heuristics.autocovariance(graph.with_edges(known))
    rule = all_pairs(graph, known)
    one = rank_counts(scorer, positives, rule)
    for threads in (2, 5):
        with use_threads(threads):
            assert_equal_counts(one, rank_counts(scorer, positives, rule))
            few = best_candidates(scorer, rule, 300)
        again = best_candidates(scorer, rule, 300)
        np.testing.assert_array_equal(few.pairs, again.pairs)
        np.testing.assert_array_equal(few.scores, again.scores)


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(1, 30), st.integers(1, 9))
def test_blocks_are_as_large_as_they_may_be(cost, cells, most):
    expected, own = [], []
    for row, one in enumerate(cost):
        if own and (sum(cost[i] for i in own) + one > cells or len(own) == most):
            expected.append(own)
            own = []
        own = [*own, row]
    expected += [own] if own else []
    rows, costs = np.arange(len(cost)), np.array(cost, dtype=np.int64)
    found = row_blocks(rows, costs, max_cells=cells, max_rows=most)
    assert [block.tolist() for block in found] == expected
