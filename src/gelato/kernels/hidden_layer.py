"""A hidden layer, forward and backward, while its rows are in the cache.

All kernels work through the parts ``start..stop-1`` of the rows. ``parts`` is the first
row of each part, and its chunk: arrays of a normalisation have one row per chunk.
``dropout`` is a key, and what :func:`keep_chance` returns. A matrix to multiply by is
given as ``tiles``, or as ``words`` where factors are rounded to bfloat16; the other is
None, so that what needs it is not compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gelato.kernels.chunks import mix
from gelato.kernels.compiled import kernel
from gelato.kernels.tiles import (
    add_bfloat_product,
    add_inner_product,
    bfloat_rows_times,
    rows_times,
)

_WORD = 64  # columns per word of random bits
_DIGITS = 32  # binary digits of a probability
_LANES = 16  # running sums of a dot product


def keep_chance(drop: float, dtype: Any) -> tuple[int, int, Any]:
    """Return what :func:`keep_row` needs to keep elements with chance ``1 - drop``.

    The chance as a binary fraction of 32 digits, the last of them that is 1, and the
    factor ``1 / (1 - drop)`` of what is kept.
    """
    chance = round((1.0 - drop) * 2.0**_DIGITS)
    last = (chance & -chance).bit_length() - 1
    return chance, last, np.dtype(dtype).type(1.0 / (1.0 - drop))


@kernel()
def keep_row(dropout, row, keep):
    """Fill ``keep`` with the dropout factors of one row.

    Sixty-four independent bits that are 1 with probability q come from as many random
    words as q has binary digits: going from the last digit to the first, a 1 means
    "or", a 0 means "and". One half needs a single word. ``keep`` must have room for
    whole words.
    """
    key, chance, last, factor = dropout
    words = keep.size // _WORD
    for word in range(words):
        bits = np.uint64(0)
        if last == _DIGITS:  # nothing is dropped
            bits = ~bits
        counter = np.uint64(row * words + word) * np.uint64(_DIGITS)
        for digit in range(last, _DIGITS):
            drawn = mix(key ^ (counter + np.uint64(digit)))
            bits = bits | drawn if (chance >> digit) & 1 else bits & drawn
        for k in range(_WORD):
            kept = (bits >> np.uint64(k)) & np.uint64(1)
            keep[word * _WORD + k] = factor if kept else 0


@kernel()
def _room(width, dtype):
    """Return zeros for ``width`` columns, rounded up to whole words."""
    return np.zeros((width + _WORD - 1) // _WORD * _WORD, dtype)


@kernel()
def relu_sums(x, bias, part_start, sums, start, stop):
    """Replace x by ``relu(x + bias)``; sum it and its squares (float64) per part."""
    for part in range(start, stop):
        sums[part] = 0
        for e in range(part_start[part], part_start[part + 1]):
            row = x[e]
            for k in range(row.size):
                value = row[k] + bias[k]
                row[k] = 0 if value <= 0 else value
            for k in range(row.size):
                value64 = np.float64(row[k])
                sums[part, 0, k] += value64
                sums[part, 1, k] += value64 * value64


@kernel()
def norm_dropout(x, fold, parts, dropout, out, start, stop):
    """Write ``keep * (scale * x + shift)``, with (scale, shift) the fold."""
    part_start, part_chunk = parts
    keep = _room(x.shape[1], x.dtype)
    for part in range(start, stop):
        slope, offset = fold[0][part_chunk[part]], fold[1][part_chunk[part]]
        for e in range(part_start[part], part_start[part + 1]):
            keep_row(dropout, e, keep)
            row, target = x[e], out[e]
            for k in range(row.size):
                target[k] = keep[k] * (slope[k] * row[k] + offset[k])


@kernel()
def norm_dropout_dot(x, fold, parts, dropout, weight, out, start, stop):
    """Write the product of each row of :func:`norm_dropout` with one weight vector."""
    part_start, part_chunk = parts
    keep = _room(x.shape[1], x.dtype)
    terms = _room(x.shape[1], x.dtype)
    lanes = np.zeros(_LANES, x.dtype)
    for part in range(start, stop):
        slope, offset = fold[0][part_chunk[part]], fold[1][part_chunk[part]]
        for e in range(part_start[part], part_start[part + 1]):
            keep_row(dropout, e, keep)
            row = x[e]
            for k in range(row.size):
                terms[k] = keep[k] * (slope[k] * row[k] + offset[k]) * weight[k]
            # Sixteen running sums: the additions of one would wait for each other.
            lanes[:] = 0
            for first in range(0, terms.size, _LANES):
                for k in range(_LANES):
                    lanes[k] += terms[first + k]
            half = _LANES
            while half > 1:
                half //= 2
                for k in range(half):
                    lanes[k] += lanes[half + k]
            out[e] = lanes[0]


@kernel()
def _kept_gradient(gradient, e, dropout, keep, width):
    """Fill ``keep`` with ``keep * gradient`` of one row."""
    keep_row(dropout, e, keep)
    upstream = gradient[e]
    if upstream.size == 1:  # shared by all columns
        for k in range(width):
            keep[k] *= upstream[0]
    else:
        for k in range(width):
            keep[k] *= upstream[k]


@kernel()
def gradient_sums(gradient, x, statistics, parts, dropout, sums, start, stop):
    """Sum ``keep * gradient`` and ``keep * gradient * x_hat`` per part.

    ``gradient`` is (rows, columns), or (rows, 1) where all columns share it;
    ``statistics`` are mean and inverse deviation.
    """
    mean, inverse = statistics
    part_start, part_chunk = parts
    width = x.shape[1]
    keep = _room(width, x.dtype)
    plain, normed = _room(width, x.dtype), _room(width, x.dtype)
    for part in range(start, stop):
        centre, spread = mean[part_chunk[part]], inverse[part_chunk[part]]
        plain[:] = 0
        normed[:] = 0
        for e in range(part_start[part], part_start[part + 1]):
            _kept_gradient(gradient, e, dropout, keep, width)
            row = x[e]
            for k in range(row.size):
                plain[k] += keep[k]
                normed[k] += keep[k] * ((row[k] - centre[k]) * spread[k])
        for k in range(width):
            sums[part, 0, k] = plain[k]
            sums[part, 1, k] = normed[k]


@kernel()
def gradient_through(gradient, x, statistics, parts, dropout, out, sums, start, stop):
    """Write the gradient before the ReLU and sum it per part.

    ``gain * (keep * gradient - plain - x_hat * normed)`` where x is positive, with
    ``statistics`` mean, inverse deviation, gain, plain and normed. ``gradient`` as in
    :func:`gradient_sums`; ``out`` may be ``x`` or ``gradient``.
    """
    mean, inverse, gain, plain, normed = statistics
    part_start, part_chunk = parts
    width = x.shape[1]
    keep, total = _room(width, x.dtype), _room(width, x.dtype)
    for part in range(start, stop):
        chunk = part_chunk[part]
        centre, spread, slope = mean[chunk], inverse[chunk], gain[chunk]
        offset, tilt = plain[chunk], normed[chunk]
        total[:] = 0
        for e in range(part_start[part], part_start[part + 1]):
            _kept_gradient(gradient, e, dropout, keep, width)
            row, target = x[e], out[e]
            for k in range(row.size):
                normal = (row[k] - centre[k]) * spread[k]
                value = slope[k] * (keep[k] - offset[k] - normal * tilt[k])
                keep[k] = value if row[k] > 0 else 0
            # Apart, because ``out`` may be ``x``: that would forbid vectors above.
            for k in range(row.size):
                target[k] = keep[k]
                total[k] += keep[k]
        for k in range(width):
            sums[part, k] = total[k]


@kernel()
def hidden_forward(
    before, fold, parts, dropout, tiles, words, bias, dropped, out, sums, start, stop
):
    """Normalise and drop, multiply by the next weight, rectify and sum.

    ``dropped = norm_dropout(before)``, ``out = relu(dropped @ weight.T + bias)`` with
    ``tiles`` the column tiles of ``weight.T``.
    """
    for part in range(start, stop):
        norm_dropout(before, fold, parts, dropout, dropped, part, part + 1)
        first, end = parts[0][part], parts[0][part + 1]
        if tiles is not None:
            rows_times(dropped, tiles, out, first, end)
        if words is not None:
            bfloat_rows_times(dropped, words, out, first, end)
        relu_sums(out, bias, parts[0], sums, part, part + 1)


@kernel()
def hidden_backward(
    layer, layer_before, logits, parts, groups, tiles, words, sums, start, stop
):
    """Go back through a hidden layer and sum what the layer before it needs.

    Overwrites ``active`` by its gradient before the ReLU and ``dropped`` by its own
    gradient. Works through groups of parts ``start..stop-1``, each with its own sum of
    the weight's gradient.

    Parameters
    ----------
    layer : (active, statistics, dropout)
        What the layer gave, and how :func:`gradient_through` goes back.
    layer_before : (dropped, before, statistics, dropout)
        Its input, that before normalisation, and how :func:`gradient_sums` sums it.
    logits : (rows, 1)
        Gradient that all units share.
    parts : (first rows, chunks)
    groups : first parts
    tiles, words
        Column tiles of the weight, in float32 or bfloat16.
    sums : (bias, weight, before)
        Filled, by part, by group and by part.
    """
    active, statistics, dropout = layer
    dropped, before, statistics_before, dropout_before = layer_before
    by_bias, by_weight, sums_before = sums
    for group in range(start, stop):
        for part in range(groups[group], groups[group + 1]):
            here = (part, part + 1)
            gradient_through(
                logits, active, statistics, parts, dropout, active, by_bias, *here
            )
            first, end = parts[0][part], parts[0][part + 1]
            if tiles is not None:
                add_inner_product(active, dropped, by_weight[group], first, end)
                rows_times(active, tiles, dropped, first, end)
            if words is not None:
                add_bfloat_product(active, dropped, by_weight[group], first, end)
                bfloat_rows_times(active, words, dropped, first, end)
            gradient_sums(
                dropped, before, statistics_before, parts, dropout_before,
                sums_before, *here,
            )  # fmt: skip
