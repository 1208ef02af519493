"""Statistics of gathered rows and their gradients, eight numbers at a time.

A node's messages are rows anywhere in a table. Sums are in double precision, so that
they do not depend on the order of the rows: equal neighbourhoods give equal states.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from gelato.kernels.compiled import kernel
from gelato.kernels.tiles import add_small_product, rows_times
from gelato.kernels.vectors import COLUMNS, LANES, ROWS, gather, scatter

STATISTICS = 4  # mean, largest, smallest, deviation
_PART = 48
_LEAST_VARIANCE = 1e-6
_NORM_EPSILON = 1e-5


@kernel()
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
        rows = (states, indices, start, start + degree)
        gather(*rows, relation, lane, sums, squares, high, low)
    own = indices[start]
    for k in range(width):
        mean = sums[k] / (degree + 1)
        variance = squares[k] / (degree + 1) - mean * mean
        row[k] = mean
        row[3 * width + k] = np.sqrt(max(variance, _LEAST_VARIANCE))
        row[4 * width + k] = states[own, k]


@kernel(fastmath={"reassoc"})
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


@kernel()
def _gather_part(states, rows, messages, degree, entry, first, count, inputs):
    """Write the inputs of rows of one class, whose neighbours begin at ``entry``."""
    indices, source = rows[0], rows[3]
    relation, query = messages
    width = states.shape[1]
    nothing = np.zeros(width, states.dtype)
    sums, squares = np.empty(width), np.empty(width)
    for i in range(count):
        boundary = query if source[first + i] else nothing
        start = entry + i * degree
        out = inputs[i]
        _gathered(
            states, indices, start, degree, relation, boundary, sums, squares, out
        )


@kernel()
def _finish(mixed, bias, gain, shift, own, out):
    """Normalise and rectify a row, and add the node's own state."""
    for k in range(mixed.shape[0]):
        mixed[k] += bias[k]
    mean, inverse = _moments(mixed)
    for k in range(mixed.shape[0]):
        value = (mixed[k] - mean) * inverse * gain[k] + shift[k]
        out[k] = max(value, 0.0) + own[k]


@kernel()
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
    class_start, place = rows[1], rows[2]
    tiles, bias, gain, shift = weights[2:]
    width = states.shape[1]
    inputs = np.empty((_PART, (STATISTICS + 1) * width), states.dtype)
    mixed = np.empty((_PART, width), states.dtype)
    entry = 0
    for c in range(degrees.shape[0]):
        for first in range(class_start[c], class_start[c + 1], _PART):
            count = min(_PART, class_start[c + 1] - first)
            _gather_part(
                states, rows, weights[:2], degrees[c], entry, first, count, inputs
            )
            entry += count * degrees[c]
            rows_times(inputs, tiles[c], mixed, 0, count)
            for i in range(count):
                own = inputs[i, STATISTICS * width :]
                _finish(mixed[i], bias, gain, shift, own, out[place[first + i]])
                if before.shape[0]:
                    before[first + i] = mixed[i]


@kernel(fastmath={"reassoc"})
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


@kernel()
def _through_statistics(row, gradient, degree, boundary, parts):
    """Turn gradients of statistics into those of messages (rows of ``parts``)."""
    width = boundary.shape[0]
    floor = parts.dtype.type(np.sqrt(_LEAST_VARIANCE))
    share = 1.0 / (degree + 1)
    for k in range(width):
        mean, deviation = row[k], row[3 * width + k]
        by_variance = 0.0
        if deviation > floor:
            by_variance = gradient[3 * width + k] * 0.5 / deviation
        parts[0, k] = (gradient[k] - 2 * mean * by_variance) * share
        parts[1, k] = 2 * by_variance * share
        # Where the boundary is as extreme, it takes half; messages that are equally
        # extreme all take the whole: both as the reference.
        for extreme in (1, 2):
            part = 0.5 if row[extreme * width + k] == boundary[k] else 1.0
            parts[1 + extreme, k] = part * gradient[extreme * width + k]


@kernel()
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


@kernel()
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


@kernel()
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
    class_start, place = rows[1], rows[2]
    gain, shift, back_tiles = weights[4:]
    by_gathered, by_own, by_bias, by_gain, by_shift = sums[2:]
    width = states.shape[1]
    wide = (STATISTICS + 1) * width
    inputs = np.zeros((_PART + 1, wide), states.dtype)
    packed = np.zeros((_PART, COLUMNS), states.dtype)
    by_inputs = np.empty((_PART, wide), states.dtype)
    by_mixed = np.empty((_PART, width), states.dtype)
    tiles = np.empty(_inner_tiles(width), states.dtype)
    norm, by_norm = (gain, shift), (by_gain, by_shift, by_bias)
    entry = 0
    for c in range(degrees.shape[0]):
        if class_start[c] == class_start[c + 1]:
            continue
        tiles[:] = 0
        for first in range(class_start[c], class_start[c + 1], _PART):
            count = min(_PART, class_start[c + 1] - first)
            here = (degrees[c], entry, first, count)
            _gather_part(states, rows, weights[:2], *here, inputs)
            for i in range(count):
                row, out = by_out[place[first + i]], by_mixed[i]
                _through_norm(row, before[first + i], *norm, *by_norm, out)
            add_small_product(inputs, by_mixed, packed, tiles, count)
            rows_times(by_mixed, back_tiles[c], by_inputs, 0, count)
            gradients = (by_inputs, by_out, by_states)
            _scatter_part(states, rows, weights[:2], here, inputs, gradients, sums[:2])
            entry += count * degrees[c]
        _fold(tiles, scales[c], by_gathered, by_own)


@kernel()
def _scatter_part(states, rows, messages, here, inputs, gradients, sums):
    """Add the gradients of rows' inputs to those of the states they are made of."""
    indices, place, source = rows[0], rows[2], rows[3]
    relation, query = messages
    degree, entry, first, count = here
    by_inputs, by_out, by_states = gradients
    by_relation, by_query = sums
    width = states.shape[1]
    parts = np.empty((4, width), states.dtype)
    nothing = np.zeros(width, states.dtype)
    for i in range(count):
        row, start = inputs[i], entry + i * degree
        boundary = query if source[first + i] else nothing
        _through_statistics(row, by_inputs[i], degree, boundary, parts)
        known = (states, indices, start, degree, relation)
        if source[first + i]:
            _to_query(*known, query, row, parts, by_query)
        high, low = row[width : 2 * width], row[2 * width : 3 * width]
        for lane in range(0, width, LANES):
            to = (states, by_states, indices, start, start + degree)
            changes = (parts[0], parts[1], high, parts[2], low, parts[3])
            scatter(*to, relation, lane, *changes, by_relation)
        own, goal = indices[start], place[first + i]
        for k in range(width):
            back = by_inputs[i, STATISTICS * width + k]
            by_states[own, k] += by_out[goal, k] + back


@kernel()
def _inner_tiles(width):
    """Return the shape of the sums of a class's weights' gradient."""
    wide = (STATISTICS + 1) * width
    return -(-width // COLUMNS), -(-wide // ROWS) * ROWS, COLUMNS
