"""The best far pairs, listed by their closed form and only as many as are needed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from gelato.graph import FloatArray, IntArray
from gelato.ranking.candidates import AllPairs
from gelato.ranking.scorers import ClosedForm


class FarPartners:
    """The best far candidates of single nodes, without a look at all others.

    Nodes of equal value form classes, sorted once; a node's far partners are read
    from the best class on, past those that are near or known.

    Parameters
    ----------
    far : ClosedForm
        Scores of far pairs.
    candidates : AllPairs
        What may be chosen.
    """

    def __init__(self, far: ClosedForm, candidates: AllPairs) -> None:
        self._far, self._candidates = far, candidates
        self._classes: dict[tuple[bool, bool], tuple[FloatArray, list[IntArray]]] = {}

    def best(
        self, node: int, near: IntArray, k: int, floor: float
    ) -> tuple[IntArray, FloatArray]:
        """Return up to k pairs (node, other) that are far, best first, with scores.

        Parameters
        ----------
        node : int
            Whose partners.
        near : int64
            All its near candidates.
        k : int
            How many are wanted.
        floor : float
            Scores below it are left out.
        """
        known = self._candidates.excluded_rows
        edges = known.indices[known.indptr[node] : known.indptr[node + 1]]
        hidden = {*near.tolist(), *edges.tolist(), node}
        chosen: list[int] = []
        scores: list[float] = []
        for score, others in self._groups(node):
            if score < floor or len(chosen) == k:
                break
            for v in others:
                if v not in hidden:
                    chosen.append(v)
                    scores.append(score)
                    if len(chosen) == k:
                        break
        pairs = np.array([(node, v) for v in chosen], dtype=np.int64).reshape(-1, 2)
        return pairs, np.array(scores)

    def _groups(self, node: int) -> Iterator[tuple[float, Iterator[int]]]:
        """Yield (score, partners in order) by falling score."""
        values, members = self._partners(node)
        scores = self._far.scale * (self._far.left[node] * values)
        for score, group in groupby(range(len(values)), key=scores.__getitem__):
            # Different values may give one score: their nodes are merged, lazily.
            lists = [map(int, members[at]) for at in group]
            yield float(score), heapq.merge(*lists)

    def _partners(self, node: int) -> tuple[FloatArray, list[IntArray]]:
        left, right = self._candidates.masks
        sides = (bool(left[node]), bool(right[node]))
        if sides not in self._classes:
            mask = right & sides[0]
            if not self._candidates.directed:
                mask = mask | (left & sides[1])
            self._classes[sides] = _classes(self._far.right, mask, self._far)
        return self._classes[sides]


def best_far_pairs(
    scorer: Any, candidates: AllPairs, near_scores: FloatArray, k: int
) -> tuple[IntArray, FloatArray]:
    """Return the far candidates, with scores, that may belong among the k best.

    Far pairs come in groups of equal score, best first; within the last group the
    smallest pairs win, so groups are walked in the order of the pairs.

    Parameters
    ----------
    scorer : NearScorer
        What scores pairs.
    candidates : AllPairs
        What may be chosen.
    near_scores : (j,) float64
        Scores of the best near candidates, descending, at most k.
    k : int
        How many pairs are wanted, near ones included.
    """
    wanted, found = k, 0
    floor = near_scores[-1] if len(near_scores) == k else -np.inf
    pairs: list[tuple[int, int]] = []
    scores: list[float] = []
    near = _NearTest(scorer, candidates)
    for score, members in _far_groups(scorer.far, candidates):
        if found >= wanted or score < floor:
            break
        better = int(np.count_nonzero(near_scores > score))
        room = wanted - better - found
        if room <= 0:
            break
        for pair in members:
            if near.is_far_candidate(*pair):
                pairs.append(pair)
                scores.append(score)
                found += 1
                room -= 1
                if room == 0:
                    break
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(scores)


class _NearTest:
    """Tells far candidates from near and known pairs, one row at a time."""

    def __init__(self, scorer: Any, candidates: AllPairs) -> None:
        self._scorer, self._candidates = scorer, candidates
        self._known = candidates.excluded_rows
        self._row = -1
        self._hidden: set[int] = set()

    def is_far_candidate(self, u: int, v: int) -> bool:
        """Whether (u, v) is a candidate that no walk joins."""
        if u != self._row:
            self._row = u
            row = np.array([u], dtype=np.int64)
            near = self._scorer.near_rows(row, upper=False).columns
            known = self._known
            edges = known.indices[known.indptr[u] : known.indptr[u + 1]]
            self._hidden = {*near.tolist(), *edges.tolist(), u}
        if v in self._hidden:
            return False
        return bool(self._candidates.admits(np.array([[u, v]]))[0])


def _far_groups(
    far: ClosedForm, candidates: AllPairs
) -> Iterator[tuple[float, Iterator[tuple[int, int]]]]:
    """Yield (score, pairs in order) by falling closed-form score.

    Nodes of equal value form classes; a heap walks the products of two classes.
    """
    lefts, rows = _classes(far.left, candidates.masks[0] | _either(candidates, 1), far)
    rights, columns = _classes(
        far.right, candidates.masks[1] | _either(candidates, 0), far
    )
    if not len(lefts) or not len(rights):
        return
    heap = [(-far.scale * (lefts[0] * rights[0]), 0, 0)]
    seen = {(0, 0)}
    while heap:
        group = []
        top = heap[0][0]
        while heap and heap[0][0] == top:
            _, i, j = heapq.heappop(heap)
            group.append((i, j))
            for a, b in ((i + 1, j), (i, j + 1)):
                if a < len(lefts) and b < len(rights) and (a, b) not in seen:
                    seen.add((a, b))
                    heapq.heappush(heap, (-far.scale * (lefts[a] * rights[b]), a, b))
        yield -top, _group_pairs(group, rows, columns, candidates.directed)


def _either(candidates: AllPairs, side: int) -> Any:
    """Return the other node set where pairs have no order, else nothing."""
    mask = candidates.masks[side]
    return np.zeros_like(mask) if candidates.directed else mask


def _classes(
    values: FloatArray, mask: Any, far: ClosedForm
) -> tuple[FloatArray, list[IntArray]]:
    """Group nodes by value, in the order in which closed-form scores fall."""
    nodes = np.flatnonzero(mask)
    distinct, inverse = np.unique(values[nodes], return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse, minlength=len(distinct)))[:-1]
    groups = np.split(nodes[order], ends)
    if far.scale >= 0:
        return distinct[::-1], groups[::-1]
    return distinct, groups


def _group_pairs(
    group: list[tuple[int, int]],
    rows: list[IntArray],
    columns: list[IntArray],
    directed: bool,
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a group of class products in ascending order."""
    partners: dict[int, list[int]] = {}
    for i, j in group:
        partners.setdefault(i, []).append(j)
    nodes = np.sort(np.concatenate([rows[i] for i in partners]))
    class_of = {int(node): i for i in partners for node in rows[i]}
    merged = {
        i: np.sort(np.concatenate([columns[j] for j in js]))
        for i, js in partners.items()
    }
    for u in nodes.tolist():
        others = merged[class_of[u]]
        start = 0 if directed else int(np.searchsorted(others, u, side="right"))
        for v in others[start:].tolist():
            if v != u:
                yield u, v
