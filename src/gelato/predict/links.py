"""Scored pairs as a table that people can act on, in their own node ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy.sparse as sp

from gelato.errors import InputError
from gelato.graph import FloatArray, Graph, IntArray
from gelato.ranking.best import ScoredPairs
from gelato.ranking.scorers import RowScorer, SumScorer, has_near_pairs, row_blocks

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
    expected : (3, k) float64, optional
        Expected precision and its interval, NaN where there is none; default: none at
        all.

    Returns
    -------
    polars.DataFrame
        ``source``, ``target``, ``score``, ``rank``, ``expected_precision`` with
        ``expected_low`` and ``expected_high`` (null where unknown),
        ``common_neighbours`` (how many), ``attribute_similarity`` (cosine;
        null without attributes), ``source_degree``, ``target_degree`` (weighted).
    """
    u, v = pairs.T
    unknown = np.full((3, len(pairs)), np.nan)
    share, low, high = unknown if expected is None else expected
    return pl.DataFrame(
        {
            "source": id_column(graph, u),
            "target": id_column(graph, v),
            "score": scores,
            "rank": ranks.astype(np.int64),
            "expected_precision": pl.Series(share).fill_nan(None),
            "expected_low": pl.Series(low).fill_nan(None),
            "expected_high": pl.Series(high).fill_nan(None),
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
    from gelato.nn.similarity import pair_similarity

    return pl.Series(pair_similarity(graph.attributes, pairs))


_NAMED = 3


def evidence_notes(
    scorer: RowScorer, graph: Graph, found: ScoredPairs, asked: IntArray | None
) -> list[str]:
    """Return notes on links and nodes without evidence of their own.

    Parameters
    ----------
    scorer : RowScorer
        What scored the links.
    graph : Graph
        The known edges.
    found : ScoredPairs
        The links.
    asked : (k,) int64, optional
        Nodes that are in the list whatever they score, because they were asked for.
    """
    notes = []
    if asked is not None:
        blank = _blank_nodes(scorer, graph, asked)
        if len(blank):
            noun = "node has" if len(blank) == 1 else "nodes have"
            notes.append(
                f"{len(blank):,} {noun} no edges and nothing else that the model could "
                f"go by: the links of {_named(graph, blank)} are in arbitrary order"
            )
    unjoined = _unjoined(scorer, found)
    if unjoined:
        notes.append(
            f"{unjoined:,} of the {len(found):,} links are joined by nothing that the "
            "model counts: they score as unrelated nodes do, and their order says "
            "little"
        )
    return notes


def refuse_blank_nodes(scorer: RowScorer, graph: Graph, asked: IntArray) -> None:
    """Raise if a scorer knows nothing about any of the nodes asked for by name."""
    blank = _blank_nodes(scorer, graph, asked)
    if not len(blank) or len(blank) < len(np.unique(asked)):
        return
    attributed = graph.num_attributes > 0
    similar = " and no similar nodes to be linked through" if attributed else ""
    raise InputError(
        f"The model knows nothing about {_named(graph, blank)}: no edges{similar}. "
        "Any order of links would be arbitrary.",
        hint="Use gelato or cos+ac with eta > 0, or a larger eta: they link nodes "
        "through similar attributes."
        if attributed
        else "Give an edge; or give attributes and use gelato with eta > 0.",
    )


def _with_evidence(scorer: Any, nodes: IntArray) -> npt.NDArray[np.bool_]:
    """Tell of which nodes a scorer knows anything; many at a time cost little more."""
    known = np.zeros(len(nodes), dtype=bool)
    parts: tuple[Any, ...] = (scorer,)
    if isinstance(scorer, SumScorer):
        parts = scorer.scorers
    for part in parts:
        if not has_near_pairs(part):
            for at in np.flatnonzero(~known).tolist():
                row = part.score_rows(nodes[at : at + 1])[0]
                known[at] = np.ptp(np.delete(row, nodes[at])) > 0
            continue
        if part.far.scale > 0:
            known |= part.far.left[nodes] > 0
        reached = [
            np.diff(part.near_rows(block, upper=False).indptr)
            for block in row_blocks(nodes, part.near_bounds[nodes])
        ]
        known |= np.concatenate([np.empty(0, dtype=np.int64), *reached]) > 0
    return known


def _blank_nodes(scorer: RowScorer, graph: Graph, nodes: IntArray) -> IntArray:
    # Only nodes without edges can lack evidence: every other has a walk to somewhere.
    touched = np.zeros(graph.num_nodes, dtype=bool)
    touched[graph.edges.ravel()] = True
    alone = np.unique(nodes[~touched[nodes]])
    return alone[~_with_evidence(scorer, alone)]


def _named(graph: Graph, nodes: IntArray) -> str:
    names = ", ".join(repr(node) for node in graph.node_ids[nodes[:_NAMED]].tolist())
    rest = len(nodes) - _NAMED
    return names if rest <= 0 else f"{names} and {rest:,} more"


def _unjoined(scorer: Any, found: ScoredPairs) -> int:
    """Count the links that only have the closed-form score of far pairs."""
    if not has_near_pairs(scorer) or not scorer.near_bounds.any():
        return 0
    u, v = found.pairs.T
    return int(np.count_nonzero(found.scores <= scorer.far.at(u, v)))
