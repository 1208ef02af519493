"""How positives stand in the lists of their own nodes, counted in the global pass.

The list of a node holds all candidates with it, best first. An undirected pair is in
the lists of both its ends, a directed one in that of its source. Only the scores of a
node's positives matter: per node there are as many thresholds, so that memory grows
with the positives and the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gelato.errors import UsageError
from gelato.graph import FloatArray, IntArray
from gelato.kernels import counting
from gelato.ranking.candidates import AllPairs, Candidates
from gelato.ranking.near import Tally
from gelato.ranking.scorers import ClosedForm


@dataclass(frozen=True, eq=False)
class NodeRanks:
    """Two counts per positive of a node, by distinct score: nodes in order, best first.

    Parameters
    ----------
    nodes : (g,) int64
        Whose list.
    positives : (g,) int64
        Positives of the node with this score.
    above, tied : (g,) int64
        Negatives of its list that score above, and that tie.
    entries : (q, 2) int64
        For every positive in every list it is in: which positive, and which of the g.
    """

    nodes: IntArray
    positives: IntArray
    above: IntArray
    tied: IntArray
    entries: IntArray

    @cached_property
    def before(self) -> IntArray:
        """Places of the list before each group of equals."""
        better = within(self.nodes, self.positives) - self.positives
        return self.above + better


@dataclass(frozen=True, eq=False)
class NodeLists:
    """The lists that are counted: thresholds of nodes with positives.

    Parameters
    ----------
    rule : AllPairs
        What is ranked.
    starts : (n + 1,) int64
        Extents of the nodes' thresholds.
    thresholds : (g,) float64
        Distinct scores of a node's positives, ascending.
    positives : (g,) int64
        How many have it.
    entries : (q, 2) int64
        Which positive stands at which threshold.
    """

    rule: AllPairs
    starts: IntArray
    thresholds: FloatArray
    positives: IntArray
    entries: IntArray

    @classmethod
    def of(cls, positives: IntArray, scores: FloatArray, rule: Candidates) -> NodeLists:
        """Return the lists of some positives, given with their scores."""
        if not isinstance(rule, AllPairs):
            raise UsageError(
                "The lists of single nodes are ranked among all pairs, not among "
                "listed ones.",
                hint="Leave out per_node, or the candidates.",
            )
        ends = positives[:, :1] if rule.directed else positives
        nodes, which = ends.T.ravel(), np.tile(np.arange(len(ends)), ends.shape[1])
        values = scores[which]
        order = np.lexsort((values, nodes))
        nodes, values, which = nodes[order], values[order], which[order]
        new = np.ones(len(nodes), dtype=bool)
        new[1:] = (np.diff(nodes) != 0) | (np.diff(values) != 0)
        place = np.cumsum(new) - 1
        sizes = np.bincount(nodes[new], minlength=rule.num_nodes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.stack([which, place], axis=1)
        return cls(rule, starts, values[new], np.bincount(place), entries)

    @property
    def size(self) -> int:
        """How many counts there are."""
        return 2 * len(self.thresholds)

    def tally(self, counts: IntArray) -> Tally:
        """Return what kernels count into."""
        return *self._heads, self.thresholds, counts

    @cached_property
    def _heads(self) -> tuple[FloatArray, Any]:
        """The smallest threshold of every node, and extents in half the memory."""
        least = np.full(self.rule.num_nodes, np.inf)
        filled = np.diff(self.starts) > 0
        least[filled] = self.thresholds[self.starts[:-1][filled]]
        return least, self.starts.astype(np.int32)

    def far_counts(self, far: ClosedForm) -> IntArray:
        """Count as if every candidate had its closed-form score."""
        counts = np.zeros(self.size, dtype=np.int64)
        tally = self.tally(counts)
        left, right = self.rule.masks
        listed = np.diff(self.starts) > 0
        for sides in ((True, True), (True, False), (False, True)):
            nodes = np.flatnonzero(listed & (left == sides[0]) & (right == sides[1]))
            partners = right & sides[0]
            if not self.rule.directed:
                partners = partners | (left & sides[1])
            values, often = np.unique(far.right[partners], return_counts=True)
            if far.scale < 0:
                values, often = values[::-1].copy(), often[::-1]
            totals = np.concatenate([[0], np.cumsum(often)]).astype(np.int64)
            form = (float(far.scale), far.left, values, totals)
            counting.tally_products(nodes, *form, tally)
            itself = nodes[partners[nodes]]
            counting.tally_scores(itself, far.at(itself, itself), -1, tally)
        known = self.rule.excluded_here
        for at in (0,) if self.rule.directed else (0, 1):
            scores = far.at(known[:, 0], known[:, 1])
            counting.tally_scores(known[:, at].copy(), scores, -1, tally)
        return counts

    def ranks(self, counts: IntArray) -> NodeRanks:
        """Return what counts over all candidates, positives included, tell."""
        tied, between = counts[0::2] - self.positives, counts[1::2]
        # From the best of a node downwards; what is below ends with the node.
        nodes = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        order = np.lexsort((-np.arange(len(nodes)), nodes))
        tied, between, positives = tied[order], between[order], self.positives[order]
        above = within(nodes, between + tied) - tied
        place = np.argsort(order)[self.entries[:, 1]]
        entries = np.stack([self.entries[:, 0], place], axis=1)
        return NodeRanks(nodes, positives, above, tied, entries)


def within(nodes: IntArray, values: IntArray) -> IntArray:
    """Return running sums that begin anew with every node."""
    if not len(values):
        return values
    total = np.cumsum(values)
    first = np.flatnonzero(np.r_[True, np.diff(nodes) != 0])
    before = total[first] - values[first]
    sums: IntArray = total - np.repeat(before, np.diff(np.r_[first, len(nodes)]))
    return sums
