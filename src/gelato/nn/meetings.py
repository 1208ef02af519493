"""Lists of the attributes in which two nodes meet, for any pairs of nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.kernels.bit_rows import WORD, count_shared, list_shared, pack_rows
from gelato.kernels.pair_features import count_meetings, fill_meetings
from gelato.kernels.parts import run_shares
from gelato.nn.sparse_rows import Array, SparseRows, index_type

# Words of bits per filled entry up to which 0/1 attributes are compared as bits: these
# then take about the memory of the lists, and a tenth of their time or less.
_MOST_WORDS = 2


class Meetings:
    """Node attributes, prepared to be compared.

    Parameters
    ----------
    sparse : (n, r) CSR float32
        The attributes, columns ascending.
    binary : bool
        Whether all are 0 or 1.

    Examples
    --------
    >>> both = Meetings(sp.csr_array(np.eye(3)[[0, 0, 1]]), binary=True)
    >>> both.lists(np.array([[0, 1], [1, 2]])).indptr.tolist()
    [0, 1, 1]
    """

    def __init__(self, sparse: sp.csr_array, *, binary: bool) -> None:
        self.num_columns, self.binary = sparse.shape[1], binary
        self._matrix: tuple[Array, ...] = (sparse.indptr, sparse.indices, sparse.data)
        words = -(-sparse.shape[1] // WORD)
        self._as_bits = binary and sparse.shape[0] * words <= _MOST_WORDS * sparse.nnz
        if self._as_bits:
            bits = np.zeros((sparse.shape[0], words), np.uint64)
            pack_rows(sparse.indptr, sparse.indices, bits)
            self._matrix = (bits,)

    def lists(self, pairs: Array, most: float = np.inf) -> SparseRows | None:
        """Return what each pair shares, or None if that is more than ``most`` in all.

        Parameters
        ----------
        pairs : (M, 2) int64
            Nodes.
        most : float
            Entries of all lists.
        """
        counts = np.zeros(len(pairs), dtype=np.int64)
        count = count_shared if self._as_bits else count_meetings
        run_shares(partial(count, *self._matrix, pairs, counts), len(pairs))
        if counts.sum() > most:
            return None
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        indices = np.empty(indptr[-1], index_type(self.num_columns))
        values = None if self.binary else np.empty(indptr[-1], np.float32)
        fill: Any = partial(
            fill_meetings, *self._matrix, pairs, indptr, indices, values
        )
        if self._as_bits:
            fill = partial(list_shared, *self._matrix, pairs, indptr, indices)
        run_shares(fill, len(pairs))
        return SparseRows(indptr, indices, values, self.num_columns)
