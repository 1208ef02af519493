"""The most similar pairs of nodes (the paper's epsilon-graph), without n x n memory.

Rows are compared block by block and only the best pairs seen so far are kept, so the
threshold is exact. Dot products of whole-number attributes are exact too: pairs that
should tie do tie. Beyond some hundred thousand nodes the search becomes approximate,
and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.engines import single_blas_thread
from gelato.errors import InputError, UsageError
from gelato.graph import FloatArray, IntArray
from gelato.kernels.similar_pairs import cosines, exact_values, squared_norms
from gelato.nn.similar_search import (
    Largest,
    Listed,
    SparseSearch,
    measured_recall,
    neighbour_pairs,
    recall_note,
)

BlockSimilarity: TypeAlias = Callable[[Any, int, int], npt.NDArray[Any]]
"""``similarity(attributes, start, stop)`` -> (stop - start, n), symmetric overall."""

BLOCK_ENTRIES = 1 << 21
# What an exact search may cost, in products of dense rows, before an approximate one is
# better: about ten minutes.
_MOST_PRODUCTS = 1e13


class BlockSearch:
    """Whole rows of a similarity, block by block."""

    def __init__(self, attributes: Any, similarity: BlockSimilarity) -> None:
        self.attributes, self.similarity = attributes, similarity
        dense = isinstance(similarity, DenseCosine)
        self.matrix: sp.csr_array | None = attributes if dense else None

    @property
    def is_long(self) -> bool:
        """Whether an exact search takes more than some minutes."""
        n, r = self.attributes.shape
        return bool(n * n * r / 2 > _MOST_PRODUCTS)

    def largest(self, count: int) -> tuple[IntArray, IntArray, FloatArray, int]:
        """Return the largest pairs; none is left unlisted."""
        return *self._collect(-math.inf, count), 0

    def above(self, bound: float) -> Listed:
        """Return all pairs above a bound."""
        return self._collect(bound, None)

    def _collect(self, bound: float, count: int | None) -> Listed:
        held = Largest(bound, count, BLOCK_ENTRIES)
        for u, v, values in _called_blocks(self.attributes, self.similarity):
            keep = values > held.bound
            held.add((u[keep], v[keep], values[keep]))
        return held.result()

    def partners(self, row: int, bound: float) -> tuple[IntArray, FloatArray]:
        """Return all rows that are more similar to a row than a bound."""
        values = np.array(self.similarity(self.attributes, row, row + 1)[0])
        values[row] = -math.inf
        found = np.flatnonzero(values > bound)
        return found, values[found]


class DenseCosine:
    """Cosine by dense products, in single precision where that is exact."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.squares = squared_norms(matrix)
        self.values = exact_values(matrix, self.squares)

    def __call__(self, attributes: Any, start: int, stop: int) -> FloatArray:
        """Return the cosines of rows with all rows."""
        with single_blas_thread():  # so that cores do not change the order of sums
            dots = self.values[start:stop] @ self.values.T
        return cosines(dots, self.squares[start:stop, None] * self.squares)


def _called_blocks(attributes: Any, similarity: BlockSimilarity) -> Iterator[Listed]:
    n = attributes.shape[0]
    step = block_rows(n)
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = checked_block(similarity(attributes, start, stop), start, stop, n)
        for row in range(start, stop):
            columns = np.arange(row + 1, n)
            yield np.full(len(columns), row), columns, block[row - start, row + 1 :]


def checked_block(values: Any, start: int, stop: int, n: int) -> FloatArray:
    """Return rows of a similarity, or say what is wrong with them."""
    block: FloatArray = np.asarray(values, dtype=np.float64)
    if block.shape != (stop - start, n):
        raise InputError(
            f"The similarity of rows {start} to {stop - 1} has shape {block.shape}; "
            f"expected {(stop - start, n)}."
        )
    if not np.all(np.isfinite(block)):
        raise InputError(
            f"The similarity of rows {start} to {stop - 1} is not finite everywhere."
        )
    return block


