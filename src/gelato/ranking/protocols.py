"""Negatives as the field draws them, for contrast: never all, and always labelled.

``sampled``
    As many random non-edges as positives, for all positives alike.
``degree-corrected``
    As many, both ends drawn by their degree (Aiyappa et al. 2024), so that degrees
    alone no longer tell positives from negatives.
``heart``
    For each positive (a, b) the hardest pairs (a, x) and (x, b), half each, by the best
    of three heuristics' ranks (after Li et al. 2023). MRR and hits are among the
    positive's own negatives.
``given``
    Lists from a file, as OGB has them: for all positives, or for each of them.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.graph import (
    FloatArray,
    Graph,
    IntArray,
    canonical_pairs,
    find_pairs,
    pair_keys,
)
from gelato.io.pair_files import read_negatives
from gelato.kernels.chunks import generator
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs, all_pairs
from gelato.ranking.counts import RankCounts, counts_of_scores
from gelato.ranking.pair_scores import score_pairs
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit

Protocol = Literal["all", "sampled", "degree-corrected", "heart", "given"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)
HARD = 500
"""Hard negatives of a positive."""
_DAMPING, _ROUNDS = 0.85, 40  # of the PageRank that finds hard negatives
_ROWS = 64  # nodes whose hard negatives are looked for at a time


@dataclass(frozen=True, eq=False)
class Negatives:
    """Negatives of all positives alike, or of each of its own.

    Parameters
    ----------
    pairs : (k, 2) int64
        Canonical.
    owners : (k,) int64, optional
        Whose: places among the positives.
    """

    pairs: IntArray
    owners: IntArray | None = None

    def counts(
        self, scorer: RowScorer, positives: IntArray, num_nodes: int
    ) -> tuple[RankCounts, RankCounts | None]:
        """Return counts among all negatives, and among each positive's own."""
        both = np.concatenate([positives, self.pairs])
        scores = score_pairs(scorer, both, num_nodes)
        true, false = scores[: len(positives)], scores[len(positives) :]
        pooled = counts_of_scores(true, false)
        if self.owners is None:
            return pooled, None
        mark = true[self.owners]
        size = len(positives)
        above = np.bincount(self.owners[false > mark], minlength=size)
        tied = np.bincount(self.owners[false == mark], minlength=size)
        most = int(np.bincount(self.owners, minlength=size).max())
        ones = np.ones(size, dtype=np.int64)
        return pooled, RankCounts(true, ones, above, tied, most)


def check_protocol(name: str, negatives: Any, *, restricted: bool) -> None:
    """Refuse a protocol that does not exist, or that lacks something."""
    if name not in PROTOCOLS:
        near = difflib.get_close_matches(str(name), PROTOCOLS, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"There is no protocol {name!r}.{meant}",
            hint=f"Protocols are: {', '.join(PROTOCOLS)}.",
        )
    if (name == "given") != (negatives is not None):
        raise UsageError(
            "The protocol given goes with negatives, and they with it.",
            hint="Name both the protocol and a file or table of negatives, or neither.",
        )
    if restricted and name not in ("all", "sampled"):
        raise UsageError(
            f"The protocol {name} has negatives of its own, and no candidate rule.",
            hint="Leave out the candidates, or take the protocol all.",
        )


def draw_negatives(
    protocol: str, split: EdgeSplit, part: Any, *, seed: int, given: Any = None
) -> Negatives:
    """Return the negatives of a protocol other than ``all``, on a part of a split."""
    positives, graph = split.positives(part), split.train_graph
    rule = all_pairs(split.graph, split.known(part))
    if protocol == "given":
        return given_negatives(given, split, part)
    if protocol == "degree-corrected":
        chances = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)
        rng = generator(seed, "degree-corrected negatives")
        return Negatives(_by_chance(rule, positives, chances, rng))
    if protocol == "sampled":
        return Negatives(sample_negatives(rule, positives, seed=seed))
    known = _HARD_OF.setdefault(split, {})
    if (part, seed) not in known:
        known[part, seed] = hard_negatives(graph, rule, positives, seed=seed)
    return known[part, seed]


# All models of a comparison meet the same ones; finding them takes seconds.
_HARD_OF: WeakKeyDictionary[EdgeSplit, dict[Any, Negatives]] = WeakKeyDictionary()


