"""Products of tall matrices, dense or sparse, tile by tile in vector registers.

A BLAS would do, but not inside a compiled loop: here a part's rows are multiplied while
they are still in the cache, by the thread that made them, and the result does not
depend on how many threads a BLAS may use. ``SparseRows`` is a constant sparse matrix
that multiplies dense tables fast, from either side.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.kernels.chunks import run_shares
from gelato.kernels.compiled import kernel
from gelato.kernels.vectors import (
    BFLOAT_COLUMNS,
    BFLOAT_ROWS,
    COLUMNS,
    ROWS,
    TILE,
    add_rows,
    bfloat_row,
    bfloat_rows,
    one_row,
    six_rows,
)

_BLOCK_ROWS = 48  # rows that go through one tile of the right matrix before the next
_PACKED_ROWS = 168  # rows copied for an inner product: 4 and 11 KB of a 32 KB cache

# To round the upper 16 bits of a float32 to the nearest, ties to even.
_SHIFT, _HALF, _LAST = np.uint32(16), np.uint32(0x7FFF), np.uint32(1)
_APART = 16  # words: a line of the cache


def column_tiles(matrix: Any) -> Any:
    """Return a matrix (k, width) as (tiles, k, COLUMNS), padded with 0."""
    count = -(-matrix.shape[1] // COLUMNS)
    tiles = np.zeros((count, matrix.shape[0], COLUMNS), matrix.dtype)
    for tile in range(count):
        part = matrix[:, tile * COLUMNS : (tile + 1) * COLUMNS]
        tiles[tile, :, : part.shape[1]] = part
    return tiles


def inner_shape(
    rows: int, columns: int, *, bfloat: bool = False
) -> tuple[int, int, int]:
    """Return the shape of the sums of :func:`add_inner_product`, or of its twin."""
    high, wide = (BFLOAT_ROWS, BFLOAT_COLUMNS) if bfloat else (ROWS, COLUMNS)
    return -(-columns // wide), -(-rows // high) * high, wide


def from_inner_tiles(tiles: Any, rows: int, columns: int) -> Any:
    """Return sums of the shape of :func:`inner_shape` as a matrix (rows, columns)."""
    flat = tiles.transpose(1, 0, 2).reshape(tiles.shape[1], -1)
    return flat[:rows, :columns]


@kernel()
def rows_times(left, tiles, out, start, stop):
    """Write rows ``start..stop-1`` of ``left @ matrix``, given its column tiles."""
    inner, width = left.shape[1], out.shape[1]
    total = np.empty((ROWS, COLUMNS), left.dtype)
    for block in range(start, stop, _BLOCK_ROWS):
        end = min(block + _BLOCK_ROWS, stop)
        for tile in range(tiles.shape[0]):
            first = tile * COLUMNS
            e = block
            while e < end:
                total[:] = 0
                rows = ROWS
                if e + ROWS <= end:
                    six_rows(total, left[e], inner, 1, tiles[tile], inner)
                else:
                    rows = 1
                    one_row(total, left[e], inner, 1, tiles[tile], inner)
                if first + COLUMNS <= width:
                    for i in range(rows):
                        for k in range(COLUMNS):
                            out[e + i, first + k] = total[i, k]
                else:
                    for i in range(rows):
                        for k in range(width - first):
                            out[e + i, first + k] = total[i, k]
                e += rows


@kernel()
def _pack_left(left, first, count, lefts):
    """Copy rows from ``first`` on to groups of ROWS columns, (groups, rows, ROWS).

    Whole groups apart: a loop whose length is known is a few vector instructions.
    """
    wide = left.shape[1]
    whole = wide // ROWS
    for e in range(count):
        row = left[first + e]
        for group in range(whole):
            for i in range(ROWS):
                lefts[group, e, i] = row[group * ROWS + i]
        for k in range(whole * ROWS, wide):
            lefts[whole, e, k - whole * ROWS] = row[k]


@kernel()
def _pack_right(right, first, count, column, rights):
    """Copy COLUMNS columns of rows from ``first`` on; missing ones stay 0."""
    if column + COLUMNS <= right.shape[1]:
        for e in range(count):
            row = right[first + e]
            for k in range(COLUMNS):
                rights[e, k] = row[column + k]
    else:
        rights[:] = 0
        for e in range(count):
            for k in range(right.shape[1] - column):
                rights[e, k] = right[first + e, column + k]


@kernel()
def add_inner_product(left, right, out, start, stop):
    """Add ``left[start:stop].T @ right[start:stop]`` to ``out``, in tiles."""
    groups = out.shape[1] // ROWS
    lefts = np.zeros((groups, _PACKED_ROWS, ROWS), left.dtype)
    rights = np.zeros((_PACKED_ROWS, COLUMNS), right.dtype)
    for block in range(start, stop, _PACKED_ROWS):
        count = min(_PACKED_ROWS, stop - block)
        _pack_left(left, block, count, lefts)
        for tile in range(out.shape[0]):
            _pack_right(right, block, count, tile * COLUMNS, rights)
            for group in range(groups):
                six_rows(
                    out[tile, group * ROWS :], lefts[group], 1, ROWS, rights, count
                )


@kernel()
def _bfloat(bits):
    """Return the upper half of a float32's bits, rounded to the nearest, as uint32."""
    return (bits + _HALF + ((bits >> _SHIFT) & _LAST)) >> _SHIFT


