"""How many links like a given one to expect to be true, from held-out edges.

Scores of two graphs cannot be compared (their scale moves with the number of edges),
ranks can: the best thousandth of all candidates now is read against the best
thousandth of all candidates in validation, where it is known which pairs were edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError
from gelato.graph import FloatArray, Graph, IntArray, canonical_pairs, find_pairs
from gelato.ranking import candidates, rank_counts, score_pairs
from gelato.ranking.candidates import AllPairs, Candidates
from gelato.ranking.counts import RankCounts
from gelato.ranking.scorers import RowScorer, as_scorer
from gelato.splits import EdgeSplit, split_edges
from gelato.text import plural

# Fewer found edges than this tell no share worth quoting: so many make a band of ranks.
LEAST_FOUND = 5
_Z = 1.96  # of a 95 % interval
# Where fewer validation edges are at hand, others are held out in their turn.
_ENOUGH, _MOST_TURNS = 200, 10
# How many links are supposed to be missing, as a share of the known edges: one for
# every ten. Nobody knows; one figure for all lists makes them comparable.
MISSING_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class PrecisionCurve:
    """The share of true links by rank, a falling staircase.

    Parameters
    ----------
    bounds : (k,) float64
        Ranks among the validation candidates at which steps end, ascending; the last
        is the number of candidates.
    share, low, high : (k,) float64
        Of the candidates on a step, how many in 1 are true, with a 95 % interval.
    """

    bounds: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def num_candidates(self) -> int:
        """How many candidates were ranked in validation."""
        return int(self.bounds[-1])

    def at(self, ranks: npt.ArrayLike, num_candidates: int) -> FloatArray:
        """Return the share of true links among candidates ranked like these.

        Parameters
        ----------
        ranks : (q,) int
            How many candidates of another list score at least as high.
        num_candidates : int
            How many candidates that list has; ranks are compared as shares of it.

        Returns
        -------
        (3, q) float64
            The share, and the ends of its interval.
        """
        here = np.asarray(ranks, dtype=np.float64) / num_candidates * self.bounds[-1]
        step = np.minimum(np.searchsorted(self.bounds, here), len(self.bounds) - 1)
        return np.stack([self.share[step], self.low[step], self.high[step]])

    def up_to(self, ranks: npt.ArrayLike, num_candidates: int) -> FloatArray:
        """Return the share of true links among all candidates down to these ranks."""
        here = np.asarray(ranks, dtype=np.float64) / num_candidates * self.bounds[-1]
        sizes = np.diff(self.bounds, prepend=0.0)
        ends = np.concatenate(([0.0], self.bounds))
        found = np.concatenate(([0.0], np.cumsum(self.share * sizes)))
        whole: FloatArray = np.interp(here, ends, found) / here
        return whole


def precision_curve(
    counts: RankCounts,
    *,
    hidden: float | None = None,
    supposed: float | None = None,
) -> PrecisionCurve:
    """Return the precision to expect at every rank, from a ranking of held-out edges.

    The ranks are cut into bands of five held-out edges each (equal scores are never
    cut), and neighbouring bands pooled until the share of true links falls with the
    rank (isotonic regression). Intervals are Wilson's, of the pairs in a step.

    Parameters
    ----------
    counts : RankCounts
        How the held-out edges rank among all pairs that were not known.
    hidden : float, optional
        How many links the candidates hold in truth, where only some are positives and
        the others counted as misses. Default: the positives.
    supposed : float, optional
        How many links another graph is supposed to lack. Default: as many.

    Notes
    -----
    What it estimates: the share of true links among candidates ranked like this one,
    in a graph that lacks ``supposed`` links. A graph that lacks twice as many has twice
    the odds at every rank, one that lacks nothing has none; and true links that nobody
    has recorded counted as misses here, so that the figure is low rather than high for
    the graph that it was measured on.
    """
    positives = counts.num_positives
    if positives == 0:
        raise InputError(
            "There are no positives to rank.",
            hint="The held-out part is empty: hold out a larger share of the edges.",
        )
    hidden = positives if hidden is None else hidden
    odds = 1.0 if supposed is None else supposed / hidden
    found: IntArray = np.cumsum(counts.positives)
    at_least = found + counts.above + counts.tied
    goals = LEAST_FOUND * np.arange(1, positives // LEAST_FOUND)
    cuts = np.unique(np.searchsorted(found, goals))
    # The last band goes on to the last candidate: what is left is to be found there.
    cuts = cuts[found[cuts] < positives]
    bounds = np.append(at_least[cuts], positives + counts.num_negatives).astype(float)
    hits = np.diff(np.append(found[cuts], positives), prepend=0).astype(float)
    sizes = np.diff(bounds, prepend=0.0)
    pooled = _non_increasing(hits / sizes, sizes)
    first = np.flatnonzero(np.diff(pooled, prepend=np.inf))
    hits, sizes = (np.add.reduceat(values, first) for values in (hits, sizes))
    share = hits / sizes
    limits = (
        np.minimum(1.0, hidden / positives * x) for x in (share, *_wilson(share, sizes))
    )
    # More links among as many others: so many times the odds.
    scaled = (odds * x / (1.0 + (odds - 1.0) * x) for x in limits)
    return PrecisionCurve(np.cumsum(sizes), *scaled)


def expected_curve(counts: RankCounts, split: EdgeSplit) -> PrecisionCurve:
    """Return the precision to expect if one link is missing per ten known edges.

    Parameters
    ----------
    counts : RankCounts
        How validation edges rank, of the split and of others of its kind; test edges
        counted as misses.
    split : EdgeSplit
        Which edges were held out.
    """
    held_out = (len(split.valid) + len(split.test)) / len(split.valid)
    positives = counts.num_positives
    supposed = missing_links(split, positives)
    return precision_curve(counts, hidden=held_out * positives, supposed=supposed)


def pooled(parts: Sequence[RankCounts]) -> RankCounts:
    """Return the counts of several lists as those of one list of all candidates.

    Candidates of equal rank come together: each list gives as many of them.
    """
    if len(parts) == 1:
        return parts[0]
    ranks = [np.cumsum(part.positives) + part.above + part.tied for part in parts]
    often = np.concatenate([part.positives for part in parts])
    distinct, place = np.unique(np.concatenate(ranks), return_inverse=True)
    positives = np.bincount(place, weights=often).astype(np.int64)
    found = np.cumsum(positives)
    negatives = sum(part.num_negatives for part in parts)
    above = len(parts) * distinct - found
    return RankCounts(-distinct, positives, above, np.zeros_like(found), negatives)


def _wilson(share: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a 95 % interval of shares of so many."""
    square = _Z**2 / sizes
    middle = (share + square / 2) / (1 + square)
    spread = np.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    # At a share of 0 or 1 rounding must not put it outside its own interval.
    low = np.clip(middle - spread, 0.0, share)
    return low, np.clip(middle + spread, share, 1.0)


