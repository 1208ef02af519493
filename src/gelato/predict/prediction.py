"""Turn a scorer into a ranked table of links in the user's own node ids."""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gelato.engines import use_threads
from gelato.errors import InputError, UsageError
from gelato.graph import FloatArray, Graph, IntArray, canonical_pairs, find_pairs
from gelato.io import read_pairs
from gelato.io.tables import is_frame
from gelato.predict.links import (
    evidence_notes,
    id_column,
    link_table,
    refuse_blank_nodes,
)
from gelato.predict.precision import Scope, Validation, expect
from gelato.ranking import best_candidates, best_per_node, score_pairs
from gelato.ranking.best import ScoredPairs, best_capped
from gelato.ranking.candidates import Candidates
from gelato.ranking.journal import Progress
from gelato.ranking.scorers import RowScorer
from gelato.text import builtin

__all__ = [
    "Prediction",
    "Validation",
    "id_column",
    "link_table",
    "make_prediction",
    "pair_indices",
    "predict_links",
]

logger = logging.getLogger(__name__)

_TOP = 100


@dataclass(frozen=True, eq=False)
class Prediction:
    """Ranked links, and what people should know about them.

    Parameters
    ----------
    table : polars.DataFrame
        One link per row; see :func:`make_prediction` for the columns.
    notes : tuple of str
        Where ``expected_precision`` comes from or why it is empty, nodes that the
        model knows nothing about, and the like.
    """

    table: pl.DataFrame
    notes: tuple[str, ...]


def predict_links(scorer: RowScorer, graph: Graph, **options: Any) -> pl.DataFrame:
    """Return a ranked table of links; its notes are logged.

    Takes what :func:`make_prediction` takes, which also returns the notes.
    """
    prediction = make_prediction(scorer, graph, **options)
    for note in prediction.notes:
        logger.info("%s", note)
    return prediction.table


