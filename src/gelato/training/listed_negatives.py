"""A step's negatives as a list of pairs, for models that score pairs one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gelato.graph import IntArray
from gelato.kernels.walk_structure import PairLists, WalkStructure
from gelato.training.batches import NegativePairs, generator
from gelato.training.negatives import UnbiasedNegatives

ListedTraining = Literal["unbiased", "biased"]
Draw = Callable[[int, int, int], tuple[IntArray, npt.NDArray[np.int32]]]


def listed_negatives(
    training: ListedTraining,
    num_nodes: int,
    edges: IntArray,
    *,
    batches: int,
    seed: int,
    threads: int | None = None,
) -> Draw:
    """Return a function of (epoch, batch, positives): negatives and their groups.

    Parameters
    ----------
    training : {"unbiased", "biased"}
        Every negative once an epoch, or as many as positives, redrawn each epoch.
    num_nodes : int
    edges : (m, 2) int64
        Training edges u < v.
    batches : int
        Steps per epoch.
    seed : int
        With epoch and batch, decides everything.
    threads : int, optional
        Threads of the kernels; the result does not depend on it.
    """
    if training == "biased":
        pool = NegativePairs(num_nodes, edges)

        def draw(epoch: int, batch: int, count: int) -> tuple[IntArray, Any]:
            random = generator(seed, "listed negatives", epoch, batch)
            return pool.sample(count, random), np.arange(count, dtype=np.int32)

        return draw
    structure = WalkStructure(num_nodes, edges)
    sampler = UnbiasedNegatives(
        structure, edges, batches=batches, seed=seed, threads=threads
    )

    def deal(epoch: int, batch: int, count: int) -> tuple[IntArray, Any]:
        dealt = sampler.draw(epoch, batch, count, _unscored)
        ends = (dealt.lists.rows(), dealt.lists.listed_columns())
        pairs = np.stack([structure.outside[end] for end in ends], axis=1)
        pairs.sort(axis=1)  # inside labels follow another order of the nodes
        return pairs, dealt.groups

    return deal


def _unscored(lists: PairLists) -> npt.NDArray[Any]:
    raise AssertionError("dealing out negatives needs no scores")
