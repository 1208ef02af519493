"""Ids and numbers as plain data: what JSON can hold, and nothing that breaks it."""

from __future__ import annotations

import math
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
from gelato.splits import EdgeSplit


def plain_id(value: Any) -> str | int:
    """Return a node id as JSON has it: whole numbers and texts stay what they are."""
    item = value.item() if isinstance(value, np.generic) else value
    if isinstance(item, str):
        # Lone surrogates cannot be written in any encoding.
        return item.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    return str(item)


def plain(value: Any) -> Any:
    """Return nested data without numpy's types, tuples and numbers that are not."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return plain_id(value)


def describe_graph(graph: Graph) -> dict[str, Any]:
    """Return sizes, components, degrees, attribute coverage and notes."""
    neighbours = _neighbour_counts(graph)
    parts, member = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(member, minlength=1)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "directed": graph.directed,
        "weighted": graph.is_weighted,
        "pairs": graph.num_pairs,
        "density": graph.num_edges / max(graph.num_pairs, 1),
        "isolated": int(np.count_nonzero(neighbours == 0)),
        "components": int(parts),
        "largest_component": int(sizes.max()),
        "degree": {
            "median": float(np.median(neighbours)) if len(neighbours) else 0.0,
            "mean": float(neighbours.mean()) if len(neighbours) else 0.0,
            "max": int(neighbours.max(initial=0)),
        },
        "degree_counts": _degree_counts(neighbours),
        "attributes": _describe_attributes(graph),
        "notes": list(graph.notes),
    }


def describe_split(split: EdgeSplit) -> dict[str, Any]:
    """Return the sizes of a split and what identifies it."""
    return {
        "kind": split.kind,
        "seed": split.seed,
        "fingerprint": split.fingerprint,
        "train": len(split.train),
        "valid": len(split.valid),
        "test": len(split.test),
    }


def degree_bucket_edges(largest: int) -> list[tuple[int, int]]:
    """Return buckets 0, 1, 2, 3-4, 5-8, ... that reach up to the largest degree."""
    buckets = [(0, 0), (1, 1), (2, 2)]
    while buckets[-1][1] < largest:
        low = buckets[-1][1] + 1
        buckets.append((low, 2 * (low - 1)))
    return buckets


def bucket_name(low: int, high: int) -> str:
    """Return how a bucket of whole numbers is called."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _neighbour_counts(graph: Graph) -> IntArray:
    counts: IntArray = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)
    return counts


def _degree_counts(neighbours: IntArray) -> list[dict[str, Any]]:
    found = []
    for low, high in degree_bucket_edges(int(neighbours.max(initial=0))):
        inside = (neighbours >= low) & (neighbours <= high)
        count = int(np.count_nonzero(inside))
        found.append({"degree": bucket_name(low, high), "nodes": count})
    return found


def _describe_attributes(graph: Graph) -> dict[str, Any]:
    if graph.attributes is None or graph.num_attributes == 0:
        return {"count": 0, "nodes_with": 0, "filled": 0.0, "unused": 0}
    matrix = sp.csr_array(graph.attributes)
    matrix.eliminate_zeros()
    rows = np.diff(matrix.indptr)
    columns = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return {
        "count": graph.num_attributes,
        "nodes_with": int(np.count_nonzero(rows)),
        "filled": matrix.nnz / max(matrix.shape[0] * matrix.shape[1], 1),
        "unused": int(np.count_nonzero(columns == 0)),
    }


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
    neighbours = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)
    lowest = neighbours[positives].min(axis=1)
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
