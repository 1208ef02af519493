"""The table of pair features against loops and dense matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.errors import InputError, UnsupportedGraphError
from gelato.graph import Graph
from gelato.stacking.features import FeatureTable, feature_guide, features_of
from gelato.stacking.folds import hidden_edges, make_fold
from gelato.stacking.lists import PER_NODE, score_block
from gelato.stacking.node_attributes import node_attributes
from gelato.stacking.pair_measures import Measures


def make_graph(seed=0, n=40, weighted=True, attributes=True):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(rng.random((n, n)) < 0.15, 1))
    pairs = pairs[(pairs != n - 1).all(axis=1)]  # the last node is isolated
    weights = rng.uniform(0.5, 2.0, len(pairs)) if weighted else None
    X = sp.csr_array((rng.random((n, 12)) < 0.3) * 1.0) if attributes else None
    return Graph.from_indices(n, pairs, weights=weights, attributes=X)


def non_edges(graph):
    u, v = np.triu_indices(graph.num_nodes, 1)
    free = graph.adjacency.toarray()[u, v] == 0
    return np.stack([u[free], v[free]], axis=1)


def columns_of(graph, pairs):
    table = gelato.pair_features(graph, pairs)
    return {name: table[name].to_numpy() for name in table.columns[2:]}


@pytest.fixture(scope="module")
def case():
    graph = make_graph()
    pairs = non_edges(graph)
    return graph, pairs, columns_of(graph, pairs)


def test_walks_are_matrix_products(case):
    graph, pairs, found = case
    A = graph.adjacency.toarray()
    ones = (A > 0) * 1.0
    d = A.sum(axis=1)
    inverse = np.where(d > 0, 1 / np.maximum(d, 1e-300), 0.0)
    E = np.diag(inverse)
    root, log = np.diag(np.sqrt(inverse)), np.diag(1 / np.log1p(np.maximum(d, 1e-9)))
    u, v = pairs.T
    expected = {
        "cn": ones @ ones,
        "ra": A @ E @ A,
        "aa": A @ log @ A,
        "walk3": A @ E @ A @ E @ A,
        "walk4": A @ E @ A @ E @ A @ E @ A,
        "walk5": A @ E @ A @ E @ A @ E @ A @ E @ A,
        "l3": A @ root @ A @ root @ A,
        "count3": ones @ ones @ ones,
        "ac": A @ E @ A @ E @ A - np.outer(d, d) / d.sum(),
    }
    for name, matrix in expected.items():
        np.testing.assert_allclose(
            found[name], matrix[u, v], rtol=1e-5, atol=1e-6, err_msg=name
        )


def test_shared_neighbours_by_a_loop(case):
    graph, pairs, found = case
    near = [set(row.indices.tolist()) for row in graph.adjacency]
    counts = [len(nodes) for nodes in near]
    for at, (u, v) in enumerate(pairs):
        shared = near[u] & near[v]
        degrees = sorted(counts[k] for k in shared)
        union = near[u] | near[v]
        assert found["cn"][at] == len(shared)
        assert found["rarest"][at] == (degrees[0] if degrees else 0)
        assert found["second_rarest"][at] == (degrees[1] if len(degrees) > 1 else 0)
        assert found["jaccard"][at] == pytest.approx(len(shared) / max(1, len(union)))


def test_attributes_by_a_loop(case):
    graph, pairs, found = case
    X = graph.attributes.toarray().astype(float)
    idf = np.log1p(len(X) / X.sum(axis=0))
    share = X.mean(axis=0)
    u, v = graph.edges.T
    shared = (X[u] * X[v]).sum(axis=0)
    odds = np.log((shared + 2) / (graph.num_edges * share**2 + 2))
    for at, (a, b) in enumerate(pairs[:200]):
        norm = np.sqrt((X[a] @ X[a]) * (X[b] @ X[b]))
        assert found["cosine"][at] == pytest.approx((X[a] @ X[b]) / norm, abs=1e-6)
        x, y = X[a] * idf, X[b] * idf
        rare = x @ y / np.sqrt((x @ x) * (y @ y))
        assert found["rare_cosine"][at] == pytest.approx(rare, abs=1e-6)
        # All twelve dimensions are kept: factors give the same cosine.
        assert found["cos"][at] == pytest.approx(rare, abs=1e-4)
        assert found["log_odds"][at] == pytest.approx(X[a] * X[b] @ odds, abs=1e-5)


def test_ease_is_the_heuristic(case):
    graph, pairs, found = case
    rows = gelato.make("ease").fit(graph).score_rows(np.arange(graph.num_nodes))
    np.testing.assert_allclose(found["ease"], rows[pairs[:, 0], pairs[:, 1]], atol=1e-4)


def test_ranks_are_places_in_both_lists(case):
    graph, pairs, found = case
    d = graph.degrees
    scores = score_block(Measures(graph, node_attributes(graph)), np.arange(len(d)))[1]
    for at, (u, v) in enumerate(pairs[::7]):
        ranks = [
            1 + np.count_nonzero(scores[a] > scores[a, b] + 1e-5 * abs(scores[a, b]))
            for a, b in ((u, v), (v, u))
        ]
        if max(ranks) <= 16:
            assert found["ac_rank_less"][7 * at] == min(ranks)
            assert found["ac_rank_more"][7 * at] == max(ranks)


def test_candidates_are_the_best_of_every_node():
    graph = make_graph(3)
    measures = Measures(graph, node_attributes(graph))
    table = FeatureTable.of(measures)
    keys = set(map(tuple, table.candidates.tolist()))
    assert all(u < v for u, v in keys)
    assert not keys & set(map(tuple, graph.edges.tolist()))
    for scores in score_block(measures, np.arange(graph.num_nodes)):
        for u, row in enumerate(scores):
            best = np.argsort(-row, kind="stable")[:PER_NODE]
            for v in best[row[best] > 0].tolist():
                assert (min(u, v), max(u, v)) in keys


def test_threads_and_order_of_nodes_do_not_matter():
    graph = make_graph(1)
    pairs = non_edges(graph)[::3]
    with gelato.use_threads(1):
        one = gelato.pair_features(graph, pairs)
    with gelato.use_threads(3):
        two = gelato.pair_features(graph, pairs[::-1, ::-1])[::-1]
    assert one.drop("source", "target").equals(two.drop("source", "target"))


def test_a_fold_has_the_features_of_the_masked_graph():
    """One code for both: nothing of a hidden edge enters, and no bit differs."""
    graph = make_graph(2)
    fold = make_fold(graph, node_attributes(graph), 1, seed=3)
    masked = graph.with_edges(graph.edges[~hidden_edges(graph, 1, 3)])
    table = gelato.pair_features(masked, fold.pairs).drop("source", "target")
    np.testing.assert_array_equal(table.to_numpy(), fold.features)
    assert fold.labels.any()


def test_without_attributes_and_with_attributes_that_say_nothing():
    bare = make_graph(attributes=False)
    pairs = non_edges(bare)[:5]
    names = columns_of(bare, pairs).keys()
    assert "cosine" not in names
    for constant in (np.ones((40, 3)), np.zeros((40, 3)), np.full((40, 1), 7.0)):
        assert columns_of(replace(bare, attributes=constant), pairs).keys() == names
    dense = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    dense[:, 2] = 3.0
    found = columns_of(replace(bare, attributes=dense), pairs)
    assert all(np.isfinite(values).all() for values in found.values())
    assert "cosine" in found


def test_every_feature_is_documented():
    graph = make_graph()
    guide = feature_guide()
    features = features_of(Measures(graph, node_attributes(graph)))
    assert [f.name for f in features if f.name not in guide] == []
    assert len({f.name for f in features}) == len(features)


def test_pairs_that_are_none_are_refused():
    graph = make_graph()
    for wrong in ([(0, 0)], [(0, 40)], [(-1, 2)]):
        with pytest.raises(InputError, match="two different nodes"):
            gelato.pair_features(graph, wrong)
    directed = Graph.from_indices(3, [(0, 1), (2, 1)], directed=True)
    with pytest.raises(UnsupportedGraphError):
        gelato.pair_features(directed, [(0, 2)])
