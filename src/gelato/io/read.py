"""Edge tables and attribute tables into a graph, with a report of what was done.

The way of a file: cells (``delimited``), a table (``tables``), ids, weights and times
(``ids``), attributes (``attributes``), and here the graph and the report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
    join_tables,
    matrix_nodes,
)
from gelato.io.delimited import edge_names, row_names
from gelato.io.formats import from_networkx, from_pyg, from_scipy
from gelato.io.ids import (
    EdgeRows,
    Ids,
    combine_ends,
    decide_integers,
    distinct_ends,
    drop_rows_without_id,
    edge_columns,
    match_ids,
    number_ids,
    read_edge_rows,
    read_ids,
)
from gelato.io.npz import read_npz
from gelato.io.report import ReadReport
from gelato.io.tables import Column, Table, is_frame, read_table
from gelato.text import plural

_ROLES = ("source", "target", "weight", "time")
_MISSING = ("zero", "drop", "error")
_MISSING_IDS = ("drop", "error")


def as_graph(source: Any) -> Graph:
    """Return a graph as it is, and whatever :func:`read_graph` reads as a graph."""
    return source if isinstance(source, Graph) else read_graph(source)


def read_graph(edges: Any, attributes: Any = None, **options: Any) -> Graph:
    """Read a graph from an edge table and, optionally, an attribute table.

    Takes the arguments of :func:`read_graph_with_report` and returns the graph alone;
    what was dropped, merged or assumed is in ``graph.notes``, and the whole report as
    plain data in ``graph.reading``. Instead of an edge table also a graph of networkx
    or PyG, a square matrix of scipy or numpy, or an npz file; these have options of
    their own (:func:`from_networkx`, :func:`from_pyg`, :func:`from_scipy`).

    Examples
    --------
    >>> graph = read_graph([("a", "b"), ("b", "c")])
    >>> graph.node_ids.tolist()
    ['a', 'b', 'c']
    """
    foreign = _foreign_reader(edges)
    if foreign is None:
        return read_graph_with_report(edges, attributes, **options)[0]
    if attributes is not None:
        options["attributes"] = attributes
    try:
        return with_sides(foreign(edges, **options))
    except TypeError as error:
        raise UsageError(
            f"{type(edges).__name__} is not a table, and cannot be read so: {error}.",
            hint="Give the options of gelato.Graph.from_networkx, from_pyg or "
            "from_scipy.",
        ) from error


def _foreign_reader(source: Any) -> Callable[..., Graph] | None:
    """Return what reads a graph that is no table, None for tables."""
    origins = {cls.__module__.partition(".")[0] for cls in type(source).__mro__}
    if isinstance(source, Graph):
        return lambda graph: graph
    if "networkx" in origins:
        return from_networkx
    if "torch_geometric" in origins:
        return from_pyg
    if sp.issparse(source) or _is_adjacency(source):
        return from_scipy
    if isinstance(source, str | os.PathLike) and str(source).lower().endswith(".npz"):
        return read_npz
    return None


def _is_adjacency(source: Any) -> bool:
    """Tell whether an array is a square matrix, too wide for a table of edges."""
    if not isinstance(source, np.ndarray) or source.dtype.kind not in "iufb":
        return False
    return source.ndim == 2 and source.shape[0] == source.shape[1] > len(_ROLES)


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
    missing_ids: str = "drop",
) -> tuple[Graph, ReadReport]:
    """Read a graph and report what was read, dropped, merged and missing.

    Nodes are the ends of the edges and the rows of the attribute table, in the order
    of their sorted ids. Ids that are text lose surrounding white space; in csv and tsv
    files they are integers if every one of them is written like an integer, and an
    apostrophe before ``= + - @`` (see :func:`gelato.io.write_table`) is taken away.
    Text files may be UTF-8, UTF-16 or Windows-1252; numbers may have decimal commas
    and separated thousands, dates the order of day and month that fits all of them.

    Parameters
    ----------
    edges : path, frame, mapping of columns, array or sequence of rows
        One edge per row. Files: csv, tsv, txt (also with ``.gz``) or Parquet.
    attributes : the same, or a numeric array or sparse matrix, optional
        One node per row. A matrix has no ids: row i is node i, unless ``id`` lists
        one id per row. Two kinds of nodes may have a table each: give a list of
        paths or frames; what only one kind has is 0 for the other.
    source, target, weight, time : column name or position from 0, optional
        Default: columns ``source`` and ``target``, else the first two; columns called
        ``weight`` and ``time`` are used if there are any. Columns of a file without
        header are called ``column_1``, ``column_2``, ...
    id : column name or position from 0, optional
        The id column of the attribute table; default: the first.
    directed : bool
        Whether edges have a direction.
    header : bool, optional
        Whether text files start with column names; ``None`` decides by the rows
        below, and tells why in the notes.
    delimiter : str, optional
        The character between cells of text files; ``None`` goes by suffix and content.
    encode : mapping, optional
        Column to ``numeric`` (scaled by the median and the middle half of its
        values), ``numeric-raw`` (kept as they are), ``date`` (days, and years and
        months where they repeat), ``category`` (one-hot), ``text`` (bag of words),
        ``list`` (multi-hot) or ``drop``; other columns are decided by their content,
        and ``"*"`` says how all columns of numbers are encoded. Missing numbers are
        read as the median, and marked by another attribute.
    labels : column name or position from 0, optional
        A class per node, taken out of the attributes; missing classes are -1.
    missing : {"zero", "drop", "error"}
        What to do with nodes that have no row in the attribute table: give them
        zeros, drop them with their edges, or raise.
    missing_ids : {"drop", "error"}
        What to do with rows without an id: drop and count them, or raise.

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
    _check_choice("missing", missing, _MISSING)
    _check_choice("missing_ids", missing_ids, _MISSING_IDS)
    matrix = None if attributes is None else as_matrix(attributes)
    tables = []
    if attributes is not None and matrix is None:
        several = attributes if _is_several(attributes) else [attributes]
        what = "the attribute table"
        tables = [read_table(source, what, delimiter) for source in several]
    evidence = _first_rows_and_columns(tables, id)
    wanted = (source, target, weight, time)
    state = _read_edges(
        read_table(edges, "the edge table", delimiter, partial(_needed, wanted=wanted)),
        wanted,
        header,
        evidence,
        missing_ids,
    )
    if attributes is None:
        _refuse_no_rows(state)
    elif matrix is not None:
        state.described.append(_matrix_ids(state, matrix, id))
    asked = (id, labels, *(encode or ()))
    for table in tables:
        found = _read_attributes(state, table, asked, header, missing_ids)
        state.described.append(found)
    nodes = _number(state)
    state.forget_ids()
    if matrix is not None:
        data = NodeData(_placed_matrix(matrix, nodes))
    else:
        data = _encode(state, nodes, encode or {}, labels)
    return assemble(state, nodes, data, directed=directed, missing=missing)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise UsageError(
            f"{name}={value!r} is not known.",
            hint=f"Choose one of: {', '.join(choices)}.",
        )


