"""Where held-out edges are: degrees of nodes in buckets, steps between two ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

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
    order = np.argsort(pairs[:, 1], kind="stable")
    member = graph.components[pairs]
    found = np.where(member[:, 0] == member[:, 1], 4, -1)[order]
    joined = (pairs[order], (ahead.indptr, ahead.indices), (back.indptr, back.indices))

    def look(start: int, stop: int) -> None:
        hops_within_three(joined[0][start:stop], *joined[1:], found[start:stop])

    run_shares(look, len(found))
    distance = np.empty_like(found)
    distance[order] = found
    return distance


@kernel()
def _steps_to_marked(u: int, ahead: Any, marks: Any, mark: int) -> int:
    """Return how many edges lead from u to a marked node: 1 or 2, or 0 for more."""
    indptr, indices = ahead
    for slot in range(indptr[u], indptr[u + 1]):
        if marks[indices[slot]] == mark:
            return 1
    for slot in range(indptr[u], indptr[u + 1]):
        x = indices[slot]
        for after in range(indptr[x], indptr[x + 1]):
            if marks[indices[after]] == mark:
                return 2
    return 0


@kernel()
def hops_within_three(pairs: Any, ahead: Any, back: Any, out: Any) -> None:
    """Write the distance of pairs that are at most three edges apart.

    Parameters
    ----------
    pairs : (p, 2) int64
        Sorted by target; two different nodes each.
    ahead, back : (indptr, indices)
        CSR of the edges and of the edges turned round.
    out : (p,) int64
        Changed where the distance is 1, 2 or 3.
    """
    indptr, indices = back
    marks = np.zeros(indptr.size - 1, dtype=np.int32)
    mark, target = 0, -1
    for i in range(pairs.shape[0]):
        u, v = pairs[i]
        if v != target:
            target, mark = v, mark + 1
            for slot in range(indptr[v], indptr[v + 1]):
                marks[indices[slot]] = mark
        if marks[u] == mark:
            out[i] = 1
            continue
        steps = _steps_to_marked(u, ahead, marks, mark)
        if steps:
            out[i] = steps + 1
