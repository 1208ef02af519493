"""Enclosing subgraphs of pairs: cut out, labelled by distances, packed.

The subgraph of a pair holds the nodes within some hops of either end, the ends first,
and all edges between them but the pair's own. Nodes have local numbers; rows of a
local CSR list neighbours. Arrays of the size of the graph are made once per call and
left as they were found, so that a pair costs what its subgraph costs.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.kernels.chunks import mix
from gelato.kernels.compiled import kernel

IntArray = npt.NDArray[np.int64]

# What becomes of the edge between local 0 and 1: left out; put in, whether the graph
# has it or not; or as it is, where these are not the ends of a pair.
LEFT_OUT, PUT_IN, AS_IT_IS = 0, 1, 2


# Runs that are sorted by insertion before they are merged.
_RUN = 8


# numba takes many seconds to compile its own stable argsort, in every kernel anew.
@kernel()
def stable_order(keys, order, spare):
    """Return the positions of ascending keys, equal ones in their order.

    ``order`` and ``spare`` are arrays as long as ``keys``; one of them is returned.
    """
    n = keys.size
    for i in range(n):
        at, first = i, i - i % _RUN
        while at > first and keys[i] < keys[order[at - 1]]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    width = _RUN
    while width < n:
        for first in range(0, n, 2 * width):
            middle, last = min(first + width, n), min(first + 2 * width, n)
            i, j = first, middle
            for k in range(first, last):
                if j == last or (i < middle and keys[order[i]] <= keys[order[j]]):
                    spare[k] = order[i]
                    i += 1
                else:
                    spare[k] = order[j]
                    j += 1
        order, spare = spare, order
        width *= 2
    return order


@kernel()
def cut_hop(nodes, start, stop, limit, place):
    """Keep as many of ``nodes[start:stop]`` as fit below ``limit``; return the end.

    Which ones follows from a scramble of their numbers, not from the numbers: those
    are often sorted by something that matters.
    """
    size = stop - start
    keys, found = np.empty(size, np.uint64), np.empty(size, np.int32)
    for i in range(size):
        found[i] = nodes[start + i]
        keys[i] = mix(found[i])
    order = stable_order(keys, np.empty(size, np.int64), np.empty(size, np.int64))
    kept = max(0, limit - start)
    for i in range(size):
        node = found[order[i]]
        place[node] = 0
        if i < kept:
            nodes[start + i] = node
            place[node] = start + i + 1
    return start + kept


@kernel()
def gather(count, graph, hops, limit, place, nodes):
    """Add to the first ``count`` nodes all within some hops; return how many.

    Parameters
    ----------
    count : int
        Where to start from: 2 for both ends of a pair, 1 for a ball.
    graph : (indptr, indices)
        CSR of the whole graph.
    hops, limit : int
        How far, and the most nodes in all: a hop that does not fit is cut.
    place : (n,) int32
        Local number + 1 of the nodes that are in; 0 for all before.
    nodes : (n,) int32
        The ends, then what is found.
    """
    indptr, indices = graph
    for i in range(count):
        place[nodes[i]] = i + 1
    first = 0
    for _ in range(hops):
        last = count
        for i in range(first, last):
            for slot in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                w = indices[slot]
                if place[w] == 0:
                    nodes[count] = w
                    count += 1
                    place[w] = count
        if count > limit:
            return cut_hop(nodes, last, count, limit, place)
        if count == last:
            break
        first = last
    return count


@kernel()
def forget(count, place, nodes):
    """Clear ``place`` again."""
    for i in range(count):
        place[nodes[i]] = 0


@kernel()
def count_edges(count, graph, place, nodes):
    """Return the number of entries of a local CSR, the pair's own edge left out."""
    indptr, indices = graph
    found = 0
    for i in range(count):
        for slot in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            j = place[indices[slot]] - 1
            if j >= 0 and i + j != 1:
                found += 1
    return found


@kernel()
def induce(count, graph, place, nodes, own, rows, columns):
    """Write the local CSR of a subgraph; return its columns, moved if they grew.

    Parameters
    ----------
    count, graph, place, nodes
        See :func:`gather`.
    own : int
        What becomes of the edge between local 0 and 1; if it is put in, it is the
        first entry of both rows.
    rows, columns : (count + 1,) int64 and (any,) int32
        Where to.
    """
    indptr, indices = graph
    filled = 0
    for i in range(count):
        rows[i] = filled
        first, last = indptr[nodes[i]], indptr[nodes[i] + 1]
        if filled + last - first + 1 > columns.size:
            larger = np.empty(2 * (filled + last - first + 1), columns.dtype)
            larger[:filled] = columns[:filled]
            columns = larger
        if own == PUT_IN and i < 2:
            columns[filled] = 1 - i
            filled += 1
        for slot in range(first, last):
            j = place[indices[slot]] - 1
            if j >= 0 and (i + j != 1 or own == AS_IT_IS):
                columns[filled] = j
                filled += 1
    rows[count] = filled
    return columns


@kernel()
def _distances(start, without, rows, columns, queue, out):
    """Write distances from a local node with another one deleted; -1 if none."""
    out[:] = -1
    out[start] = 0
    queue[0], done, found = start, 0, 1
    while done < found:
        i = queue[done]
        done += 1
        for slot in range(rows[i], rows[i + 1]):
            j = columns[slot]
            if out[j] < 0 and j != without:
                out[j] = out[i] + 1
                queue[found] = j
                found += 1


