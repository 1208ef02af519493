"""Scores of whole rows where some pairs have an image beside their states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from gelato.graph import FloatArray, IntArray, find_pairs
from gelato.kernels.pair_products import shifted_net_pairs
from gelato.models.gnn.decoders import DifferenceNetScorer, RowsOrHalf


@dataclass(frozen=True, eq=False)
class ImageNetScorer(RowsOrHalf):
    """A net of squared differences, its units shifted for listed pairs.

    Parameters
    ----------
    net : DifferenceNetScorer
        Scores all pairs that are not listed.
    pairs : (k, 2) int64
        Sorted pairs u < v.
    shifts : (k, units) float64
        What each of them adds to the hidden units.
    """

    net: DifferenceNetScorer
    pairs: IntArray
    shifts: FloatArray

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.net.num_nodes

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        scores = self.net.pair_scores(pairs)
        position = find_pairs(self.pairs, np.sort(pairs, axis=1), self.num_nodes)
        at = np.flatnonzero(position >= 0)
        scores[at] = self._shifted(pairs[at, 0], pairs[at, 1], position[at])
        return scores

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = self.net._rows(rows, above=above)
        for i, u in enumerate(rows.tolist()):
            span = slice(self._listed.indptr[u], self._listed.indptr[u + 1])
            columns = self._listed.indices[span].astype(np.int64)
            position = self._listed.data[span] - 1
            if above:
                columns, position = columns[columns > u], position[columns > u]
            u_s = np.full(len(columns), u)
            scores[i, columns] = self._shifted(u_s, columns, position)
        return scores

    @cached_property
    def _listed(self) -> sp.csr_array:
        """Position + 1 of every listed pair, at both of its places."""
        count, n = len(self.pairs), self.num_nodes
        u, v = self.pairs.T
        entries = (np.tile(np.arange(1, count + 1), 2), (np.r_[u, v], np.r_[v, u]))
        return sp.csr_array(sp.coo_array(entries, shape=(n, n)))

    def _shifted(self, u: IntArray, v: IntArray, position: IntArray) -> FloatArray:
        """Return scores of listed pairs by their positions."""
        scores = np.empty(len(position))
        shifts = self.shifts[position]
        shifted_net_pairs(u, v, *self.net._net, shifts, scores)
        return self.net._sizes(scores)
