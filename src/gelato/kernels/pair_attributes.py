"""Attributes of given pairs: what both nodes have, and products of factors.

For numbers a and b, ``|a - b| = |a| + |b| - 2 m(a, b)`` with m the smaller absolute
value where the signs agree and 0 elsewhere. Only m belongs to the pair, and it is
filled only where both nodes have the attribute: the lists of these meetings are behind
the pair MLP's first layer.
"""

from __future__ import annotations

import numpy as np

from gelato.kernels.compiled import kernel
from gelato.kernels.vectors import TILE, add_rows


@kernel()
def shared_sums(pairs, attributes, columns, out):
    """Write sums over the attributes that both nodes of pairs have.

    Parameters
    ----------
    pairs : (p, 2) int64
        Sorted by the first node.
    attributes : (indptr, indices, data)
        CSR of the attributes.
    columns : (r, 2) float64
        Per attribute: a factor on the product of both values, and a term that counts
        once where both nodes have the attribute.
    out : (p, 3) float64
        Sum of the products, sum of factor times product, sum of the terms.
    """
    indptr, indices, data = attributes
    value = np.zeros(len(columns))
    p = 0
    while p < len(pairs):
        u = pairs[p, 0]
        for a in range(indptr[u], indptr[u + 1]):
            value[indices[a]] = data[a]
        while p < len(pairs) and pairs[p, 0] == u:
            v = pairs[p, 1]
            dot, weighted, terms = 0.0, 0.0, 0.0
            for a in range(indptr[v], indptr[v + 1]):
                x = indices[a]
                if value[x] != 0.0:
                    product = value[x] * data[a]
                    dot += product
                    weighted += product * columns[x, 0]
                    terms += columns[x, 1]
            out[p, 0], out[p, 1], out[p, 2] = dot, weighted, terms
            p += 1
        for a in range(indptr[u], indptr[u + 1]):
            value[indices[a]] = 0.0


@kernel(fastmath={"reassoc"})
def factor_dots(pairs, left, right, out):
    """Write ``left[u] . right[v]`` of pairs."""
    for p in range(len(pairs)):
        one, other = left[pairs[p, 0]], right[pairs[p, 1]]
        total = np.float32(0.0)
        for k in range(one.size):
            total += one[k] * other[k]
        out[p] = total


# Pairs that go through one tile of the table before the next: pairs come sorted by
# their first node, so neighbours in the list read mostly the same rows of the tile.
_BLOCK = 64


@kernel()
def count_meetings(indptr, indices, data, pairs, counts, start, stop):
    """Count, for pairs ``start..stop-1``, the attributes where m is not 0."""
    for e in range(start, stop):
        i, i_end = indptr[pairs[e, 0]], indptr[pairs[e, 0] + 1]
        j, j_end = indptr[pairs[e, 1]], indptr[pairs[e, 1] + 1]
        count = 0
        while i < i_end and j < j_end:
            a, b = indices[i], indices[j]
            if a == b and (data[i] > 0) == (data[j] > 0):
                count += 1
            i += a <= b
            j += b <= a
        counts[e] = count


@kernel()
def fill_meetings(
    indptr, indices, data, pairs, out_indptr, out_indices, out_values, start, stop
):
    """Write the attributes counted by :func:`count_meetings`, and m if asked for."""
    for e in range(start, stop):
        i, i_end = indptr[pairs[e, 0]], indptr[pairs[e, 0] + 1]
        j, j_end = indptr[pairs[e, 1]], indptr[pairs[e, 1] + 1]
        slot = out_indptr[e]
        while i < i_end and j < j_end:
            a, b = indices[i], indices[j]
            if a == b and (data[i] > 0) == (data[j] > 0):
                out_indices[slot] = a
                if out_values is not None:
                    out_values[slot] = min(abs(data[i]), abs(data[j]))
                slot += 1
            i += a <= b
            j += b <= a


