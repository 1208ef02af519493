"""Adjacency matrices of scipy, in and out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, MissingExtraError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.io.attributes import encode_table
from gelato.io.tables import read_table
from gelato.text import plural


def from_scipy(
    matrix: Any,
    attributes: Any = None,
    ids: Sequence[Hashable] | None = None,
    *,
    directed: bool = False,
) -> Graph:
    """Build a graph from a square adjacency matrix.

    Parameters
    ----------
    matrix : (n, n) scipy sparse matrix or array
        Entry (u, v) is the weight of the edge from u to v; 0 is no edge.
    attributes : (n, r) array or sparse matrix, optional
        One row per node.
    ids : sequence, optional
        One id per node; default ``0..n-1``.
    directed : bool
        Whether edges have a direction. If not, an asymmetric matrix is made symmetric
        with the larger of the two weights, and a note says so.

    Returns
    -------
    Graph
        Without weights if all of them are 1.

    Examples
    --------
    >>> from_scipy(sp.csr_array([[0, 2], [2, 0]])).weights.tolist()
    [2.0]
    """
    square = _as_square(matrix)
    notes: list[str] = []
    if not directed:
        turned = square.T.tocsr()
        if (square != turned).nnz:
            notes.append("the matrix is not symmetric: took the larger weight")
            square = square.maximum(turned)
        square = sp.triu(square, format="csr")
    entries = sp.coo_array(square)
    edges = np.column_stack([entries.row, entries.col]).astype(np.int64)
    weights = None if np.all(entries.data == 1.0) else entries.data
    return Graph.from_indices(
        square.shape[0],
        edges,
        weights=weights,
        attributes=attributes,
        ids=ids,
        directed=directed,
        notes=notes,
    )


def _as_square(matrix: Any) -> sp.csr_array:
    try:
        square = sp.csr_array(matrix, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"The adjacency matrix is not a matrix of numbers: {error}.",
            hint="Give a scipy sparse matrix.",
        ) from error
    if square.ndim != 2 or square.shape[0] != square.shape[1]:
        raise InputError(
            f"The adjacency matrix has shape {square.shape}, but it must be square.",
            hint="Give one row and one column per node.",
        )
    square.sum_duplicates()
    square.eliminate_zeros()
    wrong = ~np.isfinite(square.data) | (square.data < 0)
    if wrong.any():
        entries = sp.coo_array(square)
        at = int(np.argmax(wrong))
        raise InputError(
            f"Entry ({entries.row[at]}, {entries.col[at]}) of the adjacency matrix is "
            f"{entries.data[at]:g}.",
            hint="Weights must be positive and finite.",
        )
    return square


def to_scipy(graph: Graph) -> sp.csr_array:
    """Return a copy of the weighted adjacency matrix, CSR float64."""
    return graph.adjacency.copy()


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
    weights, notes = _networkx_weights([data.get(weight) for _, _, data in ends], ends)
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


def _networkx_weights(
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
    note = f"weight 1 for {plural(lacking, 'edge')} without a weight"
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


def from_pyg(data: Any, *, directed: bool | None = None) -> Graph:
    """Build a graph from PyG ``Data``.

    Parameters
    ----------
    data : torch_geometric.data.Data
        ``edge_index`` and, if present, ``edge_weight`` (or a one-dimensional
        ``edge_attr``), ``x`` and ``y``.
    directed : bool, optional
        Whether edges have a direction; default: unless ``data.is_undirected()``. If
        not, the two directions of an edge are one edge with the larger weight.

    Returns
    -------
    Graph
        Repeated edges are merged, their weights added.
    """
    edges, num_nodes = _edges(data)
    if directed is None:
        directed = not data.is_undirected()
    given = _pyg_weights(data, len(edges))
    values = np.ones(len(edges)) if given is None else given
    keep = values != 0
    shape = (num_nodes, num_nodes)
    matrix = sp.csr_array(
        sp.coo_array((values[keep], (edges[keep, 0], edges[keep, 1])), shape=shape)
    )
    if given is None:
        matrix.data[:] = 1.0
    built = from_scipy(matrix, _attributes(data), directed=directed)
    labels = _labels(data, num_nodes)
    if labels is None:
        return built
    return Graph.from_indices(
        num_nodes,
        built.edges,
        weights=built.weights,
        attributes=built.attributes,
        directed=directed,
        labels=labels,
        notes=built.notes,
    )


def _edges(data: Any) -> tuple[IntArray, int]:
    from torch import Tensor  # loaded already: the graph is made of tensors

    index = getattr(data, "edge_index", None)
    if not isinstance(index, Tensor) or index.ndim != 2:
        raise InputError(
            f"{type(data).__name__} has no usable edge_index.",
            hint="Give a homogeneous torch_geometric.data.Data with a (2, m) tensor; "
            "turn HeteroData with .to_homogeneous().",
        )
    edges = np.asarray(index.detach().cpu().numpy()).T
    num_nodes = int(data.num_nodes or 0)
    outside = edges.size and (edges.min() < 0 or edges.max() >= num_nodes)
    if edges.shape[1:] != (2,) or edges.dtype.kind not in "iu" or outside:
        raise InputError(
            f"edge_index must be a (2, m) tensor of node indices below {num_nodes}.",
            hint="Check data.validate().",
        )
    return edges.astype(np.int64), num_nodes


def _pyg_weights(data: Any, count: int) -> FloatArray | None:
    weight = getattr(data, "edge_weight", None)
    if weight is None:
        weight = getattr(data, "edge_attr", None)
        if weight is not None and weight.ndim > 1 and weight.shape[-1] != 1:
            return None  # several numbers per edge are no weight
    if weight is None:
        return None
    values = np.asarray(weight.detach().cpu().numpy(), dtype=np.float64).ravel()
    if len(values) != count or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise InputError(
            "edge_weight must hold one positive, finite number per edge.",
            hint="Drop or shift the others.",
        )
    return values


def _attributes(data: Any) -> Any:
    x = getattr(data, "x", None)
    if x is None:
        return None
    x = x.detach().cpu()
    if not x.is_sparse and "sparse" not in str(x.layout):
        values = x.numpy()
        return values.reshape(len(values), -1)
    entries = x.to_sparse_coo().coalesce()
    indices = entries.indices().numpy()
    return sp.csr_array(
        (entries.values().numpy(), tuple(indices)), shape=tuple(x.shape)
    )


def _labels(data: Any, num_nodes: int) -> IntArray | None:
    y = getattr(data, "y", None)
    if y is None or y.ndim != 1 or len(y) != num_nodes or y.is_floating_point():
        return None
    return np.asarray(y.detach().cpu().numpy(), dtype=np.int64)


def to_pyg(graph: Graph) -> Any:
    """Return PyG ``Data`` with both directions of every undirected edge.

    Attributes become a dense ``x``, weights ``edge_weight``, labels ``y``, and the
    user's ids the list ``node_ids``.
    """
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtraError("torch-geometric", "graphs", "Making Data") from error
    adjacency = sp.coo_array(graph.adjacency)
    index = np.vstack([adjacency.row, adjacency.col]).astype(np.int64)
    data = Data(edge_index=torch.from_numpy(index), num_nodes=graph.num_nodes)
    if graph.weights is not None:
        data.edge_weight = torch.from_numpy(adjacency.data.copy())
    if graph.attributes is not None:
        x = graph.attributes
        dense = x.toarray() if sp.issparse(x) else x.copy()
        data.x = torch.from_numpy(dense)
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    if graph.ids is not None:
        data.node_ids = graph.ids.tolist()
    return data
