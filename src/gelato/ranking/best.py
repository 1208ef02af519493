"""The best candidates: overall, or for every node.

Order: score, best first; equal scores by the smaller first and then second node
index, so that the same graph always gives the same list. Near pairs are streamed
with the k-th best score as a bound; far pairs are listed by their closed form, and
only as many as are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gelato.engines import map_shared
from gelato.errors import UsageError
from gelato.graph import FloatArray, IntArray
from gelato.kernels import selecting
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.counts import candidate_rule
from gelato.ranking.far_pairs import FarPartners, best_far_pairs
from gelato.ranking.journal import Progress
from gelato.ranking.near_pass import keep_near
from gelato.ranking.pair_scores import score_pairs
from gelato.ranking.scorers import (
    RowScorer,
    checked_rows,
    has_near_pairs,
    row_blocks,
    row_costs,
    row_spans,
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
    far = best_far_pairs(scorer, candidates, best.scores, k)
    return _joined(best, ScoredPairs(*far), k)


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
        kept = selecting.keep_dense(block, scores, *rule, upper, bound, *out)
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
