"""Edge tables and attribute tables into a graph, with a report of what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.graph import Graph, IntArray
from gelato.io.attributes import (
    NodeData,
    as_matrix,
    compact,
    encode_table,
    matrix_nodes,
)
from gelato.io.headers import with_attribute_header, with_edge_header
from gelato.io.ids import (
    EdgeRows,
    Ids,
    combine_ends,
    decide_integers,
    distinct_ends,
    match_ids,
    number_ids,
    read_edge_rows,
    read_ids,
)
from gelato.io.report import ReadReport
from gelato.io.tables import Column, Table, read_table
from gelato.text import plural

_MISSING = ("zero", "drop", "error")


def read_graph(edges: Any, attributes: Any = None, **options: Any) -> Graph:
    """Read a graph from an edge table and, optionally, an attribute table.

    Takes the arguments of :func:`read_graph_with_report` and returns the graph alone;
    what was dropped, merged or assumed is in ``graph.notes``.

    Examples
    --------
    >>> graph = read_graph([("a", "b"), ("b", "c")])
    >>> graph.node_ids.tolist()
    ['a', 'b', 'c']
    """
    return read_graph_with_report(edges, attributes, **options)[0]


def read_graph_with_report(
    edges: Any,
    attributes: Any = None,
    *,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | None = None,
    time: Column | None = None,
    id: Column | Sequence[Any] | None = None,
    directed: bool = False,
    header: bool | None = None,
    delimiter: str | None = None,
    encode: Mapping[str, str] | None = None,
    labels: Column | None = None,
    missing: str = "zero",
) -> tuple[Graph, ReadReport]:
    """Read a graph and report what was read, dropped, merged and missing.

    Nodes are the ends of the edges and the rows of the attribute table, in the order
    of their sorted ids. In csv and tsv files ids are text without surrounding white
    space, and integers if every one of them is written like an integer; an apostrophe
    before ``= + - @`` (see :func:`gelato.io.write_table`) is taken away.

    Parameters
    ----------
    edges : path, frame, mapping of columns, array or sequence of rows
        One edge per row. Files: csv, tsv, txt (also with ``.gz``) or Parquet.
    attributes : the same, or a numeric array or sparse matrix, optional
        One node per row. A matrix has no ids: row i is node i, unless ``id`` lists
        one id per row.
    source, target, weight, time : column name or position from 0, optional
        Default: columns ``source`` and ``target``, else the first two; columns called
        ``weight`` and ``time`` are used if there are any. Columns of a file without
        header are called ``column_1``, ``column_2``, ...
    id : column name or position from 0, optional
        The id column of the attribute table; default: the first.
    directed : bool
        Whether edges have a direction.
    header : bool, optional
        Whether text files start with column names; ``None`` detects it.
    delimiter : str, optional
        The character between cells of text files; ``None`` goes by suffix and content.
    encode : mapping, optional
        Column to ``numeric``, ``category`` (one-hot), ``text`` (bag of words),
        ``list`` (multi-hot) or ``drop``; other columns are decided by their content.
        Missing numbers are read as 0.
    labels : column name or position from 0, optional
        A class per node, taken out of the attributes; missing classes are -1.
    missing : {"zero", "drop", "error"}
        What to do with nodes that have no row in the attribute table: give them
        zeros, drop them with their edges, or raise.

    Returns
    -------
    graph : Graph
        Attributes are CSR if less than a quarter of the cells is filled, else dense.
    report : ReadReport
        What was done, as data.

    Raises
    ------
    InputError
        Naming the file, the line and what to do.
    """
    if missing not in _MISSING:
        raise UsageError(
            f"missing={missing!r} is not known.",
            hint=f"Choose one of: {', '.join(_MISSING)}.",
        )
    state = _read_edges(edges, (source, target, weight, time), header, delimiter)
    matrix = None if attributes is None else as_matrix(attributes)
    if attributes is None:
        _refuse_no_rows(state)
        node_ids = None
    elif matrix is not None:
        node_ids = _matrix_ids(state, matrix, id)
    else:
        node_ids = _read_attributes(
            state, attributes, (id, labels, *(encode or ())), header, delimiter
        )
    nodes = _number(state, node_ids)
    if matrix is not None:
        data = NodeData(_placed_matrix(matrix, nodes))
    else:
        data = _encode(state, nodes, encode or {}, labels)
    return assemble(state, nodes, data, directed=directed, missing=missing)


def _read_edges(
    edges: Any,
    wanted: tuple[Column | None, ...],
    header: bool | None,
    delimiter: str | None,
) -> ReadState:
    table = read_table(edges, "the edge table", delimiter)
    table, notes = with_edge_header(table, header, wanted)
    rows = read_edge_rows(table, *wanted)
    return ReadState(
        table, rows, [*table.notes, *notes, *rows.notes], columns=dict(rows.columns)
    )


def _refuse_no_rows(state: ReadState) -> None:
    """Refuse a file that has a header only; an empty frame is a notice."""
    if state.table.frame.height:
        return
    if state.table.is_text:
        raise InputError(
            f"{state.table.name} has column names but no rows.",
            hint="Write or export the file again.",
        )


def _matrix_ids(state: ReadState, matrix: Any, ids: Any) -> Ids:
    if matrix.ndim != 2:
        raise InputError(
            f"The attributes have shape {matrix.shape}, not (nodes, attributes).",
            hint="Give one row of attributes for every node.",
        )
    ends = decide_integers([state.rows.source, state.rows.target])
    codes, distinct = number_ids(ends)
    edge_ids = np.arange(_highest(codes) + 1) if distinct is None else distinct
    listed = matrix_nodes(edge_ids, matrix.shape[0], ids)
    rows = {"id": range(matrix.shape[0]) if listed is None else listed}
    table = read_table(rows, "the ids of the attribute rows")
    found, notes = read_ids(table, "id")
    state.notes += notes
    _, seen = np.unique(number_ids([found])[0][0], return_counts=True)
    if np.any(seen > 1):
        raise InputError("id= names a node twice.", hint="Give each row its own id.")
    state.attribute_table = table
    return found


def _read_attributes(
    state: ReadState,
    attributes: Any,
    wanted: tuple[Any, ...],
    header: bool | None,
    delimiter: str | None,
) -> Ids:
    table = read_table(attributes, "the attribute table", delimiter)
    table, notes = with_attribute_header(table, header, wanted, lambda: _known(state))
    if table.frame.height == 0:
        raise InputError(
            f"{table.name} has no rows.", hint="Leave the attributes out, or add rows."
        )
    chosen = wanted[0]
    column = table.column(0 if chosen is None else chosen, "id")
    # The id column first: messages about repeated rows name it by its position.
    rest = [name for name in table.frame.columns if name != column]
    table = replace(table, frame=table.frame.select([column, *rest]))
    ids, more = read_ids(table, column)
    state.notes += [*table.notes, *notes, *more]
    state.attribute_table, state.id_column = table, column
    state.columns["id"] = column
    return ids


def _known(state: ReadState) -> set[str]:
    ends = distinct_ends(state.rows.source, state.rows.target)
    return {str(value) for value in ends.values}


def _number(state: ReadState, node_ids: Ids | None) -> NodeNumbers:
    columns = [state.rows.source, state.rows.target]
    columns = decide_integers(columns if node_ids is None else [*columns, node_ids])
    source, target, notes = combine_ends(columns[0], columns[1], state.table.name)
    state.notes += notes
    ends = [source, target]
    if node_ids is not None:
        assert state.attribute_table is not None
        known = distinct_ends(source, target)
        matched, notes = match_ids(known, columns[2], state.attribute_table)
        state.notes += notes
        ends.append(matched)
    codes, ids = number_ids(ends)
    num_nodes = len(ids) if ids is not None else _highest(codes) + 1
    kinds = {column.kind for column in ends if len(column)}
    return NodeNumbers(
        source=codes[0],
        target=codes[1],
        rows=codes[2] if node_ids is not None else None,
        num_nodes=num_nodes,
        ids=ids,
        id_type=kinds.pop() if len(kinds) == 1 else "mixed",
    )


def _highest(codes: Sequence[IntArray]) -> int:
    return max((int(part.max()) for part in codes if len(part)), default=-1)


def _placed_matrix(matrix: Any, nodes: NodeNumbers) -> Any:
    assert nodes.rows is not None
    ones = np.ones(len(nodes.rows))
    shape = (nodes.num_nodes, matrix.shape[0])
    place = sp.csr_array((ones, (nodes.rows, np.arange(matrix.shape[0]))), shape=shape)
    if sp.issparse(matrix):
        return compact(sp.csr_array(place @ matrix))
    return place @ matrix


def _encode(
    state: ReadState,
    nodes: NodeNumbers,
    encode: Mapping[str, str],
    labels: Column | None,
) -> NodeData:
    if state.attribute_table is None or nodes.rows is None or state.id_column is None:
        if encode or labels is not None:
            raise UsageError(
                "encode and labels name columns of an attribute table, and there is "
                "none.",
                hint="Give the table with attributes=.",
            )
        return NodeData()
    table = state.attribute_table
    label = None if labels is None else table.column(labels, "labels")
    if label is not None:
        state.columns["labels"] = label
    return encode_table(
        table,
        nodes.rows,
        nodes.num_nodes,
        skip=(state.id_column,),
        labels=label,
        encode=encode,
    )


@dataclass
class ReadState:
    """What accumulates while the two tables are read."""

    table: Table
    rows: EdgeRows
    notes: list[str]
    attribute_table: Table | None = None
    id_column: str | None = None
    columns: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeNumbers:
    """Node indices of the edge ends and the attribute rows, and the id of each node."""

    source: IntArray
    target: IntArray
    rows: IntArray | None
    num_nodes: int
    ids: npt.NDArray[Any] | None
    id_type: str


def assemble(
    state: ReadState,
    nodes: NodeNumbers,
    data: NodeData,
    *,
    directed: bool,
    missing: str,
) -> tuple[Graph, ReadReport]:
    """Build the graph; ``missing`` says what nodes without attributes are worth."""
    notes = [*state.notes, *data.notes]
    pairs = np.column_stack([nodes.source, nodes.target]).astype(np.int64)
    with_edges = np.zeros(nodes.num_nodes, dtype=bool)
    with_edges[pairs[pairs[:, 0] != pairs[:, 1]]] = True
    described = np.ones(nodes.num_nodes, dtype=bool)
    if nodes.rows is not None:
        described[:] = False
        described[nodes.rows] = True
    without = int(np.count_nonzero(~described))
    kept, more = _missing_rows(state, nodes, described, missing)
    notes += more
    weights, times = state.rows.weights, state.rows.times
    row_kept = kept[pairs[:, 0]] & kept[pairs[:, 1]]
    index = np.cumsum(kept) - 1
    ids = nodes.ids
    if not kept.all():
        ids = (np.arange(nodes.num_nodes) if ids is None else ids)[kept]
    graph = Graph.from_indices(
        int(kept.sum()),
        index[pairs[row_kept]],
        weights=None if weights is None else weights[row_kept],
        times=None if times is None else times[row_kept],
        attributes=None if data.attributes is None else data.attributes[kept],
        ids=ids,
        directed=directed,
        labels=None if data.labels is None else data.labels[kept],
        attribute_names=data.names,
        notes=[*notes, *_isolated(with_edges)],
    )
    return graph, _report(state, nodes, data, graph, row_kept, without)


def _isolated(with_edges: npt.NDArray[np.bool_]) -> list[str]:
    count = int(np.count_nonzero(~with_edges))
    if not with_edges.any():
        return ["the graph has no edges"]
    return [f"no edges at {plural(count, 'node')}"] if count else []


def _missing_rows(
    state: ReadState, nodes: NodeNumbers, described: npt.NDArray[np.bool_], missing: str
) -> tuple[npt.NDArray[np.bool_], list[str]]:
    """Return which nodes stay, given which have a row of attributes."""
    everything = np.ones(nodes.num_nodes, dtype=bool)
    count = int(np.count_nonzero(~described))
    if not count:
        return everything, []
    assert state.attribute_table is not None
    at = int(np.argmin(described))
    first = at if nodes.ids is None else nodes.ids[at]
    name = state.attribute_table.name
    told = f"{name}: no row for {plural(count, 'node')}, for example {first!s}"
    if missing == "error":
        raise InputError(
            f"{told}.", hint="Add the rows, or allow it with missing='zero' or 'drop'."
        )
    if missing == "drop":
        return described, [f"{told}; dropped with their edges"]
    return everything, [f"{told}; their attributes are 0"]


def _report(
    state: ReadState,
    nodes: NodeNumbers,
    data: NodeData,
    graph: Graph,
    row_kept: npt.NDArray[np.bool_],
    without: int,
) -> ReadReport:
    loops = row_kept & (nodes.source == nodes.target)
    weights = state.rows.weights
    zero = 0
    if weights is not None:
        zero = int(np.count_nonzero((weights == 0) & row_kept & ~loops))
    table = state.attribute_table
    linked = np.zeros(graph.num_nodes, dtype=bool)
    linked[graph.edges] = True
    return ReadReport(
        edges=state.table.name,
        attributes=None if table is None else table.name,
        edge_rows=state.table.frame.height,
        attribute_rows=0 if table is None else table.frame.height,
        edges_header=state.table.has_header,
        attributes_header=None if table is None else table.has_header,
        columns=state.columns,
        id_type=nodes.id_type,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        num_attributes=graph.num_attributes,
        self_loops=int(loops.sum()),
        zero_weights=zero,
        repeated_edges=int(row_kept.sum()) - int(loops.sum()) - zero - graph.num_edges,
        nodes_without_edges=int(np.count_nonzero(~linked)),
        nodes_without_attributes=without,
        column_choices=data.choices,
        notes=graph.notes,
    )
