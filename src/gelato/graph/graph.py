"""The class :class:`Graph`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import InputError, UnsupportedGraphError
from gelato.graph.canonical import (
    Attributes,
    FloatArray,
    IntArray,
    as_attributes,
    as_floats,
    as_integers,
    as_pairs,
    check_values,
    find_pairs,
    merge_edges,
    pair_keys,
)


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
    return len(text) > 64 or text.endswith("\0")


def unknown_node(node: Hashable, known_ids: npt.NDArray[Any]) -> str:
    """Return the message for an id that no node has, naming the nearest ids."""
    import difflib

    index = known_ids.tolist()
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
        Positive, finite edge weights; ``None`` means that every edge weighs 1.
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
    def from_edges(
        cls,
        edges: Any,
        attributes: Any = None,
        *,
        source: str | int | None = None,
        target: str | int | None = None,
        weight: str | int | None = None,
        time: str | int | None = None,
        directed: bool = False,
        **options: Any,
    ) -> Graph:
        """Build a graph from an edge table in the user's own node ids.

        Parameters
        ----------
        edges : path, polars or pandas frame, array or sequence of pairs
            One edge per row.
        attributes : path, frame, array or CSR matrix, optional
            One node per row. A table needs an id column (the first one unless
            ``id=`` says otherwise); a matrix must follow the order of the ids.
        source, target, weight, time : column name or position, optional
            Where to find the ends, the weight and the time of an edge. Default:
            the first two columns, and columns called ``weight`` and ``time``.
        directed : bool
            Whether edges have a direction.
        **options
            Passed to :func:`gelato.io.read_graph`.
        """
        from gelato.io import read_graph

        return read_graph(
            edges,
            attributes,
            source=source,
            target=target,
            weight=weight,
            time=time,
            directed=directed,
            **options,
        )

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
        """Number of pairs: unordered, or ordered in a directed graph."""
        ordered = self.num_nodes * (self.num_nodes - 1)
        return ordered if self.directed else ordered // 2

    @property
    def is_weighted(self) -> bool:
        """Whether some edge weighs something other than 1."""
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
        return matrix

    @cached_property
    def degrees(self) -> FloatArray:
        """Weighted (out-)degree of every node."""
        return np.asarray(self.adjacency.sum(axis=1), dtype=np.float64).ravel()

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
    keys = pair_keys(edges, n)
    if len(edges) and (
        edges.min() < 0 or edges.max() >= n or np.any(np.diff(keys) <= 0)
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


def _all_finite(values: Any) -> bool:
    """Look in blocks: attributes may be many, or a file mapped into memory."""
    step = max(1, (1 << 22) // max(1, values[:1].size))
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
    try:
        distinct = len(set(ids.tolist()))
    except TypeError as error:
        raise InputError(f"Node ids must be hashable: {error}.") from error
    if distinct != n:
        raise InputError("Node ids must be unique.")
