"""Two counts per positive: candidates above it and candidates tied with it.

One pass over blocks of rows fills the bins of :mod:`gelato.kernels.counting`.
Where a scorer tells near pairs from far ones, only near pairs are visited, and far
ones are counted from sorted closed-form values. Memory never grows with n^2.
"""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from gelato.graph import FloatArray, IntArray
from gelato.io import write_bytes_atomic
from gelato.kernels import counting
from gelato.kernels.chunks import NUM_CHUNKS, run_chunks
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.journal import Journal, Progress, digest, sum_spans
from gelato.ranking.near import NO_TALLY, FarClasses, count_near
from gelato.ranking.node_ranks import NodeLists, NodeRanks
from gelato.ranking.pair_scores import score_in_order, score_pairs
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

logger = logging.getLogger(__name__)

# Pairs that a worker takes from a list at a time, and that are kept at a time.
_LISTED_SPAN = 100_000
_KEPT_SPANS = 512


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
        Negatives that score above, and negatives that tie; of an estimate float64.
    num_negatives : int
        Negatives in all.
    near_pairs : int, optional
        Near pairs that were visited, where the scorer tells them apart.
    nodes : NodeRanks, optional
        How positives stand in the lists of their own nodes, where that was asked for.
    """

    scores: FloatArray
    positives: IntArray
    above: IntArray | FloatArray
    tied: IntArray | FloatArray
    num_negatives: int
    near_pairs: int | None = None
    nodes: NodeRanks | None = None

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
    progress: Progress | None = None,
    journal: Journal | None = None,
    per_node: bool = False,
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
    progress : callable, optional
        Called with (rows done, rows in all).
    journal : Journal, optional
        Keeps counts so far, to go on from after an interruption.
    per_node : bool
        Also count in the list of each positive's nodes, in the same pass.
    """
    n = candidates.num_nodes
    scores = score_pairs(scorer, positives, n)
    thresholds, positive_counts = np.unique(scores, return_counts=True)
    near: int | None = None
    run: dict[str, Any] = {"progress": progress}
    run["journal"] = journal
    lists = NodeLists.of(positives, scores, candidates) if per_node else None
    if journal is not None:
        kind = "exact" if lists is None else "exact, per node"
        known = (kind, positives, scores, candidates)
        run["identity"] = ranking_identity(*known, *_row_order(scorer, candidates))
    if isinstance(candidates, ListedPairs):
        bins = _count_listed(scorer, candidates, thresholds, run)
    else:
        bins, near, tallied = _count(scorer, candidates, thresholds, run, lists)
    counts = from_bins(bins, thresholds, positive_counts, candidates.count, near)
    if lists is not None:
        counts = replace(counts, nodes=lists.ranks(tallied))
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


def ranking_identity(
    kind: str,
    positives: IntArray,
    scores: FloatArray,
    candidates: Candidates,
    *more: IntArray,
) -> str:
    """Return a digest of all that decides counts.

    A scorer is known by the scores that it gives the positives, to the last bit.
    """
    if isinstance(candidates, ListedPairs):
        rule: tuple[Any, ...] = (candidates.pairs,)
    else:
        rule = (candidates.excluded, *candidates.masks)
    shape = (kind, candidates.num_nodes, candidates.directed)
    return digest(*shape, *rule, positives, scores, *more)


def from_bins(
    bins: IntArray,
    thresholds: FloatArray,
    positive_counts: IntArray,
    num_candidates: int,
    near_pairs: int | None,
) -> RankCounts:
    """Turn bins over all candidates, positives included, into counts."""
    negatives = bins.copy()
    negatives[1::2] -= positive_counts
    above, tied = above_and_tied(negatives)
    return RankCounts(
        scores=thresholds[::-1],
        positives=positive_counts[::-1].astype(np.int64),
        above=above,
        tied=tied,
        num_negatives=int(num_candidates - positive_counts.sum()),
        near_pairs=near_pairs,
    )


def above_and_tied(bins: Any) -> tuple[Any, Any]:
    """Return, by descending threshold, what bins (last axis) hold above and at it."""
    # Bins above 2i + 1 hold what scores above threshold i.
    from_top = np.cumsum(bins[..., ::-1], axis=-1)[..., ::-1]
    return from_top[..., 2::2][..., ::-1], bins[..., 1::2][..., ::-1]


def _count_listed(
    scorer: RowScorer,
    candidates: ListedPairs,
    thresholds: FloatArray,
    run: dict[str, Any],
) -> IntArray:
    table = counting.threshold_table(thresholds)
    size = 2 * len(thresholds) + 1
    job = (scorer, candidates.num_nodes, table, size)
    return sum_spans(_count_pairs, job, listed_spans(candidates.pairs), size, **run)


