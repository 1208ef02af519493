"""Path encodings of pairs, differentiable: generalised Bellman-Ford propagation.

Backgrounds are computed once for all pairs; then pairs go in groups of a fixed size,
each with its own rows and its own sums of gradients, which are added up in order. The
result is the same for any number of threads.

A layer takes statistics of gathered rows, eight numbers at a time: a node's messages
are rows anywhere in a table. Sums are in double precision, so that they do not depend
on the order of the rows: equal neighbourhoods give equal states.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gelato.baselines.nbfnet.rows import (
    Array,
    LayerRows,
    PathGraph,
    PathWeights,
    background_rows,
    column_tiles,
    pair_rows,
)
from gelato.graph import IntArray
from gelato.kernels.chunks import run_chunks
from gelato.kernels.compiled import kernel
from gelato.kernels.tiles import add_small_product, rows_times
from gelato.kernels.vectors import COLUMNS, LANES, ROWS, gather, scatter

STATISTICS = 4  # mean, largest, smallest, deviation
_PART = 48
_LEAST_VARIANCE = 1e-6
_NORM_EPSILON = 1e-5


@kernel()
def _gathered(states, indices, start, degree, relation, boundary, sums, squares, row):
    """Write statistics of a node's messages, then its own state."""
    width = states.shape[1]
    high, low = row[width : 2 * width], row[2 * width : 3 * width]
    for k in range(width):
        sums[k] = boundary[k]
        squares[k] = np.float64(boundary[k]) * boundary[k]
        high[k] = boundary[k]
        low[k] = boundary[k]
    for lane in range(0, width, LANES):
        rows = (states, indices, start, start + degree)
        gather(*rows, relation, lane, sums, squares, high, low)
    own = indices[start]
    for k in range(width):
        mean = sums[k] / (degree + 1)
        variance = squares[k] / (degree + 1) - mean * mean
        row[k] = mean
        row[3 * width + k] = np.sqrt(max(variance, _LEAST_VARIANCE))
        row[4 * width + k] = states[own, k]


@kernel(fastmath={"reassoc"})
def _moments(before):
    """Return the mean of a row and the inverse of its deviation."""
    width = before.shape[0]
    total = 0.0
    for k in range(width):
        total += before[k]
    mean = total / width
    spread = 0.0
    for k in range(width):
        spread += (before[k] - mean) ** 2
    return mean, 1.0 / np.sqrt(spread / width + _NORM_EPSILON)


@kernel()
def _gather_part(states, rows, messages, degree, entry, first, count, inputs):
    """Write the inputs of rows of one class, whose neighbours begin at ``entry``."""
    indices, source = rows[0], rows[3]
    relation, query = messages
    width = states.shape[1]
    nothing = np.zeros(width, states.dtype)
    sums, squares = np.empty(width), np.empty(width)
    for i in range(count):
        boundary = query if source[first + i] else nothing
        start = entry + i * degree
        out = inputs[i]
        _gathered(
            states, indices, start, degree, relation, boundary, sums, squares, out
        )


@kernel()
def _finish(mixed, bias, gain, shift, own, out):
    """Normalise and rectify a row, and add the node's own state."""
    for k in range(mixed.shape[0]):
        mixed[k] += bias[k]
    mean, inverse = _moments(mixed)
    for k in range(mixed.shape[0]):
        value = (mixed[k] - mean) * inverse * gain[k] + shift[k]
        out[k] = max(value, 0.0) + own[k]


