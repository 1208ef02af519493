"""Products of node states at listed pairs, at edges, and along whole rows.

Sums run over the coordinates in ascending order, whatever the pair and whatever it is
computed with, so that a pair's score has the same bits in a list, in a row and with
its ends exchanged. Those that only training asks for may be added up in any order,
which lets the compiler use vectors.
"""

from __future__ import annotations

import numpy as np

from gelato.kernels.compiled import kernel
from gelato.kernels.tiles import add_inner_product, rows_times

_TILE = 1024  # columns whose sums stay in the first-level cache
_ANY_ORDER = {"reassoc", "contract", "nsz"}
_FEW = 64  # columns whose squared differences do
_TOGETHER = 168  # pairs whose units do, in the second-level cache


@kernel()
def pair_dots(left, right, u, v, out):  # type: ignore[no-untyped-def]
    """Write the inner product of ``left[u]`` and ``right[v]`` for every pair."""
    for p in range(u.shape[0]):
        one, two = left[u[p]], right[v[p]]
        total = 0.0
        for k in range(one.shape[0]):
            total += one[k] * two[k]
        out[p] = total


@kernel(fastmath=_ANY_ORDER)
def training_dots(left, right, u, v, out):  # type: ignore[no-untyped-def]
    """Write the same inner products, up to rounding."""
    for p in range(u.shape[0]):
        one, two = left[u[p]], right[v[p]]
        total = 0.0
        for k in range(one.shape[0]):
            total += one[k] * two[k]
        out[p] = total


@kernel()
def pair_dots_backward(left, right, u, v, gradient, by_left, by_right):  # type: ignore[no-untyped-def]
    """Add the gradients of both factors."""
    for p in range(u.shape[0]):
        g, i, j = gradient[p], u[p], v[p]
        for k in range(left.shape[1]):
            by_left[i, k] += g * right[j, k]
            by_right[j, k] += g * left[i, k]


@kernel()
def row_products(rows, left, right, above, out):  # type: ignore[no-untyped-def]
    """Write ``left[rows] @ right``; ``right`` is (width, n).

    If ``above``, columns up to the row's own are 0 and cost nothing.
    """
    n = right.shape[1]
    out[:] = 0.0
    for i in range(rows.shape[0]):
        for start in range(rows[i] + 1 if above else 0, n, _TILE):
            stop = min(start + _TILE, n)
            total = out[i, start:stop]
            for k in range(right.shape[0]):
                factor, line = left[rows[i], k], right[k, start:stop]
                for v in range(total.shape[0]):
                    total[v] += factor * line[v]


@kernel()
def mix_edges(u, v, weights, states, out):  # type: ignore[no-untyped-def]
    """Add to both ends of every edge the weighted state of its other end."""
    for e in range(u.shape[0]):
        w, i, j = weights[e], u[e], v[e]
        for k in range(states.shape[1]):
            out[i, k] += w * states[j, k]
            out[j, k] += w * states[i, k]


@kernel(fastmath=_ANY_ORDER)
def mix_edges_backward(u, v, states, gradient, by_weight):  # type: ignore[no-untyped-def]
    """Write the gradient of every edge's weight."""
    for e in range(u.shape[0]):
        i, j = u[e], v[e]
        total = 0.0
        for k in range(states.shape[1]):
            total += gradient[i, k] * states[j, k] + gradient[j, k] * states[i, k]
        by_weight[e] = total


@kernel()
def difference_net_rows(rows, states, mix, bias, weights, slope, above, out):  # type: ignore[no-untyped-def]
    """Write a one-layer net of squared differences for whole rows.

    ``out[i, v] = sum_k weights[k] leaky(bias[k] + sum_d mix[d, k] (y_ud - y_vd)^2)``
    with ``leaky(x) = max(x, slope x)``; ``mix`` is (dimensions, units). If ``above``,
    columns up to the row's own are 0 and cost nothing.
    """
    n, width = states.shape
    gaps = np.zeros((width, _FEW))
    unit = np.empty(_FEW)
    out[:] = 0.0
    for i in range(rows.shape[0]):
        for start in range(rows[i] + 1 if above else 0, n, _FEW):
            count = min(_FEW, n - start)
            for d in range(width):
                own = states[rows[i], d]
                for j in range(count):
                    gap = own - states[start + j, d]
                    gaps[d, j] = gap * gap
            total = out[i, start : start + count]
            for k in range(bias.shape[0]):
                unit[:] = bias[k]
                for d in range(width):
                    factor = mix[d, k]
                    for j in range(_FEW):
                        unit[j] += gaps[d, j] * factor
                for j in range(count):
                    total[j] += weights[k] * max(unit[j], slope * unit[j])


