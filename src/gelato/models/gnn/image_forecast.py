"""How long curvature and images of a graph will take, from a sample of its pairs."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

import numpy as np

from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels.chunks import default_threads
from gelato.kernels.curvature import edge_curvatures
from gelato.kernels.persistence_images import pair_images
from gelato.models.gnn.curvature import pair_cost
from gelato.models.gnn.persistence import SIZE, near_pairs

_DRAWS = 96  # pairs that are timed


def images_seconds(graph: Graph, hops: int, *, edges: bool = True) -> float:
    """Return about how long all images that a training needs will take.

    Parameters
    ----------
    graph : Graph
        The training graph.
    hops : int
        As for :class:`gelato.models.gnn.persistence.GraphImages`.
    edges : bool
        Whether images of edges are needed, as training sees them.
    """
    if not graph.num_edges or (hops == 1 and not edges):
        return 0.0
    matrix = graph.adjacency
    pattern = (matrix.indptr, matrix.indices)
    spread, image = np.empty(_DRAWS), np.empty((_DRAWS, SIZE), np.float32)
    lengths = np.ones(matrix.nnz)

    def curve(first: int, last: int, pairs: IntArray) -> None:
        edge_curvatures(first, last, pairs, *pattern, spread)

    def draw(first: int, last: int, pairs: IntArray) -> None:
        pair_images(first, last, pairs, hops, False, *pattern, lengths, image)

    total = _seconds(curve, graph, graph.edges)
    if edges:
        total += _seconds(draw, graph, graph.edges)
    if hops > 1:
        total += _seconds(draw, graph, near_pairs(graph, hops))
    return total / default_threads()


def _seconds(
    work: Callable[[int, int, IntArray], None], graph: Graph, pairs: IntArray
) -> float:
    """Time pairs drawn in proportion to their cost, and carry over to all of them.

    Each drawn pair stands for an equal share of the whole cost, so that few pairs
    suffice although some cost a thousand times as much as others. Only the time of
    this thread counts: other work of the machine would weigh heavily on so few.
    """
    cost = pair_cost(graph, pairs)
    drawn = _even_draws(cost)
    few = np.ascontiguousarray(pairs[drawn])
    work(0, 1, few)  # loads compiled code, and touches memory
    share = float(cost.sum()) / len(drawn)
    total = 0.0
    for i, at in enumerate(drawn.tolist()):
        started = thread_time()
        work(i, i + 1, few)
        total += (thread_time() - started) * share / cost[at]
    return total


def _even_draws(cost: FloatArray) -> IntArray:
    """Return positions at equal steps of the summed cost."""
    count = min(_DRAWS, len(cost))
    sums = np.cumsum(cost)
    steps = (np.arange(count) + 0.5) / count * sums[-1]
    drawn: IntArray = np.searchsorted(sums, steps).astype(np.int64)
    return drawn
