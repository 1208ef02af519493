"""A trained pair MLP as a scorer of all pairs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gelato.errors import GelatoError, UsageError
from gelato.graph import FloatArray, IntArray
from gelato.kernels.chunks import use_threads
from gelato.kernels.pair_logits import score_columns
from gelato.kernels.tiles import Array, column_tiles, tiled
from gelato.kernels.vectors import COLUMNS
from gelato.nn.first_layer import AttributeRows
from gelato.nn.pair_mlp import PairMLP, layers


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
        score_columns(int(node), columns, self._lists, self._layers, out)
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
    """Return the arrays of :func:`score_columns`, and what is added to every score."""
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
