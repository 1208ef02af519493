"""Extended persistence of a small graph filtered by its nodes, as an image.

Points of the diagram are (birth, persistence): components of ascending values
(elder rule), the one that never dies, and one loop per independent cycle, from the
value at which it appears when nodes come in descending order up to the largest value
that every loop of its class must visit. Components of descending values have
negative persistence, hence no weight in the image, and are left out.

Loops are found in one pass: nodes come in descending order and a spanning forest of
least ascending values is kept. An edge that closes a loop ends the highest edge of
that loop: the pair of both values is a point.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import heapq
import math
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gelato.baselines.tlc_gnn.curvature import arc_lengths, edge_curvature, pair_cost
from gelato.baselines.tlc_gnn.resumable import PartFolder, fill_by_parts
from gelato.graph import FloatArray, Graph, IntArray, find_pairs
from gelato.kernels.compiled import kernel
from gelato.nn.messages import refuse_large

PIXELS = 5
"""Rows and columns of an image, over births and persistences from 0 to 1."""


@kernel()
def _masses(centre, out):
    """Write what a normal distribution of variance 1 puts into each pixel."""
    below = 0.5 * math.erfc(centre / math.sqrt(2.0))
    for i in range(PIXELS):
        above = 0.5 * math.erfc((centre - (i + 1) / PIXELS) / math.sqrt(2.0))
        out[i] = above - below
        below = above


@kernel()
def _add_point(birth, death, work, image):
    """Add a point's mass, weighted by its persistence, at most 1."""
    persistence = death - birth
    if persistence <= 0.0:
        return
    rows, columns = work
    _masses(birth, rows)
    _masses(persistence, columns)
    weight = min(persistence, 1.0)
    for i in range(PIXELS):
        for j in range(PIXELS):
            image[i * PIXELS + j] += weight * rows[i] * columns[j]


@kernel()
def _root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@kernel()
def add_components(values, order, rank, edges, parent, work, image):
    """Add the components of ascending values, and the one that never dies.

    Parameters
    ----------
    values : (n,) float64
        By node.
    order, rank : (n,) int64
        Nodes by ascending value, and the place of each node in that order.
    edges : (start, end, neighbours)
        Where each node's neighbours begin and end in the list.
    parent : (n,) int64
        Room; roots are the lowest nodes of their components.
    work, image
        Two rows of pixels, and what is added to.
    """
    start, end, neighbours = edges
    n = order.shape[0]
    for i in range(n):
        node = order[i]
        parent[node] = node
        for s in range(start[node], end[node]):
            if rank[neighbours[s]] > i:
                continue
            one, two = _root(parent, node), _root(parent, neighbours[s])
            if one == two:
                continue
            if rank[one] > rank[two]:
                one, two = two, one
            _add_point(values[two], values[node], work, image)
            parent[two] = one
    _add_point(values[order[0]], values[order[n - 1]], work, image)


@kernel()
def _highest(parent, height, node, root):
    """Return the node below the highest edge on the way up, and where the way ends.

    The search ends early at ``root``, whose own edge does not count.
    """
    best = node
    while node != root and parent[node] != node:
        if height[node] > height[best]:
            best = node
        node = parent[node]
    return best, node


@kernel()
def _hang(parent, height, node, last, top, edge_height):
    """Turn the way from ``node`` up to ``last`` round, and hang it from ``top``."""
    above, carried = top, edge_height
    while True:
        following, own = parent[node], height[node]
        parent[node], height[node] = above, carried
        if node == last:
            return
        above, carried, node = node, own, following


@kernel()
def add_loops(values, order, rank, edges, forest, work, image):
    """Add one point per independent cycle; see :func:`add_components`.

    ``forest`` is room for parents and for the ranks of the edges that lead to them.
    """
    start, end, neighbours = edges
    parent, height = forest
    for i in range(order.shape[0] - 1, -1, -1):
        node = order[i]
        parent[node], height[node] = node, -1
        low = values[node]
        for s in range(start[node], end[node]):
            other = neighbours[s]
            if rank[other] < i:
                continue
            best, root = _highest(parent, height, other, node)
            if root != node:  # two trees become one
                _hang(parent, height, other, root, node, rank[other])
            elif height[best] > rank[other]:
                high = values[order[height[best]]]
                _hang(parent, height, other, best, node, rank[other])
                _add_point(low, high, work, image)
            else:
                _add_point(low, values[other], work, image)


