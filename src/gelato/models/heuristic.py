"""Heuristics as models: nothing is learned, so fitting only keeps the graph."""

from __future__ import annotations

from gelato import heuristics
from gelato.graph import Graph
from gelato.heuristics.walks import SelfLoops
from gelato.models.base import Model
from gelato.ranking.scorers import RowScorer


class CommonNeighbours(Model):
    """Common neighbours."""

    name = "cn"
    summary = "common neighbours"
    undirected_only = True

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        return heuristics.common_neighbours(graph)


class AdamicAdar(Model):
    """Common neighbours, each divided by the logarithm of its degree."""

    name = "aa"
    summary = "Adamic-Adar"
    undirected_only = True

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        return heuristics.adamic_adar(graph)


class ResourceAllocation(Model):
    """Common neighbours, each divided by its degree."""

    name = "ra"
    summary = "resource allocation"
    undirected_only = True

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        return heuristics.resource_allocation(graph)


class PreferentialAttachment(Model):
    """The product of both degrees."""

    name = "pa"
    summary = "preferential attachment: product of degrees"

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        return heuristics.preferential_attachment(graph)


class Autocovariance(Model):
    """Random walks of length t against chance (the paper's AC).

    Parameters
    ----------
    t : int
        Length of a walk.
    self_loops : {"isolated", "all"}
        Where loops of weight 1 are added.
    """

    name = "ac"
    summary = "autocovariance of random walks"

    def __init__(self, *, t: int = 3, self_loops: SelfLoops = "isolated") -> None:
        self.t = t
        self.self_loops = self_loops

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        return heuristics.autocovariance(graph, t=self.t, self_loops=self.self_loops)


class Cosine(Model):
    """Cosine similarity of attributes; edges are not used."""

    name = "cos"
    summary = "cosine similarity of attributes"

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        return heuristics.cosine(graph)
