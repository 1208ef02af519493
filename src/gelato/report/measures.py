"""How well a run ranks: methods side by side, curves, scores, cut-offs, and where."""

from __future__ import annotations

from typing import Any

import numpy as np

from gelato.graph import FloatArray, Graph, IntArray, find_pairs
from gelato.models.registry import facts_of, make
from gelato.predict.links import count_common_neighbours
from gelato.predict.precision import (
    MISSING_SHARE,
    PrecisionCurve,
    Scope,
    Validation,
    expected_curve,
    missing_links,
    pooled,
)
from gelato.ranking import Evaluation, evaluate, metrics, score_pairs
from gelato.ranking.candidates import all_pairs
from gelato.ranking.counts import RankCounts
from gelato.ranking.evaluate import Part
from gelato.ranking.places import (
    DISTANCES,
    bucket_name,
    degree_bucket_edges,
    hop_distances,
    neighbour_counts,
)
from gelato.ranking.resampling import locate_positives, margin, paired_gain
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit
from gelato.text import plain_id

HEURISTICS = ("cn", "aa", "ra", "pa", "ac", "ease", "cos")
# Beyond this an inverse takes half a minute, a cosine of every two nodes minutes.
_MOST_NODES = {"ease": 10_000, "cos": 20_000}
_POINTS = 60
# Scores held at once for the histogram; more nodes are sampled down to it.
_HISTOGRAM_CELLS = 12_000_000
_BINS = 36
_WORST = 10  # held-out edges that are listed
_PRECISIONS = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01)


def rank_methods(
    model: Any, split: EdgeSplit, part: Part
) -> tuple[dict[str, Evaluation], Evaluation, list[str]]:
    """Evaluate a run's model and every plain heuristic that suits the graph.

    Returns
    -------
    dict of Evaluation
        By name, the run's model first, over all pairs.
    Evaluation
        The run's model under the biased protocol.
    list of str
        Why heuristics were left out.
    """
    exact = {model.name: evaluate(model, split, part=part)}
    biased = evaluate(model, split, part=part, protocol="sampled")
    notes = []
    for name in HEURISTICS:
        if name in exact:
            continue
        reason = _unsuited(name, split.graph)
        if reason:
            notes.append(f"{name} is left out: {reason}")
            continue
        fitted = make(name).fit(split)
        exact[name] = evaluate(fitted, split, part=part)
    return exact, biased, notes


def _unsuited(name: str, graph: Graph) -> str:
    if graph.directed and facts_of(name).undirected_only:
        return "it is defined for undirected graphs only"
    if name == "cos" and graph.num_attributes == 0:
        return "the graph has no attributes"
    most = _MOST_NODES.get(name, graph.num_nodes)
    if graph.num_nodes > most:
        return f"it takes long beyond {most:,} nodes"
    return ""


def gain_over(
    model: Any, other: str, exact: dict[str, Evaluation], split: EdgeSplit, part: Part
) -> dict[str, float]:
    """Return by how much a model's average precision exceeds a heuristic's.

    Returns
    -------
    dict
        ``gain``, its bootstrap standard ``error`` over the held-out edges, and the
        ``margin`` of its 95 % interval (null where a single edge is held out).
    """
    positives, graph = split.positives(part), split.train_graph
    placed = [
        locate_positives(
            exact[one.name].counts,
            score_pairs(one.scorer(graph), positives, graph.num_nodes),
        )
        for one in (model, make(other).fit(split))
    ]
    gain, error = paired_gain(*placed)
    width = margin(error, len(positives))
    return {"gain": gain, "error": error, "margin": width}


def ranking_row(name: str, result: Evaluation, fit_seconds: float) -> dict[str, Any]:
    """Return one row of the ranking table."""
    return {
        "model": name,
        "protocol": result.protocol,
        "biased": result.biased,
        "ap": result.ap,
        "prec@100%": result.precision_at(1.0),
        "hits@100": result.hits_at(100),
        "auc": result.auc,
        "random_ap": result.random_ap,
        "seconds": fit_seconds + result.seconds,
    }


def make_curves(results: dict[str, Evaluation], *, most: int) -> dict[str, Any]:
    """Return precision and hits at k, and precision by recall, for some methods."""
    # Below ten pairs a curve only shows where the first hit happens to stand.
    first = 10 if most >= 100 else 1
    ks = np.unique(np.geomspace(first, max(most, 2), _POINTS).astype(int)).tolist()
    recalls = np.linspace(0.01, 1, 100)
    return {
        "k": ks,
        "recall": [round(float(value), 2) for value in recalls],
        "methods": [
            {
                "name": name,
                "precision": [metrics.precision_at(result.counts, k) for k in ks],
                "hits": [metrics.hits_at(result.counts, k) for k in ks],
                "precision_by_recall": _by_recall(result.counts, recalls),
            }
            for name, result in results.items()
        ],
    }


def _by_recall(counts: RankCounts, recalls: FloatArray) -> list[float]:
    precision, recall = metrics.precision_recall_curve(counts)
    place = np.searchsorted(recall, recalls - 1e-12)
    values: list[float] = precision[np.minimum(place, len(precision) - 1)].tolist()
    return values


