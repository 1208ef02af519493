"""Small matrices of a few nodes: what goes into a model, and what comes out.

The paper's visual analysis for any graph: input adjacency, enhanced adjacency,
distance of attributes and scores, over the same nodes in the same order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from gelato.errors import UsageError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.nn.similarity import pair_similarity
from gelato.ranking.scorers import RowScorer
from gelato.text import plain_id

DEFAULT_NODES = 60
MOST_NODES = 100
# What a matrix holds, what it says, and whether ranks are coloured: where values crowd
# together, a colour by value would show one colour.
_ABOUT = {
    "input adjacency": ("weight", "the edges that the model was given", False),
    "enhanced adjacency": (
        "weight",
        "edges and similarity pairs, with the weights of the model",
        False,
    ),
    "attribute distance": (
        "1 - cosine, coloured by rank",
        "dark where two nodes have alike attributes",
        True,
    ),
    "scores": ("score, coloured by rank", "what the model ranks pairs by", True),
}

_ROW_CELLS = 2_000_000  # scores of whole rows held at once


def make_heat_maps(
    model: Any,
    scorer: RowScorer,
    graph: Graph,
    held_out: IntArray,
    nodes: Sequence[Hashable] | None = None,
) -> dict[str, Any] | None:
    """Return the matrices of some nodes.

    Parameters
    ----------
    model : model
        Its enhanced graph is shown where it has one.
    scorer : RowScorer
        Scores pairs when the edges of ``graph`` are known.
    graph : Graph
        The known edges.
    held_out : (k, 2) int64
        Edges that ``graph`` lacks, to be marked.
    nodes : sequence of ids, optional
        Default: the nodes of highest degree of the largest class, or component.
    """
    if graph.num_nodes < 2:
        return None
    chosen, how = _chosen(graph, nodes)
    enhanced = model.enhanced_adjacency(graph)
    joined = graph.adjacency if enhanced is None else enhanced
    chosen = chosen[_order(joined[chosen][:, chosen])]
    if graph.is_bipartite:  # one kind after the other
        of_first = np.isin(chosen, graph.side(0))
        chosen = np.concatenate([chosen[of_first], chosen[~of_first]])
    inside = np.full(graph.num_nodes, -1)
    inside[chosen] = np.arange(len(chosen))
    marked = inside[held_out]
    marked = marked[(marked >= 0).all(axis=1)]
    maps = [_map("input adjacency", _part(graph.adjacency, chosen))]
    if enhanced is not None:
        maps.append(_map("enhanced adjacency", _part(enhanced, chosen)))
    if graph.num_attributes:
        maps.append(_map("attribute distance", _attribute_distance(graph, chosen)))
    maps.append(_map("scores", _scores(scorer, chosen, graph.num_nodes)))
    return {
        "how": how,
        "nodes": [plain_id(node) for node in graph.node_ids[chosen].tolist()],
        "held_out": marked.tolist(),
        "maps": maps,
    }


def _scores(scorer: RowScorer, chosen: IntArray, num_nodes: int) -> FloatArray:
    """Return the scores among some nodes; of whole rows only a few at a time."""
    at_once = max(1, _ROW_CELLS // num_nodes)
    starts = range(0, len(chosen), at_once)
    parts = [scorer.score_rows(chosen[i : i + at_once])[:, chosen] for i in starts]
    return np.concatenate(parts)


def _map(name: str, values: FloatArray) -> dict[str, Any]:
    """Return a matrix with what it shows, in three digits: nobody sees more."""
    unit, says, ranked = _ABOUT[name]
    rounded = [[float(f"{value:.3g}") for value in row] for row in values.tolist()]
    return {
        "name": name,
        "unit": unit,
        "says": says,
        "ranked": ranked,
        "values": rounded,
    }


def _chosen(graph: Graph, nodes: Sequence[Hashable] | None) -> tuple[IntArray, str]:
    if nodes is not None:
        found = np.unique(graph.indices_of(nodes))
        if not 2 <= len(found) <= MOST_NODES:
            raise UsageError(
                f"A heat map shows 2 to {MOST_NODES} nodes, and {len(found)} were "
                "named.",
                hint="Name some of them.",
            )
        return found, f"the {len(found)} nodes asked for"
    _, member = connected_components(graph.adjacency, directed=False)
    groups, noun = member, "component"
    if graph.labels is not None and graph.labels.min(initial=0) >= 0:
        groups, noun = graph.labels, "class"
    largest = np.flatnonzero(groups == np.bincount(groups).argmax())
    if len(largest) < 2:
        largest = np.arange(graph.num_nodes)
        noun = "graph"
    count = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)[largest]
    if graph.is_bipartite:
        # Of either kind as many: nodes of one kind alone have no edge among them.
        halves = []
        for side in (0, 1):
            own = np.isin(largest, graph.side(side))
            order = np.argsort(-count[own], kind="stable")[: DEFAULT_NODES // 2]
            halves.append(largest[own][order])
        if all(map(len, halves)):
            best, kinds = np.concatenate(halves), " of each kind"
            sizes = " and ".join(f"{len(half)}" for half in halves)
            return best, f"the {sizes} nodes of highest degree{kinds}"
    best = largest[np.argsort(-count, kind="stable")[:DEFAULT_NODES]]
    whole = "the graph" if noun == "graph" else f"the largest {noun}"
    return np.sort(best), f"the {len(best)} nodes of highest degree in {whole}"


def _order(matrix: sp.csr_array) -> IntArray:
    """Return an order that puts joined nodes side by side."""
    # scipy writes into the index arrays' type that it expects: 32 bits.
    plain = sp.csr_matrix(matrix)
    order = reverse_cuthill_mckee(plain, symmetric_mode=False)
    return np.asarray(order, dtype=np.int64)


def _part(matrix: sp.csr_array, chosen: IntArray) -> FloatArray:
    dense: FloatArray = matrix[chosen][:, chosen].toarray()
    return dense


def _attribute_distance(graph: Graph, chosen: IntArray) -> FloatArray:
    k = len(chosen)
    u, v = np.triu_indices(k, 1)
    similar = pair_similarity(
        graph.attributes, np.stack([chosen[u], chosen[v]], axis=1)
    )
    distance = np.zeros((k, k))
    distance[u, v] = distance[v, u] = 1 - similar
    return distance
