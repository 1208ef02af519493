"""Candidates by the stack, every other pair below them by autocovariance.

A near scorer: near pairs are those that a walk joins, and the candidates. Everybody
ranks it exactly over all pairs at the cost of autocovariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.graph import FloatArray, IntArray
from gelato.kernels.row_lists import merge_near
from gelato.ranking.scorers import ClosedForm, NearBlock, WalkScorer

LIFT = 64.0
"""Added to the score of candidates: autocovariance is at most 1, so all stand above."""
_STEADY = 20.0


def lifted(scores: FloatArray) -> FloatArray:
    """Return log-odds as scores that stand above every pair that is no candidate.

    The log-odds plus :data:`LIFT`. Below -20 they go on falling, but slower: no two
    become equal, and none reaches the other pairs.
    """
    below = np.minimum(scores + _STEADY, 0.0)
    return LIFT + np.maximum(scores, -_STEADY) - np.log1p(-below)


@dataclass(frozen=True, eq=False)
class StackScorer:
    """Scores of candidates, and autocovariance for all other pairs.

    Parameters
    ----------
    rest : WalkScorer
        Autocovariance on the same graph.
    pairs : (k, 2) int64
        The candidates, u < v, sorted.
    scores : (k,) float64
        Their scores, all above 1.
    trees : (k,) float64, optional
        What the trees alone give them, before anything is mixed in.
    """

    rest: WalkScorer
    pairs: IntArray
    scores: FloatArray
    trees: FloatArray | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.rest.num_nodes

    @property
    def far(self) -> ClosedForm:
        """The score of pairs that no walk joins and that are no candidates."""
        return self.rest.far

    @cached_property
    def _rows(self) -> tuple[Any, Any, Any]:
        """The candidates as CSR, in both directions."""
        u, v = self.pairs.T.astype(np.int32)
        # Pairs are sorted: with the larger nodes' rows first, columns are in order.
        places = (np.concatenate([v, u]), np.concatenate([u, v]))
        both = np.concatenate([self.scores, self.scores])
        shape = (self.num_nodes, self.num_nodes)
        rows = sp.csr_array(sp.coo_array((both, places), shape=shape))
        indices = rows.indices.astype(np.int32, copy=False)
        return rows.indptr.astype(np.int64), indices, rows.data

    @cached_property
    def near_bounds(self) -> IntArray:
        """A bound on the number of near columns of every row."""
        bounds: IntArray = self.rest.near_bounds + np.diff(self._rows[0])
        return bounds

    def near_rows(self, rows: IntArray, *, upper: bool) -> NearBlock:
        """Return the near columns of rows and their scores."""
        rows = np.asarray(rows, dtype=np.int64)
        block = self.rest.near_rows(rows, upper=upper)
        own = int(np.diff(self._rows[0])[rows].sum())
        size = len(block.columns) + own
        indptr = np.empty(len(rows) + 1, dtype=np.int64)
        columns, scores = np.empty(size, dtype=np.int32), np.empty(size)
        near = (block.indptr, block.columns, block.scores)
        merge_near(rows, near, self._rows, upper, (indptr, columns, scores))
        return NearBlock(rows, indptr, columns[: indptr[-1]], scores[: indptr[-1]])

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        rows = np.asarray(rows, dtype=np.int64)
        block = self.near_rows(rows, upper=False)
        scores = self.far.at(rows[:, None], np.arange(self.num_nodes)[None, :])
        return block.spread(scores)

    def find(self, pairs: IntArray) -> IntArray:
        """Return the position of pairs (u < v) among the candidates, -1 if absent."""
        from gelato.graph import find_pairs

        return find_pairs(self.pairs, pairs, self.num_nodes)
