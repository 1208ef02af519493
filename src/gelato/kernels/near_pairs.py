"""Which pairs a walk of exactly t edges joins, from the pattern of the edges alone.

Weights play no part: a pair that is far here stays far whatever the weights are and
whichever edges are masked (a loop on a node that masking isolates joins no two
nodes). Rows are walked one level at a time; only the nodes reached are touched.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gelato.kernels.chunks import NUM_CHUNKS, balanced_chunks, mix, run_chunks, run_rows
from gelato.kernels.compiled import kernel
from gelato.kernels.walk_structure import WalkStructure

IntArray = npt.NDArray[np.int64]

_S32 = np.uint64(32)
_SIX, _LOW, _ONE = np.uint64(6), np.uint64(63), np.uint64(1)  # 64 bits to a word


@kernel(inline="always")
def _visit(v, stamp, seen, reached, count):
    """List a node unless it carries the stamp already; without a branch."""
    reached[count] = v
    count += seen[v] != stamp
    seen[v] = stamp
    return count


@kernel()
def _step(pattern, loops, above, stamp, seen, nodes, count, reached):
    """List once every node above a bound that is one edge away from the nodes.

    Rows are sorted, so that walking them from the end stops at the bound.
    """
    indptr, indices = pattern
    found = 0
    for i in range(count):
        k = np.int64(nodes[i])
        slot, start = indptr[k + 1] - 1, indptr[k]
        while slot >= start and np.int64(indices[slot]) > above:
            found = _visit(indices[slot], stamp, seen, reached, found)
            slot -= 1
        if loops and k > above:
            found = _visit(nodes[i], stamp, seen, reached, found)
    return found


@kernel()
def _reach(pattern, loops, steps, u, stamp, work):
    """Walk from u; return how many nodes are reached, and which list names them.

    Step i uses the stamp ``stamp + i``. ``work`` is ``(seen, one, two)``.
    """
    seen, nodes, reached = work
    nodes[0] = u
    count = 1
    for i in range(steps):
        count = _step(pattern, loops, -1, stamp + i, seen, nodes, count, reached)
        nodes, reached = reached, nodes
    return count, nodes, reached


@kernel()
def _near_row(pattern, loops, t, edges, u, stamp, work):
    """List a row's near negatives: joined, above the row, no training edge."""
    seen = work[0]
    count, nodes, reached = _reach(pattern, loops, t - 1, u, stamp, work)
    last = stamp + t - 1
    for s in range(edges[0][u], edges[0][u + 1]):
        seen[edges[1][s]] = last  # as if they had been listed
    count = _step(pattern, loops, u, last, seen, nodes, count, reached)
    return count, reached


@kernel()
def _workspace(pattern):
    """Return stamps of all nodes and two lists of nodes with room for one more."""
    n, dtype = pattern[0].shape[0] - 1, pattern[1].dtype
    return np.zeros(n, np.int32), np.empty(n + 1, dtype), np.empty(n + 1, dtype)


@kernel()
def count_near_rows(first, last, pattern, loops, t, edges, counts):
    """Count the near negatives of each row."""
    work = _workspace(pattern)
    stamp = np.int32(1)
    for u in range(first, last):
        counts[u] = _near_row(pattern, loops, t, edges, u, stamp, work)[0]
        stamp += t


@kernel()
def list_near_rows(
    first, last, pattern, loops, t, edges, keys, limit, at, end, begin, sizes, columns
):
    """List each row's near negatives whose hash is below a limit, ascending.

    Writes to ``columns[at:end]``; returns False where that is too small.
    """
    work = _workspace(pattern)
    stamp = np.int32(1)
    for u in range(first, last):
        count, reached = _near_row(pattern, loops, t, edges, u, stamp, work)
        stamp += t
        begin[u] = at
        for i in range(count):
            v = reached[i]
            if mix(keys[u] + keys[v]) >> _S32 < limit:
                if at == end:
                    return False
                columns[at] = v
                at += 1
        sizes[u] = at - begin[u]
        columns[begin[u] : at].sort()
    return True


@kernel()
def find_near(first, last, pattern, loops, t, pairs, near):
    """Tell which pairs are near: a neighbour of one end is t - 1 edges from the other.

    The walk starts at the end with fewer neighbours, which has the larger label.
    """
    indptr, indices = pattern
    work = _workspace(pattern)
    seen = work[0]
    stamp = np.int32(1)
    for i in range(first, last):
        u, v = min(pairs[i, 0], pairs[i, 1]), max(pairs[i, 0], pairs[i, 1])
        count, nodes, _ = _reach(pattern, loops, t - 1, v, stamp, work)
        last_stamp = stamp + t - 1
        for j in range(count):
            seen[nodes[j]] = last_stamp
        met = loops and seen[u] == last_stamp
        for s in range(indptr[u], indptr[u + 1]):
            met |= seen[indices[s]] == last_stamp
        near[i] = met
        stamp += t


@kernel()
def mark_near_rows(first, last, pattern, loops, t, bits):
    """Set the bits of all nodes above each row that are near, and its own."""
    work = _workspace(pattern)
    stamp = np.int32(1)
    for u in range(first, last):
        count, nodes, reached = _reach(pattern, loops, t - 1, u, stamp, work)
        last_stamp = stamp + t - 1
        count = _step(pattern, loops, u, last_stamp, work[0], nodes, count, reached)
        stamp += t
        reached[count] = u
        for i in range(count + 1):
            v = np.uint64(reached[i])
            bits[u, v >> _SIX] |= _ONE << (v & _LOW)


