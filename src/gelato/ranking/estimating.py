"""Rank where scoring every pair is too dear: near pairs exactly, the rest by sample.

Pairs at most two edges apart among the known edges, where nearly all high scores are,
and all positives are scored one by one. Of the other negatives a uniform sample is
scored, and each of it stands for several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import UsageError
from gelato.graph import FloatArray, Graph, IntArray, find_pairs, pair_keys
from gelato.kernels import counting, sampled_pairs
from gelato.kernels.random_bits import derive_key
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.counts import candidate_rule, listed_spans, ranking_identity
from gelato.ranking.estimate import Estimate
from gelato.ranking.journal import Journal, Progress, sum_spans
from gelato.ranking.pair_scores import score_in_order, score_pairs
from gelato.ranking.scorers import RowScorer, row_spans

_PIECES = 512


def estimate_ranking(
    scorer: RowScorer,
    positives: IntArray,
    candidates: Candidates,
    graph: Graph,
    rate: float,
    *,
    seed: int = 0,
    threads: int | None = None,
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
    threads, progress, journal
        As for :func:`gelato.ranking.rank_counts`.
    """
    check_rate(rate)
    scores = score_pairs(scorer, positives, candidates.num_nodes, threads=threads)
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
        threads=threads,
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
            (derive_key(seed, candidates.num_nodes), sampled_pairs.draw_limit(rate)),
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
            return sampled_pairs.draw_rows(span, *rule, self.ahead, self.draw)  # type: ignore[no-any-return]
        n = self.negatives.num_nodes
        kept, near = sampled_pairs.draw_listed(span, n, self.ahead, self.draw)
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
