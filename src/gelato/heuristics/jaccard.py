"""Common neighbours, as a share of all neighbours of both ends."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gelato.graph import Graph
from gelato.heuristics.declared import heuristic
from gelato.parameters import number


@heuristic(
    "jaccard",
    "common neighbours as a share of all neighbours",
    undirected=True,
    parameters={"plus": number(least=0)},
)
def jaccard(graph: Graph, *, plus: float = 0.0) -> "Jaccard":
    """Score a pair by its common neighbours over the union (plus a constant)."""
    graph.require_undirected("Jaccard (jaccard)")
    pattern = sp.csr_array(graph.adjacency)
    pattern.data = np.ones_like(pattern.data)
    return Jaccard(pattern, pattern.sum(axis=1), plus)


@dataclass(frozen=True, eq=False)
class Jaccard:
    """Scores whole rows."""

    pattern: sp.csr_array
    degrees: np.ndarray
    plus: float

    def score_rows(self, rows):
        """Return scores of shape ``(len(rows), n)``."""
        common = (self.pattern[rows] @ self.pattern).toarray()
        union = self.degrees[rows, None] + self.degrees[None, :] - common + self.plus
        return common / np.maximum(union, 1e-12)
