"""Largest flows in small networks of whole capacities (Dinic's algorithm).

A network is four arrays, filled arc by arc and used again for the next one, so that
hundreds of thousands of small problems allocate nothing. Every arc stands beside its
reverse: arc ``a`` and arc ``a ^ 1``.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

UNLIMITED = 1 << 60
SOURCE, SINK = 0, 1


@numba.njit(cache=True, nogil=True)
def empty_network(nodes, arcs):
    """Return room for a network: heads by node; tips, followers, room by arc."""
    return (
        np.empty(nodes, np.int32),
        np.empty(arcs, np.int32),
        np.empty(arcs, np.int32),
        np.empty(arcs, np.int64),
    )


@numba.njit(cache=True, nogil=True)
def flow_workspace(nodes):
    """Return levels, current arcs, a queue of nodes and a path of arcs."""
    return (
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
    )


@numba.njit(cache=True, nogil=True)
def add_arc(network, count, tail, tip, room):
    """Add an arc and its reverse behind ``count`` others; return their new number."""
    head, to, following, capacity = network
    to[count], to[count + 1] = tip, tail
    capacity[count], capacity[count + 1] = room, 0
    following[count], following[count + 1] = head[tail], head[tip]
    head[tail], head[tip] = count, count + 1
    return count + 2


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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
