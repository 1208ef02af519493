"""A graph as paths see it, and the weights that encode them.

A node's update multiplies 4w statistics of its messages by three matrices, scaled by
1, s and 1/s, where s follows from the node's degree. Nodes of one degree share these
numbers: their three matrices are added up once, and a node costs a third.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels.compiled import kernel
from gelato.kernels.vectors import COLUMNS

Array = npt.NDArray[Any]
SCALERS = 3
_LEAST_SCALE = 0.01


@dataclass(frozen=True, eq=False)
class PathGraph:
    """Edges in both directions, and nodes by degree.

    Parameters
    ----------
    indptr : (n + 1,) int64
    indices : int32
        Neighbours of every node, without the node itself.
    class_of : (n,) int32
        Nodes of equal degree have the same class.
    degrees : (C,) int64
        Neighbours of a node of each class, the node itself counted.
    scales : (C, 3) float64
        1, s and 1/s, where s is log(degree + 1) divided by its mean over nodes.
    """

    indptr: IntArray
    indices: npt.NDArray[np.int32]
    class_of: npt.NDArray[np.int32]
    degrees: IntArray
    scales: FloatArray

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Return a graph's edges, whatever their weights."""
        adjacency = graph.adjacency
        indptr = adjacency.indptr.astype(np.int64)
        own = np.diff(indptr) + 1
        degrees, class_of, counts = np.unique(
            own, return_inverse=True, return_counts=True
        )
        logs = np.log(degrees + 1.0)
        # By degree, so that the order of the nodes does not change the mean.
        scale = logs / max((logs @ counts) / max(1, graph.num_nodes), 1e-300)
        scales = [np.ones_like(scale), scale, 1 / np.maximum(scale, _LEAST_SCALE)]
        return cls(
            indptr,
            adjacency.indices.astype(np.int32),
            class_of.astype(np.int32),
            degrees.astype(np.int64),
            np.stack(scales, axis=1),
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.class_of)

    @property
    def edges(self) -> tuple[IntArray, npt.NDArray[np.int32]]:
        """What kernels take: indptr and indices."""
        return self.indptr, self.indices


class PathWeights(NamedTuple):
    """What a propagation of T layers and width w learns.

    Parameters
    ----------
    query : (w,)
        State of the source at the beginning.
    relation : (T, w)
        Messages are states times this.
    gathered : (T, 3, 4w, w)
        For the statistics of messages, by scaler.
    own : (T, w, w)
        For a node's own state.
    bias, gain, shift : (T, w)
        Of the linear map, and of the normalisation after it.
    """

    query: Array
    relation: Array
    gathered: Array
    own: Array
    bias: Array
    gain: Array
    shift: Array

    @classmethod
    def of(cls, tensors: tuple[Tensor, ...]) -> Self:
        """Return the arrays of parameters."""
        return cls(*(tensor.detach().contiguous().numpy() for tensor in tensors))

    @property
    def layers(self) -> int:
        """Number of layers T."""
        return len(self.relation)

    @property
    def width(self) -> int:
        """Width w of states."""
        return len(self.query)

    def zeros(self) -> PathWeights:
        """Return zeros of the same shapes."""
        return PathWeights(*(np.zeros_like(array) for array in self))

    def by_class(self, layer: int, graph: PathGraph) -> Array:
        """Return one (5w, w) matrix per class of nodes."""
        scales = graph.scales.astype(self.query.dtype)
        gathered = np.einsum("cs,sij->cij", scales, self.gathered[layer])
        own = np.broadcast_to(self.own[layer], (len(scales), *self.own[layer].shape))
        return np.concatenate([gathered, own], axis=1)

    def forward(self, layer: int, matrices: Array) -> tuple[Array, ...]:
        """Return a layer's weights as :func:`layer_forward` takes them."""
        return (
            self.relation[layer],
            self.query,
            column_tiles(matrices),
            self.bias[layer],
            self.gain[layer],
            self.shift[layer],
        )

    def sums(self, layer: int) -> tuple[Array, ...]:
        """Return a layer's arrays as :func:`layer_backward` adds to them."""
        return (
            self.relation[layer],
            self.query,
            self.gathered[layer],
            self.own[layer],
            self.bias[layer],
            self.gain[layer],
            self.shift[layer],
        )


