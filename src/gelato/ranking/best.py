"""The best candidates: overall, or for every node.

Order: score, best first; equal scores by the smaller first and then second node
index, so that the same graph always gives the same list. Near pairs are streamed
with the k-th best score as a bound; far pairs are listed by their closed form, and
only as many as are needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from gelato.engines import map_shared
from gelato.errors import UsageError
from gelato.graph import FloatArray, IntArray, pair_keys
from gelato.kernels import counting
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.counts import candidate_rule
from gelato.ranking.journal import Progress
from gelato.ranking.near import keep_near
from gelato.ranking.pair_scores import score_pairs
from gelato.ranking.scorers import (
    ClosedForm,
    RowScorer,
    checked_rows,
    has_near_pairs,
    row_blocks,
    row_costs,
    row_spans,
    rows_by_site,
)


class FarPartners:
    """The best far candidates of single nodes, without a look at all others.

    Nodes of equal value form classes, sorted once; a node's far partners are read
    from the best class on, past those that are near or known.

    Parameters
    ----------
    far : ClosedForm
        Scores of far pairs.
    candidates : AllPairs
        What may be chosen.
    """

    def __init__(self, far: ClosedForm, candidates: AllPairs) -> None:
        self._far, self._candidates = far, candidates
        self._classes: dict[tuple[bool, bool], tuple[FloatArray, list[IntArray]]] = {}

    def best(
        self, node: int, near: IntArray, k: int, floor: float
    ) -> tuple[IntArray, FloatArray]:
        """Return up to k pairs (node, other) that are far, best first, with scores.

        Parameters
        ----------
        node : int
            Whose partners.
        near : int64
            All its near candidates.
        k : int
            How many are wanted.
        floor : float
            Scores below it are left out.
        """
        known = self._candidates.excluded_rows
        edges = known.indices[known.indptr[node] : known.indptr[node + 1]]
        hidden = {*near.tolist(), *edges.tolist(), node}
        chosen: list[int] = []
        scores: list[float] = []
        for score, others in self._groups(node):
            if score < floor or len(chosen) == k:
                break
            for v in others:
                if v not in hidden:
                    chosen.append(v)
                    scores.append(score)
                    if len(chosen) == k:
                        break
        pairs = np.array([(node, v) for v in chosen], dtype=np.int64).reshape(-1, 2)
        return pairs, np.array(scores)

    def _groups(self, node: int) -> Iterator[tuple[float, Iterator[int]]]:
        """Yield (score, partners in order) by falling score."""
        values, members = self._partners(node)
        scores = self._far.scale * (self._far.left[node] * values)
        for score, group in groupby(range(len(values)), key=scores.__getitem__):
            # Different values may give one score: their nodes are merged, lazily.
            lists = [map(int, members[at]) for at in group]
            yield float(score), heapq.merge(*lists)

    def _partners(self, node: int) -> tuple[FloatArray, list[IntArray]]:
        left, right = self._candidates.masks
        sides = (bool(left[node]), bool(right[node]))
        if sides not in self._classes:
            mask = right & sides[0]
            if not self._candidates.directed:
                mask = mask | (left & sides[1])
            self._classes[sides] = _classes(self._far.right, mask, self._far)
        return self._classes[sides]


def best_far_pairs(
    scorer: Any, candidates: AllPairs, near_scores: FloatArray, k: int
) -> tuple[IntArray, FloatArray]:
    """Return the far candidates, with scores, that may belong among the k best.

    Far pairs come in groups of equal score, best first; within the last group the
    smallest pairs win, so groups are walked in the order of the pairs.

    Parameters
    ----------
    scorer : NearScorer
        What scores pairs.
    candidates : AllPairs
        What may be chosen.
    near_scores : (j,) float64
        Scores of the best near candidates, descending, at most k.
    k : int
        How many pairs are wanted, near ones included.
    """
    wanted, found = k, 0
    floor = near_scores[-1] if len(near_scores) == k else -np.inf
    pairs: list[tuple[int, int]] = []
    scores: list[float] = []
    near = _NearTest(scorer, candidates)
    for score, members in _far_groups(scorer.far, candidates):
        if found >= wanted or score < floor:
            break
        better = int(np.count_nonzero(near_scores > score))
        room = wanted - better - found
        if room <= 0:
            break
        for pair in members:
            if near.is_far_candidate(*pair):
                pairs.append(pair)
                scores.append(score)
                found += 1
                room -= 1
                if room == 0:
                    break
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(scores)


class _NearTest:
    """Tells far candidates from near and known pairs, one row at a time."""

    def __init__(self, scorer: Any, candidates: AllPairs) -> None:
        self._scorer, self._candidates = scorer, candidates
        self._known = candidates.excluded_rows
        self._row = -1
        self._hidden: set[int] = set()

    def is_far_candidate(self, u: int, v: int) -> bool:
        """Whether (u, v) is a candidate that no walk joins."""
        if u != self._row:
            self._row = u
            row = np.array([u], dtype=np.int64)
            near = self._scorer.near_rows(row, upper=False).columns
            known = self._known
            edges = known.indices[known.indptr[u] : known.indptr[u + 1]]
            self._hidden = {*near.tolist(), *edges.tolist(), u}
        if v in self._hidden:
            return False
        return bool(self._candidates.admits(np.array([[u, v]]))[0])


def _far_groups(
    far: ClosedForm, candidates: AllPairs
) -> Iterator[tuple[float, Iterator[tuple[int, int]]]]:
    """Yield (score, pairs in order) by falling closed-form score.

    Nodes of equal value form classes; a heap walks the products of two classes.
    """
    lefts, rows = _classes(far.left, candidates.masks[0] | _either(candidates, 1), far)
    rights, columns = _classes(
        far.right, candidates.masks[1] | _either(candidates, 0), far
    )
    if not len(lefts) or not len(rights):
        return
    heap = [(-far.scale * (lefts[0] * rights[0]), 0, 0)]
    seen = {(0, 0)}
    while heap:
        group = []
        top = heap[0][0]
        while heap and heap[0][0] == top:
            _, i, j = heapq.heappop(heap)
            group.append((i, j))
            for a, b in ((i + 1, j), (i, j + 1)):
                if a < len(lefts) and b < len(rights) and (a, b) not in seen:
                    seen.add((a, b))
                    heapq.heappush(heap, (-far.scale * (lefts[a] * rights[b]), a, b))
        yield -top, _group_pairs(group, rows, columns, candidates.directed)


def _either(candidates: AllPairs, side: int) -> Any:
    """Return the other node set where pairs have no order, else nothing."""
    mask = candidates.masks[side]
    return np.zeros_like(mask) if candidates.directed else mask


def _classes(
    values: FloatArray, mask: Any, far: ClosedForm
) -> tuple[FloatArray, list[IntArray]]:
    """Group nodes by value, in the order in which closed-form scores fall."""
    nodes = np.flatnonzero(mask)
    distinct, inverse = np.unique(values[nodes], return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse, minlength=len(distinct)))[:-1]
    groups = np.split(nodes[order], ends)
    if far.scale >= 0:
        return distinct[::-1], groups[::-1]
    return distinct, groups


def _group_pairs(
    group: list[tuple[int, int]],
    rows: list[IntArray],
    columns: list[IntArray],
    directed: bool,
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a group of class products in ascending order."""
    partners: dict[int, list[int]] = {}
    for i, j in group:
        partners.setdefault(i, []).append(j)
    nodes = np.sort(np.concatenate([rows[i] for i in partners]))
    class_of = {int(node): i for i in partners for node in rows[i]}
    merged = {
        i: np.sort(np.concatenate([columns[j] for j in js]))
        for i, js in partners.items()
    }
    for u in nodes.tolist():
        others = merged[class_of[u]]
        start = 0 if directed else int(np.searchsorted(others, u, side="right"))
        for v in others[start:].tolist():
            if v != u:
                yield u, v


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Pairs with their scores, best first.

    Parameters
    ----------
    pairs : (k, 2) int64
        Node indices.
    scores : (k,) float64
        Scores, descending.
    """

    pairs: IntArray
    scores: FloatArray

    def __len__(self) -> int:
        return len(self.scores)


def best_candidates(
    scorer: RowScorer,
    candidates: Candidates,
    k: int,
    *,
    progress: Progress | None = None,
) -> ScoredPairs:
    """Return the k best candidates (all of them where there are fewer)."""
    if k < 1:
        raise UsageError(f"The number of links to predict is {k}; ask for at least 1.")
    k = min(k, candidates.count)
    if isinstance(candidates, ListedPairs):
        scores = score_pairs(scorer, candidates.pairs, candidates.num_nodes)
        return _best(candidates.pairs, scores, k)
    if not has_near_pairs(scorer):
        return _stream(scorer, candidates, k, False, progress)
    best = _stream(scorer, candidates, k, True, progress)
    far = best_far_pairs(scorer, candidates, best.scores, k)
    return _joined(best, ScoredPairs(*far), k)


def best_per_node(
    scorer: RowScorer,
    candidates: Candidates,
    nodes: IntArray,
    k: int,
    *,
    progress: Progress | None = None,
) -> list[ScoredPairs]:
    """Return the k best candidates of every given node, as pairs (node, other).

    In a directed graph these are pairs out of the node.
    """
    if k < 1:
        raise UsageError(f"The number of links per node is {k}; ask for at least 1.")
    if isinstance(candidates, ListedPairs):
        return _listed_per_node(scorer, candidates, nodes, k)
    rows, position = np.unique(nodes, return_inverse=True)
    job = _Selecting(scorer, candidates, k, has_near_pairs(scorer))
    spans = row_spans(rows, row_costs(scorer, rows, candidates.num_nodes))
    results: list[ScoredPairs] = []
    for part in map_shared(_select_lists, job, spans):
        results += part
        if progress is not None:
            progress(len(results), len(rows))
    return [results[at] for at in position]


def _best(pairs: IntArray, scores: FloatArray, k: int) -> ScoredPairs:
    """Order by score, then by pair, and keep k."""
    if len(scores) > k:
        bound = np.partition(scores, len(scores) - k)[len(scores) - k]
        keep = scores >= bound
        pairs, scores = pairs[keep], scores[keep]
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[:k]
    return ScoredPairs(pairs[order], scores[order])


def _stream(
    scorer: RowScorer,
    candidates: AllPairs,
    k: int,
    near: bool,
    progress: Progress | None,
) -> ScoredPairs:
    rows = rows_by_site(scorer, candidates.rows)
    job = _Selecting(scorer, candidates, k, near)
    best = ScoredPairs(np.empty((0, 2), dtype=np.int64), np.empty(0))
    # The bound only prunes what cannot enter, so a stale one changes nothing.
    bound = -np.inf

    def spans() -> Iterator[tuple[IntArray, float]]:
        for span in row_spans(rows, row_costs(scorer, rows, candidates.num_nodes)):
            yield span, bound

    done = 0
    for part, size in map_shared(_select_span, job, spans()):
        best = _joined(best, part, k)
        if len(best) == k:
            bound = float(best.scores[-1])
        done += size
        if progress is not None:
            progress(done, len(rows))
    return best


@dataclass(frozen=True, eq=False)
class _Selecting:
    """What selecting needs apart from rows, put in place once per worker."""

    scorer: Any
    candidates: AllPairs
    k: int
    near: bool

    @cached_property
    def far_partners(self) -> FarPartners:
        return FarPartners(self.scorer.far, self.candidates)

    def kept(
        self, rows: IntArray, bound: float, *, upper: bool
    ) -> tuple[IntArray, FloatArray, int]:
        """Return candidates that reach a bound, and of how many rows they are."""
        rule, n = candidate_rule(self.candidates), self.candidates.num_nodes
        if self.near:
            return keep_near(self.scorer, rows, rule, bound, upper=upper)
        block = next(row_blocks(rows, row_costs(self.scorer, rows, n)))
        scores = checked_rows(self.scorer, block, n, upper=upper)
        size = int(np.count_nonzero(scores >= bound))
        pairs, values = np.empty((2, size), dtype=np.int64), np.empty(size)
        out = (pairs[0], pairs[1], values)
        kept = counting.keep_dense(block, scores, rule, upper, bound, out)
        return pairs[:, :kept].T, values[:kept], len(block)


def _select_span(
    job: _Selecting, item: tuple[IntArray, float]
) -> tuple[ScoredPairs, int]:
    """Return the best of consecutive rows that reach a bound, and how many rows."""
    rows, bound = item
    best = ScoredPairs(np.empty((0, 2), dtype=np.int64), np.empty(0))
    start = 0
    while start < len(rows):
        upper = not job.candidates.directed
        pairs, scores, done = job.kept(rows[start:], bound, upper=upper)
        best = _joined(best, ScoredPairs(pairs, scores), job.k)
        if len(best) == job.k:
            bound = max(bound, float(best.scores[-1]))
        start += done
    return best, len(rows)


def _select_lists(job: _Selecting, rows: IntArray) -> list[ScoredPairs]:
    """Return the best candidates of each row."""
    found, first = [], 0
    while first < len(rows):
        pairs, scores, done = job.kept(rows[first:], -np.inf, upper=False)
        block = rows[first : first + done]
        starts = np.searchsorted(pairs[:, 0], block, side="left")
        ends = np.searchsorted(pairs[:, 0], block, side="right")
        for node, start, end in zip(block.tolist(), starts, ends, strict=True):
            near = ScoredPairs(pairs[start:end], scores[start:end])
            best = _best(near.pairs, near.scores, job.k)
            if job.near:
                best = _with_far(job, node, near, best)
            found.append(best)
        first += done
    return found


def _with_far(
    job: _Selecting, node: int, near: ScoredPairs, best: ScoredPairs
) -> ScoredPairs:
    """Merge a node's best near candidates with its best far ones."""
    floor = best.scores[-1] if len(best) == job.k else -np.inf
    if floor > job.scorer.far.upper_bound:
        return best
    far = job.far_partners.best(node, near.pairs[:, 1], job.k, floor)
    return _joined(best, ScoredPairs(*far), job.k)


