"""The best candidates: overall, or for every node.

Order: score, best first; equal scores by the smaller first and then second node
index, so that the same graph always gives the same list. Near pairs are streamed
with the k-th best score as a bound; far pairs are listed by their closed form, and
only as many as are needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gelato.engines import map_shared
from gelato.errors import UsageError
from gelato.graph import FloatArray, IntArray
from gelato.kernels import selecting
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.counts import Progress, candidate_rule
from gelato.ranking.scorers import (
    ClosedForm,
    RowScorer,
    checked_rows,
    has_near_pairs,
    row_blocks,
    row_costs,
    row_spans,
    score_pairs,
)


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
    threads: int | None = None,
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
        return _stream(scorer, candidates, k, False, threads, progress)
    best = _stream(scorer, candidates, k, True, threads, progress)
    far = _far_pairs(scorer, candidates, best, k)
    return _joined(best, far, k)


def best_per_node(
    scorer: RowScorer,
    candidates: Candidates,
    nodes: IntArray,
    k: int,
    *,
    threads: int | None = None,
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
    for part in map_shared(_select_lists, job, spans, threads=threads):
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
    threads: int | None,
    progress: Progress | None,
) -> ScoredPairs:
    rows = candidates.rows
    job = _Selecting(scorer, candidates, k, near)
    best = ScoredPairs(np.empty((0, 2), dtype=np.int64), np.empty(0))
    # The bound only prunes what cannot enter, so a stale one changes nothing.
    bound = -np.inf

    def spans() -> Iterator[tuple[IntArray, float]]:
        for span in row_spans(rows, row_costs(scorer, rows, candidates.num_nodes)):
            yield span, bound

    done = 0
    for part, size in map_shared(_select_span, job, spans(), threads=threads):
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

    def blocks(self, rows: IntArray) -> Iterator[IntArray]:
        return row_blocks(rows, row_costs(self.scorer, rows, self.candidates.num_nodes))


def _select_span(
    job: _Selecting, item: tuple[IntArray, float]
) -> tuple[ScoredPairs, int]:
    """Return the best of consecutive rows that reach a bound, and how many rows."""
    rows, bound = item
    scorer, rule, k, near = job.scorer, job.candidates, job.k, job.near
    best = ScoredPairs(np.empty((0, 2), dtype=np.int64), np.empty(0))
    for block in job.blocks(rows):
        upper = not rule.directed
        pairs, scores = _kept(scorer, rule, block, bound, near, upper=upper)
        best = _joined(best, ScoredPairs(pairs, scores), k)
        if len(best) == k:
            bound = max(bound, float(best.scores[-1]))
    return best, len(rows)


def _select_lists(job: _Selecting, rows: IntArray) -> list[ScoredPairs]:
    """Return the best candidates of each row."""
    scorer, rule, k, near = job.scorer, job.candidates, job.k, job.near
    found = []
    for block in job.blocks(rows):
        pairs, scores = _kept(scorer, rule, block, -np.inf, near, upper=False)
        starts = np.searchsorted(pairs[:, 0], block, side="left")
        ends = np.searchsorted(pairs[:, 0], block, side="right")
        for node, start, end in zip(block.tolist(), starts, ends, strict=True):
            best = _best(pairs[start:end], scores[start:end], k)
            if near:
                best = _with_far_of_node(scorer, rule, node, best, k)
            found.append(best)
    return found


def _joined(first: ScoredPairs, second: ScoredPairs, k: int) -> ScoredPairs:
    """Return the k best of both."""
    return _best(
        np.concatenate([first.pairs, second.pairs]),
        np.concatenate([first.scores, second.scores]),
        k,
    )


def _kept(
    scorer: Any,
    candidates: AllPairs,
    rows: IntArray,
    bound: float,
    near: bool,
    *,
    upper: bool,
) -> tuple[IntArray, FloatArray]:
    """Return the candidates of rows that score at least ``bound``."""
    rule = candidate_rule(candidates)
    if near:
        block = scorer.near_rows(rows, upper=upper)
        size = len(block.scores)
        given: tuple[Any, ...] = (block.indptr, block.columns, block.scores, *rule)
        kernel = selecting.keep_near
    else:
        scores = checked_rows(scorer, rows, candidates.num_nodes, upper=upper)
        size = int(np.count_nonzero(scores >= bound))
        given = (scores, *rule, upper)
        kernel = selecting.keep_dense
    pairs = np.empty((2, size), dtype=np.int64)
    values = np.empty(size)
    kept = kernel(rows, *given, bound, pairs[0], pairs[1], values)
    return pairs[:, :kept].T, values[:kept]


def _far_pairs(
    scorer: Any, candidates: AllPairs, best: ScoredPairs, k: int
) -> ScoredPairs:
    """Return the far candidates that may belong among the k best.

    Far pairs come in groups of equal score, best first; within the last group the
    smallest pairs win, so groups are walked in the order of the pairs.
    """
    wanted, found = k, 0
    floor = best.scores[-1] if len(best) == k else -np.inf
    pairs: list[tuple[int, int]] = []
    scores: list[float] = []
    near = _NearTest(scorer, candidates)
    for score, members in _far_groups(scorer.far, candidates):
        if found >= wanted or score < floor:
            break
        better = int(np.count_nonzero(best.scores > score))
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
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return ScoredPairs(array, np.array(scores))


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


def _with_far_of_node(
    scorer: Any, candidates: AllPairs, node: int, best: ScoredPairs, k: int
) -> ScoredPairs:
    """Merge a node's near candidates with its best far ones."""
    far: ClosedForm = scorer.far
    if len(best) == k and best.scores[-1] > far.upper_bound:
        return best
    near = _NearTest(scorer, candidates)
    others = np.arange(candidates.num_nodes)
    values = far.at(node, others)
    floor = best.scores[-1] if len(best) == k else -np.inf
    eligible = others[values >= floor]
    order = np.lexsort((eligible, -values[eligible]))
    chosen: list[int] = []
    for v in eligible[order].tolist():
        if near.is_far_candidate(node, v):
            chosen.append(v)
            if len(chosen) == k:
                break
    pairs = np.array([(node, v) for v in chosen], dtype=np.int64).reshape(-1, 2)
    return _best(
        np.concatenate([best.pairs, pairs]),
        np.concatenate([best.scores, values[chosen]]),
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