def listed_spans(pairs: IntArray) -> list[IntArray]:
    """Cut sorted pairs into spans, where it can be at the start of a row."""
    firsts = np.searchsorted(pairs[:, 0], pairs[::_LISTED_SPAN, 0])
    cuts = np.unique(np.append(firsts, [0, len(pairs)]).astype(np.int64))
    return [pairs[first:last] for first, last in pairwise(cuts)]


def _count_pairs(job: tuple[Any, ...], pairs: IntArray) -> tuple[IntArray, int]:
    """Count listed pairs: bins, pairs."""
    scorer, num_nodes, table, size = job
    bins = np.zeros(size, dtype=np.int64)
    counting.count_scores(score_in_order(scorer, pairs, num_nodes), table, bins, 1)
    return bins, len(pairs)


def _row_order(scorer: RowScorer, candidates: Candidates) -> tuple[IntArray, ...]:
    """Return the rows if not ascending: a journal holds the first spans of an order."""
    if isinstance(candidates, ListedPairs):
        return ()
    rows = rows_by_site(scorer, candidates.rows)
    return () if rows is candidates.rows else (rows,)


def _add(
    scores: FloatArray, thresholds: FloatArray, bins: IntArray, amount: int
) -> None:
    table = counting.threshold_table(thresholds)
    counting.count_scores(scores, table, bins, amount)


def candidate_rule(candidates: AllPairs) -> tuple[Any, ...]:
    """Return a rule as the arguments that kernels take."""
    known = candidates.excluded_rows
    # In one type: scipy's has 32 bits where nothing is excluded, and kernels would be
    # compiled anew for that.
    listed = (x.astype(np.int64, copy=False) for x in (known.indptr, known.indices))
    return (*listed, *candidates.masks, candidates.directed)


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
    lists: NodeLists | None


def _count(
    scorer: RowScorer,
    candidates: AllPairs,
    thresholds: FloatArray,
    run: dict[str, Any],
    lists: NodeLists | None,
) -> tuple[IntArray, int | None, IntArray]:
    """Return bins over all candidates, near pairs visited, and counts of lists."""
    n, near = candidates.num_nodes, has_near_pairs(scorer)
    rows = rows_by_site(scorer, candidates.rows)
    job = _Counting(
        scorer,
        n,
        candidates.directed,
        candidate_rule(candidates),
        FarClasses.of(scorer) if near else None,  # type: ignore[arg-type]
        counting.threshold_table(thresholds),
        2 * len(thresholds) + 1,
        lists,
    )
    # What is kept of a slow scorer's work is kept often.
    finer = {} if near or run["journal"] is None else {"pieces": _KEPT_SPANS}
    spans = list(row_spans(rows, row_costs(scorer, rows, n), **finer))
    size = job.num_bins + 1 + (0 if lists is None else lists.size)
    summed = sum_spans(_count_span, job, spans, size, **run)
    total, visited = summed[: job.num_bins], int(summed[job.num_bins])
    tallied = summed[job.num_bins + 1 :]
    if near:
        total += far_bins(scorer.far, candidates, thresholds)  # type: ignore[attr-defined]
        if lists is not None:
            tallied += lists.far_counts(scorer.far)  # type: ignore[attr-defined]
    return total, visited if near else None, tallied


def _count_span(job: _Counting, rows: IntArray) -> tuple[IntArray, int]:
    """Count consecutive rows: bins with the near pairs visited behind them, rows."""
    size = job.num_bins + 1 + (0 if job.lists is None else job.lists.size)
    counted = np.zeros(size, dtype=np.int64)
    bins, tallied = counted[: job.num_bins], counted[job.num_bins + 1 :]
    tally = NO_TALLY if job.lists is None else job.lists.tally(tallied)
    if job.classes is not None:
        rule, known = job.rule, (job.classes, job.table)
        visited = count_near(job.scorer, rows, rule, *known, bins, tally)
        counted[job.num_bins] = visited
        return counted, len(rows)
    for block in row_blocks(rows, row_costs(job.scorer, rows, job.num_nodes)):
        scores = checked_rows(job.scorer, block, job.num_nodes, upper=not job.directed)
        counting.count_dense(block, scores, job.rule, job.table, tally, bins)
    return counted, len(rows)


