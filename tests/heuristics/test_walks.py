from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gelato import heuristics
from gelato.errors import InputError, UnsupportedGraphError, UsageError
from gelato.graph import Graph
from gelato.io import to_networkx
from gelato.ranking import rank_counts
from gelato.ranking.candidates import all_pairs
from support import oracles
from support.strategies import graphs


def scores_of(scorer, n):
    scores = scorer.score_rows(np.arange(n))
    np.fill_diagonal(scores, 0.0)
    return scores


def without_diagonal(matrix):
    matrix = matrix.copy()
    np.fill_diagonal(matrix, 0.0)
    return matrix


@given(graph=graphs(directed=False))
def test_two_step_heuristics_equal_loops(graph):
    n = graph.num_nodes
    if graph.is_weighted:
        aa = lambda d: 1 / math.log1p(d)  # noqa: E731
    else:
        aa = lambda d: 1 / math.log(d) if d > 1 else 0.0  # noqa: E731
    for scorer, weight in (
        (heuristics.common_neighbours(graph), lambda d: 1.0),
        (heuristics.adamic_adar(graph), aa),
        (heuristics.resource_allocation(graph), lambda d: 1 / d),
    ):
        expected = oracles.dense_two_steps(graph, weight)
        np.testing.assert_allclose(scores_of(scorer, n), expected, rtol=1e-11)


@given(graph=graphs(directed=False, weighted=False))
def test_unweighted_heuristics_equal_networkx(graph):
    other = to_networkx(graph)
    pairs = [(u, v) for u in range(graph.num_nodes) for v in range(u)]
    for ours, theirs in (
        (heuristics.resource_allocation, nx.resource_allocation_index),
        (heuristics.preferential_attachment, nx.preferential_attachment),
        (heuristics.common_neighbours, nx.common_neighbor_centrality),
    ):
        scores = ours(graph).score_rows(np.arange(graph.num_nodes))
        if theirs is nx.common_neighbor_centrality:
            for u, v in pairs:
                assert scores[u, v] == len(list(nx.common_neighbors(other, u, v)))
            continue
        for u, v, expected in theirs(other, pairs):
            assert scores[u, v] == pytest.approx(expected, rel=1e-11)


@given(
    graph=graphs(), t=st.integers(0, 5), self_loops=st.sampled_from(["isolated", "all"])
)
def test_autocovariance_equals_matrix_power(graph, t, self_loops):
    scorer = heuristics.autocovariance(graph, t=t, self_loops=self_loops)
    expected = oracles.dense_autocovariance(graph, t, self_loops)
    np.testing.assert_allclose(
        scores_of(scorer, graph.num_nodes),
        without_diagonal(expected),
        rtol=1e-10,
        atol=1e-14,
    )


@given(graph=graphs(directed=False), t=st.integers(1, 4))
def test_scores_are_symmetric(graph, t):
    scores = scores_of(heuristics.autocovariance(graph, t=t), graph.num_nodes)
    # Terms of opposite sign may cancel: what is left of them is rounding.
    np.testing.assert_allclose(scores, scores.T, rtol=1e-11, atol=1e-15)


@given(graph=graphs(directed=False), seed=st.integers(0, 99))
def test_relabelling_nodes_relabels_scores(graph, seed):
    order = np.random.default_rng(seed).permutation(graph.num_nodes)
    place = np.argsort(order)
    relabelled = Graph.from_indices(
        graph.num_nodes, place[graph.edges], weights=graph.weights
    )
    for heuristic in (heuristics.adamic_adar, heuristics.autocovariance):
        before = scores_of(heuristic(graph), graph.num_nodes)
        after = scores_of(heuristic(relabelled), graph.num_nodes)
        np.testing.assert_allclose(after, before[order][:, order], rtol=1e-11)


@pytest.mark.parametrize("kind", ["sparse binary", "dense", "sparse real", "negative"])
def test_cosine_equals_the_definition(kind):
    rng = np.random.default_rng(3)
    X = (rng.random((30, 40)) < (0.5 if kind == "dense" else 0.08)).astype(np.float32)
    if kind == "sparse real":
        X *= rng.random(X.shape).astype(np.float32)
    if kind == "negative":
        X *= rng.choice([-1, 1], size=X.shape)
    X[4] = 0
    graph = Graph.from_indices(30, [(0, 1)], attributes=sp.csr_array(X))
    scorer = heuristics.cosine(graph)
    dense_path = kind in ("dense", "negative")
    assert hasattr(scorer, "near_rows") != dense_path
    np.testing.assert_allclose(
        scores_of(scorer, 30), without_diagonal(oracles.dense_cosine(X)), atol=1e-12
    )


