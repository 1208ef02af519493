"""Walks between the two nodes of given pairs, several kinds of walk in one pass.

A kind of walk is a symmetric weight per edge and a factor per node: its value at a
pair is the sum over walks of the product of both. For row u the first two steps are
pushed into an (n, kinds) buffer; the last step of a walk is a gather over the
neighbours of v, only for the pairs wanted. Memory is O(n x kinds) per thread.

The second half has one kind, of weights that are learned: walks of one to three edges
with their gradient, and a readout of them. What the weights mean, and how a step hides
edges, is decided by ``nn.readout``.
"""

from __future__ import annotations

import math

import numpy as np

from gelato.kernels.compiled import kernel

_KINDS = 6
"""Kinds of walk; spelled out below, because numba keeps tuples in registers."""
_TOGETHER = 32  # rows that take long walks side by side


@kernel()
def _six(x):
    return (x[0], x[1], x[2], x[3], x[4], x[5])


@kernel()
def _product(a, b):
    return (
        a[0] * b[0],
        a[1] * b[1],
        a[2] * b[2],
        a[3] * b[3],
        a[4] * b[4],
        a[5] * b[5],
    )


@kernel()
def _sum(a, b):
    return (
        a[0] + b[0],
        a[1] + b[1],
        a[2] + b[2],
        a[3] + b[3],
        a[4] + b[4],
        a[5] + b[5],
    )


@kernel()
def _two_steps(u, graph, weights, factors, hub, two, nodes):
    """Add the two-step walks from u to ``two``; return how many nodes they reach."""
    indptr, indices = graph
    count = 0
    for a in range(indptr[u], indptr[u + 1]):
        k = indices[a]
        if indptr[k + 1] - indptr[k] > hub:
            continue
        step = _product(_six(weights[a]), _six(factors[k]))
        for b in range(indptr[k], indptr[k + 1]):
            v = indices[b]
            # Kind 0 weighs every edge: 0 there means not reached before.
            if two[v, 0] == 0.0:
                nodes[count] = v
                count += 1
            more = _sum(_six(two[v]), _product(step, _six(weights[b])))
            for c in range(_KINDS):
                two[v, c] = more[c]
    return count


@kernel()
def times_columns(graph, values, out):
    """Write a sparse matrix times a block of columns.

    One pass over the edges serves all columns. Each is summed by itself, in the order
    of the neighbours and in double precision: its bits do not depend on the others.

    Parameters
    ----------
    graph : (indptr, indices, data)
        CSR of a square matrix.
    values, out : (n, b) float
        The columns, and what they become.
    """
    indptr, indices, data = graph
    width = values.shape[1]
    total = np.empty(width)
    for v in range(indptr.size - 1):
        total[:] = 0.0
        for slot in range(indptr[v], indptr[v + 1]):
            weight, source = data[slot], values[indices[slot]]
            for c in range(width):
                total[c] += np.float64(weight * source[c])
        row = out[v]
        for c in range(width):
            row[c] = total[c]


@kernel()
def _four_steps(pairs, p, graph, weights, factors, hub: int):
    """Return walks of four steps, kind 0, from the next rows of pairs to all nodes.

    All edges are visited: by many rows at a time, and with small numbers.
    """
    indptr, indices = graph
    n = indptr.size - 1
    rows = np.empty(_TOGETHER, dtype=np.int64)
    width = 0
    while p < len(pairs) and width < _TOGETHER:
        if width == 0 or rows[width - 1] != pairs[p, 0]:
            rows[width] = pairs[p, 0]
            width += 1
        p += 1
    once, again = np.zeros((n, width), np.float32), np.empty((n, width), np.float32)
    two, nodes = np.zeros((n, _KINDS)), np.empty(n, dtype=np.int32)
    for i in range(width):
        count = _two_steps(rows[i], graph, weights, factors, hub, two, nodes)
        for j in range(count):
            once[nodes[j], i] = two[nodes[j], 0] * factors[nodes[j], 0]
            two[nodes[j]] = 0.0
    walk = (indptr, indices, weights[:, 0].astype(np.float32))
    times_columns(walk, once, again)
    for v in range(n):
        factor = np.float32(factors[v, 0])
        for i in range(width):
            again[v, i] *= factor
    times_columns(walk, again, once)
    by_row = np.empty((width, n), dtype=np.float32)
    for v in range(n):
        for i in range(width):
            by_row[i, v] = once[v, i]
    return by_row


