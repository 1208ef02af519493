"""Everything that the edges of one graph decide, computed once and then read by pairs.

A masked graph gets measures of its own: whatever edges enter (walks, the ridge walk,
eigenvectors, the neighbours' attributes, the log-odds of shared attributes) is
computed from its edges alone, by the same code as for the whole graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, Graph, IntArray
from gelato.heuristics.eigenvectors import leading_eigenvectors
from gelato.heuristics.linear import (
    MOST_DIRECT,
    normalised,
    ridge_inverse,
    sparse_ridge_inverse,
)
from gelato.kernels import pair_attributes, pair_walks, ridge_walks
from gelato.stacking.node_attributes import Factors, NodeAttributes, unit_factors

Table = npt.NDArray[np.float32]

KINDS = ("walk", "count", "log", "root", "strong", "alike")
"""Kinds of walk: see :meth:`Measures.walk_kinds`."""

_EIGENVECTORS = 64
_SPARSE_TOLERANCE = 1e-2  # of the ridge walk on graphs above MOST_DIRECT
_LARGE_TOLERANCE = 3e-2  # above MOST_WHOLE: a third of the entries
MOST_WHOLE = 20_000
"""Nodes up to which whole rows are scored; beyond, near pairs only."""

_HUB = 3_000  # neighbours, on graphs above MOST_WHOLE: see Measures.hub
_POWERS = 8  # of subspace iteration on graphs above MOST_WHOLE
_MORE = 16  # columns that it has in excess
_MOST_LONG = 30_000  # nodes: walks of four and five steps visit all edges per row


@dataclass(frozen=True, eq=False)
class Measures:
    """Measures of one graph.

    Parameters
    ----------
    graph : Graph
        Undirected; the edges that may be looked at.
    attributes : NodeAttributes, optional
        Made from the same nodes.
    """

    graph: Graph
    attributes: NodeAttributes | None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def walks_are_long(self) -> bool:
        """Whether walks of four and five steps are counted."""
        return self.num_nodes <= _MOST_LONG

    @property
    def is_large(self) -> bool:
        """Whether only near pairs are looked at."""
        return self.num_nodes > MOST_WHOLE

    @property
    def hub(self) -> int:
        """Most neighbours of a node that walks of three steps pass through.

        A hub of d neighbours costs d^2 and adds 1/d to a walk.
        """
        return _HUB if self.is_large else self.num_nodes

    @cached_property
    def pattern(self) -> tuple[Any, Any]:
        """The adjacency matrix without weights: indptr, indices."""
        adjacency = self.graph.adjacency
        return adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32)

    @cached_property
    def counts(self) -> FloatArray:
        """Number of neighbours of every node."""
        counts: FloatArray = np.diff(self.pattern[0]).astype(np.float64)
        return counts

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """Both nodes of every stored edge."""
        rows = np.repeat(np.arange(self.num_nodes), np.diff(self.pattern[0]))
        return rows, self.pattern[1]

    @cached_property
    def overlaps(self) -> FloatArray:
        """How many neighbours the ends of every stored edge share."""
        out = np.empty(len(self.pattern[1]))
        pair_walks.edge_overlaps(self.pattern, out)
        return out

    @cached_property
    def clustering(self) -> FloatArray:
        """Share of the pairs of a node's neighbours that are edges."""
        twice = np.bincount(
            self.ends[0], weights=self.overlaps, minlength=self.num_nodes
        )
        pairs = self.counts * (self.counts - 1)
        return np.divide(twice, pairs, out=np.zeros_like(twice), where=pairs > 0)

    @cached_property
    def neighbour_degrees(self) -> FloatArray:
        """Mean number of neighbours of every node's neighbours."""
        u, v = self.ends
        total = np.bincount(u, weights=self.counts[v], minlength=self.num_nodes)
        return total / np.maximum(self.counts, 1.0)

    @cached_property
    def walk_kinds(self) -> tuple[Any, Any]:
        """Edge weights (nnz, kinds) and node factors (n, kinds) of the kinds of walk.

        ``walk``: a random walk, 1/degree; ``count``: every walk counts 1; ``log`` and
        ``root``: 1/log(1 + degree) and degree^-1/2; ``strong``: a random walk along
        edges whose ends share neighbours; ``alike``: along edges whose ends are alike.
        """
        u, v = self.ends
        data, degrees = self.graph.adjacency.data, self.graph.degrees
        ones = np.ones_like(data)
        strong = data * (1.0 + self.overlaps) / np.sqrt(self.counts[u] * self.counts[v])
        alike = data * self._edge_likeness(u, v)
        weights = np.stack([data, ones, data, data, strong, alike], axis=1)
        factors = [
            _inverse(degrees),
            np.ones(self.num_nodes),
            _inverse(np.log1p(degrees)),
            _inverse(np.sqrt(degrees)),
            _inverse(np.bincount(u, weights=strong, minlength=self.num_nodes)),
            _inverse(np.bincount(u, weights=alike, minlength=self.num_nodes)),
        ]
        return weights, np.ascontiguousarray(np.stack(factors, axis=1))

    def _edge_likeness(self, u: IntArray, v: IntArray) -> FloatArray:
        if self.attributes is None:
            return np.ones(len(u))
        pairs = np.stack([u, v], axis=1).astype(np.int64)
        factors = self.attributes.factors
        # Symmetric to the bit: the smaller node first.
        likeness = dots(np.sort(pairs, axis=1), factors, factors)
        return 0.05 + np.maximum(likeness, 0.0).astype(np.float64)

    @cached_property
    def ridge_inverse(self) -> npt.NDArray[Any] | None:
        """The dense inverse of the ridge walk; None where the graph is too large."""
        if self.num_nodes > MOST_DIRECT:
            return None
        adjacency = self.graph.adjacency
        return ridge_inverse(adjacency, dtype=np.float32)

    @cached_property
    def sparse_ridge(self) -> tuple[Any, ...]:
        """On large graphs: the graph, an approximate sparse inverse, its diagonal."""
        adjacency = self.graph.adjacency
        tolerance = _LARGE_TOLERANCE if self.is_large else _SPARSE_TOLERANCE
        inverse = sparse_ridge_inverse(adjacency, tolerance=tolerance)
        diagonal = np.maximum(inverse.diagonal(), 1e-12)
        sparse = (inverse.indptr.astype(np.int64), inverse.indices, inverse.data)
        return (*self.pattern, adjacency.data), sparse, diagonal

    @cached_property
    def _ridge_parts(self) -> tuple[Any, ...]:
        adjacency = self.graph.adjacency
        assert self.ridge_inverse is not None
        diagonal = np.diag(self.ridge_inverse).astype(np.float64)
        graph = (*self.pattern, adjacency.data)
        return graph, self.ridge_inverse, diagonal

    def ridge_rows(self, rows: IntArray) -> Table:
        """Return the ridge walk's scores of whole rows."""
        if self.ridge_inverse is None:
            scores = np.empty((len(rows), self.num_nodes), dtype=np.float32)
            ridge_walks.sparse_ridge_rows(rows, *self.sparse_ridge, scores)
            return scores
        out = np.empty((2, len(rows), self.num_nodes), dtype=np.float32)
        ridge_walks.ridge_rows(rows, *self._ridge_parts, out)
        both: Table = out[0] + out[1]
        return both

    def ridge_pairs(self, pairs: IntArray) -> FloatArray:
        """Return what the ridge walk says of pairs, as (p, 4).

        Both halves of the score, the partial correlation, and the score with each
        neighbour over the root of its degree.
        """
        out = np.empty((len(pairs), 4))
        if self.ridge_inverse is None:
            ridge_walks.sparse_ridge_pairs(pairs, *self.sparse_ridge, out)
            return out
        ridge_walks.ridge_pairs(pairs, *self._ridge_parts, out)
        return out

    @cached_property
    def eigenvectors(self) -> tuple[Factors, Factors]:
        """Leading eigenvectors of N, and the same times their eigenvalues."""
        n = self.num_nodes
        k = min(_EIGENVECTORS, n - 2)
        if k < 1 or self.graph.num_edges == 0:
            nothing = np.zeros((n, 1), dtype=np.float32)
            return nothing, nothing
        matrix = normalised(self.graph.adjacency)
        if self.is_large:
            return _leading(matrix, k)
        values, vectors = leading_eigenvectors(matrix, k, tolerance=1e-3)
        left = np.ascontiguousarray(vectors, dtype=np.float32)
        return left, np.ascontiguousarray(vectors * values, dtype=np.float32)

    @cached_property
    def spectral_factors(self) -> Factors:
        """Rows of the eigenvectors times their eigenvalues, of length 1."""
        return unit_factors(self.eigenvectors[1])

    @cached_property
    def neighbour_factors(self) -> Factors:
        """Mean attribute factors of every node's neighbours, of length 1."""
        assert self.attributes is not None
        return unit_factors(self.graph.adjacency @ self.attributes.factors)

    @cached_property
    def mixed_factors(self) -> Factors:
        """A node's own factors plus those of its neighbours, of length 1."""
        assert self.attributes is not None
        return unit_factors(self.attributes.factors + self.neighbour_factors)

    @cached_property
    def bilinear_factors(self) -> Factors:
        """Factors F W with W the ridge regression ``N ~ F W F^T`` of known edges."""
        assert self.attributes is not None
        with single_blas_thread():
            found = self.attributes.factors @ self._bilinear.astype(np.float32)
        return np.ascontiguousarray(found, dtype=np.float32)

    @cached_property
    def bilinear_around(self) -> Factors:
        """The same W, on the factors of the neighbours."""
        with single_blas_thread():
            found = self.neighbour_factors @ self._bilinear.astype(np.float32)
        return np.ascontiguousarray(found, dtype=np.float32)

    @cached_property
    def _bilinear(self) -> FloatArray:
        assert self.attributes is not None
        factors = self.attributes.factors.astype(np.float64)
        with single_blas_thread():
            gram = factors.T @ factors
            gram += np.eye(len(gram)) * (np.trace(gram) / len(gram))
            middle = factors.T @ (normalised(self.graph.adjacency) @ factors)
            half = np.linalg.solve(gram, middle)
            fitted = np.linalg.solve(gram, half.T)
        return (fitted + fitted.T) / 2

    @cached_property
    def attribute_columns(self) -> FloatArray:
        """Rarity of every attribute, and its log-odds to be shared along an edge."""
        assert self.attributes is not None
        own = self.attributes
        rarity = own.rarity
        if not own.sparse or self.graph.num_edges == 0:
            return np.stack([rarity, np.zeros_like(rarity)], axis=1)
        pattern = sp.csr_array(own.rows.astype(bool).astype(np.float64))
        u, v = self.graph.edges.T
        shared = np.zeros(pattern.shape[1])
        step = 1 << 13  # counts are whole numbers: no bit depends on it
        for at in range(0, len(u), step):
            both = pattern[u[at : at + step]] * pattern[v[at : at + step]]
            shared += np.asarray(both.sum(axis=0)).ravel()
        share = np.asarray(pattern.sum(axis=0)).ravel() / self.num_nodes
        by_chance = self.graph.num_edges * share**2
        return np.stack([rarity, np.log((shared + 2.0) / (by_chance + 2.0))], axis=1)


