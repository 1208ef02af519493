"""One pass over the near pairs of rows: count them, keep the best, or pick some.

Walk scores are consumed while they are walked; any other scorer of near pairs lists
them block by block first. Both give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gelato.graph import FloatArray, IntArray
from gelato.kernels import counting, near_walks
from gelato.kernels import near_walks as walks
from gelato.ranking.scorers import (
    BLOCK_CELLS,
    NearScorer,
    WalkScorer,
    row_blocks,
)

Tally = tuple[Any, Any, Any, Any]
"""What :func:`gelato.kernels.counting.tally_pair` takes."""
NO_TALLY: Tally = (
    np.empty(0),
    np.zeros(1, dtype=np.int32),
    np.empty(0),
    np.empty(0, dtype=np.int64),
)

# A table of pairs of classes stays within a few megabytes per thread.
_MOST_CLASS_PAIRS = 1 << 20


@dataclass(frozen=True, eq=False)
class FarClasses:
    """Sites grouped by their closed-form value: few groups where degrees are whole.

    Parameters
    ----------
    left, right : (n,) int32
        The class of the node at every site; empty where nothing is walked.
    lefts, rights : float64
        The value of every class; empty where there are too many classes to count by.
    """

    left: Any
    right: Any
    lefts: FloatArray
    rights: FloatArray

    @classmethod
    def of(cls, scorer: NearScorer) -> FarClasses:
        """Group the nodes by the closed form of a scorer."""
        nobody = np.empty(0, dtype=np.int32)
        nothing = cls(nobody, nobody, np.empty(0), np.empty(0))
        if not isinstance(scorer, WalkScorer):
            return nothing
        _, _, left, right = scorer.form
        lefts, rights = np.unique(left), np.unique(right)
        if len(lefts) * len(rights) > _MOST_CLASS_PAIRS:
            return nothing
        return cls(
            np.searchsorted(lefts, left).astype(np.int32),
            np.searchsorted(rights, right).astype(np.int32),
            lefts,
            rights,
        )

    def new_counts(self) -> IntArray:
        """Return a table of zeros for the pairs of two classes."""
        return np.zeros((len(self.lefts), len(self.rights)), dtype=np.int64)


def count_near(
    scorer: NearScorer,
    rows: IntArray,
    rule: tuple[Any, ...],
    classes: FarClasses,
    table: Any,
    bins: IntArray,
    tally: Tally,
) -> int:
    """Move the near candidates of rows from their far bins to their own.

    Parameters
    ----------
    scorer : NearScorer
        What scores the rows.
    rows : (b,) int64
        Nodes; quickest in the order of :func:`~gelato.ranking.scorers.rows_by_site`.
    rule : tuple
        What :func:`gelato.ranking.counts.candidate_rule` made.
    classes : FarClasses
        Of the scorer's closed form.
    table
        What :func:`gelato.kernels.counting.threshold_table` made.
    bins : int64
        Changed in place.
    tally : tuple
        Lists of single nodes, moved likewise; :data:`NO_TALLY` for none.

    Returns
    -------
    int
        How many near candidates there are.
    """
    upper = not rule[-1]
    if isinstance(scorer, WalkScorer) and scorer.steps > 0:
        counts = classes.new_counts()
        work = near_walks.work_arrays(scorer.num_nodes)
        keys = near_walks.key_table(scorer.num_nodes)
        walk = (scorer.walk_graph, work, keys, scorer.steps, upper, rule, scorer.form)
        grouped = (classes.left, classes.right, classes.rights, counts)
        visited = near_walks.count_walks(rows, *walk, grouped, table, tally, bins)
        near_walks.take_out_classes(
            counts, scorer.far.scale, classes.lefts, classes.rights, table, bins
        )
        return int(visited)
    far, total = scorer.far, 0
    for block in row_blocks(rows, scorer.near_bounds[rows]):
        near = scorer.near_rows(block, upper=upper)
        listed = (near.indptr, near.columns, near.scores)
        form = (far.scale, far.left, far.right)
        total += counting.count_near(near.rows, listed, rule, form, table, tally, bins)
    return total


def keep_near(
    scorer: NearScorer,
    rows: IntArray,
    rule: tuple[Any, ...],
    bound: float,
    *,
    upper: bool,
) -> tuple[IntArray, FloatArray, int]:
    """Return near candidates that score at least ``bound``, of as many rows as fit.

    Returns
    -------
    pairs : (k, 2) int64
        By row, in no order within one.
    scores : (k,) float64
        Their scores.
    done : int
        How many of the rows these are; at least one.
    """
    room = scorer.near_bounds[rows]
    if isinstance(scorer, WalkScorer) and scorer.steps > 0:
        size = int(min(room.sum(), max(BLOCK_CELLS, room[0])))
        pairs, scores = np.empty((2, size), dtype=np.int64), np.empty(size)
        work = near_walks.work_arrays(scorer.num_nodes)
        keys = near_walks.key_table(scorer.num_nodes)
        walk = (scorer.walk_graph, work, keys, scorer.steps, upper, rule, scorer.form)
        out = (pairs[0], pairs[1], scores)
        done, kept = near_walks.keep_walks(rows, *walk, float(bound), room, *out)
    else:
        block = next(row_blocks(rows, room))
        done, near = len(block), scorer.near_rows(block, upper=upper)
        size = len(near.scores)
        pairs, scores = np.empty((2, size), dtype=np.int64), np.empty(size)
        listed = (near.indptr, near.columns, near.scores)
        out = (pairs[0], pairs[1], scores)
        kept = counting.keep_near(block, listed, rule, float(bound), out)
    # Copied: what is kept is usually little of what there was room for.
    return pairs[:, :kept].T.copy(), scores[:kept].copy(), int(done)


def pick_near(scorer: NearScorer, pairs: IntArray, *, upper: bool) -> FloatArray:
    """Return the scores of pairs that are sorted by row.

    Parameters
    ----------
    scorer : NearScorer
        What scores them.
    pairs : (p, 2) int64
        Sorted by row.
    upper : bool
        Whether every column is above its row.
    """
    scores = scorer.far.at(pairs[:, 0], pairs[:, 1])
    if isinstance(scorer, WalkScorer):
        if scorer.steps > 0:
            work = near_walks.work_arrays(scorer.num_nodes)
            walk = (scorer.walk_graph, work, scorer.walk_back, scorer.steps)
            sites = scorer.site_of[pairs].astype(np.int64)
            near_walks.pick_walks(sites, *walk, scorer.form, scores)
        return scores
    rows = np.unique(pairs[:, 0])
    for block in row_blocks(rows, scorer.near_bounds[rows]):
        start, stop = np.searchsorted(pairs[:, 0], [block[0], block[-1] + 1])
        within = np.searchsorted(block, pairs[start:stop, 0])
        near = scorer.near_rows(block, upper=upper)
        listed = (near.indptr, near.columns, near.scores)
        columns = pairs[start:stop, 1]
        walks.pick_near(*listed, within, columns, scores[start:stop])
    return scores
