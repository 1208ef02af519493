"""The class :class:`Graph`, and how what users give becomes its canonical arrays.

Whatever is dropped or merged on the way is noted; what cannot be a graph raises.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import InputError, UnsupportedGraphError
from gelato.text import builtin, html_facts

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
# Longer text ids are Python objects: the longest would set the width of all.
LONGEST_FIXED_ID = 64
Attributes: TypeAlias = Any  # an (n, r) float32 array: scipy CSR or numpy dense


@dataclass(frozen=True, eq=False)
class Graph:
    """An attributed graph with canonical edges.

    Use a constructor (:meth:`from_edges`, :meth:`from_indices`, ...) rather than
    the class itself: the class expects edges that are canonical already.

    Parameters
    ----------
    num_nodes : int
        Number of nodes n.
    edges : (m, 2) int64
        Each edge once, sorted; ``u < v`` in an undirected graph, ``u -> v`` in a
        directed one. No self-loops, no duplicates.
    weights : (m,) float64, optional
        Positive, finite edge weights; ``None`` means that every weight is 1.
    attributes : (n, r) CSR or dense float32, optional
        Node attributes.
    ids : (n,) array, optional
        The user's node ids, unique and hashable; ``None`` means ``0..n-1``.
    directed : bool
        Whether ``u -> v`` and ``v -> u`` are different edges.
    labels : (n,) int64, optional
        A class per node; only used for pictures.
    times : (m,) float64, optional
        When each edge appeared; only used for temporal splits.
    attribute_names : sequence of str, optional
        One name per attribute.
    notes : sequence of str
        What the constructor dropped, merged or assumed, for people to read.
    sides : (n,) int8, optional
        0 or 1 for the two kinds of nodes of a bipartite graph, -1 for nodes without
        edges; ``None`` unless the graph is known to be bipartite.
    ends : (2, n) bool, optional
        Which nodes may be one end of a link, and which the other (directed: from, to);
        see :meth:`between`. ``None``: every pair can be a link.
    reading : mapping, optional
        How the graph was read, as plain data; see :class:`gelato.io.ReadReport`.
    """

    num_nodes: int
    edges: IntArray
    weights: FloatArray | None = None
    attributes: Attributes | None = None
    ids: npt.NDArray[Any] | None = None
    directed: bool = False
    labels: IntArray | None = None
    times: FloatArray | None = None
    attribute_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = field(default=())
    sides: npt.NDArray[np.int8] | None = None
    ends: npt.NDArray[np.bool_] | None = None
    reading: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_graph(self)

    # ------------------------------------------------------------ constructors
    @classmethod
    def from_indices(
        cls,
        num_nodes: int,
        edges: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        attributes: Any = None,
        ids: Sequence[Hashable] | npt.NDArray[Any] | None = None,
        directed: bool = False,
        labels: npt.ArrayLike | None = None,
        times: npt.ArrayLike | None = None,
        attribute_names: Sequence[str] | None = None,
        notes: Sequence[str] = (),
    ) -> Graph:
        """Build a graph from edges given as node indices ``0..n-1``.

        Self-loops and edges of weight 0 are dropped, repeated edges merged (their
        weights added, the earliest time kept); each is told in ``notes``.

        Examples
        --------
        >>> Graph.from_indices(3, [(1, 0), (0, 1), (2, 2)]).notes
        ('dropped 1 self-loop', 'merged 1 repeated edge')
        """
        pairs = as_pairs(edges, num_nodes)
        merged = merge_edges(
            pairs, as_floats(weights), as_floats(times), directed=directed, n=num_nodes
        )
        return cls(
            num_nodes=int(num_nodes),
            edges=merged.edges,
            weights=merged.weights,
            attributes=as_attributes(attributes),
            ids=as_id_array(ids) if ids is not None else None,
            directed=directed,
            labels=None if labels is None else as_integers(labels, "Labels").ravel(),
            times=merged.times,
            attribute_names=None if attribute_names is None else tuple(attribute_names),
            notes=(*notes, *merged.notes),
        )

    @classmethod
    def from_edges(cls, edges: Any, attributes: Any = None, **options: Any) -> Graph:
        """Build a graph from an edge table in the user's own node ids.

        Parameters
        ----------
        edges : path, polars or pandas frame, array or sequence of pairs
            One edge per row.
        attributes : path, frame, array or CSR matrix, optional
            One node per row.
        **options
            ``source``, ``target``, ``weight``, ``time``, ``directed`` and others; see
            :func:`gelato.io.read_graph_with_report`.
        """
        from gelato.io import read_graph

        return read_graph(edges, attributes, **options)

    @classmethod
    def from_scipy(
        cls,
        matrix: Any,
        attributes: Any = None,
        ids: Sequence[Hashable] | None = None,
        *,
        directed: bool = False,
    ) -> Graph:
        """Build a graph from a square sparse adjacency matrix."""
        from gelato.io import from_scipy

        return from_scipy(matrix, attributes, ids, directed=directed)

    @classmethod
    def from_networkx(cls, graph: Any, **options: Any) -> Graph:
        """Build a graph from a networkx graph; see :func:`gelato.io.from_networkx`."""
        from gelato.io import from_networkx

        return from_networkx(graph, **options)

    @classmethod
    def from_pyg(cls, data: Any, **options: Any) -> Graph:
        """Build a graph from PyG ``Data``; see :func:`gelato.io.from_pyg`."""
        from gelato.io import from_pyg

        return from_pyg(data, **options)

    @classmethod
    def from_npz(cls, path: Any) -> Graph:
        """Read a graph from an npz file; see :func:`gelato.io.read_npz`."""
        from gelato.io import read_npz

        return read_npz(path)

    # ------------------------------------------------------------------ views
    @property
    def num_edges(self) -> int:
        """Number of edges m."""
        return len(self.edges)

    @property
    def num_attributes(self) -> int:
        """Number of attributes r (0 where there are none)."""
        return 0 if self.attributes is None else int(self.attributes.shape[1])

    @property
    def num_pairs(self) -> int:
        """Number of pairs that can be links: unordered, or ordered if directed."""
        one = other = both = self.num_nodes
        if self.ends is not None:
            one, other = np.count_nonzero(self.ends, axis=1).tolist()
            both = int(np.count_nonzero(self.ends.all(axis=0)))
        twice = 0 if self.directed else both * (both - 1) // 2
        return one * other - both - twice

    @property
    def num_non_edges(self) -> int:
        """Number of pairs that can be links and are not edges."""
        return self.num_pairs - int(np.count_nonzero(self.admits(self.edges)))

    @property
    def is_bipartite(self) -> bool:
        """Whether every edge is known to join one kind of nodes with another."""
        return self.sides is not None

    def side(self, which: int) -> IntArray:
        """Return the nodes of one side, 0 or 1, of a bipartite graph."""
        if self.sides is None:
            raise UnsupportedGraphError(
                "The graph is not known to have two sides.",
                hint="Name the nodes of each side, or see gelato.io.with_sides.",
            )
        return np.flatnonzero(self.sides == which)

    def between_sides(
        self, left: Sequence[Hashable] = (), right: Sequence[Hashable] = ()
    ) -> Graph:
        """Return the graph in which only pairs of its two sides can be links.

        Rankings, predictions and negatives then leave out all other pairs. Nodes
        without edges are on no side, unless ``left`` or ``right`` names their ids.
        """
        sides = np.full(self.num_nodes, -1, dtype=np.int8)
        if not len(left) or not len(right):
            sides[self.side(0)], sides[self.side(1)] = 0, 1
        sides[self.indices_of(left)], sides[self.indices_of(right)] = 0, 1
        return replace(self, sides=sides, ends=np.stack([sides == 0, sides == 1]))

    def between(
        self,
        left: Sequence[Hashable] | npt.NDArray[Any] | None = None,
        right: Sequence[Hashable] | npt.NDArray[Any] | None = None,
    ) -> Graph:
        """Return the graph in which a link needs one end in each of two node sets.

        Rankings, predictions and negatives leave out all other pairs; edges between
        them stay known and are walked on, but are never held out.

        Parameters
        ----------
        left, right : sequence of ids, optional
            The two sets, which may share nodes; default: all nodes. In a directed
            graph a link goes from the first to the second.
        """
        ends = np.zeros((2, self.num_nodes), dtype=bool)
        for mask, nodes in zip(ends, (left, right), strict=True):
            mask[slice(None) if nodes is None else self.indices_of(nodes)] = True
        if not ends.any(axis=1).all():
            raise InputError("A side has no nodes.", hint="Name one at least.")
        sides = self.sides
        if not ends.all(axis=0).any():
            kinds = np.where(ends[0], 0, np.where(ends[1], 1, -1)).astype(np.int8)
            if np.all(np.sort(kinds[self.edges], axis=1) == (0, 1)):
                sides = kinds
        return replace(self, sides=sides, ends=ends)

    def admits(self, pairs: IntArray) -> npt.NDArray[np.bool_]:
        """Tell which pairs of node indices can be links."""
        u, v = pairs.T
        if self.ends is None:
            return np.ones(len(pairs), dtype=bool)
        left, right = self.ends
        admitted: npt.NDArray[np.bool_] = left[u] & right[v]
        return admitted if self.directed else admitted | (left[v] & right[u])

    @property
    def is_weighted(self) -> bool:
        """Whether some edge has a weight other than 1."""
        return self.weights is not None and bool(np.any(self.weights != 1.0))

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """The weighted adjacency matrix, CSR float64 with sorted indices."""
        weights = np.ones(len(self.edges)) if self.weights is None else self.weights
        u, v = self.edges.T
        if not self.directed:
            u, v, weights = np.r_[u, v], np.r_[v, u], np.r_[weights, weights]
        shape = (self.num_nodes, self.num_nodes)
        matrix = sp.csr_array(sp.coo_array((weights, (u, v)), shape=shape))
        matrix.sort_indices()
        # Where there is no edge, scipy takes int32: kernels would be compiled again.
        matrix.indptr = matrix.indptr.astype(np.int64, copy=False)
        matrix.indices = matrix.indices.astype(np.int64, copy=False)
        return matrix

    @cached_property
    def degrees(self) -> FloatArray:
        """Weighted (out-)degree of every node."""
        return np.asarray(self.adjacency.sum(axis=1), dtype=np.float64).ravel()

    @cached_property
    def components(self) -> npt.NDArray[Any]:
        """For every node, the number of the connected part it is in, from 0 on."""
        # Few commands ask for it, and it is slow to import.
        from scipy.sparse.csgraph import connected_components

        part: npt.NDArray[Any] = connected_components(self.adjacency, directed=False)[1]
        return part

    @cached_property
    def node_ids(self) -> npt.NDArray[Any]:
        """The user's ids, or ``0..n-1``."""
        return np.arange(self.num_nodes) if self.ids is None else self.ids

    @cached_property
    def _index(self) -> dict[Hashable, int]:
        return {node: i for i, node in enumerate(self.node_ids.tolist())}

    def find(self, node: Hashable) -> int | None:
        """Return the index of a node id, or None if there is no such node."""
        try:
            return self._index.get(node)
        except TypeError:  # not hashable, so not an id
            return None

    def index_of(self, node: Hashable) -> int:
        """Return the index of a node id, or raise naming the nearest ids."""
        found = self.find(node)
        if found is None:
            raise InputError(unknown_node(node, self.node_ids))
        return found

    def indices_of(self, nodes: Sequence[Hashable] | npt.NDArray[Any]) -> IntArray:
        """Return the indices of several node ids."""
        listed = nodes.tolist() if isinstance(nodes, np.ndarray) else nodes
        return np.array([self.index_of(node) for node in listed], dtype=np.int64)

    def symmetrised(self) -> Graph:
        """Return the undirected graph with an edge where either direction has one."""
        if not self.directed:
            return self
        undirected = Graph.from_indices(
            self.num_nodes, self.edges, weights=self.weights, times=self.times
        )
        weights = None if self.weights is None else undirected.weights
        return replace(
            self,
            edges=undirected.edges,
            weights=weights,
            times=undirected.times,
            directed=False,
            notes=(*self.notes, "symmetrised: directions of edges ignored"),
        )

    def with_edges(self, edges: IntArray) -> Graph:
        """Return the same nodes with a subset of the edges, given as pairs."""
        position = find_pairs(self.edges, edges, self.num_nodes)
        if np.any(position < 0):
            missing = edges[int(np.argmax(position < 0))].tolist()
            raise InputError(f"The pair {missing} is not an edge of the graph.")
        position = np.sort(position)
        return replace(
            self,
            edges=self.edges[position],
            weights=None if self.weights is None else self.weights[position],
            times=None if self.times is None else self.times[position],
        )

    def require_undirected(self, method: str) -> None:
        """Raise unless the graph is undirected."""
        if self.directed:
            raise UnsupportedGraphError(
                f"{method} is defined for undirected graphs only, and this graph is "
                "directed.",
                hint="Ignore directions with graph.symmetrised(), or --symmetrise.",
            )

    def _repr_html_(self) -> str:
        kind = "directed" if self.directed else "undirected"
        weighted = ", weighted" if self.is_weighted else ""
        rows = [
            ("nodes", f"{self.num_nodes:,}"),
            ("edges", f"{self.num_edges:,} ({kind}{weighted})"),
            ("attributes", f"{self.num_attributes:,}"),
        ]
        return html_facts("Graph", [*rows, *(("note", note) for note in self.notes)])

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        weighted = "weighted " if self.is_weighted else ""
        attributes = (
            "no attributes"
            if self.attributes is None
            else f"{self.num_attributes:,} attributes"
        )
        return (
            f"Graph({self.num_nodes:,} nodes, {self.num_edges:,} {weighted}{kind} "
            f"edges, {attributes})"
        )


