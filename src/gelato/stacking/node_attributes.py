"""What attributes say about nodes, before any edge is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, Graph

Factors = npt.NDArray[np.float32]

DIMENSIONS = 128
_MOST_CELLS = 64_000_000  # of a table of factors: larger graphs get fewer dimensions
_LEAST = 32
_MORE = 16  # extra columns of the random start, for accuracy
_POWERS = 4
# Fuller than this, presence of an attribute says nothing: values are standardised.
_FULL = 0.5


@dataclass(frozen=True, eq=False)
class NodeAttributes:
    """Attributes in the forms that pair features use; no edge enters.

    Parameters
    ----------
    rows : (n, r) CSR float64
        Attributes with rows of length 1.
    rarity : (r,) float64
        Squared inverse document frequency of every attribute.
    rare_norms : (n,) float64
        Length of every row once attributes are weighed by their rarity.
    factors : (n, k) float32
        Low-rank factors of the weighed rows, of length 1; 0 where a node has none.
    sparse : bool
        Whether the presence of an attribute means something.
    """

    rows: sp.csr_array
    rarity: FloatArray
    rare_norms: FloatArray
    factors: Factors
    sparse: bool


def node_attributes(graph: Graph) -> NodeAttributes | None:
    """Return the attributes of a graph, or None where they tell no nodes apart."""
    if graph.attributes is None or graph.num_attributes == 0:
        return None
    values = sp.csr_array(graph.attributes, dtype=np.float64)
    values.eliminate_zeros()
    n, r = values.shape
    sparse = values.nnz <= _FULL * n * r
    if not sparse:
        values = _standardised(values)
    rows = _unit_rows(values)
    r = rows.shape[1]
    if rows.nnz == 0 or _all_alike(rows):
        return None
    counts = np.bincount(rows.indices, minlength=r)
    idf = np.log1p(n / np.maximum(counts, 1)) if sparse else np.ones(r)
    weighed = sp.csr_array(rows @ sp.diags_array(idf))
    norms = np.sqrt(np.asarray((weighed * weighed).sum(axis=1)).ravel())
    dimensions = min(DIMENSIONS, max(_LEAST, _MOST_CELLS // n))
    return NodeAttributes(
        rows, idf**2, norms, low_rank(_unit_rows(weighed), dimensions), sparse
    )


def low_rank(matrix: sp.csr_array, dimensions: int) -> Factors:
    """Return unit rows whose dot products follow those of a matrix's rows."""
    _, reached, turn = _directions(matrix, dimensions)
    with single_blas_thread():
        return unit_factors(reached @ turn)


def _directions(matrix: sp.csr_array, dimensions: int) -> tuple[Any, Any, Any]:
    """Return a basis of the leading right singular vectors, and where rows are in it.

    A randomised singular value decomposition with a fixed start, on one thread: the
    same bits every time. The vectors are ``basis @ turn``, ``reached`` is
    ``matrix @ basis``.
    """
    n, r = matrix.shape
    k = min(dimensions, n, r)
    start = np.random.default_rng(0).standard_normal((r, min(k + _MORE, r)))
    with single_blas_thread():
        basis = np.linalg.qr(start)[0]
        for _ in range(_POWERS):
            basis = np.linalg.qr(matrix.T @ (matrix @ basis))[0]
        reached = matrix @ basis  # (n, k + more)
        turn = np.linalg.eigh(reached.T @ reached)[1][:, ::-1][:, :k]
    return basis, reached, turn


@dataclass(frozen=True, eq=False)
class AttributeBasis:
    """Leading directions of the attributes of one graph, for the nodes of others too.

    Parameters
    ----------
    mean, scale : (r,) float32
        Taken from every attribute, and what it is multiplied by then.
    directions : (r, k) float32
        k is a multiple of 4, padded by zeros.
    """

    mean: Factors
    scale: Factors
    directions: Factors

    @classmethod
    def of(cls, graph: Graph, dimensions: int = DIMENSIONS) -> AttributeBasis:
        """Return that of a graph; no directions where attributes tell nothing apart."""
        own, r = node_attributes(graph), graph.num_attributes
        mean, scale = np.zeros(r, np.float32), np.ones(r, np.float32)
        if own is None:
            return cls(mean, scale, np.zeros((r, 0), np.float32))
        if own.sparse:
            scale[:] = np.sqrt(own.rarity)
        else:
            dense = sp.csr_array(graph.attributes, dtype=np.float64).toarray()
            mean[:], spread = dense.mean(axis=0), dense.std(axis=0)
            scale[:] = np.divide(1.0, spread, out=np.zeros(r), where=spread > 0)
        made = cls(mean, scale, np.zeros((r, 0), np.float32))
        basis, _, turn = _directions(made.weighed(graph.attributes), dimensions)
        with single_blas_thread():
            found = basis @ turn
        room = np.zeros((r, -(-found.shape[1] // 4) * 4), np.float32)
        room[:, : found.shape[1]] = found
        return cls(mean, scale, room)

    def factors(self, graph: Graph) -> Factors:
        """Return the unit factors of the nodes of a graph with the same attributes."""
        if not self.directions.shape[1]:
            return np.zeros((graph.num_nodes, 0), np.float32)
        with single_blas_thread():
            return unit_factors(self.weighed(graph.attributes) @ self.directions)

    def weighed(self, attributes: Any) -> sp.csr_array:
        """Return the attributes as they are compared: rare ones weigh more."""
        values = sp.csr_array(attributes, dtype=np.float64)
        if self.mean.any():
            values = sp.csr_array(values.toarray() - self.mean)
        return _unit_rows(sp.csr_array(values @ sp.diags_array(self.scale)))


def unit_factors(values: Any) -> Factors:
    """Return rows of length 1 (or 0) in single precision."""
    norms = np.sqrt((np.asarray(values) ** 2).sum(axis=1, keepdims=True))
    out = np.zeros(values.shape, dtype=np.float32)
    np.divide(values, norms, out=out, where=norms > 1e-9, casting="same_kind")
    return out


def _unit_rows(matrix: sp.csr_array) -> sp.csr_array:
    norms = np.sqrt(np.asarray((matrix * matrix).sum(axis=1)).ravel())
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    scaled = sp.csr_array(sp.diags_array(scale) @ matrix)
    scaled.sort_indices()
    return scaled


def _standardised(values: sp.csr_array) -> sp.csr_array:
    dense = values.toarray()
    spread = dense.std(axis=0)
    dense -= dense.mean(axis=0)
    kept = spread > 1e-12 * np.maximum(1.0, np.abs(dense).max(axis=0, initial=0.0))
    return sp.csr_array(dense[:, kept] / spread[kept])


def _all_alike(rows: sp.csr_array) -> bool:
    """Whether all nodes have the same attributes."""
    first = rows[:1].toarray().ravel()
    same_size = bool(np.all(np.diff(rows.indptr) == rows.indptr[1]))
    return same_size and bool(np.allclose(rows @ first, 1.0, atol=1e-9))
