"""Anything that can score rows of pairs, behind one small interface.

A scorer answers "give me the scores of these rows", either as dense rows or as
the columns that have a score of their own plus a closed form for all the rest,
so that the cost follows the graph and not n^2.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.graph import FloatArray, IntArray
from gelato.kernels import near_walks as walks

# A block's scores stay within a few tens of megabytes.
BLOCK_CELLS = 2_000_000
_BLOCK_ROWS = 512
# Enough spans to keep workers evenly busy, few enough to send and merge at no cost.
_SPANS = 256
# Rows of a function that are looked at before all others, and what is mere rounding.
_TRIED_ROWS, _ROUNDING = 8, 1e-5
# Up to so many nodes, the arrays of a walk fit into the cache wherever nodes are.
_CACHED_NODES = 1 << 15


@dataclass(frozen=True)
class ClosedForm:
    """The score of a pair that no walk joins: ``scale * (left[u] * right[v])``.

    ``left`` and ``right`` are non-negative, one value per node.
    """

    scale: float
    left: FloatArray
    right: FloatArray

    @classmethod
    def zero(cls, num_nodes: int) -> ClosedForm:
        """Return the closed form that is 0 everywhere."""
        nothing = np.zeros(num_nodes)
        return cls(0.0, nothing, nothing)

    def at(self, u: Any, v: Any) -> FloatArray:
        """Return the closed-form score of pairs."""
        product: FloatArray = self.scale * (self.left[u] * self.right[v])
        return product

    @property
    def upper_bound(self) -> float:
        """A value that no closed-form score exceeds."""
        if self.scale <= 0 or not len(self.left):
            return 0.0
        return self.scale * float(self.left.max() * self.right.max())


@dataclass(frozen=True)
class NearBlock:
    """Scores of the near columns of rows, as CSR (columns in no order)."""

    rows: IntArray
    indptr: IntArray
    columns: Any
    scores: FloatArray

    def spread(self, scores: FloatArray) -> FloatArray:
        """Write the near scores into whole rows, and return these."""
        at = np.repeat(np.arange(len(self.rows)), np.diff(self.indptr))
        scores[at, self.columns] = self.scores
        return scores


@runtime_checkable
class RowScorer(Protocol):
    """Scores rows of pairs. ``gelato.evaluate`` and ``predict`` take any of these."""

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        ...


@runtime_checkable
class Scoring(Protocol):
    """Something that makes a scorer from known edges, as models do."""

    def scorer(self, graph: Any) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        ...


@runtime_checkable
class Noted(Protocol):
    """A scorer that people should know something about."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences, as in the notes of a model."""
        ...