def check_graph(graph: Graph) -> None:
    """Raise unless a graph keeps what its class promises."""
    n, edges = graph.num_nodes, graph.edges
    if n < 0 or edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype != np.int64:
        raise InputError("edges must be an (m, 2) int64 array over 0..n-1.")
    if len(edges) and (
        edges.min() < 0 or edges.max() >= n or not _is_increasing(edges, n)
    ):
        raise InputError("edges must be sorted, without duplicates, over 0..n-1.")
    wrong = edges[:, 0] == edges[:, 1] if graph.directed else edges[:, 0] >= edges[:, 1]
    if np.any(wrong):
        raise InputError("edges must have u < v (u != v in a directed graph).")
    check_values(graph.weights, len(edges), "weights")
    check_values(graph.times, len(edges), "times")
    if graph.weights is not None and np.any(graph.weights <= 0):
        raise InputError("Edge weights must be positive.")
    _check_node_data(graph)


# Rows that are looked at together: what is computed of them stays small.
_BLOCK = 1 << 22


def _is_increasing(edges: IntArray, n: int) -> bool:
    blocks = (edges[i : i + _BLOCK + 1] for i in range(0, len(edges), _BLOCK))
    return all(bool(np.all(np.diff(pair_keys(block, n)) > 0)) for block in blocks)