def block_rows(n: int) -> int:
    """Return how many rows of n entries make a block."""
    return max(1, BLOCK_ENTRIES // max(1, n))


__all__ = [
    "BlockSimilarity",
    "Method",
    "SimilarityPairs",
    "pair_similarity",
    "similarity_above",
    "similarity_count",
    "similarity_edges",
]

Method: TypeAlias = Literal["auto", "exact", "approximate"]

# Above this share of filled entries a dense product is faster than shared attributes.
_DENSE_ABOVE = 0.15
# What an exact search may cost, in meetings at attributes, before an approximate one
# is better: about ten minutes.
_MOST_VISITS = 1e11


@dataclass(frozen=True, eq=False)
class SimilarityPairs:
    """Pairs above a threshold of similarity."""

    pairs: IntArray
    """(k, 2), u < v, sorted."""
    similarity: FloatArray
    """(k,), each larger than the threshold."""
    threshold: float
    note: str = ""
    """What people should know about the search, if it was not exact."""


def similarity_count(num_edges: int, eta: float, *, directed: bool = False) -> int:
    """Return which largest entry of the similarity matrix is the threshold.

    The floor(2 m eta)-th one: both entries of a pair count, as both directions of an
    edge do. In a directed graph, where an edge is one entry, the floor(m eta)-th.
    """
    if not (math.isfinite(eta) and eta >= 0):
        raise UsageError(
            f"eta must be 0 or larger, not {eta}.",
            hint="It is the number of similarity pairs per edge; 0 adds none.",
        )
    return math.floor((1 if directed else 2) * num_edges * eta)


def similarity_edges(
    attributes: Any,
    count: int,
    *,
    similarity: str | BlockSimilarity = "cosine",
    method: Method = "auto",
) -> SimilarityPairs:
    """Return the pairs more similar than the ``count``-th largest matrix entry.

    The matrix is the full (n, n) one with zeros on its diagonal, so that every pair
    counts twice. Pairs that tie with the threshold are left out.

    Parameters
    ----------
    attributes : (n, r) CSR or dense
        Node attributes.
    count : int
        See :func:`similarity_count`; 0 gives no pairs.
    similarity : "cosine" or callable
        A callable takes ``(attributes, start, stop)`` and returns the similarity of
        rows ``start..stop-1`` with all n nodes.
    method : {"auto", "exact", "approximate"}
        An approximate search (cosine only, extra ``big``) measures its own recall and
        tells it in ``note``. ``"auto"`` is exact up to about ten minutes of work: some
        hundred thousand nodes with sparse attributes.

    Examples
    --------
    >>> rows = np.array([[1, 0], [1, 0], [1, 1]], dtype=np.float32)
    >>> similarity_edges(rows, 3).pairs.tolist()
    [[0, 1]]
    """
    n = attributes.shape[0]
    if not 0 <= count <= n * n:
        raise UsageError(
            f"The similarity matrix of {n} nodes has {n * n:,} entries, so there is no "
            f"entry number {count:,}.",
            hint="Choose a smaller eta.",
        )
    if count == 0:
        return SimilarityPairs(np.empty((0, 2), np.int64), np.empty(0), math.inf)
    search = _search(attributes, similarity)
    if _is_approximate(search, method):
        assert not callable(similarity)
        return _approximate(search, count)
    u, v, values, unlisted = search.largest(-(-count // 2))
    threshold = _threshold(np.sort(values)[::-1], count, n, unlisted)
    return _sorted_pairs((u, v, values), threshold)


def similarity_above(
    attributes: Any,
    threshold: float,
    *,
    similarity: str | BlockSimilarity = "cosine",
    method: Method = "auto",
) -> SimilarityPairs:
    """Return the pairs more similar than a threshold, for example one found before.

    Parameters
    ----------
    attributes, similarity, method
        As for :func:`similarity_edges`.
    threshold : float
        At least 0, or infinite for no pairs at all.
    """
    if threshold == math.inf:
        return SimilarityPairs(np.empty((0, 2), np.int64), np.empty(0), threshold)
    search = _search(attributes, similarity)
    if _is_approximate(search, method):
        return _approximate(search, 0, threshold)
    return _sorted_pairs(search.above(threshold), threshold)


def _sorted_pairs(listed: Listed, threshold: float) -> SimilarityPairs:
    """Return the listed pairs above a threshold in order."""
    u, v, values = listed
    keep = values > threshold
    pairs, values = np.stack([u[keep], v[keep]], axis=1).astype(np.int64), values[keep]
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return SimilarityPairs(pairs[order], values[order], threshold)


def pair_similarity(
    attributes: Any,
    pairs: IntArray,
    *,
    similarity: str | BlockSimilarity = "cosine",
) -> FloatArray:
    """Return the similarity of given pairs; a cosine with an all-zero row is 0."""
    values = np.zeros(len(pairs))
    if callable(similarity):
        order = np.argsort(pairs[:, 0], kind="stable")
        n = attributes.shape[0]
        starts = range(0, n, block_rows(n))
        bounds = np.searchsorted(pairs[order, 0], [*starts, n])
        for i, start in enumerate(starts):
            part = order[bounds[i] : bounds[i + 1]]
            if len(part):
                stop = min(start + block_rows(n), n)
                block = checked_block(
                    similarity(attributes, start, stop), start, stop, n
                )
                values[part] = block[pairs[part, 0] - start, pairs[part, 1]]
        return values
    _check_name(similarity)
    matrix = sp.csr_array(attributes, dtype=np.float64)
    squares = squared_norms(matrix)
    step = block_rows(matrix.shape[1])
    for start in range(0, len(pairs), step):
        u, v = pairs[start : start + step].T
        dots = np.asarray((matrix[u] * matrix[v]).sum(axis=1)).ravel()
        values[start : start + step] = cosines(dots, squares[u] * squares[v])
    return values


def _search(
    attributes: Any, similarity: str | BlockSimilarity
) -> BlockSearch | _SharedSearch:
    """Return the search that suits a similarity and how full the attributes are."""
    if callable(similarity):
        return BlockSearch(attributes, similarity)
    _check_name(similarity)
    matrix = sp.csr_array(attributes, dtype=np.float64)
    matrix.sort_indices()
    fill = matrix.nnz / max(1, matrix.shape[0] * matrix.shape[1])
    if fill <= _DENSE_ABOVE and not np.any(matrix.data < 0):
        return _SharedSearch(matrix)
    return BlockSearch(matrix, DenseCosine(matrix))


def _is_approximate(search: BlockSearch | _SharedSearch, method: str) -> bool:
    if method not in ("auto", "exact", "approximate"):
        raise UsageError(
            f"There is no way to search called {method!r}.",
            hint="Use 'auto', 'exact' or 'approximate'.",
        )
    if method == "approximate" and search.matrix is None:
        raise UsageError(
            "Only cosine similarity can be searched approximately.",
            hint="Use method='exact', or similarity='cosine'.",
        )
    possible = search.matrix is not None and method != "exact"
    return possible and (method == "approximate" or search.is_long)


def _approximate(
    search: BlockSearch | _SharedSearch, count: int, threshold: float | None = None
) -> SimilarityPairs:
    """Search among nearest neighbours; by a threshold found before, or by count."""
    matrix = search.matrix
    assert matrix is not None
    n, half = matrix.shape[0], -(-count // 2)
    pairs = neighbour_pairs(matrix, half)
    values = pair_similarity(matrix, pairs)
    if threshold is None:
        ordered = np.sort(values)[::-1]
        threshold = max(0.0, float(ordered[half - 1])) if half <= len(values) else 0.0
    found = _sorted_pairs((pairs[:, 0], pairs[:, 1], values), threshold)
    measured = measured_recall(found.pairs, threshold, n, search.partners)
    note = recall_note(len(found.pairs), *measured, threshold)
    return SimilarityPairs(found.pairs, found.similarity, threshold, note)


class _SharedSearch:
    """Cosine through shared attributes; pairs that share none have 0."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.matrix: sp.csr_array | None = matrix
        self._search = SparseSearch(matrix, squared_norms(matrix))
        self.partners = self._search.partners

    @property
    def is_long(self) -> bool:
        """Whether an exact search takes more than some minutes."""
        return self._search.visits > _MOST_VISITS

    def largest(self, count: int) -> tuple[IntArray, IntArray, FloatArray, int]:
        """Return the largest pairs, and how many others are 0 if these are all."""
        u, v, values = self._search.largest(count)
        n = self._search.num_rows
        return u, v, values, n * (n - 1) // 2 - len(values)

    def above(self, bound: float) -> Listed:
        """Return all pairs above a bound."""
        return self._search.above(bound)


def _check_name(similarity: Any) -> None:
    if similarity != "cosine":
        raise UsageError(
            f"There is no similarity {similarity!r}.",
            hint="Use 'cosine', or give a function of (attributes, start, stop).",
        )


def _threshold(values: FloatArray, count: int, n: int, unlisted: int) -> float:
    """Return the ``count``-th largest entry of the full matrix.

    Parameters
    ----------
    values : descending
        The ceil(count / 2) largest listed pairs, or all if there are fewer.
    count, n : int
    unlisted : int
        Pairs that are 0 and not listed.
    """
    positive = int(np.count_nonzero(values > 0))
    if 2 * positive >= count:
        return float(values[-(-count // 2) - 1])
    zero = int(np.count_nonzero(values == 0)) + unlisted
    # The diagonal's n zeros take their place among the zeros of pairs.
    if count <= 2 * (positive + zero) + n:
        return 0.0
    return float(values[-(-(count - n) // 2) - unlisted - 1])
