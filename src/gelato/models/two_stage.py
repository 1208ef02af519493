"""Similarity first, walks second: two-stage models that learn nothing."""

from __future__ import annotations

from typing import Self

from gelato.graph import Graph
from gelato.heuristics.walks import SelfLoops
from gelato.models.enhanced import EnhancedModel
from gelato.splits import EdgeSplit


class CosineAutocovariance(EnhancedModel):
    """Autocovariance on a graph enhanced by cosine similarity (the paper's Cos+AC).

    Parameters
    ----------
    eta : float
        Similarity pairs to add, as a share of the edges.
    alpha : float
        Share of the graph's own weights; the rest is similarity.
    t : int
        Length of a walk.
    self_loops : {"isolated", "all"}
        Where loops of weight 1 are added.
    """

    name = "cos+ac"
    summary = "autocovariance on edges and attribute-similar pairs"

    def __init__(
        self,
        *,
        eta: float = 1.0,
        alpha: float = 0.5,
        t: int = 3,
        self_loops: SelfLoops = "isolated",
    ) -> None:
        self.eta, self.alpha, self.t = eta, alpha, t
        self.self_loops = self_loops

    def fit(self, data: Graph | EdgeSplit) -> Self:
        """Find the similarity pairs, as many as the training edges ask for."""
        super().fit(data)
        self._find_similar(data.train_graph if isinstance(data, EdgeSplit) else data)
        return self