def is_canonical(edges: IntArray, n: int, *, directed: bool) -> bool:
    """Tell whether an (m, 2) int64 array is kept by a graph as it is."""
    if not len(edges):
        return True
    u, v = edges.T
    apart = u != v if directed else u < v
    inside = edges.min() >= 0 and edges.max() < n
    return bool(inside and apart.all() and _is_increasing(edges, n))


def _all_finite(values: Any) -> bool:
    """Look in blocks: attributes may be many, or a file mapped into memory."""
    step = max(1, _BLOCK // max(1, values[:1].size))
    blocks = range(0, len(values), step)
    return all(bool(np.isfinite(values[i : i + step]).all()) for i in blocks)


def _check_node_data(graph: Graph) -> None:
    n, attributes = graph.num_nodes, graph.attributes
    if attributes is not None:
        if attributes.ndim != 2 or attributes.shape[0] != n:
            raise InputError(
                f"The attributes have shape {attributes.shape}, but there are {n} "
                "nodes.",
                hint="Give one row of attributes for every node.",
            )
        values = attributes.data if sp.issparse(attributes) else attributes
        if not _all_finite(np.asarray(values)):
            raise InputError(
                "The attributes contain missing or infinite values.",
                hint="Fill them in, for example with 0 or the column's mean.",
            )
    _check_ids(graph.ids, n)
    if graph.labels is not None and len(graph.labels) != n:
        raise InputError(f"There are {len(graph.labels)} labels for {n} nodes.")
    if graph.ends is not None and graph.ends.shape != (2, n):
        raise InputError(f"ends must have shape (2, {n}), not {graph.ends.shape}.")
    if graph.sides is not None:
        u, v = graph.sides[graph.edges.T] if len(graph.sides) == n else ((0,), (0,))
        if np.any(np.less(u, 0) | np.less(v, 0) | np.equal(u, v)):
            raise InputError(
                "sides must be 0 at one end of every edge, 1 at the other."
            )
    names = graph.attribute_names
    if names is not None and len(names) != graph.num_attributes:
        raise InputError(
            f"There are {len(names)} attribute names for {graph.num_attributes} "
            "attributes."
        )


def _check_ids(ids: npt.NDArray[Any] | None, n: int) -> None:
    if ids is None:
        return
    if ids.shape != (n,):
        raise InputError(f"There are {len(ids)} ids for {n} nodes.")
    if ids.dtype.kind in "iuU" and bool(np.all(ids[:-1] < ids[1:])):
        return  # sorted, as they were read: a set of millions takes a gigabyte
    try:
        distinct = len(set(ids.tolist()))
    except TypeError as error:
        raise InputError(f"Node ids must be hashable: {error}.") from error
    if distinct != n:
        raise InputError("Node ids must be unique.")


def pair_keys(pairs: IntArray, num_nodes: int) -> IntArray:
    """Return one sortable integer per pair: ``u * n + v``."""
    return pairs[:, 0] * np.int64(num_nodes) + pairs[:, 1]


def find_pairs(sorted_pairs: IntArray, wanted: IntArray, num_nodes: int) -> IntArray:
    """Return the position of each wanted pair among sorted pairs, -1 if absent."""
    keys, query = pair_keys(sorted_pairs, num_nodes), pair_keys(wanted, num_nodes)
    position = np.searchsorted(keys, query)
    # The key of a pair outside 0..n-1 can equal that of another pair.
    known = np.all((wanted >= 0) & (wanted < num_nodes), axis=1)
    inside = known & (position < len(keys))
    found = np.zeros(len(query), dtype=bool)
    found[inside] = keys[position[inside]] == query[inside]
    return np.where(found, position, -1).astype(np.int64)


def canonical_pairs(pairs: IntArray, *, directed: bool) -> IntArray:
    """Return pairs with ``u < v`` (undirected) in the order given."""
    if directed or np.all(pairs[:, 0] < pairs[:, 1]):
        return pairs
    return np.sort(pairs, axis=1)


@dataclass(frozen=True)
class MergedEdges:
    """Canonical edges with what belongs to each, and what was done to get there."""

    edges: IntArray
    weights: FloatArray | None
    times: FloatArray | None
    notes: tuple[str, ...]


def merge_edges(
    pairs: IntArray,
    weights: FloatArray | None,
    times: FloatArray | None,
    *,
    directed: bool,
    n: int,
) -> MergedEdges:
    """Drop loops and edges of weight 0, merge repeated ones, sort the rest."""
    notes: list[str] = []
    check_values(weights, len(pairs), "weights")
    check_values(times, len(pairs), "times")
    keep = pairs[:, 0] != pairs[:, 1]
    _note(notes, np.count_nonzero(~keep), "dropped {} self-loop{}")
    if weights is not None:
        if np.any(weights < 0):
            at = int(np.argmax(weights < 0))
            raise InputError(
                f"Edge {at + 1} has the negative weight {weights[at]:g}.",
                hint="Weights must be positive: shift or drop negative ones.",
            )
        zero = keep & (weights == 0)
        _note(notes, np.count_nonzero(zero), "dropped {} edge{} of weight 0")
        keep &= weights > 0
    keys = _keys_of_rows(pairs, keep, directed=directed, n=n)
    order = None
    if weights is None and times is None:
        keys.sort()
    else:  # rows of one edge stay in their order, and so does the sum of their weights
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    repeated = int(np.count_nonzero(~first))
    summed = "" if weights is None else ", weights added"
    _note(notes, repeated, "merged {} repeated edge{}" + summed)
    if repeated:
        keys = keys[first]
    edges = _pairs_of_keys(keys, n)
    if order is None:
        return MergedEdges(edges, None, None, tuple(notes))
    edge = np.cumsum(first) - 1
    if weights is not None:
        weights = weights[keep][order]
        added = np.bincount(edge, weights=weights, minlength=len(edges))
        weights = np.asarray(added, dtype=np.float64)
    if times is not None:
        earliest = np.full(len(edges), np.inf)
        np.minimum.at(earliest, edge, times[keep][order])
        times = earliest
    return MergedEdges(edges, weights, times, tuple(notes))


def _keys_of_rows(
    pairs: IntArray, keep: npt.NDArray[np.bool_], *, directed: bool, n: int
) -> IntArray:
    """Return the keys of some rows, block by block: no second table of pairs."""
    keys = np.empty(np.count_nonzero(keep), dtype=np.int64)
    done = 0
    for at in range(0, len(pairs), _BLOCK):
        some = pairs[at : at + _BLOCK][keep[at : at + _BLOCK]].astype(np.int64)
        some = canonical_pairs(some, directed=directed)
        keys[done : done + len(some)] = pair_keys(some, n)
        done += len(some)
    return keys


def _pairs_of_keys(keys: IntArray, n: int) -> IntArray:
    """Return the pairs that :func:`pair_keys` numbered."""
    pairs = np.empty((len(keys), 2), dtype=np.int64)
    for at in range(0, len(keys), _BLOCK):
        u, v = np.divmod(keys[at : at + _BLOCK], max(n, 1))
        pairs[at : at + _BLOCK, 0], pairs[at : at + _BLOCK, 1] = u, v
    return pairs


def _note(notes: list[str], count: int | np.integer[Any], text: str) -> None:
    if count:
        notes.append(text.format(f"{int(count):,}", "" if count == 1 else "s"))


def as_pairs(edges: npt.ArrayLike, num_nodes: int) -> IntArray:
    """Return edges as (m, 2) indices, refusing other shapes and unknown nodes."""
    if isinstance(edges, np.ndarray) and edges.dtype.kind == "i":
        pairs = edges  # as narrow as they are
    else:
        pairs = as_integers(edges, "Edges given as node indices")
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(
            f"Edges must have the shape (m, 2), not {pairs.shape}.",
            hint="Turn a (2, m) edge index with .T.",
        )
    low, high = int(pairs.min()), int(pairs.max())
    if low < 0 or high >= num_nodes:
        raise InputError(
            f"An edge names node {low if low < 0 else high}, but the graph has "
            f"{num_nodes} nodes, numbered 0 to {num_nodes - 1}.",
            hint="Give num_nodes as large as the largest index plus one.",
        )
    return pairs


def as_integers(values: npt.ArrayLike, what: str) -> IntArray:
    """Return an int64 array, refusing what the conversion would change."""
    try:
        given = np.asarray(values)
        with np.errstate(invalid="ignore"):
            whole = given.astype(np.int64)
        same = bool(np.all(whole == given))
    except (ValueError, TypeError, OverflowError):
        same = False
    if not same:
        raise InputError(
            f"{what} must be whole numbers.",
            hint="Ids of other types go through Graph.from_edges.",
        )
    return whole


def as_floats(values: npt.ArrayLike | None) -> FloatArray | None:
    """Return weights or times as float64."""
    if values is None:
        return None
    try:
        return np.asarray(values, dtype=np.float64).ravel()
    except (ValueError, TypeError) as error:
        raise InputError(f"Weights and times must be numbers: {error}.") from error


def check_values(values: FloatArray | None, count: int, what: str) -> None:
    """Raise unless there is one finite value per edge."""
    if values is None:
        return
    if len(values) != count:
        raise InputError(f"There are {len(values)} {what} for {count} edges.")
    if not np.all(np.isfinite(values)):
        at = int(np.argmax(~np.isfinite(values)))
        raise InputError(
            f"Edge {at + 1} has {values[at]} among its {what}.",
            hint="Fill in or drop missing and infinite values.",
        )


def as_attributes(attributes: Any) -> Attributes | None:
    """Return attributes as float32: CSR stays CSR, anything else becomes dense."""
    if attributes is None:
        return None
    try:
        # A double beyond float32 becomes infinite, which the check below reports.
        with np.errstate(over="ignore"):
            return _float32_attributes(attributes)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"The attributes are not a matrix of numbers: {error}.",
            hint="Give tables with text columns to Graph.from_edges.",
        ) from error


