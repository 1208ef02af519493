"""ReLU, batch normalisation and dropout in as few passes as their maths allows.

Rows are handled in fixed parts; every kernel works through parts ``start..stop-1`` and
leaves column sums per part, so that any number of threads gives the same bits. Dropout
masks are a hash of (key, row, columns): drawn again in the backward pass, never stored.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from gelato.kernels.random_bits import mix

_LANES = 8  # columns per byte of random bits


def keep_table(drop: float, dtype: Any) -> Any:
    """Return the factors of 8 columns for every byte: 0 or ``1 / (1 - drop)``."""
    bits = (np.arange(256)[:, None] >> np.arange(_LANES)[None, :]) & 1
    return (bits / (1.0 - drop)).astype(dtype)


def keep_threshold(drop: float) -> int:
    """Return the chance to keep an element as a 32-bit binary fraction."""
    return round((1.0 - drop) * 2.0**32)


@numba.njit(cache=True, nogil=True)
def keep_row(key: Any, row: int, threshold: int, table: Any, keep: Any) -> None:
    """Fill ``keep`` with the dropout factors of one row.

    Sixty-four independent bits that are 1 with probability q come from as many random
    words as q has binary digits: going from the last digit to the first, a 1 means
    "or", a 0 means "and". One half needs a single word.
    """
    if threshold >> 32:
        keep[:] = table[255, 0]
        return
    zeros = 0
    while (threshold >> zeros) & 1 == 0:
        zeros += 1
    words = (keep.size + 63) // 64
    for word in range(words):
        counter = np.uint64(row * words + word) << np.uint64(5)
        bits = np.uint64(0)
        for digit in range(zeros, 32):
            drawn = mix(key ^ (counter + np.uint64(digit)))
            bits = bits | drawn if (threshold >> digit) & 1 else bits & drawn
        for byte in range(min(8, (keep.size - word * 64 + _LANES - 1) // _LANES)):
            factors = table[(bits >> np.uint64(byte * 8)) & np.uint64(255)]
            first = word * 64 + byte * _LANES
            if first + _LANES <= keep.size:
                for k in range(_LANES):
                    keep[first + k] = factors[k]
            else:
                for k in range(keep.size - first):
                    keep[first + k] = factors[k]


@numba.njit(cache=True, nogil=True)
def relu_sums(
    x: Any, bias: Any, part_start: Any, sums: Any, start: int, stop: int
) -> None:
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


@numba.njit(cache=True, nogil=True)
def norm_dropout(
    x: Any,
    scale: Any,
    shift: Any,
    part_start: Any,
    part_chunk: Any,
    key: Any,
    threshold: int,
    table: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Write ``keep * (scale * x + shift)``, scale and shift by the part's chunk."""
    keep = np.empty(x.shape[1], x.dtype)
    for part in range(start, stop):
        factor, offset = scale[part_chunk[part]], shift[part_chunk[part]]
        for e in range(part_start[part], part_start[part + 1]):
            keep_row(key, e, threshold, table, keep)
            row, target = x[e], out[e]
            for k in range(row.size):
                target[k] = keep[k] * (factor[k] * row[k] + offset[k])


@numba.njit(cache=True, nogil=True)
def norm_dropout_dot(
    x: Any,
    scale: Any,
    shift: Any,
    part_start: Any,
    part_chunk: Any,
    key: Any,
    threshold: int,
    table: Any,
    weight: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Write the product of each row of :func:`norm_dropout` with one weight vector."""
    keep = np.empty(x.shape[1], x.dtype)
    terms = np.empty(x.shape[1], x.dtype)
    for part in range(start, stop):
        factor, offset = scale[part_chunk[part]], shift[part_chunk[part]]
        for e in range(part_start[part], part_start[part + 1]):
            keep_row(key, e, threshold, table, keep)
            row = x[e]
            for k in range(row.size):
                terms[k] = keep[k] * (factor[k] * row[k] + offset[k]) * weight[k]
            # Four running sums: the additions of one would wait for each other.
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            whole = row.size - row.size % 4
            for k in range(0, whole, 4):
                a += terms[k]
                b += terms[k + 1]
                c += terms[k + 2]
                d += terms[k + 3]
            for k in range(whole, row.size):
                a += terms[k]
            out[e] = (a + b) + (c + d)


@numba.njit(cache=True, nogil=True)
def gradient_sums(
    gradient: Any,
    x: Any,
    mean: Any,
    inverse: Any,
    part_start: Any,
    part_chunk: Any,
    key: Any,
    threshold: int,
    table: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Sum ``keep * gradient`` and ``keep * gradient * x_hat`` per part.

    ``gradient`` is (rows, columns), or (rows, 1) where all columns share it.
    """
    keep = np.empty(x.shape[1], x.dtype)
    shared = gradient.shape[1] == 1
    for part in range(start, stop):
        centre, factor = mean[part_chunk[part]], inverse[part_chunk[part]]
        plain, normed = sums[part, 0], sums[part, 1]
        plain[:] = 0
        normed[:] = 0
        for e in range(part_start[part], part_start[part + 1]):
            keep_row(key, e, threshold, table, keep)
            row, upstream = x[e], gradient[e]
            if shared:
                for k in range(row.size):
                    keep[k] *= upstream[0]
            else:
                for k in range(row.size):
                    keep[k] *= upstream[k]
            for k in range(row.size):
                plain[k] += keep[k]
                normed[k] += keep[k] * ((row[k] - centre[k]) * factor[k])


@numba.njit(cache=True, nogil=True)
def gradient_through(
    gradient: Any,
    x: Any,
    mean: Any,
    inverse: Any,
    gain: Any,
    plain: Any,
    normed: Any,
    part_start: Any,
    part_chunk: Any,
    key: Any,
    threshold: int,
    table: Any,
    out: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Write the gradient before the ReLU and sum it per part.

    ``gain * (keep * gradient - plain - x_hat * normed)`` where x is positive, with
    one row of gain, plain and normed per chunk. ``gradient`` as in
    :func:`gradient_sums`; ``out`` may be ``x`` or ``gradient``.
    """
    keep = np.empty(x.shape[1], x.dtype)
    shared = gradient.shape[1] == 1
    for part in range(start, stop):
        chunk = part_chunk[part]
        centre, factor, slope = mean[chunk], inverse[chunk], gain[chunk]
        offset, tilt = plain[chunk], normed[chunk]
        sums[part] = 0
        for e in range(part_start[part], part_start[part + 1]):
            keep_row(key, e, threshold, table, keep)
            row, upstream, target = x[e], gradient[e], out[e]
            if shared:
                for k in range(row.size):
                    keep[k] *= upstream[0]
            else:
                for k in range(row.size):
                    keep[k] *= upstream[k]
            for k in range(row.size):
                normal = (row[k] - centre[k]) * factor[k]
                value = slope[k] * (keep[k] - offset[k] - normal * tilt[k])
                target[k] = value if row[k] > 0 else 0
            for k in range(row.size):
                sums[part, k] += target[k]
