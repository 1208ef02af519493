"""Adjacency matrices of scipy, in and out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError
from gelato.graph import Graph


def from_scipy(
    matrix: Any,
    attributes: Any = None,
    ids: Sequence[Hashable] | None = None,
    *,
    directed: bool = False,
) -> Graph:
    """Build a graph from a square adjacency matrix.

    Parameters
    ----------
    matrix : (n, n) scipy sparse matrix or array
        Entry (u, v) is the weight of the edge from u to v; 0 is no edge.
    attributes : (n, r) array or sparse matrix, optional
        One row per node.
    ids : sequence, optional
        One id per node; default ``0..n-1``.
    directed : bool
        Whether edges have a direction. If not, an asymmetric matrix is made symmetric
        with the larger of the two weights, and a note says so.

    Returns
    -------
    Graph
        Without weights if all of them are 1.

    Examples
    --------
    >>> from_scipy(sp.csr_array([[0, 2], [2, 0]])).weights.tolist()
    [2.0]
    """
    square = _as_square(matrix)
    notes: list[str] = []
    if not directed:
        turned = square.T.tocsr()
        if (square != turned).nnz:
            notes.append("the matrix is not symmetric: took the larger weight")
            square = square.maximum(turned)
        square = sp.triu(square, format="csr")
    entries = sp.coo_array(square)
    edges = np.column_stack([entries.row, entries.col]).astype(np.int64)
    weights = None if np.all(entries.data == 1.0) else entries.data
    return Graph.from_indices(
        square.shape[0],
        edges,
        weights=weights,
        attributes=attributes,
        ids=ids,
        directed=directed,
        notes=notes,
    )


def _as_square(matrix: Any) -> sp.csr_array:
    try:
        square = sp.csr_array(matrix, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"The adjacency matrix is not a matrix of numbers: {error}.",
            hint="Give a scipy sparse matrix.",
        ) from error
    if square.ndim != 2 or square.shape[0] != square.shape[1]:
        raise InputError(
            f"The adjacency matrix has shape {square.shape}, but it must be square.",
            hint="Give one row and one column per node.",
        )
    square.sum_duplicates()
    square.eliminate_zeros()
    wrong = ~np.isfinite(square.data) | (square.data < 0)
    if wrong.any():
        entries = sp.coo_array(square)
        at = int(np.argmax(wrong))
        raise InputError(
            f"Entry ({entries.row[at]}, {entries.col[at]}) of the adjacency matrix is "
            f"{entries.data[at]:g}.",
            hint="Weights must be positive and finite.",
        )
    return square


def to_scipy(graph: Graph) -> sp.csr_array:
    """Return a copy of the weighted adjacency matrix, CSR float64."""
    return graph.adjacency.copy()
