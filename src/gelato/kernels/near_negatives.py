"""Deal near negatives to batches and positives; count the far ones.

The same hash as in ``kernels.negatives`` decides a pair's fate, so that training on
near pairs compares each positive with the very near negatives that training on all
pairs would. Near pairs do not change during a run: they are listed once, all of them
or a random share, and sorted by batch at the start of each epoch.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from gelato.errors import UsageError
from gelato.kernels.chunks import NUM_CHUNKS, balanced_chunks, run_chunks
from gelato.kernels.near_pairs import NearPairs
from gelato.kernels.negatives import batch_of, group_rows, node_keys
from gelato.kernels.walk_structure import PairLists

IntArray = npt.NDArray[np.int64]

MOST_LISTED = 10_000_000
"""Near negatives of an epoch where no rate is given: some seconds per epoch."""

BYTE_BUDGET = 2 << 30
"""Most memory for the near negatives of a run and of its current epoch."""

# Which near pairs a run lists is drawn with keys that no epoch has.
_LISTING = (1 << 62) - 1


@numba.njit(cache=True, nogil=True)
def deal_rows(first, last, keys, batches, listed, begin, columns):
    """Sort the listed columns of each row by batch: counting sort, order kept."""
    start, sizes, source = listed
    position = np.empty(batches + 1, np.int64)
    count = np.uint64(batches)
    for u in range(first, last):
        position[:] = 0
        row = source[start[u] : start[u] + sizes[u]]
        for v in row:
            position[batch_of(keys[u], keys[v], count) + np.uint64(1)] += 1
        for b in range(batches):
            position[b + 1] += position[b]
            begin[b, u] = start[u] + position[b]
        begin[batches, u] = start[u] + position[batches]
        for v in row:
            b = batch_of(keys[u], keys[v], count)
            columns[start[u] + position[b]] = v
            position[b] += 1


def near_rate(count: int, item_bytes: int, rate: float | None) -> float:
    """Return the share of near negatives to list, given or as many as suit.

    Parameters
    ----------
    count : int
        Number of near negatives.
    item_bytes : int
        Bytes per listed pair; a run holds two of each.
    rate : float, optional
        The share that was asked for.

    Raises
    ------
    UsageError
        Where the share asked for takes more than :data:`BYTE_BUDGET`.
    """
    if rate is None:
        return min(1.0, MOST_LISTED / max(1, count))
    needed = 2 * item_bytes * rate * count
    if needed > BYTE_BUDGET:
        fitting = BYTE_BUDGET / (2 * item_bytes * count)
        raise UsageError(
            f"near_rate {rate:g} of {count:,} near negatives takes "
            f"{needed / 2**30:.1f} GiB; at most {BYTE_BUDGET >> 30} GiB are used.",
            hint=f"Use near_rate={fitting:.2g} or less, or leave it out.",
        )
    return rate


class NearDealer:
    """The near negatives of a graph, dealt anew each epoch.

    Parameters
    ----------
    near : NearPairs
        Which pairs are near.
    batches : int
        Number of batches B per epoch.
    seed : int
        With the epoch, decides everything.
    rate : float, optional
        Share of the near negatives that the run lists; by default all, or as many
        as :data:`MOST_LISTED`.

    Attributes
    ----------
    rate : float
        The share.
    listed : int
        Number of near negatives listed.
    """

    def __init__(
        self, near: NearPairs, *, batches: int, seed: int, rate: float | None = None
    ) -> None:
        if not 1 <= batches < 1 << 16:
            raise UsageError(f"batches must lie in 1..65535, not {batches}.")
        if seed < 0:
            raise UsageError(f"seed must not be negative, but is {seed}.")
        self.near, self.batches, self.seed = near, batches, seed
        self._outside = near.structure.outside
        item = np.dtype(near.structure.column_dtype).itemsize
        self.rate = near_rate(near.count, item, rate)
        keys = node_keys(seed, _LISTING, self._outside)
        self._listed = near.keep(self.rate, keys)
        self.listed = int(self._listed[1].sum())
        self._bounds = balanced_chunks(self._listed[1].astype(np.float64) + 1.0)
        self._columns = np.empty_like(self._listed[2])
        self._begin = np.empty((0, 0), np.int64)
        self._keys = np.empty(0, np.uint64)
        self._epoch = -1

    def batch(self, epoch: int, batch: int) -> PairLists:
        """Return the near negatives of one batch, by row."""
        if not 0 <= batch < self.batches:
            raise UsageError(f"batch {batch} is not one of 0..{self.batches - 1}.")
        self._start(epoch)
        begin, end = self._begin[batch], self._begin[batch + 1]
        offsets = np.concatenate([[0], np.cumsum(end - begin)])
        return PairLists(begin, offsets, self._columns)

    def groups(
        self, epoch: int, lists: PairLists, positives: int
    ) -> npt.NDArray[np.int32]:
        """Return the positive of the batch that each listed negative is dealt to."""
        self._start(epoch)
        groups = np.empty(len(lists), np.int32)
        bounds, fixed = self._bounds, (self._keys, lists.arrays, positives, groups)

        def task(chunk: int) -> None:
            group_rows(bounds[chunk], bounds[chunk + 1], *fixed)

        run_chunks(task, NUM_CHUNKS, self.near.threads)
        return groups

    def _start(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        self._keys = node_keys(self.seed, epoch, self._outside)
        self._epoch = epoch
        # New each epoch: lists handed out earlier keep their own bounds.
        self._begin = np.empty((self.batches + 1, len(self._outside)), np.int64)
        bounds, head = self._bounds, (self._keys, self.batches, self._listed)

        def task(chunk: int) -> None:
            rows = bounds[chunk], bounds[chunk + 1]
            deal_rows(*rows, *head, self._begin, self._columns)

        run_chunks(task, NUM_CHUNKS, self.near.threads)
