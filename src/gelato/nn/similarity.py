"""The most similar pairs of nodes (the paper's epsilon-graph), without n x n memory.

Rows are compared block by block and only the best pairs seen so far are kept, so the
threshold is exact. Dot products of whole-number attributes are exact too: pairs that
should tie do tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.engines import single_blas_thread
from gelato.errors import InputError, UsageError
from gelato.graph import FloatArray, IntArray
from gelato.kernels.attributes import shared_attribute_rows

BlockSimilarity: TypeAlias = Callable[[Any, int, int], npt.NDArray[Any]]
"""``similarity(attributes, start, stop)`` -> (stop - start, n), symmetric overall."""

_Listed: TypeAlias = tuple[IntArray, IntArray, FloatArray]  # u, v > u, similarity

_BLOCK_ENTRIES = 1 << 21
# Above this share of filled entries a dense product is faster than shared attributes.
_DENSE_ABOVE = 0.15


@dataclass(frozen=True, eq=False)
class SimilarityPairs:
    """Pairs above a threshold of similarity."""

    pairs: IntArray
    """(k, 2), u < v, sorted."""
    similarity: FloatArray
    """(k,), each larger than the threshold."""
    threshold: float


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
    attributes: Any, count: int, *, similarity: str | BlockSimilarity = "cosine"
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
    blocks, all_listed = _blocks(attributes, similarity)
    u, v, values, listed = _largest(blocks, -(-count // 2))
    unlisted = 0 if all_listed else n * (n - 1) // 2 - listed
    threshold = _threshold(np.sort(values)[::-1], count, n, unlisted)
    keep = values > threshold
    pairs, values = np.stack([u[keep], v[keep]], axis=1), values[keep]
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return SimilarityPairs(pairs[order], values[order], threshold)


def similarity_above(
    attributes: Any,
    threshold: float,
    *,
    similarity: str | BlockSimilarity = "cosine",
) -> SimilarityPairs:
    """Return the pairs more similar than a threshold, for example one found before.

    Parameters
    ----------
    attributes, similarity
        As for :func:`similarity_edges`.
    threshold : float
        At least 0, or infinite for no pairs at all.
    """
    if threshold == math.inf:
        return SimilarityPairs(np.empty((0, 2), np.int64), np.empty(0), threshold)
    u, v, values = [], [], []
    for row, column, similar in _blocks(attributes, similarity)[0]:
        keep = similar > threshold
        u.append(row[keep])
        v.append(column[keep].astype(np.int64))
        values.append(similar[keep])
    pairs = np.stack([np.concatenate(u), np.concatenate(v)], axis=1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return SimilarityPairs(pairs[order], np.concatenate(values)[order], threshold)


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
        starts = range(0, n, _block_rows(n))
        bounds = np.searchsorted(pairs[order, 0], [*starts, n])
        for i, start in enumerate(starts):
            part = order[bounds[i] : bounds[i + 1]]
            if len(part):
                stop = min(start + _block_rows(n), n)
                block = _checked(similarity(attributes, start, stop), start, stop, n)
                values[part] = block[pairs[part, 0] - start, pairs[part, 1]]
        return values
    _check_name(similarity)
    matrix = sp.csr_array(attributes, dtype=np.float64)
    squares = _squares(matrix)
    step = max(1, _BLOCK_ENTRIES // max(1, matrix.shape[1]))
    for start in range(0, len(pairs), step):
        u, v = pairs[start : start + step].T
        dots = np.asarray((matrix[u] * matrix[v]).sum(axis=1)).ravel()
        values[start : start + step] = _quotient(dots, squares[u] * squares[v])
    return values


def _blocks(
    attributes: Any, similarity: str | BlockSimilarity
) -> tuple[Iterator[_Listed], bool]:
    """Return blocks of pairs, and whether they list pairs of similarity 0 as well."""
    if callable(similarity):
        return _called_blocks(attributes, similarity), True
    _check_name(similarity)
    matrix = sp.csr_array(attributes, dtype=np.float64)
    matrix.sort_indices()
    fill = matrix.nnz / max(1, matrix.shape[0] * matrix.shape[1])
    if fill <= _DENSE_ABOVE and not np.any(matrix.data < 0):
        return _shared_blocks(matrix), False
    return _called_blocks(matrix, _DenseCosine(matrix)), True


def _check_name(similarity: Any) -> None:
    if similarity != "cosine":
        raise UsageError(
            f"There is no similarity {similarity!r}.",
            hint="Use 'cosine', or give a function of (attributes, start, stop).",
        )


def _called_blocks(attributes: Any, similarity: BlockSimilarity) -> Iterator[_Listed]:
    n = attributes.shape[0]
    step = _block_rows(n)
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = _checked(similarity(attributes, start, stop), start, stop, n)
        for row in range(start, stop):
            columns = np.arange(row + 1, n)
            yield np.full(len(columns), row), columns, block[row - start, row + 1 :]


def _checked(values: Any, start: int, stop: int, n: int) -> FloatArray:
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


def _shared_blocks(matrix: sp.csr_array) -> Iterator[_Listed]:
    """List the pairs that share an attribute; all others have cosine 0."""
    n = matrix.shape[0]
    turned = sp.csr_array(matrix.T)
    turned.sort_indices()
    squares = _squares(matrix)
    step = _block_rows(n)
    columns, values = np.empty(step * n, np.int32), np.empty(step * n)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        indptr = np.empty(len(rows) + 1, np.int64)
        shared_attribute_rows(
            rows,
            (matrix.indptr, matrix.indices, matrix.data),
            (turned.indptr, turned.indices, turned.data),
            squares,
            True,
            indptr,
            columns,
            values,
        )
        filled = indptr[-1]
        yield np.repeat(rows, np.diff(indptr)), columns[:filled], values[:filled]


class _DenseCosine:
    """Cosine by dense products, in single precision where that is exact."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.squares = _squares(matrix)
        whole = bool(np.all(matrix.data == np.rint(matrix.data)))
        exact = whole and self.squares.max(initial=0.0) < 2**24
        self.values = matrix.astype(np.float32 if exact else np.float64).toarray()

    def __call__(self, attributes: Any, start: int, stop: int) -> FloatArray:
        with single_blas_thread():  # so that cores do not change the order of sums
            dots = self.values[start:stop] @ self.values.T
        return _quotient(dots, self.squares[start:stop, None] * self.squares)


