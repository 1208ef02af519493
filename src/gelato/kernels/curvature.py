"""Ollivier-Ricci curvature of edges, exact, by two largest flows per edge.

The curvature of an edge uv with laziness 1/2 is ``1 - W``, where W is the least cost
of moving the measure "half on u, half spread over its neighbours" to that of v, and
moving a unit by one edge costs 1. Let u be the end of smaller degree. Times
``2 d_u d_v`` all masses are whole numbers, and after what stays in place and what
moves from u to v (both are optimal by exchange),

- neighbours of u alone (X) hold d_v each, common neighbours and u (Z) d_v - d_u each;
- neighbours of v alone (Y) want d_u each;
- a unit goes from Z to Y by 1 or 2 edges (over v), from X to Y by 1, 2 or 3.

Least-cost flow sends units by 1 edge first, then by 2, and the rest by 3. The first
flow F1 uses edges between X, Z and Y alone. Let R be what its smallest cut leaves on
the side of the source. In the second, F2, members of X and Z that are in R may reach
members of Y in R by an edge and others by two, and those not in R may reach members
of Y not in R by an edge; no other move shortens the whole. With T units in all the
cost is ``3 T - F1 - F2``, a whole number: results have no rounding to depend on.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

from gelato.kernels.max_flow import (
    SINK,
    SOURCE,
    UNLIMITED,
    add_arc,
    empty_network,
    flow_workspace,
    max_flow,
)


@numba.njit(cache=True, nogil=True)
def _workspace(n):
    """Return roles, middles, X and Z, Y, and whether each is in R."""
    return (
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        np.empty(n + 1, np.int32),
        np.empty(n + 1, np.int32),
        np.empty(n + 1, np.bool_),
        np.empty(n + 1, np.bool_),
    )


@numba.njit(cache=True, nogil=True)
def _sort_neighbours(u, v, graph, work):
    """List X, then common neighbours, and Y; return how many there are of each.

    Roles are i + 1 for the i-th of X and Z, and -(j + 1) for the j-th of Y.
    """
    indptr, indices = graph
    role, _, givers, takers, _, _ = work
    for s in range(indptr[v], indptr[v + 1]):
        role[indices[s]] = -1
    role[u] = 0
    alone = shared = wanting = 0
    for s in range(indptr[u], indptr[u + 1]):
        x = indices[s]
        if role[x] == 0 and x != v:
            givers[alone] = x
            alone += 1
            role[x] = alone
    around = indices[indptr[u] : indptr[u + 1]]
    for s in range(indptr[v], indptr[v + 1]):
        y = indices[s]
        at = np.searchsorted(around, y)
        if at < around.shape[0] and around[at] == y:
            givers[alone + shared] = y
            shared += 1
            role[y] = alone + shared
        elif y != u:
            takers[wanting] = y
            wanting += 1
            role[y] = -wanting
    return alone, shared, wanting


@numba.njit(cache=True, nogil=True)
def _open(network, sizes, amounts):
    """Begin a network: the source fills X and Z, the sink empties Y."""
    alone, givers, takers, middles = sizes
    own, spare, wanted = amounts
    network[0][: 2 + givers + takers + middles] = -1
    count = 0
    for i in range(givers):
        room = own if i < alone else spare
        count = add_arc(network, count, SOURCE, 2 + i, room)
    for j in range(takers):
        count = add_arc(network, count, 2 + givers + j, SINK, wanted)
    return count


@numba.njit(cache=True, nogil=True)
def _add_edges(network, count, graph, sizes, work, alike):
    """Add the edges from X and Z to Y; if ``alike``, only within or outside R."""
    indptr, indices = graph
    role, _, nodes, _, giver_in, taker_in = work
    givers = sizes[1]
    for i in range(givers - 1):  # the last one, u, is beside none of Y
        for s in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            j = -role[indices[s]] - 1
            if j >= 0 and (not alike or giver_in[i] == taker_in[j]):
                tip = 2 + givers + j
                count = add_arc(network, count, 2 + i, tip, UNLIMITED)
    return count


@numba.njit(cache=True, nogil=True)
def _name_middles(network, count, graph, u, sizes, work):
    """Lead members of X in R to their neighbours; return arcs and neighbours."""
    indptr, indices = graph
    _, middle, nodes, _, giver_in, _ = work
    alone, givers, takers, found = sizes
    for i in range(alone):
        if giver_in[i]:
            for s in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                w = indices[s]
                if w == u:
                    continue
                if middle[w] == 0:
                    found += 1
                    middle[w] = found
                    network[0][1 + givers + takers + found] = -1
                tip = 1 + givers + takers + middle[w]
                count = add_arc(network, count, 2 + i, tip, UNLIMITED)
    return count, found


@numba.njit(cache=True, nogil=True)
def _add_two_steps(network, count, graph, u, sizes, work):
    """Add the ways by two edges from R to members of Y outside R.

    All from Z lead over v, which is the first middle.
    """
    indptr, indices = graph
    _, middle, nodes, wanting, giver_in, taker_in = work
    alone, givers, takers, _ = sizes
    over = 2 + givers + takers
    for i in range(alone, givers):
        if giver_in[i]:
            count = add_arc(network, count, 2 + i, over, UNLIMITED)
    count, found = _name_middles(network, count, graph, u, sizes, work)
    for j in range(takers):
        if taker_in[j]:
            continue
        tip = 2 + givers + j
        count = add_arc(network, count, over, tip, UNLIMITED)
        for s in range(indptr[wanting[j]], indptr[wanting[j] + 1]):
            if middle[indices[s]] > 0:
                tail = over - 1 + middle[indices[s]]
                count = add_arc(network, count, tail, tip, UNLIMITED)
    for i in range(alone):  # names are given back
        for s in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            middle[indices[s]] = 0
    return found


@numba.njit(cache=True, nogil=True)
def _moved_units(graph, u, sizes, amounts, network, flow, work):
    """Return ``F1 + F2`` of the module's text."""
    alone, givers, takers, _ = sizes
    giver_in, taker_in = work[4], work[5]
    total = takers * amounts[2]
    count = _open(network, sizes, amounts)
    _add_edges(network, count, graph, sizes, work, False)
    first = max_flow(network, 2 + givers + takers, total, flow)
    if first == total:
        return 2 * total
    level = flow[0]
    near = False
    for i in range(givers):
        giver_in[i] = level[2 + i] >= 0
        near = near or (i < alone and giver_in[i])
    if not near:  # what is left is in Z, two edges at most from all of Y
        return first + total
    for j in range(takers):
        taker_in[j] = level[2 + givers + j] >= 0
    count = _open(network, sizes, amounts)
    count = _add_edges(network, count, graph, sizes, work, True)
    middles = _add_two_steps(network, count, graph, u, sizes, work)
    nodes = 2 + givers + takers + middles
    return first + max_flow(network, nodes, total, flow)


