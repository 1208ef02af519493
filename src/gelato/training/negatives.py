"""Which pairs a training step sees, and which positive each negative is compared with.

Positives are shuffled into batches; all negatives are numbered without listing them. A
sampler of negatives is anything with ``uniform`` and ``draw``; four are built in.
``uniform`` tells whether a step's negatives are a uniform sample of all negatives, so
that the deviation of the scores may be estimated from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError, UnknownNameError, UsageError
from gelato.graph import pair_keys
from gelato.kernels.chunks import generator
from gelato.kernels.deal import HashDealer, partition_nodes
from gelato.kernels.walk_structure import PairLists, WalkStructure

IntArray = npt.NDArray[np.int64]


class PositiveBatches:
    """The training edges, shuffled into batches anew each epoch.

    Parameters
    ----------
    num_edges : int
        Number of training edges m.
    batches : int
        Number of batches per epoch; sizes differ by at most 1.
    seed : int
        With the epoch, decides the order.

    Examples
    --------
    >>> parts = [PositiveBatches(5, batches=2, seed=0).batch(3, i) for i in (0, 1)]
    >>> [len(part) for part in parts], sorted(np.concatenate(parts).tolist())
    ([3, 2], [0, 1, 2, 3, 4])
    """

    def __init__(self, num_edges: int, *, batches: int, seed: int) -> None:
        if not 1 <= batches <= num_edges:
            raise UsageError(
                f"{num_edges} training edges cannot fill {batches} batches.",
                hint=f"Use between 1 and {num_edges} batches.",
            )
        self.num_edges, self.batches, self.seed = num_edges, batches, seed

    def batch(self, epoch: int, batch: int) -> IntArray:
        """Return the positions of one batch's training edges, ascending."""
        order = generator(self.seed, "positives", epoch).permutation(self.num_edges)
        return np.sort(np.array_split(order, self.batches)[batch])


class NegativePairs:
    """All pairs u < v that are not training edges, numbered 0 .. count - 1.

    The numbering is row by row, computed from the edges alone, so that a uniform
    negative is a uniform number: nothing is rejected and nothing listed.

    Parameters
    ----------
    num_nodes : int
        Number of nodes n.
    training_edges : (m, 2) int64
        Pairs u < v, each once.

    Examples
    --------
    >>> negatives = NegativePairs(4, np.array([[0, 1], [0, 3]]))
    >>> negatives.pairs(np.arange(negatives.count)).tolist()
    [[0, 2], [1, 2], [1, 3], [2, 3]]
    """

    def __init__(self, num_nodes: int, training_edges: IntArray) -> None:
        n = num_nodes
        edges = training_edges[np.lexsort(training_edges.T[::-1])]
        known = np.bincount(edges[:, 0], minlength=n)
        self._edge_start = np.concatenate([[0], np.cumsum(known)])
        sizes = np.arange(n - 1, -1, -1) - known
        self._row_start = np.concatenate([[0], np.cumsum(sizes)])
        self.num_nodes, self.count = n, int(self._row_start[-1])
        self._edge_keys = pair_keys(edges, n)
        # How many negatives come before each edge, in the order of all pairs.
        within = np.arange(len(edges)) - self._edge_start[edges[:, 0]]
        before = edges[:, 1] - edges[:, 0] - 1 - within
        self._before = self._row_start[edges[:, 0]] + before
        if self.count == 0:
            raise InputError(
                "Every pair of nodes is a training edge: there are no negatives."
            )

    def pairs(self, numbers: IntArray) -> IntArray:
        """Return the (K, 2) pairs with the given numbers."""
        row = np.searchsorted(self._row_start, numbers, side="right") - 1
        passed = np.searchsorted(self._before, numbers, side="right")
        skipped = passed - self._edge_start[row]
        column = row + 1 + (numbers - self._row_start[row]) + skipped
        return np.stack([row, column], axis=1)

    def contains(self, pairs: IntArray) -> npt.NDArray[np.bool_]:
        """Return which pairs u < v are negatives."""
        return ~np.isin(pair_keys(pairs, self.num_nodes), self._edge_keys)

    def sample(self, count: int, random: np.random.Generator) -> IntArray:
        """Return uniform negatives: distinct ones if there are enough."""
        replace = count > self.count
        return self.pairs(random.choice(self.count, size=count, replace=replace))


