"""Similar pairs from whole rows of a similarity, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.engines import single_blas_thread
from gelato.errors import InputError
from gelato.graph import FloatArray, IntArray
from gelato.nn.similar_search import Listed

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
        return *_largest(_called_blocks(self.attributes, self.similarity), count), 0

    def above(self, bound: float) -> Listed:
        """Return all pairs above a bound."""
        kept: list[Listed] = [_nothing()]
        for u, v, values in _called_blocks(self.attributes, self.similarity):
            keep = values > bound
            kept.append((u[keep], v[keep].astype(np.int64), values[keep]))
        u, v, values = map(np.concatenate, zip(*kept, strict=True))
        return u, v, values

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
        whole = bool(np.all(matrix.data == np.rint(matrix.data)))
        exact = whole and self.squares.max(initial=0.0) < 2**24
        self.values = matrix.astype(np.float32 if exact else np.float64).toarray()

    def __call__(self, attributes: Any, start: int, stop: int) -> FloatArray:
        """Return the cosines of rows with all rows."""
        with single_blas_thread():  # so that cores do not change the order of sums
            dots = self.values[start:stop] @ self.values.T
        return quotient(dots, self.squares[start:stop, None] * self.squares)


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


def squared_norms(matrix: sp.csr_array) -> FloatArray:
    """Return the squared norm of every row."""
    return np.asarray((matrix * matrix).sum(axis=1), dtype=np.float64).ravel()


def quotient(dots: npt.NDArray[Any], squares: FloatArray) -> FloatArray:
    """Return cosines from dot products and products of squared norms."""
    norms = np.sqrt(squares)
    cosine = np.zeros(norms.shape)
    np.divide(dots, norms, out=cosine, where=norms > 0)
    return cosine


def block_rows(n: int) -> int:
    """Return how many rows of n entries make a block."""
    return max(1, BLOCK_ENTRIES // max(1, n))


def _nothing() -> Listed:
    return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)


def _largest(blocks: Iterator[Listed], count: int) -> Listed:
    """Return the ``count`` most similar of the listed pairs.

    Which pairs of the smallest similarity kept are among them does not matter: they
    tie with the threshold or lie below it.
    """
    kept: list[Listed] = []
    bound, held = -math.inf, 0
    for u, v, values in blocks:
        above = values > bound
        kept.append((u[above], v[above].astype(np.int64), values[above]))
        held += len(kept[-1][0])
        if held > 2 * count + BLOCK_ENTRIES:
            kept, bound = _cut(kept, count)
            held = count
    kept, _ = _cut(kept, count)
    return kept[0]


def _cut(kept: list[Listed], count: int) -> tuple[list[Listed], float]:
    """Keep the ``count`` largest; return them and the bound that they set."""
    u, v, values = map(np.concatenate, zip(_nothing(), *kept, strict=True))
    if len(values) <= count:
        return [(u, v, values)], -math.inf
    best = np.argpartition(values, len(values) - count)[len(values) - count :]
    return [(u[best], v[best], values[best])], float(values[best].min())
