"""The pair MLP in evaluation mode over whole rows of pairs, without a list of them.

All pairs of a row share a node: its attributes are marked once, and every other node's
attributes are looked up in the marks. A pair's score depends on its two nodes alone,
to the last bit: not on their order, nor on what else is scored in the same call.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from gelato.kernels.tiles import rows_times
from gelato.kernels.vectors import TILE, add_rows

# A multiple of the rows of a matrix tile, so that every pair goes through whole tiles;
# 48 x 128 float32 are 24 KB.
_BLOCK = 48
_LANES = 16  # running sums of a dot product


@numba.njit(cache=True, nogil=True)
def mark(indptr: Any, indices: Any, values: Any, node: int, own: Any) -> None:
    """Write a node's attributes into a row of zeros."""
    for slot in range(indptr[node], indptr[node + 1]):
        own[indices[slot]] = 1 if values is None else values[slot]


@numba.njit(cache=True, nogil=True)
def unmark(indptr: Any, indices: Any, node: int, own: Any) -> None:
    """Turn the row back into zeros."""
    for slot in range(indptr[node], indptr[node + 1]):
        own[indices[slot]] = 0


@numba.njit(cache=True, nogil=True)
def meet(
    indptr: Any, indices: Any, values: Any, node: int, own: Any, found: Any, least: Any
) -> int:
    """List the attributes where a node meets the marked one; return how many.

    With values, ``least`` gets the smaller absolute value, and signs must agree.
    """
    count = 0
    for slot in range(indptr[node], indptr[node + 1]):
        attribute = indices[slot]
        found[count] = attribute
        if values is None:
            count += own[attribute] != 0
        else:
            least[count] = min(abs(own[attribute]), abs(values[slot]))
            count += own[attribute] * np.sign(values[slot]) > 0
    return count


@numba.njit(cache=True, nogil=True)
def rectified_dot(row: Any, bias: Any, head: Any, lanes: Any) -> Any:
    """Return ``relu(row + bias) @ head`` in a fixed order of additions."""
    lanes[:] = 0
    for first in range(0, row.size, _LANES):
        for k in range(_LANES):
            x = row[first + k] + bias[first + k]
            # Written so that a NaN stays a NaN.
            lanes[k] += (0 if x <= 0 else x) * head[first + k]
    half = _LANES
    while half > 1:
        half //= 2
        for k in range(half):
            lanes[k] += lanes[half + k]
    return lanes[0]


@numba.njit(cache=True, nogil=True)
def score_columns(node: int, columns: Any, lists: Any, layers: Any, out: Any) -> None:
    """Write the logits of (node, column) for all given columns.

    Parameters
    ----------
    node : int
    columns : (K,) int
    lists : tuple
        Attributes by node: indptr, indices, values or None.
    layers : tuple
        Tiles of the pair table (tiles, r, TILE), products per node (n, h), bias (h,);
        column tiles of the second weight, its bias and the head, padded with 0 to
        whole lanes. The normalisations are folded in.
    out : (K,) float64
    """
    indptr, indices, values = lists
    tiles, at_node, bias1, tiles2, bias2, head = layers
    width = at_node.shape[1]
    own = np.zeros(tiles.shape[1], tiles.dtype)
    found = np.empty(tiles.shape[1] + 1, indices.dtype)
    least = np.empty(tiles.shape[1] + 1, tiles.dtype)
    total = np.empty(TILE, tiles.dtype)
    lanes = np.empty(_LANES, tiles.dtype)
    hidden = np.zeros((_BLOCK, width), tiles.dtype)
    after = np.zeros((_BLOCK, bias2.size), tiles.dtype)
    mark(indptr, indices, values, node, own)
    for start in range(0, columns.size, _BLOCK):
        size = min(_BLOCK, columns.size - start)
        for e in range(size):
            other = columns[start + e]
            count = meet(indptr, indices, values, other, own, found, least)
            for tile in range(tiles.shape[0]):
                total[:] = 0
                if values is None:
                    add_rows(total, tiles[tile], found, None, 0, count)
                else:
                    add_rows(total, tiles[tile], found, least, 0, count)
                first = tile * TILE
                for k in range(first, min(first + TILE, width)):
                    both = at_node[node, k] + at_node[other, k]
                    x = total[k - first] + both + bias1[k]
                    hidden[e, k] = 0 if x <= 0 else x
        rows_times(hidden, tiles2, after, 0, _BLOCK)
        for e in range(size):
            out[start + e] = rectified_dot(after[e], bias2, head, lanes)
    unmark(indptr, indices, node, own)