@kernel()
def walks_of_pairs(pairs, graph, weights, factors, limits, out):
    """Write the walks of two to five steps that join pairs, and who joins them.

    Parameters
    ----------
    pairs : (p, 2) int64
        Sorted by the first node.
    graph : (indptr, indices)
        CSR pattern, symmetric.
    weights : (nnz, _KINDS) float64
        A weight per edge and kind; those of kind 0 are positive.
    factors : (n, _KINDS) float64
        A factor per node that a walk passes, and kind; those of kind 0 are positive.
    limits : (long, hub)
        Whether to walk four and five steps (kind 0 only), and the most neighbours of
        a node that walks of three steps pass through.
    out : (p, 2 * _KINDS + 5) float64
        Two-step walks by kind, three-step walks by kind, walks of four and of five
        steps, how many nodes are shared, and the smallest and the second smallest
        degree among these (0 where there are none).
    """
    indptr, indices = graph
    long, hub = limits
    n = indptr.size - 1
    two, scaled = np.zeros((n, _KINDS)), np.zeros((n, _KINDS))
    block = np.zeros((1, n), dtype=np.float32)
    four, factor = block[0], factors[:, 0].astype(np.float32)
    four_scaled = np.zeros_like(factor)
    nodes = np.empty(n, dtype=np.int32)
    mark = np.full(n, -1, dtype=np.int64)
    slot = np.empty(n, dtype=np.int64)
    p = 0
    at = _TOGETHER
    while p < len(pairs):
        u = pairs[p, 0]
        count = _two_steps(u, graph, weights, factors, hub, two, nodes)
        for j in range(count):
            for c in range(_KINDS):
                scaled[nodes[j], c] = two[nodes[j], c] * factors[nodes[j], c]
        if long:
            if at == _TOGETHER:
                block = _four_steps(pairs, p, graph, weights, factors, hub)
                at = 0
            four = block[at]
            four_scaled[:] = four * factor
            at += 1
        for a in range(indptr[u], indptr[u + 1]):
            mark[indices[a]] = u
            slot[indices[a]] = a
        while p < len(pairs) and pairs[p, 0] == u:
            v = pairs[p, 1]
            row = out[p]
            for c in range(_KINDS):
                row[c] = two[v, c]
            row[2 * _KINDS] = four[v]
            state = (scaled, four_scaled, mark, slot, factors)
            _last_step(u, v, graph, weights, limits, state, row)
            p += 1
        for j in range(count):
            two[nodes[j]] = 0.0
            scaled[nodes[j]] = 0.0


@kernel()
def _last_step(u, v, graph, weights, limits, state, row):
    """Gather the last step of walks over the neighbours of v; look at shared ones."""
    indptr, indices = graph
    long, hub = limits
    scaled, four, mark, slot, factors = state
    shared, least, second = 0, 0, 0
    five = 0.0
    three = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for b in range(indptr[v], indptr[v + 1]):
        k = indices[b]
        joins = mark[k] == u
        # Two-step walks through a hub were left out when u was walked from.
        if indptr[k + 1] - indptr[k] > hub:
            if joins:
                for c in range(_KINDS):
                    row[c] += weights[slot[k], c] * factors[k, c] * weights[b, c]
        else:
            three = _sum(three, _product(_six(scaled[k]), _six(weights[b])))
        if long:
            five += four[k] * weights[b, 0]
        if joins:
            degree = indptr[k + 1] - indptr[k]
            if shared == 0 or degree < least:
                second = least
                least = degree
            elif shared == 1 or degree < second:
                second = degree
            shared += 1
    for c in range(_KINDS):
        row[_KINDS + c] = three[c]
    row[2 * _KINDS + 1] = five
    row[2 * _KINDS + 2] = shared
    row[2 * _KINDS + 3] = least
    row[2 * _KINDS + 4] = second


