"""Pairs of sparse attribute rows whose cosine exceeds a bound, without listing others.

Rows share what they score through lists of who has an attribute. Frequent attributes
make these lists long and say little: a row's most frequent attributes are left out as
long as their norm stays below the bound, for what two rows share in them alone cannot
reach it. All kernels give the same bits, those of :func:`cosines`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.graph import FloatArray
from gelato.kernels.compiled import kernel


def squared_norms(matrix: sp.csr_array) -> FloatArray:
    """Return the squared norm of every row."""
    return np.asarray((matrix * matrix).sum(axis=1), dtype=np.float64).ravel()


def cosines(dots: Any, squares: FloatArray) -> FloatArray:
    """Return cosines from dot products and products of squared norms; 0 for 0 / 0."""
    norms = np.sqrt(squares)
    cosine = np.zeros(norms.shape)
    np.divide(dots, norms, out=cosine, where=norms > 0)
    return cosine


def exact_values(matrix: sp.csr_array, squares: FloatArray) -> Any:
    """Return dense rows, in single precision where that holds all dot products."""
    whole = bool(np.all(matrix.data == np.rint(matrix.data)))
    exact = whole and squares.max(initial=0.0) < 2**24
    return matrix.astype(np.float32 if exact else np.float64).toarray()


@kernel()
def _add_shared(u, above, attributes, transposed, dots, touched):
    """Add the dot products of a row with later ones; return how many are in a list."""
    indptr, indices, data = attributes
    node_indptr, nodes, values = transposed
    count = 0
    for a in range(indptr[u], indptr[u + 1]):
        slot, start = node_indptr[indices[a] + 1] - 1, node_indptr[indices[a]]
        while slot >= start and nodes[slot] > above:
            v = nodes[slot]
            before = dots[v]
            after = before + data[a] * values[slot]
            dots[v] = after
            touched[count] = v
            count += (before == 0.0) & (after > 0.0)
            slot -= 1
    return count


@kernel()
def shared_attribute_rows(
    rows, attributes, transposed, squares, upper, out_indptr, out_columns, out_scores
):
    """Write the cosine of every row with the nodes that share an attribute with it.

    Parameters
    ----------
    rows : (b,) int64
        Rows to score.
    attributes, transposed : (indptr, indices, data)
        CSR of the non-negative attributes X and of its transpose, sorted.
    squares : (n,) float64
        Squared norm of every node's attributes.
    upper : bool
        Only columns larger than the row.
    out_indptr, out_columns, out_scores
        Filled, as CSR.
    """
    dots = np.zeros(squares.size)
    touched = np.empty(squares.size + 1, dtype=np.int32)
    filled = 0
    out_indptr[0] = 0
    for i in range(rows.size):
        u = rows[i]
        above = u if upper else -1
        count = _add_shared(u, above, attributes, transposed, dots, touched)
        for j in range(count):
            v = touched[j]
            if v != u:
                out_columns[filled] = v
                out_scores[filled] = dots[v] / np.sqrt(squares[u] * squares[v])
                filled += 1
            dots[v] = 0.0
        out_indptr[i + 1] = filled


# Left out only where rounding cannot matter.
_SAFE = 1.0 - 1e-9


@kernel()
def telling_starts(attributes, squares, by_rarity, bound):
    """Return, for every row, how many of its attributes no similar pair depends on.

    Parameters
    ----------
    attributes : (indptr, indices, data)
        CSR of the attributes.
    squares : (n,) float64
        Squared norms.
    by_rarity : (nnz,) int32
        Slots of every row, those of frequent attributes first.
    bound : float
        Pairs up to it do not matter.
    """
    indptr, _, data = attributes
    skipped = np.zeros(indptr.size - 1, dtype=np.int64)
    for u in range(indptr.size - 1):
        limit = _SAFE * bound * bound * squares[u]
        total = 0.0
        for place in range(indptr[u], indptr[u + 1]):
            value = data[by_rarity[place]]
            total += value * value
            if total >= limit:
                break
            skipped[u] += 1
    return skipped


@kernel()
def similar_rows(start, stop, attributes, transposed, squares, upper, bound, out):
    """Write the pairs above a bound of rows ``start..stop-1``, as many rows as fit.

    Parameters
    ----------
    start, stop : int
        Rows.
    attributes, transposed : (indptr, indices, data)
        CSR of non-negative attributes and of their transpose, sorted.
    squares : (n,) float64
        Squared norms.
    upper : bool
        Only columns larger than the row.
    bound : float
        At least 0; pairs up to it are left out.
    out : (rows, columns, similarities)
        Filled; at least n long.

    Returns
    -------
    next_row, kept : int
        The first row that was not looked at, and how many pairs there are.
    """
    out_rows, out_columns, out_values = out
    n = squares.size
    dots = np.zeros(n)
    touched = np.empty(n + 1, dtype=np.int32)
    kept = 0
    for u in range(start, stop):
        if kept + n > out_values.size:
            return u, kept
        above = u if upper else -1
        count = _add_shared(u, above, attributes, transposed, dots, touched)
        dots[u] = 0.0
        for j in range(count):
            v = touched[j]
            similarity = dots[v] / np.sqrt(squares[u] * squares[v])
            dots[v] = 0.0
            if similarity > bound:
                out_rows[kept] = u
                out_columns[kept] = v
                out_values[kept] = similarity
                kept += 1
    return stop, kept


@kernel()
def similar_rows_pruned(
    start, stop, attributes, by_rarity, skipped, telling, squares, bound, out
):
    """As :func:`similar_rows` for columns above the row, through telling attributes.

    Two rows whose similarity exceeds the bound share an attribute that neither left
    out. Whoever shares one is compared in full.

    Parameters
    ----------
    start, stop, attributes, squares, bound, out
        As for :func:`similar_rows`.
    by_rarity, skipped
        See :func:`telling_starts`.
    telling : (indptr, nodes)
        For every attribute, the rows that did not leave it out, ascending.
    """
    indptr, indices, data = attributes
    list_indptr, nodes = telling
    out_rows, out_columns, out_values = out
    n = indptr.size - 1
    stamps = np.full(n, -1, dtype=np.int32)
    row = np.zeros(list_indptr.size - 1)
    kept = 0
    for u in range(start, stop):
        if kept + n > out_values.size:
            return u, kept
        for a in range(indptr[u], indptr[u + 1]):
            row[indices[a]] = data[a]
        for place in range(indptr[u] + skipped[u], indptr[u + 1]):
            attribute = indices[by_rarity[place]]
            slot, first = list_indptr[attribute + 1] - 1, list_indptr[attribute]
            while slot >= first and nodes[slot] > u:
                v = nodes[slot]
                slot -= 1
                if stamps[v] == u:
                    continue
                stamps[v] = u
                dot = 0.0
                for a in range(indptr[v], indptr[v + 1]):
                    dot += row[indices[a]] * data[a]
                similarity = dot / np.sqrt(squares[u] * squares[v])
                if similarity > bound:
                    out_rows[kept] = u
                    out_columns[kept] = v
                    out_values[kept] = similarity
                    kept += 1
        for a in range(indptr[u], indptr[u + 1]):
            row[indices[a]] = 0.0
    return stop, kept


MOST_COUNTED = 127
"""Attributes that a row may have for its pairs to be counted in bytes."""

_EVERY_BYTE = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)


@kernel()
def _first_above(nodes, first, last, u):
    """Return the first place of a sorted stretch whose node is above ``u``."""
    while first < last:
        middle = (first + last) // 2
        if nodes[middle] > u:
            last = middle
        else:
            first = middle + 1
    return first


@kernel()
def similar_rows_counted(start, stop, attributes, lists, squares, bound, out):
    """As :func:`similar_rows` for columns above the row, of attributes that are all 1.

    What two rows share is then a count: bytes, eight of which are looked at together.

    Parameters
    ----------
    start, stop, squares, bound, out
        As for :func:`similar_rows`.
    attributes, lists : (indptr, indices)
        Attributes of every row, at most :data:`MOST_COUNTED`, and rows of every
        attribute, sorted.
    """
    indptr, indices = attributes
    list_indptr, nodes = lists
    out_rows, out_columns, out_values = out
    n = squares.size
    counts = np.zeros(8 * (n // 8 + 1), dtype=np.uint8)
    words = counts.view(np.uint64)
    kept = 0
    for u in range(start, stop):
        if kept + n > out_values.size:
            return u, kept
        for a in range(indptr[u], indptr[u + 1]):
            last = list_indptr[indices[a] + 1]
            first = _first_above(nodes, list_indptr[indices[a]], last, u)
            for slot in range(first, last):
                counts[nodes[slot]] += np.uint8(1)
        # A row has at least what it shares: a cosine is at most root(shared / |u|).
        least = max(1, int(np.ceil(_SAFE * bound * bound * squares[u])))
        lift = np.uint64(128 - least) * _EVERY_BYTE
        for word in range((u + 1) // 8, words.size):
            if not (words[word] + lift) & _HIGH_BITS:
                continue
            for v in range(8 * word, 8 * word + 8):
                if counts[v] >= least:
                    similarity = counts[v] / np.sqrt(squares[u] * squares[v])
                    if similarity > bound:
                        out_rows[kept] = u
                        out_columns[kept] = v
                        out_values[kept] = similarity
                        kept += 1
        words[(u + 1) // 8 :] = np.uint64(0)
    return stop, kept
