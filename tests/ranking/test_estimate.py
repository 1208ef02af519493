"""Estimated rankings: near pairs exactly, a sample of the rest, and honest limits."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato.errors import InputError, UsageError
from gelato.graph import Graph
from gelato.kernels import counting as sampled_pairs
from gelato.kernels.chunks import derive_key
from gelato.ranking import all_pairs, between, listed, metrics, within_hops
from gelato.ranking.counts import candidate_rule, rank_counts
from gelato.ranking.estimate import estimate_ranking
from gelato.splits import split_edges
from support import oracles
from support.slow_scorers import CountingPairs, noisy_scores


def make_split(directed=False, n=70, edges=170):
    rng = np.random.default_rng(0)
    ends = (n * rng.random((edges, 2)) ** 1.2).astype(int)
    graph = Graph.from_indices(n, ends, directed=directed)
    return split_edges(graph, valid=0.1, test=0.2)


@pytest.fixture(scope="module")
def split():
    return make_split()


def near_by_loop(graph):
    """Whether at most two edges lead from one node to another, by walking."""
    ahead = [set() for _ in range(graph.num_nodes)]
    for u, v in graph.edges.tolist():
        ahead[u].add(v)
        if not graph.directed:
            ahead[v].add(u)
    return {
        (u, v)
        for u in range(graph.num_nodes)
        for first in ahead[u]
        for v in {first, *ahead[first]}
    }


@pytest.mark.parametrize("directed", [False, True])
def test_rows_are_divided_into_near_and_far_pairs(directed):
    split = make_split(directed)
    graph = split.train_graph
    rule = all_pairs(split.graph, split.known("test"))
    every = [tuple(pair) for pair in oracles.candidate_list(split.graph, rule.excluded)]
    near = near_by_loop(graph)
    edges = graph.adjacency
    ahead = (edges.indptr.astype(np.int64), edges.indices.astype(np.int64))
    for rate in (0.2, 1.0):
        draw = (derive_key(3, 70), sampled_pairs.draw_limit(rate))
        pairs, flags, far = sampled_pairs.draw_rows(
            rule.rows, candidate_rule(rule), ahead, draw
        )
        found = [tuple(pair) for pair in pairs.tolist()]
        assert found == sorted(set(found))
        close = {pair for pair, flag in zip(found, flags, strict=True) if flag}
        assert close == {pair for pair in every if pair in near}
        assert far == len(every) - len(close)
        assert set(found) <= set(every)
        drawn = len(found) - len(close)
        assert drawn == far if rate == 1 else abs(drawn / far - rate) < 0.06
        # Listed or by rows, in one piece or many: the same pairs.
        kept, listed_near = sampled_pairs.draw_listed(
            np.array(every), graph.num_nodes, ahead, draw
        )
        assert [pair for pair, keep in zip(every, kept, strict=True) if keep] == found
        assert listed_near[kept].tolist() == flags.tolist()
        parts = [
            sampled_pairs.draw_rows(rows, candidate_rule(rule), ahead, draw)[0]
            for rows in np.array_split(rule.rows, 7)
        ]
        np.testing.assert_array_equal(np.concatenate(parts), pairs)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["all", "between", "hops", "listed"])
def test_with_every_pair_drawn_it_is_exact(directed, kind):
    split = make_split(directed)
    graph, known, n = split.graph, split.known("test"), split.graph.num_nodes
    scores = np.random.default_rng(4).integers(0, 9, (n, n)).astype(float)
    everything = oracles.candidate_list(graph, known)
    rule = {
        "all": all_pairs(graph, known),
        "between": between(graph, range(50), range(30, n), known),
        "hops": within_hops(split.train_graph, 3, known),
        "listed": listed(graph, np.array(everything)[::3], known),
    }[kind]
    positives = split.test[rule.contains(split.test)]
    scorer = gelato.ranking.scorers.MatrixScorer(scores)
    exact = rank_counts(scorer, positives, rule)
    found = estimate_ranking(scorer, positives, rule, split.train_graph, 1.0)
    assert found.sampled_pairs == found.far_pairs
    assert found.near_pairs + found.far_pairs == exact.num_negatives
    np.testing.assert_array_equal(found.counts.above, exact.above)
    np.testing.assert_array_equal(found.counts.tied, exact.tied)
    assert metrics.measures(found.counts) == metrics.measures(exact)
    assert all(low == high for low, high in found.intervals.values())


def test_counts_are_unbiased_and_intervals_cover(split):
    """Over seeds: means within their error, limits that hold what they promise."""
    scorer = CountingPairs(noisy_scores(split.graph))
    exact = gelato.evaluate(scorer, split)
    assert exact.ap > 3 * exact.random_ap  # a ranking, not noise
    runs = [gelato.evaluate(scorer, split, estimate=0.15, seed=s) for s in range(100)]
    for values, target in (
        (np.array([run.counts.above for run in runs]), exact.counts.above),
        (np.array([run.counts.above + run.counts.tied for run in runs]), None),
        (np.array([[run.auc] for run in runs]), np.array([exact.auc])),
        (np.array([[run.ap] for run in runs]), np.array([exact.ap])),
    ):
        wanted = exact.counts.above + exact.counts.tied if target is None else target
        error = values.std(axis=0, ddof=1) / np.sqrt(len(runs))
        assert np.all(np.abs(values.mean(axis=0) - wanted) <= 4 * error + 1e-9)
    for name in ("ap", "auc", "prec@100%", "mrr"):
        value = exact.interval(name)[0]
        limits = np.array([run.interval(name) for run in runs])
        covered = np.mean((limits[:, 0] <= value) & (value <= limits[:, 1]))
        assert covered >= 0.92, name
        # Not by being as wide as can be; at the top a few pairs decide.
        most = {"auc": 0.05, "prec@100%": 0.25}.get(name, 0.5)
        assert np.median(limits[:, 1] - limits[:, 0]) < most


def test_nothing_seen_above_is_no_proof(split):
    """A far pair that outranks everything, and that most samples miss."""
    scores = noisy_scores(split.train_graph) * 0.1
    near = near_by_loop(split.train_graph)
    known = {tuple(pair) for pair in split.graph.edges.tolist()}
    far = [p for p in np.ndindex(70, 70) if p[0] < p[1] and p not in near | known]
    for u, v in far[::400]:
        scores[u, v] = scores[v, u] = 5.0
    scorer = CountingPairs(scores)
    exact = gelato.evaluate(scorer, split)
    runs = [gelato.evaluate(scorer, split, estimate=0.05, seed=s) for s in range(60)]
    assert np.mean([run.ap > exact.ap for run in runs]) > 0.5
    covered = [run.interval("ap")[0] <= exact.ap for run in runs]
    assert np.mean(covered) >= 0.95


def test_only_what_is_needed_is_scored(split):
    scorer = CountingPairs(noisy_scores(split.train_graph))
    result = gelato.evaluate(scorer, split, estimate=0.1)
    assert result.estimate is not None
    needed = result.estimate.near_pairs + result.estimate.sampled_pairs
    assert scorer.asked == needed + len(split.test)
    assert scorer.asked < result.counts.num_negatives / 2


def test_rows_and_pairs_give_the_same_estimate(split):
    scores = noisy_scores(split.train_graph, levels=8)
    by_pairs = gelato.evaluate(CountingPairs(scores), split, estimate=0.2, seed=5)
    by_rows = gelato.evaluate(scores, split, estimate=0.2, seed=5)
    threads = gelato.evaluate(
        CountingPairs(scores), split, estimate=0.2, seed=5, threads=3
    )
    others = [by_rows.to_dict(), threads.to_dict()]
    for one in (wanted := by_pairs.to_dict(), *others):
        one.pop("seconds")
    assert others == [wanted, wanted]


def test_an_estimate_says_so_everywhere(split):
    scorer = CountingPairs(noisy_scores(split.train_graph))
    exact = gelato.evaluate(scorer, split)
    result = gelato.evaluate(scorer, split, estimate=0.2)
    assert (result.estimated, exact.estimated) == (True, False)
    assert (result.protocol, exact.protocol) == ("estimated", "all")
    assert "ESTIMATE from 0.2" in repr(result)
    assert "95% interval" in repr(result)
    assert "ESTIMATE" not in repr(exact)
    data = result.to_dict()
    assert data["estimated"] is True
    assert "estimate" not in exact.to_dict()
    basis = data["estimate"]
    assert basis["rate"] == 0.2
    assert basis["near_hops"] == 2
    assert basis["near_pairs"] + basis["far_pairs"] == data["negatives"]
    low, high = basis["intervals"]["ap"]
    assert low <= data["ap"] <= high
    assert exact.interval("ap") == (exact.ap, exact.ap)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, float("nan")])
def test_a_rate_that_is_no_share_is_refused(split, rate):
    with pytest.raises(UsageError, match="rate above 0 and at most 1"):
        gelato.evaluate(gelato.make("cn"), split, estimate=rate)


def test_estimates_that_make_no_sense_are_refused(split):
    cn = gelato.make("cn")
    with pytest.raises(UsageError, match="not estimated"):
        gelato.evaluate(cn, split, estimate=0.1, protocol="sampled")
    with pytest.raises(UsageError, match="draws none of"):
        gelato.evaluate(cn, split, estimate=1e-9)
    with pytest.raises(UsageError, match="no measure 'f1'"):
        gelato.evaluate(cn, split).interval("f1")


def test_pair_scores_that_cannot_rank_are_refused(split):
    class Broken(CountingPairs):
        def pair_scores(self, pairs):
            return np.full(len(pairs), np.nan)

    class Short(CountingPairs):
        def pair_scores(self, pairs):
            return np.zeros(len(pairs) + 1)

    scores = noisy_scores(split.train_graph)
    with pytest.raises(InputError, match="is not a number"):
        gelato.evaluate(Broken(scores), split, estimate=0.5)
    with pytest.raises(InputError, match="pair_scores returned shape"):
        gelato.evaluate(Short(scores), split)
