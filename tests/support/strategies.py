"""Random graphs for property tests: loops, weights, isolated nodes, hubs, ties."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from gelato.graph import Graph


@st.composite
def graphs(draw, *, min_nodes=4, max_nodes=14, directed=None, weighted=None):
    n = draw(st.integers(min_nodes, max_nodes))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    density = draw(st.sampled_from([0.1, 0.25, 0.5]))
    matrix = rng.random((n, n)) < density
    if draw(st.booleans()):  # a hub
        matrix[0, :] = rng.random(n) < 0.9
    if draw(st.booleans()):  # isolated nodes
        matrix[n // 2, :] = matrix[:, n // 2] = False
    directed = draw(st.booleans()) if directed is None else directed
    edges = np.argwhere(matrix)
    edges = edges[edges[:, 0] != edges[:, 1]]
    if not directed:
        edges = edges[edges[:, 0] < edges[:, 1]]
    weights = None
    if draw(st.booleans()) if weighted is None else weighted:
        # Few distinct values, so that scores tie.
        weights = rng.choice([0.5, 1.0, 2.0, 3.0], size=len(edges))
    return Graph.from_indices(n, edges, weights=weights, directed=directed)


@st.composite
def split_pairs(draw, graph: Graph, share=0.3):
    """A known part and a positive part of a graph's edges (at least one positive)."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    hidden = rng.random(graph.num_edges) < share
    if not hidden.any():
        hidden[rng.integers(graph.num_edges)] = True
    return graph.edges[~hidden], graph.edges[hidden]
