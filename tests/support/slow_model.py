"""A registered model that scores given pairs slowly, as networks on subgraphs do."""

from __future__ import annotations

import time

import numpy as np

import gelato
from gelato.models.base import Model


class Slow(Model):
    """Common neighbours with a tie-breaker, pair by pair."""

    name = "slow"
    summary = "slow pairs"
    seconds = 0.0
    on_pairs = None

    def scorer(self, graph):
        """Return what scores pairs."""
        return _Pairs(graph, type(self))


class _Pairs:
    def __init__(self, graph, model):
        adjacency = graph.adjacency.toarray()
        self.scores = (
            adjacency @ adjacency + adjacency.sum(0) * adjacency.sum(1)[:, None]
        )
        self.model = model
        self.asked = 0

    def score_rows(self, rows):
        return self._spent(self.scores[rows], self.scores[rows].size)

    def score_rows_above(self, rows):
        columns = np.arange(len(self.scores))
        above = columns[None, :] > rows[:, None]
        return self._spent(np.where(above, self.scores[rows], 0.0), above.sum())

    def pair_scores(self, pairs):
        return self._spent(self.scores[pairs[:, 0], pairs[:, 1]], len(pairs))

    def _spent(self, scores, count):
        self.asked += int(count)
        time.sleep(self.model.seconds * int(count))
        if self.model.on_pairs is not None:
            self.model.on_pairs(self.asked)
        return scores


def register():
    """Put the model into the registry."""
    gelato.register("slow")(Slow)
