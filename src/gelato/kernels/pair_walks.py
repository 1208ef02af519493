"""Walks between the two nodes of given pairs, several kinds of walk in one pass.

A kind of walk is a symmetric weight per edge and a factor per node: its value at a
pair is the sum over walks of the product of both. For row u the first two steps are
pushed into an (n, kinds) buffer; the last step of a walk is a gather over the
neighbours of v, only for the pairs wanted. Memory is O(n x kinds) per thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gelato.kernels.compiled import kernel


@kernel()
def _two_steps(
    u: int, graph: Any, weights: Any, factors: Any, hub: int, two: Any, nodes: Any
) -> int:
    """Add the two-step walks from u to ``two``; return how many nodes they reach."""
    indptr, indices = graph
    kinds = weights.shape[1]
    step = np.empty(kinds)
    count = 0
    for a in range(indptr[u], indptr[u + 1]):
        k = indices[a]
        if indptr[k + 1] - indptr[k] > hub:
            continue
        for c in range(kinds):
            step[c] = weights[a, c] * factors[k, c]
        for b in range(indptr[k], indptr[k + 1]):
            v = indices[b]
            # Kind 0 weighs every edge: 0 there means not reached before.
            if two[v, 0] == 0.0:
                nodes[count] = v
                count += 1
            for c in range(kinds):
                two[v, c] += step[c] * weights[b, c]
    return count


@kernel()
def _next_step(graph: Any, data: Any, scaled: Any, out: Any) -> None:
    """Let walks along edges of weight ``data`` take one more step, to all nodes."""
    indptr, indices = graph
    for v in range(indptr.size - 1):
        total = 0.0
        for b in range(indptr[v], indptr[v + 1]):
            total += scaled[indices[b]] * data[b]
        out[v] = total


@kernel()
def walks_of_pairs(
    pairs: Any,
    graph: Any,
    weights: Any,
    factors: Any,
    limits: Any,
    out: Any,
) -> None:
    """Write the walks of two to five steps that join pairs, and who joins them.

    Parameters
    ----------
    pairs : (p, 2) int64
        Sorted by the first node.
    graph : (indptr, indices)
        CSR pattern, symmetric.
    weights : (nnz, kinds) float64
        A weight per edge and kind; those of kind 0 are positive.
    factors : (n, kinds) float64
        A factor per node that a walk passes, and kind; those of kind 0 are positive.
    limits : (long, hub)
        Whether to walk four and five steps (kind 0 only), and the most neighbours of
        a node that walks of three steps pass through.
    out : (p, 2 * kinds + 5) float64
        Two-step walks by kind, three-step walks by kind, walks of four and of five
        steps, how many nodes are shared, and the smallest and the second smallest
        degree among these (0 where there are none).
    """
    indptr, indices = graph
    long, hub = limits
    n, kinds = factors.shape
    two = np.zeros((n, kinds))
    scaled = np.zeros((n, kinds))
    # All edges are visited for every row: what is read then is small and dense.
    three = np.zeros(n, dtype=np.float32)
    four, four_scaled = np.zeros_like(three), np.zeros_like(three)
    data, factor = weights[:, 0].astype(np.float32), factors[:, 0].astype(np.float32)
    nodes = np.empty(n, dtype=np.int32)
    mark = np.full(n, -1, dtype=np.int64)
    slot = np.empty(n, dtype=np.int64)
    p = 0
    while p < len(pairs):
        u = pairs[p, 0]
        count = _two_steps(u, graph, weights, factors, hub, two, nodes)
        for j in range(count):
            for c in range(kinds):
                scaled[nodes[j], c] = two[nodes[j], c] * factors[nodes[j], c]
        if long:
            four[:] = scaled[:, 0]
            _next_step(graph, data, four, three)
            three *= factor
            _next_step(graph, data, three, four)
            four_scaled[:] = four * factor
        for a in range(indptr[u], indptr[u + 1]):
            mark[indices[a]] = u
            slot[indices[a]] = a
        while p < len(pairs) and pairs[p, 0] == u:
            v = pairs[p, 1]
            row = out[p]
            row[:] = 0.0
            row[:kinds] = two[v]
            row[2 * kinds] = four[v]
            state = (scaled, four_scaled, mark, slot, factors)
            _last_step(u, v, graph, weights, limits, state, row)
            p += 1
        for j in range(count):
            two[nodes[j]] = 0.0
            scaled[nodes[j]] = 0.0


@kernel()
def _last_step(
    u: int,
    v: int,
    graph: Any,
    weights: Any,
    limits: Any,
    state: Any,
    row: Any,
) -> None:
    """Gather the last step of walks over the neighbours of v; look at shared ones."""
    indptr, indices = graph
    long, hub = limits
    scaled, four, mark, slot, factors = state
    kinds = weights.shape[1]
    shared, least, second = 0, 0, 0
    five = 0.0
    for b in range(indptr[v], indptr[v + 1]):
        k = indices[b]
        degree = indptr[k + 1] - indptr[k]
        if degree <= hub:
            for c in range(kinds):
                row[kinds + c] += scaled[k, c] * weights[b, c]
        elif mark[k] == u:
            # Two-step walks through a hub were left out when u was walked from.
            for c in range(kinds):
                row[c] += weights[slot[k], c] * factors[k, c] * weights[b, c]
        if long:
            five += four[k] * weights[b, 0]
        if mark[k] == u:
            if shared == 0 or degree < least:
                second = least
                least = degree
            elif shared == 1 or degree < second:
                second = degree
            shared += 1
    row[2 * kinds + 1] = five
    row[2 * kinds + 2] = shared
    row[2 * kinds + 3] = least
    row[2 * kinds + 4] = second


@kernel()
def walk_rows(rows: Any, graph: Any, data: Any, degrees: Any, out: Any) -> None:
    """Write resource allocation and autocovariance (times volume) of whole rows.

    Parameters
    ----------
    rows : (b,) int64
    graph : (indptr, indices)
        CSR pattern, symmetric.
    data : (nnz,) float64
        Edge weights.
    degrees : (n,) float64
        Weighted degrees.
    out : (2, b, n) float32
        ``A E A`` and ``A E A E A - d d^T / vol`` with ``E = D^-1``.
    """
    indptr, indices = graph
    n = indptr.size - 1
    volume = degrees.sum()
    two = np.zeros(n)
    scaled = np.zeros(n)
    for i in range(rows.size):
        u = rows[i]
        two[:] = 0.0
        for a in range(indptr[u], indptr[u + 1]):
            k = indices[a]
            step = data[a] / degrees[k]
            for b in range(indptr[k], indptr[k + 1]):
                two[indices[b]] += step * data[b]
        for v in range(n):
            scaled[v] = two[v] / degrees[v] if degrees[v] > 0 else 0.0
        for v in range(n):
            three = 0.0
            for b in range(indptr[v], indptr[v + 1]):
                three += scaled[indices[b]] * data[b]
            out[0, i, v] = two[v]
            out[1, i, v] = three - degrees[u] * degrees[v] / volume


@kernel()
def edge_overlaps(graph: Any, out: Any) -> None:
    """Write, for every stored edge, how many neighbours its ends share.

    The end with fewer neighbours is looked through: a hub costs its neighbours'
    degrees and not its own squared.
    """
    indptr, indices = graph
    n = indptr.size - 1
    mark = np.full(n, -1, dtype=np.int64)
    for u in range(n):
        degree = indptr[u + 1] - indptr[u]
        for a in range(indptr[u], indptr[u + 1]):
            mark[indices[a]] = u
        for a in range(indptr[u], indptr[u + 1]):
            v = indices[a]
            other = indptr[v + 1] - indptr[v]
            if other > degree or (other == degree and v > u):
                continue
            shared = 0
            for b in range(indptr[v], indptr[v + 1]):
                shared += mark[indices[b]] == u
            out[a] = shared
            back = np.searchsorted(indices[indptr[v] : indptr[v + 1]], u)
            out[indptr[v] + back] = shared
