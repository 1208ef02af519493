"""Graphs of networkx, in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, MissingExtraError
from gelato.graph import Graph
from gelato.io.attributes import encode_table
from gelato.io.tables import read_table
from gelato.io.wording import counted


def from_networkx(
    graph: Any,
    *,
    weight: str = "weight",
    attributes: Sequence[str] | None = None,
) -> Graph:
    """Build a graph from a networkx graph; its nodes become the ids, in their order.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph or a multigraph
        Parallel edges are merged, their weights added.
    weight : str
        The edge key that holds the weight. If no edge has it, the graph is
        unweighted; edges that lack it among others that have it weigh 1.
    attributes : sequence of str, optional
        Node keys to encode as attributes, like columns of an attribute table.

    Returns
    -------
    Graph
        Directed if the networkx graph is.
    """
    try:
        nodes = list(graph.nodes)
        position = {node: k for k, node in enumerate(nodes)}
        ends = list(graph.edges(data=True))
        directed = bool(graph.is_directed())
    except (AttributeError, TypeError) as error:
        raise InputError(
            f"{type(graph).__name__} is not a networkx graph: {error}.",
            hint="Give a networkx.Graph or DiGraph.",
        ) from error
    edges = np.array([(position[u], position[v]) for u, v, _ in ends], dtype=np.int64)
    weights, notes = _weights([data.get(weight) for _, _, data in ends], ends)
    encoded = None
    if attributes and nodes:
        columns = {key: [graph.nodes[n].get(key) for n in nodes] for key in attributes}
        table = read_table(columns, "the nodes")
        encoded = encode_table(
            table,
            np.arange(len(nodes)),
            len(nodes),
            skip=(),
            labels=None,
            encode={},
        )
        notes += encoded.notes
    return Graph.from_indices(
        len(nodes),
        edges.reshape(-1, 2),
        weights=weights,
        attributes=None if encoded is None else encoded.attributes,
        attribute_names=None if encoded is None else encoded.names,
        ids=None if nodes == list(range(len(nodes))) else nodes,
        directed=directed,
        notes=notes,
    )


def _weights(
    values: list[Any], ends: list[Any]
) -> tuple[list[float] | None, list[str]]:
    lacking = sum(value is None for value in values)
    if lacking == len(values):
        return None, []
    weights: list[float] = []
    for value, (u, v, _) in zip(values, ends, strict=True):
        try:
            number = 1.0 if value is None else float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number) or number < 0:
            raise InputError(
                f"The edge from {u!r} to {v!r} has the weight {value!r}.",
                hint="Weights must be positive, finite numbers.",
            )
        weights.append(number)
    note = f"weight 1 for {counted(lacking, 'edge')} without a weight"
    return weights, [note] if lacking else []


def to_networkx(graph: Graph, *, attributes: bool = False) -> Any:
    """Return a networkx Graph or DiGraph over the user's ids.

    Parameters
    ----------
    graph : Graph
        The graph to convert; weights become ``weight``, times ``time``, labels
        ``label``.
    attributes : bool
        Whether to store every attribute that is not 0 under its name at its node.
    """
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingExtraError("networkx", "graphs", "Converting a graph") from error
    made = nx.DiGraph() if graph.directed else nx.Graph()
    nodes = graph.node_ids.tolist()
    made.add_nodes_from(nodes)
    made.add_edges_from((nodes[u], nodes[v]) for u, v in graph.edges.tolist())
    ends = [(nodes[u], nodes[v]) for u, v in graph.edges.tolist()]
    for key, values in (("weight", graph.weights), ("time", graph.times)):
        if values is not None:
            pairs = zip(ends, values.tolist(), strict=True)
            nx.set_edge_attributes(made, dict(pairs), key)
    if graph.labels is not None:
        labels = dict(zip(nodes, graph.labels.tolist(), strict=True))
        nx.set_node_attributes(made, labels, "label")
    if attributes and graph.attributes is not None:
        _add_attributes(made, graph, nodes)
    return made


def _add_attributes(made: Any, graph: Graph, nodes: list[Any]) -> None:
    names = graph.attribute_names or [f"x{k}" for k in range(graph.num_attributes)]
    entries = sp.coo_array(graph.attributes)
    for row, column, value in zip(
        entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True
    ):
        made.nodes[nodes[row]][names[column]] = value
