"""A hidden layer, forward and backward, while its rows are in the cache."""

from __future__ import annotations

from typing import Any

import numba

from gelato.kernels.matrix_tiles import add_inner_product, rows_times
from gelato.kernels.norm_dropout import (
    gradient_sums,
    gradient_through,
    norm_dropout,
    relu_sums,
)


@numba.njit(cache=True, nogil=True)
def hidden_forward(
    before: Any,
    scale: Any,
    shift: Any,
    part_start: Any,
    part_chunk: Any,
    dropout: Any,
    tiles: Any,
    bias: Any,
    dropped: Any,
    out: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Normalise and drop, multiply by the next weight, rectify and sum.

    ``dropped = norm_dropout(before)``, ``out = relu(dropped @ weight.T + bias)`` with
    ``tiles`` the column tiles of ``weight.T``.
    """
    key, chance, last, factor = dropout
    for part in range(start, stop):
        norm_dropout(
            before,
            scale,
            shift,
            part_start,
            part_chunk,
            key,
            chance,
            last,
            factor,
            dropped,
            part,
            part + 1,
        )
        rows_times(dropped, tiles, out, part_start[part], part_start[part + 1])
        relu_sums(out, bias, part_start, sums, part, part + 1)


@numba.njit(cache=True, nogil=True)
def hidden_backward(
    logits: Any,
    active: Any,
    statistics: Any,
    dropout: Any,
    part_start: Any,
    part_chunk: Any,
    group_start: Any,
    tiles: Any,
    dropped: Any,
    before: Any,
    statistics_before: Any,
    dropout_before: Any,
    bias_sums: Any,
    weight_sums: Any,
    sums_before: Any,
    start: int,
    stop: int,
) -> None:
    """Go back through a hidden layer and sum what the layer before it needs.

    Overwrites ``active`` by its gradient before the ReLU and ``dropped`` by its own
    gradient. ``statistics`` are the per-chunk arrays of :func:`gradient_through`,
    ``statistics_before`` mean and inverse of the layer before. Works through groups
    of parts ``start..stop-1``, each with its own ``weight_sums``.
    """
    mean, inverse, gain, plain, normed = statistics
    key, chance, last, factor = dropout
    mean_before, inverse_before = statistics_before
    key_before, chance_before, last_before, factor_before = dropout_before
    for group in range(start, stop):
        for part in range(group_start[group], group_start[group + 1]):
            gradient_through(
                logits,
                active,
                mean,
                inverse,
                gain,
                plain,
                normed,
                part_start,
                part_chunk,
                key,
                chance,
                last,
                factor,
                active,
                bias_sums,
                part,
                part + 1,
            )
            first, end = part_start[part], part_start[part + 1]
            add_inner_product(active, dropped, weight_sums[group], first, end)
            rows_times(active, tiles, dropped, first, end)
            gradient_sums(
                dropped,
                before,
                mean_before,
                inverse_before,
                part_start,
                part_chunk,
                key_before,
                chance_before,
                last_before,
                factor_before,
                sums_before,
                part,
                part + 1,
            )