@kernel()
def label(count, rows, columns, work, last, labels):
    """Write the double-radius labels of a subgraph whose own edge is left out.

    With distances x and y to both ends, each with the other end deleted, and
    ``d = x + y``: ``1 + min(x, y) + (d // 2) (d // 2 + d % 2 - 1)``. The ends have 1,
    nodes that do not reach both have 0, and no label is larger than ``last``.
    """
    queue, one, two = work[0], work[1][:count], work[2][:count]
    _distances(0, 1, rows, columns, queue, one)
    _distances(1, 0, rows, columns, queue, two)
    labels[0] = labels[1] = 1
    for i in range(2, count):
        x, y = one[i], two[i]
        if x < 0 or y < 0:
            labels[i] = 0
            continue
        half, odd = (x + y) // 2, (x + y) % 2
        labels[i] = min(last, 1 + min(x, y) + half * (half + odd - 1))


@kernel()
def subgraph_sizes(pairs, graph, hops, limit, out):
    """Write the nodes and the entries of the local CSR of every pair, ``(p, 2)``."""
    place = np.zeros(graph[0].size - 1, np.int32)
    nodes = np.empty(place.size, np.int32)
    for p in range(pairs.shape[0]):
        nodes[0], nodes[1] = pairs[p, 0], pairs[p, 1]
        count = gather(2, graph, hops, limit, place, nodes)
        out[p, 0] = count
        out[p, 1] = count_edges(count, graph, place, nodes)
        forget(count, place, nodes)


@kernel()
def ball_sizes(graph, hops, out):
    """Write how many nodes are within some hops of every node, itself included."""
    place = np.zeros(out.size, np.int32)
    nodes = np.empty(out.size, np.int32)
    for u in range(out.size):
        nodes[0] = u
        out[u] = gather(1, graph, hops, out.size, place, nodes)
        forget(out[u], place, nodes)


@kernel()
def _pack(pairs, graph, hops, limit, own, last, start, out):
    """Fill the arrays of :class:`Packed`."""
    all_nodes, all_labels, all_rows, all_columns = out
    place = np.zeros(graph[0].size - 1, np.int32)
    nodes = np.empty(place.size, np.int32)
    largest = 0
    for p in range(pairs.shape[0]):
        largest = max(largest, start[p + 1] - start[p])
    rows = np.empty(largest + 1, np.int64)
    columns = np.empty(1, np.int32)
    work = np.empty((3, largest), np.int32)
    filled = 0
    for p in range(pairs.shape[0]):
        nodes[0], nodes[1] = pairs[p, 0], pairs[p, 1]
        count = gather(2, graph, hops, limit, place, nodes)
        columns = induce(count, graph, place, nodes, own, rows, columns)
        forget(count, place, nodes)
        base = start[p]
        if last > 0:
            label(count, rows, columns, work, last, all_labels[base : base + count])
        for i in range(count):
            all_nodes[base + i] = nodes[i]
            all_rows[base + i] = filled + rows[i]
        for slot in range(rows[count]):
            all_columns[filled + slot] = base + columns[slot]
        filled += rows[count]
    all_rows[start[-1]] = filled


@dataclass(frozen=True, eq=False)
class Packed:
    """Subgraphs of pairs, one after another.

    Parameters
    ----------
    start : (p + 1,) int64
        Nodes ``start[i] .. start[i + 1] - 1`` are those of pair i, its ends first.
    nodes : (k,) int32
        Their numbers in the graph.
    labels : (k,) int32
        Double-radius labels; empty if they were not asked for.
    rows, columns : (k + 1,) int64 and (e,) int32
        CSR of all subgraphs, by packed position.
    """

    start: IntArray
    nodes: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    rows: IntArray
    columns: npt.NDArray[np.int32]

    @property
    def owners(self) -> IntArray:
        """The pair that each node belongs to, by position."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def pack_subgraphs(
    pairs: IntArray,
    graph: tuple[Any, Any],
    *,
    hops: int,
    limit: int | None = None,
    joined: bool = False,
    last_label: int = 0,
) -> Packed:
    """Cut out and pack the enclosing subgraphs of pairs.

    Parameters
    ----------
    pairs : (p, 2) int64
        Two different nodes each.
    graph : (indptr, indices)
        CSR of the graph, int64 and int32, no loops.
    hops : int
        How far from either end.
    limit : int, optional
        The most nodes of a subgraph; the hop that does not fit is cut.
    joined : bool
        Put the pair's own edge in, instead of leaving it out.
    last_label : int
        The largest label; 0 if none are needed. Labels need ``joined=False``.
    """
    most = len(graph[0]) - 1 if limit is None else limit
    sizes = np.empty((len(pairs), 2), np.int64)
    subgraph_sizes(pairs, graph, hops, most, sizes)
    start = np.concatenate([[0], np.cumsum(sizes[:, 0])]).astype(np.int64)
    entries = int(sizes[:, 1].sum()) + 2 * joined * len(pairs)
    packed = Packed(
        start,
        np.empty(start[-1], np.int32),
        np.empty(start[-1] if last_label else 0, np.int32),
        np.empty(start[-1] + 1, np.int64),
        np.empty(entries, np.int32),
    )
    out = (packed.nodes, packed.labels, packed.rows, packed.columns)
    own = PUT_IN if joined else LEFT_OUT
    _pack(pairs, graph, hops, most, own, last_label, start, out)
    return packed
