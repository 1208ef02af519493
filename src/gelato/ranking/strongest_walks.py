"""The walks behind a score, best first, without listing them all.

The score of a pair is a sum over walks u - k - l - v of products of weights. Sums over
all walks through a node are two vectors pushed along the edges, from u and back from
v. Single walks come out best first from a search that knows, for every node, the best
way it could still go on; so the strongest few cost about as much as their neighbours,
however many millions of walks there are.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.graph import FloatArray
from gelato.ranking.scorers import WalkScorer


@dataclass(frozen=True, eq=False)
class WalkSums:
    """All walks of one pair, summed.

    Parameters
    ----------
    total : float
        What all walks together contribute to the score.
    count : int
        How many walks there are (that contribute at all).
    through : tuple of (n,) float64
        For each inner place of a walk, 1 to t - 1, what the walks contribute that have
        each node at that place. Every place sums to ``total``.
    """

    total: float
    count: int
    through: tuple[FloatArray, ...]


def sum_walks(scorer: WalkScorer, u: int, v: int) -> WalkSums:
    """Return what the walks from u to v contribute, in all and through each node."""
    matrix, factor, steps = scorer.adjacency, scorer.factor, scorer.steps
    ahead = _pushed(matrix.T, factor, u, steps)
    back = _pushed(matrix, factor, v, steps)
    through = tuple(
        scorer.multiplier * ahead[place] * factor * back[steps - place]
        for place in range(1, steps)
    )
    pattern = sp.csr_array(
        (np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    count = _pushed(pattern.T, (factor > 0).astype(np.float64), u, steps)[steps][v]
    total = scorer.multiplier * float(ahead[steps][v])
    return WalkSums(total, round(float(count)), through)


def total_without_pair(scorer: WalkScorer, u: int, v: int, *, directed: bool) -> float:
    """Return what the walks contribute that never step along the pair itself."""
    matrix = scorer.adjacency.copy()
    for a, b in ((u, v),) if directed else ((u, v), (v, u)):
        start, stop = matrix.indptr[a], matrix.indptr[a + 1]
        row = matrix.data[start:stop]
        row[matrix.indices[start:stop] == b] = 0.0
    ahead = _pushed(matrix.T, scorer.factor, u, scorer.steps)
    return scorer.multiplier * float(ahead[scorer.steps][v])


def strongest_walks(
    scorer: WalkScorer, u: int, v: int, top: int
) -> list[tuple[tuple[int, ...], float]]:
    """Return the ``top`` walks that contribute most: their nodes, and how much.

    Parameters
    ----------
    scorer : WalkScorer
        With a positive multiplier and at least one step.
    u, v : int
        Where walks start and end.
    top : int
        How many walks are wanted.
    """
    matrix, factor, steps = scorer.adjacency, scorer.factor, scorer.steps
    bounds = _best_ahead(matrix, factor, v, steps)
    found: list[tuple[tuple[int, ...], float]] = []
    # Entries: the best that a walk can come to, its nodes so far, its weight so far.
    heap: list[tuple[float, tuple[int, ...], float]] = []
    if bounds[steps][u] > 0:
        heap.append((-float(bounds[steps][u]), (u,), 1.0))
    while heap and len(found) < top:
        _, walk, weight = heapq.heappop(heap)
        left = steps - len(walk) + 1
        if left == 0:
            found.append((walk, scorer.multiplier * weight))
            continue
        start, stop = matrix.indptr[walk[-1]], matrix.indptr[walk[-1] + 1]
        nodes = matrix.indices[start:stop]
        weights = weight * matrix.data[start:stop]
        if left > 1:
            weights = weights * factor[nodes]
        reach = weights * bounds[left - 1][nodes]
        for slot in np.flatnonzero(reach > 0).tolist():
            following = (*walk, int(nodes[slot]))
            heapq.heappush(heap, (-float(reach[slot]), following, float(weights[slot])))
    return sorted(found, key=lambda walk: (-walk[1], walk[0]))


def _pushed(matrix: Any, factor: FloatArray, node: int, steps: int) -> list[FloatArray]:
    """Return e, M e, M F M e, ...: sums over the walks of each length from a node."""
    vector = np.zeros(matrix.shape[0])
    vector[node] = 1.0
    sums = [vector]
    for step in range(steps):
        sums.append(matrix @ (sums[-1] if step == 0 else factor * sums[-1]))
    return sums


def _best_ahead(
    matrix: sp.csr_array, factor: FloatArray, v: int, steps: int
) -> list[FloatArray]:
    """Return, by number of steps left, the largest weight of a walk on to v."""
    bound = np.zeros(matrix.shape[0])
    bound[v] = 1.0
    bounds = [bound]
    filled = np.flatnonzero(np.diff(matrix.indptr))
    starts = matrix.indptr[filled]
    for step in range(steps):
        ahead = bounds[-1] if step == 0 else factor * bounds[-1]
        bound = np.zeros(matrix.shape[0])
        if len(filled):
            values = matrix.data * ahead[matrix.indices]
            bound[filled] = np.maximum.reduceat(values, starts)
        bounds.append(bound)
    return bounds
