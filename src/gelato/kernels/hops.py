"""Steps between the nodes of pairs, up to three, at the cost of two-step walks."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _two_steps(u: int, ahead: Any, level: Any, reached: Any) -> int:
    """Mark the nodes one and two edges ahead; return how many are in the list."""
    indptr, indices = ahead
    reached[0], count, first = u, 1, 0
    level[u] = 3  # a walk back to the start is no shorter way
    for step in range(1, 3):
        last = count
        for j in range(first, last):
            for slot in range(indptr[reached[j]], indptr[reached[j] + 1]):
                v = indices[slot]
                if level[v] == 0:
                    level[v] = step
                    reached[count] = v
                    count += 1
        first = last
    return count


@numba.njit(cache=True, nogil=True)
def hops_within_three(pairs: Any, ahead: Any, back: Any, out: Any) -> None:
    """Write the distance of pairs that are at most three edges apart.

    Parameters
    ----------
    pairs : (p, 2) int64
        Sorted by source; two different nodes each.
    ahead, back : (indptr, indices)
        CSR of the edges and of the edges turned round.
    out : (p,) int64
        Changed where the distance is 1, 2 or 3.
    """
    back_indptr, back_indices = back
    level = np.zeros(back_indptr.size - 1, dtype=np.int8)
    reached = np.empty(back_indptr.size, dtype=np.int64)
    start = 0
    while start < pairs.shape[0]:
        u = pairs[start, 0]
        count = _two_steps(u, ahead, level, reached)
        while start < pairs.shape[0] and pairs[start, 0] == u:
            v = pairs[start, 1]
            if level[v] > 0:
                out[start] = level[v]
            else:
                for slot in range(back_indptr[v], back_indptr[v + 1]):
                    if level[back_indices[slot]] == 2:
                        out[start] = 3
                        break
            start += 1
        for j in range(count):
            level[reached[j]] = 0
