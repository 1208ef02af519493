"""From states of propagations to scores of pairs: near ones summed, far ones closed.

A pair is near if one end is within T edges of the other; only then do its states
differ from the backgrounds. Near pairs (u, v), u <= v, are listed by row.
"""

# mypy: disable-error-code="no-untyped-def"

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

from gelato.baselines.nbfnet.rows import Array, PathGraph, PathWeights, source_rows
from gelato.baselines.nbfnet.states import Propagation
from gelato.baselines.shared_layers.decoders import RowsOrHalf
from gelato.graph import FloatArray, IntArray
from gelato.kernels.chunks import run_chunks
from gelato.kernels.compiled import kernel
from gelato.kernels.tiles import column_tiles, rows_times
from gelato.nn.messages import refuse_large
from gelato.ranking.scorers import row_blocks

_PART = 48


@kernel()
def ball_sizes(indptr, indices, sources, limit):
    """Return how many nodes each source reaches, itself included."""
    n = indptr.shape[0] - 1
    hops, queue = np.full(n, -1, np.int32), np.empty(n, np.int32)
    sizes = np.empty(sources.shape[0], np.int64)
    for d in range(sources.shape[0]):
        sizes[d] = _reach(indptr, indices, sources[d], limit, hops, queue)
        for i in range(sizes[d]):
            hops[queue[i]] = -1
    return sizes


@kernel()
def _reach(indptr, indices, source, limit, hops, queue):
    """List nodes within ``limit`` edges, with their ``hops``; return their number."""
    hops[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        x = queue[head]
        head += 1
        if hops[x] == limit:
            break
        for s in range(indptr[x], indptr[x + 1]):
            if hops[indices[s]] < 0:
                hops[indices[s]] = hops[x] + 1
                queue[tail] = indices[s]
                tail += 1
    return tail


@kernel()
def near_columns(indptr, indices, limit, start, stop, counts, columns):
    """Count or list near columns v >= u of rows ``start .. stop - 1``.

    ``counts[u - start]`` is written; ``columns`` is filled, sorted by row, unless it
    is empty.
    """
    n = indptr.shape[0] - 1
    hops, queue = np.full(n, -1, np.int32), np.empty(n, np.int32)
    at = 0
    for u in range(start, stop):
        tail = _reach(indptr, indices, u, limit, hops, queue)
        found = 0
        for i in range(tail):
            hops[queue[i]] = -1
            if queue[i] >= u:
                queue[found] = queue[i]
                found += 1
        counts[u - start] = found
        if columns.shape[0]:
            columns[at : at + found] = np.sort(queue[:found])
            at += found


@kernel()
def find_column(columns, low, high, wanted):
    """Return where a sorted row holds a column, -1 if it does not."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and columns[low] == wanted else -1


@kernel()
def find_pairs(indptr, columns, pairs, out):
    """Write where pairs (u, v), u <= v, are listed, -1 where they are not."""
    for p in range(pairs.shape[0]):
        u, v = pairs[p]
        out[p] = find_column(columns, indptr[u], indptr[u + 1], v)


@kernel()
def add_states(reach, sources, states, indptr, columns, rows, sums, hits):
    """Add the states of propagations to the sums of listed pairs.

    Parameters
    ----------
    reach : tuple
        ``start``, ``nodes``, and each node's row in ``states``.
    sources : (D,) int64
        Source of every list.
    states : (R, w)
        Last states.
    indptr, columns
        Listed pairs (u, v), u <= v, by row.
    rows : tuple
        First row and end: of these, ``sums`` and ``hits`` hold the pairs.
    sums, hits
        A pair's two states are added, and counted.
    """
    start, nodes, found = reach
    low, high = rows
    offset, width = indptr[low], sums.shape[1]
    for d in range(sources.shape[0]):
        for e in range(start[d], start[d + 1]):
            u, v = min(sources[d], nodes[e]), max(sources[d], nodes[e])
            if u < low or u >= high:
                continue
            at = find_column(columns, indptr[u], indptr[u + 1], v)
            if at < 0:
                continue
            for _ in range(2 if u == v else 1):  # both directions are the same
                hits[at - offset] += 1
                for k in range(width):
                    sums[at - offset, k] += states[found[e], k]


@kernel()
def net_scores(sums, tiles, shift, weights, last, out):
    """Score pairs by a net of one hidden layer on the mean of their two states."""
    units = shift.shape[0]
    means = np.empty((_PART, sums.shape[1]), sums.dtype)
    hidden = np.empty((_PART, units), sums.dtype)
    for first in range(0, sums.shape[0], _PART):
        count = min(_PART, sums.shape[0] - first)
        for i in range(count):
            for k in range(sums.shape[1]):
                means[i, k] = sums[first + i, k] * sums.dtype.type(0.5)
        rows_times(means, tiles, hidden, 0, count)
        for i in range(count):
            total = 0.0
            for k in range(units):
                value = hidden[i, k] + shift[k]
                total += np.float64(weights[k]) * max(value, sums.dtype.type(0))
            out[first + i] = total + last


@kernel()
def far_row(u, halves, shift, weights, last, out):
    """Score a node with all nodes as if all were far; ``halves`` is (units, n)."""
    zero = halves.dtype.type(0)
    out[:] = 0.0
    for k in range(halves.shape[0]):
        own, others, weight = halves[k, u], halves[k], np.float64(weights[k])
        for v in range(out.shape[0]):
            out[v] += weight * max(own + others[v] + shift[k], zero)
    for v in range(out.shape[0]):
        out[v] = np.float32(out[v] + last)


@kernel()
def far_pairs(pairs, halves, shift, weights, last, out):
    """Score listed pairs as if all were far."""
    zero = halves.dtype.type(0)
    for p in range(pairs.shape[0]):
        u, v = pairs[p]
        total = 0.0
        for k in range(halves.shape[0]):
            value = halves[k, u] + halves[k, v] + shift[k]
            total += np.float64(weights[k]) * max(value, zero)
        out[p] = np.float32(total + last)


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
        find_pairs(indptr, columns, pairs, at)
        chosen = np.flatnonzero(at >= 0)
        chosen = chosen[near[at[chosen]]]
        found[chosen] = scores[at[chosen]]
        return found

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        near = self._near_pairs()
        found = np.zeros((len(rows), self.num_nodes))
        for i, u in enumerate(rows.tolist()):
            far_row(u, self._halves, *self._outer, found[i])
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
            ball_sizes, *self.graph.edges, few, self.weights.layers
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
        near_columns(*self.graph.edges, layers, 0, n, counts, nothing)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        refuse_large(
            f"NBFNet's scores of {indptr[-1]:,} pairs within {layers} edges",
            _PAIR_BYTES * float(indptr[-1]),
            hint="Score listed pairs, evaluate an estimate, or use fewer layers.",
        )
        columns = np.empty(int(indptr[-1]), np.int32)
        near_columns(*self.graph.edges, layers, 0, n, counts, columns)
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
                add_states(reach, group, table, indptr, columns, rows, sums, hits)
        scores = np.empty(size, np.float32)
        tiles = column_tiles(self.net[0])
        net_scores(sums, tiles, *self._outer, scores)
        return scores, hits == 2

    def _groups(self, sources: IntArray) -> Iterator[IntArray]:
        layers = self.weights.layers
        sizes = ball_sizes(*self.graph.edges, sources, layers)
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
        far_pairs(pairs, self._halves, *self._outer, out)


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
