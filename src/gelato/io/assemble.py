"""The last step of reading: numbered edges and node data into a graph and a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError
from gelato.graph import Graph, IntArray
from gelato.io.attributes import NodeData
from gelato.io.edges import EdgeRows
from gelato.io.report import ReadReport
from gelato.io.tables import Table
from gelato.io.wording import counted


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
    return [f"no edges at {counted(count, 'node')}"] if count else []


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
    told = f"{name}: no row for {counted(count, 'node')}, for example {first!s}"
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
