"""The fixed pattern of a training run, and the matrix of one step.

A :class:`WalkStructure` holds the enhanced edges of a run. Nodes are relabelled by
descending number of neighbours, so that a pair's row is its end with more of them
and the gather runs over the other; the labels stay inside this package's kernels,
and callers translate at the border with ``structure.inside`` and ``.outside``.
A :class:`StepMatrix` is the structure with the weights of one step: masked edges
are left out, loops put in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError, UsageError
from gelato.kernels.compiled import kernel

IntArray = npt.NDArray[np.int64]
Floats = npt.NDArray[Any]
SelfLoops = Literal["isolated", "all"]


@dataclass(frozen=True, eq=False)
class PairLists:
    """Pairs grouped by row, in inside labels.

    Row u's pairs have the columns ``columns[begin[u] : begin[u] + size]`` with
    ``size = offsets[u + 1] - offsets[u]``; their values live at ``offsets[u]`` in
    arrays of ``len(self)``. Rows may share columns: all pairs u <= v need only
    ``arange(n)``.
    """

    begin: IntArray
    offsets: IntArray
    columns: npt.NDArray[Any]

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @property
    def arrays(self) -> tuple[IntArray, IntArray, npt.NDArray[Any]]:
        """The three arrays, as the kernels take them."""
        return self.begin, self.offsets, self.columns

    @classmethod
    def empty(cls, num_nodes: int, dtype: Any) -> PairLists:
        """Return a list without pairs."""
        zeros = np.zeros(num_nodes + 1, np.int64)
        return cls(zeros[:-1], zeros, np.empty(0, dtype))

    def diagonal(self) -> npt.NDArray[np.bool_]:
        """Return which pairs join a node to itself."""
        return np.asarray(self.rows() == self.listed_columns())

    def rows(self) -> IntArray:
        """Return the row of every pair."""
        return np.repeat(np.arange(len(self.begin)), np.diff(self.offsets))

    def listed_columns(self) -> IntArray:
        """Return the column of every pair."""
        shift = np.repeat(self.begin - self.offsets[:-1], np.diff(self.offsets))
        return self.columns[np.arange(len(self)) + shift].astype(np.int64)

    def apart(self) -> PairLists:
        """Return the same pairs with no columns but theirs, for sending elsewhere.

        The pairs of one step may lie among those of a whole epoch.
        """
        if len(self.columns) <= len(self):
            return self
        columns = self.listed_columns().astype(self.columns.dtype)
        return PairLists(self.offsets[:-1], self.offsets, columns)

    def joined(self, other: PairLists) -> tuple[PairLists, IntArray]:
        """Return the pairs of two lists as one, and where each pair went.

        Returns
        -------
        lists : PairLists
        position : (len(self) + len(other),) int64
            Where the values of this list's pairs, then the other's, are in ``lists``.
        """
        rows = np.concatenate([self.rows(), other.rows()])
        columns = np.concatenate([self.listed_columns(), other.listed_columns()])
        order = np.argsort(rows, kind="stable")
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        offsets = self.offsets + other.offsets
        joined = columns[order].astype(self.columns.dtype)
        return PairLists(offsets[:-1].copy(), offsets, joined), position


@dataclass(frozen=True, eq=False)
class StepMatrix:
    """The weighted matrix A of one step, loops included, in inside labels."""

    indptr: npt.NDArray[np.uint64]
    indices: npt.NDArray[Any]
    values: Floats  # N = D^-1/2 A D^-1/2, slot by slot
    slot_edge: npt.NDArray[np.int32]  # -1: a loop
    roots: npt.NDArray[np.float64]  # square roots of the degrees
    volume: float

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernels take."""
        return self.indptr, self.indices, self.values, self.roots, self.volume

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return len(self.roots)

    @cached_property
    def two_hop_cost(self) -> npt.NDArray[np.float64]:
        """Slots visited by a walk of two steps from each node."""
        sizes = np.diff(self.indptr)
        total = np.concatenate([[0], np.cumsum(sizes[self.indices])]).astype(np.int64)
        return np.diff(total[self.indptr]).astype(np.float64)

    @cached_property
    def tail_size(self) -> npt.NDArray[np.float64]:
        """Mean number of slots of the nodes from each node on."""
        sizes = np.diff(self.indptr).astype(np.float64)
        count = np.arange(len(sizes), 0, -1)
        return np.asarray(np.cumsum(sizes[::-1])[::-1] / count)


