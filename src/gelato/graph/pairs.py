"""Pairs of node indices: keys that sort them, look-ups, canonical order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def pair_keys(pairs: IntArray, num_nodes: int) -> IntArray:
    """Return one sortable integer per pair: ``u * n + v``."""
    return pairs[:, 0] * np.int64(num_nodes) + pairs[:, 1]


def find_pairs(sorted_pairs: IntArray, wanted: IntArray, num_nodes: int) -> IntArray:
    """Return the position of each wanted pair among sorted pairs, -1 if absent."""
    keys, query = pair_keys(sorted_pairs, num_nodes), pair_keys(wanted, num_nodes)
    position = np.searchsorted(keys, query)
    # The key of a pair outside 0..n-1 can equal that of another pair.
    known = np.all((wanted >= 0) & (wanted < num_nodes), axis=1)
    inside = known & (position < len(keys))
    found = np.zeros(len(query), dtype=bool)
    found[inside] = keys[position[inside]] == query[inside]
    return np.where(found, position, -1).astype(np.int64)


def canonical_pairs(pairs: IntArray, *, directed: bool) -> IntArray:
    """Return pairs with ``u < v`` (undirected) in the order given."""
    return pairs if directed else np.sort(pairs, axis=1)
