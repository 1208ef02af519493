"""Training of a network on pairs: negatives, masking, losses, validation.

A step encodes the graph once and decodes the step's pairs. Selection follows the
networks' own habit, a balanced ("sampled") validation drawn once with seed 0, and is
named so; the ranking of all pairs is measured beside it now and then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers.link_module import LinkModule
from gelato.graph import IntArray
from gelato.kernels.chunks import generator
from gelato.kernels.walk_structure import WalkStructure
from gelato.nn.losses import NPairLoss
from gelato.ranking import all_pairs, metrics, rank_counts
from gelato.ranking.counts import counts_of_scores
from gelato.ranking.evaluate import candidates_of
from gelato.ranking.protocols import sample_negatives
from gelato.splits import EdgeSplit
from gelato.training.loop import Clock
from gelato.training.negatives import NegativePairs, PositiveBatches, UnbiasedNegatives
from gelato.training.validation import REPORTED, validation_values

SAMPLED = ("sampled-auc", "sampled-ap", "sampled-mean")
"""Values of the balanced validation; the last is the mean of the other two."""
HITS = "sampled-hits@50"
"""Of the same sample; only measured where it selects."""
LAST = "last"
"""Share of the epochs done: selecting by it keeps the last epoch."""
QUICK = (*SAMPLED, HITS, LAST)
"""What can select an epoch without a ranking of all pairs."""

LARGE = 1 << 22
"""Pairs from which on a step is taken in parts: a longer array of theirs is more than
malloc keeps for the next one, and fresh memory takes longer than what it is for."""
PART = 1 << 18
"""Pairs of a part."""


@dataclass(frozen=True)
class NetworkSettings:
    """What a training step of a network does.

    Parameters
    ----------
    training : {"biased", "unbiased"}
        As many negatives as positives, or every negative once an epoch.
    loss : {"cross-entropy", "balanced", "n-pair"}
        Training loss; "balanced" averages positives and negatives apart.
    masking : bool
        Hide a step's positives from the messages.
    batches : int
        Parts that the positives are cut into each epoch.
    steps : int
        How many of these parts an epoch visits.
    redraw : bool
        Draw negatives anew each epoch (biased training).
    metric : str
        What selects the epoch.
    exact_every : int, optional
        Epochs between rankings of all pairs; default never, unless selected by.
    epochs, seed : int
        Length of the training, and what decides batches and negatives.
    negatives : int
        Negatives per positive (biased training).
    """

    training: str = "biased"
    loss: str = "cross-entropy"
    masking: bool = False
    batches: int = 1
    steps: int = 1
    redraw: bool = True
    metric: str = "sampled-auc"
    exact_every: int | None = None
    epochs: int = 1
    seed: int = 0
    negatives: int = 1


class NetworkTask:
    """Losses and validation of a network on a split.

    Parameters
    ----------
    module : LinkModule
        What is trained.
    split : EdgeSplit
        Training edges, and validation edges that select the epoch.
    settings : NetworkSettings
        What a step does.
    """

    def __init__(
        self, module: LinkModule, split: EdgeSplit, settings: NetworkSettings
    ) -> None:
        self.module, self.settings = module, settings
        self.graph = split.train_graph
        self.batches, self.clock, self.epoch = settings.steps, Clock(), 0
        self.metrics = tuple(
            dict.fromkeys([*SAMPLED, LAST, *REPORTED, settings.metric])
        )
        self.inputs = module.prepare(self.graph)
        self.positives = PositiveBatches(
            self.graph.num_edges, batches=settings.batches, seed=settings.seed
        )
        self._negatives = _make_negatives(self.graph.num_nodes, split.train, settings)
        self.validation = split.valid
        self.candidates = all_pairs(self.graph, split.train)
        drawn = sample_negatives(candidates_of(split, "valid"), split.valid, seed=0)
        self._sample = torch.from_numpy(np.concatenate([split.valid, drawn]))

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step, its gradients clipped if the module asks."""
        self.epoch = epoch
        value = self.step_loss(epoch, batch)
        groups = [list(group) for group in self.module.clip_groups()]
        if not groups:
            return value
        with self.clock("backward"):
            return clipped(value, groups)

    def step_loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step."""
        visible, positives = self.hide(self.positives.batch(epoch, batch))
        with self.clock("negatives"):
            negatives, groups = self._negatives(epoch, batch, len(positives))
        pairs = torch.from_numpy(np.concatenate([positives, negatives]))
        with self.clock("encode"):
            states = self.module.encode_ends(visible, pairs)
        with self.clock("decode"):
            if self.module.in_parts and self._sums_pairs and len(pairs) >= LARGE:
                value = self._in_parts(states, pairs, len(positives))
            else:
                logits = self.module.logits(states, pairs)
                value = self.objective(
                    logits[: len(positives)], logits[len(positives) :], groups
                )
        penalty = self.module.penalty(states)
        return value if penalty is None else value + penalty

    def hide(self, positives: IntArray) -> tuple[Any, IntArray]:
        """Return what messages need of the graph, and a batch's positives."""
        edges = self.graph.edges
        if not self.settings.masking:
            return self.inputs, edges[positives]
        with self.clock("masking"):
            rest = self.graph.with_edges(np.delete(edges, positives, axis=0))
            return self.module.prepare(rest), edges[positives]

    @property
    def _sums_pairs(self) -> bool:
        """Whether the loss is a sum over pairs, each as heavy as any other."""
        settings = self.settings
        return settings.training == "unbiased" and settings.loss == "cross-entropy"

    def _in_parts(self, states: Any, pairs: Tensor, positives: int) -> Tensor:
        """Return the loss of pairs, the first of them positives, part by part."""
        leaves = [state.detach().requires_grad_() for state in states]
        total = 0.0
        for sign, side in ((-1, pairs[:positives]), (1, pairs[positives:])):
            for part in torch.split(side, PART):
                logits = self.module.decode(tuple(leaves), part)
                value = functional.softplus(sign * logits).sum() / len(pairs)
                value.backward()  # type: ignore[no-untyped-call]
                total += value.item()
        known = [leaf.grad for leaf in leaves]
        return cast(Tensor, _Given.apply(torch.tensor(total), known, *states))  # type: ignore[no-untyped-call]

    def objective(self, positive: Tensor, negative: Tensor, groups: Any) -> Tensor:
        """Return the loss of logits ``(P, heads)`` and ``(K, heads)``, over heads."""
        if self.settings.loss == "n-pair":
            heads = zip(positive.unbind(1), negative.unbind(1), strict=True)
            parts = [NPairLoss()(one, two, groups) for one, two in heads]
            return torch.stack(parts).sum()
        missed, alarms = functional.softplus(-positive), functional.softplus(negative)
        if self.settings.training == "biased" or self.settings.loss == "balanced":
            return missed.mean(dim=0).sum() + alarms.mean(dim=0).sum()
        return (missed.sum() + alarms.sum()) / (len(positive) + len(negative))

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Return the balanced validation and, if it is due, that of all pairs."""
        states = self.module.encode(self.inputs)
        values = {LAST: self.epoch / self.settings.epochs}
        values |= self._sampled(states)
        every = self.settings.exact_every
        due = every is not None and self.epoch % every == 0
        if due or self.settings.metric not in QUICK:
            counts = rank_counts(
                self.module.scorer(states), self.validation, self.candidates
            )
            names = [name for name in self.metrics if name not in QUICK]
            values |= validation_values(counts, names)
        return values

    def _sampled(self, states: Any) -> dict[str, float]:
        by_hits = (HITS,) if self.settings.metric == HITS else ()
        scores = self.module.logits(states, self._sample)[:, -1].double().numpy()
        if not np.isfinite(scores).all():  # no epoch is chosen by such values
            return dict.fromkeys((*SAMPLED, *by_hits), math.nan)
        positives = len(self.validation)
        counts = counts_of_scores(scores[:positives], scores[positives:])
        auc, ap = metrics.area_under_roc(counts), metrics.average_precision(counts)
        values = dict(zip(SAMPLED, (auc, ap, (auc + ap) / 2), strict=True))
        return values | {name: metrics.hits_at(counts, 50) for name in by_hits}


def _make_negatives(num_nodes: int, edges: IntArray, settings: NetworkSettings) -> Any:
    """Return a function of (epoch, batch, positives): negatives and their groups."""
    if settings.training == "biased":
        pool = NegativePairs(num_nodes, edges)

        def draw(epoch: int, batch: int, count: int) -> tuple[IntArray, Any]:
            when = epoch if settings.redraw else 0
            random = generator(settings.seed, "negatives", when, batch)
            groups = np.repeat(np.arange(count, dtype=np.int32), settings.negatives)
            return pool.sample(len(groups), random), groups

        return draw
    structure = WalkStructure(num_nodes, edges)
    sampler = UnbiasedNegatives(
        structure, edges, batches=settings.batches, seed=settings.seed
    )

    def deal(epoch: int, batch: int, count: int) -> tuple[IntArray, Any]:
        dealt = sampler.draw(epoch, batch, count, _unscored)
        ends = (dealt.lists.rows(), dealt.lists.listed_columns())
        pairs = np.stack([structure.outside[end] for end in ends], axis=1)
        return pairs, dealt.groups

    return deal


def _unscored(lists: Any) -> Any:
    raise AssertionError("dealing out negatives needs no scores")


class _Given(torch.autograd.Function):
    """A value whose gradients are known."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, known: list[Tensor], *_: Tensor) -> Tensor:
        ctx.known = known
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        return None, None, *(known * gradients[0] for known in ctx.known)


def clipped(value: Tensor, groups: list[list[nn.Parameter]]) -> Tensor:
    """Return a value whose gradients have at most norm 1 in every group.

    Parameters
    ----------
    value : Tensor
        A loss; its graph is used up.
    groups : list of lists of Parameter
        All parameters that should learn, by group.
    """
    parameters = [parameter for group in groups for parameter in group]
    found = torch.autograd.grad(value, parameters, allow_unused=True)
    pairs = zip(parameters, found, strict=True)
    gradients = {id(p): g for p, g in pairs if g is not None}
    scaled: list[Tensor] = []
    used: list[nn.Parameter] = []
    for group in groups:
        own = [p for p in group if id(p) in gradients]
        norm = math.sqrt(
            sum(float(gradients[id(p)].double().pow(2).sum()) for p in own)
        )
        scale = 1.0 / norm if norm > 1.0 else 1.0
        scaled += [gradients[id(p)] * scale for p in own]
        used += own
    return cast(Tensor, _Given.apply(value.detach(), scaled, *used))  # type: ignore[no-untyped-call]
