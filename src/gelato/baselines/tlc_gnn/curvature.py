"""Largest flows in small networks of whole capacities (Dinic's algorithm).

A network is four arrays, filled arc by arc and used again for the next one, so that
hundreds of thousands of small problems allocate nothing. Every arc stands beside its
reverse: arc ``a`` and arc ``a ^ 1``.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from gelato.baselines.tlc_gnn.resumable import PartFolder, fill_by_parts
from gelato.graph import FloatArray, Graph, IntArray, find_pairs
from gelato.kernels.compiled import kernel

UNLIMITED = 1 << 60
SOURCE, SINK = 0, 1


@kernel()
def empty_network(nodes, arcs):
    """Return room for a network: heads by node; tips, followers, room by arc."""
    return (
        np.empty(nodes, np.int32),
        np.empty(arcs, np.int32),
        np.empty(arcs, np.int32),
        np.empty(arcs, np.int64),
    )


@kernel()
def flow_workspace(nodes):
    """Return levels, current arcs, a queue of nodes and a path of arcs."""
    return (
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
    )


@kernel()
def add_arc(network, count, tail, tip, room):
    """Add an arc and its reverse behind ``count`` others; return their new number."""
    head, to, following, capacity = network
    to[count], to[count + 1] = tip, tail
    capacity[count], capacity[count + 1] = room, 0
    following[count], following[count + 1] = head[tail], head[tip]
    head[tail], head[tip] = count, count + 1
    return count + 2


@kernel()
def _set_levels(network, nodes, level, queue):
    """Write how many arcs with room lead from the source to each node, else -1."""
    head, to, following, capacity = network
    level[:nodes] = -1
    level[SOURCE], queue[0], filled, done = 0, SOURCE, 1, 0
    while done < filled:
        node = queue[done]
        done += 1
        arc = head[node]
        while arc >= 0:
            if capacity[arc] > 0 and level[to[arc]] < 0:
                level[to[arc]] = level[node] + 1
                queue[filled] = to[arc]
                filled += 1
            arc = following[arc]
    return level[SINK] >= 0


@kernel()
def _augment(network, path, length):
    """Fill a path from source to sink; return the amount and its first full arc."""
    capacity = network[3]
    amount = capacity[path[0]]
    for i in range(1, length):
        amount = min(amount, capacity[path[i]])
    first = length
    for i in range(length):
        capacity[path[i]] -= amount
        capacity[path[i] ^ 1] += amount
        if first == length and capacity[path[i]] == 0:
            first = i
    return amount, first


@kernel()
def _fill_levels(network, level, current, path):
    """Send what paths of ascending levels can take; return how much it is."""
    to, following, capacity = network[1], network[2], network[3]
    total, length, node = 0, 0, SOURCE
    while True:
        if node == SINK:
            amount, length = _augment(network, path, length)
            total += amount
            node = to[path[length] ^ 1]
        arc = current[node]
        while arc >= 0 and (capacity[arc] == 0 or level[to[arc]] != level[node] + 1):
            arc = following[arc]
        current[node] = arc
        if arc >= 0:
            path[length] = arc
            length += 1
            node = to[arc]
        elif length == 0:
            return total
        else:  # a dead end: never again in this round
            level[node] = -1
            length -= 1
            node = to[path[length] ^ 1]


@kernel()
def max_flow(network, nodes, wanted, work):
    """Return the largest flow from node 0 to node 1, or ``wanted`` once it is reached.

    Where less than ``wanted`` is possible, the levels (``work[0]``) end as the nodes
    that the source still reaches: those of a smallest cut. Levels of others are -1.
    """
    level, current, queue, path = work
    total = 0
    while total < wanted and _set_levels(network, nodes, level, queue):
        current[:nodes] = network[0][:nodes]
        total += _fill_levels(network, level, current, path)
    return total


@kernel()
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


@kernel()
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


@kernel()
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


@kernel()
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


@kernel()
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


@kernel()
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


@kernel()
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


@kernel()
def _most_arcs(graph, alone, shared, wanting, work):
    """Return how many arcs a network may get."""
    indptr = graph[0]
    count = 2 * (alone + shared + wanting) + 4
    for i in range(alone + shared):
        count += 2 * (indptr[work[2][i] + 1] - indptr[work[2][i]])
    for j in range(wanting):
        count += indptr[work[3][j] + 1] - indptr[work[3][j]]
    return 2 * count


@kernel()
def _forget(graph, u, v, role):
    indptr, indices = graph
    for end in (u, v):
        for s in range(indptr[end], indptr[end + 1]):
            role[indices[s]] = 0


@kernel()
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


# Lengths of edges without curvature would be 1; they stay above this.
LEAST_LENGTH = 1e-6


def pair_cost(graph: Graph, pairs: IntArray) -> FloatArray:
    """Return what looking around each pair costs: its neighbours' neighbours."""
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    degrees = np.diff(indptr).astype(np.float64)
    total = np.concatenate([[0.0], np.cumsum(degrees[indices])])
    around = np.diff(total[indptr])
    cost: FloatArray = 1.0 + around[pairs].sum(axis=1)
    return cost


def edge_curvature(graph: Graph, place: PartFolder | None = None) -> FloatArray:
    """Return the Ollivier-Ricci curvature of every edge, laziness 1/2, exact.

    Weights of edges play no part: every edge is a step of length 1.

    Parameters
    ----------
    graph : Graph
        Undirected.
    place : PartFolder, optional
        Where parts are kept and found again.

    Examples
    --------
    >>> edge_curvature(Graph.from_indices(3, [(0, 1), (0, 2), (1, 2)])).tolist()
    [0.75, 0.75, 0.75]
    """
    curvature = np.zeros(graph.num_edges)
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices

    def work(first: int, last: int) -> None:
        edge_curvatures(first, last, graph.edges, indptr, indices, curvature)

    cost = pair_cost(graph, graph.edges)
    fill_by_parts(curvature, cost, work, name="curvature", place=place)
    return curvature


def arc_lengths(graph: Graph, curvature: FloatArray) -> FloatArray:
    """Return curvature + 1 for every entry of the adjacency matrix."""
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(indptr))
    pairs = np.sort(np.stack([rows, indices.astype(np.int64)], axis=1), axis=1)
    at = find_pairs(graph.edges, pairs, graph.num_nodes)
    return np.maximum(curvature[at] + 1.0, LEAST_LENGTH)
