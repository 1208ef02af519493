"""Splits by shares of the edges: at random as in the paper, or by time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gelato.errors import InputError, UsageError
from gelato.graph import Graph, IntArray, as_id_array, canonical_pairs, pair_keys
from gelato.io import as_graph, read_graph, read_pairs
from gelato.splits.edge_split import EdgeSplit, Part, with_added_edges


def split_edges(
    graph: Any, *, valid: float = 0.05, test: float = 0.10, seed: int = 0
) -> EdgeSplit:
    """Split the edges at random, exactly as the paper does.

    The sorted edges are permuted; the first ``floor(valid * m)`` are validation
    edges, the next ``floor(test * m)`` test edges, the rest training edges. The
    permutation is the one of ``torch.manual_seed(seed); torch.randperm(m)``, so that
    results can be compared with the published ones; torch itself is not needed. In
    a directed graph ``u -> v`` and ``v -> u`` are drawn independently.

    Parameters
    ----------
    graph : Graph, or whatever :func:`gelato.read_graph` reads
        The graph with all known edges.
    valid, test : float
        Shares of the edges, each in [0, 1).
    seed : int
        From 0 to 2**32 - 1.
    """
    graph = as_graph(graph)
    num_valid, num_test = _part_sizes(graph, valid, test)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise UsageError(f"seed must be an integer, not {seed!r}.")
    if not 0 <= seed < 2**32:
        raise UsageError(f"seed must be from 0 to 2**32 - 1, not {seed}.")
    edges = graph.edges[_torch_permutation(graph.num_edges, int(seed))]
    held_out = num_valid + num_test
    return EdgeSplit(
        graph,
        train=edges[held_out:],
        valid=edges[:num_valid],
        test=edges[num_valid:held_out],
        kind="random",
        seed=int(seed),
    )


def as_split(data: Any) -> EdgeSplit:
    """Return a split as it is, and anything else as a graph, split at random.

    That is the split of :func:`split_edges` with the paper's shares and seed 0.
    """
    return data if isinstance(data, EdgeSplit) else split_edges(data)


def split_many(
    graph: Any, count: int, *, valid: float = 0.05, test: float = 0.10
) -> list[EdgeSplit]:
    """Return random splits with the seeds 0 to count - 1, for confidence intervals."""
    if count < 1:
        raise UsageError(f"count must be at least 1, not {count}.")
    graph = as_graph(graph)
    return [split_edges(graph, valid=valid, test=test, seed=i) for i in range(count)]


def split_by_time(
    graph: Graph, *, valid: float = 0.05, test: float = 0.10
) -> EdgeSplit:
    """Split the edges by time: the latest are test edges, those before validation.

    Parts have the sizes of :func:`split_edges`. Edges of equal time are taken in the
    order of their pairs, so that the split is always the same.
    """
    if graph.times is None:
        raise InputError(
            "A temporal split needs to know when each edge appeared, and the graph "
            "has no times.",
            hint="Name the time column: Graph.from_edges(..., time='year'), or --time.",
        )
    num_valid, num_test = _part_sizes(graph, valid, test)
    edges = graph.edges[np.argsort(graph.times, kind="stable")]
    end_valid = len(edges) - num_test
    end_train = end_valid - num_valid
    return EdgeSplit(
        graph,
        train=edges[:end_train],
        valid=edges[end_train:end_valid],
        test=edges[end_valid:],
        kind="temporal",
    )


def _part_sizes(graph: Graph, valid: float, test: float) -> tuple[int, int]:
    """Return the numbers of validation and test edges, leaving some for training."""
    for name, share in (("valid", valid), ("test", test)):
        if not 0 <= share < 1:
            raise UsageError(
                f"{name} must be a share of the edges in [0, 1), not {share}."
            )
    m = graph.num_edges
    if m == 0:
        raise InputError("The graph has no edges, so there is nothing to split.")
    num_valid, num_test = math.floor(valid * m), math.floor(test * m)
    if num_valid + num_test >= m:
        raise UsageError(
            f"Of {m:,} edges, {num_valid:,} for validation and {num_test:,} for test "
            "leave none for training.",
            hint="Lower valid or test.",
        )
    return num_valid, num_test


def _torch_permutation(m: int, seed: int) -> IntArray:
    """Return ``torch.randperm(m)`` after ``torch.manual_seed(seed)`` on the CPU.

    Both torch and numpy's RandomState run the 32-bit Mersenne Twister from the same
    initial state, and RandomState is frozen by numpy's compatibility policy. torch
    then swaps forwards: place i with place i + draw mod (m - i). (It does so below
    2**32 / 20 = 214 million edges; beyond that this is still a fair permutation.)
    """
    twister = np.random.RandomState(seed)
    draws = twister.randint(0, 2**32, size=max(m - 1, 0), dtype=np.uint32)
    steps = draws.astype(np.int64) % np.arange(m, 1, -1, dtype=np.int64)
    order = list(range(m))
    for i, step in enumerate(steps.tolist()):
        order[i], order[i + step] = order[i + step], order[i]
    return np.array(order, dtype=np.int64)


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
