"""Autocovariance at chosen pairs as a differentiable function of edge weights.

R = D/vol (D^-1 A)^t - d d^T/vol^2 (the paper's random-walk similarity) is evaluated
only where it is wanted, with the exact gradient, in O(n + edges) memory per thread. The
rows of a step are cut into the same chunks on threads and on the workers of an engine.
Workers return what each chunk adds, and this process sums it in the order of the
chunks: the gradient is the same to the last bit. The dense twin for small graphs and
other devices is ``gelato.nn.dense``.

Training sees scores in units of their standard deviation over all n^2 pairs. The mean
of R is exactly 0, so z = R / sigma with sigma^2 = sum R^2 / (n^2 - 1). Gradients flow
through sigma. The sum is either exact or estimated: training edges and the diagonal,
where R is large, are always summed exactly; the rest, all negatives, may be represented
by a uniform sample of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gelato.engines.engine import Engine, current_engine
from gelato.errors import InputError, UsageError
from gelato.graph import pair_keys
from gelato.kernels import walk_training as threaded
from gelato.kernels.near_pairs import near_bits
from gelato.kernels.walk_structure import PairLists, StepMatrix, WalkStructure
from gelato.kernels.walk_training import backward_rows, forward_rows

Floats = npt.NDArray[Any]
Lists = tuple[PairLists, PairLists]
Rows = tuple[int, int]
Scored = tuple[tuple[Floats, Floats], npt.NDArray[np.float64]]


def score_pairs(matrix: StepMatrix, lists: Lists, walk: Walk) -> Scored:
    """Return R at two lists of pairs, and each list's sum of squares.

    See :func:`gelato.kernels.walk_training.score_pairs`.
    """
    engine = _elsewhere()
    if engine is None:
        return threaded.score_pairs(matrix, lists, t=walk.t, near=walk.near)
    dtype = matrix.values.dtype
    out = (np.empty(len(lists[0]), dtype), np.empty(len(lists[1]), dtype))
    squares = np.zeros((2, matrix.num_nodes))
    chunks = _chunks(matrix, lists)
    shared = (matrix.arrays, walk.t, _apart(lists))
    for rows, part in zip(chunks, engine.map(_forward, shared, chunks), strict=True):
        scores, squares[:, slice(*rows)] = part
        for k, values in enumerate(scores):
            out[k][_places(lists[k], rows)] = values
    return out, squares.sum(axis=1)


def pull_gradients(
    matrix: StepMatrix,
    lists: Lists,
    scores: tuple[Floats, Floats],
    gradients: tuple[Floats, Floats],
    walk: Walk,
    *,
    at_nodes: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Return the gradient with respect to the weight of every edge.

    See :func:`gelato.kernels.walk_training.pull_gradients`.
    """
    engine, num_edges = _elsewhere(), walk.structure.num_edges
    if engine is None:
        given = (matrix, lists, scores, gradients, num_edges)
        options: dict[str, Any] = {"t": walk.t, "near": walk.near}
        return threaded.pull_gradients(*given, **options, at_nodes=at_nodes)
    chunks = _chunks(matrix, lists)
    by_slot = np.empty((len(chunks), len(matrix.values)), matrix.values.dtype)
    by_node = np.empty((len(chunks), matrix.num_nodes))
    shared = (matrix.arrays, walk.t, _apart(lists), scores, gradients)
    for k, part in enumerate(engine.map(_backward, shared, chunks)):
        by_slot[k], by_node[k] = part
    return threaded.fold_chunks(matrix, by_slot, by_node, num_edges, at_nodes)


def _elsewhere() -> Engine | None:
    """Return the engine in use, unless it is threads: they share memory as it is."""
    engine = current_engine()
    return None if engine is None or engine.name == "local" else engine


def _chunks(matrix: StepMatrix, lists: Lists) -> list[Rows]:
    bounds = threaded.row_bounds(matrix, lists).tolist()
    return list(itertools.pairwise(bounds))


def _apart(lists: Lists) -> Lists:
    return lists[0].apart(), lists[1].apart()


def _places(pairs: PairLists, rows: Rows) -> slice:
    """Return where the values of the pairs of rows are."""
    return slice(*pairs.offsets[[*rows]])


def _forward(shared: tuple[Any, int, Lists], rows: Rows) -> Scored:
    matrix, t, lists = shared
    dtype = matrix[2].dtype
    out = (np.empty(len(lists[0]), dtype), np.empty(len(lists[1]), dtype))
    squares = np.zeros((2, len(matrix[0]) - 1))
    pairs = (lists[0].arrays, lists[1].arrays)
    near = threaded.every_node(len(matrix[0]) - 1)
    forward_rows(*rows, matrix, t, near, pairs, out, squares)
    scores = (out[0][_places(lists[0], rows)], out[1][_places(lists[1], rows)])
    return scores, squares[:, slice(*rows)]