@kernel()
def layer_forward(states, rows, degrees, weights, out, before):
    """Write the next states of all rows to their places in ``out``.

    Parameters
    ----------
    states : (N, w)
        Table of the layer before.
    rows : tuple
        ``indices`` int32, neighbours' rows; ``class_start`` int64 (C + 1,);
        ``place`` int32, where a row's state goes; ``source`` bool, whether the row is
        a source.
    degrees : (C,) int64
        Neighbours of a row of each class, the node itself counted.
    weights : tuple
        ``relation``, ``query`` (w,); ``tiles``, column tiles of a (5w, w) matrix per
        class; ``bias``, ``gain``, ``shift`` (w,).
    out : (N', w)
        Table of this layer.
    before : (R, w)
        Rows before normalisation, for :func:`layer_backward`; not written if empty.
    """
    class_start, place = rows[1], rows[2]
    tiles, bias, gain, shift = weights[2:]
    width = states.shape[1]
    inputs = np.empty((_PART, (STATISTICS + 1) * width), states.dtype)
    mixed = np.empty((_PART, width), states.dtype)
    entry = 0
    for c in range(degrees.shape[0]):
        for first in range(class_start[c], class_start[c + 1], _PART):
            count = min(_PART, class_start[c + 1] - first)
            _gather_part(
                states, rows, weights[:2], degrees[c], entry, first, count, inputs
            )
            entry += count * degrees[c]
            rows_times(inputs, tiles[c], mixed, 0, count)
            for i in range(count):
                own = inputs[i, STATISTICS * width :]
                _finish(mixed[i], bias, gain, shift, own, out[place[first + i]])
                if before.shape[0]:
                    before[first + i] = mixed[i]


@kernel(fastmath={"reassoc"})
def _through_norm(gradient, before, gain, shift, by_gain, by_shift, by_bias, out):
    """Go back through rectifier and normalisation of one row, into ``out``."""
    width = before.shape[0]
    mean, inverse = _moments(before)
    total, along = 0.0, 0.0
    for k in range(width):
        normed = (before[k] - mean) * inverse
        passed = gradient[k] if normed * gain[k] + shift[k] > 0 else 0.0
        by_gain[k] += passed * normed
        by_shift[k] += passed
        total += passed * gain[k]
        along += passed * gain[k] * normed
    for k in range(width):
        normed = (before[k] - mean) * inverse
        passed = gradient[k] if normed * gain[k] + shift[k] > 0 else 0.0
        value = inverse * (passed * gain[k] - (total + along * normed) / width)
        by_bias[k] += value
        out[k] = value


@kernel()
def _through_statistics(row, gradient, degree, boundary, parts):
    """Turn gradients of statistics into those of messages (rows of ``parts``)."""
    width = boundary.shape[0]
    floor = parts.dtype.type(np.sqrt(_LEAST_VARIANCE))
    share = 1.0 / (degree + 1)
    for k in range(width):
        mean, deviation = row[k], row[3 * width + k]
        by_variance = 0.0
        if deviation > floor:
            by_variance = gradient[3 * width + k] * 0.5 / deviation
        parts[0, k] = (gradient[k] - 2 * mean * by_variance) * share
        parts[1, k] = 2 * by_variance * share
        # Where the boundary is as extreme, it takes half; messages that are equally
        # extreme all take the whole: both as the reference.
        for extreme in (1, 2):
            part = 0.5 if row[extreme * width + k] == boundary[k] else 1.0
            parts[1 + extreme, k] = part * gradient[extreme * width + k]


@kernel()
def _to_query(states, indices, start, degree, relation, query, row, parts, by_query):
    """Add the gradient of a source's boundary."""
    width = query.shape[0]
    for k in range(width):
        value = parts[0, k] + parts[1, k] * query[k]
        for extreme in (1, 2):
            if row[extreme * width + k] == query[k]:
                tied = False
                for s in range(start, start + degree):
                    tied |= relation[k] * states[indices[s], k] == query[k]
                value += parts[1 + extreme, k] * (1.0 if tied else 2.0)
        by_query[k] += value