@kernel()
def diagram_image(values, edges, image):
    """Write the image of a connected graph's diagram.

    Parameters
    ----------
    values : (n,) float64
        By node, from 0 to 1.
    edges : (start, end, neighbours)
        Where each node's neighbours begin and end in the list; both directions.
    image : (25,) float64
        Pixels by birth, then persistence.
    """
    n = values.shape[0]
    order = np.argsort(values, kind="mergesort")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    parent, height = np.empty(n, np.int64), np.empty(n, np.int64)
    work = (np.empty(PIXELS), np.empty(PIXELS))
    image[:] = 0.0
    add_components(values, order, rank, edges, parent, work, image)
    add_loops(values, order, rank, edges, (parent, height), work, image)


@kernel()
def _ball(u, hops, hidden, graph, level, queue):
    """List nodes up to so many edges away; their level is the distance + 1.

    The edge between u and ``hidden`` does not count; -1 hides nothing.
    """
    indptr, indices = graph
    level[u], queue[0], filled, done = 1, u, 1, 0
    while done < filled and level[queue[done]] <= hops:
        node = queue[done]
        done += 1
        for s in range(indptr[node], indptr[node + 1]):
            w = indices[s]
            cut = (node == u and w == hidden) or (node == hidden and w == u)
            if level[w] == 0 and not cut:
                level[w] = level[node] + 1
                queue[filled] = w
                filled += 1
    return filled


@kernel()
def count_near(hops, indptr, indices, counts):
    """Write how many later nodes are within so many edges of each node."""
    n = indptr.shape[0] - 1
    level, queue = np.zeros(n, np.int64), np.empty(n, np.int64)
    for u in range(n):
        filled = _ball(u, hops, -1, (indptr, indices), level, queue)
        counts[u] = 0
        for i in range(filled):
            counts[u] += queue[i] > u
            level[queue[i]] = 0


@kernel()
def list_near(hops, indptr, indices, pairs):
    """Write the pairs that :func:`count_near` counts, sorted."""
    n = indptr.shape[0] - 1
    level, queue = np.zeros(n, np.int64), np.empty(n, np.int64)
    begin = 0
    for u in range(n):
        filled = _ball(u, hops, -1, (indptr, indices), level, queue)
        end = begin
        for i in range(filled):
            level[queue[i]] = 0
            if queue[i] > u:
                pairs[end, 0], pairs[end, 1] = u, queue[i]
                end += 1
        pairs[begin:end, 1] = np.sort(pairs[begin:end, 1])
        begin = end


@kernel()
def _shared_nodes(u, v, hops, hide, graph, work):
    """List the nodes near both, u and v first; none if u and v are too far apart."""
    near_u, near_v, around_u, around_v, nodes = work
    found = _ball(u, hops, v if hide else -1, graph, near_u, around_u)
    count = 0
    if near_u[v] > 0:
        reached = _ball(v, hops, u if hide else -1, graph, near_v, around_v)
        nodes[0], nodes[1], count = u, v, 2
        for i in range(reached):
            w = around_v[i]
            near_v[w] = 0
            if near_u[w] > 0 and w not in (u, v):
                nodes[count] = w
                count += 1
    for i in range(found):
        near_u[around_u[i]] = 0
    return count


@kernel()
def _inner_edges(nodes, count, hide, graph, lengths, place, inner):
    """Write the edges between listed nodes, by their places in the list.

    ``inner`` is ``(start, end, neighbours, lengths)``; the first two nodes are the
    pair itself, whose edge can be hidden.
    """
    indptr, indices = graph
    start, end, neighbours, inner_lengths = inner
    for i in range(count):
        place[nodes[i]] = i + 1
    filled = 0
    for i in range(count):
        start[i] = filled
        for s in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            j = place[indices[s]] - 1
            if j >= 0 and not (hide and i + j == 1):
                neighbours[filled], inner_lengths[filled] = j, lengths[s]
                filled += 1
        end[i] = filled
    for i in range(count):
        place[nodes[i]] = 0


