"""The link prediction indices of networkx, a row of pairs at a time.

``nx.jaccard_coefficient(G, backend="gelato")`` gives the triples that networkx gives,
in its order. Most of the time then goes into triples; :func:`index_arrays` gives the
same numbers as arrays. This module is the backend: networkx calls its functions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse import csgraph

from gelato.errors import UnknownNameError
from gelato.graph import IntArray
from gelato.kernels.compiled import kernel

Pair = tuple[Hashable, Hashable]
Triples = Iterator[tuple[Any, Any, Any]]
Numbers = npt.NDArray[Any]
_CELLS = 100_000  # of a block of rows, which then stays in the cache
_NO_LOOPS = "Self loops are not supported"


@dataclass(frozen=True, eq=False)
class IndexedGraph:
    """A networkx graph with its nodes numbered, as this backend takes it.

    Parameters
    ----------
    graph : networkx.Graph
        The graph itself: it decides the order of pairs.
    """

    graph: Any
    __networkx_backend__: ClassVar[str] = "gelato"

    @cached_property
    def nodes(self) -> list[Any]:
        """Nodes in the order of the graph."""
        return list(self.graph)

    @cached_property
    def places(self) -> dict[Any, int]:
        """Number of every node."""
        return {node: i for i, node in enumerate(self.nodes)}

    @cached_property
    def _ends(self) -> IntArray:
        places = self.places
        ends = [(places[u], places[v]) for u, v in self.graph.edges()]
        return np.array(ends, dtype=np.int64).reshape(-1, 2)

    @cached_property
    def loops(self) -> Numbers:
        """1 for nodes with a loop, else 0."""
        loops = np.zeros(len(self.nodes), dtype=np.int64)
        loops[self._ends[self._ends[:, 0] == self._ends[:, 1], 0]] = 1
        return loops

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """Edges without loops and without weights."""
        u, v = self._ends[self._ends[:, 0] != self._ends[:, 1]].T
        both = (np.concatenate([u, v]), np.concatenate([v, u]))
        size = (len(self.nodes), len(self.nodes))
        made = sp.csr_array(sp.coo_array((np.ones(2 * len(u)), both), shape=size))
        made.sort_indices()
        return made

    @cached_property
    def neighbours(self) -> Numbers:
        """Number of neighbours, a loop making a node its own."""
        count: Numbers = np.diff(self.adjacency.indptr).astype(np.int64) + self.loops
        return count

    @cached_property
    def degrees(self) -> Numbers:
        """Ends of edges at every node: two of a loop."""
        return self.neighbours + self.loops

    def is_directed(self) -> bool:
        """Tell whether edges have a direction."""
        return bool(self.graph.is_directed())

    def is_multigraph(self) -> bool:
        """Tell whether pairs may have several edges."""
        return bool(self.graph.is_multigraph())


@kernel()
def row_sums(u, indptr, indices, weights, out):  # type: ignore[no-untyped-def]
    """Write the sums of weights over common neighbours of u and every node."""
    out[:] = 0.0
    for s in range(indptr[u], indptr[u + 1]):
        w = indices[s]
        for t in range(indptr[w], indptr[w + 1]):
            out[indices[t]] += weights[w]


@kernel()
def candidate_sums(  # type: ignore[no-untyped-def]
    start, stop, indptr, indices, weights, source, target, sums
):
    """Write ends and sums of all pairs of rows that are not edges, larger ends last.

    Returns how many there are.
    """
    n, count = indptr.shape[0] - 1, 0
    row = np.empty(n)
    for u in range(start, stop):
        row_sums(u, indptr, indices, weights, row)
        for s in range(indptr[u], indptr[u + 1]):
            row[indices[s]] = -1.0
        for v in range(u + 1, n):
            if row[v] >= 0.0:
                source[count], target[count], sums[count] = u, v, row[v]
                count += 1
    return count


@dataclass(frozen=True)
class Index:
    """An index of pairs.

    Parameters
    ----------
    weights : callable
        Of a graph: what a common neighbour adds, by node; 0 or more.
    finish : callable
        Of the graph, the places of both ends, the sums over common neighbours, and
        whether the pairs are edges: their scores.
    """

    weights: Callable[[IndexedGraph], Numbers]
    finish: Callable[[IndexedGraph, Any, Any, Numbers, Any], Numbers]

    def of_pairs(self, graph: IndexedGraph, u: IntArray, v: IntArray) -> Numbers:
        """Return the scores of listed pairs."""
        edges = graph.adjacency
        shared = (edges[u] * self.weights(graph)).multiply(edges[v])
        linked = np.asarray(edges[u, v]).ravel()
        sums = np.asarray(shared.sum(axis=1)).ravel()
        return self.finish(graph, u, v, sums, linked)

    def of_candidates(self, graph: IndexedGraph) -> IndexArrays:
        """Return the scores of all pairs that are not edges."""
        n, edges = len(graph.nodes), graph.adjacency
        count = n * (n - 1) // 2 - edges.nnz // 2
        source, target = np.empty((2, count), dtype=np.int32)
        score: Numbers = np.empty(count)
        weights = self.weights(graph)
        filled, step = 0, max(1, _CELLS // max(n, 1))
        sums = np.empty(step * n)
        for start in range(0, n, step):
            arrays = (edges.indptr, edges.indices, weights)
            out = (source[filled:], target[filled:], sums)
            found = candidate_sums(start, min(start + step, n), *arrays, *out)
            part = slice(filled, filled + found)
            ends = source[part], target[part]
            values = self.finish(graph, *ends, sums[:found], 0)
            if not start:
                score = score.astype(values.dtype, copy=False)
            score[part] = values
            filled += found
        return IndexArrays(graph.nodes, source, target, score)

    def triples(self, graph: IndexedGraph) -> Triples:
        """Yield all pairs that are not edges, as networkx orders them: by its sets."""
        places, rest, edges = graph.places, set(graph.graph), graph.adjacency
        row, weights = np.empty(len(places)), self.weights(graph)
        while rest:
            u = rest.pop()
            others = list(rest - set(graph.graph[u]))
            at = np.fromiter(map(places.__getitem__, others), np.int64, len(others))
            row_sums(places[u], edges.indptr, edges.indices, weights, row)
            here = np.full(len(at), places[u])
            scores = self.finish(graph, here, at, row[at], 0).tolist()
            yield from zip(repeat(u), others, scores, strict=False)


def _ones(graph: IndexedGraph) -> Numbers:
    return np.ones(len(graph.nodes))


def _as_they_are(
    graph: IndexedGraph, u: Any, v: Any, sums: Numbers, linked: Any
) -> Numbers:
    return sums


def _over_union(
    graph: IndexedGraph, u: Any, v: Any, sums: Numbers, linked: Any
) -> Numbers:
    union: Numbers = graph.neighbours[u] + graph.neighbours[v] - sums
    if np.any(linked):
        # An end with a loop is a neighbour of both, where there is an edge.
        union -= linked * (graph.loops[u] + graph.loops[v])
    return sums / np.maximum(union, 1.0)  # without neighbours there are no common ones


def _degree_product(
    graph: IndexedGraph, u: Any, v: Any, sums: Numbers, linked: Any
) -> Numbers:
    product: Numbers = graph.degrees[u] * graph.degrees[v]
    return product


def _centrality(alpha: float) -> Index:
    """Return common neighbours mixed with the inverse of the distance."""

    def finish(
        graph: IndexedGraph, u: Any, v: Any, sums: Numbers, linked: Any
    ) -> Numbers:
        if alpha == 1:
            return sums.astype(np.int64)
        some, at = np.unique(u, return_inverse=True)
        apart = csgraph.dijkstra(graph.adjacency, indices=some, unweighted=True)
        mixed: Numbers = alpha * sums + (1 - alpha) * len(graph.nodes) / apart[at, v]
        return mixed

    return Index(_ones, finish)


_INDICES = {
    # A common neighbour has two edges at least; others are never asked for.
    "adamic_adar_index": Index(
        lambda graph: 1.0 / np.log(np.maximum(graph.degrees, 2)), _as_they_are
    ),
    "jaccard_coefficient": Index(_ones, _over_union),
    "preferential_attachment": Index(_ones, _degree_product),
    "resource_allocation_index": Index(
        lambda graph: 1.0 / np.maximum(graph.degrees, 1), _as_they_are
    ),
}


@dataclass(frozen=True, eq=False)
class IndexArrays:
    """An index of pairs, as arrays.

    Parameters
    ----------
    nodes : list
        Nodes in the order of the graph.
    source, target : (k,) int32
        Places of a pair's ends in ``nodes``, the smaller first.
    score : (k,)
        Of the pair.
    """

    nodes: list[Any]
    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    score: Numbers


def index_arrays(graph: Any, name: str, *, alpha: float = 0.8) -> IndexArrays:
    """Return an index of networkx for all pairs that are not edges, as arrays.

    Parameters
    ----------
    graph : networkx.Graph
        Undirected, at most one edge per pair.
    name : str
        What networkx calls the index: ``"jaccard_coefficient"``,
        ``"adamic_adar_index"``, ``"resource_allocation_index"``,
        ``"preferential_attachment"`` or ``"common_neighbor_centrality"``.
    alpha : float
        Of common neighbour centrality.

    Examples
    --------
    >>> found = index_arrays(nx.path_graph(3), "jaccard_coefficient")
    >>> found.source.tolist(), found.target.tolist(), found.score.tolist()
    ([0], [2], [1.0])
    """
    known = {**_INDICES, "common_neighbor_centrality": _centrality(alpha)}
    if name not in known:
        raise UnknownNameError(
            f"There is no index called {name!r}.", hint=f"Indices: {', '.join(known)}."
        )
    made = graph if isinstance(graph, IndexedGraph) else convert_from_nx(graph)
    return known[name].of_candidates(made)


def convert_from_nx(graph: Any, **_: Any) -> IndexedGraph:
    """Return a graph as this backend takes it; networkx calls this."""
    return IndexedGraph(graph)


def convert_to_nx(result: Any, **_: Any) -> Any:
    """Return what a function gave, a graph as networkx knows it."""
    return result.graph if isinstance(result, IndexedGraph) else result


def jaccard_coefficient(graph: Any, ebunch: Iterable[Pair] | None = None) -> Triples:
    """Return (u, v, common neighbours over all neighbours) as networkx does."""
    return _triples(graph, _INDICES["jaccard_coefficient"], ebunch)


def adamic_adar_index(graph: Any, ebunch: Iterable[Pair] | None = None) -> Triples:
    """Return (u, v, sum of 1 / log degree of common neighbours) as networkx does."""
    return _triples(graph, _INDICES["adamic_adar_index"], ebunch)


def resource_allocation_index(
    graph: Any, ebunch: Iterable[Pair] | None = None
) -> Triples:
    """Return (u, v, sum of 1 / degree of common neighbours) as networkx does."""
    return _triples(graph, _INDICES["resource_allocation_index"], ebunch)


def preferential_attachment(
    graph: Any, ebunch: Iterable[Pair] | None = None
) -> Triples:
    """Return (u, v, product of degrees) as networkx does."""
    return _triples(graph, _INDICES["preferential_attachment"], ebunch)


def common_neighbor_centrality(
    graph: Any, ebunch: Iterable[Pair] | None = None, alpha: float = 0.8
) -> Triples:
    """Return (u, v, common neighbours and nearness mixed) as networkx does."""
    pairs = None if ebunch is None else list(ebunch)
    if pairs is not None and any(u == v for u, v in pairs):
        raise nx.NetworkXAlgorithmError(_NO_LOOPS)
    return _triples(graph, _centrality(alpha), pairs)


def _triples(
    graph: IndexedGraph, index: Index, ebunch: Iterable[Pair] | None
) -> Triples:
    if ebunch is None:
        return index.triples(graph)
    pairs = list(ebunch)
    for node in (node for pair in pairs for node in pair):
        if node not in graph.places:
            raise nx.NodeNotFound(f"Node {node} not in G.")
    if not pairs:
        return iter(())
    ends = np.array([[graph.places[u], graph.places[v]] for u, v in pairs])
    scores = index.of_pairs(graph, ends[:, 0], ends[:, 1]).tolist()
    return ((u, v, score) for (u, v), score in zip(pairs, scores, strict=True))
