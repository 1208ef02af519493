"""Lists and candidates of large graphs: near pairs only, nothing n x n.

Walks and the ridge walk are followed from every node as far as they reach; nodes
with very many neighbours are not walked through. Attributes are compared inside cells
of nodes that are alike, approximately: a cell is compared with itself and the cells
next to it, some thousand nodes in all. Cost follows the near pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gelato.engines import single_blas_thread
from gelato.graph import IntArray
from gelato.kernels import row_lists
from gelato.kernels.chunks import balanced_chunks, run_chunks
from gelato.stacking.lists import GRID, Lists, list_names
from gelato.stacking.node_attributes import Factors, unit_factors
from gelato.stacking.pair_measures import Measures, Table

OVERALL = 2
"""Pairs kept overall by each score, per known edge."""
PER_NODE = 5
"""Pairs kept of every node by each score."""

_CHUNKS = 128
_SAMPLED_ROWS = 2_048
_COMPARED = 4_096  # nodes that a node's attributes are compared with
_PER_CENTRE = 16  # sampled nodes per cell that centres are found from
_ROUNDS = 4
_BLOCK = 1_024


def near_lists_and_candidates(measures: Measures) -> tuple[Lists, IntArray]:
    """Return the lists of all nodes and the candidate pairs, sorted, as (k, 2)."""
    n, names = measures.num_nodes, list_names(measures)
    best = np.full((len(names), n, len(GRID)), -np.inf, dtype=np.float32)
    found = [_walk_lists(measures, best[:3])]
    if measures.attributes is not None:
        for at, factors in (
            (3, measures.attributes.factors),
            (4, measures.mixed_factors),
        ):
            found.append(_attribute_lists(measures, factors, best[at]))
    keys = np.unique(np.concatenate(found))
    return Lists(names, best), np.stack(np.divmod(keys, n), axis=1)


def _walk_lists(measures: Measures, best: Table) -> IntArray:
    """Fill the lists by walks; return the keys of candidates."""
    n = measures.num_nodes
    graph, sparse, diagonal = measures.sparse_ridge
    degrees = measures.graph.degrees
    reach = (measures.hub, float(degrees.sum()))
    walks = (graph, degrees, reach, sparse, -1.0 / diagonal)
    rows = _sampled(n)
    room = row_lists.near_room(n)
    drawn = [row_lists.near_row(u, *walks, room) for u in rows]
    bounds = np.array(
        [_bound(measures, [row[at][1] for row in drawn], len(rows)) for at in range(3)]
    )
    del drawn
    cost = measures.graph.adjacency @ (
        measures.graph.adjacency @ np.minimum(measures.counts, measures.hub)
    )
    cuts = balanced_chunks(1.0 + cost, _CHUNKS)
    keys: list[Any] = [None] * _CHUNKS

    def visit(chunk: int) -> None:
        mine = np.arange(cuts[chunk], cuts[chunk + 1])
        if not len(mine):
            keys[chunk] = np.empty(0, np.int64)
            return
        out = best[:, mine[0] : mine[-1] + 1]
        keys[chunk] = _filled(
            lambda room: row_lists.near_lists(
                mine, walks, (GRID, PER_NODE), bounds, out, room
            ),
            len(mine),
        )

    run_chunks(visit, _CHUNKS)
    return np.unique(np.concatenate(keys))


def _attribute_lists(measures: Measures, factors: Factors, best: Table) -> IntArray:
    """Fill the lists by the likeness of factors; return the keys of candidates."""
    with single_blas_thread():
        cells = Cells.of(factors)
        rows = _sampled(len(cells.order))
        drawn = []
        for at in rows:
            columns = cells.compared(int(cells.cell_of[at]))
            drawn.append(factors[columns] @ factors[cells.order[at]])
        share = len(rows) * measures.num_nodes / max(1, len(cells.order))
        bound = _bound(measures, drawn, share)
        keys: list[Any] = [None] * len(cells)
        limits = (GRID, PER_NODE, bound)

        def visit(cell: int) -> None:
            mine, columns = cells.members(cell), cells.compared(cell)
            kept = [np.empty(0, np.int64)]
            for start in range(0, len(mine), _BLOCK):
                some = mine[start : start + _BLOCK]
                block = some, columns
                scores = factors[some] @ factors[columns].T
                out = np.empty((len(some), len(GRID)), dtype=np.float32)
                kept.append(_cell_keys(block, scores, measures.pattern, limits, out))
                best[some] = out
            keys[cell] = np.unique(np.concatenate(kept))

        run_chunks(visit, len(cells))
    return np.unique(np.concatenate([np.empty(0, np.int64), *keys]))


def _cell_keys(
    block: Any, scores: Table, pattern: Any, limits: Any, out: Table
) -> IntArray:
    def fill(room: IntArray) -> int:
        return int(row_lists.block_lists(block, scores, pattern, limits, out, room))

    return _filled(fill, len(out))


def _filled(fill: Callable[[IntArray], int], rows: int) -> IntArray:
    """Call with room for keys, again with more where it was too little."""
    room = 16 * PER_NODE * rows + 1_000
    while True:
        out = np.empty(room, dtype=np.int64)
        count = fill(out)
        if count <= room:
            return np.unique(out[:count])
        room = count


def _sampled(n: int) -> IntArray:
    """Return evenly spaced rows, always the same ones."""
    return np.unique(np.linspace(0, n - 1, min(n, _SAMPLED_ROWS)).astype(np.int64))


def _bound(measures: Measures, drawn: list[Any], rows: float) -> float:
    """Return the score that about OVERALL pairs per edge exceed, from some rows."""
    values = np.concatenate([np.empty(0, np.float32), *drawn])
    each = 2 * OVERALL * measures.graph.num_edges / max(1, measures.num_nodes)
    wanted = max(1, round(each * rows))
    if len(values) <= wanted:
        return 0.0
    return float(np.partition(values, len(values) - wanted)[-wanted])


@dataclass(frozen=True, eq=False)
class Cells:
    """Nodes in cells of like factors (k-means on a sample, on the sphere).

    Parameters
    ----------
    order : (k,) int64
        Nodes with factors, cell by cell.
    cell_of : (k,) int64
        Their cells, ascending.
    starts : (cells + 1,) int64
        Where cells begin.
    near : (cells, c) int64
        Cells that each is compared with, itself among them.
    """

    order: IntArray
    cell_of: IntArray
    starts: IntArray
    near: IntArray

    def __len__(self) -> int:
        return len(self.near)

    @classmethod
    def of(cls, factors: Factors) -> Cells:
        """Deal the nodes whose factors are not all 0 into cells."""
        nodes = np.flatnonzero(np.abs(factors).max(axis=1, initial=0.0) > 0)
        count = int(np.sqrt(len(nodes)))
        if count == 0:
            nothing = np.empty(0, dtype=np.int64)
            return cls(nothing, nothing, np.zeros(1, np.int64), np.empty((0, 1), int))
        centres = _centres(factors, nodes, count)
        labels = np.empty(len(nodes), dtype=np.int64)
        cuts = list(pairwise([*range(0, len(nodes), 8 * _BLOCK), len(nodes)]))

        def label(at: int) -> None:
            part = slice(*cuts[at])
            labels[part] = (factors[nodes[part]] @ centres.T).argmax(axis=1)

        run_chunks(label, len(cuts))
        order = np.argsort(labels, kind="stable")
        starts = np.searchsorted(labels[order], np.arange(count + 1))
        wanted = min(count, max(2, _COMPARED * count // len(nodes)))
        likeness = centres @ centres.T
        np.fill_diagonal(likeness, np.inf)
        near = np.argsort(-likeness, axis=1, kind="stable")[:, :wanted]
        return cls(nodes[order], labels[order], starts, near)

    def members(self, cell: int) -> IntArray:
        """Return the nodes of a cell."""
        return self.order[self.starts[cell] : self.starts[cell + 1]]

    def compared(self, cell: int) -> IntArray:
        """Return the nodes that those of a cell are compared with."""
        nodes = np.concatenate([self.members(other) for other in self.near[cell]])
        # Many nodes may be the same: some of them then stand for all.
        return nodes[:: max(1, len(nodes) // (2 * _COMPARED) + 1)]


def _centres(factors: Factors, nodes: IntArray, count: int) -> Factors:
    """Return the centres of cells, from evenly spaced nodes."""
    size = min(len(nodes), _PER_CENTRE * count)
    sample = factors[nodes[np.linspace(0, len(nodes) - 1, size).astype(np.int64)]]
    centres = sample[np.linspace(0, size - 1, count).astype(np.int64)]
    for _ in range(_ROUNDS):
        labels = (sample @ centres.T).argmax(axis=1)
        order = np.argsort(labels, kind="stable")
        held, starts = np.unique(labels[order], return_index=True)
        centres = centres.copy()
        centres[held] = unit_factors(np.add.reduceat(sample[order], starts, axis=0))
    return centres
