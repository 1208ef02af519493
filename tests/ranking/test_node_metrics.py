"""Measures of single nodes' lists against plain loops over dense rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gelato
from gelato import heuristics
from gelato.errors import UsageError
from gelato.ranking import evaluate, rank_counts
from gelato.ranking.candidates import all_pairs, between, listed
from gelato.ranking.node_metrics import KS, list_degrees, node_measures
from support.small_graphs import community_graph


def candidates_of_nodes(rule, directed=False):
    """Return every node with every candidate in its list."""
    ends = list(itertools.permutations(range(rule.num_nodes), 2))
    pairs = np.array(ends) if directed else np.sort(ends, axis=1)
    kept = rule.contains(pairs)
    return [
        (u, tuple(p))
        for (u, _), p, k in zip(ends, pairs.tolist(), kept, strict=True)
        if k
    ]


def plain_lists(scores, rule, positives, directed):
    """Return, by node with positives, its candidates' scores and which are positive."""
    true = {tuple(pair) for pair in positives.tolist()}
    lists = {}
    for u, pair in candidates_of_nodes(rule, directed):
        lists.setdefault(u, []).append((scores[pair], pair in true))
    return {
        u: (np.array([s for s, _ in own]), np.array([t for _, t in own]))
        for u, own in sorted(lists.items())
        if any(t for _, t in own)
    }


def plain_measures(values, true):
    """Return measures of one list, by loops over groups of equal scores."""
    found = {f"{name}@{k}": 0.0 for name in ("among", "dcg") for k in KS}
    place, seen, ap = 0, 0, 0.0
    for value in np.unique(values)[::-1]:
        group = values == value
        size, hits = int(group.sum()), int(true[group].sum())
        for k in KS:
            for rank in range(place + 1, min(place + size, k) + 1):
                found[f"among@{k}"] += hits / size
                found[f"dcg@{k}"] += hits / size / math.log2(rank + 1)
        place, seen = place + size, seen + hits
        ap += hits * seen / place
    total, best = int(true.sum()), values[true].max()
    above = int((values[~true] > best).sum())
    tied = int((values[~true] == best).sum())
    measures = {"map": ap / total, "mrr": 1 / (1 + above + tied / 2)}
    for k in KS:
        recall, precision = found[f"among@{k}"] / total, found[f"among@{k}"] / k
        ideal = sum(1 / math.log2(r + 1) for r in range(1, min(k, total) + 1))
        measures |= {
            f"recall@{k}": recall,
            f"precision@{k}": precision,
            f"vcmpr@{k}": max(recall, precision),
            f"ndcg@{k}": found[f"dcg@{k}"] / ideal,
            f"hits@{k}": float(above + tied < k),
        }
    return measures


def compare(scorer, rule, positives, directed=False):
    scores = scorer.score_rows(np.arange(rule.num_nodes))
    lists = plain_lists(scores, rule, positives, directed)
    counts = rank_counts(scorer, positives, rule, per_node=True)
    assert np.unique(counts.nodes.nodes).tolist() == list(lists)
    expected = [plain_measures(*own) for own in lists.values()]
    for name, values in node_measures(counts.nodes).items():
        np.testing.assert_allclose(values, [one[name] for one in expected], atol=1e-12)
    plain = rank_counts(scorer, positives, rule)
    np.testing.assert_array_equal(plain.above, counts.above)
    np.testing.assert_array_equal(plain.tied, counts.tied)


class Dense:
    """A scorer that does not tell near pairs from far ones."""

    def __init__(self, scorer):
        self.score_rows = scorer.score_rows


@pytest.mark.parametrize("name", ["cn", "ac", "pa", "jaccard", "katz"])
@pytest.mark.parametrize("weighted", [False, True])
def test_undirected_lists_equal_loops(name, weighted):
    split = gelato.split_edges(community_graph(weighted=weighted), test=0.2)
    scorer = gelato.make(name).fit(split).scorer(split.train_graph)
    rule = all_pairs(split.graph, split.known("test"))
    compare(scorer, rule, split.test)
    compare(Dense(scorer), rule, split.test)


def test_a_list_with_many_positives():
    graph = community_graph(weighted=True)
    known = {tuple(pair) for pair in graph.edges.tolist()}
    missing = [(0, v) for v in range(1, 40) if (0, v) not in known]
    positives = np.array(missing[::2])
    rule, scorer = all_pairs(graph, graph.edges), heuristics.autocovariance(graph)
    scores = scorer.score_rows(np.array([0]))[0, positives[:, 1]]
    assert len(np.unique(scores)) > 8  # more than are compared one by one
    compare(scorer, rule, positives)


