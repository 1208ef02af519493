"""The best candidates with at most so many links per node, exactly.

Taken greedily in rank order: a pair enters unless one of its nodes is full. A full
node never has room again, so after every batch of best candidates the full nodes leave
the rule, and what remains goes on exactly where the batch ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gelato.errors import UsageError
from gelato.graph import IntArray, pair_keys
from gelato.ranking.best import ScoredPairs, best_candidates
from gelato.ranking.candidates import AllPairs, Candidates, ListedPairs
from gelato.ranking.scorers import RowScorer

_FIRST_BATCH = 1_000
_LARGEST_BATCH = 1 << 22


def best_capped(
    scorer: RowScorer, candidates: Candidates, k: int, limit: int, **run: Any
) -> ScoredPairs:
    """Return the k best candidates that give no node more than ``limit`` links.

    Parameters
    ----------
    scorer : RowScorer
        What scores pairs.
    candidates : Candidates
        What may be chosen.
    k : int
        How many pairs are wanted; fewer come back where nodes are full.
    limit : int
        Most pairs of any node, as either end.
    **run
        ``threads`` and ``progress`` of
        :func:`~gelato.ranking.best.best_candidates`.
    """
    if limit < 1:
        raise UsageError(f"The most links per node is {limit}; allow at least 1.")
    if k < 1:
        raise UsageError(f"The number of links to predict is {k}; ask for at least 1.")
    taken = np.zeros(candidates.num_nodes, dtype=np.int64)
    chosen: list[ScoredPairs] = []
    rule, found, size = candidates, 0, max(_FIRST_BATCH, 2 * k)
    while found < k and rule.count:
        batch = best_candidates(scorer, rule, size, **run)
        kept = _with_room(batch.pairs, taken, limit, k - found)
        chosen.append(ScoredPairs(batch.pairs[kept], batch.scores[kept]))
        found += len(kept)
        if len(batch) == rule.count:
            break
        rule = _without(rule, taken >= limit, chosen[-1].pairs)
        # Batches grow, so that hubs with many candidates cost few passes.
        size = min(2 * size, _LARGEST_BATCH)
    return ScoredPairs(
        np.concatenate([np.empty((0, 2), np.int64), *(part.pairs for part in chosen)]),
        np.concatenate([np.empty(0), *(part.scores for part in chosen)]),
    )


def _with_room(pairs: IntArray, taken: IntArray, limit: int, wanted: int) -> IntArray:
    """Return which pairs enter, in order, and count them in ``taken``."""
    room = (limit - taken).tolist()
    kept = []
    for place, (u, v) in enumerate(pairs.tolist()):
        if room[u] and room[v]:
            room[u] -= 1
            room[v] -= 1
            kept.append(place)
            if len(kept) == wanted:
                break
    taken[:] = limit - np.array(room, dtype=np.int64)
    return np.array(kept, dtype=np.int64)


def _without(rule: Candidates, full: Any, chosen: IntArray) -> Candidates:
    """Return a rule without the pairs of full nodes and those chosen already."""
    n = rule.num_nodes
    keys = pair_keys(chosen, n)
    if isinstance(rule, ListedPairs):
        gone = full[rule.pairs].any(axis=1) | np.isin(pair_keys(rule.pairs, n), keys)
        return replace(rule, pairs=rule.pairs[~gone])
    known = np.concatenate([rule.excluded, chosen])
    order = np.argsort(pair_keys(known, n))
    left, right = (mask & ~full for mask in rule.masks)
    return AllPairs(n, rule.directed, known[order], left, right)