def test_equal_walks_tie_in_whatever_order_they_are_summed():
    # Two pairs whose three common neighbours have the same degrees in another order.
    edges, helper = [], 100
    for u, v, degrees in ((0, 1, (3, 5, 7)), (2, 3, (7, 3, 5))):
        for degree in degrees:
            middle, helper = helper, helper + 1
            edges += [(u, middle), (middle, v)]
            for _ in range(degree - 2):
                edges.append((middle, helper))
                helper += 1
    graph = Graph.from_indices(helper, edges)
    for heuristic in (heuristics.adamic_adar, heuristics.resource_allocation):
        rows = heuristic(graph).score_rows(np.array([0, 2]))
        assert rows[0, 1] == rows[1, 3]


@pytest.mark.parametrize(
    "heuristic",
    [
        heuristics.common_neighbours,
        heuristics.adamic_adar,
        heuristics.resource_allocation,
    ],
)
def test_undirected_methods_refuse_directed_graphs_and_offer_a_way(heuristic):
    graph = Graph.from_indices(3, [(0, 1), (1, 2)], directed=True)
    with pytest.raises(UnsupportedGraphError, match="symmetrise"):
        heuristic(graph)
    assert heuristic(graph.symmetrised()).score_rows(np.array([0]))[0, 2] >= 0


def test_bad_parameters_are_refused():
    graph = Graph.from_indices(3, [(0, 1)])
    with pytest.raises(UsageError, match="walk length"):
        heuristics.autocovariance(graph, t=-1)
    with pytest.raises(UsageError, match="self_loops"):
        heuristics.autocovariance(graph, self_loops="some")
    with pytest.raises(InputError, match="attributes"):
        heuristics.cosine(graph)


@pytest.mark.parametrize("seed", range(3))
def test_far_scores_of_real_weights_are_symmetric_to_the_bit(seed):
    """Row and column sums of real weights once differed in their last bits."""
    random = np.random.default_rng(seed)
    n = 200
    edges = np.argwhere(np.triu(random.random((n, n)) < 0.03, 1))
    graph = Graph.from_indices(n, edges, weights=random.random(len(edges)) + 0.01)
    others = np.argwhere(np.triu(random.random((n, n)) < 0.01, 1))
    unknown = others[all_pairs(graph, graph.edges).contains(others)]
    for scorer in (
        heuristics.autocovariance(graph, t=1),
        heuristics.autocovariance(graph, t=2, self_loops="all"),
        heuristics.preferential_attachment(graph),
    ):
        np.testing.assert_array_equal(scorer.far.left, scorer.far.right)
        counts = rank_counts(scorer, unknown, all_pairs(graph, graph.edges))
        assert counts.tied.min() >= 0
        assert counts.above.min() >= 0


@pytest.mark.parametrize("nodes", [50, 301])
def test_dense_cosines_do_not_depend_on_the_block_of_a_row(nodes):
    """A BLAS gives a row other last bits alone than among others."""
    random = np.random.default_rng(0)
    values = random.normal(size=(nodes, 13)).astype(np.float32)
    graph = Graph.from_indices(nodes, [(0, 1)], attributes=values)
    scorer = heuristics.cosine(graph)
    whole = scorer.score_rows(np.arange(nodes))
    np.testing.assert_array_equal(whole, whole.T)
    for rows in ([7], [3, 9, 40], list(range(5, 37))):
        np.testing.assert_array_equal(scorer.score_rows(np.array(rows)), whole[rows])
    exact = values.astype(float) @ values.astype(float).T
    norms = np.linalg.norm(values.astype(float), axis=1)
    np.testing.assert_allclose(whole, exact / np.outer(norms, norms), atol=1e-12)


@given(graph=graphs(directed=False))
def test_walks_of_three_steps_equal_dense_products(graph):
    A = graph.adjacency.toarray()
    degrees = A.sum(axis=1)
    F = np.diag(np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1e-9)), 0.0))
    np.testing.assert_allclose(
        scores_of(heuristics.l3(graph), len(A)),
        without_diagonal(A @ F @ A @ F @ A),
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        scores_of(heuristics.local_path(graph, epsilon=0.1), len(A)),
        without_diagonal(A @ A + 0.1 * A @ A @ A),
        rtol=1e-10,
    )
