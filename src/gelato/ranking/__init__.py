"""Rank pairs exactly: scorers, candidate rules, counts, metrics, best links."""

from gelato.ranking.best import ScoredPairs, best_candidates, best_per_node
from gelato.ranking.candidates import (
    AllPairs,
    Candidates,
    ListedPairs,
    all_pairs,
    between,
    listed,
    within_hops,
)
from gelato.ranking.counts import RankCounts, rank_counts
from gelato.ranking.estimate import Estimate, estimate_ranking
from gelato.ranking.evaluate import Evaluation, evaluate
from gelato.ranking.journal import Journal
from gelato.ranking.pair_scores import score_pairs
from gelato.ranking.scorers import ClosedForm, RowScorer, WalkScorer

__all__ = [
    "AllPairs",
    "Candidates",
    "ClosedForm",
    "Estimate",
    "Evaluation",
    "Journal",
    "ListedPairs",
    "RankCounts",
    "RowScorer",
    "ScoredPairs",
    "WalkScorer",
    "all_pairs",
    "best_candidates",
    "best_per_node",
    "between",
    "estimate_ranking",
    "evaluate",
    "listed",
    "rank_counts",
    "score_pairs",
    "within_hops",
]
