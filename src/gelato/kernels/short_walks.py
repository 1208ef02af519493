"""Walks of one to three edges between chosen pairs, their gradient, a readout.

Notation: W symmetric weights, f a factor per node. For row u its weights ``one = W[u]``
and the two-edge walks ``two = (W F W)[u]`` are pushed into dense buffers; a three-edge
walk to v is a gather over the neighbours of v. All lengths of a pair come from one
visit. Each pair is
visited once, at its row; memory is O(n) per thread. What the weights mean, and how a
step hides edges, is decided by ``nn.readout``.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from gelato.kernels.compiled import kernel

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