def make_prediction(
    scorer: RowScorer,
    graph: Graph,
    *,
    top: int | None = None,
    per_node: int | None = None,
    pairs: Any = None,
    nodes: Sequence[Hashable] | None = None,
    exclude: Any = None,
    max_per_node: int | None = None,
    between: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
    within_hops: int | None = None,
    rule: Candidates | None = None,
    validation: Validation | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Prediction:
    """Return ranked links, best first; equal scores in the order of the nodes.

    Parameters
    ----------
    scorer : RowScorer
        Scores pairs, given all known edges.
    graph : Graph
        The known edges, which are never predicted.
    top : int, optional
        The best candidates overall (default 100).
    per_node : int, optional
        The best candidates of every node, or of ``nodes``; ranked for each of them.
    pairs : path, frame, (k, 2) array or sequence of (source, target) ids, optional
        Score and rank exactly these pairs, known or not.
    nodes : sequence of ids, optional
        Whose links ``per_node`` lists. Nodes that the model knows nothing about (no
        edges, and nothing similar either) are noted, and refused if all are so.
    exclude : path, frame, (k, 2) array or sequence of (source, target) ids, optional
        Pairs that are not to be predicted.
    max_per_node : int, optional
        With ``top``: the best links of which no node has more than so many, so that
        hubs do not fill the list. Links are taken in rank order.
    between : (ids, ids), optional
        Only links with one end in each of two node sets (directed: from, to).
    within_hops : int, optional
        Only links between nodes that are at most so many edges apart.
    rule : Candidates, optional
        What may be predicted, in place of ``between``, ``within_hops``.
    validation : Validation, optional
        The model and the split that it was fitted on, for ``expected_precision``.
    threads, progress
        As for :func:`gelato.evaluate`.

    Returns
    -------
    Prediction
        Columns ``source``, ``target``, ``score``, ``rank``, ``expected_precision``,
        ``expected_low``, ``expected_high``, ``common_neighbours``,
        ``attribute_similarity`` (cosine), ``source_degree``, ``target_degree``; with
        ``pairs`` also ``known`` (already an edge). ``expected_precision`` is the share
        of true links to expect among candidates ranked like this one, with a 95 %
        interval; see :func:`gelato.predict.precision.precision_curve`.
    """
    limits = {
        "exclude": exclude,
        "between": between,
        "within_hops": within_hops,
        "rule": rule,
    }
    _check_options(
        {"top": top, "per_node": per_node, "pairs": pairs},
        {"nodes": nodes, "max_per_node": max_per_node},
        limits,
    )
    scope = _scope(graph, **limits)
    with use_threads(threads):
        if pairs is not None:
            return _given_pairs(scorer, graph, pairs, scope, validation)
        here = scope.rule(graph, graph.edges)
        assert here is not None
        if here.count == 0:
            raise InputError(
                "There is nothing to predict: every candidate pair is an edge already.",
                hint="Widen the candidate rule, or give a graph with missing links.",
            )
        if per_node is None:
            wanted = _TOP if top is None else top
            found = _best_overall(scorer, here, wanted, max_per_node, progress)
            ranks = np.arange(1, len(found.pairs) + 1)
            asked = None
        else:
            asked = _asked_nodes(scorer, graph, nodes)
            lists = best_per_node(scorer, here, asked, per_node, progress=progress)
            found, ranks = _joined(lists)
        notes = evidence_notes(scorer, graph, found, asked)
        expected, note = expect(scorer, graph, found.pairs, scope, validation)
        return Prediction(
            link_table(graph, found.pairs, found.scores, ranks, expected),
            (*notes, note),
        )


def _check_options(
    ways: dict[str, Any], details: dict[str, Any], limits: dict[str, Any]
) -> None:
    """Refuse options that contradict each other."""
    asked = [name for name, value in ways.items() if value is not None]
    if len(asked) > 1:
        raise UsageError(
            f"Ask for one of top, per_node and pairs, not for {' and '.join(asked)}."
        )
    if details["nodes"] is not None and ways["per_node"] is None:
        raise UsageError(
            "nodes says whose links per_node lists, and per_node is not given.",
            hint="For example: predict(per_node=10, nodes=[...]).",
        )
    if details["max_per_node"] is not None and asked not in ([], ["top"]):
        raise UsageError(
            f"max_per_node limits the list of the best links overall, not {asked[0]}.",
            hint="Use it with top.",
        )
    given = [name for name, value in limits.items() if value is not None]
    if ways["pairs"] is not None and given:
        raise UsageError(
            f"pairs scores exactly the pairs given, so {given[0]} has no meaning.",
            hint="Leave it out; or predict(top=...) among candidates.",
        )
    shapes = [name for name in given if name != "exclude"]
    if len(shapes) > 1:
        raise UsageError(
            f"Give one of between, within_hops and rule, not {' and '.join(shapes)}."
        )


def _scope(
    graph: Graph,
    *,
    exclude: Any,
    between: tuple[Sequence[Hashable], Sequence[Hashable]] | None,
    within_hops: int | None,
    rule: Candidates | None,
) -> Scope:
    sides = None
    if between is not None:
        left, right = between
        sides = (graph.indices_of(left), graph.indices_of(right))
    barred = np.empty((0, 2), dtype=np.int64)
    if exclude is not None:
        barred = _as_indices(graph, exclude)
    return Scope(barred, sides, within_hops, rule)


def _best_overall(
    scorer: RowScorer,
    rule: Candidates,
    top: int,
    limit: int | None,
    progress: Progress | None,
) -> ScoredPairs:
    if limit is None:
        return best_candidates(scorer, rule, top, progress=progress)
    return best_capped(scorer, rule, top, limit, progress=progress)


def _asked_nodes(
    scorer: RowScorer, graph: Graph, nodes: Sequence[Hashable] | None
) -> IntArray:
    if nodes is None:
        return np.arange(graph.num_nodes)
    asked = graph.indices_of(nodes)
    refuse_blank_nodes(scorer, graph, asked)
    return asked


def _joined(lists: list[ScoredPairs]) -> tuple[ScoredPairs, IntArray]:
    """Return the lists one after another, and the rank of each pair in its own."""
    pairs = [np.empty((0, 2), np.int64), *(best.pairs for best in lists)]
    scores = [np.empty(0), *(best.scores for best in lists)]
    ranks = [np.empty(0, np.int64), *(np.arange(1, len(b) + 1) for b in lists)]
    found = ScoredPairs(np.concatenate(pairs), np.concatenate(scores))
    return found, np.concatenate(ranks)


def _given_pairs(
    scorer: RowScorer,
    graph: Graph,
    pairs: Any,
    scope: Scope,
    validation: Validation | None,
) -> Prediction:
    indices = pair_indices(graph, pairs)
    scores: FloatArray = score_pairs(scorer, indices, graph.num_nodes)
    order = np.argsort(-scores, kind="stable")
    found = ScoredPairs(indices[order], scores[order])
    canonical = canonical_pairs(found.pairs, directed=graph.directed)
    known = find_pairs(graph.edges, canonical, graph.num_nodes) >= 0
    expected, note = expect(scorer, graph, found.pairs, scope, validation)
    ranks = np.arange(1, len(order) + 1)
    table = link_table(graph, found.pairs, found.scores, ranks, expected)
    notes = evidence_notes(scorer, graph, found, np.unique(found.pairs))
    return Prediction(table.with_columns(known=pl.Series(known)), (*notes, note))


def pair_indices(graph: Graph, pairs: Any) -> IntArray:
    """Return pairs of ids as pairs of indices; a node with itself is refused."""
    found = _as_indices(graph, pairs)
    if not len(found):
        raise InputError("There are no pairs to score.", hint="Give at least one pair.")
    return found


def _as_indices(graph: Graph, pairs: Any) -> IntArray:
    """Return pairs from a file, a frame or a sequence, maybe none, as indices."""
    framed = is_frame(pairs)
    if isinstance(pairs, str | os.PathLike) or (framed and len(pairs)):
        return read_pairs(pairs, graph)
    listed = [] if framed else [tuple(pair) for pair in pairs]
    wrong = next((pair for pair in listed if len(pair) < 2 or pair[0] == pair[1]), None)
    if wrong is not None:
        raise InputError(
            f"{builtin(wrong)} is not a pair of two different nodes.",
            hint="Give pairs (source, target).",
        )
    indices = [(graph.index_of(a), graph.index_of(b)) for a, b, *_ in listed]
    return np.array(indices, dtype=np.int64).reshape(-1, 2)
