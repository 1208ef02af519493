"""What all models share that are trained epoch by epoch."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from torch import nn

from gelato.errors import StoredFileError
from gelato.graph import Graph
from gelato.io.locking import locked_folder
from gelato.models.base import Model
from gelato.splits import EdgeSplit, split_edges
from gelato.storage import Run, make_folder
from gelato.training.loop import EpochReport, Task, Training, TrainSettings, train


class TrainedModel(Model):
    """A model whose ``fit`` runs the shared training loop.

    A subclass makes the task and calls :meth:`_train`; parameters, checkpoints,
    history and what is stored of them are the same for all.

    Attributes
    ----------
    training_ : Training or None
        History, best epoch and skipped steps; None where nothing was trained.
    steps_ : int
        Steps per epoch, known once training begins.
    """

    lr: float
    epochs: int
    metric: str
    validate_every: int
    patience: int | None
    valid: float
    seed: int
    training_: Training | None
    steps_: int

    def _train(
        self,
        task: Task,
        split: EdgeSplit,
        *,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: EpochReport | None = None,
        on_step: Callable[[int, int], None] | None = None,
    ) -> None:
        """Train a task; its module is left at the best epoch, in evaluation mode."""
        self.steps_ = task.batches
        place = None if folder is None else make_folder(folder)
        # Two trainings would overwrite each other's checkpoints.
        with nullcontext() if place is None else locked_folder(place):
            self.training_ = train(
                task,
                self._train_settings(),
                folder=place,
                resume=resume,
                identity=self._identity(split),
                on_epoch=on_epoch,
                on_step=on_step,
            )
        task.module.eval()

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
        given = {k: v for k, v in self.get_params().items() if k != "threads"}
        named = {
            k: getattr(v, "__qualname__", type(v).__name__) if callable(v) else v
            for k, v in given.items()
        }
        return {"split": split.fingerprint, **named}

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
