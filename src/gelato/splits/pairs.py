"""The pairs of a split's parts: made canonical, checked, added to a graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError
from gelato.graph import Graph, IntArray, canonical_pairs, find_pairs, pair_keys

Part: TypeAlias = Literal["train", "valid", "test"]

PARTS: tuple[Part, ...] = ("train", "valid", "test")


def checked_part(graph: Graph, given: npt.ArrayLike, part: Part) -> IntArray:
    """Return the pairs of a part canonical and sorted, or raise naming a wrong one."""
    pairs = np.asarray(given)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"The {part} part must be a (k, 2) array of node indices, not an array "
            f"of shape {pairs.shape} and type {pairs.dtype}."
        )
    pairs = pairs.astype(np.int64)
    n = graph.num_nodes
    outside = np.any((pairs < 0) | (pairs >= n), axis=1)
    if np.any(outside):
        raise InputError(
            f"The {part} part has the pair {pairs[outside][0].tolist()}, but nodes "
            f"are numbered 0 to {n - 1}."
        )
    loops = pairs[:, 0] == pairs[:, 1]
    if np.any(loops):
        node = graph.node_ids[pairs[loops][0, 0]]
        raise InputError(f"The {part} part links node {node!s} to itself.")
    pairs = canonical_pairs(pairs, directed=graph.directed)
    keys = pair_keys(pairs, n)
    order = np.argsort(keys, kind="stable")
    repeated = np.flatnonzero(np.diff(keys[order]) == 0)
    if repeated.size:
        pair = named(graph, pairs[order[repeated[0]]])
        raise InputError(f"The {part} part has the pair {pair} more than once.")
    return np.ascontiguousarray(pairs[order])


def refuse_leakage(graph: Graph, parts: dict[Part, IntArray]) -> None:
    """Raise naming a pair that is in two parts, if there is one."""
    for first, second in combinations(PARTS, 2):
        pairs = parts[second]
        shared = find_pairs(parts[first], pairs, graph.num_nodes) >= 0
        if np.any(shared):
            raise InputError(
                f"The split leaks: the pair {named(graph, pairs[shared][0])} is in "
                f"both the {first} and the {second} part "
                f"({np.count_nonzero(shared):,} in all).",
                hint="A pair may be in one part only, in either direction unless the "
                "graph is directed.",
            )


def check_membership(graph: Graph, pairs: IntArray, part: Part) -> None:
    """Raise naming a pair that is not an edge of the graph, if there is one."""
    missing = find_pairs(graph.edges, pairs, graph.num_nodes) < 0
    if np.any(missing):
        raise InputError(
            f"The {part} part has the pair {named(graph, pairs[missing][0])}, which "
            "is not an edge of the graph.",
            hint="split_given adds such edges to the graph.",
        )


def named(graph: Graph, pair: IntArray) -> str:
    """Return a pair as people know it: in the user's node ids."""
    u, v = (graph.node_ids[i : i + 1].tolist()[0] for i in pair)
    return f"({u!r}, {v!r})"


def with_added_edges(graph: Graph, parts: Iterable[IntArray]) -> Graph:
    """Return the graph with canonical pairs added as edges of weight 1."""
    pairs = np.concatenate(list(parts))
    new = np.unique(pairs[find_pairs(graph.edges, pairs, graph.num_nodes) < 0], axis=0)
    if not len(new):
        return graph
    edges = np.concatenate([graph.edges, new])
    order = np.argsort(pair_keys(edges, graph.num_nodes))
    count = "1 edge" if len(new) == 1 else f"{len(new):,} edges"
    notes = [f"added {count} of the given split"]
    weights = graph.weights
    if weights is not None:
        weights = np.concatenate([weights, np.ones(len(new))])[order]
    if graph.times is not None:
        # Nobody knows when the new edges appeared, and a given split needs no times.
        notes.append("dropped the times of edges: the added ones have none")
    return replace(
        graph,
        edges=edges[order],
        weights=weights,
        times=None,
        notes=(*graph.notes, *notes),
    )