_MOST_BYTES = 256 << 20
"""Of the bits of all pairs: those of 46,000 nodes."""


def near_bits(structure: WalkStructure, t: int) -> npt.NDArray[np.uint64] | None:
    """Return a bit for every pair that tells whether a walk of t edges joins it.

    Walks in training then pass over far pairs, which are most of all. In inside
    labels, for columns from the row on; the diagonal counts as near. None where the
    bits would take more memory than they are worth.
    """
    n = structure.num_nodes
    shape = (n, n // 64 + 1)
    if n < 2 or 8 * shape[0] * shape[1] > _MOST_BYTES:
        return None
    bits = np.zeros(shape, np.uint64)
    pattern, loops = (structure.indptr, structure.indices), structure.self_loops
    bounds = balanced_chunks(_walk_costs(structure, t))
    run_rows(mark_near_rows, bounds, pattern, loops == "all", t, bits)
    return bits


def _walk_costs(structure: WalkStructure, t: int) -> npt.NDArray[np.float64]:
    """Bound the nodes that a row's walk visits: walks of t edges, n per level."""
    costs = np.ones(structure.num_nodes)
    for _ in range(t):
        total = np.concatenate([[0.0], np.cumsum(costs[structure.indices])])
        visited = np.diff(total[structure.indptr]) + 1.0
        costs = np.minimum(visited, structure.num_nodes)
    return costs


class NearPairs:
    """The pairs that a walk of t edges joins, training edges left out.

    Parameters
    ----------
    structure : WalkStructure
        The edges of a run, none of them masked.
    training_edges : (m, 2) int64
        Pairs that are not negatives, in outside labels.
    t : int
        Length of the walk.

    Attributes
    ----------
    row_counts : (n,) int64
        Number of near negatives of each row, in inside labels.
    count : int
        Number of near negatives.
    num_far : int
        Number of negatives that no walk of t edges joins.

    Examples
    --------
    >>> edges = np.array([[0, 1], [1, 2], [2, 3]])
    >>> near = NearPairs(WalkStructure(4, edges), edges, t=3)
    >>> near.count, near.num_far, near.contains(np.array([[0, 3], [0, 2]])).tolist()
    (1, 2, [True, False])
    """

    def __init__(
        self,
        structure: WalkStructure,
        training_edges: IntArray,
        *,
        t: int,
    ) -> None:
        self.structure, self.t = structure, t
        self.loops = structure.self_loops == "all"
        self.pattern = (structure.indptr, structure.indices)
        n = structure.num_nodes
        lists, _ = structure.sort_pairs(training_edges)
        self._edges = (lists.offsets, lists.columns)
        self._bounds = balanced_chunks(_walk_costs(structure, t))
        self.row_counts = np.zeros(n, np.int64)
        given = (self.pattern, self.loops, t, self._edges, self.row_counts)
        run_rows(count_near_rows, self._bounds, *given)
        self.count = int(self.row_counts.sum())
        self.num_far = n * (n - 1) // 2 - len(training_edges) - self.count

    def keep(
        self, rate: float, keys: npt.NDArray[np.uint64]
    ) -> tuple[IntArray, IntArray, npt.NDArray[np.uint16] | npt.NDArray[np.uint32]]:
        """List near negatives, all or a random share of them.

        Parameters
        ----------
        rate : float
            Each is listed with this probability, by its hash.
        keys : (n,) uint64
            Node keys of the hash.

        Returns
        -------
        begin, sizes : (n,) int64
            Row u's columns are ``columns[begin[u] : begin[u] + sizes[u]]``.
        columns : array of the structure's column type
            There may be gaps between chunks of rows.
        """
        mean = np.add.reduceat(
            np.append(self.row_counts, 0.0) * rate, self._bounds[:-1]
        ) * (np.diff(self._bounds) > 0)
        # A random share of k pairs exceeds its mean by 8 deviations once in 10^15
        # graphs; then the room is doubled.
        room = np.ceil(mean + 8 * np.sqrt(mean * (1.0 - rate)) + 8).astype(np.int64)
        while True:
            listed = self._list(np.concatenate([[0], np.cumsum(room)]), rate, keys)
            if listed is not None:
                return listed
            room *= 2

    def _list(
        self, starts: IntArray, rate: float, keys: npt.NDArray[np.uint64]
    ) -> tuple[IntArray, IntArray, npt.NDArray[np.uint16]] | None:
        n = self.structure.num_nodes
        begin, sizes = np.zeros(n, np.int64), np.zeros(n, np.int64)
        columns = np.empty(int(starts[-1]), self.structure.column_dtype)
        limit = np.uint64(round(rate * 2**32))
        fixed = (self.pattern, self.loops, self.t, self._edges, keys, limit)
        fits = np.zeros(NUM_CHUNKS, np.bool_)

        def fill(chunk: int) -> None:
            rows = self._bounds[chunk], self._bounds[chunk + 1]
            place = starts[chunk], starts[chunk + 1]
            fits[chunk] = list_near_rows(*rows, *fixed, *place, begin, sizes, columns)

        run_chunks(fill, NUM_CHUNKS)
        return (begin, sizes, columns) if fits.all() else None

    def contains(self, pairs: IntArray) -> npt.NDArray[np.bool_]:
        """Return which pairs (K, 2), in outside labels, are near."""
        inside = self.structure.inside[pairs]
        near = np.zeros(len(pairs), np.bool_)
        bounds = [len(pairs) * i // NUM_CHUNKS for i in range(NUM_CHUNKS + 1)]
        run_rows(find_near, bounds, self.pattern, self.loops, self.t, inside, near)
        return near
