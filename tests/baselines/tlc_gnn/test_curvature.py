"""Exact curvature against linear programs and against POT's transport."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog

from gelato.baselines.tlc_gnn.curvature import edge_curvatures
from gelato.graph import Graph


def curvatures(graph):
    matrix = graph.adjacency
    out = np.full(graph.num_edges, np.nan)
    edge_curvatures(0, len(out), graph.edges, matrix.indptr, matrix.indices, out)
    return out


def measures(graph, edge):
    """Return both lazy measures and the distances between their nodes."""
    network = nx.Graph(graph.edges.tolist())
    sides = [[*network[end], end] for end in edge]
    shares = [
        np.array([0.5 / (len(side) - 1)] * (len(side) - 1) + [0.5]) for side in sides
    ]
    lengths = [nx.single_source_shortest_path_length(network, x) for x in sides[0]]
    cost = [[float(found[y]) for y in sides[1]] for found in lengths]
    return shares[0], shares[1], np.array(cost)


def transport_by_linear_program(one, two, cost):
    """Return the least cost of moving one measure to another."""
    a, b = cost.shape
    rows = np.kron(np.eye(a), np.ones(b))
    columns = np.kron(np.ones(a), np.eye(b))
    found = linprog(
        cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([one, two])
    )
    return found.fun


def drawn_graphs():
    for seed in range(6):
        random = np.random.default_rng(seed)
        n = int(random.integers(4, 16))
        made = [
            nx.gnp_random_graph(n, random.uniform(0.15, 0.6), seed=seed),
            nx.barabasi_albert_graph(n, 2, seed=seed),
            nx.powerlaw_cluster_graph(n, 3, 0.6, seed=seed),
        ][seed % 3]
        if made.number_of_edges():
            yield Graph.from_indices(n, np.array(made.edges))


def test_is_that_of_a_linear_program():
    for graph in drawn_graphs():
        expected = [
            1 - transport_by_linear_program(*measures(graph, edge))
            for edge in graph.edges.tolist()
        ]
        np.testing.assert_allclose(curvatures(graph), expected, atol=1e-9)


def test_is_that_of_pot():
    ot = pytest.importorskip("ot", reason="POT, an oracle of tests, is not installed")
    for graph in drawn_graphs():
        expected = [
            1 - ot.emd2(*measures(graph, edge)) for edge in graph.edges.tolist()
        ]
        np.testing.assert_allclose(curvatures(graph), expected, atol=1e-9)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_complete_graphs(n):
    graph = Graph.from_indices(n, [(u, v) for u in range(n) for v in range(u)])
    # All stays in place but half on u less its share of v's half.
    expected = 1 - (0.5 - 0.5 / (n - 1))
    np.testing.assert_allclose(curvatures(graph), expected)


def test_a_leaf_a_long_cycle_and_a_bridge():
    star = Graph.from_indices(5, [(0, v) for v in range(1, 5)])
    np.testing.assert_allclose(curvatures(star), 1 / 4)
    cycle = Graph.from_indices(8, [(v, (v + 1) % 8) for v in range(8)])
    np.testing.assert_allclose(curvatures(cycle), 0.0, atol=1e-15)
    stars = [(0, v) for v in range(2, 6)] + [(1, v) for v in range(6, 10)] + [(0, 1)]
    bridge = Graph.from_indices(10, stars)
    # 4/10 of each side's mass moves by 3 edges, what is left on u by 1.
    assert curvatures(bridge)[0] == pytest.approx(1 - (0.4 * 3 + 0.4 * 1))


def test_lies_above_minus_one_and_parts_change_nothing():
    made = nx.barabasi_albert_graph(60, 3, seed=5)
    graph = Graph.from_indices(60, np.array(made.edges))
    whole = curvatures(graph)
    assert whole.min() > -1
    assert whole.max() <= 1
    parts = np.full(len(whole), np.nan)
    matrix = graph.adjacency
    for first in range(0, len(parts), 50):
        last = min(first + 50, len(parts))
        edge_curvatures(first, last, graph.edges, matrix.indptr, matrix.indices, parts)
    np.testing.assert_array_equal(parts, whole)


def test_node_numbers_do_not_matter():
    made = nx.powerlaw_cluster_graph(40, 3, 0.5, seed=2)
    graph = Graph.from_indices(40, np.array(made.edges))
    other = np.random.default_rng(0).permutation(40)
    moved = Graph.from_indices(40, other[graph.edges])
    known = dict(zip(map(tuple, moved.edges.tolist()), curvatures(moved), strict=True))
    named = [known[tuple(sorted(edge))] for edge in other[graph.edges].tolist()]
    np.testing.assert_array_equal(named, curvatures(graph))
