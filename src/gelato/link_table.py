"""Scored pairs as a table that people can act on, in their own node ids."""

from __future__ import annotations

import numpy as np
import polars as pl
import scipy.sparse as sp

from gelato.graph import FloatArray, Graph, IntArray
from gelato.nn.similarity import pair_similarity

# Rows of two adjacency matrices held at once while common neighbours are counted.
_CHUNK_ENTRIES = 1 << 21


def link_table(
    graph: Graph,
    pairs: IntArray,
    scores: FloatArray,
    ranks: IntArray,
    expected: FloatArray | None = None,
) -> pl.DataFrame:
    """Return scored pairs as a table.

    Parameters
    ----------
    graph : Graph
        All known edges; degrees and common neighbours are counted in it.
    pairs : (k, 2) int64
    scores, ranks : (k,)
    expected : (k,) float64, optional
        Expected precision, NaN where there is none; default: none at all.

    Returns
    -------
    polars.DataFrame
        ``source``, ``target``, ``score``, ``rank``, ``expected_precision`` (null where
        unknown), ``common_neighbours`` (how many), ``attribute_similarity`` (cosine;
        null without attributes), ``source_degree``, ``target_degree`` (weighted).
    """
    u, v = pairs.T
    expectation = np.full(len(pairs), np.nan) if expected is None else expected
    return pl.DataFrame(
        {
            "source": id_column(graph, u),
            "target": id_column(graph, v),
            "score": scores,
            "rank": ranks.astype(np.int64),
            "expected_precision": pl.Series(expectation).fill_nan(None),
            "common_neighbours": count_common_neighbours(graph, pairs),
            "attribute_similarity": _similarity_column(graph, pairs),
            "source_degree": graph.degrees[u],
            "target_degree": graph.degrees[v],
        }
    )


def id_column(graph: Graph, indices: IntArray) -> pl.Series:
    """Return the user's ids of nodes as a column (as text if types are mixed)."""
    ids = graph.node_ids[indices].tolist()
    try:
        return pl.Series(ids, strict=True)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series([str(node) for node in ids])


def count_common_neighbours(graph: Graph, pairs: IntArray) -> IntArray:
    """Count the nodes with an edge, in either direction, to both nodes of pairs."""
    pattern = sp.csr_array(graph.adjacency.astype(bool).astype(np.int32))
    if graph.directed:
        pattern = sp.csr_array((pattern + pattern.T).astype(bool).astype(np.int32))
    counts = np.zeros(len(pairs), dtype=np.int64)
    sizes = np.diff(pattern.indptr)
    ends = np.cumsum(sizes[pairs].sum(axis=1))
    start = 0
    while start < len(pairs):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + _CHUNK_ENTRIES, side="right"))
        stop = max(stop, start + 1)
        u, v = pairs[start:stop].T
        counts[start:stop] = np.asarray((pattern[u] * pattern[v]).sum(axis=1)).ravel()
        start = stop
    return counts


def _similarity_column(graph: Graph, pairs: IntArray) -> pl.Series:
    if graph.num_attributes == 0:
        return pl.Series([None] * len(pairs), dtype=pl.Float64)
    return pl.Series(pair_similarity(graph.attributes, pairs))
