"""Unbiased training whose cost follows the near pairs instead of n^2.

Near negatives, which a walk of t edges joins, are dealt as those of plain training
are; far ones, whose scores depend on degrees alone, are counted and represented by a
sample (``nn.step.near_step``). Where near negatives are too many for one epoch, a share
``rate`` of them is listed and each epoch trains on the same share of the positives:
groups stay as large as they are in plain training, so that no positive is compared
with fewer negatives, and what a single hard negative does to the logarithm of a group's
sum stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gelato.errors import UsageError
from gelato.kernels.chunks import generator
from gelato.kernels.deal import NearDealer
from gelato.kernels.near_pairs import NearPairs
from gelato.kernels.walk_structure import WalkStructure
from gelato.nn.step import FarSample
from gelato.training.negatives import NegativePairs, Negatives, Scorer

IntArray = npt.NDArray[np.int64]
NegativeKinds = Literal["auto", "all", "near"]

FAR_SAMPLE = 20_000
"""Far negatives per step: their part of a group's sum is then known to about 0.03%."""

AUTO_NODES = 25_000
"""Up to this many nodes "auto" deals all negatives one by one, as the paper does."""

# The largest share of near pairs for which far ones are sampled. Beyond the first,
# dealing all pairs is about as fast; beyond the second, few proposals would be far.
_AUTO_SHARE, _MOST_SHARE = 0.2, 0.5


@dataclass(frozen=True, eq=False)
class NearFarNegatives(Negatives):
    """The near negatives of one step, and what stands for the far ones.

    Parameters
    ----------
    lists, groups
        As for :class:`~gelato.training.negatives.Negatives`; groups number ``used``.
    used : (U,) int64
        Which of the batch's positives are compared, ascending.
    num_near : int
        Number of near negatives of the graph.
    far : FarSample
        The far negatives.
    weight : float
        How many near negatives of its group each one stands for; about 1.
    """

    used: IntArray
    num_near: int
    far: FarSample
    weight: float


class NearNegatives:
    """Near negatives by hash, far ones by a sample: a sampler of negatives.

    Parameters
    ----------
    structure : WalkStructure
        The graph of the run.
    training_edges : (m, 2) int64
        The pairs that are not negatives.
    near : NearPairs
        Which pairs are near.
    batches : int
        Number of batches per epoch.
    seed : int
        With the epoch, decides everything.
    rate : float, optional
        Share of the near negatives, and of the positives of each epoch, to train on;
        by default 1, or less where there are more than
        :data:`~gelato.kernels.deal.MOST_LISTED` near negatives.
    far_sample : int
        Far negatives per step; where there are fewer than four times as many pairs,
        all of them.
    """

    uniform = False

    def __init__(
        self,
        structure: WalkStructure,
        training_edges: IntArray,
        near: NearPairs,
        *,
        batches: int,
        seed: int,
        rate: float | None = None,
        far_sample: int = FAR_SAMPLE,
    ) -> None:
        if far_sample < 1:
            raise UsageError(f"far_sample must be at least 1, not {far_sample}.")
        self.structure, self.near, self.seed = structure, near, seed
        self.batches, self.far_sample = batches, far_sample
        self.dealer = NearDealer(near, batches=batches, seed=seed, rate=rate)
        self.rate = self.dealer.rate
        self.all = NegativePairs(structure.num_nodes, training_edges)
        self._every_far: IntArray | None = None
        if near.num_far == 0 or self.all.count <= 4 * far_sample:
            pairs = self.all.pairs(np.arange(self.all.count if near.num_far else 0))
            self._every_far = pairs[~near.contains(pairs)]

    @property
    def note(self) -> str:
        """What people should know of it."""
        n = self.structure.num_nodes
        share = self.near.count / max(1, n * (n - 1) // 2)
        some = "" if self.rate == 1 else f", {self.rate:.2%} of them in an epoch"
        return (
            f"trained on near negatives ({self.near.count:,}, {share:.1%} of all "
            f"pairs{some}); {self.near.num_far:,} far ones by a weighted sample"
        )

    def draw(
        self, epoch: int, batch: int, num_positives: int, score: Scorer
    ) -> NearFarNegatives:
        """Return the batch's near negatives and a sample of the far ones."""
        count = max(1, round(self.rate * num_positives))
        order = generator(self.seed, "used", epoch, batch).permutation(num_positives)
        lists = self.dealer.batch(epoch, batch)
        return NearFarNegatives(
            lists,
            self.dealer.groups(epoch, lists, count),
            used=np.sort(order[:count]),
            num_near=self.near.count,
            far=self._far(epoch, batch, num_positives),
            weight=count / (self.rate * num_positives),
        )

    def _far(self, epoch: int, batch: int, num_positives: int) -> FarSample:
        per_positive = self.near.num_far / (self.batches * num_positives)
        pairs, complete = self._every_far, True
        if pairs is None:
            random = generator(self.seed, "far", epoch, batch)
            pairs, complete = self._draw_far(random), False
        inside = self.structure.inside[pairs]
        return FarSample(inside, self.near.num_far, per_positive, complete)

    def _draw_far(self, random: np.random.Generator) -> IntArray:
        """Draw uniform far negatives: uniform negatives without the near ones."""
        found = np.empty((0, 2), np.int64)
        accepted = self.near.num_far / self.all.count
        while len(found) < self.far_sample:
            wanted = int(1.05 * (self.far_sample - len(found)) / accepted) + 16
            numbers = random.integers(0, self.all.count, wanted)
            pairs = self.all.pairs(numbers)
            found = np.concatenate([found, pairs[~self.near.contains(pairs)]])
        return found[: self.far_sample]


def choose_near(
    kinds: NegativeKinds,
    structure: WalkStructure,
    training_edges: IntArray,
    *,
    t: int,
) -> tuple[NearPairs | None, str]:
    """Return the near pairs if training should tell them apart, and why not if not.

    Parameters
    ----------
    kinds : {"auto", "all", "near"}
        What was asked for; "auto" is "near" on graphs of more than
        :data:`AUTO_NODES` nodes with less than a fifth of their pairs near.
    structure, training_edges, t
        As for :class:`~gelato.kernels.near_pairs.NearPairs`.
    """
    n = structure.num_nodes
    if kinds == "all" or (kinds == "auto" and n <= AUTO_NODES):
        return None, ""
    near = NearPairs(structure, training_edges, t=t)
    share = near.count / (n * (n - 1) // 2)
    limit = _AUTO_SHARE if kinds == "auto" else _MOST_SHARE
    if share <= limit:
        return near, ""
    return None, (
        f"trained on all negatives one by one: {share:.0%} of all pairs are near, "
        f"more than {limit:.0%}"
    )
