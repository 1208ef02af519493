"""What all models share that are trained epoch by epoch: one way to fit."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from gelato.errors import InputError, StoredFileError, UsageError
from gelato.graph import Graph
from gelato.io.locking import locked_folder
from gelato.models.base import Model
from gelato.parameters import Dimension, Parameter, number, unlisted, whole
from gelato.splits import EdgeSplit, as_data, split_edges
from gelato.storage import Run, make_folder
from gelato.text import notebook_progress
from gelato.training.loop import (
    PLAIN,
    EpochReport,
    FitOptions,
    Task,
    Training,
    TrainSettings,
    train,
)
from gelato.training.validation import refuse_few_negatives, validation_metric

# What searches try where a model's authors leave it open.
DROPOUTS = Dimension((0.5, 0.0, 0.25), 0.0, 0.8, step=0.05)
WIDTHS = unlisted(32, 64, 128, 256)


def _check_metric(name: str, value: Any) -> None:
    validation_metric(value)


class TrainedModel(Model):
    """A model whose :meth:`fit` runs the shared training loop.

    A subclass makes a module, :meth:`_module`, and says how it is trained,
    :meth:`_task`. Parameters, checkpoints, history and what is stored are the same for
    all.

    Attributes
    ----------
    training_ : Training or None
        History, best epoch and skipped steps; None where nothing was trained.
    steps_ : int
        Steps per epoch, known once training begins.
    """

    trains_by_epoch = True

    batches: int = whole(10)
    lr: float = number(1e-3, above=0)
    epochs: int = whole(100)
    metric: str = Parameter("prec@100%", _check_metric)  # type: ignore[assignment]
    validate_every: int = whole(1)
    patience: int | None = whole(None)
    valid: float = number(0.05, above=0, below=1)
    seed: int = whole(0, least=0)

    training_: Training | None = None
    steps_: int
    module_: Any
    _options: FitOptions = PLAIN
    _rehearsing = False
    _prefix: ClassVar[str] = ""  # of the names of stored weights
    later_parameters: ClassVar[tuple[str, ...]] = ("redraw",)

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
        data : EdgeSplit, Graph, or whatever ``gelato.read_graph`` reads
            A bare graph holds out ``valid`` of its own edges for validation.
        folder : path, optional
            Where checkpoints go.
        resume : bool
            Go on from the folder's checkpoint, if there is one.
        on_epoch, on_step : callable, optional
            Told of every epoch and every step; see :func:`gelato.training.loop.train`.
            Without them notebooks show a bar.
        """
        split = self._begin(data)
        if split is None:
            return self
        place = None if folder is None else Path(folder)
        with notebook_progress(f"training {self.name}") as shown:

            def show(entry: dict[str, Any], state: Any) -> None:
                assert shown is not None
                shown(f"epoch {entry['epoch']}", entry["epoch"], self.epochs)

            if on_epoch is None and shown is not None:
                on_epoch = show
            self._options = FitOptions(place, resume, on_epoch, on_step)
            try:
                task = self._task(split)
                self.steps_ = task.batches
                self.training_ = self._trained(task, split)
                task.module.eval()
                self._keep(task)
            finally:
                self._options = PLAIN
        return self

    def untrained(self, split: EdgeSplit) -> Any:
        """Return a copy with its first weights, to see what ranking costs."""
        fresh = copy.copy(self)
        Model.fit(fresh, split)
        fresh.training_ = None
        fresh._start(split.train_graph)
        return fresh

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Let trainings begin without long preparation, to time their steps."""
        self._rehearsing = True
        try:
            yield
        finally:
            self._rehearsing = False

    def preparation_seconds(self, split: EdgeSplit) -> float:
        """Return about how long it takes until training begins."""
        return 0.0

    def validation_seconds(self, split: EdgeSplit, step_seconds: float) -> float | None:
        """Return what a validation takes, given a step; None if it ranks all pairs."""
        return None

    @property
    def ranking_every(self) -> int | None:
        """Epochs between rankings of all pairs beside sampled validations."""
        return None

    @abstractmethod
    def _module(self, graph: Graph, stored: dict[str, Tensor] | None = None) -> Any:
        """Return a module for a graph with its first weights.

        ``stored`` is the state that it will be given, if it was trained before.
        """

    @abstractmethod
    def _task(self, split: EdgeSplit) -> Task:
        """Return what is trained on a split."""

    def _keep(self, task: Any) -> None:
        """Take what was learned from a task, at its best epoch."""
        self.module_ = task.module

    def _start(self, graph: Graph) -> None:
        """Take first weights for a graph, as if they had been learned."""
        self.module_ = self._module(graph).eval()

    def _learns(self, graph: Graph) -> bool:
        """Tell whether anything is learned from a graph."""
        return True

    def _check_split(self, split: EdgeSplit) -> None:
        """Raise, before any work, if a split cannot be trained on."""
        check_split(split, self._parts(split))
        refuse_few_negatives(split.train_graph)

    def _parts(self, split: EdgeSplit) -> int:
        """Return how many parts an epoch cuts the training edges into."""
        return self.batches

    def _begin(self, data: Graph | EdgeSplit) -> EdgeSplit | None:
        """Check parameters and data; return what to train on, if anything."""
        self.check_parameters()
        data = as_data(data)
        graph = data.graph if isinstance(data, EdgeSplit) else data
        self._check_graph(graph)
        self.training_, self.notes_ = None, ()
        if not self._learns(graph):
            Model.fit(self, data)
            self._start(data.train_graph if isinstance(data, EdgeSplit) else data)
            return None
        split = data if isinstance(data, EdgeSplit) else self._held_out(data)
        self._check_split(split)
        Model.fit(self, split)
        return split

    def _check_graph(self, graph: Graph) -> None:
        """Raise unless a graph has what the class needs."""
        if self.undirected_only:
            graph.require_undirected(f"{self.summary} ({self.name})")
        if self.needs_attributes and graph.num_attributes == 0:
            raise UsageError(
                f"The model {self.name!r} learns from node attributes, and this graph "
                "has none.",
                hint="Use a heuristic such as 'ac', or give attributes.",
            )

    def _trained(self, task: Task, split: EdgeSplit) -> Training:
        """Train a task; its module is left at the best epoch."""
        settings, identity = self._train_settings(), self._identity(split)
        if self._options.folder is None:
            return train(task, settings, self._options, identity=identity)
        # Two trainings would overwrite each other's checkpoints.
        with locked_folder(make_folder(self._options.folder)):
            return train(task, settings, self._options, identity=identity)

    def _train_settings(self) -> TrainSettings:
        return TrainSettings(
            epochs=self.epochs,
            lr=self.lr,
            metric=self.metric,
            validate_every=self.validate_every,
            patience=self.patience,
            seed=int(self.seed),
        )

    def _held_out(self, graph: Graph) -> EdgeSplit:
        return split_edges(graph, valid=self.valid, test=0.0, seed=self.seed)

    def _identity(self, split: EdgeSplit) -> dict[str, Any]:
        """Return what must be equal for a training to be resumed."""
        named = {
            name: _name_of(value) if callable(value) else value
            for name, value in self.telling_params().items()
        }
        return {"split": split.fingerprint, **named}

    def _store(self, run: Run) -> None:
        state = self.module_.state_dict()
        run.tensors |= {f"{self._prefix}{name}": state[name] for name in state}
        self._store_training(run)

    def _restore(self, run: Run) -> None:
        self._restore_training(run)
        self.module_ = self._module(run.graph, run.tensors)
        fill_module(self.module_, run, self._prefix)

    def _store_training(self, run: Run) -> None:
        if self.training_ is not None:
            run.history = self.training_.history
            run.facts |= {
                "best_epoch": self.training_.best_epoch,
                "best_value": self.training_.best_value,
                "skipped_steps": self.training_.skipped,
            }

    def _restore_training(self, run: Run) -> None:
        self.training_ = None
        if run.history:
            self.training_ = Training(
                run.history,
                run.facts.get("best_epoch", 0),
                run.facts.get("best_value", 0.0),
                run.facts.get("skipped_steps", 0),
            )


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def check_split(split: EdgeSplit, batches: int) -> None:
    """Raise unless a split can be trained on."""
    if len(split.train) < batches:
        raise InputError(
            f"There are {len(split.train)} training edges, too few for {batches} "
            "batches.",
            hint="Use fewer batches, or give more edges.",
        )
    if not len(split.valid):
        raise InputError(
            "The validation part of the split is empty, so no epoch can be chosen.",
            hint="Hold out some edges: split_edges(graph, valid=0.05); a small graph "
            "fitted as it is needs a larger share, valid=0.2.",
        )


def fill_module(module: nn.Module, run: Run, prefix: str) -> nn.Module:
    """Give a module its stored weights, and set it to evaluation."""
    stored = {
        name.removeprefix(prefix): value
        for name, value in run.tensors.items()
        if name.startswith(prefix)
    }
    try:
        module.load_state_dict(stored)
    except RuntimeError as error:
        raise StoredFileError(
            f"The stored weights do not fit the model: {error}",
            hint="The files of the folder do not belong together.",
        ) from error
    return module.eval()
