"""Curvature of a graph's edges, and the lengths that TLC-GNN makes of it."""

from __future__ import annotations

import numpy as np

from gelato.graph import FloatArray, Graph, IntArray, find_pairs
from gelato.kernels.curvature import edge_curvatures
from gelato.models.gnn.by_parts import PartFolder, fill_by_parts

# Lengths of edges without curvature would be 1; they stay above this.
LEAST_LENGTH = 1e-6


def pair_cost(graph: Graph, pairs: IntArray) -> FloatArray:
    """Return what looking around each pair costs: its neighbours' neighbours."""
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    degrees = np.diff(indptr).astype(np.float64)
    total = np.concatenate([[0.0], np.cumsum(degrees[indices])])
    around = np.diff(total[indptr])
    cost: FloatArray = 1.0 + around[pairs].sum(axis=1)
    return cost


def edge_curvature(graph: Graph, place: PartFolder | None = None) -> FloatArray:
    """Return the Ollivier-Ricci curvature of every edge, laziness 1/2, exact.

    Weights of edges play no part: every edge is a step of length 1.

    Parameters
    ----------
    graph : Graph
        Undirected.
    place : PartFolder, optional
        Where parts are kept and found again.

    Examples
    --------
    >>> edge_curvature(Graph.from_indices(3, [(0, 1), (0, 2), (1, 2)])).tolist()
    [0.75, 0.75, 0.75]
    """
    curvature = np.zeros(graph.num_edges)
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices

    def work(first: int, last: int) -> None:
        edge_curvatures(first, last, graph.edges, indptr, indices, curvature)

    cost = pair_cost(graph, graph.edges)
    fill_by_parts(curvature, cost, work, name="curvature", place=place)
    return curvature


def arc_lengths(graph: Graph, curvature: FloatArray) -> FloatArray:
    """Return curvature + 1 for every entry of the adjacency matrix."""
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(indptr))
    pairs = np.sort(np.stack([rows, indices.astype(np.int64)], axis=1), axis=1)
    at = find_pairs(graph.edges, pairs, graph.num_nodes)
    return np.maximum(curvature[at] + 1.0, LEAST_LENGTH)
