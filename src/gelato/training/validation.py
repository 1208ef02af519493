"""Values that can select an epoch, by name, from two counts per positive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from gelato.errors import InputError, UnknownNameError
from gelato.graph import Graph, IntArray
from gelato.kernels.chunks import generator
from gelato.nn.autocovariance import (
    TrainingPairs,
    choose_sigma,
    estimated_squares,
    list_scores,
    sum_of_squares,
)
from gelato.ranking import RankCounts, all_pairs, metrics, rank_counts
from gelato.ranking.scorers import RowScorer
from gelato.training.loop import Clock
from gelato.training.negatives import NegativePairs, PositiveBatches

Metric = Callable[[RankCounts], float]

_NAMED: dict[str, Metric] = {
    "ap": metrics.average_precision,
    "auc": metrics.area_under_roc,
    "mrr": metrics.mean_reciprocal_rank,
}
REPORTED = ("prec@100%", *_NAMED)
"""What every validation reports."""


def validation_metric(name: str) -> Metric:
    """Return a metric by name: ap, auc, mrr, prec@R% or hits@K; larger is better.

    Examples
    --------
    >>> validation_metric("prec@50%").keywords
    {'ratio': 0.5}
    """
    if name in _NAMED:
        return _NAMED[name]
    precision = re.fullmatch(r"prec@([1-9]\d*)%", str(name))
    if precision:
        return partial(metrics.precision_at_ratio, ratio=int(precision[1]) / 100)
    hits = re.fullmatch(r"hits@([1-9]\d*)", str(name))
    if hits:
        return partial(metrics.hits_at, k=int(hits[1]))
    raise UnknownNameError(
        f"There is no validation metric {name!r}.",
        hint=f"Known: {', '.join(_NAMED)}, prec@100% (any share), hits@100 (any k).",
    )


def validation_values(counts: RankCounts, names: Iterable[str]) -> dict[str, float]:
    """Return the named metrics of a ranking."""
    return {name: validation_metric(name)(counts) for name in names}


class RankedTask:
    """What tasks share whose validation ranks held-out edges among all pairs.

    Parameters
    ----------
    graph : Graph
        The training graph.
    validation : (k, 2) int64
        Held-out edges that select the epoch.
    batches : int
        Steps per epoch.
    metric : str
        Validation reports this value besides the usual ones.
    seed : int
        Decides batches and negatives.
    """

    def __init__(
        self,
        graph: Graph,
        validation: IntArray,
        *,
        batches: int,
        metric: str,
        seed: int,
    ) -> None:
        refuse_few_negatives(graph)
        self.batches, self.clock, self.validation = batches, Clock(), validation
        self.metrics = tuple(dict.fromkeys([*REPORTED, metric]))
        self.positives = PositiveBatches(graph.num_edges, batches=batches, seed=seed)
        self.candidates = all_pairs(graph, graph.edges)

    def ranked(self, scorer: RowScorer) -> dict[str, float]:
        """Rank the validation edges among all pairs that are not training edges."""
        counts = rank_counts(scorer, self.validation, self.candidates)
        return validation_values(counts, self.metrics)


def refuse_few_negatives(graph: Graph) -> None:
    """Raise unless there are as many pairs without an edge as with one."""
    negatives = graph.num_non_edges
    if negatives < graph.num_edges:
        raise InputError(
            f"The graph has {graph.num_edges:,} training edges but only "
            f"{negatives:,} pairs that are not edges.",
            hint="Gelato learns from sparse graphs; use a heuristic here.",
        )


# Enough that the sample is no source of noise, and a fraction of a step's cost.
_SAMPLE = 500_000


class ValidationLoss:
    """What the training loss is on validation edges, with the whole training graph.

    They are compared with a uniform sample of the pairs that are neither training nor
    validation edges, the same in every epoch. Nothing is selected by it: it shows
    whether a loss that falls in training falls for unseen edges, too.

    Parameters
    ----------
    pairs : TrainingPairs
        Training edges and diagonal.
    validation : (k, 2) int64
        The held-out edges.
    t : int
        Length of the walk.
    seed : int
        Draws the sample.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        validation: IntArray,
        *,
        t: int,
        seed: int,
    ) -> None:
        structure = pairs.structure
        known = np.unique(np.concatenate([pairs.training_edges, validation]), axis=0)
        negatives = NegativePairs(structure.num_nodes, known)
        random = generator(seed, "validation loss")
        drawn = negatives.sample(min(_SAMPLE, negatives.count), random)
        lists, order = structure.sort_pairs(np.concatenate([validation, drawn]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.pairs, self.lists = pairs, lists
        self.positives = torch.from_numpy(place[: len(validation)])
        self.negatives = torch.from_numpy(place[len(validation) :])
        # As equal groups as can be; the sample is in no order.
        groups = np.arange(len(drawn)) % len(validation)
        self.groups = groups.astype(np.int32)
        self.walk = pairs.walk(t)

    def value(self, loss: nn.Module, weights: Tensor) -> float:
        """Return the loss under given weights of the enhanced edges."""
        n = self.pairs.structure.num_nodes
        with torch.no_grad():
            steady, drawn = list_scores(
                weights, self.walk, (self.pairs.lists, self.lists)
            )
            negative = drawn[self.negatives]
            if choose_sigma(n, len(negative), uniform=True) == "exact":
                squares = sum_of_squares(weights, self.walk)
            else:
                squares = estimated_squares(steady, negative, self.pairs)
            scale = (squares / (n * n - 1.0)).rsqrt().to(weights.dtype)
            z = (drawn[self.positives] * scale, negative * scale)
            return float(loss(*z, self.groups))
