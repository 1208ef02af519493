"""What users give, as the arrays that a graph holds: converted, merged, noted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import InputError

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


Attributes: TypeAlias = Any  # an (n, r) float32 array: scipy CSR or numpy dense


@dataclass(frozen=True)
class MergedEdges:
    """Canonical edges with what belongs to each, and what was done to get there."""

    edges: IntArray
    weights: FloatArray | None
    times: FloatArray | None
    notes: tuple[str, ...]


def merge_edges(
    pairs: IntArray,
    weights: FloatArray | None,
    times: FloatArray | None,
    *,
    directed: bool,
    n: int,
) -> MergedEdges:
    """Drop loops and edges of weight 0, merge repeated ones, sort the rest."""
    notes: list[str] = []
    check_values(weights, len(pairs), "weights")
    check_values(times, len(pairs), "times")
    keep = pairs[:, 0] != pairs[:, 1]
    _note(notes, np.count_nonzero(~keep), "dropped {} self-loop{}")
    if weights is not None:
        if np.any(weights < 0):
            at = int(np.argmax(weights < 0))
            raise InputError(
                f"Edge {at + 1} has the negative weight {weights[at]:g}.",
                hint="Weights must be positive: shift or drop negative ones.",
            )
        zero = keep & (weights == 0)
        _note(notes, np.count_nonzero(zero), "dropped {} edge{} of weight 0")
        keep &= weights > 0
    pairs = canonical_pairs(pairs[keep], directed=directed)
    _, first, inverse = np.unique(
        pair_keys(pairs, n), return_index=True, return_inverse=True
    )
    repeated = len(pairs) - len(first)
    summed = "" if weights is None else ", weights added"
    _note(notes, repeated, "merged {} repeated edge{}" + summed)
    if weights is not None:
        added = np.bincount(inverse, weights=weights[keep], minlength=len(first))
        weights = np.asarray(added, dtype=np.float64)
    if times is not None:
        earliest = np.full(len(first), np.inf)
        np.minimum.at(earliest, inverse, times[keep])
        times = earliest
    return MergedEdges(pairs[first], weights, times, tuple(notes))


def _note(notes: list[str], count: int | np.integer[Any], text: str) -> None:
    if count:
        notes.append(text.format(f"{int(count):,}", "" if count == 1 else "s"))


def as_pairs(edges: npt.ArrayLike, num_nodes: int) -> IntArray:
    """Return edges as (m, 2) indices, refusing other shapes and unknown nodes."""
    pairs = as_integers(edges, "Edges given as node indices")
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(
            f"Edges must have the shape (m, 2), not {pairs.shape}.",
            hint="Turn a (2, m) edge index with .T.",
        )
    low, high = int(pairs.min()), int(pairs.max())
    if low < 0 or high >= num_nodes:
        raise InputError(
            f"An edge names node {low if low < 0 else high}, but the graph has "
            f"{num_nodes} nodes, numbered 0 to {num_nodes - 1}.",
            hint="Give num_nodes as large as the largest index plus one.",
        )
    return pairs


def as_integers(values: npt.ArrayLike, what: str) -> IntArray:
    """Return an int64 array, refusing what the conversion would change."""
    try:
        given = np.asarray(values)
        with np.errstate(invalid="ignore"):
            whole = given.astype(np.int64)
        same = bool(np.all(whole == given))
    except (ValueError, TypeError, OverflowError):
        same = False
    if not same:
        raise InputError(
            f"{what} must be whole numbers.",
            hint="Ids of other types go through Graph.from_edges.",
        )
    return whole


def as_floats(values: npt.ArrayLike | None) -> FloatArray | None:
    """Return weights or times as float64."""
    if values is None:
        return None
    try:
        return np.asarray(values, dtype=np.float64).ravel()
    except (ValueError, TypeError) as error:
        raise InputError(f"Weights and times must be numbers: {error}.") from error


def check_values(values: FloatArray | None, count: int, what: str) -> None:
    """Raise unless there is one finite value per edge."""
    if values is None:
        return
    if len(values) != count:
        raise InputError(f"There are {len(values)} {what} for {count} edges.")
    if not np.all(np.isfinite(values)):
        at = int(np.argmax(~np.isfinite(values)))
        raise InputError(
            f"Edge {at + 1} has {values[at]} among its {what}.",
            hint="Fill in or drop missing and infinite values.",
        )


def as_attributes(attributes: Any) -> Attributes | None:
    """Return attributes as float32: CSR stays CSR, anything else becomes dense."""
    if attributes is None:
        return None
    try:
        # A double beyond float32 becomes infinite, which the check below reports.
        with np.errstate(over="ignore"):
            return _float32_attributes(attributes)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"The attributes are not a matrix of numbers: {error}.",
            hint="Give tables with text columns to Graph.from_edges.",
        ) from error


def _float32_attributes(attributes: Any) -> Attributes:
    if sp.issparse(attributes):
        matrix = sp.csr_array(attributes, dtype=np.float32)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return matrix
    return np.ascontiguousarray(attributes, dtype=np.float32)
