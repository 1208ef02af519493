"""Measures of the lists of single nodes, averaged over nodes.

Ties are treated as in :mod:`gelato.ranking.metrics`: what counts places among the k
best (recall, precision, VCMPR, NDCG) is the expectation under a random order of equals,
a hit is strict, average precision groups equal scores, and a reciprocal rank is that of
the node's best positive, ``1 + above + tied / 2``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gelato.graph import FloatArray, Graph, IntArray
from gelato.ranking.best import best_per_node
from gelato.ranking.candidates import Candidates
from gelato.ranking.node_ranks import NodeRanks, within
from gelato.ranking.places import (
    DISTANCES,
    bucket_name,
    degree_bucket_edges,
    hop_distances,
    neighbour_counts,
)
from gelato.ranking.scorers import RowScorer

KS = (1, 5, 10, 50)
"""Lengths of lists that are looked at."""


def node_measures(ranks: NodeRanks) -> dict[str, FloatArray]:
    """Return every measure by name, one value per node with positives.

    ``recall@k``, ``precision@k``, ``vcmpr@k`` (the larger of the two, vertex by
    vertex), ``ndcg@k``, ``hits@k`` (whether one of the k best is a positive), ``map``
    and ``mrr``.
    """
    first = _firsts(ranks)

    def per_node(values: Any) -> FloatArray:
        return np.add.reduceat(values, first).astype(np.float64)

    total = per_node(ranks.positives)
    found = within(ranks.nodes, ranks.positives)
    precision = found / (found + ranks.above + ranks.tied)
    found_measures = {
        "map": per_node(precision * ranks.positives) / total,
        "mrr": 1.0 / (1.0 + ranks.above + ranks.tied / 2.0)[first],
    }
    for k in KS:
        among = per_node(_share(ranks, k) * ranks.positives)
        recall, exact = among / total, among / k
        found_measures |= {
            f"recall@{k}": recall,
            f"precision@{k}": exact,
            f"vcmpr@{k}": np.maximum(recall, exact),
            f"ndcg@{k}": per_node(_gains(ranks, k)) / _ideal(total, k),
            f"hits@{k}": ((ranks.above + ranks.tied)[first] < k).astype(np.float64),
        }
    return found_measures


def _firsts(ranks: NodeRanks) -> IntArray:
    """Return where the positives of each node begin."""
    return np.flatnonzero(np.r_[True, np.diff(ranks.nodes) != 0])


def _share(ranks: NodeRanks, k: int) -> FloatArray:
    """Return which share of each group of equals to expect among the k best."""
    size = ranks.tied + ranks.positives
    share: FloatArray = np.clip((k - ranks.before) / size, 0.0, 1.0)
    return share


def _discounts(k: int) -> FloatArray:
    """Return the summed discounts of the first 0, 1, ..., k places."""
    places = np.arange(1, k + 1)
    return np.concatenate([[0.0], np.cumsum(1.0 / np.log2(places + 1.0))])


def _gains(ranks: NodeRanks, k: int) -> FloatArray:
    before, size = ranks.before, ranks.tied + ranks.positives
    summed = _discounts(k)
    held = summed[np.minimum(before + size, k)] - summed[np.minimum(before, k)]
    gains: FloatArray = held * ranks.positives / size
    return gains


def _ideal(total: FloatArray, k: int) -> FloatArray:
    return _discounts(k)[np.minimum(total.astype(np.int64), k)]


def summarise_nodes(
    ranks: NodeRanks, graph: Graph, positives: IntArray
) -> dict[str, Any]:
    """Return means over nodes, by degree of the node, and by distance of the edge.

    Parameters
    ----------
    ranks : NodeRanks
        Of the positives.
    graph : Graph
        The known edges.
    positives : (p, 2) int64
        What was ranked.
    """
    measures = node_measures(ranks)
    degrees = neighbour_counts(graph)[ranks.nodes[_firsts(ranks)]]
    # Nodes by degree: a bucket is a slice of all measures.
    order = np.argsort(degrees, kind="stable")
    sorted_degrees = degrees[order]
    table = np.stack(list(measures.values()))
    by_degree = np.take(table, order, axis=1)
    buckets = []
    for low, high in degree_bucket_edges(int(degrees.max(initial=0))):
        first, last = np.searchsorted(sorted_degrees, [low, high + 1])
        if first < last:
            named = {"degree": bucket_name(low, high), "nodes": int(last - first)}
            buckets.append(named | _means(measures, by_degree[:, first:last]))
    return {
        "nodes": len(degrees),
        **_means(measures, table),
        "by_degree": buckets,
        "by_distance": _by_distance(ranks, hop_distances(graph, positives)),
    }


def _means(names: Iterable[str], table: FloatArray) -> dict[str, float]:
    return dict(zip(names, table.mean(axis=1).tolist(), strict=True))


def _by_distance(ranks: NodeRanks, distance: IntArray) -> list[dict[str, Any]]:
    """Return recall@k and the mean reciprocal rank of edges, by distance.

    An edge stands in the lists of both ends: both count.
    """
    which, place = ranks.entries.T
    steps_of = distance[which]
    measures = {f"recall@{k}": _share(ranks, k) for k in KS}
    measures["mrr"] = 1.0 / (1.0 + ranks.above + ranks.tied / 2.0)
    table = np.stack(list(measures.values()))
    found: list[dict[str, Any]] = []
    for steps, name in DISTANCES.items():
        inside = np.flatnonzero(steps_of == steps)
        if len(inside):
            edges = int(np.count_nonzero(np.bincount(which[inside])))
            means = _means(measures, table[:, place[inside]])
            found.append({"distance": name, "edges": edges, **means})
    return found


def list_degrees(
    scorer: RowScorer,
    rule: Candidates,
    graph: Graph,
    positives: IntArray,
    k: int = 10,
) -> dict[str, Any]:
    """Return what lists of the k best do to degrees: one list per node with positives.

    Equal scores come in the order of the nodes, as in ``predict``. This is a pass of
    its own over the rows of these nodes.

    Returns
    -------
    dict
        ``mean_degree`` of the suggested nodes, and of all (``graph_mean_degree``);
        ``coverage``, the share of all nodes that are suggested to anybody; ``gini`` of
        how often each is: 0 where all are alike, 1 where one is all.
    """
    nodes = np.unique(positives[:, 0] if rule.directed else positives)
    lists = best_per_node(scorer, rule, nodes, k)
    suggested = np.concatenate([one.pairs[:, 1] for one in lists])
    degrees = neighbour_counts(graph)
    often = np.sort(np.bincount(suggested, minlength=graph.num_nodes))
    n = len(often)
    spread = float((2 * np.arange(1, n + 1) - n - 1) @ often)
    return {
        "k": k,
        "lists": len(nodes),
        "mean_degree": float(degrees[suggested].mean()) if len(suggested) else 0.0,
        "graph_mean_degree": float(degrees.mean()),
        "coverage": float(np.count_nonzero(often) / n),
        "gini": spread / (n * max(1.0, float(often.sum()))),
    }
