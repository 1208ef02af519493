"""From states of propagations to scores of pairs: near ones summed, far ones closed.

A pair is near if one end is within T edges of the other; only then do its states
differ from the backgrounds. Near pairs (u, v), u <= v, are listed by row.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

from gelato.kernels.matrix_tiles import rows_times

_PART = 48


@numba.njit(cache=True, nogil=True)
def ball_sizes(indptr, indices, sources, limit):
    """Return how many nodes each source reaches, itself included."""
    n = indptr.shape[0] - 1
    hops, queue = np.full(n, -1, np.int32), np.empty(n, np.int32)
    sizes = np.empty(sources.shape[0], np.int64)
    for d in range(sources.shape[0]):
        sizes[d] = _reach(indptr, indices, sources[d], limit, hops, queue)
        for i in range(sizes[d]):
            hops[queue[i]] = -1
    return sizes


@numba.njit(cache=True, nogil=True)
def _reach(indptr, indices, source, limit, hops, queue):
    """List nodes within ``limit`` edges, with their ``hops``; return their number."""
    hops[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        x = queue[head]
        head += 1
        if hops[x] == limit:
            break
        for s in range(indptr[x], indptr[x + 1]):
            if hops[indices[s]] < 0:
                hops[indices[s]] = hops[x] + 1
                queue[tail] = indices[s]
                tail += 1
    return tail


@numba.njit(cache=True, nogil=True)
def near_columns(indptr, indices, limit, start, stop, counts, columns):
    """Count or list near columns v >= u of rows ``start .. stop - 1``.

    ``counts[u - start]`` is written; ``columns`` is filled, sorted by row, unless it
    is empty.
    """
    n = indptr.shape[0] - 1
    hops, queue = np.full(n, -1, np.int32), np.empty(n, np.int32)
    at = 0
    for u in range(start, stop):
        tail = _reach(indptr, indices, u, limit, hops, queue)
        found = 0
        for i in range(tail):
            hops[queue[i]] = -1
            if queue[i] >= u:
                queue[found] = queue[i]
                found += 1
        counts[u - start] = found
        if columns.shape[0]:
            columns[at : at + found] = np.sort(queue[:found])
            at += found


@numba.njit(cache=True, nogil=True)
def find_column(columns, low, high, wanted):
    """Return where a sorted row holds a column, -1 if it does not."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and columns[low] == wanted else -1


@numba.njit(cache=True, nogil=True)
def find_pairs(indptr, columns, pairs, out):
    """Write where pairs (u, v), u <= v, are listed, -1 where they are not."""
    for p in range(pairs.shape[0]):
        u, v = pairs[p]
        out[p] = find_column(columns, indptr[u], indptr[u + 1], v)


@numba.njit(cache=True, nogil=True)
def add_states(reach, sources, states, indptr, columns, rows, sums, hits):
    """Add the states of propagations to the sums of listed pairs.

    Parameters
    ----------
    reach : tuple
        ``start``, ``nodes``, and each node's row in ``states``.
    sources : (D,) int64
        Source of every list.
    states : (R, w)
        Last states.
    indptr, columns
        Listed pairs (u, v), u <= v, by row.
    rows : tuple
        First row and end: of these, ``sums`` and ``hits`` hold the pairs.
    sums, hits
        A pair's two states are added, and counted.
    """
    start, nodes, found = reach
    low, high = rows
    offset, width = indptr[low], sums.shape[1]
    for d in range(sources.shape[0]):
        for e in range(start[d], start[d + 1]):
            u, v = min(sources[d], nodes[e]), max(sources[d], nodes[e])
            if u < low or u >= high:
                continue
            at = find_column(columns, indptr[u], indptr[u + 1], v)
            if at < 0:
                continue
            for _ in range(2 if u == v else 1):  # both directions are the same
                hits[at - offset] += 1
                for k in range(width):
                    sums[at - offset, k] += states[found[e], k]


@numba.njit(cache=True, nogil=True)
def net_scores(sums, tiles, shift, weights, last, out):
    """Score pairs by a net of one hidden layer on the mean of their two states."""
    units = shift.shape[0]
    means = np.empty((_PART, sums.shape[1]), sums.dtype)
    hidden = np.empty((_PART, units), sums.dtype)
    for first in range(0, sums.shape[0], _PART):
        count = min(_PART, sums.shape[0] - first)
        for i in range(count):
            for k in range(sums.shape[1]):
                means[i, k] = sums[first + i, k] * sums.dtype.type(0.5)
        rows_times(means, tiles, hidden, 0, count)
        for i in range(count):
            total = 0.0
            for k in range(units):
                value = hidden[i, k] + shift[k]
                total += np.float64(weights[k]) * max(value, sums.dtype.type(0))
            out[first + i] = total + last


@numba.njit(cache=True, nogil=True)
def far_row(u, halves, shift, weights, last, out):
    """Score a node with all nodes as if all were far; ``halves`` is (units, n)."""
    zero = halves.dtype.type(0)
    out[:] = 0.0
    for k in range(halves.shape[0]):
        own, others, weight = halves[k, u], halves[k], np.float64(weights[k])
        for v in range(out.shape[0]):
            out[v] += weight * max(own + others[v] + shift[k], zero)
    for v in range(out.shape[0]):
        out[v] = np.float32(out[v] + last)


@numba.njit(cache=True, nogil=True)
def far_pairs(pairs, halves, shift, weights, last, out):
    """Score listed pairs as if all were far."""
    zero = halves.dtype.type(0)
    for p in range(pairs.shape[0]):
        u, v = pairs[p]
        total = 0.0
        for k in range(halves.shape[0]):
            value = halves[k, u] + halves[k, v] + shift[k]
            total += np.float64(weights[k]) * max(value, zero)
        out[p] = np.float32(total + last)
