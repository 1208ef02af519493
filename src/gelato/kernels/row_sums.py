"""Sparse times dense, both ways, as sums of table rows kept in vector registers.

A sparse matrix with a few hundred columns times a dense table of a hundred columns is
a sum of a few table rows for every sparse row. Tables are cut into tiles of ``TILE``
columns; one tile of a row fits the registers, so a row's sum never touches memory
until it is complete. The transposed product is the same sum, over lists turned round
within blocks of rows that are small enough for the first-level cache.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

# Eight 256-bit registers of float32. Narrower tiles read the index lists more often,
# wider ones spill: 64 was the fastest of 16, 32, 64 and 128.
TILE = 64


@intrinsic
def add_rows(
    typing_context: Any,
    out: Any,
    table: Any,
    indices: Any,
    values: Any,
    start: Any,
    stop: Any,
) -> Any:
    """Add ``values[i] * table[indices[i]]`` for ``start <= i < stop`` to ``out``.

    ``out`` is ``(TILE,)``, ``table`` ``(rows, TILE)``, both contiguous; ``values`` may
    be None for ones. Written as vector instructions because the loop optimiser keeps
    the sum in memory otherwise, at a third of the speed.
    """
    signature = types.void(out, table, indices, values, start, stop)
    return signature, _emit_add_rows


def _emit_add_rows(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    out, table, indices = (
        make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args[:3], args[:3], strict=True)
    )
    number = ir.IntType(64)
    vector = ir.VectorType(context.get_data_type(signature.args[1].dtype), TILE)
    align = signature.args[1].dtype.bitwidth // 8
    target = builder.bitcast(out.data, vector.as_pointer())
    before = builder.load(target, align=align)
    start, stop = args[4], args[5]
    entry = builder.block
    loop, done = (builder.append_basic_block(name) for name in ("rows", "rows_end"))
    builder.cbranch(builder.icmp_signed("<", start, stop), loop, done)

    builder.position_at_end(loop)
    position, total = builder.phi(number), builder.phi(vector)
    row = builder.load(builder.gep(indices.data, [position]))
    offset = builder.mul(builder.zext(row, number), ir.Constant(number, TILE))
    place = builder.bitcast(builder.gep(table.data, [offset]), vector.as_pointer())
    addend = builder.load(place, align=align)
    if signature.args[3] is not types.none:
        values = make_array(signature.args[3])(context, builder, args[3])
        factor = builder.load(builder.gep(values.data, [position]))
        addend = builder.fmul(addend, _broadcast(builder, factor, vector))
    grown = builder.fadd(total, addend)
    following = builder.add(position, ir.Constant(number, 1))
    for phi, first, again in ((position, start, following), (total, before, grown)):
        phi.add_incoming(first, entry)
        phi.add_incoming(again, loop)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, done)

    builder.position_at_end(done)
    result = builder.phi(vector)
    result.add_incoming(before, entry)
    result.add_incoming(grown, loop)
    builder.store(result, target, align=align)
    return context.get_dummy_value()


def _broadcast(builder: Any, scalar: Any, vector: Any) -> Any:
    blank = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(blank, scalar, ir.Constant(ir.IntType(32), 0))
    pattern = ir.Constant(ir.VectorType(ir.IntType(32), TILE), [0] * TILE)
    return builder.shuffle_vector(first, blank, pattern)


@numba.njit(cache=True, nogil=True)
def sparse_times(
    indptr: Any,
    indices: Any,
    values: Any,
    tiles: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
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


@numba.njit(cache=True, nogil=True)
def turn_rows(
    indptr: Any,
    indices: Any,
    values: Any,
    block_rows: int,
    num_columns: int,
    block_start: Any,
    segment_column: Any,
    segment_start: Any,
    rows: Any,
    kept: Any,
) -> None:
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


@numba.njit(cache=True, nogil=True)
def transposed_times(
    block_start: Any,
    segment_column: Any,
    segment_start: Any,
    rows: Any,
    values: Any,
    block_rows: int,
    dense: Any,
    group_start: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
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