class WalkStructure:
    """Which pairs are edges of the enhanced graph, for a whole run.

    Parameters
    ----------
    num_nodes : int
        Number of nodes n.
    edges : (M, 2) int64
        Undirected edges ``u < v``, each once.
    self_loops : {"isolated", "all"}
        Loops of weight 1: on nodes whose row sums to 0 (also those that masking
        isolates), or on every node.

    Examples
    --------
    >>> structure = WalkStructure(3, np.array([[0, 2], [1, 2]]))
    >>> structure.inside.tolist()  # node 2 has the most neighbours
    [1, 2, 0]
    """

    def __init__(
        self, num_nodes: int, edges: IntArray, *, self_loops: SelfLoops = "isolated"
    ) -> None:
        if self_loops not in ("isolated", "all"):
            raise UsageError(
                f"self_loops is {self_loops!r}, expected 'isolated' or 'all'."
            )
        edges = np.ascontiguousarray(edges, dtype=np.int64).reshape(-1, 2)
        if len(edges) and (
            edges.min() < 0
            or edges.max() >= num_nodes
            or np.any(edges[:, 0] >= edges[:, 1])
        ):
            raise InputError(f"edges must be pairs u < v over 0..{num_nodes - 1}.")
        self.num_nodes = int(num_nodes)
        self.edges = edges
        self.self_loops = self_loops
        sizes = np.bincount(edges.ravel(), minlength=num_nodes)
        self.outside: IntArray = np.argsort(-sizes, kind="stable").astype(np.int64)
        self.inside: IntArray = np.empty(num_nodes, np.int64)
        self.inside[self.outside] = np.arange(num_nodes)
        self.indptr, self.indices, self.slot_edge = self._compressed_rows()

    def _compressed_rows(
        self,
    ) -> tuple[IntArray, npt.NDArray[Any], npt.NDArray[np.int32]]:
        ends = self.inside[self.edges]
        row = np.concatenate([ends[:, 0], ends[:, 1]])
        column = np.concatenate([ends[:, 1], ends[:, 0]])
        order = np.lexsort((column, row))
        counts = np.bincount(row, minlength=self.num_nodes)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        edge = order % max(1, len(self.edges))
        return indptr, column[order].astype(self.column_dtype), edge.astype(np.int32)

    @property
    def num_edges(self) -> int:
        """Number of enhanced edges M."""
        return len(self.edges)

    @property
    def column_dtype(self) -> Any:
        """The smallest type that holds a node."""
        return np.uint16 if self.num_nodes <= 1 << 16 else np.uint32

    def step(self, weights: Floats, masked: npt.ArrayLike | None = None) -> StepMatrix:
        """Return the matrix of one step.

        Parameters
        ----------
        weights : (M,) float32 or float64
            Non-negative weight of every edge.
        masked : (P,) int, optional
            Edges to leave out, as positions in ``edges``.
        """
        if weights.shape != (self.num_edges,):
            raise UsageError(
                f"There are {weights.shape} weights for {self.num_edges} edges."
            )
        hidden = np.zeros(self.num_edges, np.bool_)
        if masked is not None:
            hidden[np.asarray(masked, dtype=np.int64)] = True
        return StepMatrix(
            *_assemble(
                self.indptr,
                self.indices,
                self.slot_edge,
                np.ascontiguousarray(weights),
                hidden,
                self.self_loops == "all",
            )
        )

    def sort_pairs(self, pairs: IntArray) -> tuple[PairLists, IntArray]:
        """Group pairs (outside labels, either order) by row.

        Returns
        -------
        lists : PairLists
        order : (K,) int64
            Value i of the lists belongs to ``pairs[order[i]]``.
        """
        ends = np.sort(self.inside[pairs], axis=1)
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        counts = np.bincount(ends[:, 0], minlength=self.num_nodes)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        columns = ends[order, 1].astype(self.column_dtype)
        return PairLists(offsets[:-1].copy(), offsets, columns), order

    def all_pairs(self) -> PairLists:
        """Return every pair ``u <= v``; the columns take O(n) memory."""
        n = self.num_nodes
        offsets = np.concatenate([[0], np.cumsum(np.arange(n, 0, -1))])
        columns = np.arange(n).astype(self.column_dtype)
        return PairLists(np.arange(n), offsets.astype(np.int64), columns)


@kernel()
def _assemble(indptr, indices, slot_edge, weights, hidden, loops_on_all):
    """Copy the visible slots, add loops, and divide by the roots of the degrees."""
    n = indptr.shape[0] - 1
    room = indices.shape[0] + n
    new_indptr = np.zeros(n + 1, np.uint64)
    new_indices = np.empty(room, indices.dtype)
    values = np.empty(room, weights.dtype)
    edge_of = np.empty(room, np.int32)
    degrees = np.zeros(n)
    at = 0
    for u in range(n):
        total = 0.0
        for s in range(indptr[u], indptr[u + 1]):
            edge = slot_edge[s]
            if not hidden[edge]:
                new_indices[at] = indices[s]
                values[at] = weights[edge]
                edge_of[at] = edge
                total += weights[edge]
                at += 1
        if loops_on_all or total == 0.0:
            new_indices[at] = u
            values[at] = 1
            edge_of[at] = -1
            total += 1.0
            at += 1
        degrees[u] = total
        new_indptr[u + 1] = at
    roots = np.sqrt(degrees)
    for u in range(n):
        for s in range(new_indptr[u], new_indptr[u + 1]):
            values[s] /= roots[u] * roots[new_indices[s]]
    return (
        new_indptr,
        new_indices[:at],
        values[:at],
        edge_of[:at],
        roots,
        degrees.sum(),
    )