Scorer = Callable[[PairLists], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Negatives:
    """The negatives of one step.

    Parameters
    ----------
    lists : PairLists
        The pairs, by row, in the structure's inside labels.
    groups : (K,) int32
        The positive, 0 .. P-1, that each is compared with, in the lists' order.
    """

    lists: PairLists
    groups: npt.NDArray[np.int32]


class NegativeSampler(Protocol):
    """What the training loop asks of a sampler."""

    @property
    def uniform(self) -> bool:
        """Whether the negatives are a uniform sample of all negatives."""

    def draw(
        self, epoch: int, batch: int, num_positives: int, score: Scorer
    ) -> Negatives:
        """Return the negatives of one step.

        Parameters
        ----------
        epoch, batch : int
            Which step; the same step must give the same negatives.
        num_positives : int
            Number of positives P in the batch.
        score : callable
            Gives the current standardised scores of listed pairs, for samplers
            that follow the model; others need not call it.
        """


def grouped(
    structure: WalkStructure, pairs: IntArray, groups: npt.NDArray[Any]
) -> Negatives:
    """Return pairs in the graph's own labels, with their groups, as a step's."""
    lists, order = structure.sort_pairs(pairs)
    return Negatives(lists, groups[order].astype(np.int32))


class UnbiasedNegatives:
    """Every negative exactly once per epoch, dealt out by hash.

    Parameters
    ----------
    structure : WalkStructure
        The graph of the run.
    training_edges : (m, 2) int64
        The pairs that are not negatives.
    batches : int
        Number of batches per epoch.
    seed : int
        With the epoch, decides everything.
    **options
        ``byte_budget`` of :class:`gelato.kernels.deal.HashDealer`.
    """

    uniform = True

    def __init__(
        self,
        structure: WalkStructure,
        training_edges: IntArray,
        *,
        batches: int,
        seed: int,
        **options: Any,
    ) -> None:
        self.dealer = HashDealer(
            structure, training_edges, batches=batches, seed=seed, **options
        )

    def draw(
        self, epoch: int, batch: int, num_positives: int, score: Scorer
    ) -> Negatives:
        """Return the batch's share of all negatives."""
        lists = self.dealer.batch(epoch, batch)
        return Negatives(lists, self.dealer.groups(epoch, lists, num_positives))


class _FewNegatives:
    """What the samplers with a fixed number of negatives per positive share.

    ``batches`` is taken so that all samplers are made alike; it changes nothing.
    """

    uniform = False
    # Names the stream of random numbers; recorded results depend on it.
    purpose: ClassVar[str]

    def __init__(
        self,
        structure: WalkStructure,
        training_edges: IntArray,
        *,
        seed: int,
        batches: int = 1,
        per_positive: int = 1,
    ) -> None:
        if per_positive < 1:
            raise UsageError(f"per_positive must be at least 1, not {per_positive}.")
        self.structure, self.seed, self.per_positive = structure, seed, per_positive
        self.all = NegativePairs(structure.num_nodes, training_edges)

    def _random(self, epoch: int, batch: int) -> np.random.Generator:
        return generator(self.seed, self.purpose, epoch, batch)

    def _groups(self, num_positives: int) -> IntArray:
        return np.tile(np.arange(num_positives), self.per_positive)


class BiasedNegatives(_FewNegatives):
    """As many uniform negatives as positives, redrawn each epoch or drawn once.

    Each positive gets exactly ``per_positive`` of them. The share of positives is
    then far above that of the graph: the biased training of the paper.
    """

    purpose = "BiasedNegatives"

    uniform = True

    def __init__(self, *given: Any, redraw: bool = True, **options: Any) -> None:
        super().__init__(*given, **options)
        self.redraw = redraw

    def draw(
        self, epoch: int, batch: int, num_positives: int, score: Scorer
    ) -> Negatives:
        """Return uniform negatives, one group per positive."""
        groups = self._groups(num_positives)
        random = self._random(epoch if self.redraw else 0, batch)
        pairs = self.all.sample(len(groups), random)
        return grouped(self.structure, pairs, groups)


class PartitionedNegatives(_FewNegatives):
    """Hard negatives: both ends in the same community of the graph.

    Parameters
    ----------
    structure, training_edges, seed, batches, per_positive
        As for :class:`BiasedNegatives`.
    communities : (n,) int64, optional
        A community per node; default: label propagation on the structure.
    parts : int
        How many communities to aim at, where they are not given.
    """

    purpose = "PartitionedNegatives"

    # Rounds of drawing before uniform negatives fill what is missing, as they must
    # where communities are cliques or single nodes.
    _ROUNDS = 20

    def __init__(
        self,
        *given: Any,
        communities: IntArray | None = None,
        parts: int = 32,
        **options: Any,
    ) -> None:
        super().__init__(*given, **options)
        num_nodes = self.structure.num_nodes
        if communities is None:
            communities = partition_nodes(self.structure, parts=parts, seed=self.seed)
        elif len(communities) != num_nodes:
            raise UsageError(f"{len(communities)} communities for {num_nodes} nodes.")
        self.communities = communities
        self._members = np.argsort(communities, kind="stable")
        self._sizes = np.bincount(communities)
        self._first = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])

    def draw(
        self, epoch: int, batch: int, num_positives: int, score: Scorer
    ) -> Negatives:
        """Return negatives inside communities, uniform among those."""
        groups, random = self._groups(num_positives), self._random(epoch, batch)
        found = np.empty((0, 2), np.int64)
        if np.any(self._sizes > 1):
            for _ in range(self._ROUNDS):
                found = np.concatenate([found, self._propose(len(groups), random)])
                if len(found) >= len(groups):
                    break
        missing = max(0, len(groups) - len(found))
        if missing:
            found = np.concatenate([found, self.all.sample(missing, random)])
        return grouped(self.structure, found[: len(groups)], groups)

    def _propose(self, count: int, random: np.random.Generator) -> IntArray:
        sizes = self._sizes.astype(np.float64)
        share = np.cumsum(sizes * (sizes - 1))
        at = random.random(count) * share[-1]
        chosen = np.searchsorted(share, at, side="right")
        one = random.integers(0, self._sizes[chosen])
        two = random.integers(0, self._sizes[chosen] - 1)
        two += two >= one
        ends = np.stack([one, two], axis=1) + self._first[chosen][:, None]
        pairs = np.sort(self._members[ends], axis=1)
        return pairs[self.all.contains(pairs)]


