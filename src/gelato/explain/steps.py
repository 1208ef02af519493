"""Which attributes moved the weight of a pair: each one left out in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.explain.explanation import AttributeEffect, WalkEdge
from gelato.graph import FloatArray, Graph, IntArray, find_pairs
from gelato.ranking.scorers import WalkScorer

if TYPE_CHECKING:
    from torch import Tensor

    from gelato.nn.enhancement import EnhancedGraph
    from gelato.nn.similarity import BlockSimilarity

Weigh = Callable[[Graph, "EnhancedGraph"], "Tensor"]
"""Weighs the pairs of an enhanced graph, as models do."""


@runtime_checkable
class Enhancer(Protocol):
    """A model that adds pairs to a graph and weighs all of them."""

    similarity: str | BlockSimilarity
    pair_model: Any

    def enhanced(self, graph: Graph) -> EnhancedGraph:
        """Return a graph's edges and similarity pairs."""
        ...

    def weights(self, graph: Graph, enhanced: EnhancedGraph) -> Tensor:
        """Return the weight of every pair of an enhanced graph."""
        ...


# Cells of the copies of two nodes that are held at once.
_CELLS = 1 << 22


def attribute_effects(
    graph: Graph,
    enhanced: EnhancedGraph,
    position: int,
    weigh: Weigh,
    *,
    similarity: str | BlockSimilarity = "cosine",
) -> tuple[IntArray, FloatArray]:
    """Return what each attribute of a pair does to its enhanced weight.

    The effect of an attribute is the weight as it is, less the weight if both nodes
    had 0 there: exact, through the whole model. Effects do not add up to the weight,
    because attributes work together. A similarity of the user's own stays as it is.

    Parameters
    ----------
    graph : Graph
        With attributes.
    enhanced : EnhancedGraph
        Its pairs.
    position : int
        Which of the pairs.
    weigh : callable
        ``model.weights``.
    similarity : "cosine" or callable
        Which similarity the weights mix in.

    Returns
    -------
    attributes : (k,) int64
        The attributes that at least one of both nodes has.
    effects : (k,) float64
        Positive where an attribute raises the weight.
    """
    both = _dense_rows(graph.attributes, enhanced.pairs[position])
    involved = np.flatnonzero((both != 0).any(axis=0))
    effects = np.empty(len(involved))
    step = max(1, _CELLS // max(1, both.size))
    for start in range(0, len(involved), step):
        left_out = involved[start : start + step]
        copies = np.tile(both, (len(left_out) + 1, 1))
        for i, attribute in enumerate(left_out.tolist()):
            copies[2 * i + 2 : 2 * i + 4, attribute] = 0
        small, pairs = _copies_graph(graph, copies)
        part = _copies_enhanced(enhanced, position, small, pairs, similarity)
        weights = weigh(small, part).double().numpy()
        effects[start : start + step] = weights[0] - weights[1:]
    return involved, effects


def _dense_rows(attributes: Any, nodes: IntArray) -> npt.NDArray[Any]:
    rows = attributes[nodes]
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def _copies_graph(graph: Graph, copies: npt.NDArray[Any]) -> tuple[Graph, IntArray]:
    """Return a graph of copies of two nodes, joined two by two."""
    pairs = np.arange(len(copies), dtype=np.int64).reshape(-1, 2)
    values = sp.csr_array(copies) if sp.issparse(graph.attributes) else copies
    small = Graph.from_indices(
        len(copies), pairs, attributes=values, directed=graph.directed
    )
    return small, pairs


def _copies_enhanced(
    enhanced: EnhancedGraph,
    position: int,
    small: Graph,
    pairs: IntArray,
    similarity: str | BlockSimilarity,
) -> EnhancedGraph:
    def repeated(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.repeat(values[position], len(pairs))

    similar: FloatArray = repeated(enhanced.similarity)
    mixed_in = (1 - enhanced.alpha) * (1 - enhanced.beta) > 0
    if mixed_in and not callable(similarity):
        from gelato.nn.similarity import pair_similarity

        found = pair_similarity(small.attributes, pairs, similarity=similarity)
        similar = np.maximum(found, 0.0)
    return replace(
        enhanced,
        num_nodes=small.num_nodes,
        pairs=pairs,
        base=repeated(enhanced.base),
        similarity=similar,
        is_edge=repeated(enhanced.is_edge),
        is_similar=repeated(enhanced.is_similar),
        similar=None,
    )


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
    enhancer = source if isinstance(source, Enhancer) else None
    enhanced = None if enhancer is None else enhancer.enhanced(graph)
    steps = np.array(order, dtype=np.int64).reshape(-1, 2)
    facts = _EdgeFacts(enhancer, graph, enhanced, steps)
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
        self,
        enhancer: Enhancer | None,
        graph: Graph,
        enhanced: EnhancedGraph | None,
        steps: IntArray,
    ) -> None:
        self._enhancer, self._graph, self._enhanced = enhancer, graph, enhanced
        self._steps, n = steps, graph.num_nodes
        self._at_edge = find_pairs(graph.edges, steps, n)
        self._at_pair = None
        if enhanced is not None:
            self._at_pair = find_pairs(enhanced.pairs, steps, n)
        self._similarity = None
        if graph.num_attributes:
            from gelato.nn.similarity import pair_similarity

            self._similarity = pair_similarity(graph.attributes, steps)
        self._explains = enhanced is not None and enhanced.has_attributes
        self.notes: list[str] = []
        own = enhancer is not None and enhancer.pair_model is not None
        if self._explains and own:
            self._explains = False
            self.notes.append(
                "attributes are not looked into: the pair model is not the MLP"
            )
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
        graph, enhanced, enhancer = self._graph, self._enhanced, self._enhancer
        assert enhanced is not None
        assert enhancer is not None
        attributes, effects = attribute_effects(
            graph,
            enhanced,
            place,
            enhancer.weights,
            similarity=enhancer.similarity,
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
    dense = rows.toarray() if sp.issparse(rows) else rows
    return np.asarray(dense, dtype=np.float64)


def attribute_name(graph: Graph, attribute: int) -> str:
    """Return the name of an attribute, or its number where there are no names."""
    names = graph.attribute_names
    return f"attribute {attribute}" if names is None else str(names[attribute])