@kernel()
def pair_layer(
    lists, tiles, nodes, pairs, bias, part_start, preloaded, out, sums, start, stop
):
    """Compute ``relu(first[u] + second[v] + lists x table + bias)`` for each pair.

    Works through the parts ``start..stop-1`` (pairs ``part_start[p]`` to
    ``part_start[p + 1]``), leaving in ``sums[p]`` the sums of the results and of
    their squares, in float64. If ``preloaded``, the pair's own term is what ``out``
    holds beforehand and there are no lists.
    """
    indptr, indices, values = lists
    first_node, second_node = nodes
    total = np.zeros((_BLOCK, tiles.shape[0] * TILE), tiles.dtype)
    width = out.shape[1]
    for part in range(start, stop):
        sums[part] = 0
        for block in range(part_start[part], part_start[part + 1], _BLOCK):
            end = min(block + _BLOCK, part_start[part + 1])
            if not preloaded:
                total[:] = 0
                for tile in range(tiles.shape[0]):
                    for e in range(block, end):
                        add_rows(
                            total[e - block, tile * TILE :],
                            tiles[tile],
                            indices,
                            values,
                            indptr[e],
                            indptr[e + 1],
                        )
            for e in range(block, end):
                first, second = first_node[pairs[e, 0]], second_node[pairs[e, 1]]
                row = out[e]
                own = row if preloaded else total[e - block]
                for k in range(width):
                    x = own[k] + (first[k] + second[k]) + bias[k]
                    # Written so that a NaN stays a NaN.
                    row[k] = 0 if x <= 0 else x
                for k in range(width):
                    x64 = np.float64(row[k])
                    sums[part, 0, k] += x64
                    sums[part, 1, k] += x64 * x64


@kernel()
def sum_at_nodes(indptr, incident, dense, out, start, stop):
    """Sum, for nodes ``start..stop-1``, the rows of the pairs they belong to."""
    for node in range(start, stop):
        total = out[node]
        total[:] = 0
        for slot in range(indptr[node], indptr[node + 1]):
            row = dense[incident[slot]]
            for k in range(row.size):
                total[k] += row[k]


WORD = 64  # bits
_ONE = np.uint64(1)
# Masks and shifts of the sum of bits in pairs, fours and bytes; compilers know this
# form and replace it by the processor's own instruction.
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SPREAD = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_1, _2, _4, _56 = (np.uint64(shift) for shift in (1, 2, 4, 56))


@kernel()
def count_bits(word):
    """Return how many bits of a 64-bit word are set."""
    word = word - ((word >> _1) & _PAIRS)
    word = (word & _FOURS) + ((word >> _2) & _FOURS)
    word = (word + (word >> _4)) & _BYTES
    return np.int64((word * _SPREAD) >> _56)


@kernel()
def pack_rows(indptr, indices, words):
    """Set the bits of listed columns in ``words`` (rows, words per row), all 0."""
    for row in range(words.shape[0]):
        for s in range(indptr[row], indptr[row + 1]):
            bit = _ONE << np.uint64(indices[s] % WORD)
            words[row, indices[s] // WORD] |= bit


@kernel()
def count_shared(words, pairs, counts, start, stop):
    """Count, for pairs ``start..stop-1``, the bits that both rows have."""
    for e in range(start, stop):
        one, two = words[pairs[e, 0]], words[pairs[e, 1]]
        count = 0
        for k in range(one.shape[0]):
            count += count_bits(one[k] & two[k])
        counts[e] = count


@kernel()
def list_shared(words, pairs, out_indptr, out, start, stop):
    """Write the columns counted by :func:`count_shared`, ascending."""
    for e in range(start, stop):
        one, two = words[pairs[e, 0]], words[pairs[e, 1]]
        slot = out_indptr[e]
        for k in range(one.shape[0]):
            shared = one[k] & two[k]
            while shared:
                lower = shared - _ONE  # the lowest bit gone, all below it set
                out[slot] = k * WORD + count_bits(~shared & lower)
                slot += 1
                shared &= lower