def score_histogram(scorer: RowScorer, split: EdgeSplit, part: Part) -> dict[str, Any]:
    """Return how scores of held-out edges and of non-edges are distributed.

    Bins are even in ``asinh(score / scale)``, linear near 0 and logarithmic beyond:
    walk scores span many powers of ten.
    """
    positives = split.positives(part)
    n = split.graph.num_nodes
    held_out = score_pairs(scorer, positives, n)
    others, sampled = _non_edge_scores(scorer, split, part)
    both = np.concatenate([held_out, others])
    sizes = np.abs(both[both != 0])
    scale = float(np.quantile(sizes, 0.5)) if len(sizes) else 1.0
    bounds = _bins(np.unique(np.arcsinh(both / scale)))
    counts = [
        np.histogram(np.arcsinh(scores / scale), bounds)[0].tolist()
        for scores in (held_out, others)
    ]
    return {
        "bounds": (np.sinh(bounds) * scale).tolist(),
        "held_out": counts[0],
        "non_edges": counts[1],
        "non_edges_counted": len(others),
        "sampled_nodes": sampled,
    }


def _bins(values: FloatArray) -> FloatArray:
    """Return even bins over sorted values; what lies below a wide gap is one bin.

    A model may set the pairs that it has looked at far above all others.
    """
    gaps = np.diff(values)
    at = int(np.argmax(gaps)) if len(gaps) else 0
    wide = len(gaps) > 0 and gaps[at] > (values[-1] - values[0]) / 2
    if wide and len(values) - at > _BINS:
        above = np.linspace(values[at + 1], values[-1], _BINS)
        bounds = np.concatenate([values[:1], above])
    else:
        bounds = np.linspace(values[0], values[-1], _BINS + 1)
    bounds[-1] += 1e-9 * (1 + abs(bounds[-1]))
    return bounds


def _non_edge_scores(
    scorer: RowScorer, split: EdgeSplit, part: Part
) -> tuple[FloatArray, int | None]:
    """Return scores of non-edges: all, or those of some random nodes."""
    graph = split.graph
    n = graph.num_nodes
    most = max(20, _HISTOGRAM_CELLS // max(n, 1))
    drawn = np.random.default_rng(0).permutation(n)[:most]
    rows = np.sort(drawn).astype(np.int64)
    chosen = np.zeros(n, dtype=bool)
    chosen[rows] = True
    rule = all_pairs(graph, np.concatenate([split.known(part), split.positives(part)]))
    found = []
    at_once = max(1, 2_000_000 // max(n, 1))
    for start in range(0, len(rows), at_once):
        block = rows[start : start + at_once]
        pairs = np.stack(
            [np.repeat(block, n), np.tile(np.arange(n), len(block))], axis=1
        )
        keep = pairs[:, 0] != pairs[:, 1]
        if not graph.directed:  # of two chosen nodes, count the pair once
            keep &= (pairs[:, 0] < pairs[:, 1]) | ~chosen[pairs[:, 1]]
            pairs = np.sort(pairs, axis=1)
        keep &= find_pairs(rule.excluded, pairs, n) < 0
        found.append(scorer.score_rows(block).ravel()[keep])
    return np.concatenate(found), (None if len(rows) == n else len(rows))


def expected_by_rank(model: Any, split: EdgeSplit) -> dict[str, Any] | None:
    """Return the precision to expect of the k best links, and where to cut.

    From validation ranks, as :func:`gelato.predict.precision.expect` does it.
    """
    if not len(split.valid):
        return None
    validation = Validation(model, split, model.validation_counts_)
    rule = all_pairs(split.graph, split.train)
    lists = validation.lists(split.valid, rule, Scope(split.valid[:0]))
    model.validation_counts_ = validation.counts  # the list of links asks for it again
    counts = pooled(lists)
    hidden = missing_links(split, len(split.valid))
    curve = expected_curve(counts, split)
    here = all_pairs(split.graph, split.graph.edges).count
    if here == 0:
        return None
    ks = np.unique(
        np.geomspace(1, min(here, max(1.0, 20 * hidden)), _POINTS).astype(int)
    )
    return {
        "k": ks.tolist(),
        "precision": curve.up_to(ks, here).tolist(),
        "validation_edges": counts.num_positives,
        "turns": len(lists),
        "missing_share": MISSING_SHARE,
        "cut_offs": _cut_offs(curve, here),
    }


def _cut_offs(curve: PrecisionCurve, candidates: int) -> list[dict[str, Any]]:
    """Return the longest list for each of some precisions, where there is one."""
    ks = np.unique(np.geomspace(1, candidates, 4000).astype(np.int64))
    expected = curve.up_to(ks, candidates)
    found: list[dict[str, Any]] = []
    for precision in _PRECISIONS:
        enough = np.flatnonzero(expected >= precision)
        if len(enough):
            k = int(ks[enough[-1]])
            if found and found[-1]["k"] == k:  # as long a list as for more precision
                continue
            at = float(expected[enough[-1]])
            found.append({"at_least": precision, "k": k, "expected_true": at * k})
    return found


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
    distance = hop_distances(graph, positives)
    return {
        "k": len(positives),
        "by_degree": [
            _bucket(bucket_name(low, high), found, (lowest >= low) & (lowest <= high))
            for low, high in degree_bucket_edges(int(lowest.max()))
        ],
        "by_distance": [
            _bucket(name, found, distance == value)
            for value, name in DISTANCES.items()
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
