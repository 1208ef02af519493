"""Tables of pairs and of nodes, in the user's ids, as indices of a known graph."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gelato.errors import InputError
from gelato.graph import Graph, IntArray, unknown_node
from gelato.io.delimited import row_names
from gelato.io.ids import end_columns
from gelato.io.tables import Column, Table, read_table


def read_pairs(
    source: Any,
    graph: Graph,
    *,
    source_column: Column | None = None,
    target_column: Column | None = None,
) -> IntArray:
    """Read pairs of nodes, one per row, in the order given.

    Parameters
    ----------
    source : path, frame, array or sequence of pairs
        In the ids of the graph. Further columns are ignored, so that a table of
        predicted links can be read back.
    graph : Graph
        Whose nodes the pairs name.
    source_column, target_column : column name or position from 0, optional
        Default: columns ``source`` and ``target``, else the first two.

    Returns
    -------
    (k, 2) int64
        Node indices, as given: not sorted, repeated pairs not merged.

    Raises
    ------
    InputError
        If an id is not in the graph or a row pairs a node with itself.

    Examples
    --------
    >>> read_pairs([("b", "a")], Graph.from_edges([("a", "b")])).tolist()
    [[1, 0]]
    """
    wanted = (source_column, target_column)
    table = _with_header(read_table(source, "the table of pairs"), graph, wanted)
    first, second = end_columns(table, source_column, target_column)
    _refuse_empty(table)
    columns = [_indices(table, name, graph) for name in (first, second)]
    pairs = np.column_stack(columns).astype(np.int64).reshape(-1, 2)
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        row = int(np.argmax(same))
        raise InputError(
            f"{table.place(row)}: pairs {table.frame[first][row]!r} with itself.",
            hint="Remove the row: a pair is two different nodes.",
        )
    return pairs


@dataclass(frozen=True, eq=False)
class NegativeTable:
    """Negatives as read: pairs, whose they are (if they are anybody's), their place."""

    pairs: IntArray
    positives: IntArray | None
    table: Table

    @property
    def name(self) -> str:
        """What the table is called."""
        return self.table.name

    def place(self, row: int) -> str:
        """Return where a row stands, as people count."""
        return self.table.place(row)


def read_negatives(source: Any, graph: Graph) -> NegativeTable:
    """Read negatives: rows of two nodes, or of a positive and a negative target.

    Parameters
    ----------
    source : path, frame, array or sequence of rows
        In the ids of the graph. With a third column, the first two are a positive,
        and the negative joins its source with the third.
    graph : Graph
        Whose nodes they name.
    """
    table = _with_header(read_table(source, "the table of negatives"), graph, ())
    first, second = end_columns(table, None, None)
    _refuse_empty(table)
    ends = [_indices(table, name, graph) for name in (first, second)]
    pairs, positives = np.column_stack(ends).astype(np.int64), None
    others = [name for name in table.frame.columns if name not in (first, second)]
    if others:
        third = _indices(table, others[0], graph)
        positives, pairs = pairs, np.column_stack([ends[0], third]).astype(np.int64)
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        raise InputError(
            f"{table.place(int(np.argmax(same)))}: pairs a node with itself.",
            hint="Remove the row: a negative is two different nodes.",
        )
    return NegativeTable(pairs, positives, table)


def read_nodes(source: Any, graph: Graph) -> IntArray:
    """Read node ids, one per line or in the first column, as indices.

    Repeated ids count once; the order is that of the first appearance.

    Raises
    ------
    InputError
        If an id is not in the graph.
    """
    if isinstance(source, np.ndarray) and source.ndim == 1:
        source = source.tolist()
    if isinstance(source, list | tuple | set) and not any(
        isinstance(row, list) for row in source
    ):
        source = {"id": list(source)}
    table = read_table(source, "the list of nodes", _node_delimiter(source))
    table = _with_header(table, graph, (), ids=1)
    _refuse_empty(table)
    found = _indices(table, table.frame.columns[0], graph)
    return np.array(list(dict.fromkeys(found.tolist())), dtype=np.int64)


def _with_header(
    table: Table, graph: Graph, wanted: Sequence[Column | None], ids: int = 2
) -> Table:
    if table.has_header is not None:
        return table
    known = {str(node).strip() for node in graph.node_ids.tolist()}
    return table.with_header(None, wanted, lambda frame: row_names(frame, known, ids))


def _node_delimiter(source: Any) -> str | None:
    """Return a tab for plain lists of ids, which may hold blanks and commas."""
    name = str(source).lower().removesuffix(".gz")
    return None if name.endswith((".csv", ".tsv")) else "\t"


def _refuse_empty(table: Table) -> None:
    if table.frame.height == 0 and table.is_text:
        raise InputError(
            f"{table.name} has column names but no rows.",
            hint="Write or export the file again.",
        )


def _indices(table: Table, column: str, graph: Graph) -> IntArray:
    values = table.frame[column].to_list()
    found = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        index = _find(graph, value)
        if index is None:
            raise _unknown(table, row, value, graph)
        found[row] = index
    return found


def _find(graph: Graph, value: Any) -> int | None:
    """Return the index of an id, else of the one id that is the same as text."""
    exact = graph.find(value)
    if exact is not None or value is None:
        return exact
    if isinstance(value, float) and value.is_integer():
        return graph.find(int(value))
    if isinstance(value, int):
        return graph.find(str(value))
    if not isinstance(value, str):
        return None
    text = value.strip()
    stripped = graph.find(text)
    if stripped is not None:
        return stripped
    number = _canonical_integer(text)
    return None if number is None else graph.find(number)


def _canonical_integer(text: str) -> int | None:
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit():
        return None
    if len(text) > 20:
        return None
    number = int(text)
    return number if str(number) == text else None


def _unknown(table: Table, row: int, value: Hashable, graph: Graph) -> InputError:
    first = row == 0 and table.is_text and table.has_header is False
    maybe = " If line 1 holds column names, name the columns." if first else ""
    if value is None or (isinstance(value, str) and not value.strip()):
        return InputError(
            f"{table.place(row)}: an id is missing.",
            hint="Fill it in or remove the row.",
        )
    return InputError(
        f"{table.place(row)}: {unknown_node(value, graph.node_ids)}",
        hint=f"Use the ids of the graph's own edges.{maybe}",
    )