@kernel()
def _distances(source, inner, distance):
    """Write the lengths of shortest paths; return how many nodes are reached."""
    start, end, neighbours, lengths = inner
    distance[:] = np.inf
    distance[source] = 0.0
    heap = [(0.0, source)]
    reached = 0
    while len(heap) > 0:
        far, node = heapq.heappop(heap)
        if far > distance[node]:
            continue
        reached += 1
        for s in range(start[node], end[node]):
            through = far + lengths[s]
            if through < distance[neighbours[s]]:
                distance[neighbours[s]] = through
                heapq.heappush(heap, (through, neighbours[s]))
    return reached


@kernel()
def _write_image(count, inner, values, image):
    """Write the image of a listed subgraph, 0 where it has none."""
    image[:] = 0.0
    from_u, from_v = values[0, :count], values[1, :count]
    if _distances(0, inner, from_u) < count:
        return
    _distances(1, inner, from_v)
    from_u += from_v
    from_u[:2] = 0.0
    highest = from_u.max()
    if highest > 0.0:
        from_u /= highest
        diagram_image(from_u, inner[:3], image)


@kernel()
def _inner_room(nodes, arcs):
    """Return room for edges between listed nodes."""
    return (
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(arcs, np.int64),
        np.empty(arcs),
    )


@kernel()
def pair_images(first, last, pairs, hops, hide, indptr, indices, lengths, out):
    """Write the images of pairs ``first .. last - 1``.

    Parameters
    ----------
    first, last : int
        Which pairs.
    pairs : (p, 2) int64
        Pairs of different nodes.
    hops : int
        How far from both ends nodes may be.
    hide : bool
        Leave the edge of the pair itself out, if there is one.
    indptr, indices, lengths : CSR
        Neighbours of every node and positive lengths of the edges.
    out : (p, 25) float32
        Changed at the pairs named.
    """
    graph = (indptr, indices)
    n = indptr.shape[0] - 1
    marks = np.zeros((3, n), np.int64)
    lists = np.empty((3, n), np.int64)
    work = (marks[0], marks[1], lists[0], lists[1], lists[2])
    inner = _inner_room(n, 64)
    values, image = np.empty((2, n)), np.empty(out.shape[1])
    for p in range(first, last):
        u, v = pairs[p, 0], pairs[p, 1]
        count = _shared_nodes(u, v, hops, hide, graph, work)
        out[p] = 0.0
        if count < 3:  # no node has a positive value
            continue
        room = 0
        for i in range(count):
            room += indptr[lists[2, i] + 1] - indptr[lists[2, i]]
        if room > inner[2].shape[0]:
            inner = _inner_room(n, 2 * room)
        _inner_edges(lists[2], count, hide, graph, lengths, marks[2], inner)
        _write_image(count, inner, values, image)
        out[p] = image


SIZE = PIXELS * PIXELS
"""Numbers of an image."""
# Bytes of a pair: its nodes, its image in single precision, what it adds to the units
# of a net in double precision, once more while zeros are left out.
_PAIR_BYTES = 16 + 4 * SIZE + 8 * SIZE + 4 * SIZE

Images = npt.NDArray[np.float32]