def _non_increasing(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the non-increasing values nearest to given ones (weighted squares)."""
    means: list[float] = []
    sizes: list[float] = []
    lengths: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, size, length = value, weight, 1
        while means and means[-1] < mean:
            total = sizes[-1] + size
            mean = (means.pop() * sizes[-1] + mean * size) / total
            size, length = size + sizes.pop(), length + lengths.pop()
        means.append(mean)
        sizes.append(size)
        lengths.append(length)
    return np.repeat(means, lengths)


def ranks_at_least(counts: RankCounts, scores: FloatArray) -> IntArray:
    """Return how many candidates score at least as high as each of given scores.

    ``scores`` must be among the positive scores that were counted.
    """
    at_least = np.cumsum(counts.positives) + counts.above + counts.tied
    ascending = counts.scores[::-1]
    place = np.searchsorted(ascending, scores)
    found: IntArray = at_least[::-1][place].astype(np.int64)
    return found


@dataclass(eq=False)
class Validation:
    """A fitted model, and the split whose validation edges it did not see.

    Parameters
    ----------
    model : model, scorer, callable or matrix
        As for :func:`gelato.evaluate`.
    split : EdgeSplit
        What the model was fitted on; only its validation edges are ranked. Where they
        also chose the epoch of a training, they rank a little better than links that
        nobody knows; the note on expected precision says so.
    counts : RankCounts, optional
        How the validation edges rank among all pairs that are not training edges, if
        that has been counted; else it is filled in when it is.
    """

    model: Any
    split: EdgeSplit
    counts: RankCounts | None = None

    @property
    def turns(self) -> int:
        """How often as many edges are to be held out, for enough of them in all."""
        if self.split.kind != "random" or not self.model.learns_nothing:
            return 1
        return min(_MOST_TURNS, max(1, -(-_ENOUGH // len(self.split.valid))))

    def other_splits(self) -> Iterator[EdgeSplit]:
        """Yield splits that hold out other edges, as many; turns but for the first."""
        graph = self.split.graph
        parts = {"valid": self.split.valid, "test": self.split.test}
        # Half an edge more: shares are rounded down.
        shares = {k: (len(v) + 0.5) / graph.num_edges for k, v in parts.items()}
        first = 1 + (self.split.seed or 0)
        for seed in range(first, first + self.turns - 1):
            yield split_edges(graph, seed=seed, **shares)

    def rank(self, positives: IntArray, rule: Candidates, *, whole: bool) -> RankCounts:
        """Rank validation edges; ``whole`` if all of them among all pairs."""
        if whole and self.counts is not None:
            return self.counts
        before = as_scorer(self.model, self.split.train_graph)
        counts = rank_counts(before, positives, rule)
        if whole:
            self.counts = counts
        return counts

    def lists(
        self, positives: IntArray, rule: Candidates, scope: Scope
    ) -> list[RankCounts]:
        """Rank validation edges, and those of other splits where these are few."""
        found = [self.rank(positives, rule, whole=scope.is_open)]
        for other in self.other_splits():
            elsewhere = scope.of_validation(other)
            assert elsewhere is not None
            inside = other.valid[elsewhere.contains(other.valid)]
            if len(inside):
                scorer = as_scorer(self.model, other.train_graph)
                found.append(rank_counts(scorer, inside, elsewhere))
        return found


@dataclass(frozen=True, eq=False)
class Scope:
    """A rule for candidates that can be applied to any set of known edges.

    Parameters
    ----------
    exclude : (k, 2) int64
        Pairs that are never candidates.
    between : (indices, indices), optional
        The two sides of a bipartite rule.
    within_hops : int, optional
        The largest distance of the two nodes.
    given : Candidates, optional
        A finished rule for the known edges.
    """

    exclude: IntArray
    between: tuple[IntArray, IntArray] | None = None
    within_hops: int | None = None
    given: Candidates | None = None

    @property
    def is_open(self) -> bool:
        """Whether every pair that is not known is a candidate."""
        limits = (self.between, self.within_hops, self.given)
        return not len(self.exclude) and all(limit is None for limit in limits)

    def rule(self, graph: Graph, known: IntArray) -> Candidates | None:
        """Return the candidates when the edges of a graph are known.

        None where a finished list of candidates cannot be carried over to fewer known
        edges, because it never held the others.
        """
        hidden = np.concatenate([known, self.exclude])
        if self.given is not None:
            return self._of_given(graph, hidden)
        if self.between is not None:
            return candidates.between(graph, *self.between, hidden)
        if self.within_hops is not None:
            return candidates.within_hops(graph, self.within_hops, hidden)
        return candidates.all_pairs(graph, hidden)

    def of_validation(self, split: EdgeSplit) -> Candidates | None:
        """Return the candidates when only the training edges are known."""
        if self.given is None:
            return self.rule(split.train_graph, split.train)
        if not isinstance(self.given, AllPairs):
            return None
        barred, graph = self.given.excluded, split.graph
        unknown = find_pairs(graph.edges, barred, graph.num_nodes) < 0
        hidden = np.concatenate([split.train, barred[unknown], self.exclude])
        return replace(
            self.given, excluded=candidates.all_pairs(graph, hidden).excluded
        )

    def _of_given(self, graph: Graph, hidden: IntArray) -> Candidates:
        assert self.given is not None
        if not len(self.exclude):
            return self.given
        if isinstance(self.given, AllPairs):
            barred = np.concatenate([self.given.excluded, hidden])
            merged = candidates.all_pairs(graph, barred).excluded
            return replace(self.given, excluded=merged)
        return candidates.listed(graph, self.given.pairs, hidden)


def expect(
    scorer: RowScorer,
    graph: Graph,
    pairs: IntArray,
    scope: Scope,
    validation: Validation | None,
) -> tuple[FloatArray | None, str]:
    """Return the expected precision of pairs with its interval, and where it is from.

    Two exact counts: how the validation edges ranked when only the training edges were
    known, and how many candidates score at least as high as each pair now. NaN for
    pairs that are not candidates; None, with the reason, where nothing can be told.
    """
    if validation is None:
        return None, (
            "expected_precision is empty: the model held out no validation edges; hold "
            "some out when it is fitted (valid=0.05, on the command line --valid 0.05)"
        )
    split = validation.split
    rule = scope.of_validation(split)
    if rule is None:
        return None, (
            "expected_precision is empty: the candidates are a list made from all "
            "known edges, which leaves no validation edges to rank among them"
        )
    positives = split.valid[rule.contains(split.valid)]
    if not len(positives):
        return None, (
            "expected_precision is empty: none of the "
            f"{len(split.valid):,} validation edges is a candidate"
        )
    lists = validation.lists(positives, rule, scope)
    counts = pooled(lists)
    curve = expected_curve(counts, split)
    here = scope.rule(graph, graph.edges)
    assert here is not None
    expected = np.full((3, len(pairs)), np.nan)
    canonical = canonical_pairs(pairs, directed=graph.directed)
    inside = here.contains(canonical)
    if inside.any():
        ranks = _overall_ranks(scorer, here, canonical[inside])
        expected[:, inside] = curve.at(ranks, here.count)
    trained = validation.model.training_ is not None
    return expected, _source_note(counts.num_positives, len(lists), trained=trained)


def missing_links(split: EdgeSplit, positives: int) -> float:
    """Return how many links are supposed to be missing, where so many were ranked.

    All validation edges stand for one missing link per ten known edges, whatever share
    of the edges they are; some of them stand for their part of it.
    """
    return MISSING_SHARE * split.graph.num_edges * positives / len(split.valid)


def _overall_ranks(scorer: RowScorer, rule: Candidates, pairs: IntArray) -> IntArray:
    """Return how many candidates score at least as high as each pair."""
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
    counts = rank_counts(scorer, distinct, rule)
    scores = score_pairs(scorer, distinct, rule.num_nodes)
    return ranks_at_least(counts, scores)[inverse.ravel()]


def _source_note(ranked: int, turns: int, *, trained: bool) -> str:
    held_out = f" in {turns} turns" if turns > 1 else ""
    few = ", few: a rough guide" if ranked < 100 else ""
    epoch = "; they also chose the epoch, so it is a little high" if trained else ""
    return (
        "expected_precision: the share of true links among pairs ranked like "
        f"this one, with a 95 % interval, if {MISSING_SHARE:.0%} of the links are "
        f"missing (from the ranks of {plural(ranked, 'validation edge')}{held_out}"
        f"{few}{epoch})"
    )