@numba.njit(cache=True, nogil=True)
def _most_arcs(graph, alone, shared, wanting, work):
    """Return how many arcs a network may get."""
    indptr = graph[0]
    count = 2 * (alone + shared + wanting) + 4
    for i in range(alone + shared):
        count += 2 * (indptr[work[2][i] + 1] - indptr[work[2][i]])
    for j in range(wanting):
        count += indptr[work[3][j] + 1] - indptr[work[3][j]]
    return 2 * count


@numba.njit(cache=True, nogil=True)
def _forget(graph, u, v, role):
    indptr, indices = graph
    for end in (u, v):
        for s in range(indptr[end], indptr[end + 1]):
            role[indices[s]] = 0


@numba.njit(cache=True, nogil=True)
def edge_curvatures(first, last, edges, indptr, indices, out):
    """Write the curvature of edges ``first .. last - 1``, each above -1.

    Parameters
    ----------
    first, last : int
        Which edges.
    edges : (m, 2) int64
        Edges of the graph.
    indptr, indices : CSR
        Neighbours of every node, ascending; no loops.
    out : (m,) float64
        Changed at the edges named.
    """
    graph = (indptr, indices)
    n = indptr.shape[0] - 1
    work, flow = _workspace(n), flow_workspace(2 * n + 4)
    network = empty_network(2 * n + 4, 64)
    for e in range(first, last):
        u, v = edges[e, 0], edges[e, 1]
        if indptr[u + 1] - indptr[u] > indptr[v + 1] - indptr[v]:
            u, v = v, u
        du, dv = indptr[u + 1] - indptr[u], indptr[v + 1] - indptr[v]
        alone, shared, wanting = _sort_neighbours(u, v, graph, work)
        cost = np.int64(dv) * (du - 1)
        if wanting > 0:
            room = _most_arcs(graph, alone, shared, wanting, work)
            if room > network[1].shape[0]:
                network = empty_network(2 * n + 4, 2 * room)
            sizes = (alone, alone + shared + 1, wanting, 1)
            amounts = (dv, dv - du, du)
            moved = _moved_units(graph, u, sizes, amounts, network, flow, work)
            cost += 3 * np.int64(wanting) * du - moved
        _forget(graph, u, v, work[0])
        out[e] = 1.0 - cost / (2.0 * du * dv)
