"""One layer of path encodings, forward and backward, part by part in the cache.

Rows are states of nodes, ordered by class: rows of one class have the same number of
neighbours, hence the same weights (see :mod:`gelato.nn.path_weights`), and their
neighbours' rows are listed one after the other, the node itself first. A row's result
depends on its inputs alone, to the last bit, and not on what other rows there are.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np

from gelato.kernels.matrix_tiles import COLUMNS, ROWS, add_small_product, rows_times
from gelato.kernels.path_vectors import LANES, gather, scatter

STATISTICS = 4  # mean, largest, smallest, deviation
_PART = 48
_LEAST_VARIANCE = 1e-6
_NORM_EPSILON = 1e-5


@numba.njit(cache=True, nogil=True)
def _gathered(states, indices, start, degree, relation, boundary, sums, squares, row):
    """Write statistics of a node's messages, then its own state."""
    width = states.shape[1]
    high, low = row[width : 2 * width], row[2 * width : 3 * width]
    for k in range(width):
        sums[k] = boundary[k]
        squares[k] = np.float64(boundary[k]) * boundary[k]
        high[k] = boundary[k]
        low[k] = boundary[k]
    for lane in range(0, width, LANES):
        gather(
            states,
            indices,
            start,
            degree,
            relation,
            lane,
            sums,
            squares,
            high,
            low,
        )
    own = indices[start]
    for k in range(width):
        mean = sums[k] / (degree + 1)
        variance = squares[k] / (degree + 1) - mean * mean
        row[k] = mean
        row[3 * width + k] = np.sqrt(max(variance, _LEAST_VARIANCE))
        row[4 * width + k] = states[own, k]


@numba.njit(cache=True, nogil=True)
def _moments(before):
    """Return the mean of a row and the inverse of its deviation."""
    width = before.shape[0]
    total = 0.0
    for k in range(width):
        total += before[k]
    mean = total / width
    spread = 0.0
    for k in range(width):
        spread += (before[k] - mean) ** 2
    return mean, 1.0 / np.sqrt(spread / width + _NORM_EPSILON)


@numba.njit(cache=True, nogil=True)
def layer_forward(states, rows, degrees, weights, out, before):
    """Write the next states of all rows to their places in ``out``.

    Parameters
    ----------
    states : (N, w)
        Table of the layer before.
    rows : tuple
        ``indices`` int32, neighbours' rows; ``class_start`` int64 (C + 1,);
        ``place`` int32, where a row's state goes; ``source`` bool, whether the row is
        a source.
    degrees : (C,) int64
        Neighbours of a row of each class, the node itself counted.
    weights : tuple
        ``relation``, ``query`` (w,); ``tiles``, column tiles of a (5w, w) matrix per
        class; ``bias``, ``gain``, ``shift`` (w,).
    out : (N', w)
        Table of this layer.
    before : (R, w)
        Rows before normalisation, for :func:`layer_backward`; not written if empty.
    """
    indices, class_start, place, source = rows
    relation, query, tiles, bias, gain, shift = weights
    width = states.shape[1]
    inputs = np.empty((_PART, (STATISTICS + 1) * width), states.dtype)
    mixed = np.empty((_PART, width), states.dtype)
    sums, squares = np.empty(width), np.empty(width)
    nothing = np.zeros(width, states.dtype)
    entry = 0
    for c in range(degrees.shape[0]):
        degree = degrees[c]
        for first in range(class_start[c], class_start[c + 1], _PART):
            count = min(_PART, class_start[c + 1] - first)
            for i in range(count):
                boundary = query if source[first + i] else nothing
                _gathered(
                    states,
                    indices,
                    entry,
                    degree,
                    relation,
                    boundary,
                    sums,
                    squares,
                    inputs[i],
                )
                entry += degree
            rows_times(inputs, tiles[c], mixed, 0, count)
            for i in range(count):
                for k in range(width):
                    mixed[i, k] += bias[k]
                mean, inverse = _moments(mixed[i])
                goal = place[first + i]
                for k in range(width):
                    value = (mixed[i, k] - mean) * inverse
                    value = value * gain[k] + shift[k]
                    out[goal, k] = max(value, 0.0) + inputs[i, STATISTICS * width + k]
                if before.shape[0]:
                    before[first + i] = mixed[i]


@numba.njit(cache=True, nogil=True)
def _through_norm(gradient, before, gain, shift, by_gain, by_shift, by_bias, out):
    """Go back through rectifier and normalisation of one row, into ``out``."""
    width = before.shape[0]
    mean, inverse = _moments(before)
    total, along = 0.0, 0.0
    for k in range(width):
        normed = (before[k] - mean) * inverse
        passed = gradient[k] if normed * gain[k] + shift[k] > 0 else 0.0
        by_gain[k] += passed * normed
        by_shift[k] += passed
        total += passed * gain[k]
        along += passed * gain[k] * normed
    for k in range(width):
        normed = (before[k] - mean) * inverse
        passed = gradient[k] if normed * gain[k] + shift[k] > 0 else 0.0
        value = inverse * (passed * gain[k] - (total + along * normed) / width)
        by_bias[k] += value
        out[k] = value