@pytest.mark.parametrize("name", ["ac", "pa"])
def test_directed_lists_are_those_of_sources(name):
    split = gelato.split_edges(community_graph(directed=True), test=0.2)
    scorer = gelato.make(name).fit(split).scorer(split.train_graph)
    rule = all_pairs(split.graph, split.known("test"))
    compare(scorer, rule, split.test, directed=True)


@pytest.mark.parametrize("shared", [0, 5])
def test_lists_between_two_sets_of_nodes(shared):
    graph = community_graph()
    left, right = np.arange(20 + shared), np.arange(20, 40)
    split = gelato.split_edges(graph, test=0.3)
    rule = between(split.graph, left, right, split.known("test"))
    positives = split.test[rule.contains(split.test)]
    for make in (heuristics.autocovariance, heuristics.resource_allocation):
        compare(make(split.train_graph), rule, positives)


def test_the_evaluation_tells_means_by_degree_and_distance():
    split = gelato.split_edges(community_graph(), test=0.2)
    model = gelato.make("ra").fit(split)
    plain = evaluate(model, split).to_dict()
    result = evaluate(model, split, per_node=True)
    told = result.to_dict()
    own = told.pop("per_node")
    for one in (plain, told):
        del one["seconds"]
    assert told == plain
    assert "per_node" not in plain
    values = node_measures(result.counts.nodes)
    assert own["map"] == pytest.approx(values["map"].mean())
    assert sum(one["nodes"] for one in own["by_degree"]) == own["nodes"]
    assert sum(one["edges"] for one in own["by_distance"]) == len(split.test)
    weighted = sum(one["nodes"] * one["mrr"] for one in own["by_degree"])
    assert weighted / own["nodes"] == pytest.approx(own["mrr"])


def test_lists_of_nodes_need_all_pairs():
    split = gelato.split_edges(community_graph(), test=0.2)
    model = gelato.make("cn").fit(split)
    rule, scorer = listed(split.graph, split.test), model.scorer(split.train_graph)
    with pytest.raises(UsageError, match="not among listed ones"):
        rank_counts(scorer, split.test, rule, per_node=True)
    for options in ({"protocol": "sampled"}, {"estimate": 0.5}):
        with pytest.raises(UsageError, match="per_node"):
            evaluate(model, split, per_node=True, **options)


def test_degrees_of_suggested_nodes():
    split = gelato.split_edges(community_graph(), test=0.2)
    graph, rule = split.train_graph, all_pairs(split.graph, split.known("test"))
    told = list_degrees(
        heuristics.preferential_attachment(graph), rule, graph, split.test, 3
    )
    other = list_degrees(heuristics.jaccard(graph), rule, graph, split.test, 3)
    assert told["mean_degree"] > other["mean_degree"] > 0
    assert told["gini"] > other["gini"] > 0
    assert told["coverage"] < other["coverage"] <= 1
    # By hand: who is suggested how often.
    model = gelato.make("jaccard").fit(split)
    scores = model.scorer(graph).score_rows(np.arange(40))
    often, every = np.zeros(40), candidates_of_nodes(rule)
    for u in np.unique(split.test).tolist():
        mine = [pair for node, pair in every if node == u]
        mine.sort(key=lambda p: (-scores[p], sum(p) - u))
        for pair in mine[:3]:
            often[sum(pair) - u] += 1
    gini = np.abs(often[:, None] - often).sum() / (2 * 40 * often.sum())
    assert other["gini"] == pytest.approx(gini)
    assert other["coverage"] == (often > 0).mean()


@pytest.mark.slow  # importing PyG takes seconds
def test_measures_agree_with_pyg_without_ties():
    metrics = pytest.importorskip("torch_geometric.metrics")
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    split = gelato.split_edges(community_graph(), test=0.2)
    scores = rng.random((40, 40))
    scores = scores + scores.T
    rule = all_pairs(split.graph, split.known("test"))
    counts = rank_counts(
        gelato.ranking.scorers.MatrixScorer(scores), split.test, rule, per_node=True
    )
    ours = node_measures(counts.nodes)
    nodes = np.unique(split.test)
    both = np.concatenate([split.test, split.test[:, ::-1]])
    place = np.searchsorted(nodes, both[:, 0])
    masked = np.full((40, 40), -np.inf)
    for u, pair in candidates_of_nodes(rule):
        masked[u, sum(pair) - u] = scores[pair]
    best = torch.from_numpy(np.argsort(-masked[nodes], axis=1)[:, :10].copy())
    truth = torch.from_numpy(np.stack([place, both[:, 1]]))
    for name, theirs in (
        ("precision@10", metrics.LinkPredPrecision),
        ("recall@10", metrics.LinkPredRecall),
        ("ndcg@10", metrics.LinkPredNDCG),
    ):
        metric = theirs(k=10)
        metric.update(best, truth)
        assert float(metric.compute()) == pytest.approx(ours[name].mean(), abs=1e-6)
