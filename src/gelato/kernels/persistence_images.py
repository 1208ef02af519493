"""Persistence images of pairs of nodes, each from the graph around both of them.

Of a pair u, v: the nodes within so many edges of both, the edges between them, and
the values ``d(w, u) + d(w, v)`` by weighted shortest paths inside, 0 for u and v,
divided by the largest. The image is 0 unless u and v are in reach of each other, all
those nodes hang together, and some value is positive.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import heapq

import numba
import numpy as np

from gelato.kernels.extended_persistence import diagram_image


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _inner_room(nodes, arcs):
    """Return room for edges between listed nodes."""
    return (
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(arcs, np.int64),
        np.empty(arcs),
    )


@numba.njit(cache=True, nogil=True)
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
