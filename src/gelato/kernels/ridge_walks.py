"""Rows of the ridge walk: neighbours' rows of a symmetric inverse, added up.

With P the inverse, row u of ``A P`` is a sum of rows of P, and row u of ``P A`` a
gather from row u of P. Both are written for a block of rows; nothing is n x n but P.
"""

from __future__ import annotations

import numpy as np

from gelato.kernels.compiled import kernel
from gelato.kernels.pair_walks import times_columns

_TOGETHER = 32  # rows that are gathered side by side


@kernel()
def ridge_rows(rows, graph, inverse, diagonal, out):
    """Write both halves of the ridge walk's score of whole rows.

    Parameters
    ----------
    rows : (b,) int64
        Rows to score.
    graph : (indptr, indices, data)
        CSR of the symmetric adjacency matrix A.
    inverse : (n, n) float
        P, symmetric.
    diagonal : (n,) float64
        Diagonal of P.
    out : (2, b, n) float
        ``out[0, i, v] = (A B)[u, v]`` and ``out[1, i, v] = (A B)[v, u]`` with
        ``B = -P / diag(P)`` by columns and a zero diagonal.
    """
    indptr, indices, data = graph
    n = indptr.size - 1
    total = np.empty(n, dtype=inverse.dtype)
    for first in range(0, rows.size, _TOGETHER):
        some = slice(first, first + _TOGETHER)
        _back(rows[some], graph, inverse, diagonal, out[1, some])
    for i in range(rows.size):
        u = rows[i]
        total[:] = 0
        for slot in range(indptr[u], indptr[u + 1]):
            row, weight = inverse[indices[slot]], inverse.dtype.type(data[slot])
            for v in range(n):
                total[v] += weight * row[v]
        for v in range(n):
            out[0, i, v] = -total[v] / diagonal[v]
        for slot in range(indptr[u], indptr[u + 1]):
            # B has a zero diagonal: the step v -> v does not count.
            out[0, i, indices[slot]] += data[slot]
            out[1, i, indices[slot]] += data[slot]


@kernel()
def _back(rows, graph, inverse, diagonal, out):
    """Write the second half, ``(A B)[v, u]``, of a few rows side by side."""
    n = diagonal.size
    own, sums = np.empty((n, rows.size), inverse.dtype), np.empty((n, rows.size))
    for v in range(n):
        for i in range(rows.size):
            own[v, i] = inverse[rows[i], v]
    times_columns(graph, own, sums)
    for v in range(n):
        for i in range(rows.size):
            out[i, v] = -sums[v, i] / diagonal[rows[i]]


@kernel()
def series_columns(graph, coefficients, start, out):
    """Write a Chebyshev series in ``2 N^2 - I`` times a block of columns.

    ``T_0 = I``, ``T_1 = M``, ``T_k+1 = 2 M T_k - T_k-1``. Columns do not mix: their
    bits do not depend on which ones share a block.

    Parameters
    ----------
    graph : (indptr, indices, data)
        CSR of the symmetric normalised matrix N.
    coefficients : (k,) float64
        Of T_0, T_1 and so on.
    start, out : (n, b) float64
        The columns, and what they become.
    """
    n, width = start.shape
    before, now = start.copy(), np.empty_like(start)
    once, square = np.empty_like(start), np.empty_like(start)
    times_columns(graph, before, once)
    times_columns(graph, once, square)
    for v in range(n):
        for c in range(width):
            now[v, c] = 2.0 * square[v, c] - before[v, c]
            out[v, c] = coefficients[0] * before[v, c] + coefficients[1] * now[v, c]
    for k in range(2, coefficients.size):
        times_columns(graph, now, once)
        times_columns(graph, once, square)
        for v in range(n):
            for c in range(width):
                term = 4.0 * square[v, c] - 2.0 * now[v, c] - before[v, c]
                out[v, c] += coefficients[k] * term
                before[v, c] = term
        before, now = now, before


@kernel()
def _spread(k, amount, graph, residual, seen, nodes, count):
    """Take ``amount * N^2[k]`` off the residual; list nodes that were not seen."""
    indptr, indices, data = graph
    for a in range(indptr[k], indptr[k + 1]):
        middle = indices[a]
        part = amount * data[a]
        for b in range(indptr[middle], indptr[middle + 1]):
            v = indices[b]
            residual[v] -= part * data[b]
            if not seen[v]:
                seen[v] = True
                nodes[count] = v
                count += 1
    return count