def _backward(
    shared: tuple[Any, int, Lists, Any, Any], rows: Rows
) -> tuple[Floats, npt.NDArray[np.float64]]:
    matrix, t, lists, scores, gradients = shared
    by_slot = np.zeros(len(matrix[2]), matrix[2].dtype)
    by_node = np.zeros(len(matrix[0]) - 1)
    pairs = (lists[0].arrays, lists[1].arrays)
    near = threaded.every_node(len(by_node))
    backward_rows(*rows, matrix, t, near, pairs, scores, gradients, by_slot, by_node)
    return by_slot, by_node


# Rows of the exact sum of squares are scored in blocks of about this many pairs.
_BLOCK_PAIRS = 4_000_000


@dataclass(frozen=True, eq=False)
class Walk:
    """What the scores depend on besides the weights.

    Parameters
    ----------
    structure : WalkStructure
        The edges of the run.
    t : int
        Length of the walk, at least 1.
    mask : (P,) int array, optional
        Edges left out of the graph, in both directions, as positions in
        ``structure.edges``.
    near : (n, words) uint64, optional
        What :func:`gelato.kernels.near_pairs.near_bits` returned, to save time.
    """

    structure: WalkStructure
    t: int = 3
    mask: npt.NDArray[Any] | None = None
    near: npt.NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        if self.t < 1:
            raise UsageError(f"The walk's length t must be at least 1, not {self.t}.")


def as_array(weights: Tensor) -> npt.NDArray[Any]:
    """Return weights as an array for the kernels, refusing other types of number."""
    if weights.dtype not in (torch.float32, torch.float64):
        raise UsageError(
            f"Edge weights have type {weights.dtype}; float32 and float64 work.",
            hint="Convert them with weights.float().",
        )
    array: npt.NDArray[Any] = weights.detach().cpu().contiguous().numpy()
    return array


class _ListScores(torch.autograd.Function):
    """R at two lists of pairs."""

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, walk: Walk, lists: Lists
    ) -> tuple[Tensor, Tensor]:
        matrix = walk.structure.step(as_array(weights), walk.mask)
        scores, _ = score_pairs(matrix, lists, walk)
        ctx.kept = (matrix, walk, lists, scores)
        first, second = (torch.from_numpy(s).to(weights.device) for s in scores)
        return first, second

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        matrix, walk, lists, scores = ctx.kept
        first, second = (g.cpu().contiguous().numpy() for g in gradients)
        by_edge = pull_gradients(matrix, lists, scores, (first, second), walk)
        return torch.from_numpy(by_edge).to(gradients[0]), None, None


def list_scores(weights: Tensor, walk: Walk, lists: Lists) -> tuple[Tensor, Tensor]:
    """Return R at two lists of pairs, in the lists' order.

    Parameters
    ----------
    weights : (M,) Tensor
        Weight of every edge of ``walk.structure``, float32 or float64.
    walk : Walk
        Graph, walk length and mask.
    lists : two PairLists
        Where to score; a row's walk serves both.
    """
    first, second = _ListScores.apply(weights, walk, lists)  # type: ignore[no-untyped-call]
    return first, second


def autocovariance(
    weights: Tensor,
    structure: WalkStructure,
    pairs: npt.ArrayLike,
    *,
    t: int = 3,
    mask: npt.NDArray[Any] | None = None,
) -> Tensor:
    """Return R at chosen pairs, differentiable in the weights.

    Parameters
    ----------
    weights : (M,) Tensor
        Weight of every edge of the structure, float32 or float64.
    structure : WalkStructure
        The edges of the run.
    pairs : (K, 2) int
        Pairs in either order, also (u, u).
    t : int
        Length of the walk.
    mask : (P,) int array, optional
        Edges left out, as positions in ``structure.edges``.

    Returns
    -------
    (K,) Tensor

    Examples
    --------
    >>> structure = WalkStructure(3, np.array([[0, 1], [1, 2]]))
    >>> weights = torch.ones(2, dtype=torch.float64)
    >>> scores = autocovariance(weights, structure, [[0, 1], [0, 2]])
    >>> [round(score, 6) for score in scores.tolist()]
    [0.125, -0.0625]
    """
    wanted = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    lists, order = structure.sort_pairs(wanted)
    none = PairLists.empty(structure.num_nodes, structure.column_dtype)
    walk = Walk(structure, t, mask)
    scores, _ = list_scores(weights, walk, (lists, none))
    return scores[torch.from_numpy(np.argsort(order))]