class AdversarialNegatives(_FewNegatives):
    """Hard negatives: those the current model ranks high.

    For each negative wanted, ``proposals`` uniform ones are scored and one is drawn
    with probability proportional to exp(score / temperature).

    Parameters
    ----------
    structure, training_edges, seed, batches, per_positive
        As for :class:`BiasedNegatives`.
    proposals : int
        How many to choose from.
    temperature : float
        High: nearly uniform; low: the highest score.
    """

    purpose = "AdversarialNegatives"

    def __init__(
        self,
        *given: Any,
        proposals: int = 16,
        temperature: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(*given, **options)
        if proposals < 1 or not temperature > 0:
            raise UsageError(
                f"proposals is {proposals} and temperature {temperature}; at least 1 "
                "and more than 0 are expected."
            )
        self.proposals, self.temperature = proposals, temperature

    def draw(
        self, epoch: int, batch: int, num_positives: int, score: Scorer
    ) -> Negatives:
        """Return one proposal per group, drawn by the model's scores."""
        groups, random = self._groups(num_positives), self._random(epoch, batch)
        pairs = self.all.sample(len(groups) * self.proposals, random)
        lists, order = self.structure.sort_pairs(pairs)
        scores = np.empty(len(pairs))
        scores[order] = score(lists)
        # The largest of score + Gumbel noise is a draw from the softmax.
        keys = scores / self.temperature + random.gumbel(size=len(pairs))
        best = np.argmax(keys.reshape(len(groups), self.proposals), axis=1)
        chosen = pairs[np.arange(len(groups)) * self.proposals + best]
        return grouped(self.structure, chosen, groups)


SAMPLERS: dict[str, Callable[..., NegativeSampler]] = {
    "unbiased": UnbiasedNegatives,
    "biased": BiasedNegatives,
    "partitioned": PartitionedNegatives,
    "adversarial": AdversarialNegatives,
}


def make_sampler(
    name: str,
    structure: WalkStructure,
    training_edges: IntArray,
    *,
    batches: int,
    seed: int,
    **options: Any,
) -> NegativeSampler:
    """Return a sampler by name; add your own to ``SAMPLERS``."""
    if name not in SAMPLERS:
        raise UnknownNameError(
            f"There is no sampler of negatives {name!r}.",
            hint=f"Known: {', '.join(sorted(SAMPLERS))}.",
        )
    return SAMPLERS[name](
        structure, training_edges, batches=batches, seed=seed, **options
    )


ListedTraining = Literal["unbiased", "biased"]
Draw = Callable[[int, int, int], tuple[IntArray, npt.NDArray[np.int32]]]


def listed_negatives(
    training: ListedTraining,
    num_nodes: int,
    edges: IntArray,
    *,
    batches: int,
    seed: int,
    redraw: bool = True,
) -> Draw:
    """Return a function of (epoch, batch, positives): negatives and their groups.

    Parameters
    ----------
    training : {"unbiased", "biased"}
        Every negative once an epoch, or as many as positives.
    num_nodes : int
    edges : (m, 2) int64
        Training edges u < v.
    batches : int
        Steps per epoch.
    seed : int
        With epoch and batch, decides everything.
    redraw : bool
        Draw those of biased training anew each epoch.
    """
    if training == "biased":
        pool = NegativePairs(num_nodes, edges)

        def draw(epoch: int, batch: int, count: int) -> tuple[IntArray, Any]:
            when = epoch if redraw else 0
            random = generator(seed, "listed negatives", when, batch)
            return pool.sample(count, random), np.arange(count, dtype=np.int32)

        return draw
    structure = WalkStructure(num_nodes, edges)
    sampler = UnbiasedNegatives(structure, edges, batches=batches, seed=seed)

    def deal(epoch: int, batch: int, count: int) -> tuple[IntArray, Any]:
        dealt = sampler.draw(epoch, batch, count, _unscored)
        ends = (dealt.lists.rows(), dealt.lists.listed_columns())
        pairs = np.stack([structure.outside[end] for end in ends], axis=1)
        pairs.sort(axis=1)  # inside labels follow another order of the nodes
        return pairs, dealt.groups

    return deal


def _unscored(lists: PairLists) -> npt.NDArray[Any]:
    raise AssertionError("dealing out negatives needs no scores")