def _is_several(attributes: Any) -> bool:
    """Tell a list of tables from a table that is a list of rows."""
    return isinstance(attributes, list | tuple) and all(
        isinstance(table, str | os.PathLike | Mapping) or is_frame(table)
        for table in attributes
    )


def _first_rows_and_columns(
    tables: Sequence[Table], id: Any
) -> tuple[Collection[str], Collection[str]]:
    """Return the ids and the names that attribute tables may have, as evidence."""
    ids: set[str] = set()
    columns: set[str] = set()
    for table in tables:
        if not table.frame.height:
            continue
        names = table.frame.row(0) if table.has_header is None else table.frame.columns
        columns |= {str(name).strip() for name in names if name is not None}
        place = id if isinstance(id, int) and 0 <= id < table.frame.width else 0
        ids |= {str(value).strip() for value in table.frame.to_series(place).to_list()}
    return ids, columns


def _needed(
    table: Table, wanted: tuple[Column | None, ...]
) -> tuple[Collection[str], Collection[str]]:
    """Return the columns that an edge table's rows are made of, and the ends."""
    names = table.frame.columns
    if names[:1] == ["column_1"]:
        return names, ()  # only its rows tell whether it counts them
    columns = edge_columns(table, wanted)
    return columns.values(), (columns["source"], columns["target"])


