"""Path encodings of pairs, differentiable: generalised Bellman-Ford propagation.

Backgrounds are computed once for all pairs; then pairs go in groups of a fixed size,
each with its own rows and its own sums of gradients, which are added up in order. The
result is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gelato.baselines.nbfnet.layers import layer_backward, layer_forward
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
                _add(total.arrays, sums.arrays)
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
        return None, None, None, *(torch.from_numpy(array) for array in sums.arrays)


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