@kernel()
def walk_rows(rows, graph, data, degrees, out):
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
    for first in range(0, rows.size, _TOGETHER):
        width = min(_TOGETHER, rows.size - first)
        two, scaled = np.zeros((n, width)), np.empty((n, width))
        for i in range(width):
            u = rows[first + i]
            for a in range(indptr[u], indptr[u + 1]):
                k = indices[a]
                step = data[a] / degrees[k]
                for b in range(indptr[k], indptr[k + 1]):
                    two[indices[b], i] += step * data[b]
        for v in range(n):
            degree = degrees[v]
            for i in range(width):
                scaled[v, i] = two[v, i] / degree if degree > 0 else 0.0
                out[0, first + i, v] = two[v, i]
        times_columns((indptr, indices, data), scaled, two)
        for v in range(n):
            for i in range(width):
                chance = degrees[rows[first + i]] * degrees[v] / volume
                out[1, first + i, v] = two[v, i] - chance


@kernel()
def edge_overlaps(graph, out):
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


# Multiply and add may be one instruction; sums keep their order.
_FAST = {"contract"}
EPSILON = 1e-4
"""Added to sums of walks before their logarithm is taken."""
LEAST_DEGREE = 1e-2
"""Added to weighted degrees before their logarithm is taken."""


@kernel(fastmath=_FAST, inline="always")
def _push(u, graph, one, two):
    """Add the walks of one and of two edges from u to two buffers."""
    indptr, indices, weights, factors = graph
    for a in range(indptr[u], indptr[u + 1]):
        k = indices[a]
        one[k] = weights[a]
        step = weights[a] * factors[k]
        if step != 0:
            for b in range(indptr[k], indptr[k + 1]):
                two[indices[b]] += step * weights[b]


@kernel(inline="always")
def _clear(u, graph, one, two):
    """Zero what :func:`_push` wrote."""
    indptr, indices = graph[0], graph[1]
    for a in range(indptr[u], indptr[u + 1]):
        k = indices[a]
        one[k] = 0
        for b in range(indptr[k], indptr[k + 1]):
            two[indices[b]] = 0


@kernel(fastmath=_FAST, inline="always")
def _gather(v, graph, two):
    """Return the walks of three edges that end at v."""
    indptr, indices, weights, factors = graph
    total = weights.dtype.type(0)
    for b in range(indptr[v], indptr[v + 1]):
        k = indices[b]
        total += two[k] * factors[k] * weights[b]
    return total


@kernel()
def walk_pairs(first, last, graph, pairs, out):
    """Sum the walks that join the pairs of rows ``first .. last - 1``.

    Parameters
    ----------
    first, last : int
        Bounds of the rows.
    graph : tuple
        ``(indptr, indices, weights, factors)``, symmetric.
    pairs : tuple
        ``(begin, offsets, columns)``, as in ``walk_training``.
    out : (K, 3) array
        Walks of one, two and three edges, row u at ``offsets[u]``.
    """
    begin, offsets, columns = pairs
    one = np.zeros(graph[3].shape[0], graph[2].dtype)
    two = np.zeros_like(one)
    for u in range(first, last):
        if offsets[u + 1] == offsets[u]:
            continue
        _push(u, graph, one, two)
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            out[offsets[u] + i, 0] = one[v]
            out[offsets[u] + i, 1] = two[v]
            out[offsets[u] + i, 2] = _gather(v, graph, two)
        _clear(u, graph, one, two)


@kernel(fastmath=_FAST)
def pull_pairs(first, last, graph, pairs, gradient, by_slot, by_node):
    """Add the gradient of rows ``first .. last - 1`` to two buffers.

    Parameters
    ----------
    first, last, graph, pairs
        As for :func:`walk_pairs`.
    gradient : (K, 3) array
        With respect to the walks of one, two and three edges.
    by_slot : (nnz,) array
        Gradient with respect to each stored weight.
    by_node : (n,) array
        Gradient with respect to each factor.
    """
    indptr, indices, weights, factors = graph
    begin, offsets, columns = pairs
    n = factors.shape[0]
    one, two = np.zeros(n, weights.dtype), np.zeros(n, weights.dtype)
    p, q = np.zeros_like(one), np.zeros_like(two)
    for u in range(first, last):
        if offsets[u + 1] == offsets[u]:
            continue
        _push(u, graph, one, two)
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            p[v] += gradient[offsets[u] + i, 0]
            q[v] += gradient[offsets[u] + i, 1]
            g = gradient[offsets[u] + i, 2]
            for b in range(indptr[v], indptr[v + 1]):
                k = indices[b]
                q[k] += g * factors[k] * weights[b]
                by_slot[b] += g * two[k] * factors[k]
                by_node[k] += g * two[k] * weights[b]
        # p and q are the gradients of one- and two-edge walks now: back along edges.
        for a in range(indptr[u], indptr[u + 1]):
            k = indices[a]
            step = weights[a] * factors[k]
            total = weights.dtype.type(0)
            for b in range(indptr[k], indptr[k + 1]):
                value = q[indices[b]]
                total += weights[b] * value
                by_slot[b] += step * value
            by_slot[a] += p[k] + factors[k] * total
            by_node[k] += weights[a] * total
        _clear(u, graph, one, two)
        p[:] = 0
        q[:] = 0