class _SumOfSquares(torch.autograd.Function):
    """Sum of R^2 over all n^2 entries, block of rows by block of rows.

    A scalar, so its gradient is computed at once, while a block's scores are there.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, walk: Walk) -> Tensor:
        matrix = walk.structure.step(as_array(weights), walk.mask)
        none = PairLists.empty(matrix.num_nodes, walk.structure.column_dtype)
        total, gradient = 0.0, np.zeros(walk.structure.num_edges)
        for block in _row_blocks(walk.structure):
            scores, squares = score_pairs(matrix, (none, block), walk)
            total += float(squares[1])
            if not ctx.needs_input_grad[0]:
                continue
            by_score = 4.0 * scores[1]
            by_score[block.diagonal()] *= 0.5
            gradient += pull_gradients(
                matrix,
                (none, block),
                scores,
                (scores[0], by_score.astype(scores[1].dtype)),
                walk,
            )
        ctx.gradient = torch.from_numpy(gradient).to(weights.device)
        ctx.dtype = weights.dtype
        return weights.new_tensor(total, dtype=torch.float64)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return (ctx.gradient * gradients[0]).to(ctx.dtype), None


def sum_of_squares(weights: Tensor, walk: Walk) -> Tensor:
    """Return the sum of R^2 over all n^2 entries, exactly, as a float64 scalar.

    Every pair u <= v is scored, a block of rows at a time: memory stays bounded,
    but time grows with n^2; on large graphs estimate it instead
    (:func:`gelato.nn.autocovariance.standardised_scores`).
    """
    return cast(Tensor, _SumOfSquares.apply(weights, walk))  # type: ignore[no-untyped-call]


def _row_blocks(structure: WalkStructure) -> list[PairLists]:
    """Cut all pairs u <= v into lists of a few million."""
    n = structure.num_nodes
    columns = np.arange(n).astype(structure.column_dtype)
    sizes = np.arange(n, 0, -1)
    block = np.cumsum(sizes) // _BLOCK_PAIRS
    blocks = []
    for index in np.unique(block):
        inside = np.where(block == index, sizes, 0)
        offsets = np.concatenate([[0], np.cumsum(inside)])
        blocks.append(PairLists(np.arange(n), offsets, columns))
    return blocks


IntArray = npt.NDArray[np.int64]
Sigma = Literal["estimate", "exact"]

# Fewer sampled negatives than this leave sigma with more than about 0.5% of noise.
_ENOUGH_NEGATIVES = 100_000
SIGMA_SAMPLE = 200_000
"""How many uniform negatives to draw for sigma alone, where one must."""

# Up to this many pairs an exact sum takes at most about as long as a training step.
_EXACT_PAIRS = 20_000_000


class TrainingPairs:
    """The pairs that every step scores: training edges and the diagonal.

    Parameters
    ----------
    structure : WalkStructure
        The enhanced edges of the run.
    training_edges : (m, 2) int64
        The known edges u < v, each among the structure's. Similarity pairs of the
        enhanced graph that are not training edges are negatives like any other.

    Attributes
    ----------
    lists : PairLists
        Diagonal and training edges, by row.
    position : (m,) int64
        Where each training edge is in values over ``lists``.
    edge : (m,) int64
        Where each training edge is in ``structure.edges``, for masking.
    multiplicity : (len(lists),) float64
        2 for edges, 1 on the diagonal: how often R holds the value.
    num_negatives : int
        Number of pairs u < v that are not training edges.
    """

    def __init__(self, structure: WalkStructure, training_edges: IntArray) -> None:
        n, m = structure.num_nodes, len(training_edges)
        self.structure, self.training_edges = structure, training_edges
        diagonal = np.stack([np.arange(n)] * 2, axis=1)
        self.lists, order = structure.sort_pairs(
            np.concatenate([diagonal, training_edges])
        )
        where = np.empty(n + m, np.int64)
        where[order] = np.arange(n + m)
        self.position = where[n:]
        self.multiplicity = np.where(order < n, 1.0, 2.0)
        self.edge = _positions(structure, training_edges)
        self.num_negatives = n * (n - 1) // 2 - m
        self._near: dict[int, npt.NDArray[np.uint64] | None] = {}

    def mark_near(self, t: int) -> None:
        """Find out which pairs are near, for many steps with walks of this length.

        It takes about as long as ranking all pairs once.
        """
        self._near[t] = near_bits(self.structure, t)

    def walk(self, t: int, mask: npt.NDArray[Any] | None = None) -> Walk:
        """Return the walk of a step."""
        return Walk(self.structure, t, mask, self._near.get(t))


def _positions(structure: WalkStructure, pairs: IntArray) -> IntArray:
    """Return where each pair is among the structure's edges."""
    keys = pair_keys(structure.edges, structure.num_nodes)
    query = pair_keys(pairs, structure.num_nodes)
    order = np.argsort(keys)
    found = np.searchsorted(keys, query, sorter=order)
    found = order[np.minimum(found, len(keys) - 1)] if len(keys) else found
    if len(query) and (not len(keys) or np.any(keys[found] != query)):
        raise InputError("A training edge is not among the edges of the graph.")
    return found.astype(np.int64)


