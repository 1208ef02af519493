"""Which pairs may be ranked: all of them, two node sets, near ones, or a list.

A rule is either implicit (all pairs between node sets, minus known edges: never
listed) or an explicit list of pairs. Evaluation and prediction share them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.graph import Graph, IntArray, canonical_pairs, find_pairs, pair_keys

BoolArray = npt.NDArray[np.bool_]

_MOST_LISTED = 2**27  # pairs of 16 bytes
_MOST_REACHED = 2e7  # entries of a block, reached nodes of all its rows


@dataclass(frozen=True, eq=False)
class AllPairs:
    """Every pair between two node sets, apart from excluded ones.

    Parameters
    ----------
    num_nodes : int
        Number of nodes.
    directed : bool
        Whether pairs are ordered.
    excluded : (k, 2) int64
        Pairs that are not candidates, canonical, sorted, distinct.
    left, right : (n,) bool, optional
        The two node sets; a pair needs one end in each. Default: all nodes.
    """

    num_nodes: int
    directed: bool
    excluded: IntArray
    left: BoolArray | None = None
    right: BoolArray | None = None

    @cached_property
    def masks(self) -> tuple[BoolArray, BoolArray]:
        """Both node sets as boolean arrays."""
        everything = np.ones(self.num_nodes, dtype=bool)
        left = everything if self.left is None else self.left
        right = everything if self.right is None else self.right
        return left, right

    @cached_property
    def rectangles(self) -> tuple[tuple[IntArray, IntArray, bool], ...]:
        """The rule as disjoint products ``(rows, columns, same_set)`` of node sets.

        ``same_set`` products count each unordered pair once.
        """
        left, right = self.masks
        if self.directed:
            # Ordered pairs: the diagonal, where a node is in both sets, is taken out
            # by whoever counts.
            return ((np.flatnonzero(left), np.flatnonzero(right), False),)
        only_left = np.flatnonzero(left & ~right)
        only_right = np.flatnonzero(right & ~left)
        both = np.flatnonzero(left & right)
        return (
            (only_left, only_right, False),
            (only_left, both, False),
            (both, only_right, False),
            (both, both, True),
        )

    @cached_property
    def excluded_here(self) -> IntArray:
        """The excluded pairs that the node sets would otherwise admit."""
        here = self.admits(self.excluded)
        return self.excluded if here.all() else self.excluded[here]

    @cached_property
    def count(self) -> int:
        """Number of candidates."""
        total = 0
        for rows, columns, same in self.rectangles:
            size = len(rows) * len(columns)
            total += len(rows) * (len(rows) - 1) // 2 if same else size
        if self.directed:
            left, right = self.masks
            total -= int(np.count_nonzero(left & right))
        return total - len(self.excluded_here)

    @cached_property
    def excluded_rows(self) -> sp.csr_array:
        """Excluded pairs as CSR rows, in both directions when undirected."""
        u, v = self.excluded.T
        if not self.directed:
            u, v = np.r_[u, v], np.r_[v, u]
        values = np.ones(len(u), dtype=np.int8)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_array(sp.coo_array((values, (u, v)), shape=shape))

    @cached_property
    def rows(self) -> IntArray:
        """Rows that can hold a candidate."""
        left, right = self.masks
        return np.flatnonzero(left if self.directed else left | right)

    def admits(self, pairs: IntArray) -> BoolArray:
        """Whether the node sets admit pairs (known edges or not)."""
        left, right = self.masks
        u, v = pairs.T
        inside: BoolArray = left[u] & right[v]
        if not self.directed:
            inside |= left[v] & right[u]
        inside &= u != v
        return inside

    def contains(self, pairs: IntArray) -> BoolArray:
        """Whether pairs are candidates."""
        known = find_pairs(self.excluded, pairs, self.num_nodes) >= 0
        return self.admits(pairs) & ~known


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """An explicit list of candidate pairs: canonical, sorted, distinct."""

    num_nodes: int
    directed: bool
    pairs: IntArray

    @property
    def count(self) -> int:
        """Number of candidates."""
        return len(self.pairs)

    def contains(self, pairs: IntArray) -> BoolArray:
        """Whether pairs are candidates."""
        return find_pairs(self.pairs, pairs, self.num_nodes) >= 0


Candidates = AllPairs | ListedPairs


def all_pairs(graph: Graph, known: IntArray) -> AllPairs:
    """Return every pair that is not known, and that the graph admits."""
    masks = () if graph.ends is None else graph.ends
    return AllPairs(graph.num_nodes, graph.directed, _sorted(known, graph), *masks)


def between(graph: Graph, left: Any, right: Any, known: IntArray) -> AllPairs:
    """Return the pairs with one end in each of two sets of node indices.

    In a directed graph the source is in ``left`` and the target in ``right``.
    """
    masks = []
    for name, nodes in (("first", left), ("second", right)):
        indices = np.asarray(nodes, dtype=np.int64)
        if not len(indices):
            raise UsageError(
                f"The {name} node set is empty.",
                hint="A bipartite rule needs at least one node on each side.",
            )
        mask = np.zeros(graph.num_nodes, dtype=bool)
        mask[indices] = True
        masks.append(mask)
    return AllPairs(graph.num_nodes, graph.directed, _sorted(known, graph), *masks)


def within_hops(graph: Graph, hops: int, known: IntArray) -> ListedPairs:
    """Return the unknown pairs at distance at most ``hops`` in a graph.

    They are listed, block by block of rows; a list of more than 2 GiB is refused as
    soon as it is known to be one.
    """
    if hops < 2:
        raise UsageError(
            f"Candidates within {hops} hop(s) are edges already.",
            hint="Use 2 hops or more.",
        )
    pattern = sp.csr_array(graph.adjacency.astype(bool).astype(np.float32))
    found, count = [], 0
    for first, last in _reach_blocks(pattern, hops):
        pairs = _reached(pattern, first, last, hops, directed=graph.directed)
        found.append(pairs)
        count += len(pairs)
        if count > _MOST_LISTED:
            raise UsageError(
                f"More than {_MOST_LISTED:,} pairs are within {hops} hops, which is "
                "more than 2 GiB to list.",
                hint="Use fewer hops, or rank all pairs, which needs no list.",
            )
    every = np.concatenate(found) if found else np.empty((0, 2), np.int64)
    return listed(graph, every, known)


def _reach_blocks(pattern: sp.csr_array, hops: int) -> Iterator[tuple[int, int]]:
    """Yield spans of rows whose nodes within some hops fit into memory."""
    n = pattern.shape[0]
    bound = np.ones(n)
    for _ in range(hops):
        bound = np.minimum(n, bound + pattern @ bound)
    first = 0
    ends = np.cumsum(bound)
    while first < n:
        room = _MOST_REACHED + (ends[first - 1] if first else 0.0)
        last = max(first + 1, int(np.searchsorted(ends, room, side="right")))
        yield first, last
        first = last


def _reached(
    pattern: sp.csr_array, first: int, last: int, hops: int, *, directed: bool
) -> IntArray:
    """Return the pairs of a span of rows, each undirected one once."""
    reached = pattern[first:last]
    for _ in range(hops - 1):
        reached = sp.csr_array(reached + reached @ pattern)
        reached.data[:] = 1.0
    u, v = sp.coo_array(reached).coords
    u = u.astype(np.int64) + first
    wanted = u != v if directed else u < v
    return np.stack([u[wanted], v[wanted].astype(np.int64)], axis=1)


def listed(graph: Graph, pairs: IntArray, known: IntArray | None = None) -> ListedPairs:
    """Return given pairs as candidates, without those that are known."""
    distinct = _sorted(pairs, graph)
    if np.any(distinct[:, 0] == distinct[:, 1]):
        at = distinct[int(np.argmax(distinct[:, 0] == distinct[:, 1])), 0]
        raise InputError(
            f"The pair ({graph.node_ids[at]}, {graph.node_ids[at]}) joins a node with "
            "itself.",
            hint="Remove pairs of a node with itself from the candidates.",
        )
    if known is not None and len(known):
        hidden = find_pairs(_sorted(known, graph), distinct, graph.num_nodes) >= 0
        distinct = distinct[~hidden]
    return ListedPairs(graph.num_nodes, graph.directed, distinct)


def _sorted(pairs: IntArray, graph: Graph) -> IntArray:
    canonical = canonical_pairs(
        np.asarray(pairs, dtype=np.int64).reshape(-1, 2), directed=graph.directed
    )
    keys = pair_keys(canonical, graph.num_nodes)
    if np.all(keys[1:] > keys[:-1]):  # known edges are: no copy is made of them
        return canonical
    return canonical[np.unique(keys, return_index=True)[1]]
