"""What hand-written LLVM gains over plain numba and over libraries, in the same run.

The loops of ``gelato.kernels.vectors`` on one thread, beside the same loops in plain
numba and beside numpy (BLAS on one thread) or scipy. The ways take turns many times
and the fastest of each counts. A loop stays written by hand where it is at least 1.5
times as fast as plain numba: a library cannot be called inside a compiled loop.

    python benchmarks/tiles.py [ROWS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numba
import numpy as np
import scipy.sparse as sp

from gelato.engines import single_blas_thread, use_threads
from gelato.kernels.tiles import SparseRows, column_tiles, rows_times
from gelato.kernels.vectors import LANES, gather, scatter

TURNS = 30
INNER, WIDTH = 128, 128
COLUMNS, FILL = 3000, 0.01

Way = Callable[[], object]


@numba.njit(nogil=True, fastmath={"contract"})
def plain_rows_times(left, right, out):
    for e in range(left.shape[0]):
        out[e] = 0
        for k in range(left.shape[1]):
            for j in range(right.shape[1]):
                out[e, j] += left[e, k] * right[k, j]


@numba.njit(nogil=True)
def plain_sparse_times(indptr, indices, table, out):
    for row in range(len(indptr) - 1):
        out[row] = 0
        for i in range(indptr[row], indptr[row + 1]):
            for j in range(table.shape[1]):
                out[row, j] += table[indices[i], j]


@numba.njit(nogil=True)
def by_hand_gather(states, indices, relation, sums, squares, high, low):
    for lane in range(0, states.shape[1], LANES):
        rows = (states, indices, 0, indices.size)
        gather(*rows, relation, lane, sums, squares, high, low)


@numba.njit(nogil=True, fastmath={"contract"})
def plain_gather(states, indices, relation, sums, squares, high, low):
    for row in indices:
        for k in range(states.shape[1]):
            message = relation[k] * states[row, k]
            wide = np.float64(message)
            sums[k] += wide
            squares[k] += wide * wide
            high[k] = max(high[k], message)
            low[k] = min(low[k], message)


@numba.njit(nogil=True)
def by_hand_scatter(states, gradients, indices, relation, parts, by_relation):
    for lane in range(0, states.shape[1], LANES):
        rows = (states, gradients, indices, 0, indices.size)
        shares = (parts[0], parts[1], parts[2], parts[3], parts[4], parts[5])
        scatter(*rows, relation, lane, *shares, by_relation)


@numba.njit(nogil=True, fastmath={"contract"})
def plain_scatter(states, gradients, indices, relation, parts, by_relation):
    for row in indices:
        for k in range(states.shape[1]):
            message = relation[k] * states[row, k]
            gradient = parts[0, k] + parts[1, k] * message
            gradient += parts[3, k] if message == parts[2, k] else 0
            gradient += parts[5, k] if message == parts[4, k] else 0
            gradients[row, k] += relation[k] * gradient
            by_relation[k] += states[row, k] * gradient


def fastest(ways: dict[str, Way]) -> dict[str, float]:
    """Return the time of the fastest turn of each way."""
    for way in ways.values():
        way()  # compiles
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(TURNS):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def dense(rows: int) -> dict[str, Way]:
    random = np.random.default_rng(0)
    left = random.random((rows, INNER), dtype=np.float32)
    right = random.random((INNER, WIDTH), dtype=np.float32)
    tiles, out = column_tiles(right), np.empty((rows, WIDTH), np.float32)
    return {
        "by hand": lambda: rows_times(left, tiles, out, 0, rows),
        "numba": lambda: plain_rows_times(left, right, out),
        "numpy": lambda: np.matmul(left, right, out=out),
    }


def sparse(rows: int) -> dict[str, Way]:
    random = np.random.default_rng(0)
    matrix = sp.random_array((rows, COLUMNS), density=FILL, format="csr", rng=random)
    matrix.data[:] = 1
    matrix = matrix.astype(np.float32)
    table = random.random((COLUMNS, WIDTH), dtype=np.float32)
    lists, out = SparseRows.from_scipy(matrix), np.empty((rows, WIDTH), np.float32)
    return {
        "by hand": lambda: lists.times(table),
        "numba": lambda: plain_sparse_times(lists.indptr, lists.indices, table, out),
        "scipy": lambda: matrix @ table,
    }


def gathered(rows: int) -> dict[str, Way]:
    states, indices, relation = _messages(rows)
    out = (*np.zeros((2, len(relation))), *np.zeros((2, len(relation)), np.float32))
    return {
        "by hand": lambda: by_hand_gather(states, indices, relation, *out),
        "numba": lambda: plain_gather(states, indices, relation, *out),
    }


def scattered(rows: int) -> dict[str, Way]:
    states, indices, relation = _messages(rows)
    parts = np.zeros((6, len(relation)), np.float32)
    given = (states, np.zeros_like(states), indices, relation, parts, relation.copy())
    return {
        "by hand": lambda: by_hand_scatter(*given),
        "numba": lambda: plain_scatter(*given),
    }


def _messages(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return states of nodes, neighbours and a relation, as NBFNet has them."""
    random = np.random.default_rng(0)
    states = random.random((rows, 32), dtype=np.float32)
    indices = random.integers(0, rows, 4 * rows).astype(np.int32)
    return states, indices, random.random(32, dtype=np.float32)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with use_threads(1), single_blas_thread():
        for make in (dense, sparse, gathered, scattered):
            title, best = make.__name__, fastest(make(rows))
            told = ", ".join(f"{name} {1e3 * s:.2f} ms" for name, s in best.items())
            ratios = ", ".join(
                f"{s / best['by hand']:.2f} times {name}"
                for name, s in best.items()
                if name != "by hand"
            )
            print(f"{title}: {told}; as fast as {ratios}", flush=True)


if __name__ == "__main__":
    main()
