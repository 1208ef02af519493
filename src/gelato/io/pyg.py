"""``Data`` of PyTorch Geometric, in and out: the only place with (2, m) indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, MissingExtraError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.io.matrices import from_scipy


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
    given = _weights(data, len(edges))
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
    index = getattr(data, "edge_index", None)
    if index is None or not hasattr(index, "numpy") or index.ndim != 2:
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


def _weights(data: Any, count: int) -> FloatArray | None:
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
        raise MissingExtraError("torch-geometric", "gnn", "Making Data") from error
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
