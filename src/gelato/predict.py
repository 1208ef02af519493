"""Turn a scorer into a ranked table of links in the user's own node ids."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import polars as pl

from gelato.errors import InputError, UsageError
from gelato.graph import FloatArray, Graph, IntArray, canonical_pairs, find_pairs
from gelato.ranking import best_candidates, best_per_node, candidates, score_pairs
from gelato.ranking.candidates import Candidates
from gelato.ranking.counts import Progress
from gelato.ranking.scorers import RowScorer


def predict_links(
    scorer: RowScorer,
    graph: Graph,
    *,
    top: int | None = None,
    per_node: int | None = None,
    pairs: Any = None,
    nodes: Sequence[Hashable] | None = None,
    rule: Candidates | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Return a ranked table of links.

    Parameters
    ----------
    scorer : RowScorer
        Scores pairs, given all known edges.
    graph : Graph
        The known edges, which are never predicted.
    top : int, optional
        The best candidates overall (default 100).
    per_node : int, optional
        The best candidates of every node, or of ``nodes``.
    pairs : sequence of (source, target) ids or (k, 2) array, optional
        Score and rank exactly these pairs, known or not.
    nodes : sequence of ids, optional
        Whose links ``per_node`` lists.
    rule : Candidates, optional
        Restricts what may be predicted.
    threads, progress
        As for :func:`gelato.evaluate`.

    Returns
    -------
    polars.DataFrame
        ``source``, ``target``, ``score``, ``rank``, ``source_degree``,
        ``target_degree``; with ``pairs`` also ``known`` (already an edge).
    """
    given = {"top": top, "per_node": per_node, "pairs": pairs}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise UsageError(
            f"Ask for one of top, per_node and pairs, not for {' and '.join(asked)}."
        )
    if pairs is not None:
        return _given_pairs(scorer, graph, pairs)
    if rule is None:
        rule = candidates.all_pairs(graph, graph.edges)
    if rule.count == 0:
        raise InputError(
            "There is nothing to predict: every candidate pair is an edge already.",
            hint="Widen the candidate rule, or give a graph with missing links.",
        )
    run: dict[str, Any] = {"threads": threads, "progress": progress}
    if per_node is None:
        best = best_candidates(scorer, rule, 100 if top is None else top, **run)
        ranks = np.arange(1, len(best) + 1)
        return link_table(graph, best.pairs, best.scores, ranks)
    chosen = np.arange(graph.num_nodes) if nodes is None else graph.indices_of(nodes)
    lists = best_per_node(scorer, rule, chosen, per_node, **run)
    ranks = np.concatenate([np.arange(1, len(best) + 1) for best in lists])
    return link_table(
        graph,
        np.concatenate([best.pairs for best in lists]),
        np.concatenate([best.scores for best in lists]),
        ranks,
    )


def link_table(
    graph: Graph, pairs: IntArray, scores: FloatArray, ranks: IntArray
) -> pl.DataFrame:
    """Return scored pairs as a table in the user's ids."""
    u, v = pairs.T
    return pl.DataFrame(
        {
            "source": id_column(graph, u),
            "target": id_column(graph, v),
            "score": scores,
            "rank": ranks.astype(np.int64),
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


def _given_pairs(scorer: RowScorer, graph: Graph, pairs: Any) -> pl.DataFrame:
    indices = pair_indices(graph, pairs)
    scores = score_pairs(scorer, indices, graph.num_nodes)
    order = np.argsort(-scores, kind="stable")
    canonical = canonical_pairs(indices, directed=graph.directed)
    known = find_pairs(graph.edges, canonical, graph.num_nodes) >= 0
    ranks = np.arange(1, len(order) + 1)
    table = link_table(graph, indices[order], scores[order], ranks)
    return table.with_columns(known=pl.Series(known[order]))


def pair_indices(graph: Graph, pairs: Any) -> IntArray:
    """Return pairs of ids as pairs of indices; a node with itself is refused."""
    if hasattr(pairs, "rows") or hasattr(pairs, "to_numpy"):  # a polars or pandas frame
        columns = [np.asarray(pairs[name]).tolist() for name in list(pairs.columns)[:2]]
        listed = list(zip(*columns, strict=True))
    else:
        listed = [tuple(pair) for pair in pairs]
    if not listed:
        raise InputError("There are no pairs to score.", hint="Give at least one pair.")
    wrong = next((pair for pair in listed if len(pair) < 2 or pair[0] == pair[1]), None)
    if wrong is not None:
        raise InputError(
            f"{wrong} is not a pair of two different nodes.",
            hint="Give pairs (source, target).",
        )
    return np.array(
        [(graph.index_of(a), graph.index_of(b)) for a, b, *_ in listed], dtype=np.int64
    )
