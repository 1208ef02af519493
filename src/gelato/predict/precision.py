"""Which share of a list of links to expect to be true, from held-out edges.

Scores of two graphs cannot be compared (their scale moves with the number of edges),
ranks can: the best thousandth of all candidates now is read against the best
thousandth of all candidates in validation, where it is known which pairs were edges.
Nothing here says how likely one single link is.
"""

from __future__ import annotations

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
from gelato.splits import EdgeSplit
from gelato.text import plural

# Fewer found edges than this give no share worth quoting, so the best ranks share one.
LEAST_FOUND = 10
# How many links are supposed to be missing, as a share of the known edges: one for
# every ten. Nobody knows; one figure for all lists makes them comparable.
MISSING_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class PrecisionCurve:
    """Precision among all candidates ranked at least as high, never rising.

    Parameters
    ----------
    ranks : (k,) float64
        Ranks among the validation candidates, ascending.
    precision : (k,) float64
        Precision among the candidates up to each rank, in [0, 1], non-increasing.
    num_candidates : int
        How many candidates were ranked in validation.
    found : float
        True links among all of them, as the curve counts them.
    """

    ranks: FloatArray
    precision: FloatArray
    num_candidates: int
    found: float

    def at(self, ranks: npt.ArrayLike, num_candidates: int) -> FloatArray:
        """Return the expected precision at ranks of another list.

        Parameters
        ----------
        ranks : (q,) int
            How many candidates of that list score at least as high.
        num_candidates : int
            How many candidates that list has; ranks are compared as shares of it.
        """
        share = np.asarray(ranks, dtype=np.float64) / num_candidates
        here = share * self.num_candidates
        inside = np.interp(here, self.ranks, self.precision)
        # Behind the last found edge there are no more to find.
        behind = here > self.ranks[-1]
        rest = self.found / np.maximum(here, 1.0)
        expected: FloatArray = np.where(behind, np.minimum(inside, rest), inside)
        return expected


def precision_curve(
    counts: RankCounts, *, hidden: float | None = None
) -> PrecisionCurve:
    """Return the precision to expect at every rank, from a ranking of held-out edges.

    Precision is measured where a held-out edge (or a group of tied ones) stands, with
    equal scores taken together, then made non-increasing by pooling adjacent
    violators, each edge counting once. The ranks of the first ten edges are taken
    together: single hits at the top would promise too much.

    Parameters
    ----------
    counts : RankCounts
        How the held-out edges rank among all pairs that were not known.
    hidden : float, optional
        How many links are missing, if not as many as there are positives: precision
        is as many times larger or smaller. Default: as many as the positives.

    Notes
    -----
    What it estimates: the share of true links among the candidates ranked at least
    this high, in a graph that lacks ``hidden`` links. A graph that lacks twice as many
    has about twice the precision, one that lacks nothing has none; and true links that
    nobody has recorded counted as misses here, so that the figure is low rather than
    high for the graph that it was measured on.
    """
    positives = counts.num_positives
    if positives == 0:
        raise InputError(
            "There are no positives to rank.",
            hint="The held-out part is empty: hold out a larger share of the edges.",
        )
    scale = 1.0 if hidden is None else hidden / positives
    found: IntArray = np.cumsum(counts.positives)
    at_least = found + counts.above + counts.tied
    # One observation for the first edges together, then one for every tied group.
    head = int(np.searchsorted(found, min(LEAST_FOUND, positives)))
    weights = np.concatenate(([found[head]], counts.positives[head + 1 :]))
    measured = np.minimum(1.0, scale * found[head:] / at_least[head:])
    return PrecisionCurve(
        ranks=at_least[head:].astype(np.float64),
        precision=_non_increasing(measured, weights.astype(np.float64)),
        num_candidates=positives + counts.num_negatives,
        found=scale * positives,
    )


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

    def rank(self, positives: IntArray, rule: Candidates, *, whole: bool) -> RankCounts:
        """Rank validation edges; ``whole`` if all of them among all pairs."""
        if whole and self.counts is not None:
            return self.counts
        before = as_scorer(self.model, self.split.train_graph)
        counts = rank_counts(before, positives, rule)
        if whole:
            self.counts = counts
        return counts


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
    """Return the expected precision of pairs, and where it comes from.

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
    counts = validation.rank(positives, rule, whole=scope.is_open)
    curve = precision_curve(counts, hidden=missing_links(split, len(positives)))
    here = scope.rule(graph, graph.edges)
    assert here is not None
    expected = np.full(len(pairs), np.nan)
    canonical = canonical_pairs(pairs, directed=graph.directed)
    inside = here.contains(canonical)
    if inside.any():
        ranks = _overall_ranks(scorer, here, canonical[inside])
        expected[inside] = curve.at(ranks, here.count)
    trained = validation.model.training_ is not None
    return expected, _source_note(len(positives), trained=trained)


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


def _source_note(ranked: int, *, trained: bool) -> str:
    few = ", few: a rough guide" if ranked < 100 else ""
    epoch = "; they also chose the epoch, so it is a little high" if trained else ""
    return (
        "expected_precision: the share of true links to expect among all pairs that "
        f"score at least this high, if {MISSING_SHARE:.0%} of the links are missing "
        f"(from the ranks of {plural(ranked, 'validation edge')}{few}{epoch})"
    )
