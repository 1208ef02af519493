"""Which states a propagation from a source has to compute, and from which others.

A node farther than l edges from the source has, after layer l, a state that does not
depend on the source: its background. Where one target is wanted, a state also counts
only within T - l edges of it. What is left is listed here, layer by layer, with the
rows of the layer before that each state is made of: background rows come first in a
table, by node, then the rows of this list.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _room(array, wanted):
    """Return an array with at least so much room, and the same content."""
    if wanted <= array.shape[0]:
        return array
    larger = np.empty(max(wanted, 2 * array.shape[0]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def count_rows(reach, class_of, layers, classes):
    """Return how many rows each layer (from 1) has of each class."""
    _, nodes, first, last = reach
    counts = np.zeros((layers, classes), np.int64)
    for e in range(nodes.shape[0]):
        for layer in range(max(first[e], 1), last[e] + 1):
            counts[layer - 1, class_of[nodes[e]]] += 1
    return counts


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def fill_background(indptr, indices, nodes, out):
    """Write the neighbours of nodes, each node itself first."""
    at = 0
    for x in nodes:
        out[at] = x
        at += 1
        for s in range(indptr[x], indptr[x + 1]):
            out[at] = indices[s]
            at += 1
