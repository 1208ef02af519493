"""Where held-out edges are: degrees of nodes in buckets, steps between two ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from gelato.graph import Graph, IntArray
from gelato.kernels.chunks import run_shares
from gelato.kernels.compiled import kernel

DISTANCES = {
    1: "1 hop (the other direction)",
    2: "2 hops",
    3: "3 hops",
    4: "4 hops or more",
    -1: "not connected",
}
"""What the distances of :func:`hop_distances` are called."""


def degree_bucket_edges(largest: int) -> list[tuple[int, int]]:
    """Return buckets 0, 1, 2, 3-4, 5-8, ... that reach up to the largest degree."""
    buckets = [(0, 0), (1, 1), (2, 2)]
    while buckets[-1][1] < largest:
        low = buckets[-1][1] + 1
        buckets.append((low, 2 * (low - 1)))
    return buckets


def bucket_name(low: int, high: int) -> str:
    """Return how a bucket of whole numbers is called."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def neighbour_counts(graph: Graph) -> IntArray:
    """Return the number of neighbours of every node."""
    counts: IntArray = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)
    return counts


def hop_distances(graph: Graph, pairs: IntArray) -> IntArray:
    """Return steps between two nodes: up to 3, 4 for more, -1 where there is no way."""
    ahead = graph.adjacency
    back = sp.csr_array(ahead.T) if graph.directed else ahead
    if not graph.directed:  # from the end whose neighbours have fewer neighbours
        ways = ahead @ np.diff(ahead.indptr)
        turned = ways[pairs[:, 0]] > ways[pairs[:, 1]]
        pairs = np.where(turned[:, None], pairs[:, ::-1], pairs)
    order = np.argsort(pairs[:, 0], kind="stable")
    member = connected_components(ahead, directed=False)[1][pairs]
    found = np.where(member[:, 0] == member[:, 1], 4, -1)[order]
    joined = (pairs[order], (ahead.indptr, ahead.indices), (back.indptr, back.indices))

    def look(start: int, stop: int) -> None:
        hops_within_three(joined[0][start:stop], *joined[1:], found[start:stop])

    run_shares(look, len(found))
    distance = np.empty_like(found)
    distance[order] = found
    return distance


@kernel()
def _two_steps(u: int, ahead: Any, level: Any, reached: Any) -> int:
    """Mark the nodes one and two edges ahead; return how many are in the list."""
    indptr, indices = ahead
    reached[0], count, first = u, 1, 0
    level[u] = 3  # a walk back to the start is no shorter way
    for step in range(1, 3):
        last = count
        for j in range(first, last):
            for slot in range(indptr[reached[j]], indptr[reached[j] + 1]):
                v = indices[slot]
                if level[v] == 0:
                    level[v] = step
                    reached[count] = v
                    count += 1
        first = last
    return count


@kernel()
def hops_within_three(pairs: Any, ahead: Any, back: Any, out: Any) -> None:
    """Write the distance of pairs that are at most three edges apart.

    Parameters
    ----------
    pairs : (p, 2) int64
        Sorted by source; two different nodes each.
    ahead, back : (indptr, indices)
        CSR of the edges and of the edges turned round.
    out : (p,) int64
        Changed where the distance is 1, 2 or 3.
    """
    back_indptr, back_indices = back
    level = np.zeros(back_indptr.size - 1, dtype=np.int8)
    reached = np.empty(back_indptr.size, dtype=np.int64)
    start = 0
    while start < pairs.shape[0]:
        u = pairs[start, 0]
        count = _two_steps(u, ahead, level, reached)
        while start < pairs.shape[0] and pairs[start, 0] == u:
            v = pairs[start, 1]
            if level[v] > 0:
                out[start] = level[v]
            else:
                for slot in range(back_indptr[v], back_indptr[v + 1]):
                    if level[back_indices[slot]] == 2:
                        out[start] = 3
                        break
            start += 1
        for j in range(count):
            level[reached[j]] = 0
