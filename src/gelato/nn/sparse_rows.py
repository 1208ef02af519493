"""A constant sparse matrix that multiplies dense tables fast, from either side."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.kernels.chunks import run_shares
from gelato.kernels.tiles import TILE, sparse_times, transposed_times, turn_rows

Array = npt.NDArray[Any]

_MOST_GROUPS = 16
_GROUP_BYTES = 64 << 20  # for the groups' partial sums together
_SMALLEST_BLOCK, _LARGEST_BLOCK = 128, 4096
_ROWS_PER_SEGMENT = 16  # aimed at: shorter lists spend their time starting


class SparseRows:
    """A sparse matrix in lists of columns, with or without values.

    Parameters
    ----------
    indptr : (rows + 1,) int64
    indices : (filled,) uint16 or uint32
        Columns of each row.
    values : (filled,) float32, optional
        None for ones.
    num_columns : int
    """

    def __init__(
        self, indptr: Array, indices: Array, values: Array | None, num_columns: int
    ) -> None:
        self.indptr, self.indices = indptr, indices
        self.num_columns = num_columns
        self._values = {} if values is None else {values.dtype: values}

    @classmethod
    def from_scipy(cls, matrix: sp.csr_array) -> Self:
        """Take over a CSR matrix, without its values if they are all 1."""
        binary = bool(np.all(matrix.data == 1))
        return cls(
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(index_type(matrix.shape[1])),
            None if binary else matrix.data.astype(np.float32),
            matrix.shape[1],
        )

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def fill(self) -> float:
        """Share of entries that are filled."""
        return len(self.indices) / max(1, self.num_rows * self.num_columns)

    def values(self, dtype: npt.DTypeLike) -> Array | None:
        """Return the values as ``dtype``, or None for ones."""
        return _as_type(self._values, np.dtype(dtype))

    def times(self, table: Array) -> Array:
        """Return this matrix times a dense table ``(columns, width)``."""
        out = np.empty((self.num_rows, table.shape[1]), table.dtype)
        tiles, values = tiled(table), self.values(table.dtype)
        run_shares(
            lambda start, stop: sparse_times(
                self.indptr, self.indices, values, tiles, out, start, stop
            ),
            self.num_rows,
        )
        return out

    def transposed_times(self, dense: Array) -> Array:
        """Return the transpose times a dense matrix ``(rows, width)``."""
        turned, width = self._turned, dense.shape[1]
        num_tiles = -(-width // TILE)
        size = num_tiles * self.num_columns * TILE * dense.itemsize
        # Fixed by shapes alone, so that the order of additions is too.
        groups = min(_MOST_GROUPS, max(2, _GROUP_BYTES // max(1, size)))
        groups = max(1, min(groups, turned.num_blocks))
        bounds = np.arange(groups + 1, dtype=np.int64) * turned.num_blocks // groups
        out = np.zeros((groups, num_tiles, self.num_columns, TILE), dense.dtype)
        values = turned.values(dense.dtype)
        run_shares(
            lambda start, stop: transposed_times(
                turned.block_start,
                turned.segment_column,
                turned.segment_start,
                turned.rows,
                values,
                turned.block_rows,
                dense,
                bounds,
                out,
                start,
                stop,
            ),
            groups,
        )
        total = out.sum(axis=0)  # (tiles, columns, TILE)
        flat = total.transpose(1, 0, 2).reshape(self.num_columns, num_tiles * TILE)
        return np.ascontiguousarray(flat[:, :width])

    @cached_property
    def _turned(self) -> _Turned:
        return _Turned(self)


class RememberingRows(SparseRows):
    """Lists that keep their last product: blocks of a step ask for the same one."""

    _last: tuple[Array, Array] | None = None

    def times(self, table: Array) -> Array:
        """Return this matrix times a dense table; not to be written to."""
        if self._last is not None:
            known, product = self._last
            if known.dtype == table.dtype and np.array_equal(known, table):
                return product
        product = super().times(table)
        self._last = (table.copy(), product)
        return product


class _Turned:
    """The lists turned round: which rows of a block are filled, column by column."""

    def __init__(self, matrix: SparseRows) -> None:
        wanted = _ROWS_PER_SEGMENT / max(matrix.fill, 1e-9)
        block_rows = _SMALLEST_BLOCK
        while block_rows < min(wanted, _LARGEST_BLOCK):
            block_rows *= 2
        self.block_rows = block_rows
        self.num_blocks = -(-matrix.num_rows // block_rows)
        values, filled = matrix.values(np.float32), len(matrix.indices)
        most = min(filled, self.num_blocks * matrix.num_columns)
        self.block_start = np.zeros(self.num_blocks + 1, np.int64)
        column = np.empty(most, matrix.indices.dtype)
        start = np.empty(most + 1, np.int64)
        self.rows = np.empty(filled, np.uint16)
        kept = None if values is None else np.empty_like(values)
        turn_rows(
            matrix.indptr, matrix.indices, values, block_rows, matrix.num_columns,
            self.block_start, column, start, self.rows, kept,
        )  # fmt: skip
        segments = self.block_start[-1]
        self.segment_column = column[:segments].copy()
        self.segment_start = start[: segments + 1].copy()
        self._values = {} if kept is None else {kept.dtype: kept}

    def values(self, dtype: npt.DTypeLike) -> Array | None:
        """Return the values as ``dtype``, or None for ones."""
        return _as_type(self._values, np.dtype(dtype))


def _as_type(known: dict[Any, Array], dtype: np.dtype[Any]) -> Array | None:
    """Return known values as ``dtype``, converting them the first time only."""
    if known and dtype not in known:
        known[dtype] = known[np.dtype(np.float32)].astype(dtype)
    return known.get(dtype)


def index_type(count: int) -> type[np.uint16] | type[np.uint32]:
    """Return the smallest index type that the kernels know for ``count`` columns."""
    return np.uint16 if count <= np.iinfo(np.uint16).max else np.uint32


def tiled(table: Array) -> Array:
    """Return a table ``(rows, width)`` as ``(tiles, rows, TILE)``, padded with 0."""
    rows, width = table.shape
    num_tiles = -(-width // TILE)
    tiles = np.zeros((num_tiles, rows, TILE), table.dtype)
    for tile in range(num_tiles):
        part = table[:, tile * TILE : (tile + 1) * TILE]
        tiles[tile, :, : part.shape[1]] = part
    return tiles
