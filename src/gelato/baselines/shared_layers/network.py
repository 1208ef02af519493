"""The ranges of the networks' parameters, checked before any work is done."""

from __future__ import annotations

import copy
import difflib
import math
import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from gelato.baselines.shared_layers.link_module import LinkModule
from gelato.baselines.shared_layers.messages import FEATURES
from gelato.baselines.shared_layers.network_task import (
    LAST,
    SAMPLED,
    NetworkSettings,
    NetworkTask,
)
from gelato.errors import UnknownNameError, UsageError
from gelato.graph import Graph
from gelato.models.base import Model
from gelato.models.gelato_checks import check_split
from gelato.models.trained import TrainedModel, fill_module
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit, as_data
from gelato.storage import Run
from gelato.training.gelato_task import refuse_few_negatives
from gelato.training.loop import EpochReport, TrainSettings
from gelato.training.validation import validation_metric

# Smallest value of every whole number.
_WHOLE = {
    "hidden": 1,
    "dimensions": 1,
    "layers": 1,
    "edge_units": 1,
    "pair_units": 1,
    "simplex_units": 1,
    "simplex_dimensions": 1,
    "sampled_edges": 1,
    "batch_size": 1,
    "hops": 1,
    "max_nodes": 2,
    "steps": 1,
    "pretraining": 1,
    "units": 1,
    "epochs": 1,
    "batches": 1,
    "validate_every": 1,
    "validate_exact_every": 1,
    "patience": 1,
    "seed": 0,
}
_OPTIONAL = ("patience", "validate_exact_every", "max_nodes", "steps")
# What every other number must be.
_NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "dropout": (lambda x: 0 <= x < 1, "at least 0 and below 1"),
    "lr": (lambda x: x > 0, "above 0"),
    "weight_decay": (lambda x: x >= 0, "0 or larger"),
    "valid": (lambda x: 0 < x < 1, "above 0 and below 1"),
    "beta": (lambda x: x >= 0, "0 or larger"),
    "curvature": (lambda x: x > 0, "above 0"),
}
_CHOICES = {
    "training": ("biased", "unbiased"),
    "loss": ("cross-entropy", "balanced", "n-pair"),
    "negatives": ("weighted", "redrawn", "fixed"),
    "activation": ("relu", "elu"),
}
_FLAGS = ("normalise", "variational", "trainable_curvature", "hide_target")


def check_gnn(
    parameters: dict[str, Any], *, features: tuple[str, ...] = FEATURES
) -> None:
    """Raise unless every parameter of a network is in its range.

    ``features`` are the kinds that the network knows.
    """
    choices = _CHOICES | {"features": features}
    for name, value in parameters.items():
        if value is None and (name in _OPTIONAL or name == "masking"):
            continue
        if name in _WHOLE:
            _check_whole(name, value)
        elif name in _NUMBERS:
            _check_number(name, value)
        elif name in choices:
            _check_choice(name, value, choices[name])
        elif (name in _FLAGS or name == "masking") and not isinstance(value, bool):
            raise UsageError(f"{name} is {value!r}, but must be true or false.")
    if parameters["metric"] not in (*SAMPLED, LAST):
        _check_metric(parameters["metric"])


def _check_whole(name: str, value: Any) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < _WHOLE[name]:
        raise UsageError(
            f"{name} is {value!r}, but must be a whole number of at least "
            f"{_WHOLE[name]}."
        )


def _check_number(name: str, value: Any) -> None:
    allows, expected = _NUMBERS[name]
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not allows(value):
        raise UsageError(f"{name} is {value!r}, but must be a number {expected}.")


def _check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(
            f"{name} is {value!r}, which is not known.{meant}",
            hint=f"Known: {', '.join(known)}.",
        )


def _check_metric(name: Any) -> None:
    try:
        validation_metric(name)
    except UnknownNameError as error:
        own = ", ".join((*SAMPLED, LAST))
        raise UnknownNameError(
            error.problem, hint=f"{error.hint} Or: {own}."
        ) from error


