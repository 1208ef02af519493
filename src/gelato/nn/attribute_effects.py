"""Which attributes moved the weight of a pair: each one left out in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from torch import Tensor

from gelato.graph import FloatArray, Graph, IntArray
from gelato.nn.enhancement import EnhancedGraph
from gelato.nn.similarity import BlockSimilarity, pair_similarity

Weigh = Callable[[Graph, EnhancedGraph], Tensor]
"""Weighs the pairs of an enhanced graph, as models do."""

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
