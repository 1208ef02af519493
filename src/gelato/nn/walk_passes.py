"""The passes of a training step, spread over the workers of an engine.

The rows of a step are cut into the same chunks as on threads. Workers return what
each chunk adds, and this process sums it in the order of the chunks: the gradient is
the same to the last bit. What a step needs is sent once per pass and machine.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.engines.engine import Engine, current_engine
from gelato.kernels import walk_training as threaded
from gelato.kernels.walk_structure import PairLists, StepMatrix
from gelato.kernels.walk_training import backward_rows, forward_rows

Floats = npt.NDArray[Any]
Lists = tuple[PairLists, PairLists]
Rows = tuple[int, int]
Scored = tuple[tuple[Floats, Floats], npt.NDArray[np.float64]]


def score_pairs(matrix: StepMatrix, lists: Lists, *, t: int = 3) -> Scored:
    """Return R at two lists of pairs, and each list's sum of squares.

    See :func:`gelato.kernels.walk_training.score_pairs`.
    """
    engine = _elsewhere()
    if engine is None:
        return threaded.score_pairs(matrix, lists, t=t)
    dtype = matrix.values.dtype
    out = (np.empty(len(lists[0]), dtype), np.empty(len(lists[1]), dtype))
    squares = np.zeros((2, matrix.num_nodes))
    chunks = _chunks(matrix, lists)
    shared = (matrix.arrays, t, lists)
    for rows, part in zip(chunks, engine.map(_forward, shared, chunks), strict=True):
        scores, squares[:, slice(*rows)] = part
        for k, values in enumerate(scores):
            out[k][_places(lists[k], rows)] = values
    return out, squares.sum(axis=1)


def pull_gradients(
    matrix: StepMatrix,
    lists: Lists,
    scores: tuple[Floats, Floats],
    gradients: tuple[Floats, Floats],
    num_edges: int,
    *,
    t: int = 3,
    at_nodes: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Return the gradient with respect to the weight of every edge.

    See :func:`gelato.kernels.walk_training.pull_gradients`.
    """
    engine = _elsewhere()
    if engine is None:
        given = (matrix, lists, scores, gradients, num_edges)
        return threaded.pull_gradients(*given, t=t, at_nodes=at_nodes)
    chunks = _chunks(matrix, lists)
    by_slot = np.empty((len(chunks), len(matrix.values)), matrix.values.dtype)
    by_node = np.empty((len(chunks), matrix.num_nodes))
    shared = (matrix.arrays, t, lists, scores, gradients)
    for k, part in enumerate(engine.map(_backward, shared, chunks)):
        by_slot[k], by_node[k] = part
    return threaded.fold_chunks(matrix, by_slot, by_node, num_edges, at_nodes)


def _elsewhere() -> Engine | None:
    """Return the engine in use, unless it is threads: they share memory as it is."""
    engine = current_engine()
    return None if engine is None or engine.name == "local" else engine


def _chunks(matrix: StepMatrix, lists: Lists) -> list[Rows]:
    bounds = threaded.row_bounds(matrix, lists).tolist()
    return list(itertools.pairwise(bounds))


def _places(pairs: PairLists, rows: Rows) -> slice:
    """Return where the values of the pairs of rows are."""
    return slice(*pairs.offsets[[*rows]])


def _forward(shared: tuple[Any, int, Lists], rows: Rows) -> Scored:
    matrix, t, lists = shared
    dtype = matrix[2].dtype
    out = (np.empty(len(lists[0]), dtype), np.empty(len(lists[1]), dtype))
    squares = np.zeros((2, len(matrix[0]) - 1))
    pairs = (lists[0].arrays, lists[1].arrays)
    forward_rows(*rows, matrix, t, pairs, out, squares)
    scores = (out[0][_places(lists[0], rows)], out[1][_places(lists[1], rows)])
    return scores, squares[:, slice(*rows)]


def _backward(
    shared: tuple[Any, int, Lists, Any, Any], rows: Rows
) -> tuple[Floats, npt.NDArray[np.float64]]:
    matrix, t, lists, scores, gradients = shared
    by_slot = np.zeros(len(matrix[2]), matrix[2].dtype)
    by_node = np.zeros(len(matrix[0]) - 1)
    pairs = (lists[0].arrays, lists[1].arrays)
    backward_rows(*rows, matrix, t, pairs, scores, gradients, by_slot, by_node)
    return by_slot, by_node
