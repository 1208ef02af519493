"""Forecast what a pass over all candidates will cost, by timing a few rows.

Rows are drawn at random (seeded), scored and counted as the real pass does it,
and carried over to all rows by what each of them has to score. The first call also
compiles kernels, outside of what is timed.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gelato.engines import default_threads
from gelato.graph import Graph, IntArray
from gelato.kernels import counting
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs, all_pairs
from gelato.ranking.counts import candidate_rule
from gelato.ranking.estimate import EstimateWork, count_span
from gelato.ranking.near import NO_TALLY, FarClasses, count_near
from gelato.ranking.pair_scores import score_pairs, scores_pairs
from gelato.ranking.scorers import (
    BLOCK_CELLS,
    WalkScorer,
    as_scorer,
    checked_rows,
    has_near_pairs,
)

_WEIGHED_ROWS = 2048


class RowPass:
    """Score and count rows as the real pass does; returns the pairs visited.

    Parameters
    ----------
    scorer : RowScorer
        What scores pairs.
    rule : Candidates
        What is ranked.
    positives : int
        How many positives will be ranked.
    rng : Generator
        Draws stand-ins for them.
    """

    def __init__(
        self, scorer: Any, rule: Candidates, positives: int, rng: np.random.Generator
    ) -> None:
        self.scorer, self.rule = scorer, rule
        n = self.num_nodes = rule.num_nodes
        drawn = rng.integers(0, max(n, 1), size=(min(positives, 64), 2))
        scores = score_pairs(scorer, drawn[drawn[:, 0] != drawn[:, 1]], n)
        # Thresholds as many as there will be, spread over the scores of a few pairs.
        spread = rng.choice(scores, positives) if len(scores) else np.zeros(1)
        noise = rng.uniform(0.5, 1.5, size=spread.shape)
        self.thresholds = np.unique(spread * noise)
        self.table = counting.threshold_table(self.thresholds)
        self.bins = np.zeros(2 * len(self.thresholds) + 1, dtype=np.int64)
        self.near = has_near_pairs(scorer)
        self.classes = FarClasses.of(scorer) if self.near else None

    def weight(self, rows: IntArray) -> float:
        """Return what rows have to score, in whatever unit suits the scorer."""
        if isinstance(self.rule, ListedPairs):
            return float(np.isin(self.rule.pairs[:, 0], rows).sum())
        if scores_pairs(self.scorer) and not self.rule.directed:
            return float(np.sum(self.num_nodes - 1 - rows))
        return float(len(rows))

    def __call__(self, rows: IntArray) -> int:
        """Score and count rows."""
        if isinstance(self.rule, ListedPairs):
            own = self.rule.pairs[np.isin(self.rule.pairs[:, 0], rows)]
            score_pairs(self.scorer, own, self.rule.num_nodes)
            return len(own)
        return self._all_pairs(rows, self.rule)

    def _all_pairs(self, rows: IntArray, rule: AllPairs) -> int:
        known = candidate_rule(rule)
        if self.classes is not None:
            rest = (self.classes, self.table, self.bins, NO_TALLY)
            return count_near(self.scorer, rows, known, *rest)
        upper = not rule.directed
        scores = checked_rows(self.scorer, rows, rule.num_nodes, upper=upper)
        counting.count_dense(rows, scores, known, self.table, NO_TALLY, self.bins)
        return 0


class EstimatePass(RowPass):
    """What an estimate does with rows.

    Parameters
    ----------
    scorer, rule, positives, rng
        As for :class:`RowPass`.
    graph : Graph
        The known edges.
    rate : float
        Of the estimate.
    """

    def __init__(
        self,
        scorer: Any,
        rule: Candidates,
        positives: int,
        rng: np.random.Generator,
        graph: Graph,
        rate: float,
    ) -> None:
        super().__init__(scorer, rule, positives, rng)
        nobody = np.empty((0, 2), dtype=np.int64)
        drawn = (graph, rate, 0, self.thresholds)
        self.work = EstimateWork.of(scorer, nobody, rule, *drawn)
        self.near = False

    def weight(self, rows: IntArray) -> float:
        """Return how many pairs of rows are scored, from a part of them if many."""
        if not scores_pairs(self.scorer):
            return float(len(rows))
        some = np.sort(rows[:_WEIGHED_ROWS])
        chosen = len(self.work.chosen(self._span(some))[0])
        return chosen * len(rows) / max(1, len(some))

    def __call__(self, rows: IntArray) -> int:
        """Choose, score and count pairs of rows."""
        counted, _ = count_span(self.work, self._span(rows))
        return int(counted[:-1].sum())

    def _span(self, rows: IntArray) -> IntArray:
        if isinstance(self.rule, ListedPairs):
            return self.rule.pairs[np.isin(self.rule.pairs[:, 0], rows)]
        return rows


_SAMPLE_ROWS = 1024
_SAMPLE_SECONDS = 1.0
# Rows differ, so that of a slow scorer some are timed even if that takes longer; as
# many at once as are not too many.
_SLOW_ROWS, _SLOW_SECONDS = 8, 10.0
_BLOCK_SECONDS = 4.0
# Pairs of a row that are timed where every pair is slow.
_ROW_PAIRS = 32
# Bytes per cell of a block: columns and scores of near pairs, or dense scores with
# the copies that scoring makes on the way.
_NEAR_CELL_BYTES = 24
# Loading the compiled kernels, once per process.
_START_SECONDS = 0.3
_DENSE_CELL_BYTES = 40
# A walk's arrays per node; two bins per positive, for each span that is in flight.
_WALK_NODE_BYTES = 48
_POSITIVE_BYTES = 16
_COUNTS_AHEAD = 3


@dataclass(frozen=True)
class Forecast:
    """What one pass over all candidates is expected to take.

    Parameters
    ----------
    pairs : int
        Candidates.
    near_pairs : int, optional
        Estimated number of pairs that are visited one by one; None if all are.
    seconds : float
        Estimated time, with the threads in use.
    peak_bytes : int
        Estimated resident memory of the process at its peak.
    threads : int
        Threads assumed.
    resident_bytes : int
        What of the peak there is already; the rest is shared out among the threads.
    """

    pairs: int
    near_pairs: int | None
    seconds: float
    peak_bytes: int
    threads: int
    resident_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as plain data."""
        return asdict(self)


