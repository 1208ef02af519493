"""Images of all pairs of small graphs against the slow way."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from gelato.baselines.tlc_gnn.curvature import arc_lengths, edge_curvature
from gelato.baselines.tlc_gnn.images import pair_images
from gelato.graph import Graph
from support.plain_images import network, plain_image


def drawn(seed):
    made = [
        nx.gnp_random_graph(11, 0.45, seed=seed),
        nx.powerlaw_cluster_graph(9, 2, 0.7, seed=seed),
        nx.disjoint_union(nx.complete_graph(4), nx.path_graph(5)),
    ][seed % 3]
    return Graph.from_indices(len(made), np.array(made.edges))


def images(graph, pairs, hops, hide, curvature):
    matrix = graph.adjacency
    out = np.full((len(pairs), 25), np.nan, np.float32)
    lengths = arc_lengths(graph, curvature)
    around = (matrix.indptr, matrix.indices, lengths)
    pair_images(0, len(pairs), pairs, hops, hide, *around, out)
    return out


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_is_that_of_the_slow_way(seed, hops, hide):
    graph = drawn(seed)
    curvature = edge_curvature(graph)
    pairs = np.array(list(itertools.combinations(range(graph.num_nodes), 2)))
    slow = network(graph, 1 + curvature)
    expected = [plain_image(slow, u, v, hops, hide) for u, v in pairs.tolist()]
    found = images(graph, pairs, hops, hide, curvature)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.any() == (hops > 1 or not hide)


@pytest.mark.parametrize("hops", [1, 2])
def test_order_of_a_pair_and_node_numbers_do_not_matter(hops):
    graph = drawn(1)
    curvature = edge_curvature(graph)
    pairs = np.array(list(itertools.combinations(range(9), 2)))
    found = images(graph, pairs, hops, False, curvature)
    turned = images(graph, pairs[:, ::-1].copy(), hops, False, curvature)
    np.testing.assert_allclose(turned, found, atol=1e-6)
    other = np.random.default_rng(3).permutation(9)
    moved = Graph.from_indices(9, other[graph.edges])
    again = images(moved, other[pairs], hops, False, edge_curvature(moved))
    np.testing.assert_allclose(again, found, atol=1e-6)
