"""Attribute tables and matrices, lined up with the nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import InputError
from gelato.graph import Attributes, IntArray
from gelato.io.columns import as_text, encode_column, to_numbers
from gelato.io.report import ColumnChoice
from gelato.io.tables import Table
from gelato.text import plural

# Below this share of filled cells a CSR matrix is smaller and faster than an array.
_DENSE_FROM = 0.25
# From here on, columns that are treated alike share a note.
_MANY_COLUMNS = 5
# A column with a larger share of the squared length than this drowns the others.
_MOST_OF_ALL = 0.95


@dataclass(frozen=True)
class NodeData:
    """Attributes and labels, one row per node."""

    attributes: Attributes | None = None
    names: tuple[str, ...] | None = None
    labels: IntArray | None = None
    choices: tuple[ColumnChoice, ...] = ()
    notes: tuple[str, ...] = ()


def encode_table(
    table: Table,
    nodes: IntArray,
    num_nodes: int,
    *,
    skip: tuple[str, ...],
    labels: str | None,
    encode: Mapping[str, str],
) -> NodeData:
    """Encode the columns of a table whose row i describes node ``nodes[i]``.

    Nodes without a row get zeros, and the label -1.
    """
    for name in encode:
        table.column(name, "encode")
    notes: list[str] = []
    rows = _distinct_rows(table, nodes, notes)
    blocks: list[sp.csr_array] = []
    names: list[str] = []
    choices: list[ColumnChoice] = []
    sizes: dict[str, float] = {}
    for name in table.frame.columns:
        if name in skip or name == labels:
            continue
        encoded, choice = encode_column(table, name, encode.get(name))
        choices.append(choice)
        if encoded is not None:
            blocks.append(encoded.matrix)
            sizes[name] = float(np.square(encoded.matrix.data, dtype=np.float64).sum())
            names.extend(encoded.names)
            notes.extend(encoded.notes)
    attributes = None
    if names:
        stacked = sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
        attributes = compact(_placed(stacked, rows, nodes, num_nodes))
    found = None if labels is None else _labels(table, labels, rows, nodes, num_nodes)
    told = (*_told(choices), *notes, *_overwhelming(sizes))
    return NodeData(attributes, tuple(names) or None, found, tuple(choices), told)


def _told(choices: Sequence[ColumnChoice]) -> list[str]:
    """Say what became of the columns; many that were treated alike share a note."""
    alike: dict[tuple[str, int, str], list[str]] = {}
    for choice in choices:
        treated = (choice.kind, choice.width, choice.reason)
        alike.setdefault(treated, []).append(choice.name)
    notes = []
    for (kind, width, reason), names in alike.items():
        fate = f"read as {kind}, {plural(width, 'attribute')}"
        fate = "not used" if kind == "drop" else fate
        if len(names) < _MANY_COLUMNS:
            notes += [f"column {name!r} {fate}: {reason}" for name in names]
            continue
        each = "" if kind == "drop" else " each"
        ends = f"{names[0]!r} to {names[-1]!r}"
        notes.append(f"{len(names):,} columns, {ends}, {fate}{each}: {reason}")
    return notes


def _overwhelming(sizes: Mapping[str, float]) -> list[str]:
    """Warn of a column beside which cosine similarity hardly sees the others."""
    total = sum(sizes.values())
    return [
        f"the numbers of column {name!r} drown all other attributes "
        f"({100 * size / total:.3g} % of the squared length), so that similarity sees "
        "little else: scale them in the file, to 0..1 for example, or leave the column "
        f"out (encode {name}=drop)"
        for name, size in sizes.items()
        if len(sizes) > 1 and size > _MOST_OF_ALL * total
    ]


def _placed(
    matrix: sp.csr_array, rows: IntArray, nodes: IntArray, num_nodes: int
) -> sp.csr_array:
    """Move row ``rows[i]`` to row ``nodes[rows[i]]`` of a matrix over all nodes."""
    ones = np.ones(len(rows), dtype=np.float32)
    shape = (num_nodes, matrix.shape[0])
    return sp.csr_array(sp.csr_array((ones, (nodes[rows], rows)), shape=shape) @ matrix)


def compact(matrix: sp.csr_array) -> Attributes:
    """Return a matrix as CSR if few cells are filled, else as an array."""
    cells = matrix.shape[0] * matrix.shape[1]
    matrix.eliminate_zeros()
    if matrix.nnz < _DENSE_FROM * cells:
        matrix.sort_indices()
        return matrix
    return matrix.toarray()


def _distinct_rows(table: Table, nodes: IntArray, notes: list[str]) -> IntArray:
    """Return the first row of every node; further ones must say the same."""
    _, first, inverse = np.unique(nodes, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[inverse] != np.arange(len(nodes)))
    for row in repeated.tolist():
        origin = int(first[inverse[row]])
        if _differ(table, origin, row):
            raise InputError(
                f"{table.place(row)}: the attributes of {table.frame[row, 0]!r} differ "
                f"from those at {_short(table, origin)}.",
                hint="Keep one row per node.",
            )
    if len(repeated):
        merged = plural(len(repeated), "repeated equal row")
        notes.append(f"{table.name}: merged {merged}")
    return np.sort(first).astype(np.int64)


def _short(table: Table, row: int) -> str:
    return f"row {row + 1}" if table.lines is None else f"line {table.lines[row]}"


def _differ(table: Table, one: int, other: int) -> bool:
    """Tell whether two rows differ in a column other than white space and the id."""
    pairs = zip(table.frame.row(one)[1:], table.frame.row(other)[1:], strict=True)
    return any(_cell(a) != _cell(b) for a, b in pairs)


def _cell(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _labels(
    table: Table, column: str, rows: IntArray, nodes: IntArray, num_nodes: int
) -> IntArray:
    """Return class numbers: integers stay, other values follow their sorted order."""
    series = table.frame[column]
    texts = as_text(series)
    numbers = to_numbers(series).fill_null(np.nan).to_numpy().astype(np.float64)
    filled = np.array([text is not None for text in texts], dtype=bool)
    whole = np.isfinite(numbers) & (np.abs(numbers) < 2.0**53)
    if bool(np.all(~filled | (whole & (np.floor(numbers) == numbers)))):
        codes = np.where(filled, np.nan_to_num(numbers), -1).astype(np.int64)
    else:
        classes = {text: k for k, text in enumerate(sorted({t for t in texts if t}))}
        codes = np.array([classes[t] if t else -1 for t in texts], dtype=np.int64)
    labels = np.full(num_nodes, -1, dtype=np.int64)
    labels[nodes[rows]] = codes[rows]
    return labels


def as_matrix(attributes: Any) -> Any:
    """Return a numeric matrix as CSR or array, or None if it is a table."""
    if sp.issparse(attributes):
        return sp.csr_array(attributes)
    if isinstance(attributes, np.ndarray) and attributes.dtype.kind in "iufb":
        return attributes
    return None


def matrix_nodes(
    edge_ids: npt.NDArray[Any], num_rows: int, ids: Any
) -> list[Any] | None:
    """Return the id of every row of an attribute matrix (None: rows 0..n-1).

    Without ids, row i belongs to node i, so that all ids must be row numbers.
    """
    if ids is not None:
        if isinstance(ids, str | int):
            raise InputError(
                f"The attributes are a matrix, which has no column {ids!r}.",
                hint="Give id= one id per row of the matrix.",
            )
        listed = list(ids)
        if len(listed) != num_rows:
            raise InputError(
                f"There are {len(listed)} ids for {num_rows} rows of attributes.",
                hint="Give one id per row of the matrix.",
            )
        return listed
    numbers = edge_ids.dtype.kind == "i"
    if len(edge_ids) and (
        not numbers or edge_ids.min() < 0 or edge_ids.max() >= num_rows
    ):
        raise InputError(
            f"A matrix of {num_rows} rows describes the nodes 0 to {num_rows - 1}, but "
            f"the edges name {edge_ids.tolist()[-1]!r}.",
            hint="Give the ids of its rows with id=, or a table with an id column.",
        )
    return None