def choose_sigma(num_nodes: int, num_sampled: int, *, uniform: bool) -> Sigma | None:
    """Return which sum of squares suits a sampler, or ``None``: draw a sample for it.

    Parameters
    ----------
    num_nodes : int
        Number of nodes n.
    num_sampled : int
        Negatives per step.
    uniform : bool
        Whether they are a uniform sample of all negatives.
    """
    if uniform and num_sampled >= _ENOUGH_NEGATIVES:
        return "estimate"
    if num_nodes * num_nodes // 2 <= _EXACT_PAIRS:
        return "exact"
    return "estimate" if uniform and num_sampled >= 10 * num_nodes else None


def standardised_scores(
    weights: Tensor,
    pairs: TrainingPairs,
    positives: IntArray,
    negatives: PairLists,
    *,
    t: int = 3,
    sigma: Sigma = "estimate",
    sample: PairLists | None = None,
    hidden: IntArray | None = None,
) -> tuple[Tensor, Tensor]:
    """Return z at a batch's positives and negatives, differentiable in the weights.

    Parameters
    ----------
    weights : (M,) Tensor
        Weight of every edge of the structure.
    pairs : TrainingPairs
        Training edges and diagonal.
    positives : (P,) int64
        The batch's positives, as positions in ``pairs.training_edges``.
    negatives : PairLists
        The batch's negatives.
    t : int
        Length of the walk.
    sigma : {"estimate", "exact"}
        How the deviation is found. "estimate" takes the negatives (or ``sample``)
        for a uniform sample of all negatives; "exact" visits all pairs.
    sample : PairLists, optional
        Uniform negatives for sigma alone, where the batch's are few or hard.
    hidden : (H,) int64, optional
        Edges removed from the graph while pairs are scored, as positions in the
        structure's edges; by default the positives (positive masking).
    """
    mask = pairs.edge[positives] if hidden is None else hidden
    walk = pairs.walk(t, mask)
    steady, drawn, uniform = _scores(weights, walk, pairs.lists, negatives, sample)
    n = pairs.structure.num_nodes
    if sigma == "exact":
        squares = sum_of_squares(weights, walk)
    elif sigma == "estimate":
        squares = estimated_squares(steady, uniform, pairs)
    else:
        raise UsageError(f"sigma is {sigma!r}, expected 'estimate' or 'exact'.")
    scale = (squares / (n * n - 1.0)).rsqrt().to(weights.dtype)
    at = torch.from_numpy(pairs.position[positives]).to(weights.device)
    return steady[at] * scale, drawn * scale


def _scores(
    weights: Tensor,
    walk: Walk,
    steady: PairLists,
    negatives: PairLists,
    sample: PairLists | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return R at three lists of pairs, the last by default the second's.

    The sample joins the negatives, so that a row is walked once for all three.
    """
    if sample is None:
        first, drawn = list_scores(weights, walk, (steady, negatives))
        return first, drawn, drawn
    both, position = negatives.joined(sample)
    first, second = list_scores(weights, walk, (steady, both))
    values = second[torch.from_numpy(position)]
    return first, values[: len(negatives)], values[len(negatives) :]


def estimated_squares(steady: Tensor, uniform: Tensor, pairs: TrainingPairs) -> Tensor:
    """Sum R^2 exactly over edges and diagonal, by a sample over the negatives."""
    if not len(uniform) and pairs.num_negatives:
        raise UsageError(
            "sigma='estimate' needs at least one uniform negative.",
            hint="Use sigma='exact', or give a sample.",
        )
    multiplicity = torch.from_numpy(pairs.multiplicity).to(steady.device)
    exact = (steady.double().square() * multiplicity).sum()
    if not len(uniform):
        return exact
    factor = 2.0 * pairs.num_negatives / len(uniform)
    return exact + factor * uniform.square().sum(dtype=torch.float64)