def sample_negatives(rule: Candidates, positives: IntArray, *, seed: int) -> IntArray:
    """Draw as many distinct negatives as positives, uniformly, by seed."""
    rng = np.random.default_rng(seed)
    wanted = min(len(positives), rule.count - len(positives))
    if isinstance(rule, ListedPairs):
        keep = ~ListedPairs(rule.num_nodes, rule.directed, positives).contains(
            rule.pairs
        )
        pool = rule.pairs[keep]
        return pool[np.sort(rng.choice(len(pool), wanted, replace=False))]
    n = rule.num_nodes
    taken = set((positives[:, 0] * n + positives[:, 1]).tolist())
    found: list[int] = []
    while len(found) < wanted:
        drawn = rng.integers(0, n, size=(4 * wanted + 16, 2))
        pairs = drawn if rule.directed else np.sort(drawn, axis=1)
        for key in (pairs[:, 0] * n + pairs[:, 1])[rule.contains(pairs)].tolist():
            if key not in taken and len(found) < wanted:
                taken.add(key)
                found.append(key)
    keys = np.array(found, dtype=np.int64)
    return np.stack([keys // n, keys % n], axis=1)


def _by_chance(
    rule: AllPairs, positives: IntArray, chances: IntArray, rng: np.random.Generator
) -> IntArray:
    """Draw as many negatives as positives, both ends independently, by chance.

    A negative may come twice: else pairs of hubs, which are few, would be too rare.
    """
    n, wanted = rule.num_nodes, len(positives)
    shares, found = chances / chances.sum(), np.empty((0, 2), dtype=np.int64)
    while len(found) < wanted:
        drawn = rng.choice(n, size=(4 * wanted + 16, 2), p=shares)
        pairs = canonical_pairs(drawn, directed=rule.directed)
        free = rule.contains(pairs) & ~_among(pairs, positives, n)
        found = np.concatenate([found, pairs[free]])
    return found[:wanted]


def _among(pairs: IntArray, positives: IntArray, num_nodes: int) -> Any:
    return np.isin(pair_keys(pairs, num_nodes), pair_keys(positives, num_nodes))


def hard_negatives(
    graph: Graph, rule: AllPairs, positives: IntArray, *, seed: int, count: int = HARD
) -> Negatives:
    """Return the hardest negatives of each positive, half of them from either end.

    A node's candidates are ranked by resource allocation, by rooted PageRank and, where
    there are attributes, by their cosine; equal scores in a random order. What counts
    is the best of the ranks.

    Parameters
    ----------
    graph : Graph
        The training edges.
    rule : AllPairs
        What may be a negative.
    positives : (p, 2) int64
    seed : int
        Orders equal scores.
    count : int
        Negatives of each positive, where its ends have as many candidates.
    """
    hardest: dict[int, IntArray] = {}
    nodes = np.unique(positives)
    rng = generator(seed, "hard negatives")
    true, hardness = _symmetric(positives, rule), _Hardness(graph)
    for start in range(0, len(nodes), _ROWS):
        some = nodes[start : start + _ROWS]
        allowed = _candidate_rows(rule, true, some)
        best = np.full(allowed.shape, graph.num_nodes)
        for scores in hardness(some):
            noise = rng.random(scores.shape)
            order = np.lexsort((noise, np.where(allowed, -scores, np.inf)))
            ranks = np.empty_like(order)
            np.put_along_axis(ranks, order, np.arange(scores.shape[1])[None, :], axis=1)
            best = np.minimum(best, ranks)
        best = np.where(allowed, best, 2 * graph.num_nodes)
        order = np.argsort(best, axis=1, kind="stable")[:, : count // 2]
        for at, node in enumerate(some.tolist()):
            hardest[node] = order[at][allowed[at, order[at]]]
    pairs, owners = [], []
    for at, (a, b) in enumerate(positives.tolist()):
        from_a = [(a, x) for x in hardest[a].tolist()]
        from_b = [(x, b) for x in hardest[b].tolist()]
        pairs += from_a + from_b
        owners += [at] * (len(from_a) + len(from_b))
    listed = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    listed = canonical_pairs(listed, directed=rule.directed)
    kept = rule.contains(listed) & ~_among(listed, positives, rule.num_nodes)
    return Negatives(listed[kept], np.array(owners, dtype=np.int64)[kept])


def _symmetric(pairs: IntArray, rule: AllPairs) -> sp.csr_array:
    shape = (rule.num_nodes, rule.num_nodes)
    u, v = np.concatenate([pairs, pairs[:, ::-1]]).T
    return sp.csr_array((np.ones(len(u)), (u, v)), shape=shape)


def _candidate_rows(rule: AllPairs, true: sp.csr_array, rows: IntArray) -> Any:
    """Return which nodes may be the other end of a negative of some nodes."""
    left, right = rule.masks
    allowed = (left[rows, None] & right) | (right[rows, None] & left)
    known = sp.csr_array(rule.excluded_rows)[rows].toarray() != 0
    allowed &= ~known & (true[rows].toarray() == 0)
    allowed[np.arange(len(rows)), rows] = False
    return allowed


class _Hardness:
    """Scores of rows by heuristics: whole rows, of a few nodes at a time."""

    def __init__(self, graph: Graph) -> None:
        A = graph.adjacency
        if graph.directed:
            A = A + A.T
        degrees = np.asarray(A.sum(axis=1)).ravel()
        self.adjacency = sp.csr_array(A)
        self.step = sp.csr_array(sp.diags_array(_inverse(degrees)) @ A)  # rows sum to 1
        self.back = sp.csr_array(self.step.T)
        self.attributes: tuple[Any, ...] | None = None
        if graph.num_attributes:
            X = sp.csr_array(graph.attributes, dtype=np.float64)
            norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
            scaled = sp.csr_array(sp.diags_array(_inverse(norms)) @ X)
            self.attributes = scaled, sp.csr_array(X.T), _inverse(norms)

    def __call__(self, rows: IntArray) -> list[FloatArray]:
        """Return resource allocation, rooted PageRank and, if there is any, cosine."""
        shared = (self.adjacency[rows] @ self.step).toarray()
        start = np.zeros(shared.shape)
        start[np.arange(len(rows)), rows] = 1 - _DAMPING
        walk = start.copy()
        for _ in range(_ROUNDS):
            walk = start + _DAMPING * (self.back @ walk.T).T
        found = [np.round(shared, 10), np.round(walk, 12)]
        if self.attributes is not None:
            scaled, turned, inverse = self.attributes
            cosine = (scaled[rows] @ turned).toarray() * inverse
            found.append(np.round(cosine, 10))
        return found


def _inverse(values: FloatArray) -> FloatArray:
    return np.divide(1.0, values, where=values > 0, out=np.zeros_like(values))


def given_negatives(source: Any, split: EdgeSplit, part: Any) -> Negatives:
    """Read negatives that somebody else drew; a wrong one is named with its line.

    Parameters
    ----------
    source : path, frame, array or sequence
        Rows of two nodes, a negative of all positives; or of three, source and target
        of a positive and a negative target.
    split : EdgeSplit
    part : {"valid", "test"}
    """
    graph, positives = split.graph, split.positives(part)
    n, directed = graph.num_nodes, graph.directed
    table = read_negatives(source, graph)
    pairs = canonical_pairs(table.pairs, directed=directed)
    edges = find_pairs(graph.edges, pairs, n) >= 0
    _refuse(edges, table, pairs, graph, "is an edge, not a negative")
    owners = None
    keys = pair_keys(pairs, n)
    if table.positives is not None:
        true = canonical_pairs(table.positives, directed=directed)
        order = np.argsort(pair_keys(positives, n), kind="stable")
        found = find_pairs(positives[order], true, n)
        what = f"belongs to a pair that is no {part} edge"
        _refuse(found < 0, table, true, graph, what)
        owners = order[found]
        empty = np.bincount(owners, minlength=len(positives)) == 0
        if empty.any():
            u, v = graph.node_ids[positives[int(np.argmax(empty))]].tolist()
            raise InputError(
                f"{table.name}, {len(pairs)} rows: there is no negative for the {part} "
                f"edge ({u}, {v}) and {np.count_nonzero(empty) - 1:,} others.",
                hint="Every positive needs at least one negative.",
            )
        keys = keys + owners * n * n if n < 2**20 else np.arange(len(keys))
    _, first = np.unique(keys, return_index=True)
    again = np.ones(len(keys), dtype=bool)
    again[first] = False
    _refuse(again, table, pairs, graph, "is listed a second time")
    return Negatives(pairs, owners)


def _refuse(wrong: Any, table: Any, pairs: IntArray, graph: Graph, what: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        u, v = graph.node_ids[pairs[row]].tolist()
        raise InputError(
            f"{table.place(row)}: ({u}, {v}) {what}.",
            hint=f"{np.count_nonzero(wrong):,} of {len(pairs):,} rows are like this.",
        )
