"""For every node the best scores it has with others, by a few plain scores.

One pass over blocks of rows gives the lists (read by the features of mutual rank)
and the candidates: pairs that are among the best overall, or of one of their nodes,
by any of the scores. Known edges and a node's pair with itself take no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, IntArray
from gelato.kernels import pair_walks, row_lists
from gelato.kernels.chunks import run_chunks
from gelato.stacking.pair_measures import Measures, Table

GRID = np.array(
    [*range(1, 17), 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256],
    dtype=np.float32,
)
"""Ranks whose scores are kept."""

OVERALL = 4
"""Pairs kept overall by each score, per known edge."""
PER_NODE = 10
"""Pairs kept of every node by each score."""

_BLOCK_CELLS = 500_000
_SAMPLED_ROWS = 512


@dataclass(frozen=True, eq=False)
class Lists:
    """The best scores of every node.

    Parameters
    ----------
    names : tuple of str
        The scores.
    best : (scores, n, grid) float32
        Scores at the ranks of :data:`GRID`, descending; -inf where a list is shorter.
    """

    names: tuple[str, ...]
    best: Table

    def ranks(self, name: str, pairs: IntArray, scores: Table) -> Table:
        """Return rank and share of the best score, as (p, 2 nodes, 2)."""
        lists = self.best[self.names.index(name)]
        out = np.empty((2, len(pairs), 2), dtype=np.float32)
        for side in (0, 1):
            nodes = np.ascontiguousarray(pairs[:, side])
            row_lists.levels(nodes, scores, lists, GRID, out[side])
        return out.transpose(1, 0, 2)


def list_names(measures: Measures) -> tuple[str, ...]:
    """Return the scores that lists are made by."""
    own = ("ra", "ac", "ease")
    return own if measures.attributes is None else (*own, "cos", "mix")


def score_block(measures: Measures, rows: IntArray) -> Table:
    """Return all list scores of whole rows, as (scores, rows, n); known pairs -inf."""
    names = list_names(measures)
    out = np.empty((len(names), len(rows), measures.num_nodes), dtype=np.float32)
    graph = measures.graph
    pattern = measures.pattern
    pair_walks.walk_rows(rows, pattern, graph.adjacency.data, graph.degrees, out[:2])
    out[2] = measures.ridge_rows(rows)
    if measures.attributes is not None:
        own, mixed = measures.attributes.factors, measures.mixed_factors
        np.matmul(own[rows], own.T, out=out[3])
        np.matmul(mixed[rows], mixed.T, out=out[4])
    for scores in out:
        row_lists.hide_known(rows, pattern, scores)
    return out


def lists_and_candidates(measures: Measures) -> tuple[Lists, IntArray]:
    """Return the lists of all nodes and the candidate pairs, sorted, as (k, 2)."""
    n, names = measures.num_nodes, list_names(measures)
    best = np.full((len(names), n, len(GRID)), -np.inf, dtype=np.float32)
    _prepare(measures)
    step = max(1, _BLOCK_CELLS // max(1, n))
    starts = range(0, n, step)
    found: list[IntArray] = [np.empty(0, np.int64)] * len(starts)
    with single_blas_thread():
        floors = _everywhere(measures)

        def visit(at: int) -> None:
            rows = np.arange(starts[at], min(n, starts[at] + step))
            scores = score_block(measures, rows)
            best[:, rows] = _on_grid(scores)
            tenth = best[:, rows, PER_NODE - 1]
            found[at] = _kept(rows, scores, tenth, floors)

        run_chunks(visit, len(starts))
    keys = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
    return Lists(names, best), np.stack([keys // n, keys % n], axis=1)


def _prepare(measures: Measures) -> None:
    """Compute what rows share before threads ask for it."""
    _ = measures.pattern, measures.graph.degrees
    measures.ridge_rows(np.zeros(1, dtype=np.int64))
    if measures.attributes is not None:
        _ = measures.mixed_factors


def _everywhere(measures: Measures) -> FloatArray:
    """Return, per score, the bound that about OVERALL pairs per edge exceed.

    Estimated from evenly spaced rows, always the same ones.
    """
    n = measures.num_nodes
    rows = np.unique(np.linspace(0, n - 1, min(n, _SAMPLED_ROWS)).astype(np.int64))
    step = max(1, _BLOCK_CELLS // max(1, n))
    blocks = [
        score_block(measures, rows[at : at + step]) for at in range(0, len(rows), step)
    ]
    pairs = max(1, measures.graph.num_pairs)
    share = min(1.0, OVERALL * measures.graph.num_edges / pairs)
    wanted = min(max(1, round(share * len(rows) * n)), len(rows) * n)
    bounds = []
    for score in range(len(blocks[0])):
        values = np.concatenate([block[score].ravel() for block in blocks])
        bounds.append(last_of_best(values, wanted))
    return np.array(bounds)


def last_of_best(values: Table, count: int) -> np.float32:
    """Return the smallest of the ``count`` largest values."""
    best = np.empty((1, count), dtype=np.float32)
    row_lists.best_of_rows(values.reshape(1, -1), best)
    smallest: np.float32 = best.min()
    return smallest


def _on_grid(scores: Table) -> Table:
    """Return the scores at the ranks of the grid, per score and row."""
    most = min(int(GRID[-1]), scores.shape[2])
    top = np.empty((*scores.shape[:2], most), dtype=np.float32)
    for rows, best in zip(scores, top, strict=True):
        row_lists.best_of_rows(rows, best)
    top.sort(axis=2)
    places = GRID[most >= GRID].astype(np.int64)
    out = np.full((*scores.shape[:2], len(GRID)), -np.inf, dtype=np.float32)
    out[:, :, : len(places)] = top[:, :, most - places]
    return out


def _kept(rows: IntArray, scores: Table, tenth: Table, bounds: FloatArray) -> IntArray:
    """Return the keys of pairs of a block that are worth scoring."""
    keys: list[Any] = []
    for score, tens, bound in zip(scores, tenth, bounds, strict=True):
        room = int(np.count_nonzero(score > min(bound, tens.min()))) + PER_NODE * len(
            rows
        )
        out = np.empty(room + len(rows) * PER_NODE, dtype=np.int64)
        # Scores of 0 and less say that nothing joins a pair.
        limits = (np.float32(0.0), np.float32(bound))
        tens = np.ascontiguousarray(tens)
        count = row_lists.worthwhile(rows, score, tens, PER_NODE, limits, out)
        keys.append(np.unique(out[:count]))
    return np.unique(np.concatenate(keys))
