"""Common neighbours, Adamic-Adar and resource allocation, differentiable.

Each is the sum over common neighbours l of A[u, l] f(d_l) A[l, v] in the weighted
graph, without loops: f = 1, 1/ln(1 + d) or 1/d. Gradients flow through the weights
and through the degrees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gelato.errors import UnknownNameError, UsageError
from gelato.kernels.chunks import NUM_CHUNKS, balanced_chunks, run_rows
from gelato.kernels.walk_structure import PairLists, WalkStructure
from gelato.kernels.walk_training import pull_neighbours, score_neighbours
from gelato.nn.autocovariance import as_array, autocovariance

Floats = npt.NDArray[Any]
Kind = Literal["cn", "aa", "ra"]
Heuristic = Callable[..., Tensor]


def neighbour_scores(
    weights: Tensor,
    structure: WalkStructure,
    pairs: npt.ArrayLike,
    *,
    kind: Kind,
    mask: npt.NDArray[Any] | None = None,
) -> Tensor:
    """Return cn, aa or ra at chosen pairs, differentiable in the weights.

    Parameters
    ----------
    weights : (M,) Tensor
        Weight of every edge of the structure, float32 or float64.
    structure : WalkStructure
        The edges; its rule for loops plays no part here.
    pairs : (K, 2) int
        Pairs in either order.
    kind : {"cn", "aa", "ra"}
        Which sum over common neighbours.
    mask : (P,) int array, optional
        Edges left out, as positions in ``structure.edges``.

    Examples
    --------
    >>> structure = WalkStructure(3, np.array([[0, 1], [1, 2]]))
    >>> neighbour_scores(torch.ones(2), structure, [[0, 2]], kind="ra").tolist()
    [0.5]
    """
    if kind not in ("cn", "aa", "ra"):
        raise UsageError(f"kind is {kind!r}, expected 'cn', 'aa' or 'ra'.")
    wanted = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    lists, order = structure.sort_pairs(wanted)
    context = (structure, lists, kind, mask)
    scores = cast(Tensor, _NeighbourScores.apply(weights, context))  # type: ignore[no-untyped-call]
    return scores[torch.from_numpy(np.argsort(order))]


class _NeighbourScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, context: Any) -> Tensor:
        structure, lists, kind, mask = context
        kept = as_array(weights).copy()
        if mask is not None:
            kept[mask] = 0
        matrix, slope = _plain_matrix(structure, kept, kind)
        out = np.empty(len(lists), kept.dtype)
        bounds = _bounds(structure, lists)
        run_rows(score_neighbours, bounds, matrix, lists.arrays, out)
        ctx.kept = (context, matrix, slope, bounds)
        return torch.from_numpy(out).to(weights.device)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (structure, lists, _, mask), matrix, slope, bounds = ctx.kept
        gradient = gradients[0].cpu().contiguous().numpy()
        by_slot = np.zeros((NUM_CHUNKS, len(matrix[2])), matrix[2].dtype)
        by_node = np.zeros((NUM_CHUNKS, structure.num_nodes))
        given = (matrix, lists.arrays, gradient)
        run_rows(pull_neighbours, bounds, *given, own=(by_slot, by_node))
        by_degree = by_node.sum(axis=0) * slope
        row = np.repeat(np.arange(structure.num_nodes), np.diff(structure.indptr))
        by_edge = np.bincount(
            structure.slot_edge,
            by_slot.sum(axis=0, dtype=np.float64) + by_degree[row],
            minlength=structure.num_edges,
        )
        if mask is not None:
            by_edge[mask] = 0
        return torch.from_numpy(by_edge).to(gradients[0]), None


def _plain_matrix(
    structure: WalkStructure, weights: Floats, kind: Kind
) -> tuple[tuple[Any, ...], npt.NDArray[np.float64]]:
    """Return the kernels' matrix without loops, and the slope of f in the degree."""
    values = weights[structure.slot_edge]
    row = np.repeat(np.arange(structure.num_nodes), np.diff(structure.indptr))
    degrees = np.bincount(row, values, minlength=structure.num_nodes)
    known = degrees > 0  # a node without edges is nobody's common neighbour
    safe = np.where(known, degrees, 1.0)
    if kind == "cn":
        factor, slope = np.ones_like(safe), np.zeros_like(safe)
    elif kind == "aa":
        factor = 1 / np.log1p(safe)
        slope = -(factor**2) / (1 + safe)
    else:
        factor = 1 / safe
        slope = -(factor**2)
    factor, slope = np.where(known, factor, 0.0), np.where(known, slope, 0.0)
    indptr = structure.indptr.astype(np.uint64)
    return (indptr, structure.indices, values, factor.astype(values.dtype)), slope


def _bounds(structure: WalkStructure, lists: PairLists) -> npt.NDArray[np.int64]:
    cost = np.diff(structure.indptr) + 8.0 * np.diff(lists.offsets)
    return balanced_chunks(cost)


DIFFERENTIABLE: dict[str, Heuristic] = {
    "ac": autocovariance,
    "cn": partial(neighbour_scores, kind="cn"),
    "aa": partial(neighbour_scores, kind="aa"),
    "ra": partial(neighbour_scores, kind="ra"),
}
"""Differentiable heuristics by name: (weights, structure, pairs, mask=) -> (K,)."""


class HeuristicMixture(nn.Module):
    """A learned combination of differentiable heuristics.

    Each heuristic is standardised (over the batch in training, with the running mean
    and deviation afterwards), then they are added with learned coefficients.

    Parameters
    ----------
    heuristics : sequence of str
        Names in ``DIFFERENTIABLE``.
    coefficients : {"softmax", "linear"}
        Positive ones that sum to 1, or any numbers (1/H at the start in both).
    """

    def __init__(
        self,
        heuristics: tuple[str, ...] = ("ac", "cn", "aa", "ra"),
        *,
        coefficients: Literal["softmax", "linear"] = "softmax",
    ) -> None:
        super().__init__()
        for name in heuristics:
            if name not in DIFFERENTIABLE:
                raise UnknownNameError(
                    f"There is no differentiable heuristic {name!r}.",
                    hint=f"Known: {', '.join(DIFFERENTIABLE)}.",
                )
        if coefficients not in ("softmax", "linear"):
            raise UsageError(
                f"coefficients is {coefficients!r}, expected 'softmax' or 'linear'."
            )
        count = len(heuristics)
        self.heuristics, self.kind = tuple(heuristics), coefficients
        start = 0.0 if coefficients == "softmax" else 1.0 / count
        self.raw = nn.Parameter(torch.full((count,), start))
        # Scores of a walk are far below 1: the usual epsilon would swallow them. The
        # running statistics are plain averages, so that the first batch counts fully.
        self.norm = nn.BatchNorm1d(count, affine=False, eps=1e-24, momentum=None)

    def coefficients(self) -> Tensor:
        """Return the coefficient of each heuristic."""
        return self.raw.softmax(dim=0) if self.kind == "softmax" else self.raw

    def forward(
        self,
        weights: Tensor,
        structure: WalkStructure,
        pairs: npt.ArrayLike,
        mask: npt.NDArray[Any] | None = None,
    ) -> Tensor:
        """Return the mixed score of every pair, (K,)."""
        columns = [
            DIFFERENTIABLE[name](weights, structure, pairs, mask=mask)
            for name in self.heuristics
        ]
        scores = self.norm(torch.stack(columns, dim=1))  # (K, H)
        return cast(Tensor, scores @ self.coefficients().to(scores.dtype))