def _joined(first: ScoredPairs, second: ScoredPairs, k: int) -> ScoredPairs:
    """Return the k best of both."""
    return _best(
        np.concatenate([first.pairs, second.pairs]),
        np.concatenate([first.scores, second.scores]),
        k,
    )


def _listed_per_node(
    scorer: RowScorer, candidates: ListedPairs, nodes: IntArray, k: int
) -> list[ScoredPairs]:
    pairs = candidates.pairs
    if not candidates.directed:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
    scores = score_pairs(scorer, pairs, candidates.num_nodes)
    return [
        _best(pairs[pairs[:, 0] == node], scores[pairs[:, 0] == node], k)
        for node in nodes
    ]


_FIRST_BATCH = 1_000
_LARGEST_BATCH = 1 << 22


def best_capped(
    scorer: RowScorer, candidates: Candidates, k: int, limit: int, **run: Any
) -> ScoredPairs:
    """Return the k best candidates that give no node more than ``limit`` links.

    Parameters
    ----------
    scorer : RowScorer
        What scores pairs.
    candidates : Candidates
        What may be chosen.
    k : int
        How many pairs are wanted; fewer come back where nodes are full.
    limit : int
        Most pairs of any node, as either end.
    **run
        ``progress`` of
        :func:`~gelato.ranking.best.best_candidates`.
    """
    if limit < 1:
        raise UsageError(f"The most links per node is {limit}; allow at least 1.")
    if k < 1:
        raise UsageError(f"The number of links to predict is {k}; ask for at least 1.")
    taken = np.zeros(candidates.num_nodes, dtype=np.int64)
    chosen: list[ScoredPairs] = []
    rule, found, size = candidates, 0, max(_FIRST_BATCH, 2 * k)
    while found < k and rule.count:
        batch = best_candidates(scorer, rule, size, **run)
        kept = _with_room(batch.pairs, taken, limit, k - found)
        chosen.append(ScoredPairs(batch.pairs[kept], batch.scores[kept]))
        found += len(kept)
        if len(batch) == rule.count:
            break
        rule = _without(rule, taken >= limit, chosen[-1].pairs)
        # Batches grow, so that hubs with many candidates cost few passes.
        size = min(2 * size, _LARGEST_BATCH)
    return ScoredPairs(
        np.concatenate([np.empty((0, 2), np.int64), *(part.pairs for part in chosen)]),
        np.concatenate([np.empty(0), *(part.scores for part in chosen)]),
    )


def _with_room(pairs: IntArray, taken: IntArray, limit: int, wanted: int) -> IntArray:
    """Return which pairs enter, in order, and count them in ``taken``."""
    room = (limit - taken).tolist()
    kept = []
    for place, (u, v) in enumerate(pairs.tolist()):
        if room[u] and room[v]:
            room[u] -= 1
            room[v] -= 1
            kept.append(place)
            if len(kept) == wanted:
                break
    taken[:] = limit - np.array(room, dtype=np.int64)
    return np.array(kept, dtype=np.int64)


def _without(rule: Candidates, full: Any, chosen: IntArray) -> Candidates:
    """Return a rule without the pairs of full nodes and those chosen already."""
    n = rule.num_nodes
    keys = pair_keys(chosen, n)
    if isinstance(rule, ListedPairs):
        gone = full[rule.pairs].any(axis=1) | np.isin(pair_keys(rule.pairs, n), keys)
        return replace(rule, pairs=rule.pairs[~gone])
    known = np.concatenate([rule.excluded, chosen])
    order = np.argsort(pair_keys(known, n))
    left, right = (mask & ~full for mask in rule.masks)
    return AllPairs(n, rule.directed, known[order], left, right)
