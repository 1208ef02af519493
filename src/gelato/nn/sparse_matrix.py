"""A constant sparse matrix times a learned dense one, fast in both directions."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from gelato.kernels.parts import run_shares
from gelato.kernels.sparse_products import rows_times

Array = npt.NDArray[Any]


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
        self._rows = (rows.indptr, rows.indices)

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
        return turned.indptr, turned.indices, turned.data

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
