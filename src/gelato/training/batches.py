"""Positives in batches, and the numbering of all negatives without listing them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError, UsageError
from gelato.graph import pair_keys

IntArray = npt.NDArray[np.int64]


class PositiveBatches:
    """The training edges, shuffled into batches anew each epoch.

    Parameters
    ----------
    num_edges : int
        Number of training edges m.
    batches : int
        Number of batches per epoch; sizes differ by at most 1.
    seed : int
        With the epoch, decides the order.

    Examples
    --------
    >>> parts = [PositiveBatches(5, batches=2, seed=0).batch(3, i) for i in (0, 1)]
    >>> [len(part) for part in parts], sorted(np.concatenate(parts).tolist())
    ([3, 2], [0, 1, 2, 3, 4])
    """

    def __init__(self, num_edges: int, *, batches: int, seed: int) -> None:
        if not 1 <= batches <= num_edges:
            raise UsageError(
                f"{num_edges} training edges cannot fill {batches} batches.",
                hint=f"Use between 1 and {num_edges} batches.",
            )
        self.num_edges, self.batches, self.seed = num_edges, batches, seed

    def batch(self, epoch: int, batch: int) -> IntArray:
        """Return the positions of one batch's training edges, ascending."""
        order = generator(self.seed, "positives", epoch).permutation(self.num_edges)
        return np.sort(np.array_split(order, self.batches)[batch])


class NegativePairs:
    """All pairs u < v that are not training edges, numbered 0 .. count - 1.

    The numbering is row by row, computed from the edges alone, so that a uniform
    negative is a uniform number: nothing is rejected and nothing listed.

    Parameters
    ----------
    num_nodes : int
        Number of nodes n.
    training_edges : (m, 2) int64
        Pairs u < v, each once.

    Examples
    --------
    >>> negatives = NegativePairs(4, np.array([[0, 1], [0, 3]]))
    >>> negatives.pairs(np.arange(negatives.count)).tolist()
    [[0, 2], [1, 2], [1, 3], [2, 3]]
    """

    def __init__(self, num_nodes: int, training_edges: IntArray) -> None:
        n = num_nodes
        edges = training_edges[np.lexsort(training_edges.T[::-1])]
        known = np.bincount(edges[:, 0], minlength=n)
        self._edge_start = np.concatenate([[0], np.cumsum(known)])
        sizes = np.arange(n - 1, -1, -1) - known
        self._row_start = np.concatenate([[0], np.cumsum(sizes)])
        self.num_nodes, self.count = n, int(self._row_start[-1])
        self._edge_keys = pair_keys(edges, n)
        # How many negatives come before each edge, in the order of all pairs.
        within = np.arange(len(edges)) - self._edge_start[edges[:, 0]]
        before = edges[:, 1] - edges[:, 0] - 1 - within
        self._before = self._row_start[edges[:, 0]] + before
        if self.count == 0:
            raise InputError(
                "Every pair of nodes is a training edge: there are no negatives."
            )

    def pairs(self, numbers: IntArray) -> IntArray:
        """Return the (K, 2) pairs with the given numbers."""
        row = np.searchsorted(self._row_start, numbers, side="right") - 1
        passed = np.searchsorted(self._before, numbers, side="right")
        skipped = passed - self._edge_start[row]
        column = row + 1 + (numbers - self._row_start[row]) + skipped
        return np.stack([row, column], axis=1)

    def contains(self, pairs: IntArray) -> npt.NDArray[np.bool_]:
        """Return which pairs u < v are negatives."""
        return ~np.isin(pair_keys(pairs, self.num_nodes), self._edge_keys)

    def sample(self, count: int, random: np.random.Generator) -> IntArray:
        """Return uniform negatives: distinct ones if there are enough."""
        replace = count > self.count
        return self.pairs(random.choice(self.count, size=count, replace=replace))


def generator(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """Return a generator that depends on these numbers only.

    The purpose keeps, say, positives and negatives of the same epoch independent.
    """
    return np.random.default_rng([seed, *purpose.encode(), *counters])
