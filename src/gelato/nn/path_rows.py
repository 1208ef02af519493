"""The states that propagations compute, as lists of rows for compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.graph import IntArray
from gelato.kernels import path_rows as kernels
from gelato.nn.path_weights import PathGraph

# indices, class_start, place, source: see gelato.kernels.path_layers.layer_forward.
LayerRows = tuple[Any, Any, Any, Any]


@dataclass(frozen=True, eq=False)
class PathRows:
    """What propagations compute, layer by layer.

    Parameters
    ----------
    layers : list of tuple
        Rows of each layer.
    start, nodes : int64 and int32
        Entries ``start[d] .. start[d + 1] - 1`` are the nodes that propagation d
        reaches.
    found : int32
        An entry's row at the last layer, -1 if it has none.
    """

    layers: list[LayerRows]
    start: IntArray
    nodes: npt.NDArray[np.int32]
    found: npt.NDArray[np.int32]

    @property
    def count(self) -> int:
        """Number of rows in all layers."""
        return sum(len(place) for _, _, place, _ in self.layers)


def source_rows(graph: PathGraph, sources: IntArray, layers: int) -> PathRows:
    """Return the rows of propagations from sources to all nodes."""
    reach = kernels.source_reach(*graph.edges, sources, layers)
    return _listed(graph, reach, sources, layers)


def pair_rows(
    graph: PathGraph, pairs: IntArray, layers: int
) -> tuple[PathRows, IntArray]:
    """Return the rows of both propagations of pairs, and where the targets are.

    Targets are places in the table of the last layer: backgrounds first, by node.
    """
    reach = kernels.pair_reach(*graph.edges, pairs, layers)
    rows = _listed(graph, reach, pairs.ravel(), layers)
    targets = pairs[:, ::-1].ravel().copy()
    # A target is the one node of its list that has a row at the last layer.
    last = np.flatnonzero(rows.found >= 0)
    lists = np.searchsorted(rows.start, last, side="right") - 1
    targets[lists] = graph.num_nodes + rows.found[last]
    return rows, targets


def _listed(
    graph: PathGraph, reach: tuple[Any, ...], sources: IntArray, layers: int
) -> PathRows:
    counts = kernels.count_rows(reach, graph.class_of, layers, len(graph.degrees))
    class_start = np.zeros((layers, len(graph.degrees) + 1), np.int64)
    np.cumsum(counts, axis=1, out=class_start[:, 1:])
    sizes = counts * graph.degrees
    ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
    row_start = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
    out = np.empty(int(sizes.sum()), np.int32)
    marks = np.empty(int(row_start[-1]), np.bool_)
    found = kernels.fill_rows(
        (*graph.edges, graph.class_of),
        reach,
        sources,
        class_start[:, :-1].copy(),
        ends - sizes,
        row_start,
        out,
        marks,
    )
    entry_start = np.concatenate([[0], ends[:, -1]])
    n = graph.num_nodes
    rows = [
        (
            out[entry_start[i] : entry_start[i + 1]],
            class_start[i],
            np.arange(n, n + class_start[i, -1], dtype=np.int32),
            marks[row_start[i] : row_start[i + 1]],
        )
        for i in range(layers)
    ]
    return PathRows(rows, reach[0], reach[1], found)


def background_rows(
    graph: PathGraph, targets: IntArray | None, layers: int
) -> list[LayerRows]:
    """Return the rows of states that depend on no source.

    Layer l of T is needed within T - l edges of a target; of all nodes by default.
    """
    n = graph.num_nodes
    if targets is None:
        hops: Any = np.zeros(n, np.int32)
    else:
        hops = kernels.hops_from(*graph.edges, targets, layers)
    order = np.argsort(graph.class_of, kind="stable").astype(np.int32)
    rows = []
    for layer in range(1, layers + 1):
        nodes = order[hops[order] <= layers - layer]
        kinds = graph.class_of[nodes]
        class_start = np.searchsorted(kinds, np.arange(len(graph.degrees) + 1))
        indices = np.empty(int(graph.degrees[kinds].sum()), np.int32)
        kernels.fill_background(*graph.edges, nodes, indices)
        rows.append(
            (indices, class_start.astype(np.int64), nodes, np.zeros(len(nodes), bool))
        )
    return rows