def forecast(
    model: Any,
    graph: Graph,
    *,
    candidates: Candidates | None = None,
    positives: int = 1000,
    estimate: float | None = None,
    seed: int = 0,
) -> Forecast:
    """Forecast an evaluation or a prediction.

    Parameters
    ----------
    model : model, scorer, callable or matrix
        What will score the pairs.
    graph : Graph
        The known edges (the training edges, for an evaluation).
    candidates : Candidates, optional
        What will be ranked; default all pairs that are not edges.
    positives : int
        How many positives will be ranked.
    estimate : float, optional
        The rate, if the evaluation is to be an estimate.
    seed : int
        Draws the rows that are timed.
    """
    workers = default_threads()
    scorer, ahead, kept = _stand_in(as_scorer(model, graph))
    rule = all_pairs(graph, graph.edges) if candidates is None else candidates
    rng = np.random.default_rng(seed)
    import psutil

    rows = np.unique(rule.pairs[:, 0]) if isinstance(rule, ListedPairs) else rule.rows
    order = rng.permutation(rows)
    row_pass = RowPass(scorer, rule, positives, rng)
    if estimate is not None:
        row_pass = EstimatePass(scorer, rule, positives, rng, graph, estimate)
    timed = _time_rows(row_pass, order)
    share = row_pass.weight(order) / max(1.0, timed.weight)
    listing = has_near_pairs(scorer) or estimate is not None
    resident = int(psutil.Process().memory_info().rss)
    own = _thread_bytes(scorer, graph.num_nodes, positives)
    seconds = timed.seconds * share * _passes(scorer, rule, positives, len(rows))
    return Forecast(
        pairs=rule.count,
        near_pairs=min(rule.count, round(timed.visited * share)) if listing else None,
        seconds=_START_SECONDS + (ahead + seconds) / workers,
        peak_bytes=resident + kept + workers * own,
        resident_bytes=resident,
        threads=workers,
    )