def _read_edges(
    table: Table,
    wanted: tuple[Column | None, ...],
    header: bool | None,
    evidence: tuple[Collection[str], Collection[str]],
    missing_ids: str,
) -> ReadState:
    places = [end if isinstance(end, int) else None for end in wanted[:2]]
    ends = (places[0] or 0, 1 if places[1] is None else places[1])
    table = table.with_header(
        header, wanted, lambda frame: edge_names(frame, ends, *evidence)
    )
    rows = read_edge_rows(table, wanted, missing_ids)
    notes = [*table.notes, *rows.notes]
    return ReadState(
        # Its cells are no longer needed, and may take more than the graph.
        replace(table, frame=table.frame.clear(), lines=None),
        rows,
        notes,
        dict(rows.columns),
        without_id=rows.without_id,
        edge_rows=table.frame.height,
    )


def _refuse_no_rows(state: ReadState) -> None:
    """Refuse a file that has a header only; an empty frame is a notice."""
    if state.edge_rows:
        return
    if state.table.is_text:
        raise InputError(
            f"{state.table.name} has column names but no rows.",
            hint="Write or export the file again.",
        )


def _matrix_ids(state: ReadState, matrix: Any, ids: Any) -> Described:
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
    if None in found.to_list():
        raise InputError(
            f"id= names no node for row {found.to_list().index(None)}.",
            hint="Give each row its own id.",
        )
    _, seen = np.unique(number_ids([found])[0][0], return_counts=True)
    if np.any(seen > 1):
        raise InputError("id= names a node twice.", hint="Give each row its own id.")
    return Described(table, None, found)


def _read_attributes(
    state: ReadState,
    table: Table,
    wanted: tuple[Any, ...],
    header: bool | None,
    missing_ids: str,
) -> Described:
    table = table.with_header(
        header, wanted, lambda frame: row_names(frame, _known(state))
    )
    if table.frame.height == 0:
        raise InputError(
            f"{table.name} has no rows.", hint="Leave the attributes out, or add rows."
        )
    column = table.column(0 if wanted[0] is None else wanted[0], "id")
    # The id column first: messages about repeated rows name it by its position.
    rest = [name for name in table.frame.columns if name != column]
    table = replace(table, frame=table.frame.select([column, *rest]))
    rows = table.frame.height
    table, dropped = drop_rows_without_id(table, (column,), missing_ids)
    state.without_id += rows - table.frame.height
    ids, more = read_ids(table, column)
    state.notes += [*table.notes, *dropped, *more]
    state.columns.setdefault("id", column)
    return Described(table, column, ids)


def _known(state: ReadState) -> set[str]:
    ends = distinct_ends(state.rows.source, state.rows.target)
    return {str(value) for value in ends.values}


def _number(state: ReadState) -> NodeNumbers:
    columns = decide_integers(
        [state.rows.source, state.rows.target, *(part.ids for part in state.described)]
    )
    source, target, notes = combine_ends(columns[0], columns[1], state.table.name)
    ends = [source, target]
    known = distinct_ends(source, target) if state.described else None
    for ids, part in zip(columns[2:], state.described, strict=True):
        assert known is not None
        matched, more = match_ids(known, ids, part.table)
        notes += more
        ends.append(matched)
    state.notes += notes
    codes, ids_of_nodes = number_ids(ends)
    kinds = {column.kind for column in ends if len(column)}
    return NodeNumbers(
        pairs=np.column_stack(codes[:2]),
        rows=tuple(part.astype(np.int64) for part in codes[2:]),
        num_nodes=_highest(codes) + 1 if ids_of_nodes is None else len(ids_of_nodes),
        ids=ids_of_nodes,
        id_type=kinds.pop() if len(kinds) == 1 else "mixed",
    )


def _highest(codes: Sequence[npt.NDArray[np.int32]]) -> int:
    return max((int(part.max()) for part in codes if len(part)), default=-1)


