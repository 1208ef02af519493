"""Laplacians of a sampled set of edges and its triangles, for BScNets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gelato.graph import Graph, IntArray, find_pairs
from gelato.nn.sparse_matrix import SparseMatrix
from gelato.training.batches import generator


def sample_edges(graph: Graph, count: int, seed: int) -> IntArray:
    """Draw edges once: ``count`` directed ones, then those that differ, sorted."""
    directed = 2 * graph.num_edges
    drawn = generator(seed, "simplices").choice(
        directed, size=min(count, directed), replace=False
    )
    return graph.edges[np.unique(drawn % graph.num_edges)]


def edge_laplacians(
    edges: IntArray, present: np.ndarray, num_nodes: int
) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the two Laplacians between edges, ``(e, e)`` each.

    With B1 the node-edge and B2 the edge-triangle incidence: ``L0 = B1^T B1`` and
    ``L1 = D2 B1^T D1^+ B1 + B2 B2^T D2^-1 / 3``, where ``D2 = max(|B2| 1, 1)`` and
    ``D1 = 2 |B1| D2 1``.

    Parameters
    ----------
    edges : (e, 2) int64
        Sorted pairs u < v.
    present : (e,) bool
        Edges that are not hidden; hidden ones keep their place, with rows of zeros.
    num_nodes : int
        Number of nodes.
    """
    count = len(edges)
    at = np.flatnonzero(present)
    signs = np.repeat([-1.0, 1.0], len(at))
    ends = np.concatenate([edges[at, 0], edges[at, 1]])
    shape = (num_nodes, count)
    nodes = sp.csr_array(sp.coo_array((signs, (ends, np.tile(at, 2))), shape=shape))
    triangles = _triangle_incidence(edges, at)
    sizes = np.maximum(np.asarray(abs(triangles).sum(axis=1)).ravel(), 1.0)
    reach = 2.0 * (abs(nodes) @ sizes)
    inverse = np.divide(1.0, reach, out=np.zeros_like(reach), where=reach > 0)
    lower = nodes.T @ nodes
    shared = sp.diags_array(sizes) @ nodes.T @ sp.diags_array(inverse) @ nodes
    upper = triangles @ triangles.T @ sp.diags_array(1.0 / sizes) / 3.0
    return sp.csr_array(lower), sp.csr_array(shared + upper)


def _triangle_incidence(edges: IntArray, at: IntArray) -> sp.csr_array:
    """Return the edge-triangle incidence: +1 for ab and bc, -1 for ac, a < b < c."""
    place = {(int(u), int(v)): int(i) for i, (u, v) in zip(at, edges[at], strict=True)}
    above: dict[int, set[int]] = {}
    for u, v in place:
        above.setdefault(u, set()).add(v)
    rows: list[int] = []
    for a, b in place:
        for c in sorted(above[a] & above.get(b, set())):
            rows += [place[a, b], place[b, c], place[a, c]]
    faces = len(rows) // 3
    entries = (np.tile([1.0, 1.0, -1.0], faces), (rows, np.repeat(np.arange(faces), 3)))
    return sp.csr_array(sp.coo_array(entries, shape=(len(edges), faces)))


@dataclass(frozen=True, eq=False)
class Peaks:
    """The constant half of a row softmax: ``exp(relu(L^2) - peak)``, kept sparse.

    Parameters
    ----------
    laplacian : SparseMatrix
        L itself, so that ``L^2 W`` is two sparse products.
    peak : (e, 1) Tensor
        Largest entry of each row of relu(L^2).
    floor : (e, 1) Tensor
        ``exp(-peak)``: what every entry holds at least.
    bulk : SparseMatrix
        What positive entries of L^2 hold above the floor.
    total : (e, 1) Tensor
        Sum of each row, floor included.
    """

    laplacian: SparseMatrix
    peak: Tensor
    floor: Tensor
    bulk: SparseMatrix
    total: Tensor

    @classmethod
    def of(cls, laplacian: sp.csr_array) -> Peaks:
        """Prepare a Laplacian."""
        square = sp.csr_array(laplacian @ laplacian)
        square.data = np.maximum(square.data, 0.0)
        square.eliminate_zeros()
        peak = np.asarray(square.max(axis=1).todense()).reshape(-1, 1)
        rows = np.repeat(np.arange(square.shape[0]), np.diff(square.indptr))
        bulk = square.copy()
        bulk.data = np.exp(square.data - peak[rows, 0]) - np.exp(-peak[rows, 0])
        floor = np.exp(-peak)
        total = np.asarray(bulk.sum(axis=1)).reshape(-1, 1) + square.shape[0] * floor
        numbers = (torch.from_numpy(x.astype(np.float32)) for x in (peak, floor, total))
        peaks, floors, totals = numbers
        return cls(SparseMatrix(laplacian), peaks, floors, SparseMatrix(bulk), totals)

    def squared_times(self, table: Tensor) -> Tensor:
        """Return ``L^2`` times a table."""
        return self.laplacian.times(self.laplacian.times(table))

    def softmax_times(self, other: Tensor, own: Tensor, rest: Tensor) -> Tensor:
        """Return ``softmax(relu([L^2, R])) [own; rest]``, row by row.

        Parameters
        ----------
        other : (e, e) Tensor
            R, the learned half of the rows.
        own, rest : (e, width) Tensor
            What the two halves are multiplied with.
        """
        moving = other.relu()
        highest = torch.maximum(self.peak, moving.detach().amax(dim=1, keepdim=True))
        share = (self.peak - highest).exp()
        moving = (moving - highest).exp()
        fixed = self.bulk.times(own) + self.floor * own.sum(dim=0)
        top = share * fixed + moving @ rest
        return top / (share * self.total + moving.sum(dim=1, keepdim=True))


def prepare_simplices(edges: IntArray, graph: Graph) -> tuple[Peaks, Peaks]:
    """Return both Laplacians of those sampled edges that a graph has."""
    present = find_pairs(graph.edges, edges, graph.num_nodes) >= 0
    lower, upper = edge_laplacians(edges, present, graph.num_nodes)
    return Peaks.of(lower), Peaks.of(upper)