def dots(pairs: IntArray, left: Factors, right: Factors) -> Table:
    """Return ``left[u] . right[v]`` of pairs."""
    out = np.empty(len(pairs), dtype=np.float32)
    pair_attributes.factor_dots(pairs, left, right, out)
    return out


def _leading(matrix: sp.csr_array, count: int) -> tuple[Factors, Factors]:
    """Return about the leading eigenvectors of N, and the same times eigenvalues.

    Subspace iteration on N + I with a fixed number of steps, in single precision.
    """
    n, single = matrix.shape[0], sp.csr_array(matrix, dtype=np.float32)
    start = np.random.default_rng(0).standard_normal((n, count + _MORE), np.float32)
    with single_blas_thread():
        basis = np.linalg.qr(start)[0]
        for power in range(1, _POWERS + 1):
            basis += single @ basis
            if power % 2 == 0:
                basis = np.linalg.qr(basis)[0]
        values, turn = np.linalg.eigh(basis.T @ (single @ basis))
        best = np.ascontiguousarray(turn[:, ::-1][:, :count])
        vectors = np.ascontiguousarray(basis @ best)
    return vectors, vectors * values[::-1][:count].astype(np.float32)


def _inverse(values: Any) -> FloatArray:
    given = np.asarray(values, dtype=np.float64)
    return np.divide(1.0, given, out=np.zeros_like(given), where=given > 0)
