"""A constant sparse matrix times a learned dense one, fast in both directions."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor


class SparseMatrix:
    """A sparse matrix whose transpose is at hand for gradients.

    The gradient of torch's own product transposes anew each time, which took 50
    times as long as the product itself.

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
        self._indptr, self._indices = _indices(rows)
        self.values = torch.from_numpy(rows.data.astype(dtype))
        position = sp.csr_array(
            (np.arange(1, rows.nnz + 1), rows.indices, rows.indptr), shape=rows.shape
        )
        turned = sp.csr_array(position.T)
        turned.sort_indices()
        self._turned_indptr, self._turned_indices = _indices(turned)
        self._order = torch.from_numpy(turned.data - 1)
        self._tensors = self._build(self.values)

    def times(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return this matrix times a dense ``(columns, width)``.

        Parameters
        ----------
        dense : (columns, width) Tensor
            May need a gradient.
        values : (filled,) Tensor, optional
            Stand-ins for the matrix's own values, for dropout; constant.
        """
        forth, back = self._tensors if values is None else self._build(values)
        return cast(Tensor, _Times.apply(dense, forth, back))  # type: ignore[no-untyped-call]

    def _build(self, values: Tensor) -> tuple[Tensor, Tensor]:
        turned = (self.shape[1], self.shape[0])
        return (
            _csr(self._indptr, self._indices, values, self.shape),
            _csr(
                self._turned_indptr, self._turned_indices, values[self._order], turned
            ),
        )


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, forth: Tensor, back: Tensor) -> Tensor:
        ctx.back = back
        return forth @ dense

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back @ gradients[0].contiguous(), None, None


def _indices(rows: sp.csr_array) -> tuple[Tensor, Tensor]:
    return (
        torch.from_numpy(rows.indptr.astype(np.int64)),
        torch.from_numpy(rows.indices.astype(np.int64)),
    )


def _csr(
    indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]
) -> Tensor:
    with warnings.catch_warnings():
        # torch calls its CSR layout a beta; products of it are all that is used.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return torch.sparse_csr_tensor(
            indptr, indices, values, shape, check_invariants=False
        )
