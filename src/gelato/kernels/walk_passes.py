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
    dtype = matrix.values.dtype
    out = (np.empty(len(lists[0]), dtype), np.empty(len(lists[1]), dtype))
    squares = np.zeros((2, matrix.num_nodes))
    bounds = row_bounds(matrix, lists)
    pairs = (lists[0].arrays, lists[1].arrays)
    arrays = matrix.arrays

    def task(chunk: int) -> None:
        forward_rows(bounds[chunk], bounds[chunk + 1], arrays, t, pairs, out, squares)

    run_chunks(task, NUM_CHUNKS, threads)
    return out, squares.sum(axis=1)


def pull_gradients(
    matrix: StepMatrix,
    lists: tuple[PairLists, PairLists],
    scores: tuple[Floats, Floats],
    gradients: tuple[Floats, Floats],
    num_edges: int,
    *,
    t: int = 3,
    at_nodes: npt.NDArray[np.float64] | None = None,
    threads: int | None = None,
) -> npt.NDArray[np.float64]:
    """Return the gradient with respect to the weight of every edge.

    Parameters
    ----------
    matrix, lists, t, threads
        As given to :func:`score_pairs`.
    scores : pair of arrays
        What :func:`score_pairs` returned.
    gradients : pair of arrays
        Gradient with respect to R at the pairs of each list.
    num_edges : int
        Number of edges M, masked ones included (their gradient is 0).
    at_nodes : (n,) float64, optional
        Gradient of pairs outside the lists that no walk joins: 2 d_k times that with
        respect to d_k, vol apart, which is the sum of 2 g R over node k's pairs.
    """
    by_slot = np.zeros((NUM_CHUNKS, len(matrix.values)), matrix.values.dtype)
    by_node = np.zeros((NUM_CHUNKS, matrix.num_nodes))
    bounds = row_bounds(matrix, lists)
    pairs = (lists[0].arrays, lists[1].arrays)
    arrays = matrix.arrays

    def task(chunk: int) -> None:
        backward_rows(
            bounds[chunk],
            bounds[chunk + 1],
            arrays,
            t,
            pairs,
            scores,
            gradients,
            by_slot[chunk],
            by_node[chunk],
        )

    run_chunks(task, NUM_CHUNKS, threads)
    return fold_chunks(matrix, by_slot, by_node, num_edges, at_nodes)


def fold_chunks(
    matrix: StepMatrix,
    by_slot: Floats,
    by_node: npt.NDArray[np.float64],
    num_edges: int,
    at_nodes: npt.NDArray[np.float64] | None,
) -> npt.NDArray[np.float64]:
    """Sum the buffers of all chunks, in their order, into gradients of edges.

    ``by_slot`` and ``by_node`` have a row per chunk, as
    :func:`gelato.kernels.walk_training.backward_rows` fills them.
    """
    total = by_node.sum(axis=0)
    if at_nodes is not None:
        total += at_nodes
    slots = matrix.slot_edge
    return np.asarray(_fold_slots(matrix.arrays, slots, by_slot, total, num_edges))


def row_bounds(
    matrix: StepMatrix, lists: tuple[PairLists, PairLists]
) -> npt.NDArray[np.int64]:
    """Return the bounds of chunks of rows that cost about the same."""
    counts = np.diff(lists[0].offsets) + np.diff(lists[1].offsets)
    cost = np.where(counts > 0, matrix.two_hop_cost, 0.0) + counts * (
        matrix.tail_size + 4.0
    )
    return balanced_chunks(cost)


@numba.njit(cache=True, nogil=True)
def _fold_slots(matrix, slot_edge, by_slot, by_node, num_edges):  # type: ignore[no-untyped-def]
    """Turn gradients of N's slots into gradients of the edges' weights.

    N_kl = A_kl / sqrt(d_k d_l), so a slot passes by / sqrt(d_k d_l) to its weight
    and -by N / (2 d) to each of its two degrees; ``by_node`` holds 2 d times the
    gradient of the degrees outside N, half of its sum times -1 / vol is that of vol.
    An edge then takes what its two slots and its two degrees have.
    """
    indptr, indices, values, roots, volume = matrix
    total = np.zeros(values.shape[0])
    for chunk in range(by_slot.shape[0]):
        for s in range(values.shape[0]):
            total[s] += by_slot[chunk, s]
    by_degree = by_node.copy()
    for u in range(roots.shape[0]):
        for s in range(indptr[u], indptr[u + 1]):
            through = total[s] * values[s]
            by_degree[u] -= through
            by_degree[indices[s]] -= through
    by_volume = -0.5 * by_node.sum() / volume
    for u in range(roots.shape[0]):
        by_degree[u] = 0.5 * by_degree[u] / (roots[u] * roots[u]) + by_volume
    gradient = np.zeros(num_edges)
    for u in range(roots.shape[0]):
        for s in range(indptr[u], indptr[u + 1]):
            if slot_edge[s] >= 0:
                by_weight = total[s] / (roots[u] * roots[indices[s]])
                gradient[slot_edge[s]] += by_weight + by_degree[u]
    return gradient
