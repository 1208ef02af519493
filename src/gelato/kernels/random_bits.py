"""Random bits that depend on a key and a counter alone, never on an order of calls."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@numba.njit(cache=True, nogil=True)
def mix(value: Any) -> Any:
    """Return 64 well mixed bits for a 64-bit value (the splitmix64 step)."""
    z = np.uint64(value) + _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def derive_key(*parts: int) -> np.uint64:
    """Return one 64-bit key for several integers, such as seed, step and layer."""
    key = np.uint64(0)
    for part in parts:
        key = np.uint64(mix(key ^ np.uint64(part & 0xFFFFFFFFFFFFFFFF)))
    return key