@kernel()
def _fold(tiles, scale, by_gathered, by_own):
    """Add the gradient of a class's weights to those they are made of."""
    width = by_own.shape[0]
    for k in range((STATISTICS + 1) * width):
        for j in range(width):
            value = tiles[j // COLUMNS, k, j % COLUMNS]
            if k < STATISTICS * width:
                for scaler in range(3):
                    by_gathered[scaler, k, j] += scale[scaler] * value
            else:
                by_own[k - STATISTICS * width, j] += value


@kernel()
def layer_backward(
    states, rows, degrees, scales, weights, before, by_out, by_states, sums
):
    """Go back through :func:`layer_forward`.

    Parameters
    ----------
    states, rows, degrees
        As there; what it gathered is gathered again.
    scales : (C, 3)
        Scalers of each class.
    weights : tuple
        As there, with column tiles of the transposed matrices at the end.
    before : (R, w)
        As :func:`layer_forward` wrote it.
    by_out : (N', w)
        Gradient of this layer's table.
    by_states : (N, w)
        That of the layer before is added here.
    sums : tuple
        Where the gradients of ``relation``, ``query``, ``gathered`` (3, 4w, w),
        ``own`` (w, w), ``bias``, ``gain`` and ``shift`` are added.
    """
    class_start, place = rows[1], rows[2]
    gain, shift, back_tiles = weights[4:]
    by_gathered, by_own, by_bias, by_gain, by_shift = sums[2:]
    width = states.shape[1]
    wide = (STATISTICS + 1) * width
    inputs = np.zeros((_PART + 1, wide), states.dtype)
    packed = np.zeros((_PART, COLUMNS), states.dtype)
    by_inputs = np.empty((_PART, wide), states.dtype)
    by_mixed = np.empty((_PART, width), states.dtype)
    tiles = np.empty(_inner_tiles(width), states.dtype)
    norm, by_norm = (gain, shift), (by_gain, by_shift, by_bias)
    entry = 0
    for c in range(degrees.shape[0]):
        if class_start[c] == class_start[c + 1]:
            continue
        tiles[:] = 0
        for first in range(class_start[c], class_start[c + 1], _PART):
            count = min(_PART, class_start[c + 1] - first)
            here = (degrees[c], entry, first, count)
            _gather_part(states, rows, weights[:2], *here, inputs)
            for i in range(count):
                row, out = by_out[place[first + i]], by_mixed[i]
                _through_norm(row, before[first + i], *norm, *by_norm, out)
            add_small_product(inputs, by_mixed, packed, tiles, count)
            rows_times(by_mixed, back_tiles[c], by_inputs, 0, count)
            gradients = (by_inputs, by_out, by_states)
            _scatter_part(states, rows, weights[:2], here, inputs, gradients, sums[:2])
            entry += count * degrees[c]
        _fold(tiles, scales[c], by_gathered, by_own)


@kernel()
def _scatter_part(states, rows, messages, here, inputs, gradients, sums):
    """Add the gradients of rows' inputs to those of the states they are made of."""
    indices, place, source = rows[0], rows[2], rows[3]
    relation, query = messages
    degree, entry, first, count = here
    by_inputs, by_out, by_states = gradients
    by_relation, by_query = sums
    width = states.shape[1]
    parts = np.empty((4, width), states.dtype)
    nothing = np.zeros(width, states.dtype)
    for i in range(count):
        row, start = inputs[i], entry + i * degree
        boundary = query if source[first + i] else nothing
        _through_statistics(row, by_inputs[i], degree, boundary, parts)
        known = (states, indices, start, degree, relation)
        if source[first + i]:
            _to_query(*known, query, row, parts, by_query)
        high, low = row[width : 2 * width], row[2 * width : 3 * width]
        for lane in range(0, width, LANES):
            to = (states, by_states, indices, start, start + degree)
            changes = (parts[0], parts[1], high, parts[2], low, parts[3])
            scatter(*to, relation, lane, *changes, by_relation)
        own, goal = indices[start], place[first + i]
        for k in range(width):
            back = by_inputs[i, STATISTICS * width + k]
            by_states[own, k] += by_out[goal, k] + back


@kernel()
def _inner_tiles(width):
    """Return the shape of the sums of a class's weights' gradient."""
    wide = (STATISTICS + 1) * width
    return -(-width // COLUMNS), -(-wide // ROWS) * ROWS, COLUMNS


GROUP_PAIRS = 32
# Rows whose states are kept for the gradient, some 500 bytes each; groups beyond are
# computed once more.
_KEPT_ROWS = 4_000_000
# Groups whose gradients wait to be added up in order.
_WINDOW = 16


@dataclass
class Run:
    """States of the rows of some propagations.

    Parameters
    ----------
    layers : list of tuple
        Their rows.
    tables : list of (N, w)
        States by layer, from 0 to T.
    before : list of (R, w)
        Rows before normalisation; empty arrays if no gradient is wanted.
    """

    layers: list[LayerRows]
    tables: list[Array]
    before: list[Array] = field(default_factory=list)


class Propagation:
    """A graph with weights: forward and backward of given rows.

    Parameters
    ----------
    graph : PathGraph
        Where messages pass.
    weights : PathWeights
        What turns them into states.
    targets : (k,) int64, optional
        Nodes whose last states are wanted; default all.
    keep : bool
        Whether a gradient will be asked for.
    """

    def __init__(
        self,
        graph: PathGraph,
        weights: PathWeights,
        targets: IntArray | None = None,
        *,
        keep: bool = False,
    ) -> None:
        self.graph, self.weights, self.keep = graph, weights, keep
        matrices = [weights.by_class(i, graph) for i in range(weights.layers)]
        self.forward_weights = [
            weights.forward(i, matrix) for i, matrix in enumerate(matrices)
        ]
        self.backward_weights = [
            (*self.forward_weights[i], column_tiles(matrix.transpose(0, 2, 1)))
            for i, matrix in enumerate(matrices)
            if keep
        ]
        layers = background_rows(graph, targets, weights.layers)
        nothing = np.zeros((graph.num_nodes, weights.width), weights.query.dtype)
        self.background = Run(layers, [nothing])
        for i in range(weights.layers):
            self._step(self.background, i, np.zeros_like(nothing))

    def run(self, layers: list[LayerRows]) -> Run:
        """Return the states of rows that lie behind the backgrounds in their tables."""
        shape = (self.graph.num_nodes + 1, self.weights.width)
        first = np.zeros(shape, self.weights.query.dtype)
        first[-1] = self.weights.query
        found = Run(layers, [first])
        for i, (_, _, place, _) in enumerate(layers):
            known = self.background.tables[i + 1]
            table = np.empty((len(known) + len(place), shape[1]), known.dtype)
            table[: len(known)] = known
            self._step(found, i, table)
        return found

    def _step(self, run: Run, layer: int, table: Array) -> None:
        rows = run.layers[layer]
        size = (len(rows[2]) if self.keep else 0, table.shape[1])
        before = np.empty(size, table.dtype)
        layer_forward(
            run.tables[layer],
            rows,
            self.graph.degrees,
            self.forward_weights[layer],
            table,
            before,
        )
        run.tables.append(table)
        run.before.append(before)

    def backward(self, run: Run, by_last: Array, sums: PathWeights) -> list[Array]:
        """Add gradients to sums; return those of the backgrounds, by layer.

        ``run`` came from :meth:`run`, and ``by_last`` is that of its last table.
        """
        n = self.graph.num_nodes
        by_out, found = by_last, [by_last[:n].copy()]
        for layer in range(self.weights.layers - 1, -1, -1):
            by_states = np.zeros_like(run.tables[layer])
            self.through(run, layer, by_out, by_states, sums)
            found.append(by_states[:n].copy())
            by_out = by_states
        sums.query[:] += by_out[n]
        return found[::-1]

    def through(
        self, run: Run, layer: int, by_out: Array, by_states: Array, sums: PathWeights
    ) -> None:
        """Go back through one layer."""
        layer_backward(
            run.tables[layer],
            run.layers[layer],
            self.graph.degrees,
            self.graph.scales.astype(by_out.dtype),
            self.backward_weights[layer],
            run.before[layer],
            by_out,
            by_states,
            sums.sums(layer),
        )


class _Pairs:
    """Both propagations of listed pairs, in groups."""

    def __init__(
        self, graph: PathGraph, weights: PathWeights, pairs: IntArray, keep: bool
    ) -> None:
        self.pairs = pairs
        ends = np.unique(pairs)
        self.propagation = Propagation(graph, weights, ends, keep=keep)
        self.groups = [
            pairs[start : start + GROUP_PAIRS]
            for start in range(0, len(pairs), GROUP_PAIRS)
        ]
        self.kept: dict[int, tuple[Run, IntArray]] = {}
        self.kept_rows = 0

    def forward(self) -> Array:
        """Return last states at targets, ``(K, 2, w)``."""
        propagation = self.propagation
        width = propagation.weights.width
        out = np.empty((len(self.pairs), 2, width), propagation.weights.query.dtype)

        def work(group: int) -> None:
            run, targets = self._run(group)
            first = group * GROUP_PAIRS
            found = run.tables[-1][targets].reshape(-1, 2, width)
            out[first : first + len(found)] = found
            rows = sum(len(place) for _, _, place, _ in run.layers)
            if propagation.keep and self.kept_rows + rows <= _KEPT_ROWS:
                self.kept_rows += rows
                self.kept[group] = (run, targets)

        run_chunks(work, len(self.groups))
        return out

    def _run(self, group: int) -> tuple[Run, IntArray]:
        graph, layers = self.propagation.graph, self.propagation.weights.layers
        rows, targets = pair_rows(graph, self.groups[group], layers)
        return self.propagation.run(rows.layers), targets

    def backward(self, gradient: Array) -> PathWeights:
        """Return the gradients of all weights."""
        propagation = self.propagation
        total = propagation.weights.zeros()
        by_background = [np.zeros_like(t) for t in propagation.background.tables]
        for start in range(0, len(self.groups), _WINDOW):
            window = range(start, min(start + _WINDOW, len(self.groups)))
            found: list[Any] = [None] * len(window)

            def work(i: int, window: range = window, found: list[Any] = found) -> None:
                found[i] = self._group_backward(window[i], gradient)

            run_chunks(work, len(window))
            for sums, by_tables in found:
                _add(total, sums)
                _add(by_background, by_tables)
        for layer in range(propagation.weights.layers - 1, -1, -1):
            by_out, by_states = by_background[layer + 1], by_background[layer]
            propagation.through(propagation.background, layer, by_out, by_states, total)
        return total

    def _group_backward(
        self, group: int, gradient: Array
    ) -> tuple[PathWeights, list[Array]]:
        """Return a group's gradients of weights and of the backgrounds."""
        first = group * GROUP_PAIRS
        part = gradient[first : first + len(self.groups[group])]
        kept = self.kept.pop(group) if group in self.kept else self._run(group)
        run, targets = kept
        by_last = np.zeros_like(run.tables[-1])
        np.add.at(by_last, targets, part.reshape(len(targets), -1))
        sums = self.propagation.weights.zeros()
        return sums, self.propagation.backward(run, by_last, sums)


def _add(wholes: Iterable[Array], parts: Iterable[Array]) -> None:
    for whole, part in zip(wholes, parts, strict=True):
        whole += part


class _PathStates(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, graph: PathGraph, pairs: IntArray, keep: bool, *weights: Tensor
    ) -> Tensor:
        ctx.work = _Pairs(graph, PathWeights.of(weights), pairs, keep)
        return torch.from_numpy(ctx.work.forward())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        sums = ctx.work.backward(gradients[0].contiguous().numpy())
        return None, None, None, *(torch.from_numpy(array) for array in sums)


def path_states(
    graph: PathGraph, pairs: IntArray, weights: tuple[Tensor, ...]
) -> Tensor:
    """Return for every pair (u, v) the states of v from u and of u from v.

    Parameters
    ----------
    graph : PathGraph
        Where messages pass.
    pairs : (K, 2) int64
        Pairs.
    weights : tuple of Tensor
        In the order of :class:`gelato.baselines.nbfnet.rows.PathWeights`.

    Returns
    -------
    (K, 2, w) Tensor
    """
    keep = torch.is_grad_enabled()
    states = _PathStates.apply(graph, pairs, keep, *weights)  # type: ignore[no-untyped-call]
    return cast(Tensor, states)
