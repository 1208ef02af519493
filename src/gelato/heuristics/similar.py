"""Cosine similarity of attributes, as a scorer of rows.

Sparse non-negative attributes are scored through the attributes that two nodes
share, so the cost follows the shared attributes; anything else is scored by
blocks of a dense product. Binary attributes give whole-number dot products, so
that equal cosines tie exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.heuristics.declared import heuristic
from gelato.kernels import similar_pairs as kernels
from gelato.ranking.scorers import ClosedForm, NearBlock, RowScorer

# Above this share of filled cells a dense product is faster than shared attributes.
_DENSE_ABOVE = 0.15


@heuristic("cos", "cosine similarity of attributes", kind="attributes")
def cosine(graph: Graph) -> RowScorer:
    """Score a pair by the cosine of its attributes; 0 where a row is all zero."""
    if graph.attributes is None:
        raise InputError(
            "Cosine similarity (cos) needs node attributes, and the graph has none.",
            hint="Give a table of attributes, or use a topological heuristic.",
        )
    matrix = sp.csr_array(graph.attributes, dtype=np.float64)
    squares = kernels.squared_norms(matrix)
    filled = matrix.nnz / max(1, matrix.shape[0] * matrix.shape[1])
    if filled <= _DENSE_ABOVE and not np.any(matrix.data < 0):
        return SharedAttributeScorer(matrix, sp.csr_array(matrix.T), squares)
    return DenseCosineScorer(kernels.exact_values(matrix, squares), squares)


@dataclass(frozen=True, eq=False)
class SharedAttributeScorer:
    """Cosine through shared attributes; pairs that share none score 0."""

    attributes: sp.csr_array
    transposed: sp.csr_array
    squares: FloatArray

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.attributes.shape[0])

    @property
    def far(self) -> ClosedForm:
        """The score of pairs that share no attribute."""
        return ClosedForm.zero(self.num_nodes)

    @cached_property
    def near_bounds(self) -> IntArray:
        """A bound on the number of nodes that share an attribute with each node."""
        sharers = np.diff(self.transposed.indptr).astype(np.float64)
        pattern = self.attributes.astype(bool).astype(np.float64)
        bounds: IntArray = np.minimum(pattern @ sharers, self.num_nodes).astype(
            np.int64
        )
        return bounds

    @cached_property
    def _lists(self) -> list[tuple[Any, ...]]:
        """Both matrices as kernels take them, whatever scipy numbers them with."""
        return [
            (x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data)
            for x in (self.attributes, self.transposed)
        ]

    def near_rows(self, rows: IntArray, *, upper: bool) -> NearBlock:
        """Return the nodes that share an attribute with each row."""
        capacity = int(self.near_bounds[rows].sum())
        indptr = np.empty(len(rows) + 1, dtype=np.int64)
        columns = np.empty(capacity, dtype=np.int32)
        scores = np.empty(capacity)
        given = (*self._lists, self.squares, upper)
        kernels.shared_attribute_rows(rows, *given, indptr, columns, scores)
        return NearBlock(rows, indptr, columns[: indptr[-1]], scores[: indptr[-1]])

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        rows = np.asarray(rows, dtype=np.int64)
        block = self.near_rows(rows, upper=False)
        scores = np.zeros((len(rows), self.num_nodes))
        return block.spread(scores)


@dataclass(frozen=True, eq=False)
class DotScorer:
    """Dot products of rows of a table, by blocks.

    Not by a BLAS: its last bits depend on the rows that a block happens to hold, and
    a ranking compares scores of different blocks.
    """

    table: Any

    @cached_property
    def _tiles(self) -> Any:
        from gelato.kernels.tiles import column_tiles  # loads numba

        return column_tiles(self.table.T)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        from gelato.kernels.tiles import rows_times

        dots = np.empty((len(rows), len(self.table)), dtype=self.table.dtype)
        rows_times(self.table[rows], self._tiles, dots, 0, len(rows))
        return dots


@dataclass(frozen=True, eq=False)
class DenseCosineScorer:
    """Cosine by blocks of a dense product."""

    values: Any
    squares: FloatArray

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.squares)

    @cached_property
    def _dots(self) -> DotScorer:
        return DotScorer(self.values)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        dots = self._dots.score_rows(rows)
        return kernels.cosines(dots, self.squares[rows, None] * self.squares)
