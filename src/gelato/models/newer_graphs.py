"""A graph that comes after training, put in the terms of the one trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError
from gelato.graph import Graph, IntArray, canonical_pairs, find_pairs
from gelato.splits import EdgeSplit

_NAMED = 3
# Between a column and its value or word, in names of attributes made from text.
_MARKS = ("=", ":")


def align_attributes(known: Graph, graph: Graph) -> Graph:
    """Return a graph with the attributes of another one, by name and in its order.

    Attributes that were not there before are left out. A value or word that no node
    has any more is an attribute of zeros. Both are noted. A graph that lacks an
    attribute, or without names, is returned as it is.

    Parameters
    ----------
    known : Graph
        What a model was fitted on.
    graph : Graph
        What it is to score.

    Examples
    --------
    >>> known = Graph.from_indices(2, [(0, 1)], attributes=[[1, 2], [3, 4]],
    ...                            attribute_names=["a", "b"])
    >>> newer = Graph.from_indices(2, [(0, 1)], attributes=[[9, 4, 3], [9, 2, 1]],
    ...                            attribute_names=["new", "b", "a"])
    >>> align_attributes(known, newer).attribute_names
    ('a', 'b')
    """
    ours, theirs = known.attribute_names, graph.attribute_names
    if ours is None or theirs is None or ours == theirs or graph.attributes is None:
        return graph
    absent = missing_attributes(ours, theirs)
    gone = set(ours) - set(theirs)
    if absent or len(set(ours)) < len(ours) or len(set(theirs)) < len(theirs):
        return graph
    place = {name: at for at, name in enumerate(theirs)}
    columns = np.array([place.get(name, -1) for name in ours], dtype=np.int64)
    extra = [name for name in theirs if name not in set(ours)]
    notes = []
    if extra:
        notes.append(
            f"attributes that the model does not know, left out: {_few(extra)}"
        )
    if gone:
        notes.append(f"attributes that no node has any more, taken as 0: {_few(gone)}")
    return replace(
        graph,
        attributes=_columns(graph.attributes, columns),
        attribute_names=ours,
        notes=(*graph.notes, *notes),
    )


def missing_attributes(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return which names are missing, apart from values of columns that are there."""
    there = set(theirs)
    origins = {origin for name in theirs if (origin := _origin(name))}
    return [name for name in ours if name not in there and _origin(name) not in origins]


def refuse_other_attributes(known: Graph, graph: Graph) -> None:
    """Raise unless two graphs have the same attributes, in the same order."""
    ours, theirs = known.attribute_names, graph.attribute_names
    named = ours is not None and theirs is not None
    absent = missing_attributes(ours or (), theirs or ()) if named else []
    if absent:
        raise InputError(
            "The model was fitted with attributes that this graph lacks: "
            f"{_few(absent)}.",
            hint="Give a table with the same columns, or fit again.",
        )
    hint = "Give the same attributes in the same order, or fit again."
    if known.num_attributes != graph.num_attributes:
        raise InputError(
            f"The model was fitted with {known.num_attributes:,} attributes per node, "
            f"and this graph has {graph.num_attributes:,}.",
            hint=hint,
        )
    for one, other in zip(ours or (), theirs or (), strict=named):
        if one != other:
            raise InputError(
                f"The model was fitted with the attribute {one!r} where this graph "
                f"has {other!r}.",
                hint=hint,
            )


def carry_split(split: EdgeSplit | None, graph: Graph) -> EdgeSplit | None:
    """Return a split of a newer graph that holds out what the old one held out.

    Edges that have come since are training edges: they are known now. Held-out edges
    that are gone are gone; without any validation edge there is no split.
    """
    if split is None or not len(split.valid):
        return None
    valid, test = (_found(split.graph, graph, x) for x in (split.valid, split.test))
    if not len(valid):
        return None
    held = np.concatenate([valid, test])
    train = np.ones(graph.num_edges, dtype=bool)
    train[find_pairs(graph.edges, held, graph.num_nodes)] = False
    if not train.any():
        return None
    return EdgeSplit(graph, graph.edges[train], valid, test, kind=split.kind)


def _found(old: Graph, graph: Graph, pairs: IntArray) -> IntArray:
    """Return the pairs of an old graph that are edges of another, as its indices."""
    ids = old.node_ids[pairs].tolist()
    ends = [(graph.find(a), graph.find(b)) for a, b in ids]
    there = [(a, b) for a, b in ends if a is not None and b is not None]
    moved = np.array(there, dtype=np.int64).reshape(-1, 2)
    moved = canonical_pairs(moved, directed=graph.directed)
    return moved[find_pairs(graph.edges, moved, graph.num_nodes) >= 0]


def _columns(attributes: Any, columns: IntArray) -> Any:
    """Return columns of a matrix, zeros where the number is negative."""
    there = columns >= 0
    if not sp.issparse(attributes):
        chosen = np.zeros((attributes.shape[0], len(columns)), dtype=attributes.dtype)
        chosen[:, there] = attributes[:, columns[there]]
        return chosen
    source, target = columns[there], np.flatnonzero(there)
    shape = (attributes.shape[1], len(columns))
    ones = np.ones(len(source), dtype=attributes.dtype)
    return sp.csr_array(attributes @ sp.csr_array((ones, (source, target)), shape))


def _origin(name: str) -> str:
    """Return the column that a value or word comes from, with its mark; or nothing."""
    cuts = [at for mark in _MARKS if (at := name.find(mark)) > 0]
    return name[: min(cuts) + 1] if cuts else ""


def _few(names: Iterable[str]) -> str:
    listed = sorted(names)
    rest = len(listed) - _NAMED
    shown = ", ".join(map(repr, listed[:_NAMED]))
    return shown if rest <= 0 else f"{shown} and {rest:,} more"
