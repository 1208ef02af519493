"""The steps of walks: what gave them weight, and the attributes behind it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gelato.explanation import AttributeEffect, WalkEdge
from gelato.graph import FloatArray, Graph, IntArray, find_pairs
from gelato.nn.attribute_effects import attribute_effects
from gelato.nn.enhancement import EnhancedGraph
from gelato.nn.similarity import pair_similarity
from gelato.ranking.scorers import WalkScorer


def walk_edges(
    source: Any,
    graph: Graph,
    walks: list[tuple[WalkScorer, tuple[int, ...], float]],
    top_edges: int,
    top_attributes: int,
) -> tuple[tuple[WalkEdge, ...], list[str]]:
    """Return the steps of walks with what is known about each, strongest first.

    Parameters
    ----------
    source : model or scorer
        A model that enhances graphs tells which pairs are similar and how it weighs.
    graph : Graph
        The known edges.
    walks : list of (scorer, nodes, contribution)
        The walks, as node indices, and what counts them.
    top_edges, top_attributes : int
        For how many edges to look into attributes, and how many to keep of each.

    Returns
    -------
    edges : tuple of WalkEdge
    notes : list of str
    """
    carried: dict[tuple[int, int], float] = {}
    weights: dict[tuple[int, int], float] = {}
    for scorer, nodes, contribution in walks:
        for a, b in {
            (a, b) if graph.directed or a < b else (b, a) for a, b in pairwise(nodes)
        }:
            carried[a, b] = carried.get((a, b), 0.0) + contribution
            weights.setdefault((a, b), float(scorer.adjacency[a, b]))
    order = sorted(carried, key=lambda step: (-abs(carried[step]), step))
    enhanced = source.enhanced(graph) if hasattr(source, "enhanced") else None
    steps = np.array(order, dtype=np.int64).reshape(-1, 2)
    facts = _EdgeFacts(source, graph, enhanced, steps)
    found = tuple(
        facts.edge(
            i, weights[step], carried[step], top_attributes if i < top_edges else 0
        )
        for i, step in enumerate(order)
    )
    return found, facts.notes


class _EdgeFacts:
    """What a graph, and the model that enhanced it, know about steps of walks."""

    def __init__(
        self, source: Any, graph: Graph, enhanced: EnhancedGraph | None, steps: IntArray
    ) -> None:
        self._source, self._graph, self._enhanced = source, graph, enhanced
        self._steps, n = steps, graph.num_nodes
        self._at_edge = find_pairs(graph.edges, steps, n)
        self._at_pair = None
        if enhanced is not None:
            self._at_pair = find_pairs(enhanced.pairs, steps, n)
        self._similarity = None
        if graph.num_attributes:
            self._similarity = pair_similarity(graph.attributes, steps)
        self._explains = enhanced is not None and enhanced.has_attributes
        self.notes: list[str] = []
        if self._explains and getattr(source, "pair_model", None) is not None:
            self._explains = False
            self.notes.append("attributes are not looked into: the pair model is yours")
        elif self._explains and len(steps):
            self.notes.append(
                "effects of attributes: the weight as it is, less the weight if both "
                "nodes had 0 there; attributes work together, so that effects do not "
                "add up"
            )

    def edge(self, i: int, weight: float, carried: float, top: int) -> WalkEdge:
        """Return step i with all that is known about it."""
        graph = self._graph
        a, b = self._steps[i].tolist()
        at = int(self._at_edge[i])
        own = 0.0
        if at >= 0:
            own = 1.0 if graph.weights is None else float(graph.weights[at])
        place = -1 if self._at_pair is None else int(self._at_pair[i])
        similar = False
        if self._enhanced is not None and place >= 0:
            similar = bool(self._enhanced.is_similar[place])
        ids = graph.node_ids
        return WalkEdge(
            source=ids[[a]].tolist()[0],
            target=ids[[b]].tolist()[0],
            weight=weight,
            own_weight=own,
            similarity=None if self._similarity is None else float(self._similarity[i]),
            is_edge=at >= 0,
            is_similar=similar,
            is_loop=a == b,
            contribution=carried,
            effects=self._effects(place, top),
        )

    def _effects(self, place: int, top: int) -> tuple[AttributeEffect, ...]:
        if not self._explains or place < 0 or top == 0:
            return ()
        graph, enhanced = self._graph, self._enhanced
        assert enhanced is not None
        attributes, effects = attribute_effects(
            graph,
            enhanced,
            place,
            self._source.weights,
            similarity=getattr(self._source, "similarity", "cosine"),
        )
        x, y = attribute_rows(graph, enhanced.pairs[place])
        order = np.argsort(-np.abs(effects), kind="stable")[:top]
        return tuple(
            AttributeEffect(
                attribute_name(graph, a), float(x[a]), float(y[a]), float(effects[i])
            )
            for i, a in zip(order.tolist(), attributes[order].tolist(), strict=True)
            if effects[i] != 0
        )


def attribute_rows(graph: Graph, nodes: IntArray) -> FloatArray:
    """Return the attributes of nodes as dense rows."""
    attributes: Any = graph.attributes
    rows = attributes[nodes]
    dense = rows.toarray() if hasattr(rows, "toarray") else rows
    return np.asarray(dense, dtype=np.float64)


def attribute_name(graph: Graph, attribute: int) -> str:
    """Return the name of an attribute, or its number where there are no names."""
    names = graph.attribute_names
    return f"attribute {attribute}" if names is None else str(names[attribute])
