"""A sparse matrix times a dense table, row by row, whatever the table's width."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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
