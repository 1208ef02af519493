"""Whole passes over pair lists: chunks, threads, and the merge of their buffers."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from gelato.kernels.chunks import NUM_CHUNKS, balanced_chunks, run_chunks
from gelato.kernels.walk_structure import PairLists, StepMatrix
from gelato.kernels.walk_training import backward_rows, forward_rows

Floats = npt.NDArray[Any]


def score_pairs(
    matrix: StepMatrix,
    lists: tuple[PairLists, PairLists],
    *,
    t: int = 3,
    threads: int | None = None,
) -> tuple[tuple[Floats, Floats], npt.NDArray[np.float64]]:
    """Return R at two lists of pairs, and each list's sum of squares.

    Pairs off the diagonal count twice in the sums, as both (u, v) and (v, u) are
    entries of R. Two lists, because a step has two: pairs that stay (edges and
    diagonal) and pairs that change (negatives); a row's walk then serves both.
    """
    dtype = matrix.weights.dtype
    out = (np.empty(len(lists[0]), dtype), np.empty(len(lists[1]), dtype))
    squares = np.zeros((2, len(matrix.degrees)))
    bounds = _row_bounds(matrix, lists)
    pairs = (lists[0].arrays, lists[1].arrays)
    arrays = matrix.arrays

    def task(chunk: int) -> None:
        forward_rows(
            bounds[chunk], bounds[chunk + 1], arrays, t, pairs, out, squares
        )

    run_chunks(task, NUM_CHUNKS, threads)
    return out, squares.sum(axis=1)


def pull_gradients(
    matrix: StepMatrix,
    lists: tuple[PairLists, PairLists],
    gradients: tuple[Floats, Floats],
    num_edges: int,
    *,
    t: int = 3,
    threads: int | None = None,
) -> npt.NDArray[np.float64]:
    """Return the gradient with respect to the weight of every edge.

    Parameters
    ----------
    matrix, lists, t, threads
        As given to :func:`score_pairs`.
    gradients : pair of arrays
        Gradient with respect to R at the pairs of each list.
    num_edges : int
        Number of edges M, masked ones included (their gradient is 0).
    """
    dtype, n = matrix.weights.dtype, len(matrix.degrees)
    by_slot = np.zeros((NUM_CHUNKS, len(matrix.weights)), dtype)
    by_degree = np.zeros((NUM_CHUNKS, n))
    dot = np.zeros((NUM_CHUNKS, n), dtype)
    products = np.zeros(NUM_CHUNKS)
    bounds = _row_bounds(matrix, lists)
    pairs = (lists[0].arrays, lists[1].arrays)
    arrays = matrix.arrays

    def task(chunk: int) -> None:
        products[chunk] = backward_rows(
            bounds[chunk],
            bounds[chunk + 1],
            arrays,
            t,
            pairs,
            gradients,
            by_slot[chunk],
            by_degree[chunk],
            dot[chunk],
        )

    run_chunks(task, NUM_CHUNKS, threads)
    volume = matrix.volume
    through_c = dot.sum(axis=0, dtype=np.float64)
    through_degree = by_degree.sum(axis=0)
    if t > 1:  # for t = 1 the walk has taken no step yet: c depends on no degree
        through_degree -= through_c
    through_degree += (
        2.0 * products.sum() / volume**3 - through_c @ matrix.degrees / volume
    )
    return np.asarray(
        _fold_slots(
            matrix.indptr, matrix.slot_edge, by_slot, through_degree, num_edges
        )
    )


def _row_bounds(
    matrix: StepMatrix, lists: tuple[PairLists, PairLists]
) -> npt.NDArray[np.int64]:
    counts = np.diff(lists[0].offsets) + np.diff(lists[1].offsets)
    cost = np.where(counts > 0, matrix.two_hop_cost, 0.0) + counts * (
        matrix.tail_size + 4.0
    )
    return balanced_chunks(cost)


@numba.njit(cache=True, nogil=True)
def _fold_slots(indptr, slot_edge, by_slot, through_degree, num_edges):  # type: ignore[no-untyped-def]
    """Sum both slots of an edge, and both ends' degrees, over the chunks in order."""
    gradient = np.zeros(num_edges)
    for u in range(indptr.shape[0] - 1):
        for s in range(indptr[u], indptr[u + 1]):
            edge = slot_edge[s]
            if edge < 0:
                continue
            total = 0.0
            for chunk in range(by_slot.shape[0]):
                total += by_slot[chunk, s]
            gradient[edge] += total + through_degree[u]
    return gradient
