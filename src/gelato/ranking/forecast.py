"""Forecast what a pass over all candidates will cost, by timing a few rows.

Rows are drawn at random (seeded), scored and counted as the real pass does it,
and the mean is carried over to all rows. The first call also compiles kernels,
outside of what is timed.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import psutil

from gelato.engines import default_threads
from gelato.graph import Graph, IntArray
from gelato.kernels import counting
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs, all_pairs
from gelato.ranking.counts import candidate_rule
from gelato.ranking.near_pass import FarClasses, count_near
from gelato.ranking.pair_scores import score_pairs
from gelato.ranking.scorers import (
    BLOCK_CELLS,
    WalkScorer,
    as_scorer,
    checked_rows,
    has_near_pairs,
)

_SAMPLE_ROWS = 1024
_SAMPLE_SECONDS = 1.0
# Pairs of a row that are timed where every pair is dear.
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
        Estimated number of pairs that are visited one by one.
    seconds : float
        Estimated time, with the threads given.
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
    threads: int | None = None,
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
    threads : int, optional
        Threads that will be used.
    seed : int
        Draws the rows that are timed.
    """
    workers = default_threads() if threads is None else threads
    scorer = as_scorer(model, graph)
    rule = all_pairs(graph, graph.edges) if candidates is None else candidates
    rng = np.random.default_rng(seed)
    if getattr(scorer, "pairwise", False):
        return _pairwise_forecast(scorer, rule, positives, workers, rng)
    rows = np.unique(rule.pairs[:, 0]) if isinstance(rule, ListedPairs) else rule.rows
    order = rng.permutation(rows)
    near = has_near_pairs(scorer)
    row_pass = _RowPass(scorer, rule, positives, rng)
    row_pass(order[:1])  # compile and warm up
    done, visited, seconds = 0, 0, 0.0
    # Dense blocks are timed at their real size: a single row would be unfair to BLAS.
    size = 128 if near else max(8, min(512, BLOCK_CELLS // max(1, graph.num_nodes)))
    # The real pass makes its arrays a few hundred times, and not for every few rows.
    fixed = _seconds(row_pass, order[:0])[0] if near else 0.0
    while done < min(len(order), max(_SAMPLE_ROWS, size)) and seconds < _SAMPLE_SECONDS:
        block = np.sort(order[done : done + size])
        taken, found = _seconds(row_pass, block)
        seconds += max(taken - fixed, taken / 10)
        visited += found
        done += len(block)
    share = len(rows) / max(1, done)
    # Positives are scored first, by walking their rows; near rows are not counted then.
    passes = 1 + min(1.0, positives / max(1, len(rows))) * (0.6 if near else 1.0)
    resident = int(psutil.Process().memory_info().rss)
    own = _thread_bytes(scorer, graph.num_nodes, positives)
    return Forecast(
        pairs=rule.count,
        near_pairs=min(rule.count, round(visited * share)) if near else None,
        seconds=_START_SECONDS + seconds * share * passes / workers,
        peak_bytes=resident + workers * own,
        resident_bytes=resident,
        threads=workers,
    )


def _pairwise_forecast(
    scorer: Any,
    rule: Candidates,
    positives: int,
    workers: int,
    rng: np.random.Generator,
) -> Forecast:
    """Forecast a scorer to which every pair is dear: whole rows would take too long."""
    _time_pairs(scorer, rule, 2, rng)  # compile and warm up
    wanted, done, seconds = 1, 0, 0.0
    while seconds < _SAMPLE_SECONDS and done < rule.count:
        taken, found = _time_pairs(scorer, rule, wanted, rng)
        done, seconds, wanted = done + found, seconds + taken, 2 * wanted
    resident = int(psutil.Process().memory_info().rss)
    own = _thread_bytes(scorer, rule.num_nodes, positives)
    each = seconds / max(1, done)
    return Forecast(
        pairs=rule.count,
        near_pairs=None,
        seconds=_START_SECONDS + each * (rule.count + positives) / workers,
        peak_bytes=resident + workers * own,
        resident_bytes=resident,
        threads=workers,
    )


def _time_pairs(
    scorer: Any, rule: Candidates, rows: int, rng: np.random.Generator
) -> tuple[float, int]:
    """Return the time of some pairs of rows, drawn as often as pairs have them."""
    if isinstance(rule, ListedPairs):
        chosen = rng.integers(0, len(rule.pairs), size=rows * _ROW_PAIRS)
        pairs = rule.pairs[chosen]
    else:
        n = rule.num_nodes
        ends = rng.integers(0, n, size=(rows, 2))
        sources = np.repeat(ends.min(axis=1), _ROW_PAIRS)
        pairs = np.stack([sources, rng.integers(0, n, size=len(sources))], axis=1)
        pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    started = time.perf_counter()
    score_pairs(scorer, pairs, rule.num_nodes)
    return time.perf_counter() - started, len(pairs)


def _seconds(row_pass: _RowPass, rows: IntArray) -> tuple[float, int]:
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


class _RowPass:
    """Score and count rows as the real pass does; returns the pairs visited."""

    def __init__(
        self, scorer: Any, rule: Candidates, positives: int, rng: np.random.Generator
    ) -> None:
        self.scorer, self.rule = scorer, rule
        n = rule.num_nodes
        drawn = rng.integers(0, max(n, 1), size=(min(positives, 64), 2))
        scores = score_pairs(scorer, drawn[drawn[:, 0] != drawn[:, 1]], n)
        # Thresholds as many as there will be, spread over the scores of a few pairs.
        spread = rng.choice(scores, positives) if len(scores) else np.zeros(1)
        noise = rng.uniform(0.5, 1.5, size=spread.shape)
        thresholds = np.unique(spread * noise)
        self.table = counting.threshold_table(thresholds)
        self.bins = np.zeros(2 * len(thresholds) + 1, dtype=np.int64)
        self.classes = FarClasses.of(scorer.far) if has_near_pairs(scorer) else None

    def __call__(self, rows: IntArray) -> int:
        if isinstance(self.rule, ListedPairs):
            own = self.rule.pairs[np.isin(self.rule.pairs[:, 0], rows)]
            score_pairs(self.scorer, own, self.rule.num_nodes)
            return len(own)
        return self._all_pairs(rows, self.rule)

    def _all_pairs(self, rows: IntArray, rule: AllPairs) -> int:
        known = candidate_rule(rule)
        if self.classes is not None:
            rest = (self.classes, self.table, self.bins)
            return count_near(self.scorer, rows, known, *rest)
        upper = not rule.directed
        scores = checked_rows(self.scorer, rows, rule.num_nodes, upper=upper)
        counting.count_dense(rows, scores, *known, self.table, self.bins)
        return 0