def far_bins(
    far: ClosedForm,
    candidates: AllPairs,
    thresholds: FloatArray,
) -> IntArray:
    """Fill the bins as if every candidate had its closed-form score."""
    t = len(thresholds)
    above = np.zeros(t, dtype=np.int64)
    at_least = np.zeros(t, dtype=np.int64)
    pairs = 0
    for rows, columns, same in candidates.rectangles:
        if not len(rows) or not len(columns):
            continue
        some, loose = _count_rectangle(far, rows, columns, thresholds)
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
) -> tuple[IntArray, IntArray]:
    lefts, left_counts = np.unique(far.left[rows], return_counts=True)
    rights, right_counts = np.unique(far.right[columns], return_counts=True)
    same = np.array_equal(lefts, rights) and np.array_equal(left_counts, right_counts)
    if far.scale > 0:  # scores must fall along both
        lefts, left_counts = lefts[::-1].copy(), left_counts[::-1].copy()
        rights, right_counts = rights[::-1].copy(), right_counts[::-1].copy()
    totals = np.concatenate(([0], np.cumsum(right_counts))).astype(np.int64)
    padded = np.concatenate(([0.0], -rights if far.scale > 0 else rights))
    above = np.zeros(len(thresholds), dtype=np.int64)
    at_least = np.zeros(len(thresholds), dtype=np.int64)
    lowest = far.scale * (lefts[-1] * rights[-1])
    highest = far.scale * (lefts[0] * rights[0])
    # Thresholds outside the range of products need no staircase.
    start = int(np.searchsorted(thresholds, lowest, side="left"))
    end = int(np.searchsorted(thresholds, highest, side="right"))
    above[:start] = at_least[:start] = len(rows) * len(columns)
    products = (lefts, left_counts.astype(np.int64), padded, totals, same)
    # Where every node has a degree of its own, this is what a far pass costs.
    cuts = np.linspace(start, end, NUM_CHUNKS + 1).astype(int)

    def count(chunk: int) -> None:
        part = slice(cuts[chunk], cuts[chunk + 1])
        bounds = tuple(
            counting.product_bounds(far.scale, thresholds[part], strict=strict)
            for strict in (False, True)
        )
        counting.count_products(*products, bounds, above[part], at_least[part])

    run_chunks(count, NUM_CHUNKS)
    return above, at_least


def _count_diagonal(
    far: ClosedForm, nodes: IntArray, thresholds: FloatArray
) -> tuple[IntArray, IntArray]:
    values = np.sort(far.at(nodes, nodes))
    above = len(values) - np.searchsorted(values, thresholds, side="right")
    at_least = len(values) - np.searchsorted(values, thresholds, side="left")
    return above.astype(np.int64), at_least.astype(np.int64)


FORMAT, FORMAT_VERSION = "gelato-rank-counts", 1
_COLUMNS = {
    "score": pl.Float64,
    "positives": pl.Int64,
    "above": pl.Int64,
    "tied": pl.Int64,
}


def write_counts(path: Path, counts: RankCounts, split: str) -> None:
    """Write counts to a file that appears whole or not at all.

    Parameters
    ----------
    path : Path
    counts : RankCounts
    split : str
        Fingerprint of the split whose edges were ranked.
    """
    columns = (counts.scores, counts.positives, counts.above, counts.tied)
    frame = pl.DataFrame(
        dict(zip(_COLUMNS, columns, strict=True)), schema_overrides=_COLUMNS
    )
    header = {
        "format": FORMAT,
        "version": str(FORMAT_VERSION),
        "split": split,
        "num_negatives": str(counts.num_negatives),
    }
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=header)
    write_bytes_atomic(path, buffer.getvalue())


def read_counts(path: Path, split: str) -> RankCounts | None:
    """Return the counts of a file, or None if it is of no use for a split."""
    try:
        header = pl.read_parquet_metadata(path)
        frame = pl.read_parquet(path)
    except (OSError, PolarsError) as error:
        logger.info("%s cannot be read: %s", path, error)
        return None
    expected = {"format": FORMAT, "version": str(FORMAT_VERSION), "split": split}
    fits = all(header.get(name) == value for name, value in expected.items())
    negatives = header.get("num_negatives", "")
    if not fits or not negatives.isdecimal() or dict(frame.schema) != _COLUMNS:
        logger.info("%s is of another version or split", path)
        return None
    columns = {name: frame[name].to_numpy() for name in _COLUMNS}
    return RankCounts(
        scores=columns["score"].astype(np.float64),
        positives=columns["positives"].astype(np.int64),
        above=columns["above"].astype(np.int64),
        tied=columns["tied"].astype(np.int64),
        num_negatives=int(negatives),
    )
