"""Where a model works: held-out edges that are found, by degree and by distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels.hops import hops_within_three
from gelato.predict.links import count_common_neighbours
from gelato.ranking import score_pairs
from gelato.ranking.counts import RankCounts
from gelato.ranking.evaluate import Part
from gelato.ranking.scorers import RowScorer
from gelato.report.describe import bucket_name, degree_bucket_edges, neighbour_counts
from gelato.splits import EdgeSplit
from gelato.text import plain_id

_WORST = 10


def where_it_works(
    scorer: RowScorer, counts: RankCounts, split: EdgeSplit, part: Part
) -> dict[str, Any]:
    """Return which held-out edges are among the k best, k being their number."""
    positives = split.positives(part)
    graph = split.train_graph
    scores = score_pairs(scorer, positives, graph.num_nodes)
    place = np.searchsorted(-counts.scores, -scores)
    found = _found_shares(counts)[place]
    lowest = neighbour_counts(graph)[positives].min(axis=1)
    distance = _distances(graph, positives)
    return {
        "k": len(positives),
        "by_degree": [
            _bucket(bucket_name(low, high), found, (lowest >= low) & (lowest <= high))
            for low, high in degree_bucket_edges(int(lowest.max()))
        ],
        "by_distance": [
            _bucket(name, found, distance == value)
            for name, value in (
                ("1 hop (the other direction)", 1),
                ("2 hops", 2),
                ("3 hops", 3),
                ("4 hops or more", 4),
                ("not connected", -1),
            )
            if value != 1 or graph.directed
        ],
        "worst": _worst(graph, positives, scores, counts, place, distance),
    }


def _found_shares(counts: RankCounts) -> FloatArray:
    """Return how much of each tied group is among the k best, as prec@100% has it."""
    before = counts.above + np.cumsum(counts.positives) - counts.positives
    group = counts.tied + counts.positives
    shares: FloatArray = np.clip((counts.num_positives - before) / group, 0.0, 1.0)
    return shares


def _bucket(name: str, found: FloatArray, inside: Any) -> dict[str, Any]:
    size = int(np.count_nonzero(inside))
    recall = float(found[inside].mean()) if size else None
    return {"name": name, "edges": size, "recall": recall}


def _distances(graph: Graph, pairs: IntArray) -> IntArray:
    """Return steps between two nodes: up to 3, 4 for more, -1 where there is no way."""
    _, member = connected_components(graph.adjacency, directed=False)
    joined = member[pairs[:, 0]] == member[pairs[:, 1]]
    order = np.argsort(pairs[:, 0], kind="stable")
    found = np.where(joined, 4, -1)[order]
    ahead, back = graph.adjacency, sp.csr_array(graph.adjacency.T)
    hops_within_three(
        pairs[order],
        (ahead.indptr, ahead.indices),
        (back.indptr, back.indices),
        found,
    )
    distance = np.empty_like(found)
    distance[order] = found
    return distance


def _worst(
    graph: Graph,
    positives: IntArray,
    scores: FloatArray,
    counts: RankCounts,
    place: IntArray,
    distance: IntArray,
) -> list[dict[str, Any]]:
    """Return the held-out edges that stand behind the most non-edges."""
    behind = counts.above[place] + counts.tied[place] / 2
    order = np.argsort(-behind, kind="stable")[:_WORST]
    common = count_common_neighbours(graph, positives[order])
    names = {-1: "not connected", 4: "4 hops or more"}
    return [
        {
            "source": plain_id(graph.node_ids[positives[at, 0]]),
            "target": plain_id(graph.node_ids[positives[at, 1]]),
            "score": float(scores[at]),
            "behind": float(behind[at]),
            "common_neighbours": int(common[i]),
            "source_degree": float(graph.degrees[positives[at, 0]]),
            "target_degree": float(graph.degrees[positives[at, 1]]),
            "distance": names.get(int(distance[at]), f"{distance[at]} hops"),
        }
        for i, at in enumerate(order.tolist())
    ]
