"""Dot products of sparse attribute rows, through the attributes they share."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def shared_attribute_rows(
    rows: Any,
    attributes: Any,
    transposed: Any,
    squares: Any,
    upper: bool,
    out_indptr: Any,
    out_columns: Any,
    out_scores: Any,
) -> None:
    """Write the cosine of every row with the nodes that share an attribute with it.

    Parameters
    ----------
    rows : (b,) int64
        Rows to score.
    attributes, transposed : (indptr, indices, data)
        CSR of the non-negative attributes X and of its transpose, sorted.
    squares : (n,) float64
        Squared norm of every node's attributes.
    upper : bool
        Only columns larger than the row.
    out_indptr, out_columns, out_scores
        Filled, as CSR.
    """
    indptr, indices, data = attributes
    node_indptr, nodes, values = transposed
    dots = np.zeros(indptr.size - 1)
    touched = np.empty(indptr.size, dtype=np.int32)
    filled = 0
    out_indptr[0] = 0
    for i in range(rows.size):
        u = rows[i]
        above = u if upper else -1
        count = 0
        for a in range(indptr[u], indptr[u + 1]):
            slot, start = node_indptr[indices[a] + 1] - 1, node_indptr[indices[a]]
            while slot >= start and nodes[slot] > above:
                v = nodes[slot]
                before = dots[v]
                after = before + data[a] * values[slot]
                dots[v] = after
                touched[count] = v
                count += (before == 0.0) & (after > 0.0)
                slot -= 1
        for j in range(count):
            v = touched[j]
            if v != u:
                out_columns[filled] = v
                out_scores[filled] = dots[v] / np.sqrt(squares[u] * squares[v])
                filled += 1
            dots[v] = 0.0
        out_indptr[i + 1] = filled