@runtime_checkable
class Prepares(Protocol):
    """A scorer that does much before its first row."""

    def trial(self) -> tuple[Any, float, int]:
        """Return what to time, and the seconds and bytes of what is prepared once."""
        ...


def _stand_in(scorer: Any) -> tuple[Any, float, int]:
    """Return what to time, and the seconds and bytes of what is prepared once.

    A scorer that does much before its first row tells by ``trial()``.
    """
    return scorer.trial() if isinstance(scorer, Prepares) else (scorer, 0.0, 0)


@dataclass(frozen=True)
class _Timed:
    """What rows took, the pairs that they visited, and their share of the work."""

    seconds: float
    visited: int
    weight: float


def _time_rows(row_pass: RowPass, order: IntArray) -> _Timed:
    """Time random rows for about a second; of a slow scorer some, or at least one."""
    row_pass(order[:1])  # compile and warm up
    # The real pass makes its arrays a few hundred times, and not for every few rows.
    fixed = _seconds(row_pass, order[:0])[0] if row_pass.near else 0.0
    one, visited = _seconds(row_pass, order[-1:])
    if one > _SLOW_SECONDS:
        return _Timed(one, visited, row_pass.weight(order[-1:]))
    # Dense blocks are timed at their real size: a single row would be unfair to BLAS.
    size = max(8, min(512, BLOCK_CELLS // max(1, row_pass.num_nodes)))
    size = 128 if row_pass.near else size
    size = max(1, min(size, int(_BLOCK_SECONDS / max(one, 1e-6))))
    done, visited, seconds = 0, 0, 0.0
    while done < min(len(order), max(_SAMPLE_ROWS, size)) and (
        seconds < _SAMPLE_SECONDS or (done < _SLOW_ROWS and seconds < _SLOW_SECONDS)
    ):
        block = np.sort(order[done : done + size])
        taken, found = _seconds(row_pass, block)
        seconds += max(taken - fixed, taken / 10)
        visited += found
        done += len(block)
    return _Timed(seconds, visited, row_pass.weight(order[:done]))


def _passes(scorer: Any, rule: Candidates, positives: int, num_rows: int) -> float:
    """Return how often pairs are scored: positives come first, on their own."""
    if scores_pairs(scorer):
        return 1 + positives / max(1, rule.count)
    # Their rows are walked; near rows are not counted then.
    share = 0.6 if has_near_pairs(scorer) else 1.0
    return 1 + min(1.0, positives / max(1, num_rows)) * share


def _seconds(row_pass: RowPass, rows: IntArray) -> tuple[float, int]:
    """Return the time that rows take, and the pairs that they visit."""
    started = time.perf_counter()
    visited = row_pass(rows)
    return time.perf_counter() - started, visited


def _thread_bytes(scorer: Any, num_nodes: int, positives: int) -> int:
    """Return what each thread holds: a block of scores, or a walk and its counts."""
    cells = min(BLOCK_CELLS, num_nodes**2) + num_nodes
    if not has_near_pairs(scorer):
        return cells * _DENSE_CELL_BYTES
    if not isinstance(scorer, WalkScorer):
        return cells * _NEAR_CELL_BYTES
    counts = _COUNTS_AHEAD * _POSITIVE_BYTES * positives
    return _WALK_NODE_BYTES * num_nodes + max(counts, cells * _NEAR_CELL_BYTES)
