"""A trained pair MLP as a scorer of all pairs, in evaluation mode.

All pairs of a row share a node: its attributes are marked once, and every other node's
attributes are looked up in the marks. A pair's score depends on its two nodes alone,
to the last bit: not on their order, nor on what else is scored in the same call.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gelato.errors import GelatoError, UsageError
from gelato.graph import FloatArray, IntArray
from gelato.kernels.chunks import use_threads
from gelato.kernels.compiled import kernel
from gelato.kernels.tiles import Array, column_tiles, rows_times, tiled
from gelato.kernels.vectors import COLUMNS, TILE, add_rows
from gelato.nn.first_layer import AttributeRows
from gelato.nn.pair_mlp import PairMLP, layers

# A multiple of the rows of a matrix tile, so that every pair goes through whole tiles;
# 48 x 128 float32 are 24 KB.
_BLOCK = 48
_LANES = 16  # running sums of a dot product


@kernel()
def _mark(indptr: Any, indices: Any, values: Any, node: int, own: Any) -> None:
    """Write a node's attributes into a row of zeros."""
    for slot in range(indptr[node], indptr[node + 1]):
        own[indices[slot]] = 1 if values is None else values[slot]


@kernel()
def _unmark(indptr: Any, indices: Any, node: int, own: Any) -> None:
    """Turn the row back into zeros."""
    for slot in range(indptr[node], indptr[node + 1]):
        own[indices[slot]] = 0


@kernel()
def _meet(
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


@kernel()
def _rectified_dot(row: Any, bias: Any, head: Any, lanes: Any) -> Any:
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


@kernel()
def _score_columns(node: int, columns: Any, lists: Any, layers: Any, out: Any) -> None:
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
    _mark(indptr, indices, values, node, own)
    for start in range(0, columns.size, _BLOCK):
        size = min(_BLOCK, columns.size - start)
        for e in range(size):
            other = columns[start + e]
            count = _meet(indptr, indices, values, other, own, found, least)
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
            out[start + e] = _rectified_dot(after[e], bias2, head, lanes)
    _unmark(indptr, indices, node, own)


class PairMLPScorer:
    """Scores pairs by the logit of a pair MLP in evaluation mode.

    The logit is the difference of the MLP's two outputs: it ranks pairs as the
    probability does and never saturates. Scores are symmetric to the last bit.

    Parameters
    ----------
    mlp : PairMLP
        Its weights and running statistics are read once.
    attributes : (n, r) CSR or dense
        Node attributes.
    """

    def __init__(self, mlp: PairMLP, attributes: Any) -> None:
        if attributes is None or 2 * attributes.shape[1] != mlp.hidden1.in_features:
            seen = 0 if attributes is None else attributes.shape[1]
            raise UsageError(
                f"The nodes have {seen} attributes, but the MLP was made for "
                f"{mlp.hidden1.in_features // 2}."
            )
        self._rows = AttributeRows(attributes)
        self.num_nodes = self._rows.shape[0]
        self._layers, self._offset = _folded(mlp, self._rows)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``; a node with itself scores 0."""
        every = np.arange(self.num_nodes)
        scores = np.empty((len(rows), self.num_nodes))
        for place, row in enumerate(rows):
            self._write(row, every, scores[place])
            scores[place, row] = 0.0
        return scores

    def score_rows_above(self, rows: IntArray) -> FloatArray:
        """Return the scores of columns above each row, and 0 elsewhere."""
        every = np.arange(self.num_nodes)
        scores = np.zeros((len(rows), self.num_nodes))
        for place, row in enumerate(rows):
            self._write(row, every[row + 1 :], scores[place, row + 1 :])
        return scores

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of pairs, the same bits as :meth:`score_rows` gives."""
        scores = np.empty(len(pairs))
        order = np.argsort(pairs[:, 0], kind="stable")
        nodes, starts = np.unique(pairs[order, 0], return_index=True)
        bounds = [*starts.tolist(), len(pairs)]
        for node, start, stop in zip(nodes, bounds, bounds[1:], strict=False):
            own = np.empty(stop - start)
            self._write(node, pairs[order[start:stop], 1], own)
            scores[order[start:stop]] = own
        return scores

    def _write(self, node: Any, columns: IntArray, out: FloatArray) -> None:
        _score_columns(int(node), columns, self._lists, self._layers, out)
        out += self._offset
        if not np.isfinite(out).all():
            bad = columns[np.flatnonzero(~np.isfinite(out))[0]]
            raise GelatoError(
                f"The pair MLP's score of the pair ({node}, {bad}) is not finite.",
                hint="Are attributes extreme? Scale them, and fit again.",
            )

    @cached_property
    def _lists(self) -> tuple[Array, Array, Array | None]:
        nodes = self._rows.nodes
        return nodes.indptr, nodes.indices, nodes.values(self._layers[0].dtype)


def _folded(mlp: PairMLP, rows: AttributeRows) -> tuple[tuple[Array, ...], float]:
    """Return the arrays of :func:`_score_columns`, and what is added to every score."""
    first, second, head = layers(list(mlp.parameters()))
    dtype, r = first.weight.dtype, rows.shape[1]
    upper, lower = (
        np.ascontiguousarray(w.T) for w in (first.weight[:, :r], first.weight[:, r:])
    )
    with use_threads(1):  # rows are few, and run on threads already
        tables = rows.tables(upper, lower)
    scale1, shift1 = _statistics(mlp.norm1)
    scale2, shift2 = _statistics(mlp.norm2)
    weight2 = second.weight * scale1  # in float64, as all that is folded
    bias2 = second.bias + second.weight @ shift1
    output = head.weight[0] * scale2
    offset = float(head.weight[0] @ shift2 + head.bias[0])
    folded = (
        tiled(tables.pair),
        tables.first,
        (first.bias + tables.constant).astype(dtype),
        column_tiles(weight2.T.astype(dtype)),
        _padded(bias2.astype(dtype)),
        _padded(output.astype(dtype)),
    )
    return folded, offset


def _statistics(norm: Any) -> tuple[FloatArray, FloatArray]:
    """Return a normalisation in evaluation mode as factor and offset."""
    mean, variance, gain, shift = (
        part.detach().double().numpy()
        for part in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )
    scale = gain / np.sqrt(variance + norm.eps)
    return scale, shift - mean * scale


def _padded(vector: Array) -> Array:
    """Return a vector with 0 appended up to whole tiles."""
    return np.pad(vector, (0, -len(vector) % COLUMNS))
