"""What ranking does with a few rows, to see what all of them will cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from gelato.graph import Graph, IntArray
from gelato.kernels import counting
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.counts import candidate_rule
from gelato.ranking.estimating import EstimateWork, count_span
from gelato.ranking.near_pass import FarClasses, count_near
from gelato.ranking.pair_scores import score_pairs, scores_pairs
from gelato.ranking.scorers import checked_rows, has_near_pairs

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
        self.classes = FarClasses.of(scorer.far) if self.near else None

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
            rest = (self.classes, self.table, self.bins)
            return count_near(self.scorer, rows, known, *rest)
        upper = not rule.directed
        scores = checked_rows(self.scorer, rows, rule.num_nodes, upper=upper)
        counting.count_dense(rows, scores, *known, self.table, self.bins)
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
