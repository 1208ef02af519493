"""Autocovariance at chosen pairs as a differentiable function of edge weights.

R = D/vol (D^-1 A)^t - d d^T/vol^2 (the paper's random-walk similarity) is evaluated
only where it is wanted, with the exact gradient, in O(n + edges) memory per thread.
The dense twin for small graphs and other devices is ``gelato.nn.dense``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gelato.errors import UsageError
from gelato.kernels.walk_structure import PairLists, WalkStructure
from gelato.nn.walk_passes import pull_gradients, score_pairs

Lists = tuple[PairLists, PairLists]

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
    """

    structure: WalkStructure
    t: int = 3
    mask: npt.NDArray[Any] | None = None

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
        scores, _ = score_pairs(matrix, lists, t=walk.t)
        ctx.kept = (matrix, walk, lists, scores)
        first, second = (torch.from_numpy(s).to(weights.device) for s in scores)
        return first, second

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        matrix, walk, lists, scores = ctx.kept
        first, second = (g.cpu().contiguous().numpy() for g in gradients)
        by_edge = pull_gradients(
            matrix,
            lists,
            scores,
            (first, second),
            walk.structure.num_edges,
            t=walk.t,
        )
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
            scores, squares = score_pairs(matrix, (none, block), t=walk.t)
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
                walk.structure.num_edges,
                t=walk.t,
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
    (:func:`gelato.nn.standardise.standardised_scores`).
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
