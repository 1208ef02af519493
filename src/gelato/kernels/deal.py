"""Deal every negative to a batch and to a positive, by hash: no permutation.

A pair's 64-bit hash depends on (seed, epoch) and on its two nodes, as numbered in
the graph: the upper half picks the batch, the lower half the positive within it.
So each epoch is an exact partition of all negatives, the same for any number of
threads or workers, and a pair's fate can be recomputed anywhere.

The hash of a pair is the mix of the sum of two node keys: symmetric, one load and
one mix per pair. Node keys are themselves mixed from (seed, epoch, node).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.errors import UsageError
from gelato.kernels.chunks import balanced_chunks, run_rows
from gelato.kernels.compiled import kernel
from gelato.kernels.near_pairs import NearPairs
from gelato.kernels.walk_structure import PairLists, WalkStructure

IntArray = npt.NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads counters
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)  # multipliers of the splitmix64 finaliser
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = (np.uint64(s) for s in (30, 27, 31, 32))
_LOW = np.uint64(0xFFFFFFFF)
_MOST_PASSES = 20  # over the nodes, until none joins another community


@kernel(inline="always")
def _mix(x):
    """Return a well-spread 64-bit value (the splitmix64 finaliser, a bijection)."""
    x = (x ^ (x >> _S30)) * _MIX1
    x = (x ^ (x >> _S27)) * _MIX2
    return x ^ (x >> _S31)


@kernel()
def node_keys(seed, epoch, nodes):
    """Return one 64-bit key per node, different in every epoch."""
    keys = np.empty(nodes.shape[0], np.uint64)
    base = _mix(_mix(np.uint64(seed) + _GOLDEN) + np.uint64(epoch) * _GOLDEN)
    for i in range(nodes.shape[0]):
        keys[i] = _mix(base + (np.uint64(nodes[i]) + np.uint64(1)) * _GOLDEN)
    return keys


@kernel(inline="always")
def batch_of(key_u, key_v, batches):
    """Return the batch that a pair is dealt to, from its node keys."""
    return ((_mix(key_u + key_v) >> _S32) * batches) >> _S32


@kernel()
def _hash_row(u, keys, batches, edge_indptr, edge_columns, dealt):
    """Write the batch of (u, v) for v > u; training edges get ``batches``."""
    count = np.uint64(batches)
    for v in range(u + 1, keys.shape[0]):
        dealt[v] = batch_of(keys[u], keys[v], count)
    for s in range(edge_indptr[u], edge_indptr[u + 1]):
        dealt[edge_columns[s]] = batches


@kernel()
def draw_rows(first, last, keys, batches, edges, row_start, begin, columns):
    """Sort the columns of each row by batch: counting sort, one row at a time."""
    n = keys.shape[0]
    dealt = np.empty(n, np.uint16)
    position = np.empty(batches + 2, np.int64)
    for u in range(first, last):
        _hash_row(u, keys, batches, edges[0], edges[1], dealt)
        position[:] = 0
        for v in range(u + 1, n):
            position[dealt[v] + 1] += 1
        for b in range(batches):
            position[b + 1] += position[b]
            begin[b, u] = row_start[u] + position[b]
        begin[batches, u] = row_start[u] + position[batches]
        start = row_start[u]
        for v in range(u + 1, n):
            b = dealt[v]
            if b < batches:
                columns[start + position[b]] = v
                position[b] += 1


@kernel()
def count_rows(first, last, keys, batches, batch, edges, counts):
    """Count each row's negatives in one batch."""
    n = keys.shape[0]
    dealt = np.empty(n, np.uint16)
    for u in range(first, last):
        _hash_row(u, keys, batches, edges[0], edges[1], dealt)
        count = 0
        for v in range(u + 1, n):
            count += dealt[v] == batch
        counts[u] = count


@kernel()
def list_rows(first, last, keys, batches, batch, edges, offsets, columns):
    """List each row's negatives in one batch."""
    n = keys.shape[0]
    dealt = np.empty(n, np.uint16)
    for u in range(first, last):
        _hash_row(u, keys, batches, edges[0], edges[1], dealt)
        at = offsets[u]
        for v in range(u + 1, n):
            if dealt[v] == batch:
                columns[at] = v
                at += 1


