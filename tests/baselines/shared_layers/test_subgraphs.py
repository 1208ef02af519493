"""Enclosing subgraphs against networkx, labels against a loop."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gelato.baselines.shared_layers.subgraphs import (
    ball_sizes,
    pack_subgraphs,
    subgraph_sizes,
)


def csr(graph):
    matrix = nx.to_scipy_sparse_array(graph, nodelist=range(len(graph)), format="csr")
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


def near(graph, u, hops):
    return set(nx.single_source_shortest_path_length(graph, u, cutoff=hops))


def slow_subgraph(graph, u, v, hops):
    """Return the enclosing subgraph without the pair's own edge."""
    inside = near(graph, u, hops) | near(graph, v, hops)
    part = graph.subgraph(inside).copy()
    part.remove_edges_from([(u, v)])
    return part


def slow_label(part, u, v, w, last):
    if w in (u, v):
        return 1
    distances = []
    for end, other in ((u, v), (v, u)):
        rest = part.copy()
        rest.remove_node(other)
        if not nx.has_path(rest, end, w):
            return 0
        distances.append(nx.shortest_path_length(rest, end, w))
    d = sum(distances)
    return min(last, 1 + min(distances) + (d // 2) * (d // 2 + d % 2 - 1))


def edges_of(packed, p):
    low, high = packed.start[p], packed.start[p + 1]
    return {
        (int(packed.nodes[i]), int(packed.nodes[j]))
        for i in range(low, high)
        for j in packed.columns[packed.rows[i] : packed.rows[i + 1]]
    }


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(3, 14),
    chance=st.floats(0.02, 0.6),
    seed=st.integers(0, 10_000),
    hops=st.integers(1, 3),
    joined=st.booleans(),
)
def test_nodes_edges_and_labels(n, chance, seed, hops, joined):
    graph = nx.gnp_random_graph(n, chance, seed=seed)
    pairs = np.random.default_rng(seed).permuted(np.tile(np.arange(n), (6, 1)), axis=1)[
        :, :2
    ]
    packed = pack_subgraphs(
        pairs, csr(graph), hops=hops, joined=joined, last_label=0 if joined else 20
    )
    sizes = np.empty((len(pairs), 2), np.int64)
    subgraph_sizes(pairs, csr(graph), hops, n, sizes)
    for p, (u, v) in enumerate(pairs.tolist()):
        part = slow_subgraph(graph, u, v, hops)
        nodes = packed.nodes[packed.start[p] : packed.start[p + 1]].tolist()
        assert nodes[:2] == [u, v]
        assert len(nodes) == len(set(nodes)) == sizes[p, 0]
        assert set(nodes) == set(part)
        expected = {pair for a, b in part.edges for pair in ((a, b), (b, a))}
        assert sizes[p, 1] == len(expected)
        if joined:
            expected |= {(u, v), (v, u)}
        assert edges_of(packed, p) == expected
        if not joined:
            low = packed.start[p]
            labels = packed.labels[low : low + len(nodes)].tolist()
            assert labels == [slow_label(part, u, v, w, 20) for w in nodes]
    assert packed.rows[-1] == len(packed.columns)


def test_labels_of_a_wheel_stop_at_the_last_one():
    """The rim is long though all of it is near the hub: distances pass any hop."""
    graph = nx.wheel_graph(60)  # node 0 is the hub
    packed = pack_subgraphs(np.array([[0, 1]]), csr(graph), hops=1, last_label=99)
    part = slow_subgraph(graph, 0, 1, 1)
    expected = [slow_label(part, 0, 1, w, 99) for w in packed.nodes.tolist()]
    assert packed.labels.tolist() == expected
    assert max(expected) == 99


def test_hubs_can_be_cut_nearest_nodes_first():
    graph = nx.star_graph(30)
    graph.add_edges_from((i, 100 + i) for i in range(1, 31))
    graph = nx.convert_node_labels_to_integers(graph)
    pairs = np.array([[0, 1], [31, 40]])
    whole = pack_subgraphs(pairs, csr(graph), hops=3)
    assert np.diff(whole.start)[0] == 61
    packed = pack_subgraphs(pairs, csr(graph), hops=3, limit=20)
    assert np.diff(packed.start).tolist() == [20, 20]
    nodes = packed.nodes[:20].tolist()
    assert len(set(nodes)) == 20
    assert set(nodes) <= {0, 1} | near(graph, 0, 1) | near(graph, 1, 1)
    again = pack_subgraphs(pairs[::-1].copy(), csr(graph), hops=3, limit=20)
    assert again.nodes[20:].tolist() == nodes


def test_balls():
    graph = nx.gnp_random_graph(40, 0.05, seed=2)
    sizes = np.empty(40, np.int64)
    ball_sizes(csr(graph), 2, sizes)
    assert sizes.tolist() == [len(near(graph, u, 2)) for u in range(40)]


@pytest.mark.parametrize("hops", [1, 3])
def test_isolated_ends_have_only_themselves(hops):
    empty = sp.csr_array((4, 4))
    graph = (empty.indptr.astype(np.int64), empty.indices.astype(np.int32))
    packed = pack_subgraphs(np.array([[1, 3]]), graph, hops=hops, last_label=9)
    assert packed.nodes.tolist() == [1, 3]
    assert packed.labels.tolist() == [1, 1]
    assert len(packed.columns) == 0
    assert packed.owners.tolist() == [0, 0]
