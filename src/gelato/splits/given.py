"""Splits that somebody else made: three tables of pairs in the user's node ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gelato.errors import InputError, UsageError
from gelato.graph import Graph, IntArray, as_id_array, canonical_pairs, pair_keys
from gelato.io import read_graph, read_pairs
from gelato.splits.edge_split import EdgeSplit
from gelato.splits.pairs import Part, with_added_edges


def split_given(
    graph: Graph | None, train: Any, valid: Any, test: Any, *, directed: bool = False
) -> EdgeSplit:
    """Build a split from parts that are given, in the user's own node ids.

    Parameters
    ----------
    graph : Graph, optional
        The nodes and their attributes. Given edges that it lacks are added (with
        weight 1); its edges that are in no part stay out of training and are told in
        the notes. ``None``: the graph consists of the given edges, unweighted and
        without attributes.
    train, valid, test : path, frame, array or sequence of pairs
        Whatever :func:`gelato.io.read_pairs` reads. ``train=None`` means all edges
        of the graph that are in neither other part; no ``valid`` or ``test`` an empty
        part.
    directed : bool
        Whether edges have a direction, if no graph says so.

    Raises
    ------
    InputError
        If a pair is in two parts, in either direction where direction means nothing.
    """
    sources: dict[Part, Any] = {"train": train, "valid": valid, "test": test}
    if graph is None:
        if train is None:
            raise UsageError("Without a graph, training edges must be given.")
        graph = _graph_of_parts(sources, directed=directed)
    parts = {part: _pairs(graph, source) for part, source in sources.items()}
    graph = with_added_edges(graph, parts.values())
    if train is None:
        held_out = np.concatenate([parts["valid"], parts["test"]])
        keys = pair_keys(graph.edges, graph.num_nodes)
        rest = ~np.isin(keys, pair_keys(held_out, graph.num_nodes))
        parts["train"] = graph.edges[rest]
    split = EdgeSplit(graph, parts["train"], parts["valid"], parts["test"])
    unused = graph.num_edges - sum(map(len, parts.values()))
    if not unused:
        return split
    edges = "1 edge is" if unused == 1 else f"{unused:,} edges are"
    note = f"{edges} in no part of the split and ranked as non-edges"
    return replace(split, graph=replace(graph, notes=(*graph.notes, note)))


def _pairs(graph: Graph, source: Any) -> IntArray:
    """Return the canonical pairs of a table, each once though listed both ways."""
    if source is None:
        return np.empty((0, 2), dtype=np.int64)
    pairs = canonical_pairs(read_pairs(source, graph), directed=graph.directed)
    _, first = np.unique(pair_keys(pairs, graph.num_nodes), return_index=True)
    return pairs[first]


def _graph_of_parts(sources: dict[Part, Any], *, directed: bool) -> Graph:
    """Return the graph, without edges yet, of the nodes that the given tables name."""
    graphs = {
        part: read_graph(source, directed=directed)
        for part, source in sources.items()
        if source is not None
    }
    kinds = {
        part: sorted({type(node).__name__ for node in graph.node_ids.tolist()})
        for part, graph in graphs.items()
        if graph.num_nodes
    }
    if len({tuple(kind) for kind in kinds.values()}) > 1:
        seen = "; ".join(f"{part}: {', '.join(kind)}" for part, kind in kinds.items())
        raise InputError(
            f"The parts name their nodes in different types ({seen}).",
            hint="Write the ids alike in all three tables.",
        )
    ids = {node for graph in graphs.values() for node in graph.node_ids.tolist()}
    # Sorted as read_graph sorts them; by type and text where values do not compare.
    plain = {type(node) for node in ids} in ({int}, {str})
    listed = sorted(ids) if plain else sorted(ids, key=lambda i: (str(type(i)), str(i)))
    no_edges = np.empty((0, 2), dtype=np.int64)
    return Graph.from_indices(
        len(listed), no_edges, ids=as_id_array(listed), directed=directed
    )