def _squares(matrix: sp.csr_array) -> FloatArray:
    return np.asarray((matrix * matrix).sum(axis=1), dtype=np.float64).ravel()


def _quotient(dots: npt.NDArray[Any], squares: FloatArray) -> FloatArray:
    norms = np.sqrt(squares)
    cosine = np.zeros(norms.shape)
    np.divide(dots, norms, out=cosine, where=norms > 0)
    return cosine


def _block_rows(n: int) -> int:
    return max(1, _BLOCK_ENTRIES // max(1, n))


def _largest(
    blocks: Iterator[_Listed], count: int
) -> tuple[IntArray, IntArray, FloatArray, int]:
    """Return the ``count`` most similar listed pairs, and how many were listed.

    Which pairs of the smallest similarity kept are among them does not matter: they
    tie with the threshold or lie below it.
    """
    kept: list[_Listed] = []
    bound, held, listed = -math.inf, 0, 0
    for u, v, values in blocks:
        listed += len(values)
        above = values > bound
        kept.append((u[above], v[above].astype(np.int64), values[above]))
        held += len(kept[-1][0])
        if held > 2 * count + _BLOCK_ENTRIES:
            kept, bound = _cut(kept, count)
            held = count
    kept, _ = _cut(kept, count)
    return *kept[0], listed


def _cut(kept: list[_Listed], count: int) -> tuple[list[_Listed], float]:
    """Keep the ``count`` largest; return them and the bound that they set."""
    empty = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    u, v, values = map(np.concatenate, zip(empty, *kept, strict=True))
    if len(values) <= count:
        return [(u, v, values)], -math.inf
    best = np.argpartition(values, len(values) - count)[len(values) - count :]
    return [(u[best], v[best], values[best])], float(values[best].min())


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
