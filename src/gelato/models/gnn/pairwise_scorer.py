"""Rows of scores for networks that score pairs one by one."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from gelato.graph import FloatArray, IntArray
from gelato.models.gnn.decoders import RowsOrHalf

# Pairs per call of a kernel: what it sets up is then nothing beside its work.
_PART = 2048


class PairwiseScorer(RowsOrHalf):
    """Scores listed pairs, each with the same bits in every list; rows are lists.

    A pair is scored with its smaller node first. A node with itself has 0.
    """

    @property
    @abstractmethod
    def num_nodes(self) -> int:
        """Number of nodes."""

    @abstractmethod
    def _score(self, pairs: IntArray, out: FloatArray) -> None:
        """Write the scores of pairs u < v."""

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        ordered = np.sort(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=1)
        different = np.flatnonzero(ordered[:, 0] != ordered[:, 1])
        order = different[np.lexsort(ordered[different].T[::-1])]
        scores = np.zeros(len(ordered))
        for start in range(0, len(order), _PART):
            part = order[start : start + _PART]
            found = np.empty(len(part))
            self._score(ordered[part], found)
            scores[part] = found
        return scores

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = np.zeros((len(rows), self.num_nodes))
        for i, u in enumerate(rows.tolist()):
            first = u + 1 if above else 0
            others = np.arange(first, self.num_nodes)
            pairs = np.stack([np.full(len(others), u), others], axis=1)
            scores[i, first:] = self.pair_scores(pairs)
        return scores
