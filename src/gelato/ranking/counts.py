"""Two counts per positive: candidates above it and candidates tied with it.

One pass over blocks of rows fills the bins of :mod:`gelato.kernels.counting`.
Where a scorer tells near pairs from far ones, only near pairs are visited, and far
ones are counted from sorted closed-form values. Memory never grows with n^2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gelato.engines import map_shared
from gelato.graph import FloatArray, IntArray
from gelato.kernels import counting
from gelato.kernels.chunks import NUM_CHUNKS, run_chunks
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.near_pass import FarClasses, count_near
from gelato.ranking.pair_scores import score_pairs
from gelato.ranking.scorers import (
    ClosedForm,
    RowScorer,
    checked_rows,
    has_near_pairs,
    row_blocks,
    row_costs,
    row_spans,
)

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class RankCounts:
    """How positives stand among all candidates, by distinct positive score.

    Parameters
    ----------
    scores : (t,) float64
        Distinct scores of the positives, descending.
    positives : (t,) int64
        How many positives have each score.
    above, tied : (t,) int64
        Negatives that score above, and negatives that tie.
    num_negatives : int
        Negatives in all.
    near_pairs : int, optional
        Near pairs that were visited, where the scorer tells them apart.
    """

    scores: FloatArray
    positives: IntArray
    above: IntArray
    tied: IntArray
    num_negatives: int
    near_pairs: int | None = None

    @property
    def num_positives(self) -> int:
        """Number of positives."""
        return int(self.positives.sum())

    @property
    def nearly_all_near(self) -> bool:
        """Whether most candidates are near, so that a pass costs what n^2 costs."""
        candidates = self.num_positives + self.num_negatives
        return self.near_pairs is not None and 2 * self.near_pairs > candidates


def rank_counts(
    scorer: RowScorer,
    positives: IntArray,
    candidates: Candidates,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> RankCounts:
    """Count, for every positive, the negatives that score above it or tie with it.

    Parameters
    ----------
    scorer : RowScorer
        Scores rows of pairs.
    positives : (p, 2) int64
        Canonical pairs, all of them candidates.
    candidates : Candidates
        What is ranked; every candidate that is not a positive is a negative.
    threads : int, optional
        Number of threads; does not change the result.
    progress : callable, optional
        Called with (rows done, rows in all).
    """
    n = candidates.num_nodes
    scores = score_pairs(scorer, positives, n, threads=threads)
    thresholds, positive_counts = np.unique(scores, return_counts=True)
    near: int | None = None
    if isinstance(candidates, ListedPairs):
        bins = _count_listed(scorer, candidates, thresholds)
    else:
        bins, near = _count(scorer, candidates, thresholds, threads, progress)
    counts = from_bins(bins, thresholds, positive_counts, candidates.count, near)
    if counts.nearly_all_near:
        logger.info(
            "%s of %s candidates are near: nearly all are visited one by one",
            f"{near:,}",
            f"{candidates.count:,}",
        )
    return counts


def counts_of_scores(
    positive_scores: FloatArray, negative_scores: FloatArray
) -> RankCounts:
    """Count from the scores of positives and of listed negatives."""
    thresholds, positive_counts = np.unique(positive_scores, return_counts=True)
    bins = np.zeros(2 * len(thresholds) + 1, dtype=np.int64)
    _add(negative_scores, thresholds, bins, 1)
    bins[1::2] += positive_counts
    total = len(positive_scores) + len(negative_scores)
    return from_bins(bins, thresholds, positive_counts, total, None)


def from_bins(
    bins: IntArray,
    thresholds: FloatArray,
    positive_counts: IntArray,
    num_candidates: int,
    near_pairs: int | None,
) -> RankCounts:
    """Turn bins over all candidates, positives included, into counts."""
    tied = bins[1::2] - positive_counts
    # Bins above 2i + 1 hold what scores above threshold i.
    from_top = np.cumsum(bins[::-1])[::-1]
    above_all = from_top[2::2]
    positives_above = positive_counts.sum() - np.cumsum(positive_counts)
    above = above_all - positives_above
    return RankCounts(
        scores=thresholds[::-1],
        positives=positive_counts[::-1].astype(np.int64),
        above=above[::-1],
        tied=tied[::-1],
        num_negatives=int(num_candidates - positive_counts.sum()),
        near_pairs=near_pairs,
    )


def _count_listed(
    scorer: RowScorer, candidates: ListedPairs, thresholds: FloatArray
) -> IntArray:
    bins = np.zeros(2 * len(thresholds) + 1, dtype=np.int64)
    scores = score_pairs(scorer, candidates.pairs, candidates.num_nodes)
    _add(scores, thresholds, bins, 1)
    return bins


def _add(
    scores: FloatArray, thresholds: FloatArray, bins: IntArray, amount: int
) -> None:
    table = counting.threshold_table(thresholds)
    counting.count_scores(scores, table, bins, amount)


def candidate_rule(candidates: AllPairs) -> tuple[Any, ...]:
    """Return a rule as the arguments that kernels take."""
    known = candidates.excluded_rows
    return (known.indptr, known.indices, *candidates.masks, candidates.directed)


@dataclass(frozen=True, eq=False)
class _Counting:
    """What counting needs apart from rows, put in place once per worker."""

    scorer: Any
    num_nodes: int
    directed: bool
    rule: tuple[Any, ...]
    classes: FarClasses | None
    table: tuple[Any, ...]
    num_bins: int


def _count(
    scorer: RowScorer,
    candidates: AllPairs,
    thresholds: FloatArray,
    threads: int | None,
    progress: Progress | None,
) -> tuple[IntArray, int | None]:
    """Return bins over all candidates, and the near pairs visited if there are any."""
    n, rows, near = candidates.num_nodes, candidates.rows, has_near_pairs(scorer)
    job = _Counting(
        scorer,
        n,
        candidates.directed,
        candidate_rule(candidates),
        FarClasses.of(scorer.far) if near else None,  # type: ignore[attr-defined]
        counting.threshold_table(thresholds),
        2 * len(thresholds) + 1,
    )
    total = np.zeros(job.num_bins, dtype=np.int64)
    if near:
        total = far_bins(scorer.far, candidates, thresholds, threads)  # type: ignore[attr-defined]
    near_pairs = done = 0
    spans = row_spans(rows, row_costs(scorer, rows, n))
    for bins, visited, size in map_shared(_count_span, job, spans, threads=threads):
        total += bins
        near_pairs += visited
        done += size
        if progress is not None:
            progress(done, len(rows))
    return total, near_pairs if near else None


def _count_span(job: _Counting, rows: IntArray) -> tuple[IntArray, int, int]:
    """Count consecutive rows: bins, near pairs, rows."""
    bins = np.zeros(job.num_bins, dtype=np.int64)
    if job.classes is not None:
        visited = count_near(job.scorer, rows, job.rule, job.classes, job.table, bins)
        return bins, visited, len(rows)
    for block in row_blocks(rows, row_costs(job.scorer, rows, job.num_nodes)):
        scores = checked_rows(job.scorer, block, job.num_nodes, upper=not job.directed)
        counting.count_dense(block, scores, *job.rule, job.table, bins)
    return bins, 0, len(rows)


def far_bins(
    far: ClosedForm,
    candidates: AllPairs,
    thresholds: FloatArray,
    threads: int | None = None,
) -> IntArray:
    """Fill the bins as if every candidate had its closed-form score."""
    t = len(thresholds)
    above = np.zeros(t, dtype=np.int64)
    at_least = np.zeros(t, dtype=np.int64)
    pairs = 0
    for rows, columns, same in candidates.rectangles:
        if not len(rows) or not len(columns):
            continue
        some, loose = _count_rectangle(far, rows, columns, thresholds, threads)
        size = len(rows) * len(columns)
        if same:
            strict, tied = _count_diagonal(far, rows, thresholds)
            some, loose = (some - strict) // 2, (loose - tied) // 2
            size = (size - len(rows)) // 2
        above += some
        at_least += loose
        pairs += size
    if candidates.directed:
        left, right = candidates.masks
        both = np.flatnonzero(left & right)
        strict, tied = _count_diagonal(far, both, thresholds)
        above, at_least, pairs = above - strict, at_least - tied, pairs - len(both)
    bins = _bins_of_counts(above, at_least, pairs)
    known = candidates.excluded_here
    _add(far.at(known[:, 0], known[:, 1]), thresholds, bins, -1)
    return bins


def _bins_of_counts(above: IntArray, at_least: IntArray, total: int) -> IntArray:
    bins = np.zeros(2 * len(above) + 1, dtype=np.int64)
    bins[1::2] = at_least - above
    # Above threshold i and below threshold i + 1; below the first is the rest.
    bins[2::2] = above - np.append(at_least[1:], 0)
    bins[0] = total - (at_least[0] if len(at_least) else 0)
    return bins


def _count_rectangle(
    far: ClosedForm,
    rows: IntArray,
    columns: IntArray,
    thresholds: FloatArray,
    threads: int | None,
) -> tuple[IntArray, IntArray]:
    lefts, left_counts = np.unique(far.left[rows], return_counts=True)
    rights, right_counts = np.unique(far.right[columns], return_counts=True)
    if far.scale >= 0:  # the product must fall along both
        lefts, left_counts = lefts[::-1].copy(), left_counts[::-1].copy()
        rights, right_counts = rights[::-1].copy(), right_counts[::-1].copy()
    totals = np.concatenate(([0], np.cumsum(right_counts))).astype(np.int64)
    above = np.zeros(len(thresholds), dtype=np.int64)
    at_least = np.zeros(len(thresholds), dtype=np.int64)
    lowest = far.scale * (lefts[-1] * rights[-1])
    highest = far.scale * (lefts[0] * rights[0])
    # Thresholds outside the range of products need no staircase.
    start = int(np.searchsorted(thresholds, lowest, side="left"))
    end = int(np.searchsorted(thresholds, highest, side="right"))
    above[:start] = at_least[:start] = len(rows) * len(columns)
    products = (far.scale, lefts, left_counts.astype(np.int64), rights, totals)
    # Where every node has a degree of its own, this is what a far pass costs.
    bounds = np.linspace(start, end, NUM_CHUNKS + 1).astype(int)

    def count(chunk: int) -> None:
        part = slice(bounds[chunk], bounds[chunk + 1])
        counted = (thresholds[part], above[part], at_least[part])
        counting.count_products(*products, *counted)

    run_chunks(count, NUM_CHUNKS, threads)
    return above, at_least


def _count_diagonal(
    far: ClosedForm, nodes: IntArray, thresholds: FloatArray
) -> tuple[IntArray, IntArray]:
    values = np.sort(far.at(nodes, nodes))
    above = len(values) - np.searchsorted(values, thresholds, side="right")
    at_least = len(values) - np.searchsorted(values, thresholds, side="left")
    return above.astype(np.int64), at_least.astype(np.int64)
