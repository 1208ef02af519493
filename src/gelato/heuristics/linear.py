"""The ridge walk (``ease``): links predicted from other links, in closed form.

EASE (Steck 2019) on a normalised graph. With ``N = D^-1/2 A D^-1/2`` and
``P = (N^2 + mu I)^-1``, the ridge regression of every node on all others has the
weights ``B_ij = -P_ij / P_jj`` with a zero diagonal; a pair scores
``(A B)_uv + (A B)_vu``: an exact sum over the neighbours of both nodes.

All pairs are scored exactly up to :data:`MOST_DIRECT` nodes, from one n x n inverse.
Beyond it columns of the inverse are found in blocks when they are asked for, by a
Chebyshev series in ``2 N^2 - I``, to the last few bits and in bounded memory, as long
as all pairs take at most :data:`MOST_STEPS`. Beyond that the inverse is found by local
pushes and keeps what is above a tolerance: scores are approximate, and pairs that it
leaves out score 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.engines import single_blas_thread
from gelato.errors import InputError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.heuristics.declared import heuristic
from gelato.kernels.chunks import balanced_chunks, run_chunks
from gelato.kernels.ridge_walks import push_columns, ridge_rows, series_columns
from gelato.ranking.scorers import ClosedForm, NearBlock, RowScorer

MOST_DIRECT = 15_000
"""Most nodes for the direct form: 1.8 GB in double precision."""
MOST_STEPS = 1e12
"""Most steps along edges for the series: minutes, not seconds, on two cores."""

_WIDTH = 16  # columns of a block of the series
_PRECISE = 1e-13  # what the series may leave out, of its largest term
_TILE = 512
# Entries below this share of the largest possible are left out of a sparse inverse.
_TOLERANCE = 1e-3
_ROUNDS = 50
_CHUNKS = 64


@heuristic(
    "ease", "ridge walk: links regressed on links, in closed form", undirected=True
)
def ease(graph: Graph) -> RowScorer:
    """Score a pair by the ridge walk, exactly where the graph is small enough.

    Exactly means all pairs: to about 25,000 nodes of average degree 6. Beyond,
    scores are approximate, and 0 for pairs that are far from each other.

    Examples
    --------
    >>> square = Graph.from_indices(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    >>> ease(square).score_rows(np.array([0])).round(3).tolist()
    [[1.6, 0.0, 1.6, 0.0]]
    """
    graph.require_undirected("The ridge walk (ease)")
    if graph.num_nodes == 0:
        raise InputError("The graph has no nodes, so there is nothing to score.")
    if graph.num_nodes <= MOST_DIRECT:
        return RidgeScorer(graph.adjacency, ridge_inverse(graph.adjacency))
    series = RidgeSeries(graph.adjacency)
    if series.steps <= MOST_STEPS:
        return series
    return SparseRidgeScorer(ridge_walk_matrix(graph.adjacency))


def normalised(adjacency: sp.csr_array) -> sp.csr_array:
    """Return ``D^-1/2 A D^-1/2``; rows of isolated nodes stay empty."""
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    scale = np.zeros(len(degrees))
    np.divide(1.0, np.sqrt(degrees), out=scale, where=degrees > 0)
    rows = np.repeat(np.arange(len(degrees)), np.diff(adjacency.indptr))
    data = adjacency.data * scale[rows] * scale[adjacency.indices]
    parts = (data, adjacency.indices, adjacency.indptr)
    return sp.csr_array(parts, shape=adjacency.shape)


def ridge(matrix: sp.csr_array) -> float:
    """Return mu: the mean of the diagonal of ``N^2`` (1 where there are no edges)."""
    total = float(matrix.data @ matrix.data)
    return total / matrix.shape[0] if total else 1.0


def ridge_inverse(
    adjacency: sp.csr_array,
    *,
    dtype: npt.DTypeLike = np.float64,
) -> npt.NDArray[Any]:
    """Return ``P = (N^2 + mu I)^-1`` as a dense matrix; O(n^3) time, O(n^2) memory."""
    matrix = normalised(adjacency)
    mu = ridge(matrix)
    square = np.zeros(adjacency.shape, dtype=dtype)
    step = max(1, 4_000_000 // max(1, adjacency.shape[0]))
    for start in range(0, len(square), step):
        square[start : start + step] = (matrix[start : start + step] @ matrix).toarray()
    square[np.diag_indices_from(square)] += mu
    invert_symmetric(square)
    return square


def invert_symmetric(matrix: npt.NDArray[Any]) -> None:
    """Invert a symmetric positive definite matrix in place.

    The sweep operator on tiles: half of the work of a general inverse, and every
    tile is one product on one thread, so that bits do not depend on the threads.
    """
    n = len(matrix)
    tiles = [slice(at, min(at + _TILE, n)) for at in range(0, n, _TILE)]
    with single_blas_thread():
        for k, pivot in enumerate(tiles):
            _sweep(matrix, tiles, k, np.linalg.inv(matrix[pivot, pivot]))
        run_chunks(lambda i: _mirror(matrix, tiles, i), len(tiles))


def _sweep(
    matrix: npt.NDArray[Any],
    tiles: list[slice],
    k: int,
    inverse: npt.NDArray[Any],
) -> None:
    """Sweep one tile of the lower triangle; after all of them it is ``-matrix^-1``."""
    pivot = tiles[k]
    before = [np.ascontiguousarray(matrix[pivot, tile].T) for tile in tiles[:k]]
    after = [matrix[tile, pivot].copy() for tile in tiles[k + 1 :]]
    columns = [*before, matrix[pivot, pivot].copy(), *after]

    def update(i: int) -> None:
        if i == k:
            return
        scaled = columns[i] @ inverse
        for j in range(i + 1):
            if j != k:
                matrix[tiles[i], tiles[j]] -= scaled @ columns[j].T
        if i > k:
            matrix[tiles[i], pivot] = scaled
        else:
            matrix[pivot, tiles[i]] = scaled.T

    # The last rows have the most tiles: they start first.
    run_chunks(lambda i: update(len(tiles) - 1 - i), len(tiles))
    matrix[pivot, pivot] = -inverse


def _mirror(matrix: npt.NDArray[Any], tiles: list[slice], i: int) -> None:
    """Turn one row of swept tiles into the inverse, in both triangles."""
    for j in range(i):
        tile = -matrix[tiles[i], tiles[j]]
        matrix[tiles[i], tiles[j]] = tile
        matrix[tiles[j], tiles[i]] = tile.T
    own = -matrix[tiles[i], tiles[i]]
    matrix[tiles[i], tiles[i]] = (own + own.T) / 2


@dataclass(frozen=True, eq=False)
class RidgeWalk(ABC):
    """The ridge walk, exact for all pairs; where the inverse comes from is open.

    Parameters
    ----------
    adjacency : CSR float64
        A, symmetric, with sorted indices.
    """

    adjacency: sp.csr_array

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[0])

    @abstractmethod
    def halves(self, rows: IntArray) -> FloatArray:
        """Return ``(A B)[u, v]`` and ``(A B)[v, u]`` of rows, as (2, rows, n)."""

    @abstractmethod
    def columns(self, nodes: list[int]) -> FloatArray:
        """Return columns of the inverse P, as (n, nodes)."""

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        halves = self.halves(rows)
        # Sums in another order differ in the last bits: what is equal shall tie.
        scores: FloatArray = np.round(halves[0] + halves[1], 10) + 0.0
        return scores

    def terms(self, u: int, v: int) -> list[tuple[int, int, float]]:
        """Return what each neighbour adds to the score: (neighbour, of, amount)."""
        found = []
        inverse = self.columns([v, u])
        for at, (near, far) in enumerate(((u, v), (v, u))):
            start, stop = self.adjacency.indptr[near : near + 2]
            for k, weight in zip(
                self.adjacency.indices[start:stop],
                self.adjacency.data[start:stop],
                strict=True,
            ):
                if k != far:
                    amount = -weight * inverse[k, at] / inverse[far, at]
                    found.append((int(k), near, float(amount)))
        return found


@dataclass(frozen=True, eq=False)
class RidgeScorer(RidgeWalk):
    """The ridge walk from its inverse.

    Parameters
    ----------
    inverse : (n, n) float
        P.
    """

    inverse: npt.NDArray[Any]

    @cached_property
    def _graph(self) -> tuple[Any, ...]:
        matrix = self.adjacency
        return (matrix.indptr.astype(np.int64), matrix.indices, matrix.data)

    @cached_property
    def _diagonal(self) -> FloatArray:
        return np.diag(self.inverse).astype(np.float64)

    def halves(self, rows: IntArray) -> FloatArray:
        """Return both halves of the scores of rows."""
        rows = np.asarray(rows, dtype=np.int64)
        out = np.empty((2, len(rows), self.num_nodes))
        ridge_rows(rows, self._graph, self.inverse, self._diagonal, out)
        return out

    def columns(self, nodes: list[int]) -> FloatArray:
        """Return columns of the inverse."""
        return np.asarray(self.inverse[:, nodes], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RidgeSeries(RidgeWalk):
    """The ridge walk from columns of its inverse, each found when it is needed.

    ``1 / (x + mu)`` on [0, 1] has Chebyshev coefficients in closed form: with
    ``a = 1 + 2 mu`` and ``r = a - sqrt(a^2 - 1)`` they fall as ``(-r)^k``. Memory is
    five blocks of some columns per thread.
    """

    @cached_property
    def _matrix(self) -> tuple[Any, ...]:
        matrix = normalised(self.adjacency)
        parts = (matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
        return parts, ridge(matrix)

    @cached_property
    def coefficients(self) -> FloatArray:
        """Coefficients of the series."""
        a = 1.0 + 2.0 * self._matrix[1]
        root = np.sqrt(a * a - 1.0)
        ratio = a - root
        count = max(2, int(np.ceil(np.log(_PRECISE * (1 - ratio)) / np.log(ratio))))
        found: FloatArray = (4.0 / root) * (-ratio) ** np.arange(count)
        found[0] /= 2.0
        return found

    @property
    def steps(self) -> float:
        """Steps along edges that all scores take, or past nodes if these are more."""
        per_term = max(2.0 * float(self.adjacency.nnz), float(self.num_nodes))
        return 3.0 * self.num_nodes * per_term * len(self.coefficients)

    def _times_inverse(self, block: FloatArray) -> FloatArray:
        """Return P times some columns."""
        out = np.empty_like(block)
        series_columns(self._matrix[0], self.coefficients, block, out)
        return out

    def columns(self, nodes: list[int]) -> FloatArray:
        """Return columns of the inverse."""
        block = np.zeros((self.num_nodes, len(nodes)))
        block[nodes, np.arange(len(nodes))] = 1.0
        return self._times_inverse(block)

    @cached_property
    def _diagonal(self) -> FloatArray:
        """The diagonal of P: all columns once, none of which is kept."""
        n = self.num_nodes
        out = np.empty(n)

        def solve(chunk: int) -> None:
            nodes = list(range(chunk * _WIDTH, min(n, (chunk + 1) * _WIDTH)))
            out[nodes] = self.columns(nodes)[nodes, np.arange(len(nodes))]

        run_chunks(solve, -(-n // _WIDTH))
        return out

    def halves(self, rows: IntArray) -> FloatArray:
        """Return both halves of the scores of rows."""
        rows = np.asarray(rows, dtype=np.int64)
        out = np.empty((2, len(rows), self.num_nodes))
        diagonal = self._diagonal
        step = _WIDTH // 2
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            edges = np.asarray(self.adjacency[some].toarray(), dtype=np.float64)
            block = np.zeros((self.num_nodes, 2 * len(some)))
            block[some, np.arange(len(some))] = 1.0
            block[:, len(some) :] = edges.T
            found = self._times_inverse(block)
            own, summed = found[:, : len(some)], found[:, len(some) :]
            part = slice(start, start + len(some))
            # B has a zero diagonal: what v says about itself is taken back.
            out[0, part] = edges - (summed / diagonal[:, None]).T
            back = np.asarray(self.adjacency @ own)
            out[1, part] = edges - (back / diagonal[some]).T
        return out


def ridge_walk_matrix(adjacency: sp.csr_array) -> sp.csr_array:
    """Return ``A B`` as a sparse matrix, from a local approximation of the inverse."""
    inverse = sparse_ridge_inverse(adjacency, tolerance=_TOLERANCE)
    diagonal = np.maximum(inverse.diagonal(), 1e-12)
    weights = sp.csr_array(inverse @ sp.diags_array(-1.0 / diagonal))
    weights.setdiag(0.0)
    weights.eliminate_zeros()
    return sp.csr_array(adjacency @ weights)


def sparse_ridge_inverse(
    adjacency: sp.csr_array,
    *,
    tolerance: float,
) -> sp.csr_array:
    """Return an approximation of ``(N^2 + mu I)^-1`` that keeps large entries only."""
    matrix = normalised(adjacency)
    n, mu = adjacency.shape[0], ridge(matrix)
    squares = np.zeros(n)
    rows = np.repeat(np.arange(n), np.diff(matrix.indptr))
    np.add.at(squares, rows, matrix.data**2)
    graph = (matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
    cost = np.asarray(matrix.astype(bool) @ np.diff(matrix.indptr), dtype=np.float64)
    bounds = balanced_chunks(1.0 + cost, _CHUNKS)
    parts: list[Any] = [None] * _CHUNKS

    def solve(chunk: int) -> None:
        columns = np.arange(bounds[chunk], bounds[chunk + 1])
        parts[chunk] = _push_block(
            columns, graph, squares + mu, mu, (tolerance, _ROUNDS)
        )

    run_chunks(solve, _CHUNKS)
    inverse = sp.csr_array(sp.vstack(parts, format="csr"))
    return sp.csr_array((inverse + inverse.T) / 2)


def _push_block(
    columns: IntArray,
    graph: tuple[Any, ...],
    pivots: FloatArray,
    mu: float,
    limits: tuple[float, int],
) -> sp.csr_array:
    """Return some columns of the inverse as CSR rows."""
    n, room = len(pivots), 1024
    while True:
        size = room * max(1, len(columns))
        out = (
            np.empty(len(columns) + 1, dtype=np.int64),
            np.empty(size, dtype=np.int32),
            np.empty(size),
        )
        filled = push_columns(columns, graph, pivots, mu, limits, out)
        if filled < size or room >= n:
            break
        room *= 4
    parts = (out[2][:filled], out[1][:filled], out[0])
    return sp.csr_array(parts, shape=(len(columns), n))


@dataclass(frozen=True, eq=False)
class SparseRidgeScorer:
    """The ridge walk from a sparse approximation; pairs outside it score 0."""

    half: sp.csr_array

    @property
    def notes(self) -> tuple[str, ...]:
        """That scores are not exact."""
        return (
            "so large a graph has an approximate ridge walk (ease): small entries of "
            "its inverse are left out, and pairs that are far apart score 0",
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.half.shape[0])

    @property
    def far(self) -> ClosedForm:
        """The score of pairs that the approximation leaves out."""
        return ClosedForm.zero(self.num_nodes)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The scores, symmetric, without a diagonal."""
        both = sp.csr_array(self.half + self.half.T)
        both.data = np.round(np.maximum(both.data, 0.0), 10)
        both.setdiag(0.0)
        both.eliminate_zeros()
        both.sort_indices()
        return both

    @cached_property
    def near_bounds(self) -> IntArray:
        """The number of near columns of every row."""
        bounds: IntArray = np.diff(self.matrix.indptr).astype(np.int64)
        return bounds

    def near_rows(self, rows: IntArray, *, upper: bool) -> NearBlock:
        """Return the near columns of rows and their scores."""
        part = self.matrix[rows]
        if upper:
            at = np.repeat(np.arange(len(rows)), np.diff(part.indptr))
            keep = part.indices > rows[at]
            counts = np.bincount(at[keep], minlength=len(rows))
            indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
            columns, scores = part.indices[keep], part.data[keep]
            return NearBlock(rows, indptr, columns.astype(np.int32), scores)
        columns = part.indices.astype(np.int32)
        return NearBlock(rows, part.indptr.astype(np.int64), columns, part.data)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        return np.asarray(self.matrix[rows].toarray(), dtype=np.float64)
