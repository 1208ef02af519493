"""What an estimated ranking rests on, and how far it may be from the exact one.

Counts of negatives above a positive, and with them AUC, are unbiased; average
precision is a ratio of counts, and nearly so. Intervals speak of the sampling alone:
another split of the edges would move the exact result, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import UsageError
from gelato.graph import FloatArray, Graph, IntArray, find_pairs, pair_keys
from gelato.kernels import counting
from gelato.kernels.chunks import derive_key
from gelato.ranking import metrics
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.counts import (
    RankCounts,
    above_and_tied,
    candidate_rule,
    listed_spans,
    ranking_identity,
)
from gelato.ranking.journal import Journal, Progress, sum_spans
from gelato.ranking.pair_scores import score_in_order, score_pairs
from gelato.ranking.scorers import RowScorer, row_spans

NEAR_HOPS = 2
"""Pairs at most so many edges apart are near, and all of them are scored."""
LEVEL = 0.95
"""Confidence of the intervals."""

_DRAWS = 400
_CELLS = 1_000_000  # counts that are drawn at once


@dataclass(frozen=True, eq=False)
class Estimate:
    """What an estimate rests on, and how far it may be from the exact result.

    Parameters
    ----------
    rate : float
        Share of the far negatives that was asked for.
    seed : int
        Drew them.
    far_pairs : int
        Far negatives in all.
    thresholds : (t,) float64
        Distinct scores of the positives, ascending.
    positives : (t,) int64
        How many positives have each.
    near, sampled : (2t + 1,) int64
        Near and sampled negatives by bin, as :mod:`gelato.kernels.counting` has them.
    """

    rate: float
    seed: int
    far_pairs: int
    thresholds: FloatArray
    positives: IntArray
    near: IntArray
    sampled: IntArray

    @property
    def near_pairs(self) -> int:
        """Near negatives, all of which were scored."""
        return int(self.near.sum())

    @property
    def sampled_pairs(self) -> int:
        """Far negatives that were scored."""
        return int(self.sampled.sum())

    @cached_property
    def counts(self) -> RankCounts:
        """Estimated counts; fractions, since a sampled pair stands for several."""
        weight = self.far_pairs / max(1, self.sampled_pairs)
        return self._counts(weight * self.sampled)

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Interval of every measure of :func:`gelato.ranking.metrics.measures`.

        It holds the exact result of the same model on the same split with 95 %
        confidence. What was not scored is drawn again and again from what was (the
        Bayesian bootstrap of a finite population). The lower limit takes one more
        far pair as seen above every positive, as the exact interval of a count does:
        that nothing was seen there does not prove that nothing is there.
        """
        found = {k: float(v) for k, v in metrics.measures(self.counts).items()}
        if self.sampled_pairs == self.far_pairs:
            return {name: (value, value) for name, value in found.items()}
        worse = self.sampled.copy()
        worse[-1] += 1
        rest = (1 - LEVEL) / 2
        low, high = self._drawn(worse), self._drawn(self.sampled)
        return {
            name: (
                min(value, float(np.quantile(low[name], rest))),
                max(value, float(np.quantile(high[name], 1 - rest))),
            )
            for name, value in found.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain data."""
        return {
            "rate": self.rate,
            "seed": self.seed,
            "near_hops": NEAR_HOPS,
            "near_pairs": self.near_pairs,
            "far_pairs": self.far_pairs,
            "sampled_pairs": self.sampled_pairs,
            "level": LEVEL,
            "intervals": {name: list(found) for name, found in self.intervals.items()},
        }

    def _drawn(self, seen: IntArray) -> dict[str, FloatArray]:
        """Return measures with the far pairs that were not scored drawn from ``seen``.

        Shares follow a Dirichlet distribution, the pairs a multinomial one.
        """
        rng = np.random.default_rng([self.seed, self.far_pairs])
        unseen = self.far_pairs - self.sampled_pairs
        held = np.flatnonzero(seen)
        at_once = max(1, _CELLS // len(seen))
        values: dict[str, list[FloatArray]] = {}
        for first in range(0, _DRAWS, at_once):
            times = min(at_once, _DRAWS - first)
            far = np.repeat(self.sampled[None], times, axis=0)
            far[:, held] += rng.multinomial(unseen, rng.dirichlet(seen[held], times))
            for name, drawn in metrics.measures(self._counts(far)).items():
                values.setdefault(name, []).append(drawn)
        return {name: np.concatenate(found) for name, found in values.items()}

    def _counts(self, far: Any) -> RankCounts:
        above, tied = above_and_tied(self.near + far)
        return RankCounts(
            scores=self.thresholds[::-1],
            positives=self.positives[::-1],
            above=above,
            tied=tied,
            num_negatives=self.near_pairs + self.far_pairs,
        )


_PIECES = 512


def estimate_ranking(
    scorer: RowScorer,
    positives: IntArray,
    candidates: Candidates,
    graph: Graph,
    rate: float,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    journal: Journal | None = None,
) -> Estimate:
    """Estimate how positives rank among candidates.

    Parameters
    ----------
    scorer : RowScorer
        What scores pairs; one that scores given pairs by itself
        (:class:`~gelato.ranking.scorers.HalfScorer`) is spared all others.
    positives : (p, 2) int64
        Canonical pairs, all of them candidates.
    candidates : Candidates
        What is ranked.
    graph : Graph
        The known edges, which make pairs near.
    rate : float
        Share of the far negatives to score, above 0 and at most 1.
    seed : int
        Draws them.
    progress, journal
        As for :func:`gelato.ranking.rank_counts`.
    """
    check_rate(rate)
    scores = score_pairs(scorer, positives, candidates.num_nodes)
    thresholds, positive_counts = np.unique(scores, return_counts=True)
    work = EstimateWork.of(scorer, positives, candidates, graph, rate, seed, thresholds)
    identity = ""
    if journal is not None:
        kind = f"estimate {rate!r} {seed}"
        near = (work.ahead[0], work.ahead[1])
        identity = ranking_identity(kind, positives, scores, candidates, *near)
    size = 2 * len(thresholds) + 1
    counted = sum_spans(
        count_span,
        work,
        work.spans(),
        2 * size + 1,
        journal=journal,
        identity=identity,
        progress=progress,
    )
    found = Estimate(
        rate,
        seed,
        int(counted[-1]),
        thresholds,
        positive_counts.astype(np.int64),
        counted[:size],
        counted[size:-1],
    )
    if found.far_pairs and not found.sampled_pairs:
        raise UsageError(
            f"An estimate at a rate of {rate:g} draws none of {found.far_pairs:,} "
            "pairs.",
            hint=f"Take a larger rate, such as {min(1.0, 1000 / found.far_pairs):.2g}.",
        )
    return found


def check_rate(rate: float) -> None:
    """Refuse a rate that is no share."""
    if not 0 < rate <= 1:
        raise UsageError(
            f"An estimate needs a rate above 0 and at most 1, not {rate:g}.",
            hint="For example 0.01: one in a hundred of the pairs that are not near.",
        )


@dataclass(frozen=True, eq=False)
class EstimateWork:
    """What counting needs apart from rows, put in place once per worker."""

    scorer: Any
    negatives: Candidates
    ahead: tuple[Any, Any]
    draw: tuple[Any, Any]
    rate: float
    table: tuple[Any, ...]
    num_bins: int

    @classmethod
    def of(
        cls,
        scorer: RowScorer,
        positives: IntArray,
        candidates: Candidates,
        graph: Graph,
        rate: float,
        seed: int,
        thresholds: FloatArray,
    ) -> EstimateWork:
        """Prepare the work: negatives alone, edges as lists, thresholds as a table."""
        edges = sp.csr_array(graph.adjacency)
        return cls(
            scorer,
            without_positives(candidates, positives),
            (edges.indptr.astype(np.int64), edges.indices.astype(np.int64)),
            (derive_key(seed, candidates.num_nodes), counting.draw_limit(rate)),
            rate,
            counting.threshold_table(thresholds),
            2 * len(thresholds) + 1,
        )

    def spans(self) -> list[IntArray]:
        """Return pieces of work of about equal cost: rows, or listed pairs."""
        if isinstance(self.negatives, ListedPairs):
            return listed_spans(self.negatives.pairs)
        rows, (indptr, indices) = self.negatives.rows, self.ahead
        degrees = np.diff(indptr)
        walks = np.concatenate(([0], np.cumsum(degrees[indices])))
        reached = degrees + walks[indptr[1:]] - walks[indptr[:-1]]
        near = np.minimum(reached[rows], self.negatives.num_nodes)
        drawn = round(self.rate * self.negatives.num_nodes)
        return list(row_spans(rows, near + drawn + 1, pieces=_PIECES))

    def chosen(self, span: IntArray) -> tuple[IntArray, Any, int]:
        """Return the pairs of a span to score, which are near, and how many are far."""
        if isinstance(self.negatives, AllPairs):
            rule = candidate_rule(self.negatives)
            return counting.draw_rows(span, rule, self.ahead, self.draw)  # type: ignore[no-any-return]
        n = self.negatives.num_nodes
        kept, near = counting.draw_listed(span, n, self.ahead, self.draw)
        return span[kept], near[kept], int(np.count_nonzero(~near))


def count_span(work: EstimateWork, span: IntArray) -> tuple[IntArray, int]:
    """Count a span: bins of near pairs, of sampled ones, and far pairs in all; rows."""
    pairs, near, far = work.chosen(span)
    scores = score_in_order(work.scorer, pairs, work.negatives.num_nodes)
    counted = np.zeros(2 * work.num_bins + 1, dtype=np.int64)
    near_bins, far_bins = counted[: work.num_bins], counted[work.num_bins : -1]
    counting.count_scores(scores[near], work.table, near_bins, 1)
    counting.count_scores(scores[~near], work.table, far_bins, 1)
    counted[-1] = far
    return counted, len(span)


def without_positives(candidates: Candidates, positives: IntArray) -> Candidates:
    """Return a rule whose candidates are the negatives of another."""
    n = candidates.num_nodes
    order = np.argsort(pair_keys(positives, n))
    if isinstance(candidates, ListedPairs):
        found = find_pairs(positives[order], candidates.pairs, n) >= 0
        return replace(candidates, pairs=candidates.pairs[~found])
    barred = np.concatenate([candidates.excluded, positives])
    return replace(candidates, excluded=barred[np.argsort(pair_keys(barred, n))])
