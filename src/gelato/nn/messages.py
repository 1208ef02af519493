"""A sparse matrix times a dense table, row by row, whatever the table's width."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import psutil
import scipy.sparse as sp
import torch
from torch import Tensor

from gelato.errors import InputError
from gelato.graph import Graph
from gelato.kernels.chunks import run_shares
from gelato.kernels.compiled import kernel


@kernel()
def rows_times(indptr, indices, values, dense, out, start, stop):  # type: ignore[no-untyped-def]
    """Write rows ``start..stop-1`` of a CSR matrix times ``dense`` to ``out``.

    Four entries at a time: a row of ``out`` is then read and written a quarter as
    often, which is what such a product waits for.
    """
    width = out.shape[1]
    for row in range(start, stop):
        total, end = out[row], indptr[row + 1]
        total[:] = 0
        s = indptr[row]
        while s + 4 <= end:
            a, b, c, d = values[s], values[s + 1], values[s + 2], values[s + 3]
            one, two = dense[indices[s]], dense[indices[s + 1]]
            three, four = dense[indices[s + 2]], dense[indices[s + 3]]
            for k in range(width):
                total[k] += (a * one[k] + b * two[k]) + (c * three[k] + d * four[k])
            s += 4
        while s < end:
            a, one = values[s], dense[indices[s]]
            for k in range(width):
                total[k] += a * one[k]
            s += 1


@kernel()
def average_rows(indptr, indices, root, dense, out, start, stop):  # type: ignore[no-untyped-def]
    """Write rows of ``D (A + I) D`` times ``dense``: A without values, D a diagonal."""
    width = out.shape[1]
    for row in range(start, stop):
        total, own, end = out[row], dense[row], indptr[row + 1]
        for k in range(width):
            total[k] = root[row] * own[k]
        s = indptr[row]
        while s + 4 <= end:
            i, j, m, n = indices[s], indices[s + 1], indices[s + 2], indices[s + 3]
            a, b, c, d = root[i], root[j], root[m], root[n]
            one, two, three, four = dense[i], dense[j], dense[m], dense[n]
            for k in range(width):
                total[k] += (a * one[k] + b * two[k]) + (c * three[k] + d * four[k])
            s += 4
        while s < end:
            a, one = root[indices[s]], dense[indices[s]]
            for k in range(width):
                total[k] += a * one[k]
            s += 1
        for k in range(width):
            total[k] *= root[row]


Array = npt.NDArray[Any]


def _plain(matrix: sp.csr_array) -> tuple[Array, Array]:
    """Return bounds and indices in the types that kernels are compiled for."""
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


class SparseMatrix:
    """A sparse matrix whose transpose is at hand for gradients.

    The gradient of torch's own product transposes anew each time, which took 50
    times as long as the product itself; the product of a wide table takes more than
    twice as long as ours.

    Parameters
    ----------
    matrix : scipy sparse matrix
        The values.
    dtype : numpy dtype
        Type of the products.

    Examples
    --------
    >>> SparseMatrix(sp.csr_array(np.diag([1.0, 2.0]))).times(torch.ones(2, 1)).tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, matrix: Any, dtype: npt.DTypeLike = np.float32) -> None:
        rows = sp.csr_array(matrix)
        rows.sort_indices()
        self.shape: tuple[int, int] = rows.shape
        self.values = torch.from_numpy(rows.data.astype(dtype))
        self._rows = _plain(rows)

    def rows(self, wanted: Tensor) -> SparseMatrix:
        """Return a matrix of some of the rows."""
        indptr, indices = self._rows
        whole = sp.csr_array((self.values.numpy(), indices, indptr), shape=self.shape)
        return SparseMatrix(whole[wanted.numpy()], whole.dtype)

    def times(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return this matrix times a dense ``(columns, width)``.

        Parameters
        ----------
        dense : (columns, width) Tensor
            May need a gradient.
        values : (filled,) Tensor, optional
            Stand-ins for the matrix's own values, for dropout; constant.
        """
        return cast(Tensor, _Times.apply(dense, self, values))  # type: ignore[no-untyped-call]

    def forth(self, dense: Tensor, values: Tensor | None) -> Tensor:
        """Return the product, with no gradient."""
        own = self.values if values is None else values
        return _product(*self._rows, own.numpy(), dense)

    def back(self, dense: Tensor, values: Tensor | None) -> Tensor:
        """Return the transpose times a dense ``(rows, width)``, with no gradient."""
        indptr, indices, order = self._columns
        own = self._turned_values if values is None else values.numpy()[order]
        return _product(indptr, indices, own, dense)

    @cached_property
    def _columns(self) -> tuple[Array, Array, Array]:
        """Bounds and rows of columns, and where their values stand."""
        indptr, indices = self._rows
        places = np.arange(len(indices))
        turned = sp.csr_array(
            sp.csr_array((places, indices, indptr), shape=self.shape).T
        )
        return *_plain(turned), turned.data

    @cached_property
    def _turned_values(self) -> Array:
        return self.values.numpy()[self._columns[2]]


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, dense: Tensor, matrix: SparseMatrix, values: Tensor | None
    ) -> Tensor:
        ctx.matrix, ctx.values = matrix, values
        return matrix.forth(dense, values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.matrix.back(gradients[0], ctx.values), None, None


def _product(indptr: Array, indices: Array, values: Array, dense: Tensor) -> Tensor:
    out = dense.new_empty(len(indptr) - 1, dense.shape[1])
    table = dense.detach().contiguous().numpy()
    work = partial(rows_times, indptr, indices, values, table, out.numpy())
    run_shares(work, len(out))
    return out


FEATURES = ("attributes", "one-hot", "degree")
# Columns of degree features: degrees up to 2^32, by powers of two.
_DEGREE_COLUMNS = 32
# Share of the free memory that preprocessing may take.
_SHARE = 0.7


def node_features(graph: Graph, kind: str, *, normalise: bool) -> sp.csr_array:
    """Return the ``(n, r)`` input of a network.

    Parameters
    ----------
    graph : Graph
        Where from.
    kind : {"attributes", "one-hot", "degree"}
        The graph's attributes; a column per node, which later nodes cannot have; or
        the degree by powers of two.
    normalise : bool
        Divide rows by the sum of their absolute values; rows of zeros stay.
    """
    matrix = _raw_features(graph, kind)
    if normalise:
        sums = np.asarray(abs(matrix).sum(axis=1)).ravel()
        scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
        matrix = sp.csr_array(sp.diags_array(scale) @ matrix)
    return matrix.astype(np.float32)


def _raw_features(graph: Graph, kind: str) -> sp.csr_array:
    n = graph.num_nodes
    if kind == "one-hot":
        return sp.csr_array(sp.eye_array(n))
    if kind == "degree":
        degree = np.diff(graph.adjacency.indptr)
        column = np.floor(np.log2(1.0 + degree)).astype(np.int64)
        entries = (np.ones(n), (np.arange(n), column))
        return sp.csr_array(sp.coo_array(entries, shape=(n, _DEGREE_COLUMNS)))
    if graph.attributes is None or not graph.num_attributes:
        raise InputError(
            "The network needs node attributes, and the graph has none.",
            hint='Choose features="one-hot" (a column per node) or features="degree".',
        )
    return sp.csr_array(graph.attributes, dtype=np.float64)


def adjacency_pattern(graph: Graph) -> sp.csr_array:
    """Return the adjacency matrix with ones, whatever the weights."""
    pattern = graph.adjacency.copy()
    pattern.data = np.ones_like(pattern.data)
    return pattern


def symmetric_average(graph: Graph) -> sp.csr_array:
    """Return ``D^-1/2 (A + I) D^-1/2``, with edge weights and loops of weight 1."""
    looped = sp.csr_array(graph.adjacency + sp.eye_array(graph.num_nodes))
    root = 1.0 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(root) @ looped @ sp.diags_array(root))


def row_average(graph: Graph) -> sp.csr_array:
    """Return ``D^-1 (A + I)``, with edge weights and loops of weight 1."""
    looped = sp.csr_array(graph.adjacency + sp.eye_array(graph.num_nodes))
    inverse = 1.0 / np.asarray(looped.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(inverse) @ looped)


def refuse_large(what: str, needed: float, *, hint: str) -> None:
    """Raise, before the memory is gone, if something will not fit."""
    free = psutil.virtual_memory().available
    if needed > _SHARE * free:
        raise InputError(
            f"{what} would take about {_size(needed)}, and {_size(free)} are free.",
            hint=hint,
        )


def _size(count: Any) -> str:
    return f"{count / 1e9:,.1f} GB"
