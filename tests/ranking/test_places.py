"""Distances up to three edges, against shortest paths."""

from __future__ import annotations

import networkx as nx
import numpy as np
import scipy.sparse as sp
from hypothesis import given

from gelato.io import to_networkx
from gelato.ranking.places import hops_within_three
from support.strategies import graphs


@given(graph=graphs(max_nodes=12))
def test_equals_shortest_paths(graph):
    n = graph.num_nodes
    pairs = np.array([(u, v) for u in range(n) for v in range(n) if u != v])
    ahead, back = graph.adjacency, sp.csr_array(graph.adjacency.T)
    found = np.full(len(pairs), -1)
    hops_within_three(
        pairs, (ahead.indptr, ahead.indices), (back.indptr, back.indices), found
    )
    lengths = dict(nx.all_pairs_shortest_path_length(to_networkx(graph), cutoff=3))
    ids = graph.node_ids
    expected = [lengths.get(ids[u], {}).get(ids[v], -1) for u, v in pairs.tolist()]
    assert found.tolist() == expected