@kernel()
def push_columns(columns, graph, pivots, mu, limits, out):
    """Solve ``(N^2 + mu I) x = e_u`` for single columns, locally and approximately.

    Gauss-Southwell by rounds: every node whose residual exceeds the tolerance gives
    its residual to ``x`` and spreads it over its two-step neighbourhood; what is
    smaller stays. The cost follows the nodes that matter to u, not n.

    Parameters
    ----------
    columns : (b,) int64
        Which columns of the inverse.
    graph : (indptr, indices, data)
        CSR of the symmetric normalised matrix N.
    pivots : (n,) float64
        Diagonal of ``N^2 + mu I``.
    mu : float
        The ridge.
    limits : (tolerance, rounds)
        Residuals up to ``tolerance * pivot`` stay; at most so many rounds.
    out : (indptr, indices, data)
        Filled with CSR rows; ``indices`` and ``data`` have room for ``indptr[-1]``
        as first given: a column that does not fit keeps its largest entries.

    Returns
    -------
    int
        Entries filled.
    """
    tolerance, rounds = limits
    out_indptr, out_indices, out_data = out
    n = pivots.size
    x, residual = np.zeros(n), np.zeros(n)
    seen = np.zeros(n, dtype=np.bool_)
    nodes = np.empty(n, dtype=np.int32)
    filled = 0
    out_indptr[0] = 0
    for i in range(columns.size):
        u = columns[i]
        residual[u] = 1.0
        seen[u] = True
        nodes[0] = u
        count = 1
        for _ in range(rounds):
            moved = False
            stop = count
            for j in range(stop):
                k = nodes[j]
                amount = residual[k] / pivots[k]
                if abs(amount) > tolerance:
                    moved = True
                    x[k] += amount
                    residual[k] -= mu * amount
                    count = _spread(k, amount, graph, residual, seen, nodes, count)
            if not moved:
                break
        for j in range(count):
            k = nodes[j]
            if x[k] != 0.0 and filled < out_data.size:
                out_indices[filled] = k
                out_data[filled] = x[k]
                filled += 1
            x[k] = residual[k] = 0.0
            seen[k] = False
        out_indptr[i + 1] = filled
    return filled


@kernel()
def ridge_pairs(pairs, graph, inverse, diagonal, out):
    """Write what the ridge walk says of pairs that are not edges, sorted by node.

    ``(A B)[u, v]`` and ``(A B)[v, u]``; the partial correlation
    ``-P_uv / sqrt(P_uu P_vv)``; and the sum of both halves with each neighbour over
    the root of its degree. The rest is as for :func:`ridge_rows`.
    """
    indptr, indices, data = graph
    n = indptr.size - 1
    total = np.zeros(n, dtype=inverse.dtype)
    even = np.zeros(n, dtype=inverse.dtype)
    roots = np.sqrt(np.maximum(np.diff(indptr), 1)).astype(inverse.dtype)
    p = 0
    while p < len(pairs):
        u = pairs[p, 0]
        total[:] = 0
        even[:] = 0
        for slot in range(indptr[u], indptr[u + 1]):
            row, weight = inverse[indices[slot]], inverse.dtype.type(data[slot])
            less = weight / roots[indices[slot]]
            for v in range(n):
                total[v] += weight * row[v]
                even[v] += less * row[v]
        own = inverse[u]
        while p < len(pairs) and pairs[p, 0] == u:
            v = pairs[p, 1]
            back, even_back = 0.0, 0.0
            for slot in range(indptr[v], indptr[v + 1]):
                amount = data[slot] * own[indices[slot]]
                back += amount
                even_back += amount / roots[indices[slot]]
            out[p, 0] = -total[v] / diagonal[v]
            out[p, 1] = -back / diagonal[u]
            out[p, 2] = -own[v] / np.sqrt(diagonal[u] * diagonal[v])
            out[p, 3] = -even[v] / diagonal[v] - even_back / diagonal[u]
            p += 1


