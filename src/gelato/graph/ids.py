"""Node ids of any hashable type, kept as they are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt


def as_id_array(ids: Sequence[Hashable] | npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return node ids as a one-dimensional array that keeps each id's own type."""
    if isinstance(ids, np.ndarray) and ids.ndim == 1:
        return ids
    listed = list(ids)
    kinds = {type(node) for node in listed}
    if kinds == {int} and all(-(2**63) <= node < 2**63 for node in listed):
        return np.array(listed, dtype=np.int64)
    if kinds == {str} and not any(_unfit_for_numpy(node) for node in listed):
        return np.array(listed)
    # Filled one by one: numpy would take a list of tuples for a second dimension.
    array = np.empty(len(listed), dtype=object)
    for position, node in enumerate(listed):
        array[position] = node
    return array


def _unfit_for_numpy(node: Hashable) -> bool:
    """Tell whether numpy's fixed-width text would lose or bloat an id.

    Trailing NULs are cut off, and the longest id sets the width of all.
    """
    text = str(node)
    return len(text) > 64 or text.endswith("\0")


def unknown_node(node: Hashable, known_ids: npt.NDArray[Any]) -> str:
    """Return the message for an id that no node has, naming the nearest ids."""
    import difflib

    index = known_ids.tolist()
    text = str(node)
    same = [known for known in index if str(known).strip() == text.strip()]
    if same:
        return (
            f"There is no node {node!r}, but there is {same[0]!r}: they differ in type "
            "or white space."
        )
    # Comparing with millions of ids would take minutes: near ones have a near length.
    alike = (str(known) for known in index if abs(len(str(known)) - len(text)) <= 2)
    near = difflib.get_close_matches(text, list(islice(alike, 20_000)), n=3)
    suggestion = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"There is no node {node!r} in the graph.{suggestion}"
