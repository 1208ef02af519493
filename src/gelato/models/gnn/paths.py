"""NBFNet's scores of whole rows: one propagation per node, never two per pair."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import psutil
import scipy.sparse as sp

from gelato.graph import FloatArray, IntArray
from gelato.kernels import path_scores as kernels
from gelato.kernels.chunks import run_chunks
from gelato.kernels.matrix_tiles import column_tiles
from gelato.models.gnn.decoders import RowsOrHalf
from gelato.models.gnn.features import refuse_large
from gelato.nn.path_rows import source_rows
from gelato.nn.path_states import Propagation
from gelato.nn.path_weights import Array, PathGraph, PathWeights
from gelato.ranking.scorers import row_blocks

# Rows of states that a group of propagations computes at a time.
_GROUP_ROWS = 200_000
_WINDOW = 16  # groups whose states wait to be added up in order
# Where listed pairs have this share of all nodes as ends, all pairs are scored.
_ALL_ABOVE = 0.125
# Bytes per near pair: column and score. While they are made, also both states' sum.
_PAIR_BYTES = 8
_SHARE = 0.3
_TRIAL_SECONDS, _TRIAL_SOURCES = 1.0, 256
_LOCK = threading.Lock()


@dataclass(frozen=True, eq=False)
class PathScorer(RowsOrHalf):
    """A net on the mean of two path encodings, one from either end.

    Where ends are within T edges, encodings come from one propagation per node; all
    other pairs follow from the backgrounds of their ends.

    Parameters
    ----------
    graph : PathGraph
        Where messages pass.
    weights : PathWeights
        What propagates.
    net : tuple
        ``(w, units)`` first matrix, ``(units,)`` its shift, ``(units,)`` second
        matrix, ``(1,)`` its shift.
    """

    graph: PathGraph
    weights: PathWeights
    net: tuple[Array, ...]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        pairs = np.sort(pairs, axis=1)
        ends = np.unique(pairs)
        if "near" in self.__dict__ or len(ends) > _ALL_ABOVE * self.num_nodes:
            indptr, columns, scores = _parts(self._near_pairs())
            near = np.ones(len(scores), bool)
        else:
            n = self.num_nodes
            keys = np.unique(pairs[:, 0] * n + pairs[:, 1])
            columns = (keys % n).astype(np.int32)
            indptr = np.searchsorted(keys // n, np.arange(n + 1))
            scores, near = self._scored(indptr, columns, (0, n), ends)
        found = np.empty(len(pairs))
        self._far_pairs(pairs, found)
        at = np.empty(len(pairs), np.int64)
        kernels.find_pairs(indptr, columns, pairs, at)
        chosen = np.flatnonzero(at >= 0)
        chosen = chosen[near[at[chosen]]]
        found[chosen] = scores[at[chosen]]
        return found

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        near = self._near_pairs()
        found = np.zeros((len(rows), self.num_nodes))
        for i, u in enumerate(rows.tolist()):
            kernels.far_row(u, self._halves, *self._outer, found[i])
            _put(found[i], near, u)
            if above:
                found[i, : u + 1] = 0.0
            else:
                _put(found[i], self._turned, u)
        return found

    def trial(self) -> tuple[PathScorer, float, int]:
        """Return what scores rows as fast, and what rows need once.

        That is the time of one propagation per node, from a few, and memory.
        """
        n, layers = self.num_nodes, self.weights.layers
        few = np.random.default_rng(0).permutation(n)[:_TRIAL_SOURCES]
        self._states(few[:1])  # compile, and make the backgrounds
        searched, sizes = _timed(
            kernels.ball_sizes, *self.graph.edges, few, self.weights.layers
        )
        pairs = float(sizes.mean()) * n / 2
        wanted = pairs * 4 * self.weights.width
        blocks = max(1.0, -(-wanted // _budget()))
        done, seconds = 0, 0.0
        for sources in row_blocks(few, sizes * layers, max_cells=_GROUP_ROWS):
            seconds += _timed(self._states, sources)[0]
            done += len(sources)
            if seconds > _TRIAL_SECONDS:
                break
        # Sources of later blocks are asked again for the rows of earlier ones; who is
        # near is searched to count, to list, and to cut sources into groups.
        once = seconds / done * (1 + (blocks - 1) / 2) + 3 * searched / len(few)
        rest = PathScorer(self.graph, self.weights, self.net)
        rest.__dict__["near"] = sp.csr_array((n, n), dtype=np.float32)
        memory = int(pairs * _PAIR_BYTES + min(wanted, _budget()))
        return rest, once * n, memory

    def _near_pairs(self) -> sp.csr_array:
        with _LOCK:  # threads that score rows wait for the first of them
            return self.near

    @cached_property
    def near(self) -> sp.csr_array:
        """Scores of all near pairs (u, v), u <= v, by row."""
        n, layers = self.num_nodes, self.weights.layers
        counts = np.empty(n, np.int64)
        nothing = np.empty(0, np.int32)
        kernels.near_columns(*self.graph.edges, layers, 0, n, counts, nothing)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        refuse_large(
            f"NBFNet's scores of {indptr[-1]:,} pairs within {layers} edges",
            _PAIR_BYTES * float(indptr[-1]),
            hint="Score listed pairs, evaluate an estimate, or use fewer layers.",
        )
        columns = np.empty(int(indptr[-1]), np.int32)
        kernels.near_columns(*self.graph.edges, layers, 0, n, counts, columns)
        scores = np.empty(len(columns), np.float32)
        limit = max(1, int(_budget() / (4 * self.weights.width)))
        for rows in row_blocks(np.arange(n), counts, max_cells=limit, max_rows=n):
            low, high = int(rows[0]), int(rows[-1]) + 1
            # Rows before the block have their scores already.
            found, _ = self._scored(indptr, columns, (low, high), np.arange(low, n))
            scores[indptr[low] : indptr[high]] = found
        return sp.csr_array((scores, columns, indptr), shape=(n, n))

    @cached_property
    def _turned(self) -> sp.csr_array:
        return sp.csr_array(self.near.T)

    def _scored(
        self, indptr: IntArray, columns: Any, rows: tuple[int, int], sources: IntArray
    ) -> tuple[Array, Any]:
        """Return scores of listed pairs by their near states, and whether they are."""
        size = int(indptr[rows[1]] - indptr[rows[0]])
        sums = np.zeros((size, self.weights.width), self.weights.query.dtype)
        hits = np.zeros(size, np.int8)
        groups = list(self._groups(sources))
        for start in range(0, len(groups), _WINDOW):
            window = groups[start : start + _WINDOW]
            states: list[Any] = [None] * len(window)

            def work(i: int, window: Any = window, states: Any = states) -> None:
                states[i] = self._states(window[i])

            run_chunks(work, len(window))
            for group, (reach, table) in zip(window, states, strict=True):
                kernels.add_states(
                    reach, group, table, indptr, columns, rows, sums, hits
                )
        scores = np.empty(size, np.float32)
        tiles = column_tiles(self.net[0])
        kernels.net_scores(sums, tiles, *self._outer, scores)
        return scores, hits == 2

    def _groups(self, sources: IntArray) -> Iterator[IntArray]:
        layers = self.weights.layers
        sizes = kernels.ball_sizes(*self.graph.edges, sources, layers)
        return row_blocks(sources, sizes * layers, max_cells=_GROUP_ROWS)

    def _states(self, sources: IntArray) -> tuple[tuple[Any, ...], Array]:
        """Return what sources reach, and the last states of that."""
        rows = source_rows(self.graph, sources, self.weights.layers)
        table = self._propagation.run(rows.layers).tables[-1]
        return (rows.start, rows.nodes, rows.found), table[self.num_nodes :]

    @cached_property
    def _propagation(self) -> Propagation:
        return Propagation(self.graph, self.weights)

    @cached_property
    def _halves(self) -> Array:
        """What a node's background adds to the hidden units, ``(units, n)``."""
        states = self._propagation.background.tables[-1].astype(np.float64)
        product = (states @ self.net[0].astype(np.float64)) / 2
        return np.ascontiguousarray(product.T.astype(self.net[0].dtype))

    @property
    def _outer(self) -> tuple[Any, ...]:
        return self.net[1], self.net[2], float(self.net[3][0])

    def _far_pairs(self, pairs: IntArray, out: FloatArray) -> None:
        kernels.far_pairs(pairs, self._halves, *self._outer, out)


def _budget() -> float:
    """Return the bytes that sums of states may take."""
    return _SHARE * float(psutil.virtual_memory().available)


def _timed(work: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    found = work(*given)
    return time.perf_counter() - started, found


def _parts(matrix: sp.csr_array) -> tuple[Any, Any, Any]:
    return matrix.indptr, matrix.indices, matrix.data


def _put(row: FloatArray, matrix: sp.csr_array, u: int) -> None:
    part = slice(matrix.indptr[u], matrix.indptr[u + 1])
    row[matrix.indices[part]] = matrix.data[part]