@kernel()
def _forward(u, graph, sparse, scale, total, even, roots):
    """Add row u of ``A B`` to zeroed buffers, from a sparse inverse."""
    indptr, indices, data = graph
    starts, nodes, entries = sparse
    for slot in range(indptr[u], indptr[u + 1]):
        k = indices[slot]
        for e in range(starts[k], starts[k + 1]):
            v = nodes[e]
            if v != k:  # B has a zero diagonal
                step = entries[e] * scale[v]
                total[v] += data[slot] * step
                even[v] += data[slot] * (roots[k] * step)


@kernel()
def sparse_ridge_pairs(pairs, graph, sparse, diagonal, out):
    """Write what :func:`ridge_pairs` writes, from a sparse symmetric inverse.

    Parameters
    ----------
    pairs, graph, diagonal, out
        As there.
    sparse : (indptr, indices, data)
        CSR of P with sorted indices; what is not stored is 0.
    """
    indptr, indices, data = graph
    starts, nodes, entries = sparse
    n = indptr.size - 1
    scale, flat = -1.0 / diagonal, 1.0 / np.sqrt(diagonal)
    roots = 1.0 / np.sqrt(np.maximum(np.diff(indptr), 1).astype(np.float64))
    total, even, own = np.zeros(n), np.zeros(n), np.zeros(n)
    p = 0
    while p < len(pairs):
        u = pairs[p, 0]
        _forward(u, graph, sparse, scale, total, even, roots)
        for e in range(starts[u], starts[u + 1]):
            own[nodes[e]] = entries[e]
        while p < len(pairs) and pairs[p, 0] == u:
            v = pairs[p, 1]
            back, even_back = 0.0, 0.0
            for slot in range(indptr[v], indptr[v + 1]):
                k = indices[slot]
                if k != u:
                    step = own[k] * scale[u]
                    back += data[slot] * step
                    even_back += data[slot] * (roots[k] * step)
            out[p, 0] = np.float32(total[v])
            out[p, 1] = np.float32(back)
            out[p, 2] = np.float32(-(flat[u] * own[v] * flat[v]))
            out[p, 3] = np.float32(np.float32(even[v]) + np.float32(even_back))
            p += 1
        for slot in range(indptr[u], indptr[u + 1]):
            k = indices[slot]
            for e in range(starts[k], starts[k + 1]):
                total[nodes[e]] = even[nodes[e]] = 0.0
        for e in range(starts[u], starts[u + 1]):
            own[nodes[e]] = 0.0


@kernel()
def sparse_ridge_row(u, graph, sparse, scale, work):
    """Return the nodes that the ridge walk joins to u, and their scores.

    ``work`` has two buffers of zeros (left as such), a stamp per node that no row
    has used, and room for n nodes.
    """
    indptr, indices, data = graph
    starts, nodes, entries = sparse
    total, back, stamp, found = work
    count = 0
    for slot in range(indptr[u], indptr[u + 1]):
        k = indices[slot]
        for e in range(starts[k], starts[k + 1]):
            v = nodes[e]
            if stamp[v] != u:
                stamp[v] = u
                found[count] = v
                count += 1
            if v != k:
                total[v] += data[slot] * (entries[e] * scale[v])
    for e in range(starts[u], starts[u + 1]):
        k = nodes[e]
        if k == u:
            continue
        step = entries[e] * scale[u]
        for slot in range(indptr[k], indptr[k + 1]):
            v = indices[slot]
            if stamp[v] != u:
                stamp[v] = u
                found[count] = v
                count += 1
            back[v] += data[slot] * step
    scores = np.empty(count, dtype=np.float32)
    for j in range(count):
        v = found[j]
        scores[j] = np.float32(total[v]) + np.float32(back[v])
        total[v] = back[v] = 0.0
    return found[:count], scores


@kernel()
def sparse_ridge_rows(rows, graph, sparse, diagonal, out):
    """Write the ridge walk's scores of whole rows, from a sparse inverse."""
    n = graph[0].size - 1
    scale = -1.0 / diagonal
    stamp, found = np.full(n, -1, dtype=np.int64), np.empty(n, dtype=np.int32)
    work = (np.zeros(n), np.zeros(n), stamp, found)
    for i in range(rows.size):
        nodes, scores = sparse_ridge_row(rows[i], graph, sparse, scale, work)
        out[i] = 0.0
        for j in range(nodes.size):
            out[i, nodes[j]] = scores[j]
