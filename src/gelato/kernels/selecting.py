"""Selecting the best candidates of a block of rows."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from gelato.kernels.counting import allowed, mark_row


@numba.njit(cache=True, nogil=True)
def keep_near(
    rows: Any,
    indptr: Any,
    columns: Any,
    scores: Any,
    excluded_indptr: Any,
    excluded_indices: Any,
    left: Any,
    right: Any,
    ordered: bool,
    bound: float,
    out_rows: Any,
    out_columns: Any,
    out_scores: Any,
) -> int:
    """Copy the near candidates that score at least ``bound``; return how many."""
    marks = np.zeros(left.size, dtype=np.int32)
    kept = 0
    for i in range(rows.size):
        u = rows[i]
        mark_row(marks, i + 1, u, excluded_indptr, excluded_indices)
        for slot in range(indptr[i], indptr[i + 1]):
            v = columns[slot]
            if scores[slot] < bound or marks[v] == i + 1:
                continue
            if allowed(u, v, left, right, ordered):
                out_rows[kept] = u
                out_columns[kept] = v
                out_scores[kept] = scores[slot]
                kept += 1
    return kept


@numba.njit(cache=True, nogil=True)
def keep_dense(
    rows: Any,
    scores: Any,
    excluded_indptr: Any,
    excluded_indices: Any,
    left: Any,
    right: Any,
    ordered: bool,
    upper: bool,
    bound: float,
    out_rows: Any,
    out_columns: Any,
    out_scores: Any,
) -> int:
    """Copy the candidates of dense rows that score at least ``bound``."""
    n = left.size
    marks = np.zeros(n, dtype=np.int32)
    kept = 0
    for i in range(rows.size):
        u = rows[i]
        mark_row(marks, i + 1, u, excluded_indptr, excluded_indices)
        for v in range(u + 1 if upper else 0, n):
            if v == u or scores[i, v] < bound or marks[v] == i + 1:
                continue
            if allowed(u, v, left, right, ordered):
                out_rows[kept] = u
                out_columns[kept] = v
                out_scores[kept] = scores[i, v]
                kept += 1
    return kept