class GraphImages:
    """The images of pairs of one graph, each computed when first asked for.

    Parameters
    ----------
    graph : Graph
        Undirected.
    hops : int
        Nodes at most so many edges from both ends of a pair make its image.
    hide_target : bool
        Leave a pair's own edge out in training, too.
    place : PartFolder, optional
        Where what takes long is kept.
    rehearse : bool
        Compute nothing: all images are ones. For timing what comes after.
    """

    def __init__(
        self,
        graph: Graph,
        hops: int,
        *,
        hide_target: bool = False,
        place: PartFolder | None = None,
        rehearse: bool = False,
    ) -> None:
        self.graph, self.hops = graph, hops
        self.hide_target, self.place, self.rehearse = hide_target, place, rehearse

    def of_pairs(self, pairs: IntArray, *, training: bool) -> tuple[IntArray, Images]:
        """Return which of listed pairs have an image other than 0, and the images.

        Parameters
        ----------
        pairs : (p, 2) int64
            Pairs in any order.
        training : bool
            Whether edges have the image that training sees.
        """
        pairs = np.sort(pairs, axis=1)
        images = np.zeros((0, SIZE), np.float32)
        at = np.zeros(0, np.int64)
        if training and not self.hide_target:
            position = find_pairs(self.graph.edges, pairs, self.graph.num_nodes)
            at = np.flatnonzero(position >= 0)
            if len(at):
                images = self.of_edges[position[at]]
        if self.hops > 1:
            differ = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
            rest = np.setdiff1d(differ, at, assume_unique=True)
            others, more = self._candidates(pairs[rest], listed=training)
            at = np.concatenate([at, rest[others]])
            images = np.concatenate([images, more])
        filled = images.any(axis=1)
        return at[filled], images[filled]

    @cached_property
    def of_edges(self) -> Images:
        """Images of all edges as training sees them, ``(m, 25)``."""
        return self._computed(self.graph.edges, hide=False, name="edge-images")

    @cached_property
    def near(self) -> tuple[IntArray, Images]:
        """All candidates that have an image other than 0, sorted, and the images."""
        if self.hops == 1:
            return np.zeros((0, 2), np.int64), np.zeros((0, SIZE), np.float32)
        pairs = near_pairs(self.graph, self.hops)
        images = self._computed(pairs, hide=True, name="near-images")
        filled = images.any(axis=1)
        return pairs[filled], images[filled]

    @cached_property
    def lengths(self) -> FloatArray:
        """Length of every entry of the adjacency matrix: curvature + 1."""
        return arc_lengths(self.graph, edge_curvature(self.graph, self.place))

    def _candidates(self, pairs: IntArray, *, listed: bool) -> tuple[IntArray, Images]:
        """Return images of listed candidates, from those of all unless few count."""
        if listed and "near" not in self.__dict__:
            images = self._computed(pairs, hide=True, name="")
            at = np.flatnonzero(images.any(axis=1))
            return at, images[at]
        known, images = self.near
        position = find_pairs(known, pairs, self.graph.num_nodes)
        at = np.flatnonzero(position >= 0)
        return at, images[position[at]]

    def _computed(self, pairs: IntArray, *, hide: bool, name: str) -> Images:
        """Return images of listed pairs; what has a name is kept on disk."""
        refuse_large(
            f"Persistence images of {len(pairs):,} pairs",
            _PAIR_BYTES * len(pairs),
            hint="Use another model for a graph of this size.",
        )
        if self.rehearse:
            return np.ones((len(pairs), SIZE), np.float32)
        images = np.zeros((len(pairs), SIZE), np.float32)
        matrix, lengths = self.graph.adjacency, self.lengths
        around = (matrix.indptr, matrix.indices, lengths)

        def work(first: int, last: int) -> None:
            pair_images(first, last, pairs, self.hops, hide, *around, images)

        fill_by_parts(
            images,
            pair_cost(self.graph, pairs),
            work,
            name=name,
            place=self.place if name else None,
        )
        return images


def near_pairs(graph: Graph, hops: int) -> IntArray:
    """Return all pairs at most so many edges apart, sorted.

    Examples
    --------
    >>> near_pairs(Graph.from_indices(4, [(0, 1), (1, 2), (2, 3)]), 2).tolist()
    [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
    """
    matrix = graph.adjacency
    counts = np.zeros(graph.num_nodes, np.int64)
    count_near(hops, matrix.indptr, matrix.indices, counts)
    total = int(counts.sum())
    refuse_large(
        f"Persistence images of the {total:,} pairs within {hops} edges",
        _PAIR_BYTES * total,
        hint="Use hops=1, where only edges have an image.",
    )
    pairs = np.empty((total, 2), np.int64)
    list_near(hops, matrix.indptr, matrix.indices, pairs)
    return pairs
