"""What all networks share: parameters, training task, and what is stored."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from gelato.baselines.shared_layers.link_module import LinkModule
from gelato.baselines.shared_layers.network_task import (
    QUICK,
    NetworkSettings,
    NetworkTask,
)
from gelato.errors import UnknownNameError, UsageError
from gelato.graph import Graph
from gelato.models.trained import TrainedModel
from gelato.nn.messages import FEATURES
from gelato.parameters import Dimension, Parameter, choice, flag, number, whole
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit
from gelato.training.loop import TrainSettings
from gelato.training.validation import validation_metric

# Around what the networks' authors give: from 0.001 to 0.01.
LEARNING_RATES = Dimension((0.01, 0.001, 0.005, 0.02), 5e-4, 5e-2, log=True)


def _check_metric(name: str, value: Any) -> None:
    if value in QUICK:
        return
    try:
        validation_metric(value)
    except UnknownNameError as error:
        own = ", ".join(QUICK)
        raise UnknownNameError(
            error.problem, hint=f"{error.hint} Or: {own}."
        ) from error


class GNNModel(TrainedModel):
    """A network whose node states score pairs; see its subclasses.

    Parameters that all share:

    features : {"attributes", "one-hot", "degree"}
        What the network is given about nodes.
    training : {"biased", "unbiased"}
        As many negatives as positives, or every negative once an epoch.
    redraw : bool
        Draw the negatives of biased training anew each epoch, or once, as the paper's
        authors do.
    loss : {"cross-entropy", "balanced", "n-pair"}
        Training loss. "balanced" is the cross entropy with positives and negatives
        averaged apart, so that all negatives weigh as much as all positives.
    masking : bool, optional
        Hide a step's positives from the messages; default only if unbiased.
    batches : int
        Steps per epoch: 1 as in the reference where training is biased. Unbiased
        training needs more (10 in the paper), since a step hides its positives.
    lr, weight_decay, epochs
        Of Adam, and the most passes over the training edges.
    metric, validate_every, patience
        What selects the epoch, how often it is measured, and how many measurements
        without a better one end the training. "sampled-auc", "sampled-ap",
        "sampled-mean" and "sampled-hits@50" are of a balanced validation sample;
        "last" keeps the last epoch; "prec@100%", "ap", ... rank all pairs.
    validate_exact_every : int, optional
        Epochs between rankings of all pairs that are only recorded.
    valid : float
        Share of the edges held out for validation when fitted on a bare graph.
    seed : int
        Decides initial weights, dropout, batches and negatives.
    """

    undirected_only = True

    features: str = choice("attributes", FEATURES)
    training: str = choice("biased", ("biased", "unbiased"))
    redraw: bool = flag(True)
    loss: str = choice("cross-entropy", ("cross-entropy", "balanced", "n-pair"))
    masking: bool | None = flag(None)
    batches: int = 1
    lr: float = 0.01
    weight_decay: float = number(0.0, least=0)
    epochs: int = 200
    metric: str = Parameter("sampled-auc", _check_metric)  # type: ignore[assignment]
    validate_exact_every: int | None = whole(100, optional=True)

    module_: LinkModule

    @abstractmethod
    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> LinkModule:
        """Return the network for a graph, drawing from torch's generator.

        ``stored`` is the state that it will be given, if it was trained before.
        """

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when messages pass over the edges of ``graph``."""
        if "module_" not in vars(self):
            raise UsageError(
                f"{type(self).__name__} has not been trained.", hint="Call fit first."
            )
        graph.require_undirected(f"{self.summary} ({self.name})")
        module = self.module_
        with torch.no_grad():
            scorer: RowScorer = module.scorer(module.encode(module.prepare(graph)))
            return scorer

    def validation_seconds(self, split: EdgeSplit, step_seconds: float) -> float | None:
        """Return what a validation takes; None if it ranks all pairs.

        Parameters
        ----------
        split : EdgeSplit
            What is trained on.
        step_seconds : float
            Time of a training step.
        """
        if not self._samples_validation():
            return None
        settings = replace(self._settings(split), exact_every=None)
        task = self._network_task(
            self._module(split.train_graph).eval(), split, settings
        )
        # The first one may also load compiled code.
        return min(_seconds(task.validate) for _ in range(2))

    @property
    def ranking_every(self) -> int | None:
        """Epochs between rankings of all pairs beside sampled validations."""
        if self.validate_exact_every is None or not self._samples_validation():
            return None
        return math.lcm(self.validate_exact_every, self.validate_every)

    def _samples_validation(self) -> bool:
        return self.metric in QUICK

    def _batching(self, num_edges: int) -> tuple[int, int]:
        """Return how many parts positives are cut into, and how many are visited."""
        return self.batches, self.batches

    def _settings(self, split: EdgeSplit) -> NetworkSettings:
        unbiased = self.training == "unbiased"
        masking = unbiased if self.masking is None else self.masking
        batches, steps = self._batching(len(split.train))
        if masking and batches == 1:
            raise UsageError(
                "A single batch with masking hides every edge of the graph (masking is "
                "on in unbiased training).",
                hint="Use batches=10, or masking=False.",
            )
        return NetworkSettings(
            training=self.training,
            loss=self.loss,
            masking=masking,
            batches=batches,
            steps=steps,
            redraw=self.redraw,
            metric=self.metric,
            exact_every=self.validate_exact_every,
            epochs=self.epochs,
            seed=self.seed,
        )

    def _train_settings(self) -> TrainSettings:
        return replace(super()._train_settings(), weight_decay=self.weight_decay)

    def _parts(self, split: EdgeSplit) -> int:
        return self._settings(split).batches

    def _task(self, split: EdgeSplit) -> NetworkTask:
        settings = self._settings(split)
        self.notes_ = self._notes(settings)
        return self._network_task(self._module(split.train_graph), split, settings)

    def _network_task(
        self, module: LinkModule, split: EdgeSplit, settings: NetworkSettings
    ) -> NetworkTask:
        """Return how a network is trained."""
        return NetworkTask(module, split, settings)

    def _notes(self, settings: NetworkSettings) -> tuple[str, ...]:
        if self.features == "attributes":
            return ()
        return (f"features: {self.features}; attributes are not used",)

    def _module(
        self, graph: Graph, stored: dict[str, Tensor] | None = None
    ) -> LinkModule:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self._build(graph, stored)


class HidingModel(GNNModel):
    """A network whose biased training hides a step's positives, by steps of a size.

    batch_size : int
        Positives per step where training is biased. Fewer where a step would hold,
        and hide, every edge.
    """

    batch_size: int = whole(1024)
    batches: int = 10
    masking: bool | None = True

    def _batching(self, num_edges: int) -> tuple[int, int]:
        if self.training == "unbiased":
            return super()._batching(num_edges)
        steps = max(-(-num_edges // self.batch_size), 2 if self.masking else 1)
        return steps, steps


def _seconds(work: Callable[[], Any]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started