@dataclass(kw_only=True, repr=False, eq=False)
class GNNModel(TrainedModel):
    """A network whose node states score pairs; see its subclasses.

    Parameters that all share:

    features : {"attributes", "one-hot", "degree"}
        What the network is given about nodes.
    training : {"biased", "unbiased"}
        As many negatives as positives, or every negative once an epoch.
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
        without a better one end the training. "sampled-auc", "sampled-ap" and
        "sampled-mean" are of a balanced validation sample; "last" keeps the last
        epoch; "prec@100%", "ap", ... rank all pairs.
    validate_exact_every : int, optional
        Epochs between rankings of all pairs that are only recorded.
    valid : float
        Share of the edges held out for validation when fitted on a bare graph.
    seed : int
        Decides initial weights, dropout, batches and negatives.
    """

    undirected_only = True
    module_: LinkModule = field(init=False)
    notes_: tuple[str, ...] = field(default=(), init=False)

    features: str = "attributes"
    training: str = "biased"
    loss: str = "cross-entropy"
    masking: bool | None = None
    batches: int = 1
    lr: float = 0.01
    weight_decay: float = 0.0
    epochs: int = 200
    metric: str = "sampled-auc"
    validate_every: int = 1
    validate_exact_every: int | None = 100
    patience: int | None = None
    valid: float = 0.05
    seed: int = 0

    @abstractmethod
    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> LinkModule:
        """Return the network for a graph, drawing from torch's generator.

        ``stored`` is the state that it will be given, if it was trained before.
        """

    def fit(
        self,
        data: Graph | EdgeSplit,
        *,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: EpochReport | None = None,
        on_step: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Train on the training edges; keep the epoch that validation selects.

        Parameters
        ----------
        data : Graph or EdgeSplit
            A bare graph holds out ``valid`` of its own edges for validation.
        folder : path, optional
            Where checkpoints go.
        resume : bool
            Go on from the folder's checkpoint, if there is one.
        on_epoch, on_step : callable, optional
            Told of every epoch and every step; see :func:`gelato.training.loop.train`.
        """
        self.check_parameters()
        data = as_data(data)
        graph = data.graph if isinstance(data, EdgeSplit) else data
        graph.require_undirected(f"{self.summary} ({self.name})")
        split = data if isinstance(data, EdgeSplit) else self._held_out(data)
        settings = self._settings(split)
        check_split(split, settings.batches)
        refuse_few_negatives(split.train_graph)
        super().fit(split)
        self.notes_ = self._notes(settings)
        module = self._made(split.train_graph)
        self._train(
            self._task(module, split, settings),
            split,
            folder=folder,
            resume=resume,
            on_epoch=on_epoch,
            on_step=on_step,
        )
        self.module_ = module
        return self

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when messages pass over the edges of ``graph``."""
        module = getattr(self, "module_", None)
        if module is None:
            raise UsageError(
                f"{type(self).__name__} has not been trained.", hint="Call fit first."
            )
        graph.require_undirected(f"{self.summary} ({self.name})")
        with torch.no_grad():
            scorer: RowScorer = module.scorer(module.encode(module.prepare(graph)))
            return scorer

    def untrained(self, split: EdgeSplit) -> Self:
        """Return a copy with its first weights, to see what ranking costs."""
        fresh = copy.copy(self)
        Model.fit(fresh, split)
        fresh.training_ = None
        fresh.module_ = self._made(split.train_graph)
        fresh.module_.eval()
        return fresh

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range."""
        check_gnn(self.get_params())

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
        task = self._task(self._made(split.train_graph).eval(), split, settings)
        # The first one may also load compiled code.
        return min(_seconds(task.validate) for _ in range(2))

    @property
    def ranking_every(self) -> int | None:
        """Epochs between rankings of all pairs beside sampled validations."""
        if self.validate_exact_every is None or not self._samples_validation():
            return None
        return math.lcm(self.validate_exact_every, self.validate_every)

    def _samples_validation(self) -> bool:
        return self.metric in (*SAMPLED, LAST)

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
            metric=self.metric,
            exact_every=self.validate_exact_every,
            epochs=self.epochs,
            seed=self.seed,
        )

    def _train_settings(self) -> TrainSettings:
        return replace(super()._train_settings(), weight_decay=self.weight_decay)

    def _task(
        self, module: LinkModule, split: EdgeSplit, settings: NetworkSettings
    ) -> NetworkTask:
        return NetworkTask(module, split, settings)

    def _notes(self, settings: NetworkSettings) -> tuple[str, ...]:
        if self.features == "attributes":
            return ()
        return (f"features: {self.features}; attributes are not used",)

    def _made(
        self, graph: Graph, stored: dict[str, Tensor] | None = None
    ) -> LinkModule:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self._build(graph, stored)

    def _store(self, run: Run) -> None:
        run.tensors |= self.module_.state_dict()
        self._store_training(run)

    def _restore(self, run: Run) -> None:
        self._restore_training(run)
        self.module_ = self._made(run.graph, run.tensors)
        fill_module(self.module_, run, "")


def _seconds(work: Callable[[], Any]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started
