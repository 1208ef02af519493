"""SimRank: two nodes are alike if their neighbours are; for small graphs.

Every score depends on all others, so that all n x n are kept. That is refused where it
would not fit, with what it would take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from gelato.errors import UsageError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.heuristics.declared import heuristic
from gelato.parameters import number
from gelato.ranking.scorers import MatrixScorer, round_scores
from gelato.text import duration

MOST_NODES = 10_000
"""Most nodes: three tables of 0.8 GB."""

_ERROR = 1e-4  # of a score, where rounds end
_TABLES = 3  # n x n, in double precision
_STEPS_PER_SECOND = 5e8  # multiplications along edges, roughly


@heuristic(
    "simrank",
    "SimRank: alike if the neighbours are (small graphs)",
    undirected=True,
    parameters={"decay": number(above=0, below=1)},
    search_space={"decay": (0.8, 0.6, 0.9)},
)
def simrank(graph: Graph, *, decay: float = 0.8) -> SimRank:
    """Score a pair by ``S = decay W S W^T`` with ones on the diagonal.

    ``W = D^-1 A``: neighbours count by weight. Rounds end when no score can change by
    more than 1e-4.

    Parameters
    ----------
    graph : Graph
        The known edges; at most 10,000 nodes.
    decay : float
        How much less alike two nodes are than their neighbours.
    """
    graph.require_undirected("SimRank (simrank)")
    made = SimRank(graph.adjacency, decay)
    if graph.num_nodes > MOST_NODES:
        raise UsageError(
            f"SimRank keeps a score for all pairs at once: {graph.num_nodes:,} nodes "
            f"would take {made.table_bytes / 1e9:,.0f} GB and about "
            f"{duration(made.seconds)}; it is for {MOST_NODES:,} nodes at most.",
            hint="Take a heuristic that scores row by row, for example ppr.",
        )
    return made


@dataclass(frozen=True, eq=False)
class SimRank:
    """SimRank of all pairs, found when a row is first asked for.

    Parameters
    ----------
    adjacency : CSR float64
        A, symmetric.
    decay : float
        See :func:`simrank`.
    """

    adjacency: sp.csr_array
    decay: float

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[0])

    @property
    def rounds(self) -> int:
        """Rounds until no score can change by more than 1e-4."""
        return math.ceil(math.log(_ERROR) / math.log(self.decay))

    @property
    def table_bytes(self) -> float:
        """Memory for the scores of all pairs, and for a round."""
        return 8.0 * _TABLES * self.num_nodes**2

    @property
    def seconds(self) -> float:
        """About how long all rounds take."""
        steps = 2.0 * self.num_nodes * (int(self.adjacency.nnz) + self.num_nodes)
        return self.rounds * steps / _STEPS_PER_SECOND

    def trial(self) -> tuple[MatrixScorer, float, int]:
        """Return what to time in a forecast, and what comes before the first row."""
        empty = sp.csr_array(self.adjacency.shape)
        return MatrixScorer(empty), self.seconds, int(self.table_bytes)

    @cached_property
    def matrix(self) -> FloatArray:
        """The scores of all pairs, symmetric to the last bit."""
        degrees = np.asarray(self.adjacency.sum(axis=1)).ravel()
        scale = np.divide(1.0, degrees, out=np.zeros(len(degrees)), where=degrees > 0)
        step = sp.csr_array(sp.diags_array(scale) @ self.adjacency)
        scores = np.eye(self.num_nodes)
        for _ in range(self.rounds):
            half = step @ scores
            scores = step @ np.ascontiguousarray(half.T)
            scores *= self.decay
            np.fill_diagonal(scores, 1.0)
        scores += scores.T.copy()
        scores /= 2.0
        return round_scores(scores)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        return self.matrix[rows]