@kernel()
def _shorten(bits, out):
    """Write rows of bits of float32 as those of bfloat16 (uint16)."""
    for e in range(bits.shape[0]):
        row, target = bits[e], out[e]
        for k in range(row.size):
            target[k] = np.uint16(_bfloat(row[k]))


def bfloat_tiles(matrix: Any) -> Any:
    """Return a float32 matrix (k, width) as words (tiles, k / 2, BFLOAT_COLUMNS).

    A word holds two numbers of a column, as bfloat16; padded with 0.
    """
    inner, width = matrix.shape
    count = -(-width // BFLOAT_COLUMNS)
    padded = np.zeros((inner + inner % 2, count * BFLOAT_COLUMNS), np.float32)
    padded[:inner, :width] = matrix
    words = np.empty((len(padded) // 2, padded.shape[1]), np.uint32)
    _pack_pairs(padded.view(np.uint32), words)
    tiles = words.reshape(len(words), count, BFLOAT_COLUMNS)
    return np.ascontiguousarray(tiles.transpose(1, 0, 2))


@kernel()
def bfloat_rows_times(left, tiles, out, start, stop):
    """Write what :func:`rows_times` writes, both factors rounded to bfloat16."""
    inner, width, step = tiles.shape[1], out.shape[1], BFLOAT_COLUMNS
    halves = np.zeros((_BLOCK_ROWS, 2 * inner), np.uint16)
    words = halves.view(np.uint32)
    total = np.empty((BFLOAT_ROWS, BFLOAT_COLUMNS), np.float32)
    for block in range(start, stop, _BLOCK_ROWS):
        end = min(block + _BLOCK_ROWS, stop)
        _shorten(left[block:end].view(np.uint32), halves)
        for tile in range(tiles.shape[0]):
            first = tile * BFLOAT_COLUMNS
            e = block
            while e < end:
                total[:] = 0
                rows, own = BFLOAT_ROWS, words[e - block]
                if e + BFLOAT_ROWS <= end:
                    bfloat_rows(total, own, inner, 1, tiles[tile], step, inner)
                else:
                    rows = 1
                    bfloat_row(total, own, inner, 1, tiles[tile], step, inner)
                if first + BFLOAT_COLUMNS <= width:
                    for i in range(rows):
                        for k in range(BFLOAT_COLUMNS):
                            out[e + i, first + k] = total[i, k]
                else:
                    for i in range(rows):
                        for k in range(width - first):
                            out[e + i, first + k] = total[i, k]
                e += rows


@kernel()
def _pack_pairs(bits, words):
    """Write words of two rows each, column by column; a missing last row is 0."""
    whole = bits.shape[0] // 2
    for e in range(whole):
        one, two, target = bits[2 * e], bits[2 * e + 1], words[e]
        for k in range(one.size):
            target[k] = _bfloat(one[k]) | (_bfloat(two[k]) << _SHIFT)
    if 2 * whole < bits.shape[0]:
        row, target = bits[2 * whole], words[whole]
        for k in range(row.size):
            target[k] = _bfloat(row[k])


@kernel()
def add_bfloat_product(left, right, out, start, stop):
    """Add what :func:`add_inner_product` adds, both factors rounded to bfloat16.

    ``out`` is (tiles, rows, BFLOAT_COLUMNS), as large as the words that are read.
    """
    groups = out.shape[1] // BFLOAT_ROWS
    # Wider than needed, so that words of one column are in different cache sets.
    left_step = groups * BFLOAT_ROWS + _APART
    right_step = out.shape[0] * BFLOAT_COLUMNS + _APART
    lefts = np.zeros((_PACKED_ROWS // 2, left_step), np.uint32)
    rights = np.zeros((_PACKED_ROWS // 2, right_step), np.uint32)
    for block in range(start, stop, _PACKED_ROWS):
        end = min(block + _PACKED_ROWS, stop)
        _pack_pairs(left[block:end].view(np.uint32), lefts)
        _pack_pairs(right[block:end].view(np.uint32), rights)
        count = (end - block + 1) // 2
        for tile in range(out.shape[0]):
            for group in range(groups):
                first = group * BFLOAT_ROWS
                bfloat_rows(
                    out[tile, first:], lefts[0, first:], 1, left_step,
                    rights[0, tile * BFLOAT_COLUMNS :], right_step, count,
                )  # fmt: skip


@kernel()
def add_small_product(left, right, packed, out, rows):
    """Add ``left[:rows].T @ right[:rows]`` to ``out``, in tiles, for a few rows.

    As :func:`add_inner_product`, for rows that are in the cache: ``left`` is read in
    place, and has a row more than is used. ``packed`` (rows, COLUMNS) is overwritten.
    """
    wide = left.shape[1]
    for tile in range(out.shape[0]):
        first = tile * COLUMNS
        for e in range(rows):
            for k in range(min(COLUMNS, right.shape[1] - first)):
                packed[e, k] = right[e, first + k]
        for start in range(0, wide, ROWS):
            six_rows(out[tile, start:], left[0, start:], 1, wide, packed, rows)


@kernel()
def sparse_times(indptr, indices, values, tiles, out, start, stop):
    """Write rows ``start..stop-1`` of sparse matrix times table to ``out``.

    The table is given in ``tiles`` (tiles, columns of the sparse matrix, TILE), its
    last tile padded; ``out`` has the table's own width.
    """
    total = np.empty(TILE, tiles.dtype)
    for row in range(start, stop):
        for tile in range(tiles.shape[0]):
            total[:] = 0
            add_rows(total, tiles[tile], indices, values, indptr[row], indptr[row + 1])
            first = tile * TILE
            for k in range(min(TILE, out.shape[1] - first)):
                out[row, first + k] = total[k]


@kernel()
def turn_rows(
    indptr,
    indices,
    values,
    block_rows,
    num_columns,
    block_start,
    segment_column,
    segment_start,
    rows,
    kept,
):
    """Turn lists of columns into the segments of :func:`transposed_times`.

    A count of every column gives the bounds of its segment, and then the place of
    its next row; ``values`` and ``kept`` may be None.
    """
    place = np.empty(num_columns, np.int64)
    segment, num_rows = 0, indptr.shape[0] - 1
    for block in range(block_start.shape[0] - 1):
        low, high = block * block_rows, min((block + 1) * block_rows, num_rows)
        place[:] = 0
        for s in range(indptr[low], indptr[high]):
            place[indices[s]] += 1
        start = indptr[low]
        for column in range(num_columns):
            count = place[column]
            place[column] = start
            if count:
                segment_column[segment] = column
                segment_start[segment] = start
                segment += 1
                start += count
        for row in range(low, high):
            for s in range(indptr[row], indptr[row + 1]):
                slot = place[indices[s]]
                rows[slot] = row - low
                if values is not None:
                    kept[slot] = values[s]
                place[indices[s]] += 1
        block_start[block + 1] = segment
    segment_start[segment] = indptr[num_rows]


@kernel()
def transposed_times(
    block_start,
    segment_column,
    segment_start,
    rows,
    values,
    block_rows,
    dense,
    group_start,
    out,
    start,
    stop,
):
    """Add transposed sparse times dense for groups of blocks ``start..stop-1``.

    Block b covers ``block_rows`` rows of the sparse and the dense matrix. Segment s
    lists those of its rows (counted within the block) where ``segment_column[s]`` is
    filled. Each group has its own ``out[group]`` (tiles, columns, TILE), so that the
    sum over groups has a fixed order.
    """
    part = np.zeros((block_rows, TILE), dense.dtype)
    for group in range(start, stop):
        for block in range(group_start[group], group_start[group + 1]):
            first_row = block * block_rows
            count = min(block_rows, dense.shape[0] - first_row)
            for tile in range(out.shape[1]):
                first = tile * TILE
                width = min(TILE, dense.shape[1] - first)
                for i in range(count):
                    for k in range(width):
                        part[i, k] = dense[first_row + i, first + k]
                    part[i, width:] = 0
                for s in range(block_start[block], block_start[block + 1]):
                    add_rows(
                        out[group, tile, segment_column[s]],
                        part,
                        rows,
                        values,
                        segment_start[s],
                        segment_start[s + 1],
                    )


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

    def part(self, start: int, stop: int) -> SparseRows:
        """Return rows ``start..stop-1``, in the same memory."""
        first, last = self.indptr[start], self.indptr[stop]
        given = next(iter(self._values.values()), None)
        return SparseRows(
            self.indptr[start : stop + 1] - first,
            self.indices[first:last],
            None if given is None else given[first:last],
            self.num_columns,
        )

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
