"""Common neighbours as a share: jaccard, salton, sorensen, hub promoted and depressed.

With a and b the rows of two nodes in the matrix of weights, ``a.b`` is what they share
and ``a.a`` what each has: without weights, the common neighbours and the degrees. All
five indices divide the first by some mean of the second, so that they are defined for
weights, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gelato.graph import FloatArray, Graph, IntArray
from gelato.heuristics.declared import heuristic
from gelato.heuristics.walks import common_neighbours
from gelato.ranking.scorers import ClosedForm, NearBlock, WalkScorer

Divisor = Callable[[Any, Any, Any], Any]
"""From ``a.b``, ``a.a`` and ``b.b`` to what the first is divided by."""


@heuristic("jaccard", "common neighbours per neighbour of either", undirected=True)
def jaccard(graph: Graph) -> Overlap:
    """Score by ``a.b / (a.a + b.b - a.b)``; with weights that is Tanimoto's index."""
    return _overlap(graph, lambda shared, one, two: one + two - shared)


@heuristic("salton", "common neighbours per root of the degrees", undirected=True)
def salton(graph: Graph) -> Overlap:
    """Score by ``a.b / sqrt(a.a b.b)``: the cosine of two rows of weights."""
    return _overlap(graph, lambda _, one, two: np.sqrt(one * two))


@heuristic("sorensen", "common neighbours per mean degree", undirected=True)
def sorensen(graph: Graph) -> Overlap:
    """Score by ``2 a.b / (a.a + b.b)``."""
    return _overlap(graph, lambda _, one, two: (one + two) / 2)


@heuristic("hub-promoted", "common neighbours per smaller degree", undirected=True)
def hub_promoted(graph: Graph) -> Overlap:
    """Score by ``a.b / min(a.a, b.b)``: a node inside a hub's circle scores 1."""
    return _overlap(graph, lambda _, one, two: np.minimum(one, two))


@heuristic("hub-depressed", "common neighbours per larger degree", undirected=True)
def hub_depressed(graph: Graph) -> Overlap:
    """Score by ``a.b / max(a.a, b.b)``: hubs share little of what they have."""
    return _overlap(graph, lambda _, one, two: np.maximum(one, two))


def _overlap(graph: Graph, divisor: Divisor) -> Overlap:
    squares = graph.adjacency.power(2).sum(axis=1)
    return Overlap(common_neighbours(graph), np.asarray(squares).ravel(), divisor)


@dataclass(frozen=True, eq=False)
class Overlap:
    """Walks of two steps, each divided by something of the ends of its pair.

    Parameters
    ----------
    common : WalkScorer
        Scores ``a.b``; pairs that share nothing score 0.
    squares : (n,) float64
        ``a.a`` of every node.
    divisor : callable
        What ``a.b`` is divided by.
    """

    common: WalkScorer
    squares: FloatArray
    divisor: Divisor

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.common.num_nodes

    @property
    def far(self) -> ClosedForm:
        """The score of pairs that share nothing."""
        return self.common.far

    @cached_property
    def near_bounds(self) -> IntArray:
        """A bound on the number of near columns of every row."""
        return self.common.near_bounds

    def near_rows(self, rows: IntArray, *, upper: bool) -> NearBlock:
        """Return the near columns of rows and their scores."""
        near = self.common.near_rows(rows, upper=upper)
        one = self.squares[np.repeat(rows, np.diff(near.indptr))]
        near.scores[:] /= self.divisor(near.scores, one, self.squares[near.columns])
        return near

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        rows = np.asarray(rows, dtype=np.int64)
        near = self.near_rows(rows, upper=False)
        scores = np.zeros((len(rows), self.num_nodes))
        return near.spread(scores)

    def walk_parts(self, u: int, v: int) -> list[tuple[str, float, WalkScorer]]:
        """Return the sums of walks that the score of a pair consists of."""
        shared = float(
            (self.common.adjacency[[u]] @ self.common.adjacency[[v]].T).sum()
        )
        size = float(self.divisor(shared, self.squares[u], self.squares[v]))
        return [("", 1.0 / size if size else 0.0, self.common)]