def _float32_attributes(attributes: Any) -> Attributes:
    if sp.issparse(attributes):
        matrix = sp.csr_array(attributes, dtype=np.float32)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return matrix
    return np.ascontiguousarray(attributes, dtype=np.float32)


def as_id_array(ids: Sequence[Hashable] | npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return node ids as a one-dimensional array that keeps each id's own type."""
    if isinstance(ids, np.ndarray) and ids.ndim == 1:
        return ids
    listed = list(ids)
    kinds = {type(node) for node in listed}
    if kinds == {int} and all(-(2**63) <= node < 2**63 for node in listed):
        return np.array(listed, dtype=np.int64)
    if kinds == {str} and not any(_unfit_for_numpy(node) for node in listed):
        return np.array(listed)
    # Filled one by one: numpy would take a list of tuples for a second dimension.
    array = np.empty(len(listed), dtype=object)
    for position, node in enumerate(listed):
        array[position] = node
    return array


def _unfit_for_numpy(node: Hashable) -> bool:
    """Tell whether numpy's fixed-width text would lose or bloat an id.

    Trailing NULs are cut off, and the longest id sets the width of all.
    """
    text = str(node)
    return len(text) > LONGEST_FIXED_ID or text.endswith("\0")


def unknown_node(node: Hashable, known_ids: npt.NDArray[Any]) -> str:
    """Return the message for an id that no node has, naming the nearest ids."""
    import difflib

    index, node = known_ids.tolist(), builtin(node)
    text = str(node)
    same = [known for known in index if str(known).strip() == text.strip()]
    if same:
        return (
            f"There is no node {node!r}, but there is {same[0]!r}: they differ in type "
            "or white space."
        )
    # Comparing with millions of ids would take minutes: near ones have a near length.
    alike = (str(known) for known in index if abs(len(str(known)) - len(text)) <= 2)
    near = difflib.get_close_matches(text, list(islice(alike, 20_000)), n=3)
    suggestion = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"There is no node {node!r} in the graph.{suggestion}"
