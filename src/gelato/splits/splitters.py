"""Splits: at random as in the paper, by time, or as given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from gelato.errors import InputError, UsageError
from gelato.graph import (
    FloatArray,
    Graph,
    IntArray,
    as_id_array,
    canonical_pairs,
    pair_keys,
)
from gelato.io import as_graph, read_graph, read_pairs
from gelato.io.tables import to_dates, to_numbers
from gelato.splits.edge_split import (
    EdgeSplit,
    Part,
    only_links,
    with_added_edges,
)
from gelato.text import plural

Moment: TypeAlias = float | str | date  # a datetime is a date


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
    graph : Graph, or whatever ``gelato.read_graph`` reads
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
    return only_links(
        EdgeSplit(
            graph,
            train=edges[held_out:],
            valid=edges[:num_valid],
            test=edges[num_valid:held_out],
            kind="random",
            seed=int(seed),
        )
    )


def as_data(data: Any) -> Graph | EdgeSplit:
    """Return a graph or a split as it is, and anything else read as a graph."""
    return data if isinstance(data, EdgeSplit) else as_graph(data)


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
    graph: Any,
    *,
    valid: float = 0.05,
    test: float | None = None,
    cutoff: Moment | None = None,
    until: Moment | None = None,
) -> EdgeSplit:
    """Split the edges by time: the latest are test edges, those before validation.

    Edges of equal time are taken in the order of their pairs, so that the split is
    always the same. How many test edges have an end that no earlier edge has is told
    in the notes of the split's graph: no predictor can know such a node by its edges.

    Parameters
    ----------
    graph : Graph, or whatever ``gelato.read_graph`` reads
        With a time for every edge.
    valid, test : float
        Shares of the edges, as in :func:`split_edges` (test: 0.10). With a cut-off,
        ``valid`` is a share of the edges before it.
    cutoff : number or date, optional
        Test edges are those from here on, instead of a share. A date is written as
        ``"2006-12-09"``, with or without a time of day, or is Python's own.
    until : number or date, optional
        Edges from here on are left out altogether, as if they were not known yet.
    """
    graph = as_graph(graph)
    times = _times(graph)
    if cutoff is not None and test is not None:
        raise UsageError(
            "test is a share of the edges, and cutoff decides by itself.",
            hint="Leave one of them out.",
        )
    if until is not None:
        graph, times = _known_by(graph, times, as_time(until))
    edges = graph.edges[np.argsort(times, kind="stable")]
    if cutoff is None:
        num_valid, num_test = _part_sizes(graph, valid, 0.10 if test is None else test)
    else:
        num_test = int(np.count_nonzero(times >= as_time(cutoff)))
        past = len(edges) - num_test
        _refuse_empty_side(graph, times, cutoff, num_test)
        _check_shares(valid, 0.0)
        num_valid = min(math.floor(valid * past), past - 1)
    end_valid = len(edges) - num_test
    end_train = end_valid - num_valid
    split = only_links(
        EdgeSplit(
            graph,
            train=edges[:end_train],
            valid=edges[end_train:end_valid],
            test=edges[end_valid:],
            kind="temporal",
        )
    )
    graph = split.graph
    unseen = split.num_unseen("test")
    if not unseen:
        return split
    shares = f"{unseen:,} of {plural(len(split.test), 'test edge')}"
    note = f"{shares} with an end that no earlier edge has"
    return replace(split, graph=replace(graph, notes=(*graph.notes, note)))


def split_rolling(
    graph: Any, cutoffs: Sequence[Moment], *, valid: float = 0.05
) -> list[EdgeSplit]:
    """Return one temporal split per cut-off, each with the edges up to the next one.

    What came later is not in a split's graph. Give the list to
    :func:`gelato.compare` for one table over all windows.

    Examples
    --------
    >>> graph = Graph.from_indices(5, [(0, 1), (1, 2), (2, 3), (3, 4)], times=range(4))
    >>> [len(split.test) for split in split_rolling(graph, [1, 3], valid=0)]
    [2, 1]
    """
    moments = sorted(as_time(cutoff) for cutoff in cutoffs)
    if not moments:
        raise UsageError("cutoffs must name at least one time.")
    graph = as_graph(graph)
    return [
        split_by_time(graph, valid=valid, cutoff=start, until=end)
        for start, end in zip_longest(moments, moments[1:])
    ]


def as_time(moment: Moment) -> float:
    """Return a time as graphs hold it: a number; dates in seconds since 1970."""
    if isinstance(moment, int | float | np.integer | np.floating):
        return float(moment)
    import polars as pl

    text = moment if isinstance(moment, str) else moment.isoformat()
    found = to_dates(pl.Series([text]))
    if found is not None and found[0].null_count() == 0 and " or " not in found[1]:
        return float(found[0].dt.epoch("us").item() / 1e6)
    numbers = to_numbers(pl.Series([text]))
    if numbers.null_count():
        raise UsageError(
            f"{text!r} is neither a number nor a date.",
            hint="Write dates as 2006-12-09 or 2006-12-09 18:30:00.",
        )
    return float(numbers.item())


def _times(graph: Graph) -> FloatArray:
    if graph.times is None:
        raise InputError(
            "A temporal split needs to know when each edge appeared, and the graph "
            "has no times.",
            hint="Name the time column: Graph.from_edges(..., time='year'), or --time.",
        )
    return graph.times


def _known_by(graph: Graph, times: FloatArray, end: float) -> tuple[Graph, FloatArray]:
    """Return the graph as it was before a time, and the times of its edges."""
    early = times < end
    later = int(np.count_nonzero(~early))
    note = f"left out {plural(later, 'edge')} that came after the test edges"
    notes = (*graph.notes, note) if later else graph.notes
    known = replace(graph.with_edges(graph.edges[early]), notes=notes)
    return known, times[early]


def _refuse_empty_side(
    graph: Graph, times: FloatArray, cutoff: Moment, num_test: int
) -> None:
    if 0 < num_test < graph.num_edges:
        return
    dates = (graph.reading or {}).get("times_are_dates", False)
    first, last = (_said(time, dates) for time in (times.min(), times.max()))
    raise InputError(
        f"No edge is dated from the cut-off {cutoff!s} on."
        if num_test == 0
        else f"No edge is dated before the cut-off {cutoff!s}.",
        hint=f"The times of the edges go from {first} to {last}.",
    )


def _said(time: float, is_date: bool) -> str:
    if not is_date:
        return f"{time:.15g}"
    return str(np.datetime64(int(time), "s")).removesuffix("T00:00:00")


def _part_sizes(graph: Graph, valid: float, test: float) -> tuple[int, int]:
    """Return the numbers of validation and test edges, leaving some for training."""
    _check_shares(valid, test)
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


def _check_shares(valid: float, test: float) -> None:
    for name, share in (("valid", valid), ("test", test)):
        if not isinstance(share, int | float | np.number) or not 0 <= share < 1:
            raise UsageError(
                f"{name} must be a share of the edges in [0, 1), not {share}."
            )


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
    split = only_links(split)
    graph = split.graph
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
