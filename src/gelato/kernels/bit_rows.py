"""Rows of 0/1 attributes as bits: what two rows share is one instruction per 64."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

WORD = 64  # bits
_ONE = np.uint64(1)
# Masks and shifts of the sum of bits in pairs, fours and bytes; compilers know this
# form and replace it by the processor's own instruction.
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SPREAD = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_1, _2, _4, _56 = (np.uint64(shift) for shift in (1, 2, 4, 56))


@numba.njit(cache=True, nogil=True)
def count_bits(word: Any) -> Any:
    """Return how many bits of a 64-bit word are set."""
    word = word - ((word >> _1) & _PAIRS)
    word = (word & _FOURS) + ((word >> _2) & _FOURS)
    word = (word + (word >> _4)) & _BYTES
    return np.int64((word * _SPREAD) >> _56)


@numba.njit(cache=True, nogil=True)
def pack_rows(indptr: Any, indices: Any, words: Any) -> None:
    """Set the bits of listed columns in ``words`` (rows, words per row), all 0."""
    for row in range(words.shape[0]):
        for s in range(indptr[row], indptr[row + 1]):
            bit = _ONE << np.uint64(indices[s] % WORD)
            words[row, indices[s] // WORD] |= bit


@numba.njit(cache=True, nogil=True)
def count_shared(words: Any, pairs: Any, counts: Any, start: int, stop: int) -> None:
    """Count, for pairs ``start..stop-1``, the bits that both rows have."""
    for e in range(start, stop):
        one, two = words[pairs[e, 0]], words[pairs[e, 1]]
        count = 0
        for k in range(one.shape[0]):
            count += count_bits(one[k] & two[k])
        counts[e] = count


@numba.njit(cache=True, nogil=True)
def list_shared(
    words: Any, pairs: Any, out_indptr: Any, out: Any, start: int, stop: int
) -> None:
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
