"""Sums of learned walks on many subgraphs, and their gradients.

The gradient is asked only where R has entries. For the traces it is a polynomial in R,
evaluated by Horner's rule with sparse rows on the left; for the entries at the ends of
a pair, a sum of products of vectors: walks before a step times walks after it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from gelato.kernels.walk_profiles import POWERS, follow, step

_LONGEST = POWERS + 1


@numba.njit(cache=True, nogil=True)
def _trace_gradient(rows: Any, columns: Any, values: Any, g: Any, flat: Any) -> Any:
    """Return the transposed gradient of the traces: the sum of t g_t R^(t-1)."""
    count = rows.size - 1
    size = count * count
    now = flat[0, :size].reshape(count, count)
    then = flat[1, :size].reshape(count, count)
    now[:] = 0
    factor = _LONGEST * g[POWERS - 1]
    for i in range(count):
        for slot in range(rows[i], rows[i + 1]):
            now[i, columns[slot]] = factor * values[slot]
    for length in range(POWERS, 1, -1):
        for i in range(count):
            now[i, i] += length * g[length - 2]
        step(rows, columns, values, now, then)
        now, then = then, now
    return now


@numba.njit(cache=True, nogil=True)
def _walks_before(rows: Any, columns: Any, values: Any, end: int, out: Any) -> None:
    """Write the row of one end of R^0 .. R^7."""
    out[:] = 0
    out[0, end] = 1
    for k in range(1, _LONGEST):
        for i in range(rows.size - 1):
            for slot in range(rows[i], rows[i + 1]):
                out[k, columns[slot]] += out[k - 1, i] * values[slot]


@numba.njit(cache=True, nogil=True)
def _walks_after(
    rows: Any, columns: Any, values: Any, end: int, g: Any, out: Any
) -> None:
    """Write what follows step 1 .. 8 of walks from one end, times its gradient."""
    out[:] = 0
    for k in range(_LONGEST - 1, -1, -1):
        if k < _LONGEST - 1:
            for i in range(rows.size - 1):
                total = out[k, i]
                for slot in range(rows[i], rows[i + 1]):
                    total += values[slot] * out[k + 1, columns[slot]]
                out[k, i] = total
        if k > 0:  # walks of one step are not summed
            out[k, end] += g[0, k - 1]
            out[k, 1 - end] += g[1, k - 1]


@numba.njit(cache=True, nogil=True)
def _unfollow(
    rows: Any, columns: Any, values: Any, g: Any, flat: Any, room: Any, out: Any
) -> None:
    """Write the gradient at every entry of R, given that of its sums."""
    count = rows.size - 1
    traces = _trace_gradient(rows, columns, values, g[2], flat)
    for i in range(count):
        for slot in range(rows[i], rows[i + 1]):
            out[slot] = traces[columns[slot], i]
    before, after = room[0, :, :count], room[1, :, :count]
    for end in range(2):
        _walks_before(rows, columns, values, end, before)
        _walks_after(rows, columns, values, end, g, after)
        for i in range(count):
            for slot in range(rows[i], rows[i + 1]):
                j = columns[slot]
                total = out[slot]
                for k in range(_LONGEST):
                    total += before[k, i] * after[k, j]
                out[slot] = total


@numba.njit(cache=True, nogil=True)
def _one(packed: Any, pair: int, rows: Any, columns: Any) -> Any:
    """Write the CSR of one subgraph with nodes from 0; return its entries' bounds."""
    start, all_rows, all_columns = packed
    first, last = start[pair], start[pair + 1]
    begin, end = all_rows[first], all_rows[last]
    for i in range(last - first + 1):
        rows[i] = all_rows[first + i] - begin
    for slot in range(begin, end):
        columns[slot - begin] = all_columns[slot] - first
    return last - first, begin, end


@numba.njit(cache=True, nogil=True)
def _room(packed: Any, first: int, last: int) -> Any:
    """Return room for the largest of some subgraphs: rows, columns, nodes."""
    start, rows, _ = packed
    nodes = entries = 1
    for pair in range(first, last):
        nodes = max(nodes, start[pair + 1] - start[pair])
        entries = max(entries, rows[start[pair + 1]] - rows[start[pair]])
    return np.empty(nodes + 1, np.int64), np.empty(entries, np.int64), nodes


@numba.njit(cache=True, nogil=True)
def follow_packed(packed: Any, values: Any, first: int, last: int, out: Any) -> None:
    """Write returns, crossings and traces of R^2 .. R^8 of some subgraphs.

    Parameters
    ----------
    packed : (start, rows, columns)
        Subgraphs one after another: their first nodes, and the CSR of all.
    values : (channels, e)
        Entries of R, by channel.
    first, last : int
        Which subgraphs.
    out : (p, channels, 3, POWERS)
        By subgraph and channel.
    """
    rows, columns, most = _room(packed, first, last)
    flat = np.empty((4, most * most), values.dtype)
    for pair in range(first, last):
        count, begin, end = _one(packed, pair, rows, columns)
        for channel in range(values.shape[0]):
            own = values[channel, begin:end]
            follow(rows[: count + 1], columns, own, flat, out[pair, channel])


@numba.njit(cache=True, nogil=True)
def unfollow_packed(
    packed: Any, values: Any, gradient: Any, first: int, last: int, out: Any
) -> None:
    """Write the gradients ``(channels, e)`` of entries; see :func:`follow_packed`."""
    rows, columns, most = _room(packed, first, last)
    flat = np.empty((2, most * most), values.dtype)
    room = np.empty((2, _LONGEST, most), values.dtype)
    for pair in range(first, last):
        count, begin, end = _one(packed, pair, rows, columns)
        for channel in range(values.shape[0]):
            own = values[channel, begin:end]
            g = gradient[pair, channel]
            _unfollow(
                rows[: count + 1], columns, own, g, flat, room, out[channel, begin:end]
            )