@runtime_checkable
class HalfScorer(Protocol):
    """A symmetric row scorer that need not compute what is never looked at.

    Both methods must give the same bits as ``score_rows``.
    """

    def score_rows_above(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``, 0 where column <= row."""
        ...

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        ...


@runtime_checkable
class ListsNear(Protocol):
    """What tells a :class:`NearScorer` from others."""

    def near_rows(self, rows: IntArray, *, upper: bool) -> NearBlock:
        """Return the near columns of rows (only columns above the row if ``upper``)."""
        ...


class NearScorer(ListsNear, Protocol):
    """A row scorer that lists near pairs and has a closed form for far ones."""

    num_nodes: int
    far: ClosedForm

    @property
    def near_bounds(self) -> IntArray:
        """A bound on the number of near columns of every row."""
        ...

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        ...


def has_near_pairs(scorer: RowScorer) -> bool:
    """Whether a scorer can tell near pairs from far ones."""
    return isinstance(scorer, ListsNear)


@dataclass(frozen=True, eq=False)
class WalkScorer:
    """``multiplier * A (F A)^(steps-1)`` at near pairs, plus a closed form.

    Parameters
    ----------
    adjacency : CSR float64
        A, with sorted indices and positive values (loops allowed).
    factor : (n,) float64
        Diagonal of F.
    steps : int
        Edges per walk; 0 means that no pair is near.
    multiplier : float
        Factor on the weight of the walks.
    far : ClosedForm
        Added to near pairs too, and the whole score of far ones.
    """

    adjacency: sp.csr_array
    factor: FloatArray
    steps: int
    multiplier: float
    far: ClosedForm

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[0])

    @cached_property
    def near_bounds(self) -> IntArray:
        """A bound on the number of near columns of every row."""
        if self.steps == 0:
            return np.zeros(self.num_nodes, dtype=np.int64)
        bounds: IntArray = walks.reach_bounds(
            self.adjacency.indptr, self.adjacency.indices, self.steps
        )
        return bounds

    @cached_property
    def node_at(self) -> Any:
        """The node at every site of memory; what is reached together lies together."""
        if self.num_nodes <= _CACHED_NODES:
            return np.arange(self.num_nodes, dtype=np.int32)
        return walks.nearby_nodes(self.adjacency.indptr, self.adjacency.indices)

    @cached_property
    def site_of(self) -> Any:
        """The site of every node."""
        sites = np.empty(self.num_nodes, dtype=np.int32)
        sites[self.node_at] = np.arange(self.num_nodes, dtype=np.int32)
        return sites

    @cached_property
    def walk_graph(self) -> tuple[Any, ...]:
        """The graph as :func:`gelato.kernels.near_walks.walk_from` takes it."""
        return (*self._sited(self.adjacency), self.site_of, self.node_at)

    @cached_property
    def walk_back(self) -> tuple[Any, ...]:
        """The graph with all edges turned round."""
        turned = sp.csr_array(self.adjacency.T)
        turned.sort_indices()
        same = _same(turned, self.adjacency)
        return self.walk_graph[:3] if same else self._sited(turned)

    def _sited(self, matrix: sp.csr_array) -> tuple[Any, ...]:
        """Return a matrix with one row per site: heads, ends, data.

        Rows keep their order within: a walk is summed in the order of nodes.
        """
        moved = matrix
        if self.num_nodes > _CACHED_NODES:
            moved = matrix[self.node_at]
        heads = np.zeros(self.num_nodes + 1, dtype=walks.HEAD)
        heads["start"] = moved.indptr
        heads["factor"][:-1] = self.factor[self.node_at]
        # Narrow and side by side: a pass reads them as often as anything else.
        ends = np.empty((len(moved.indices), 2), dtype=np.int32)
        ends[:, 0], ends[:, 1] = self.site_of[moved.indices], moved.indices
        data = moved.data
        equal = len(data) > 0 and data.min() == data.max()
        return heads, ends, data[:1].copy() if equal else data

    @cached_property
    def form(self) -> tuple[float, float, FloatArray, FloatArray]:
        """What turns the weight of walks into a score, by site."""
        left, right = self.far.left[self.node_at], self.far.right[self.node_at]
        return (self.multiplier, self.far.scale, left, right)

    def near_rows(self, rows: IntArray, *, upper: bool) -> NearBlock:
        """Return the near columns of rows and their scores."""
        if self.steps == 0:
            nothing = np.zeros(len(rows) + 1, dtype=np.int64)
            return NearBlock(rows, nothing, np.empty(0, np.int32), np.empty(0))
        capacity = int(self.near_bounds[rows].sum())
        indptr = np.empty(len(rows) + 1, dtype=np.int64)
        columns = np.empty(capacity, dtype=np.int32)
        scores = np.empty(capacity)
        out, sites = (indptr, columns, scores), self.site_of[rows].astype(np.int64)
        room = walks.work_arrays(self.num_nodes)
        walks.near_rows(sites, self.walk_graph, room, self.steps, upper, *out)
        columns, scores = columns[: indptr[-1]], scores[: indptr[-1]]
        walks.finish_scores(sites, indptr, columns, scores, *self.form)
        return NearBlock(rows, indptr, self.node_at[columns], scores)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        rows = np.asarray(rows, dtype=np.int64)
        block = self.near_rows(rows, upper=False)
        scores = self.far.at(rows[:, None], np.arange(self.num_nodes)[None, :])
        return block.spread(scores)


def round_scores(scores: FloatArray) -> FloatArray:
    """Round scores in place as those of walks are, so that what is equal ties."""
    bits = scores.view(np.int64)
    bits[:] = (bits + walks.HALF) & walks.KEPT
    return scores


def _same(first: sp.csr_array, second: sp.csr_array) -> bool:
    return all(
        np.array_equal(getattr(first, part), getattr(second, part))
        for part in ("indptr", "indices", "data")
    )


def rows_by_site(scorer: Any, rows: IntArray) -> IntArray:
    """Return rows in the order in which a pass over them is quickest."""
    if not isinstance(scorer, WalkScorer) or scorer.num_nodes <= _CACHED_NODES:
        return rows
    wanted = np.zeros(scorer.num_nodes, dtype=bool)
    wanted[rows] = True
    ordered: IntArray = scorer.node_at[wanted[scorer.node_at]].astype(np.int64)
    return ordered


@runtime_checkable
class SumsWalks(Protocol):
    """A scorer whose scores are, for the most part, sums of walks."""

    def walk_parts(self, u: int, v: int) -> list[tuple[str, float, WalkScorer]]:
        """Return names, coefficients and walks that explain the score of a pair."""
        ...


@dataclass(frozen=True, eq=False)
class SumScorer:
    """A weighted sum of named scorers, less a constant."""

    names: tuple[str, ...]
    coefficients: tuple[float, ...]
    scorers: tuple[RowScorer, ...]
    constant: float

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        total: Any = -self.constant
        for coefficient, scorer in zip(self.coefficients, self.scorers, strict=True):
            total = total + coefficient * scorer.score_rows(rows)
        return np.asarray(total, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class MatrixScorer:
    """Scores read from a matrix that the user brings (dense or sparse)."""

    matrix: Any

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.matrix.shape[0])

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        part = self.matrix[rows]
        dense = part.toarray() if sp.issparse(part) else part
        return np.asarray(dense, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CallableScorer:
    """Scores computed by the user's function ``rows -> (len(rows), n)``.

    ``rows`` is an int64 array of node indices (places in ``graph.node_ids``); the
    result holds a score of each of them with every node.
    """

    function: Callable[[IntArray], Any]

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        return np.asarray(self.function(rows), dtype=np.float64)


def as_scorer(source: Any, graph: Any) -> RowScorer:
    """Return the scorer behind a model, a scorer, a callable or a score matrix.

    Parameters
    ----------
    source : object
        Something with ``scorer(graph)`` (a model), with ``score_rows(rows)``, a
        callable on rows, or an n x n matrix.
    graph : Graph
        The known edges that a model may use.
    """
    if isinstance(source, Scoring):
        made = source.scorer(graph)
        if not isinstance(made, RowScorer):
            raise UsageError(
                f"scorer(graph) of {type(source).__name__} returned a "
                f"{type(made).__name__}, which cannot score rows.",
                hint="Return an object with score_rows(rows) -> (len(rows), n).",
            )
        return made
    if isinstance(source, RowScorer):
        return source
    n = graph.num_nodes
    if callable(source):
        scorer = CallableScorer(source)
        _try_function(scorer, n, directed=graph.directed)
        return scorer
    matrix = source if sp.issparse(source) else np.asarray(source)
    if getattr(matrix, "ndim", 0) != 2 or matrix.shape != (n, n):
        raise UsageError(
            f"Cannot score pairs with {type(source).__name__} of shape "
            f"{getattr(matrix, 'shape', ())}; the graph has {n} nodes.",
            hint="Give a model, an object with score_rows(rows), a callable or an "
            "n x n matrix.",
        )
    made = MatrixScorer(sp.csr_array(matrix) if sp.issparse(matrix) else matrix)
    if not graph.directed:
        for rows in row_blocks(np.arange(n), np.full(n, n)):
            _refuse_one_sided(made.score_rows(rows), made.matrix[:, rows], rows)
    return made


def _try_function(scorer: CallableScorer, num_nodes: int, *, directed: bool) -> None:
    """Ask a function for a few rows, so that a wrong one fails at once and clearly."""
    rows = np.unique(np.linspace(0, num_nodes - 1, _TRIED_ROWS).astype(np.int64))
    if not num_nodes:
        return
    # The function is the user's. Called wrongly it would raise the same error as one
    # that is wrong inside, which must not be hidden.
    try:
        inspect.signature(scorer.function).bind(rows)
    except TypeError:
        name = getattr(scorer.function, "__name__", type(scorer.function).__name__)
        raise UsageError(
            f"{name} cannot be called with one argument, the rows to score.",
            hint="A function takes an array of node indices and returns an array of "
            f"shape (len(rows), {num_nodes}).",
        ) from None
    except ValueError:
        pass  # written in C, without a signature to look at
    scores = checked_rows(scorer, rows, num_nodes)
    if not directed:
        _refuse_one_sided(scores[:, rows], scores[:, rows], rows, rows)


def _refuse_one_sided(
    scores: Any, turned: Any, rows: IntArray, columns: IntArray | None = None
) -> None:
    """Raise unless the scores of pairs are those of the pairs turned round.

    ``turned[j, i]`` belongs to the pair whose score is ``scores[i, j]``; the score of
    a node with itself does not matter. Rounding is let pass.
    """
    if sp.issparse(turned):
        turned = turned.toarray()
    ours, theirs = np.asarray(scores), np.asarray(turned).T
    # Relative to the larger of the two; NaN is refused elsewhere, with its place.
    size = np.maximum(np.abs(ours), np.abs(theirs))
    with np.errstate(invalid="ignore"):
        wrong = (np.abs(ours - theirs) > _ROUNDING * size) & np.isfinite(size)
        wrong |= np.isinf(size) & (ours != theirs)
    if not wrong.any():
        return
    i, j = np.argwhere(wrong)[0]
    u, v = int(rows[i]), int(j if columns is None else columns[j])
    raise InputError(
        f"The scores are not symmetric, but the graph is undirected: the pair of the "
        f"nodes {u} and {v} scores {ours[i, j]:g} one way and {theirs[i, j]:g} the "
        "other.",
        hint="Decide what the pair scores, for example by scores + scores.T; or read "
        "the graph as directed.",
    )


def checked_rows(
    scorer: RowScorer, rows: IntArray, num_nodes: int, *, upper: bool = False
) -> FloatArray:
    """Score rows densely and refuse a wrong shape or a NaN, naming the place.

    If ``upper``, only columns above the row will be looked at.
    """
    score = scorer.score_rows
    if upper and isinstance(scorer, HalfScorer):
        score = scorer.score_rows_above
    scores = np.ascontiguousarray(score(rows), dtype=np.float64)
    if scores.shape != (len(rows), num_nodes):
        raise InputError(
            f"score_rows returned shape {scores.shape} for {len(rows)} rows; expected "
            f"{(len(rows), num_nodes)}.",
            hint="Return one score for every node, for every row asked for.",
        )
    if np.isnan(scores).any():
        i, v = np.argwhere(np.isnan(scores))[0]
        raise InputError(
            f"The score of the pair ({rows[i]}, {v}) is not a number.",
            hint="Every pair needs a score that can be compared.",
        )
    return scores


def row_blocks(
    rows: IntArray,
    cost: IntArray,
    *,
    max_cells: int = BLOCK_CELLS,
    max_rows: int = _BLOCK_ROWS,
) -> Iterator[IntArray]:
    """Cut rows into consecutive blocks of bounded size.

    The cut depends on the rows and their cost alone, never on the threads.
    """
    start, before = 0, np.concatenate([[0], np.cumsum(cost[: len(rows)])])
    while start < len(rows):
        fits = int(np.searchsorted(before, before[start] + max_cells, side="right"))
        end = min(max(fits - 1, start + 1), start + max_rows)
        yield rows[start:end]
        start = end


def row_spans(
    rows: IntArray, cost: IntArray, *, pieces: int | None = None
) -> Iterator[IntArray]:
    """Cut rows into some hundred spans at most, each of them one or more blocks.

    A span is what a worker takes at a time: what it returns, and what it is told,
    then does not grow with the number of blocks. With ``pieces`` there are about so
    many spans however little they cost.
    """
    count = _SPANS if pieces is None else pieces
    least = (BLOCK_CELLS, _BLOCK_ROWS) if pieces is None else (1, 1)
    return row_blocks(
        rows,
        cost,
        max_cells=max(least[0], int(cost.sum()) // count),
        max_rows=max(least[1], len(rows) // count),
    )


def row_costs(scorer: Any, rows: IntArray, num_nodes: int) -> IntArray:
    """Return a bound on the scores that each row has of its own."""
    if has_near_pairs(scorer):
        bounds: IntArray = scorer.near_bounds[rows]
        return bounds
    return np.full(len(rows), num_nodes)
