"""Exact search for the most similar pairs of sparse, non-negative attribute rows.

A sample of rows tells about where the threshold will lie. Pairs above that are found
exactly, with a bound that only rises while they are collected; where the sample
promised too much, the search is repeated with a lower start. The result never depends
on the sample, on blocks or on threads.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from gelato.engines import default_threads, map_ordered
from gelato.errors import MissingExtraError
from gelato.graph import FloatArray, IntArray, pair_keys
from gelato.kernels import similar_pairs

Listed: TypeAlias = tuple[IntArray, IntArray, FloatArray]  # u, v > u, similarity

# Room for pairs in one call, and visits per block of rows.
_BLOCK_PAIRS = 1 << 20
_BLOCK_VISITS = 1 << 26
_SAMPLE_ROWS = 300
# Pairs asked of the sampled threshold for each that is wanted: a margin for luck.
_MARGIN = 1.5
# What comparing two rows in full costs, in visits for each attribute that they have;
# a visit that only counts; and a look at the count of two rows.
_COMPARE = 0.8
_COUNT = 0.3
_LOOK = 0.01

Way: TypeAlias = tuple[float, Callable[[int, int, float, Any], Any]]
"""What a search of rows costs, in visits, and the search."""


class SparseSearch:
    """Pairs of rows by the attributes that they share.

    Parameters
    ----------
    matrix : CSR float64
        Non-negative, with sorted indices; stored zeros are dropped.
    squares : (n,) float64
        Squared norms of its rows.
    """

    def __init__(self, matrix: sp.csr_array, squares: FloatArray) -> None:
        if np.any(matrix.data == 0):
            matrix = matrix.copy()
            matrix.eliminate_zeros()
        self._matrix, self._squares = matrix, squares
        self._rows = _arrays(matrix)
        turned = sp.csr_array(matrix.T)
        turned.sort_indices()
        self._lists = _arrays(turned)

    @property
    def num_rows(self) -> int:
        """Number of rows n."""
        return int(self._matrix.shape[0])

    @cached_property
    def owners(self) -> IntArray:
        """By attribute, how many rows have it."""
        owners: IntArray = np.diff(self._lists[0])
        return owners

    @property
    def visits(self) -> float:
        """What an unpruned search costs, in visits of rows in sums."""
        return min(cost for cost, _ in self._unpruned())

    @cached_property
    def _meetings(self) -> float:
        """How often two rows meet at an attribute."""
        return float((self.owners.astype(np.float64) ** 2).sum() / 2)

    @cached_property
    def _is_counted(self) -> bool:
        """Whether what two rows share is a small count."""
        most = np.diff(self._rows[0]).max(initial=0)
        all_ones = bool(np.all(self._rows[2] == 1.0))
        return all_ones and bool(most <= similar_pairs.MOST_COUNTED)

    def largest(self, count: int) -> Listed:
        """Return the ``count`` most similar pairs, or all that are similar at all.

        Which pairs of the smallest similarity are among them does not matter to a
        threshold: they tie with it.
        """
        for ask in (_MARGIN, 4 * _MARGIN):
            start = self._sampled_threshold(ask * count)
            if start <= 0:
                break
            found = self._collect(np.nextafter(start, 0), count)
            if len(found[2]) >= count:
                return found
        return self._collect(0.0, count)

    def above(self, bound: float) -> Listed:
        """Return all pairs whose similarity exceeds a bound, at least 0."""
        return self._collect(bound, None)

    def partners(self, row: int, bound: float) -> tuple[IntArray, FloatArray]:
        """Return all rows that are more similar to a row than a bound."""
        out = _room(self.num_rows)
        given = (self._rows, self._lists, self._squares, False, float(bound), out)
        _, kept = similar_pairs.similar_rows(row, row + 1, *given)
        return out[1][:kept].copy(), out[2][:kept].copy()

    def _sampled_threshold(self, count: float) -> float:
        """Return about where the ``count``-th most similar pair lies; 0 if unknown."""
        n = self.num_rows
        if n <= 2 * _SAMPLE_ROWS:
            return 0.0
        drawn = np.random.default_rng(0).permutation(n)[:_SAMPLE_ROWS]
        wanted = math.ceil(2 * count * len(drawn) / n)
        best = np.empty(0)
        for row in drawn.tolist():
            bound = best.min() if len(best) >= wanted else 0.0
            best = np.concatenate([best, self.partners(row, bound)[1]])
            if len(best) > wanted:
                best = np.partition(best, len(best) - wanted)[len(best) - wanted :]
        return float(best.min()) if len(best) >= wanted else 0.0

    def _collect(self, bound: float, count: int | None) -> Listed:
        """Return the pairs above a bound; only the largest if a count is given."""
        search = self._kernel(bound)
        held = Largest(float(bound), count, _BLOCK_PAIRS)

        def find(block: tuple[int, int]) -> Largest:
            mine = Largest(held.bound, count, _BLOCK_PAIRS)
            row, stop = block
            out = _room(self.num_rows)
            while row < stop:
                row, kept = search(row, stop, mine.bound, out)
                mine.add(tuple(part[:kept].copy() for part in out))
            return mine

        for part in map_ordered(find, self._blocks()):
            for listed in part.kept:
                held.add(listed)
        return held.result()

    def _kernel(self, bound: float) -> Any:
        """Return the cheapest way to search rows, as a function."""
        ways = self._unpruned()
        if bound > 0:
            ways.append(self._pruned(bound))
        return min(ways, key=lambda way: way[0])[1]

    def _unpruned(self) -> list[Way]:
        """Return the ways that suit any bound."""
        return [self._whole(), *([self._counted()] if self._is_counted else [])]

    def _whole(self) -> Way:
        """Whoever shares an attribute, by sums."""

        def search(row: int, stop: int, bound: float, out: Any) -> Any:
            given = (self._rows, self._lists, self._squares, True, bound, out)
            return similar_pairs.similar_rows(row, stop, *given)

        return self._meetings, search

    def _counted(self) -> Way:
        """Whoever shares an attribute, by counts."""

        def search(row: int, stop: int, bound: float, out: Any) -> Any:
            given = (self._rows[:2], self._lists[:2], self._squares, bound, out)
            return similar_pairs.similar_rows_counted(row, stop, *given)

        return self._meetings * _COUNT + self.num_rows**2 * _LOOK, search

    def _pruned(self, bound: float) -> Way:
        """Whoever shares a telling attribute, compared in full."""
        rows, squares, slots = self._rows, self._squares, self._by_rarity
        skipped = similar_pairs.telling_starts(rows, squares, slots, bound)
        telling, visits = self._telling(skipped)
        filled = self._matrix.nnz / max(1, self.num_rows)

        def search(row: int, stop: int, bound: float, out: Any) -> Any:
            given = (rows, slots, skipped, telling, squares, bound, out)
            return similar_pairs.similar_rows_pruned(row, stop, *given)

        return visits * (1 + _COMPARE * filled), search

    @cached_property
    def _by_rarity(self) -> Any:
        """Slots of every row, those of frequent attributes first."""
        indptr, indices, _ = self._rows
        row = np.repeat(np.arange(self.num_rows), np.diff(indptr))
        return np.lexsort((indices, -self.owners[indices], row)).astype(np.int64)

    def _telling(self, skipped: IntArray) -> tuple[tuple[Any, Any], float]:
        """Return who did not leave out each attribute, and what a search visits."""
        indptr, indices, _ = self._rows
        row = np.repeat(np.arange(self.num_rows), np.diff(indptr))
        kept = np.arange(len(indices)) - indptr[row] >= skipped[row]
        attribute = indices[self._by_rarity[kept]]
        order = np.lexsort((row[kept], attribute))
        lengths = np.bincount(attribute, minlength=self._matrix.shape[1])
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        visits = float((lengths.astype(np.float64) ** 2).sum() / 2)
        return (bounds, row[kept][order].astype(np.int32)), visits

    def _blocks(self) -> list[tuple[int, int]]:
        """Return stretches of rows of about equal cost."""
        indptr, indices, _ = self._rows
        cost = np.add.reduceat(
            np.append(self.owners[indices], 0), np.minimum(indptr[:-1], len(indices))
        )
        total = np.cumsum(np.where(np.diff(indptr) > 0, cost, 0))
        stretches = (
            max(1, math.ceil(int(total[-1]) / _BLOCK_VISITS)) if len(total) else 0
        )
        goals = np.arange(1, stretches) * (total[-1] / max(1, stretches))
        bounds = np.unique([0, *np.searchsorted(total, goals), self.num_rows]).tolist()
        return list(pairwise(bounds))


class Largest:
    """The largest pairs so far, and the bound that they set.

    Which pairs of the smallest similarity are among them does not matter: they tie
    with the threshold or lie below it.

    Parameters
    ----------
    bound : float
        The least that is asked for.
    count : int, optional
        How many are kept; all without.
    spare : int
        How many more than twice the count are held before some are dropped.
    """

    def __init__(self, bound: float, count: int | None, spare: int) -> None:
        self.bound, self.kept = bound, [_nothing()]
        self._count, self._spare, self._held = count, spare, 0

    def add(self, listed: Any) -> None:
        """Take pairs that are above the bound."""
        self.kept.append(listed)
        self._held += len(listed[2])
        if self._count is not None and self._held > 2 * self._count + self._spare:
            self._cut()

    def _cut(self) -> None:
        assert self._count is not None
        u, v, values = self._joined()
        if len(values) > self._count:
            place = len(values) - self._count
            best = np.argpartition(values, place)[place:]
            u, v, values = u[best], v[best], values[best]
            # What ties with the smallest cannot change a threshold.
            self.bound = max(self.bound, float(values.min()))
        self.kept, self._held = [(u, v, values)], len(values)

    def result(self) -> Listed:
        """Return the pairs."""
        if self._count is not None:
            self._cut()
        return self._joined()

    def _joined(self) -> Listed:
        u, v, values = (np.concatenate(part) for part in zip(*self.kept, strict=True))
        return u, v, values


def _nothing() -> Any:
    return (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def _room(num_rows: int) -> tuple[IntArray, IntArray, FloatArray]:
    size = num_rows + _BLOCK_PAIRS
    return np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)


def _arrays(matrix: sp.csr_array) -> tuple[Any, ...]:
    indices = matrix.indices.astype(np.int32)
    return (matrix.indptr.astype(np.int64), indices, matrix.data)


_LEAST_NEIGHBOURS = 15
_MOST_NEIGHBOURS = 100
_RECALL_ROWS = 200
_SEED = 0

ExactPartners = Callable[[int, float], tuple[IntArray, FloatArray]]
"""``partners(row, bound)`` -> all rows more similar than a bound, similarities."""


def neighbour_pairs(matrix: sp.csr_array, count: int) -> IntArray:
    """Return distinct pairs u < v of rows that are near by cosine, sorted.

    Parameters
    ----------
    matrix : CSR
        Attributes; rows of zeros have no neighbours.
    count : int
        How many pairs will be wanted: decides how many neighbours are looked for.

    Raises
    ------
    MissingExtraError
        If pynndescent is not installed.
    """
    try:
        library = importlib.import_module("pynndescent")
    except ImportError as error:
        raise MissingExtraError(
            "pynndescent", "big", "Finding similar pairs of so many nodes"
        ) from error
    filled = np.flatnonzero(np.diff(matrix.indptr))
    # Similar pairs crowd: some nodes have several times the average.
    average = 2 * count / max(1, len(filled))
    wanted = min(_MOST_NEIGHBOURS, max(_LEAST_NEIGHBOURS, math.ceil(4 * average)))
    wanted = min(wanted, len(filled) - 1)
    if wanted < 1:
        return np.empty((0, 2), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its own settings, and numba's
        index = library.NNDescent(
            sp.csr_matrix(matrix[filled], dtype=np.float32),
            metric="cosine",
            n_neighbors=wanted + 1,
            random_state=_SEED,
            n_jobs=default_threads(),
        )
        neighbours = np.asarray(index.neighbor_graph[0])
    pairs = np.stack(
        [np.repeat(filled, neighbours.shape[1]), filled[neighbours.ravel()]], axis=1
    )
    pairs = pairs[(neighbours.ravel() >= 0) & (pairs[:, 0] != pairs[:, 1])]
    keys = np.unique(pair_keys(np.sort(pairs, axis=1), matrix.shape[0]))
    return np.stack(np.divmod(keys, matrix.shape[0]), axis=1)


def measured_recall(
    pairs: IntArray, threshold: float, num_rows: int, partners: ExactPartners
) -> tuple[float, int]:
    """Return the share of similar pairs that were found, and of how many nodes.

    Parameters
    ----------
    pairs : (k, 2) int64
        What was found, u < v, all above the threshold.
    threshold : float
        Pairs above it are similar.
    num_rows : int
        Number of nodes n.
    partners : callable
        The exact search of single rows.
    """
    drawn = np.random.default_rng(_SEED).permutation(num_rows)[:_RECALL_ROWS]
    found = set(pair_keys(pairs, num_rows).tolist())
    true = hit = 0
    for row in drawn.tolist():
        others = partners(row, threshold)[0].tolist()
        true += len(others)
        hit += sum(min(row, v) * num_rows + max(row, v) in found for v in others)
    return (hit / true if true else 1.0), len(drawn)


def recall_note(count: int, recall: float, sampled: int, threshold: float) -> str:
    """Return what people should know about an approximate search."""
    return (
        f"similar pairs were searched approximately: {count:,} pairs above a cosine of "
        f"{threshold:.4g}; of the true ones of {sampled:,} sampled nodes, "
        f"{recall:.1%} were found"
    )
