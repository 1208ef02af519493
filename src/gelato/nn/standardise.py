"""Scores in units of their standard deviation over all n^2 pairs of nodes.

The mean of R is exactly 0, so z = R / sigma with sigma^2 = sum R^2 / (n^2 - 1).
Gradients flow through sigma. The sum is either exact or estimated: training edges
and the diagonal, where R is large, are always summed exactly; the rest, all
negatives, may be represented by a uniform sample of them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gelato.errors import InputError, UsageError
from gelato.graph import pair_keys
from gelato.kernels.walk_structure import PairLists, WalkStructure
from gelato.nn.autocovariance import Walk, list_scores, sum_of_squares

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
    walk = Walk(pairs.structure, t, mask)
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
