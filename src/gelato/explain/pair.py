"""The walks behind a score, best first, without listing them all.

The score of a pair is a sum over walks u - k - l - v of products of weights. Sums over
all walks through a node are two vectors pushed along the edges, from u and back from
v. Single walks come out best first from a search that knows, for every node, the best
way it could still go on; so the strongest few cost about as much as their neighbours,
however many millions of walks there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.explain.explanation import Explanation, MiddleNode, SharedAttribute, Walk
from gelato.explain.steps import attribute_name, attribute_rows, walk_edges
from gelato.graph import FloatArray, Graph, IntArray, canonical_pairs, find_pairs
from gelato.heuristics.linear import RidgeWalk
from gelato.heuristics.similar import DenseCosineScorer, SharedAttributeScorer
from gelato.predict.links import count_common_neighbours
from gelato.ranking import score_pairs
from gelato.ranking.scorers import (
    RowScorer,
    SumScorer,
    SumsWalks,
    WalkScorer,
    as_scorer,
)

_ROUNDING = 1e-9  # of a score: less is no rest


@dataclass(frozen=True, eq=False)
class WalkSums:
    """All walks of one pair, summed.

    Parameters
    ----------
    total : float
        What all walks together contribute to the score.
    count : int
        How many walks there are (that contribute at all).
    through : tuple of (n,) float64
        For each inner place of a walk, 1 to t - 1, what the walks contribute that have
        each node at that place. Every place sums to ``total``.
    """

    total: float
    count: int
    through: tuple[FloatArray, ...]


def sum_walks(scorer: WalkScorer, u: int, v: int) -> WalkSums:
    """Return what the walks from u to v contribute, in all and through each node."""
    matrix, factor, steps = scorer.adjacency, scorer.factor, scorer.steps
    ahead = _pushed(matrix.T, factor, u, steps)
    back = _pushed(matrix, factor, v, steps)
    through = tuple(
        scorer.multiplier * ahead[place] * factor * back[steps - place]
        for place in range(1, steps)
    )
    pattern = sp.csr_array(
        (np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    count = _pushed(pattern.T, (factor > 0).astype(np.float64), u, steps)[steps][v]
    total = scorer.multiplier * float(ahead[steps][v])
    return WalkSums(total, round(float(count)), through)


def total_without_pair(scorer: WalkScorer, u: int, v: int, *, directed: bool) -> float:
    """Return what the walks contribute that never step along the pair itself."""
    matrix = scorer.adjacency.copy()
    for a, b in ((u, v),) if directed else ((u, v), (v, u)):
        start, stop = matrix.indptr[a], matrix.indptr[a + 1]
        row = matrix.data[start:stop]
        row[matrix.indices[start:stop] == b] = 0.0
    ahead = _pushed(matrix.T, scorer.factor, u, scorer.steps)
    return scorer.multiplier * float(ahead[scorer.steps][v])


def strongest_walks(
    scorer: WalkScorer, u: int, v: int, top: int
) -> list[tuple[tuple[int, ...], float]]:
    """Return the ``top`` walks that contribute most: their nodes, and how much.

    Parameters
    ----------
    scorer : WalkScorer
        With a positive multiplier and at least one step.
    u, v : int
        Where walks start and end.
    top : int
        How many walks are wanted.
    """
    matrix, factor, steps = scorer.adjacency, scorer.factor, scorer.steps
    bounds = _best_ahead(matrix, factor, v, steps)
    found: list[tuple[tuple[int, ...], float]] = []
    # Entries: the best that a walk can come to, its nodes so far, its weight so far.
    heap: list[tuple[float, tuple[int, ...], float]] = []
    if bounds[steps][u] > 0:
        heap.append((-float(bounds[steps][u]), (u,), 1.0))
    while heap and len(found) < top:
        _, walk, weight = heapq.heappop(heap)
        left = steps - len(walk) + 1
        if left == 0:
            found.append((walk, scorer.multiplier * weight))
            continue
        start, stop = matrix.indptr[walk[-1]], matrix.indptr[walk[-1] + 1]
        nodes = matrix.indices[start:stop]
        weights = weight * matrix.data[start:stop]
        if left > 1:
            weights = weights * factor[nodes]
        reach = weights * bounds[left - 1][nodes]
        for slot in np.flatnonzero(reach > 0).tolist():
            following = (*walk, int(nodes[slot]))
            heapq.heappush(heap, (-float(reach[slot]), following, float(weights[slot])))
    return sorted(found, key=lambda walk: (-walk[1], walk[0]))


def _pushed(matrix: Any, factor: FloatArray, node: int, steps: int) -> list[FloatArray]:
    """Return e, M e, M F M e, ...: sums over the walks of each length from a node."""
    vector = np.zeros(matrix.shape[0])
    vector[node] = 1.0
    sums = [vector]
    for step in range(steps):
        sums.append(matrix @ (sums[-1] if step == 0 else factor * sums[-1]))
    return sums


def _best_ahead(
    matrix: sp.csr_array, factor: FloatArray, v: int, steps: int
) -> list[FloatArray]:
    """Return, by number of steps left, the largest weight of a walk on to v."""
    bound = np.zeros(matrix.shape[0])
    bound[v] = 1.0
    bounds = [bound]
    filled = np.flatnonzero(np.diff(matrix.indptr))
    starts = matrix.indptr[filled]
    for step in range(steps):
        ahead = bounds[-1] if step == 0 else factor * bounds[-1]
        bound = np.zeros(matrix.shape[0])
        if len(filled):
            values = matrix.data * ahead[matrix.indices]
            bound[filled] = np.maximum.reduceat(values, starts)
        bounds.append(bound)
    return bounds


@dataclass(frozen=True)
class _Part:
    """One sum of walks in a score, times a coefficient."""

    name: str
    coefficient: float
    scorer: WalkScorer


def explain_pair(
    source: Any,
    graph: Graph,
    u: Hashable,
    v: Hashable,
    *,
    top: int = 10,
    top_edges: int = 6,
    top_attributes: int = 5,
) -> Explanation:
    """Take the score of a pair apart, exactly.

    A score that counts walks is the sum of its walks and of a closed-form term for
    chance; a cosine is the sum over shared attributes. Where weights of edges were
    learned, each attribute of an edge is left out in turn to see what it does.

    Parameters
    ----------
    source : model or scorer
        What scores pairs; a model scores from all edges of ``graph``.
    graph : Graph
        The known edges.
    u, v : node ids
        In the user's own ids; a near one is suggested where there is no such node.
    top : int
        How many walks, and middle nodes for each place, to list.
    top_edges : int
        For how many edges of these walks to look into attributes.
    top_attributes : int
        How many attributes to list for each of them, and for the pair.

    Examples
    --------
    >>> from gelato.heuristics import common_neighbours
    >>> square = Graph.from_indices(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    >>> why = explain_pair(common_neighbours(square), square, 0, 2)
    >>> why.score, [walk.nodes for walk in why.walks]
    (2.0, [(0, 1, 2), (0, 3, 2)])
    """
    if min(top, top_edges, top_attributes) < 0 or top < 1:
        raise UsageError(f"The number of walks to list is {top}; ask for at least 1.")
    pair = np.array([graph.index_of(u), graph.index_of(v)], dtype=np.int64)
    if pair[0] == pair[1]:
        raise InputError(
            f"{u!r} cannot be explained as a link to itself.",
            hint="Give two different nodes.",
        )
    scorer = as_scorer(source, graph)
    about = _about(scorer, graph, pair, top_attributes)
    parts, constant = _walk_parts(scorer, *pair.tolist())
    if parts:
        return _explain_walks(
            source,
            graph,
            pair,
            parts,
            constant,
            (top, top_edges, top_attributes),
            about,
        )
    if isinstance(scorer, RidgeWalk):
        return _explain_ridge(scorer, graph, pair, about, top)
    if isinstance(scorer, SharedAttributeScorer | DenseCosineScorer):
        return Explanation(**about, kind="attributes")
    if isinstance(scorer, WalkScorer):  # without a step: degrees only
        note = "the score only follows from the degrees of both nodes: no walks"
        return Explanation(
            **about, kind="closed form", chance=about["score"], notes=(note,)
        )
    note = "this model gives no walks: its score cannot be taken apart"
    return Explanation(**about, kind="score only", notes=(note,))


def _explain_ridge(
    scorer: RidgeWalk, graph: Graph, pair: IntArray, about: dict[str, Any], top: int
) -> Explanation:
    """Tell a ridge walk as the exact sum over the neighbours of both nodes.

    A walk ``u - k - v`` is what the link of ``u`` and ``k`` says about ``v``, or that
    of ``v`` and ``k`` about ``u``; it may speak against the link.
    """
    terms = scorer.terms(*pair.tolist())
    terms.sort(key=lambda term: -abs(term[2]))
    total = sum(amount for *_, amount in terms)
    kept = terms[:top]
    u, v = about["source"], about["target"]
    ids = graph.node_ids
    return Explanation(
        **about,
        kind="walks",
        walks=tuple(
            Walk((u, ids[k : k + 1].tolist()[0], v), amount, False)
            for k, _, amount in kept
        ),
        steps=2,
        num_walks=len(terms),
        walk_score=total,
        covered=sum(amount for *_, amount in kept) / total if total else 0.0,
        chance=about["score"] - total,
    )


def _about(
    scorer: RowScorer, graph: Graph, pair: IntArray, top_attributes: int
) -> dict[str, Any]:
    """Return what can be said about any pair."""
    both = pair[None, :]
    ids = graph.node_ids[pair].tolist()
    canonical = canonical_pairs(both, directed=graph.directed)
    about = {
        "source": ids[0],
        "target": ids[1],
        "score": float(score_pairs(scorer, both, graph.num_nodes)[0]),
        "known_edges": graph.num_edges,
        "known": bool(find_pairs(graph.edges, canonical, graph.num_nodes)[0] >= 0),
        "common_neighbours": int(count_common_neighbours(graph, both)[0]),
        "source_degree": float(graph.degrees[pair[0]]),
        "target_degree": float(graph.degrees[pair[1]]),
    }
    if graph.num_attributes:
        about |= _shared_attributes(graph, pair, top_attributes)
    return about


def _shared_attributes(graph: Graph, pair: IntArray, top: int) -> dict[str, Any]:
    x, y = attribute_rows(graph, pair)
    norm = np.sqrt(float(x @ x) * float(y @ y))
    terms = x * y / norm if norm > 0 else np.zeros(len(x))
    order = np.argsort(-np.abs(terms), kind="stable")[:top]
    listed = [a for a in order.tolist() if terms[a] != 0]
    shared = tuple(
        SharedAttribute(
            attribute_name(graph, a), float(x[a]), float(y[a]), float(terms[a])
        )
        for a in listed
    )
    total = float(terms.sum())
    rest = 0.0
    if len(listed) < np.count_nonzero(terms):
        rest = total - sum(part.contribution for part in shared)
    return {"similarity": total, "shared": shared, "shared_rest": rest}


def _walk_parts(scorer: Any, u: int, v: int) -> tuple[list[_Part], float]:
    """Return the sums of walks that a score consists of, and a constant."""
    if isinstance(scorer, SumsWalks):
        return [_Part(*part) for part in scorer.walk_parts(u, v)], 0.0
    if isinstance(scorer, WalkScorer):
        return ([_Part("", 1.0, scorer)] if scorer.steps else []), 0.0
    if not isinstance(scorer, SumScorer):
        return [], 0.0
    inner = [part for part in scorer.scorers if isinstance(part, WalkScorer)]
    if len(inner) < len(scorer.scorers):
        return [], 0.0
    parts = [
        _Part(name, float(coefficient), part)
        for name, coefficient, part in zip(
            scorer.names, scorer.coefficients, inner, strict=True
        )
    ]
    return parts, -float(scorer.constant)


def _explain_walks(
    source: Any,
    graph: Graph,
    pair: IntArray,
    parts: list[_Part],
    constant: float,
    tops: tuple[int, int, int],
    about: dict[str, Any],
) -> Explanation:
    u, v = pair.tolist()
    ids = graph.node_ids.tolist()
    sums = [sum_walks(part.scorer, u, v) for part in parts]
    listed = _strongest(parts, u, v, tops[0])
    walk_score = sum(p.coefficient * s.total for p, s in zip(parts, sums, strict=True))
    far = sum(p.coefficient * float(p.scorer.far.at(u, v)) for p in parts)
    covered = sum(contribution for _, _, contribution in listed)
    rest = about["score"] - walk_score - far - constant
    size = max(abs(about["score"]), abs(walk_score))
    along = sum(
        p.coefficient
        * (s.total - total_without_pair(p.scorer, u, v, directed=graph.directed))
        for p, s in zip(parts, sums, strict=True)
        if p.scorer.adjacency[u, v] or p.scorer.adjacency[v, u]
    )
    steps = [(part.scorer, nodes, value) for part, nodes, value in listed]
    edges, notes = walk_edges(source, graph, steps, tops[1], tops[2])
    return Explanation(
        **about,
        kind="walks",
        walks=tuple(
            Walk(
                tuple(ids[node] for node in nodes),
                contribution,
                _steps_along(nodes, u, v, graph.directed),
                part.name,
            )
            for part, nodes, contribution in listed
        ),
        steps=max(part.scorer.steps for part in parts),
        num_walks=sum(s.count for s in sums),
        walk_score=walk_score,
        covered=covered / walk_score if walk_score else 0.0,
        through_pair=float(along),
        chance=far + constant,
        longer=rest if abs(rest) > _ROUNDING * size else 0.0,
        middle=_middle(parts, sums, ids, tops[0]),
        edges=edges,
        notes=(*_walk_notes(about["known"], sums, constant), *notes),
    )


def _strongest(
    parts: list[_Part], u: int, v: int, top: int
) -> list[tuple[_Part, tuple[int, ...], float]]:
    found = [
        (part, nodes, part.coefficient * contribution)
        for part in parts
        if part.coefficient
        for nodes, contribution in strongest_walks(part.scorer, u, v, top)
    ]
    found.sort(key=lambda walk: -abs(walk[2]))  # stable: parts and nodes in order
    return found[:top]


def _steps_along(nodes: tuple[int, ...], u: int, v: int, directed: bool) -> bool:
    wanted = [(u, v)] if directed else [(u, v), (v, u)]
    return any(step in wanted for step in pairwise(nodes))


def _middle(
    parts: list[_Part], sums: list[WalkSums], ids: list[Hashable], top: int
) -> tuple[MiddleNode, ...]:
    """Return the nodes that matter most at each inner place."""
    places = max(len(s.through) for s in sums)
    found = []
    for place in range(places):
        total: FloatArray = np.zeros(len(ids))
        for part, s in zip(parts, sums, strict=True):
            if place < len(s.through):
                total += part.coefficient * s.through[place]
        order = np.argsort(-np.abs(total), kind="stable")[:top]
        found += [
            MiddleNode(ids[node], place + 1, float(total[node]))
            for node in order.tolist()
            if total[node] != 0
        ]
    return tuple(found)


def _walk_notes(known: bool, sums: list[WalkSums], constant: float) -> list[str]:
    notes = []
    if known:
        notes.append(
            "the pair is an edge already: walks that step along it would be missing if "
            "it were not known"
        )
    if not any(s.count for s in sums):
        notes.append("no walk joins the two nodes: the score is what chance gives")
    if constant:
        notes.append(
            "several heuristics are combined, so that contributions can be negative; "
            "the chance term holds the mean that was taken off"
        )
    return notes