@kernel()
def difference_net_pairs(u, v, states, mix, bias, weights, slope, out):  # type: ignore[no-untyped-def]
    """Write the same net for listed pairs, with the same bits."""
    for p in range(u.shape[0]):
        total = 0.0
        for k in range(bias.shape[0]):
            unit = bias[k]
            for d in range(states.shape[1]):
                gap = states[u[p], d] - states[v[p], d]
                unit += gap * gap * mix[d, k]
            total += weights[k] * max(unit, slope * unit)
        out[p] = total


@kernel()
def _squared_gaps(u, v, states, gaps, squares):  # type: ignore[no-untyped-def]
    """Fill differences of pairs and their squares, (pairs, dimensions)."""
    for j in range(u.shape[0]):
        one, two = states[u[j]], states[v[j]]
        for d in range(states.shape[1]):
            gap = one[d] - two[d]
            gaps[j, d] = gap
            squares[j, d] = gap * gap


@kernel(fastmath=_ANY_ORDER)
def training_net(start, stop, u, v, net, out):  # type: ignore[no-untyped-def]
    """Write the net of :func:`difference_net_rows` for pairs, up to rounding.

    ``net`` is (states, tiles, back, bias, weights, slope), with the column tiles of the
    first layer's weights (dimensions, units) and of their transpose.
    """
    states, tiles, _, bias, weights, slope = net
    gaps = np.empty((_TOGETHER, states.shape[1]), states.dtype)
    squares, units = np.empty_like(gaps), np.empty((_TOGETHER, bias.size), states.dtype)
    for first in range(start, stop, _TOGETHER):
        last = min(first + _TOGETHER, stop)
        _squared_gaps(u[first:last], v[first:last], states, gaps, squares)
        rows_times(squares, tiles, units, 0, last - first)
        for j in range(last - first):
            unit, total = units[j], bias[0] * 0
            for k in range(bias.size):
                value = unit[k] + bias[k]
                total += weights[k] * max(value, slope * value)
            out[first + j] = total


@kernel(fastmath=_ANY_ORDER)
def training_net_backward(start, stop, u, v, net, gradient, by_state, by_mix, by_unit):  # type: ignore[no-untyped-def]
    """Add the gradients of states, of the first layer in tiles, and of units.

    The rows of ``by_unit`` are those of the first layer's bias and of the last weights.
    """
    states, tiles, back, bias, weights, slope = net
    gaps = np.empty((_TOGETHER, states.shape[1]), states.dtype)
    squares, through = np.empty_like(gaps), np.empty_like(gaps)
    units = np.empty((_TOGETHER, bias.size), states.dtype)
    of_bias, of_weight = by_unit[0], by_unit[1]
    whole = slope / slope  # a plain 1 would turn single precision into double
    for first in range(start, stop, _TOGETHER):
        last = min(first + _TOGETHER, stop)
        count = last - first
        _squared_gaps(u[first:last], v[first:last], states, gaps, squares)
        rows_times(squares, tiles, units, 0, count)
        for j in range(count):
            rate, unit = gradient[first + j], units[j]
            for k in range(bias.size):
                value = unit[k] + bias[k]
                of_weight[k] += rate * max(value, slope * value)
                unit[k] = rate * weights[k] * (whole if value > 0 else slope)
            for k in range(bias.size):
                of_bias[k] += unit[k]
        add_inner_product(units, squares, by_mix, 0, count)
        rows_times(units, back, through, 0, count)
        for j in range(count):
            one, two = by_state[u[first + j]], by_state[v[first + j]]
            for d in range(states.shape[1]):
                slant = 2 * gaps[j, d] * through[j, d]
                one[d] += slant
                two[d] -= slant


@kernel()
def shifted_net_pairs(u, v, states, mix, bias, weights, slope, shifts, out):  # type: ignore[no-untyped-def]
    """Write the same net where each pair adds a row of ``shifts`` to its units."""
    for p in range(u.shape[0]):
        total = 0.0
        for k in range(bias.shape[0]):
            unit = bias[k] + shifts[p, k]
            for d in range(states.shape[1]):
                gap = states[u[p], d] - states[v[p], d]
                unit += gap * gap * mix[d, k]
            total += weights[k] * max(unit, slope * unit)
        out[p] = total
