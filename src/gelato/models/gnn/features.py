"""What a network is given about nodes, and the matrices that pass messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import psutil
import scipy.sparse as sp

from gelato.errors import InputError
from gelato.graph import Graph

FEATURES = ("attributes", "one-hot", "degree")
# Columns of degree features: degrees up to 2^32, by powers of two.
_DEGREE_COLUMNS = 32
# Share of the free memory that preprocessing may take.
_SHARE = 0.7


def node_features(graph: Graph, kind: str, *, normalise: bool) -> sp.csr_array:
    """Return the ``(n, r)`` input of a network.

    Parameters
    ----------
    graph : Graph
        Where from.
    kind : {"attributes", "one-hot", "degree"}
        The graph's attributes; a column per node, which later nodes cannot have; or
        the degree by powers of two.
    normalise : bool
        Divide rows by the sum of their absolute values; rows of zeros stay.
    """
    matrix = _raw_features(graph, kind)
    if normalise:
        sums = np.asarray(abs(matrix).sum(axis=1)).ravel()
        scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
        matrix = sp.csr_array(sp.diags_array(scale) @ matrix)
    return matrix.astype(np.float32)


def _raw_features(graph: Graph, kind: str) -> sp.csr_array:
    n = graph.num_nodes
    if kind == "one-hot":
        return sp.csr_array(sp.eye_array(n))
    if kind == "degree":
        degree = np.diff(graph.adjacency.indptr)
        column = np.floor(np.log2(1.0 + degree)).astype(np.int64)
        entries = (np.ones(n), (np.arange(n), column))
        return sp.csr_array(sp.coo_array(entries, shape=(n, _DEGREE_COLUMNS)))
    if graph.attributes is None or not graph.num_attributes:
        raise InputError(
            "The network needs node attributes, and the graph has none.",
            hint='Choose features="one-hot" (a column per node) or features="degree".',
        )
    return sp.csr_array(graph.attributes, dtype=np.float64)


def adjacency_pattern(graph: Graph) -> sp.csr_array:
    """Return the adjacency matrix with ones, whatever the weights."""
    pattern = graph.adjacency.copy()
    pattern.data = np.ones_like(pattern.data)
    return pattern


def symmetric_average(graph: Graph) -> sp.csr_array:
    """Return ``D^-1/2 (A + I) D^-1/2``, with edge weights and loops of weight 1."""
    looped = sp.csr_array(graph.adjacency + sp.eye_array(graph.num_nodes))
    root = 1.0 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(root) @ looped @ sp.diags_array(root))


def row_average(graph: Graph) -> sp.csr_array:
    """Return ``D^-1 (A + I)``, with edge weights and loops of weight 1."""
    looped = sp.csr_array(graph.adjacency + sp.eye_array(graph.num_nodes))
    inverse = 1.0 / np.asarray(looped.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(inverse) @ looped)


def refuse_large(what: str, needed: float, *, hint: str) -> None:
    """Raise, before the memory is gone, if something will not fit."""
    free = psutil.virtual_memory().available
    if needed > _SHARE * free:
        raise InputError(
            f"{what} would take about {_size(needed)}, and {_size(free)} are free.",
            hint=hint,
        )


def _size(count: Any) -> str:
    return f"{count / 1e9:,.1f} GB"