@kernel()
def group_rows(first, last, keys, pairs, positives, groups):
    """Write the positive (0 .. positives - 1) that each listed pair is dealt to."""
    begin, offsets, columns = pairs
    count = np.uint64(positives)
    for u in range(first, last):
        for i in range(offsets[u + 1] - offsets[u]):
            v = columns[begin[u] + i]
            low = _mix(keys[u] + keys[v]) & _LOW
            groups[offsets[u] + i] = (low * count) >> _S32


class _Dealer(ABC):
    """Lists of pairs by row, dealt to batches anew each epoch by hash.

    Parameters
    ----------
    structure : WalkStructure
        Gives the inside labels that the lists use.
    bounds : (chunks + 1,) int64
        Chunks of rows of about the same cost.
    batches : int
        Number of batches B per epoch.
    seed : int
        With the epoch, decides everything.
    """

    def __init__(
        self, structure: WalkStructure, bounds: IntArray, *, batches: int, seed: int
    ) -> None:
        if not 1 <= batches < 1 << 16:
            raise UsageError(f"batches must lie in 1..65535, not {batches}.")
        if seed < 0:
            raise UsageError(f"seed must not be negative, but is {seed}.")
        self.structure, self.batches, self.seed = structure, batches, seed
        self._bounds = bounds
        self._columns: npt.NDArray[Any] | None = None
        self._begin: IntArray | None = None
        self._epoch = -1
        self._keys = np.empty(0, np.uint64)

    def batch(self, epoch: int, batch: int) -> PairLists:
        """Return the negatives of one batch, by row."""
        if not 0 <= batch < self.batches:
            raise UsageError(f"batch {batch} is not one of 0..{self.batches - 1}.")
        self._start(epoch)
        if self._begin is None or self._columns is None:
            return self._list_batch(batch)
        begin, end = self._begin[batch], self._begin[batch + 1]
        offsets = np.concatenate([[0], np.cumsum(end - begin)])
        return PairLists(begin, offsets, self._columns)

    def groups(
        self, epoch: int, lists: PairLists, positives: int
    ) -> npt.NDArray[np.int32]:
        """Return the positive of the batch that each listed negative is dealt to."""
        self._start(epoch)
        groups = np.empty(len(lists), np.int32)
        given = (self._keys, lists.arrays, positives, groups)
        run_rows(group_rows, self._bounds, *given)
        return groups

    def _start(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        self._keys = node_keys(self.seed, epoch, self.structure.outside)
        self._epoch = epoch
        # New each epoch: lists handed out earlier keep their own bounds.
        begin = np.empty((self.batches + 1, self.structure.num_nodes), np.int64)
        if self._deal(begin):
            self._begin = begin

    @abstractmethod
    def _deal(self, begin: IntArray) -> bool:
        """Sort all columns by row and batch, unless there is no room for them."""

    def _list_batch(self, batch: int) -> PairLists:
        """List one batch where columns are not kept."""
        # Only of a dealer whose ``_deal`` may find no room.
        raise NotImplementedError


class HashDealer(_Dealer):
    """All negatives of a graph, dealt anew each epoch.

    Parameters
    ----------
    structure, batches, seed
        As for all dealers.
    training_edges : (m, 2) int64
        Pairs that are not negatives, in outside labels.
    byte_budget : int
        An epoch's columns are kept if they fit; else every batch is hashed again
        when it is asked for, which takes no more memory than the batch.
    """

    def __init__(
        self,
        structure: WalkStructure,
        training_edges: IntArray,
        *,
        batches: int,
        seed: int,
        byte_budget: int = 1 << 30,
    ) -> None:
        n = structure.num_nodes
        bounds = balanced_chunks(np.arange(n, 0, -1).astype(np.float64))
        super().__init__(structure, bounds, batches=batches, seed=seed)
        lists, _ = structure.sort_pairs(training_edges)
        self._edges = (lists.offsets, lists.columns)
        sizes = np.arange(n - 1, -1, -1) - np.diff(lists.offsets)
        self._row_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.num_negatives = int(self._row_start[-1])
        item = np.dtype(structure.column_dtype).itemsize
        self.stores_epochs = self.num_negatives * item <= byte_budget

    def _deal(self, begin: IntArray) -> bool:
        if not self.stores_epochs:
            return False
        if self._columns is None:  # reused by every epoch
            self._columns = np.empty(self.num_negatives, self.structure.column_dtype)
        given = (self._keys, self.batches, self._edges, self._row_start)
        run_rows(draw_rows, self._bounds, *given, begin, self._columns)
        return True

    def _list_batch(self, batch: int) -> PairLists:
        counts = np.zeros(self.structure.num_nodes, np.int64)
        given = (self._keys, self.batches, batch, self._edges)
        run_rows(count_rows, self._bounds, *given, counts)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        columns = np.empty(int(offsets[-1]), self.structure.column_dtype)
        run_rows(list_rows, self._bounds, *given, offsets, columns)
        return PairLists(offsets[:-1], offsets, columns)


MOST_LISTED = 10_000_000
"""Near negatives of an epoch where no rate is given: some seconds per epoch."""

BYTE_BUDGET = 2 << 30
"""Most memory for the near negatives of a run and of its current epoch."""

# Which near pairs a run lists is drawn with keys that no epoch has.
_LISTING = (1 << 62) - 1


@kernel()
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


class NearDealer(_Dealer):
    """The near negatives of a graph, dealt anew each epoch.

    Parameters
    ----------
    near : NearPairs
        Which pairs are near.
    batches, seed : int
        As for all dealers.
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
        structure = near.structure
        super().__init__(structure, np.zeros(2, np.int64), batches=batches, seed=seed)
        item = np.dtype(structure.column_dtype).itemsize
        self.rate = near_rate(near.count, item, rate)
        self._listed = near.keep(
            self.rate, node_keys(seed, _LISTING, structure.outside)
        )
        self.listed = int(self._listed[1].sum())
        self._bounds = balanced_chunks(self._listed[1].astype(np.float64) + 1.0)
        self._columns = np.empty_like(self._listed[2])

    def _deal(self, begin: IntArray) -> bool:
        given = (self._keys, self.batches, self._listed, begin, self._columns)
        run_rows(deal_rows, self._bounds, *given)
        return True


@kernel()
def _propagate(indptr, indices, order, labels, sizes, limit):
    """Move each node, in order, to the commonest label around it that has room."""
    counts = np.zeros(labels.shape[0], np.int64)
    moved = 0
    for u in order:
        best, most = labels[u], 0
        for s in range(indptr[u], indptr[u + 1]):
            label = labels[indices[s]]
            counts[label] += 1
            room = label == labels[u] or sizes[label] < limit
            more = counts[label] > most
            if room and (more or (counts[label] == most and label == labels[u])):
                best, most = label, counts[label]
        for s in range(indptr[u], indptr[u + 1]):
            counts[labels[indices[s]]] = 0
        if best != labels[u]:
            sizes[labels[u]] -= 1
            sizes[best] += 1
            labels[u] = best
            moved += 1
    return moved


def partition_nodes(
    structure: WalkStructure, *, parts: int = 32, seed: int = 0
) -> npt.NDArray[np.int64]:
    """Return a community per node, each of at most about n / parts nodes.

    Size-constrained label propagation: every node starts alone and repeatedly joins
    the community that most of its neighbours belong to, if that has room.

    Parameters
    ----------
    structure : WalkStructure
        The graph.
    parts : int
        Communities hold at most ceil(n / parts) nodes; there are at least so many.
    seed : int
        Decides the order of the nodes.

    Returns
    -------
    (n,) int64
        Labels 0 .. number of communities - 1, in the graph's own node order.
    """
    n = structure.num_nodes
    generator = np.random.default_rng([seed, n])
    labels: npt.NDArray[Any] = np.arange(n)
    sizes = np.ones(n, np.int64)
    limit = max(2, -(-n // parts))
    for _ in range(_MOST_PASSES):
        order = generator.permutation(n)
        graph = (structure.indptr, structure.indices)
        if not _propagate(*graph, order, labels, sizes, limit):
            break
    return np.unique(labels[structure.inside], return_inverse=True)[1].astype(np.int64)