def column_tiles(matrices: Array) -> Array:
    """Return matrices (C, k, width) as (C, tiles, k, COLUMNS), padded with 0."""
    count, inner, width = matrices.shape
    tiles = np.zeros((count, -(-width // COLUMNS), inner, COLUMNS), matrices.dtype)
    for tile in range(tiles.shape[1]):
        part = matrices[:, :, tile * COLUMNS : (tile + 1) * COLUMNS]
        tiles[:, tile, :, : part.shape[2]] = part
    return tiles


@kernel()
def hops_from(indptr, indices, seeds, limit):
    """Return edges to the nearest seed, ``limit + 1`` where there are more."""
    n = indptr.shape[0] - 1
    hops = np.full(n, limit + 1, np.int32)
    queue = np.empty(n, np.int32)
    tail = 0
    for u in seeds:
        if hops[u] > 0:
            hops[u] = 0
            queue[tail] = u
            tail += 1
    head = 0
    while head < tail:
        x = queue[head]
        head += 1
        if hops[x] == limit:
            break
        for s in range(indptr[x], indptr[x + 1]):
            if hops[indices[s]] > limit:
                hops[indices[s]] = hops[x] + 1
                queue[tail] = indices[s]
                tail += 1
    return hops


@kernel()
def _ball(indptr, indices, source, limit, hops, others, queue):
    """List nodes within ``limit`` edges; with their ``others`` still within it.

    ``hops`` is -1 everywhere and is set on the list; ``others`` is 0 everywhere, or
    the hops from another node, -1 where there is no way.
    """
    hops[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        x = queue[head]
        head += 1
        if hops[x] == limit:
            break
        for s in range(indptr[x], indptr[x + 1]):
            y = indices[s]
            if hops[y] < 0 and 0 <= others[y] <= limit - hops[x] - 1:
                hops[y] = hops[x] + 1
                queue[tail] = y
                tail += 1
    return tail


@kernel()
def _room(array, wanted):
    """Return an array with at least so much room, and the same content."""
    if wanted <= array.shape[0]:
        return array
    larger = np.empty(max(wanted, 2 * array.shape[0]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@kernel()
def source_reach(indptr, indices, sources, limit):
    """List what every source reaches: ``start, nodes, first, last``.

    Entries ``start[d] .. start[d + 1] - 1`` belong to source d; the state of a node
    differs from its background from layer ``first`` on and is needed up to ``last``.
    """
    n = indptr.shape[0] - 1
    hops, anywhere = np.full(n, -1, np.int32), np.zeros(n, np.int32)
    queue = np.empty(n, np.int32)
    start = np.zeros(sources.shape[0] + 1, np.int64)
    nodes, first = np.empty(1024, np.int32), np.empty(1024, np.int32)
    for d in range(sources.shape[0]):
        tail = _ball(indptr, indices, sources[d], limit, hops, anywhere, queue)
        low, high = start[d], start[d] + tail
        start[d + 1] = high
        nodes, first = _room(nodes, high), _room(first, high)
        for i in range(tail):
            nodes[low + i] = queue[i]
            first[low + i] = hops[queue[i]]
            hops[queue[i]] = -1
    end = start[-1]
    return start, nodes[:end], first[:end], np.full(end, limit, np.int32)


@kernel()
def pair_reach(indptr, indices, pairs, limit):
    """As :func:`source_reach`, for both directions of every pair, with its target.

    A state counts up to layer ``limit`` minus its edges to the target.
    """
    n = indptr.shape[0] - 1
    from_u, from_v = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    anywhere = np.zeros(n, np.int32)
    queue_u, queue_v = np.empty(n, np.int32), np.empty(n, np.int32)
    start = np.zeros(2 * pairs.shape[0] + 1, np.int64)
    nodes, first = np.empty(1024, np.int32), np.empty(1024, np.int32)
    last = np.empty(1024, np.int32)
    for p in range(pairs.shape[0]):
        u, v = pairs[p]
        seen = _ball(indptr, indices, u, limit, from_u, anywhere, queue_u)
        tail = 0
        if from_u[v] >= 0:
            tail = _ball(indptr, indices, v, limit, from_v, from_u, queue_v)
        low = start[2 * p]
        start[2 * p + 1], start[2 * p + 2] = low + tail, low + 2 * tail
        high = low + 2 * tail
        nodes, first, last = _room(nodes, high), _room(first, high), _room(last, high)
        for i in range(tail):
            x = queue_v[i]
            here, there = low + i, low + tail + i
            nodes[here] = nodes[there] = x
            first[here], last[here] = from_u[x], limit - from_v[x]
            first[there], last[there] = from_v[x], limit - from_u[x]
            from_v[x] = -1
        for i in range(seen):
            from_u[queue_u[i]] = -1
    end = start[-1]
    return start, nodes[:end], first[:end], last[:end]


@kernel()
def count_rows(reach, class_of, layers, classes):
    """Return how many rows each layer (from 1) has of each class."""
    _, nodes, first, last = reach
    counts = np.zeros((layers, classes), np.int64)
    for e in range(nodes.shape[0]):
        for layer in range(max(first[e], 1), last[e] + 1):
            counts[layer - 1, class_of[nodes[e]]] += 1
    return counts


@kernel()
def fill_rows(graph, reach, sources, place, entries, row_start, out, marks):
    """Write neighbours' rows and sources of all layers; return rows at the end.

    Parameters
    ----------
    graph : tuple
        ``indptr``, ``indices``, and classes of nodes by degree.
    reach : tuple
        See :func:`source_reach`.
    sources : (D,) int64
        Source of every list.
    place, entries : (T, C) int64
        Where a layer's rows of a class begin: among the layer's rows, and in ``out``.
        Both are counted on.
    row_start : (T + 1,) int64
        Where a layer's rows begin in ``marks``.
    out : int32
        Neighbours' rows: below n a background, from n on a row of the layer before.
    marks : bool
        Whether a row is a source.

    Returns
    -------
    (E,) int32
        For every entry of the lists its row at the last layer, -1 if it has none.
    """
    indptr, indices, class_of = graph
    start, nodes, first, last = reach
    n, layers = indptr.shape[0] - 1, place.shape[0]
    entry_of = np.full(n, -1, np.int64)
    before, now = np.empty(n, np.int32), np.empty(n, np.int32)
    found = np.full(nodes.shape[0], -1, np.int32)
    for d in range(sources.shape[0]):
        mine = range(start[d], start[d + 1])
        for e in mine:
            entry_of[nodes[e]] = e
        before[sources[d]] = 0  # layer 0 has one row of its own: the query
        for layer in range(1, layers + 1):
            for e in mine:
                if layer < first[e] or layer > last[e]:
                    continue
                x, c = nodes[e], class_of[nodes[e]]
                now[x] = place[layer - 1, c]
                place[layer - 1, c] += 1
                marks[row_start[layer - 1] + now[x]] = x == sources[d]
                at = entries[layer - 1, c]
                out[at] = n + before[x] if layer > first[e] else x
                for s in range(indptr[x], indptr[x + 1]):
                    at += 1
                    y = indices[s]
                    known = entry_of[y] >= 0 and first[entry_of[y]] < layer
                    out[at] = n + before[y] if known else y
                entries[layer - 1, c] = at + 1
                if layer == layers:
                    found[e] = now[x]
            for e in mine:
                before[nodes[e]] = now[nodes[e]]
        for e in mine:
            entry_of[nodes[e]] = -1
    return found


@kernel()
def fill_background(indptr, indices, nodes, out):
    """Write the neighbours of nodes, each node itself first."""
    at = 0
    for x in nodes:
        out[at] = x
        at += 1
        for s in range(indptr[x], indptr[x + 1]):
            out[at] = indices[s]
            at += 1


# indices, class_start, place, source: see gelato.baselines.nbfnet.states.layer_forward.
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
    reach = source_reach(*graph.edges, sources, layers)
    return _listed(graph, reach, sources, layers)


def pair_rows(
    graph: PathGraph, pairs: IntArray, layers: int
) -> tuple[PathRows, IntArray]:
    """Return the rows of both propagations of pairs, and where the targets are.

    Targets are places in the table of the last layer: backgrounds first, by node.
    """
    reach = pair_reach(*graph.edges, pairs, layers)
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
    counts = count_rows(reach, graph.class_of, layers, len(graph.degrees))
    class_start = np.zeros((layers, len(graph.degrees) + 1), np.int64)
    np.cumsum(counts, axis=1, out=class_start[:, 1:])
    sizes = counts * graph.degrees
    ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
    row_start = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
    out = np.empty(int(sizes.sum()), np.int32)
    marks = np.empty(int(row_start[-1]), np.bool_)
    found = fill_rows(
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
        hops = hops_from(*graph.edges, targets, layers)
    order = np.argsort(graph.class_of, kind="stable").astype(np.int32)
    rows = []
    for layer in range(1, layers + 1):
        nodes = order[hops[order] <= layers - layer]
        kinds = graph.class_of[nodes]
        class_start = np.searchsorted(kinds, np.arange(len(graph.degrees) + 1))
        indices = np.empty(int(graph.degrees[kinds].sum()), np.int32)
        fill_background(*graph.edges, nodes, indices)
        rows.append(
            (indices, class_start.astype(np.int64), nodes, np.zeros(len(nodes), bool))
        )
    return rows