@kernel(fastmath=_FAST, inline="always")
def _dot(one, two):
    """Return the product of two rows of a multiple of 4 entries.

    Four sums in a fixed order: one alone would wait for every addition.
    """
    a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for k in range(0, one.shape[0], 4):
        a += one[k] * two[k]
        b += one[k + 1] * two[k + 1]
        c += one[k + 2] * two[k + 2]
        d += one[k + 3] * two[k + 3]
    return (a + b) + (c + d)


@kernel()
def pair_cosines(pairs, factors, out):
    """Write the products of the rows of pairs, as :func:`read_rows` has them."""
    for i in range(pairs.shape[0]):
        out[i] = _dot(factors[pairs[i, 0]], factors[pairs[i, 1]])


@kernel(fastmath=_FAST, inline="always")
def _read_out(u, v, walks, nodes, readout):
    """Return the score of a pair from its walks and its two nodes."""
    popularity, numbers, factors = nodes
    linear, inner, shift, outer = readout
    x = (
        math.log(walks[0] + EPSILON) - math.log(EPSILON),
        math.log(walks[1] + EPSILON) - math.log(EPSILON),
        math.log(walks[2] + EPSILON) - math.log(EPSILON),
        popularity[u] + popularity[v],
        numbers[u] * numbers[v],
        np.float64(_dot(factors[u], factors[v])),
    )
    score = 0.0
    for i in range(6):
        score += linear[i] * x[i]
    for j in range(outer.shape[0]):
        value = shift[j]
        for i in range(6):
            value += inner[j, i] * x[i]
        score += outer[j] * value / (1.0 + abs(value))
    return score


@kernel(fastmath=_FAST)
def read_rows(rows, above, graph, nodes, readout, out):
    """Write the scores of whole rows.

    Parameters
    ----------
    rows : (b,) int64
    above : bool
        Whether only columns above the row are wanted; the others are left alone.
    graph : tuple
        ``(indptr, indices, weights, factors)``, symmetric, float64.
    nodes : tuple
        Per node: log of the weighted degree, log of 1 + number of neighbours, and
        low-rank factors of the attributes (float32).
    readout : tuple
        ``(linear, inner, shift, outer)``: coefficients of the six features, and of
        the hidden units.
    out : (b, n) float64
    """
    n = graph[3].shape[0]
    one, two = np.zeros(n), np.zeros(n)
    for i in range(rows.shape[0]):
        u = rows[i]
        _push(u, graph, one, two)
        for v in range(u + 1 if above else 0, n):
            walks = (one[v], two[v], _gather(v, graph, two))
            out[i, v] = _read_out(u, v, walks, nodes, readout)
        _clear(u, graph, one, two)


@kernel(fastmath=_FAST)
def read_pairs(pairs, graph, nodes, readout, out):
    """Write the scores of pairs; those with the same first node should follow."""
    n = graph[3].shape[0]
    one, two = np.zeros(n), np.zeros(n)
    p = 0
    while p < pairs.shape[0]:
        u = pairs[p, 0]
        _push(u, graph, one, two)
        while p < pairs.shape[0] and pairs[p, 0] == u:
            v = pairs[p, 1]
            walks = (one[v], two[v], _gather(v, graph, two))
            out[p] = _read_out(u, v, walks, nodes, readout)
            p += 1
        _clear(u, graph, one, two)