def _placed_matrix(matrix: Any, nodes: NodeNumbers) -> Any:
    (rows,) = nodes.rows
    shape = (nodes.num_nodes, matrix.shape[0])
    place = sp.csr_array(
        (np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=shape
    )
    if sp.issparse(matrix):
        return compact(sp.csr_array(place @ matrix))
    return place @ matrix


def _encode(
    state: ReadState,
    nodes: NodeNumbers,
    encode: Mapping[str, str],
    labels: Column | None,
) -> NodeData:
    if not state.described and (encode or labels is not None):
        raise UsageError(
            "encode and labels name columns of an attribute table, and there is none.",
            hint="Give the table with attributes=.",
        )
    several = len(state.described) > 1
    found = []
    for part, rows in zip(state.described, nodes.rows, strict=True):
        table, label = part.table, None
        if labels is not None and not (several and labels not in table.frame.columns):
            label = state.columns["labels"] = table.column(labels, "labels")
        own = {
            name: kind
            for name, kind in encode.items()
            if not several or name in table.frame.columns or name == "*"
        }
        found.append(
            encode_table(
                table,
                rows,
                nodes.num_nodes,
                skip=(part.id_column or "",),
                labels=label,
                encode=own,
            )
        )
    return join_tables(found) if several else (found or [NodeData()])[0]


@dataclass(frozen=True)
class Described:
    """A table of attributes, or the rows of a matrix, and the ids of its rows."""

    table: Table
    id_column: str | None
    ids: Ids


@dataclass
class ReadState:
    """What accumulates while the two tables are read."""

    table: Table
    rows: EdgeRows
    notes: list[str]
    columns: dict[str, str]
    described: list[Described] = field(default_factory=list)
    without_id: int = 0
    edge_rows: int = 0

    def forget_ids(self) -> None:
        """Let go of the ids, which are numbered, and may take more than the graph."""
        empty = Ids("mixed", [])
        self.rows = replace(self.rows, source=empty, target=empty)

    @property
    def attributes(self) -> str:
        """The name of the attribute table, or of both."""
        return " and ".join(part.table.name for part in self.described)


@dataclass(frozen=True)
class NodeNumbers:
    """Node indices of the edge ends and the attribute rows, and the id of each node."""

    pairs: npt.NDArray[np.int32]
    rows: tuple[IntArray, ...]
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
    pairs = nodes.pairs
    with_edges = np.zeros(nodes.num_nodes, dtype=bool)
    apart = pairs[:, 0] != pairs[:, 1]
    for ends in pairs.T:
        with_edges[ends[apart]] = True
    described = np.full(nodes.num_nodes, not nodes.rows)
    for rows in nodes.rows:
        described[rows] = True
    without = int(np.count_nonzero(~described))
    kept, more = _missing_rows(state, nodes, described, missing)
    notes += more
    weights, times = state.rows.weights, state.rows.times
    row_kept = np.ones(len(pairs), dtype=bool)
    ids = nodes.ids
    if not kept.all():
        row_kept = kept[pairs[:, 0]] & kept[pairs[:, 1]]
        index = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        pairs = index[pairs[row_kept]]
        ids = (np.arange(nodes.num_nodes) if ids is None else ids)[kept]
    graph = Graph.from_indices(
        int(kept.sum()),
        pairs,
        weights=None if weights is None else weights[row_kept],
        times=None if times is None else times[row_kept],
        attributes=None if data.attributes is None else data.attributes[kept],
        ids=ids,
        directed=directed,
        labels=None if data.labels is None else data.labels[kept],
        attribute_names=data.names,
        notes=[*notes, *_isolated(with_edges)],
    )
    named = (state.columns["source"], state.columns["target"])
    graph = with_sides(graph, pairs[:, 0], pairs[:, 1], named)
    report = _report(state, nodes, data, graph, row_kept, without)
    return replace(graph, reading=report.to_dict()), report


# How often nodes must come back, always on their own side of the table, before that is
# no longer taken for chance: each time it has a chance of a half in other graphs.
_RETURNS = 8
# Edges that are looked at together for two sides; more in a large graph.
_SOME = 1 << 18


def with_sides(
    graph: Graph,
    source: npt.NDArray[np.integer] | None = None,
    target: npt.NDArray[np.integer] | None = None,
    names: tuple[str, str] = ("source", "target"),
) -> Graph:
    """Return a graph with its two kinds of nodes told apart, if it has two.

    That is so if no node is both a source and a target; or, where edges are not told
    by their ends, if the graph has many cycles and none of odd length.

    Parameters
    ----------
    graph : Graph
        The graph; returned as it is unless it is bipartite.
    source, target : arrays of integers, optional
        The ends of the edges as they were listed.
    names : (str, str)
        What the two kinds are called in the note.
    """
    if graph.sides is not None:
        return graph
    sides = _listed_sides(graph, source, target)
    if sides is None:
        sides = _coloured_sides(graph)
    if sides is None:
        return graph
    first, second = (plural(int(np.sum(sides == k)), "node") for k in (0, 1))
    note = (
        f"bipartite: every edge joins one of {first} ({names[0]}) with one of {second} "
        f"({names[1]}); there cn, aa and ra are a random order, since they count walks "
        "of two steps: use walks of odd length, such as ac with t=3"
    )
    return replace(graph, sides=sides, notes=(*graph.notes, note))


def _listed_sides(
    graph: Graph,
    source: npt.NDArray[np.integer] | None,
    target: npt.NDArray[np.integer] | None,
) -> npt.NDArray[np.int8] | None:
    if source is None or target is None:
        return None
    sides = np.full(graph.num_nodes, -1, dtype=np.int8)
    sides[graph.edges] = 0
    returns = 2 * graph.num_edges - int(np.count_nonzero(sides == 0))
    edges = source != target
    sides[target[edges]] = 1
    if returns < _RETURNS or np.any(sides[source[edges]] != 0):
        return None
    linked = np.zeros(graph.num_nodes, dtype=bool)
    linked[graph.edges] = True
    return np.where(linked, sides, -1).astype(np.int8)


def _coloured_sides(graph: Graph) -> npt.NDArray[np.int8] | None:
    """Return two colours of which every edge has both, if there are many cycles."""
    from scipy.sparse.csgraph import connected_components

    # In the double cover every edge joins a copy 0 with a copy 1. The two copies of a
    # node are in one component exactly where a walk of odd length leads back to it,
    # which the first edges show of most graphs. What edges have joined is one node.
    n = graph.num_nodes
    label = np.arange(2 * n, dtype=np.int32)
    parts = 2 * n
    some = max(_SOME, n // 4)
    for at in range(0, graph.num_edges, some):
        u, v = graph.edges[at : at + some].T
        ends = np.r_[label[u], label[v]], np.r_[label[v + n], label[u + n]]
        ones = np.ones(len(ends[0]), dtype=bool)
        joined = sp.csr_array((ones, ends), shape=(parts, parts))
        parts, component = connected_components(joined, directed=False)
        label = component[label]
        if np.any(label[:n] == label[n:]):
            return None
    if graph.num_edges - n + parts // 2 < 2 * _RETURNS:
        return None
    sides = np.full(n, -1, dtype=np.int8)
    for ends_of_edges in graph.edges.T:
        sides[ends_of_edges] = label[ends_of_edges] > label[ends_of_edges + n]
    return sides


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
    at = int(np.argmin(described))
    first = at if nodes.ids is None else nodes.ids[at]
    told = (
        f"{state.attributes}: no row for {plural(count, 'node')}, for example {first!s}"
    )
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
    loops = row_kept & (nodes.pairs[:, 0] == nodes.pairs[:, 1])
    weights = state.rows.weights
    zero = 0
    if weights is not None:
        zero = int(np.count_nonzero((weights == 0) & row_kept & ~loops))
    tables = [part.table for part in state.described]
    linked = np.zeros(graph.num_nodes, dtype=bool)
    linked[graph.edges] = True
    return ReadReport(
        edges=state.table.name,
        attributes=state.attributes or None,
        edge_rows=state.edge_rows,
        attribute_rows=sum(table.frame.height for table in tables),
        edges_header=state.table.has_header,
        attributes_header=tables[0].has_header if tables else None,
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
        rows_without_id=state.without_id,
        times_are_dates=state.rows.times_are_dates,
        bipartite=graph.sides is not None,
        column_choices=data.choices,
        scales=dict(data.scales),
        notes=graph.notes,
    )
