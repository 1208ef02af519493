"""A scorer of given pairs that counts what it is asked, and fails when told to."""

from __future__ import annotations

import time

import numpy as np


class CountingPairs:
    """Scores from a symmetric matrix, pair by pair, as dear models give them.

    Parameters
    ----------
    scores : (n, n) float64
        Symmetric.
    stop_after : int, optional
        Raises KeyboardInterrupt when more pairs than this are asked for.
    seconds : float
        Time that every pair takes.
    """

    def __init__(self, scores, *, stop_after=None, seconds=0.0):
        self.scores, self.stop_after, self.seconds = scores, stop_after, seconds
        self.asked = 0
        self.num_nodes = len(scores)

    def _spend(self, count):
        self.asked += int(count)
        if self.stop_after is not None and self.asked > self.stop_after:
            raise KeyboardInterrupt
        if self.seconds:
            time.sleep(self.seconds * int(count))

    def score_rows(self, rows):
        self._spend(len(rows) * self.num_nodes)
        return self.scores[rows]

    def score_rows_above(self, rows):
        self._spend(sum(self.num_nodes - 1 - u for u in rows))
        columns = np.arange(self.num_nodes)
        return np.where(columns[None, :] > rows[:, None], self.scores[rows], 0.0)

    def pair_scores(self, pairs):
        self._spend(len(pairs))
        return self.scores[pairs[:, 0], pairs[:, 1]]


def noisy_scores(graph, seed=0, levels=None):
    """Return scores that edges lead in and near pairs follow, with much noise."""
    rng = np.random.default_rng(seed)
    adjacency = graph.adjacency.toarray().astype(float)
    scores = 0.6 * adjacency + 0.2 * np.log1p(adjacency @ adjacency)
    scores = np.triu(scores + rng.random(scores.shape), 1)
    scores = scores + scores.T
    return scores if levels is None else np.round(scores * levels) / levels