@numba.njit(cache=True, nogil=True)
def _through_statistics(row, gradient, degree, boundary, parts):
    """Turn gradients of statistics into those of messages (rows of ``parts``)."""
    width = boundary.shape[0]
    floor = parts.dtype.type(np.sqrt(_LEAST_VARIANCE))
    for k in range(width):
        mean, deviation = row[k], row[3 * width + k]
        by_variance = 0.0
        if deviation > floor:
            by_variance = gradient[3 * width + k] * 0.5 / deviation
        parts[0, k] = (gradient[k] - 2 * mean * by_variance) / (degree + 1)
        parts[1, k] = 2 * by_variance / (degree + 1)
        # Where the boundary is as extreme, it takes half; messages that are equally
        # extreme all take the whole: both as the reference.
        for extreme in (1, 2):
            share = 0.5 if row[extreme * width + k] == boundary[k] else 1.0
            parts[1 + extreme, k] = share * gradient[extreme * width + k]


@numba.njit(cache=True, nogil=True)
def _to_query(states, indices, start, degree, relation, query, row, parts, by_query):
    """Add the gradient of a source's boundary."""
    width = query.shape[0]
    for k in range(width):
        value = parts[0, k] + parts[1, k] * query[k]
        for extreme in (1, 2):
            if row[extreme * width + k] == query[k]:
                tied = False
                for s in range(start, start + degree):
                    tied |= relation[k] * states[indices[s], k] == query[k]
                value += parts[1 + extreme, k] * (1.0 if tied else 2.0)
        by_query[k] += value


@numba.njit(cache=True, nogil=True)
def _fold(tiles, scale, by_gathered, by_own):
    """Add the gradient of a class's weights to those they are made of."""
    width = by_own.shape[0]
    for k in range((STATISTICS + 1) * width):
        for j in range(width):
            value = tiles[j // COLUMNS, k, j % COLUMNS]
            if k < STATISTICS * width:
                for scaler in range(3):
                    by_gathered[scaler, k, j] += scale[scaler] * value
            else:
                by_own[k - STATISTICS * width, j] += value


@numba.njit(cache=True, nogil=True)
def layer_backward(
    states, rows, degrees, scales, weights, before, by_out, by_states, sums
):
    """Go back through :func:`layer_forward`.

    Parameters
    ----------
    states, rows, degrees
        As there; what it gathered is gathered again.
    scales : (C, 3)
        Scalers of each class.
    weights : tuple
        As there, with column tiles of the transposed matrices at the end.
    before : (R, w)
        As :func:`layer_forward` wrote it.
    by_out : (N', w)
        Gradient of this layer's table.
    by_states : (N, w)
        That of the layer before is added here.
    sums : tuple
        Where the gradients of ``relation``, ``query``, ``gathered`` (3, 4w, w),
        ``own`` (w, w), ``bias``, ``gain`` and ``shift`` are added.
    """
    indices, class_start, place, source = rows
    relation, query, _, _, gain, shift, back_tiles = weights
    by_relation, by_query, by_gathered, by_own, by_bias, by_gain, by_shift = sums
    width = states.shape[1]
    wide = (STATISTICS + 1) * width
    inputs = np.zeros((_PART + 1, wide), states.dtype)
    packed = np.zeros((_PART, COLUMNS), states.dtype)
    by_inputs = np.empty((_PART, wide), states.dtype)
    by_mixed = np.empty((_PART, width), states.dtype)
    tiles = np.empty(inner_tiles(width), states.dtype)
    totals, squares = np.empty(width), np.empty(width)
    parts = np.empty((4, width), states.dtype)
    nothing = np.zeros(width, states.dtype)
    entry = 0
    for c in range(degrees.shape[0]):
        degree = degrees[c]
        if class_start[c] == class_start[c + 1]:
            continue
        tiles[:] = 0
        for first in range(class_start[c], class_start[c + 1], _PART):
            count = min(_PART, class_start[c + 1] - first)
            for i in range(count):
                boundary = query if source[first + i] else nothing
                at = entry + i * degree
                _gathered(
                    states,
                    indices,
                    at,
                    degree,
                    relation,
                    boundary,
                    totals,
                    squares,
                    inputs[i],
                )
                _through_norm(
                    by_out[place[first + i]],
                    before[first + i],
                    gain,
                    shift,
                    by_gain,
                    by_shift,
                    by_bias,
                    by_mixed[i],
                )
            add_small_product(inputs, by_mixed, packed, tiles, count)
            rows_times(by_mixed, back_tiles[c], by_inputs, 0, count)
            for i in range(count):
                is_source = source[first + i]
                boundary = query if is_source else nothing
                at = entry + i * degree
                _through_statistics(inputs[i], by_inputs[i], degree, boundary, parts)
                if is_source:
                    _to_query(
                        states,
                        indices,
                        at,
                        degree,
                        relation,
                        query,
                        inputs[i],
                        parts,
                        by_query,
                    )
                high = inputs[i, width : 2 * width]
                low = inputs[i, 2 * width : 3 * width]
                for lane in range(0, width, LANES):
                    scatter(
                        states,
                        by_states,
                        indices,
                        at,
                        degree,
                        relation,
                        lane,
                        parts[0],
                        parts[1],
                        high,
                        parts[2],
                        low,
                        parts[3],
                        by_relation,
                    )
                own, goal = indices[at], place[first + i]
                for k in range(width):
                    by_states[own, k] += (
                        by_out[goal, k] + by_inputs[i, STATISTICS * width + k]
                    )
            entry += count * degree
        _fold(tiles, scales[c], by_gathered, by_own)


@numba.njit(cache=True, nogil=True)
def inner_tiles(width):
    """Return the shape of the sums of a class's weights' gradient."""
    wide = (STATISTICS + 1) * width
    return -(-width // COLUMNS), -(-wide // ROWS) * ROWS, COLUMNS
