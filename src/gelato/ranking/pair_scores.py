"""Scores of given pairs, by the same path that scores whole rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gelato.engines import map_shared
from gelato.errors import InputError
from gelato.graph import FloatArray, IntArray
from gelato.ranking.near import pick_near
from gelato.ranking.scorers import (
    HalfScorer,
    RowScorer,
    checked_rows,
    has_near_pairs,
    row_blocks,
    row_costs,
    row_spans,
)


def score_pairs(scorer: RowScorer, pairs: IntArray, num_nodes: int) -> FloatArray:
    """Score given pairs by the same path that scores whole rows.

    Ranking compares these scores with those of row blocks, so they must agree to the
    last bit; scoring rows and picking entries guarantees it, and a
    :class:`~gelato.ranking.scorers.HalfScorer` promises it.
    """
    if scores_pairs(scorer):
        return _own_scores(scorer, pairs)
    scores = np.empty(len(pairs))
    order = np.argsort(pairs[:, 0], kind="stable")
    rows, counts = np.unique(pairs[:, 0], return_counts=True)
    ends = np.concatenate(([0], np.cumsum(counts)))
    # Columns up to the row need not be scored where no pair asks for one.
    upper = bool(np.all(pairs[:, 0] < pairs[:, 1]))
    sorted_pairs = pairs[order]

    def asked() -> Iterator[IntArray]:
        start = 0
        for span in row_spans(rows, row_costs(scorer, rows, num_nodes)):
            stop = start + len(span)
            yield sorted_pairs[ends[start] : ends[stop]]
            start = stop

    done = 0
    picking = (scorer, num_nodes, upper)
    for picked in map_shared(_pick_span, picking, asked()):
        scores[order[done : done + len(picked)]] = picked
        done += len(picked)
    return scores


def scores_pairs(scorer: RowScorer) -> bool:
    """Whether a scorer scores given pairs without whole rows."""
    return isinstance(scorer, HalfScorer)


def score_in_order(scorer: RowScorer, pairs: IntArray, num_nodes: int) -> FloatArray:
    """Score pairs that are sorted by row, here and now: for what a worker does."""
    if scores_pairs(scorer):
        return _own_scores(scorer, pairs)
    if not len(pairs):
        return np.empty(0)
    upper = bool(np.all(pairs[:, 0] < pairs[:, 1]))
    return _pick_span((scorer, num_nodes, upper), pairs)


def _own_scores(scorer: Any, pairs: IntArray) -> FloatArray:
    scores = np.ascontiguousarray(scorer.pair_scores(pairs), dtype=np.float64)
    if scores.shape != (len(pairs),):
        raise InputError(
            f"pair_scores returned shape {scores.shape} for {len(pairs)} pairs.",
            hint="Return one score for every pair asked for.",
        )
    if np.isnan(scores).any():
        u, v = pairs[int(np.argmax(np.isnan(scores)))]
        raise InputError(
            f"The score of the pair ({u}, {v}) is not a number.",
            hint="Every pair needs a score that can be compared.",
        )
    return scores


def _pick_span(picking: tuple[Any, int, bool], pairs: IntArray) -> FloatArray:
    """Return the scores of pairs that are sorted by row."""
    scorer, num_nodes, upper = picking
    if has_near_pairs(scorer):
        return pick_near(scorer, pairs, upper=upper)
    parts, rows = [], np.unique(pairs[:, 0])
    for block in row_blocks(rows, row_costs(scorer, rows, num_nodes)):
        start, stop = np.searchsorted(pairs[:, 0], [block[0], block[-1] + 1])
        within = np.searchsorted(block, pairs[start:stop, 0])
        dense = checked_rows(scorer, block, num_nodes)
        parts.append(dense[within, pairs[start:stop, 1]])
    return np.concatenate(parts)
