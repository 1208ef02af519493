"""The training loop that every trained model shares.

It knows nothing of graphs: a task gives losses and validation values, the loop
steps the optimiser, keeps the best epoch, writes checkpoints and can resume.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn, optim

from gelato.errors import GelatoError, UsageError
from gelato.training.checkpoints import Progress, load_checkpoint, save_checkpoint
from gelato.training.clock import Clock

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.safetensors"


class Task(Protocol):
    """What is trained."""

    batches: int
    clock: Clock

    @property
    def module(self) -> nn.Module:
        """What is learned."""
        ...

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step; epochs count from 1, batches from 0."""
        ...

    def validate(self) -> dict[str, float]:
        """Return validation values by name, of the module as it is."""
        ...


@dataclass(frozen=True)
class TrainSettings:
    """How a task is trained.

    Parameters
    ----------
    epochs : int
        Passes over the training set.
    lr : float
        Learning rate of Adam.
    weight_decay : float
        L2 penalty of Adam.
    metric : str
        Validation value, larger is better, that selects the epoch.
    validate_every : int
        Epochs between validations; the last epoch is always validated.
    patience : int, optional
        Stop after this many validations without a better value; default never.
    checkpoint_seconds : float
        Least time between two checkpoints.
    """

    epochs: int = 100
    lr: float = 1e-3
    weight_decay: float = 0.0
    metric: str = "prec@100%"
    validate_every: int = 1
    patience: int | None = None
    checkpoint_seconds: float = 20.0

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise UsageError(f"epochs is {self.epochs}, but must be at least 1.")
        if self.validate_every < 1:
            raise UsageError(
                f"validate_every is {self.validate_every}, but must be at least 1."
            )
        if self.patience is not None and self.patience < 1:
            raise UsageError(f"patience is {self.patience}, but must be at least 1.")
        if not self.lr > 0:
            raise UsageError(f"lr is {self.lr}, but must be positive.")


@dataclass(frozen=True)
class Training:
    """What came out of a training.

    Parameters
    ----------
    history : list of dict
        One entry per epoch: loss, seconds by phase, validation values, skipped steps.
    best_epoch : int
        Epoch whose weights were kept.
    best_value : float
        Its validation value.
    skipped : int
        Steps skipped because a gradient was not finite.
    """

    history: list[dict[str, Any]]
    best_epoch: int
    best_value: float
    skipped: int

    @property
    def seconds(self) -> float:
        """Time taken by all epochs, also of earlier sittings."""
        return float(sum(entry["seconds"] for entry in self.history))


EpochReport = Callable[[dict[str, Any], Progress], None]


def train(
    task: Task,
    settings: TrainSettings,
    *,
    folder: Path | None = None,
    resume: bool = False,
    identity: dict[str, Any] | None = None,
    on_epoch: EpochReport | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> Training:
    """Train a task and leave its module at the best epoch.

    Parameters
    ----------
    task : Task
        Losses and validation.
    settings : TrainSettings
        Epochs, learning rate, selection.
    folder : Path, optional
        Where checkpoints go; without it none are written.
    resume : bool
        Continue from the folder's checkpoint, if there is one, to the same result.
    identity : dict, optional
        Stored with checkpoints; resuming a different training is refused.
    on_epoch, on_step : callable, optional
        Told of every finished epoch, and of every step as (epoch, batch).
    """
    optimiser = optim.Adam(
        task.module.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )
    state = Progress()
    store = _Store(folder, identity or {}, settings.checkpoint_seconds)
    if resume and store.path is not None and store.path.exists():
        state = load_checkpoint(store.path, task.module, optimiser, store.identity)
        store.saved_epoch = state.epoch
        logger.info("resuming after epoch %d of %d", state.epoch, settings.epochs)
    try:
        while state.epoch < settings.epochs and not _out_of_patience(state, settings):
            entry = _one_epoch(task, optimiser, settings, state, on_step)
            store.save(task.module, optimiser, state, final=False)
            if on_epoch is not None:
                on_epoch(entry, state)
    except KeyboardInterrupt:
        # Steps of the broken epoch are in the module, so what is on disk must stay.
        store.interrupted(state)
        raise
    if state.best_value is None:
        raise GelatoError(
            f"No epoch gave a validation value: all {state.skipped} steps failed.",
            hint="Are the attributes or weights extreme? Try a smaller lr.",
        )
    store.save(task.module, optimiser, state, final=True)
    task.module.load_state_dict(state.best_state)
    return Training(state.history, state.best_epoch, state.best_value, state.skipped)


def _one_epoch(
    task: Task,
    optimiser: optim.Optimizer,
    settings: TrainSettings,
    state: Progress,
    on_step: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    started = time.perf_counter()
    epoch = state.epoch + 1
    task.module.train()
    losses: list[float] = []
    skipped = 0
    for batch in range(task.batches):
        loss = _step(task, optimiser, epoch, batch)
        if loss is None:
            skipped += 1
        else:
            losses.append(loss)
        if on_step is not None:
            on_step(epoch, batch)
    entry: dict[str, Any] = {
        "epoch": epoch,
        "loss": sum(losses) / len(losses) if losses else None,
        "skipped": skipped,
    }
    state.skipped += skipped
    if epoch % settings.validate_every == 0 or epoch == settings.epochs:
        task.module.eval()
        with task.clock("validation"), torch.no_grad():
            entry |= task.validate()
        _keep_best(task.module, entry, settings.metric, epoch, state)
    entry["phases"] = task.clock.lap()
    entry["seconds"] = time.perf_counter() - started
    state.epoch = epoch
    state.history.append(entry)
    return entry


def _step(
    task: Task, optimiser: optim.Optimizer, epoch: int, batch: int
) -> float | None:
    """Take one step; return its loss, or None where a gradient was not finite."""
    optimiser.zero_grad(set_to_none=True)
    loss = task.loss(epoch, batch)
    with task.clock("backward"):
        loss.backward()  # type: ignore[no-untyped-call]
    finite = bool(torch.isfinite(loss)) and all(
        bool(torch.isfinite(parameter.grad).all())
        for parameter in task.module.parameters()
        if parameter.grad is not None
    )
    if not finite:
        logger.warning("epoch %d, batch %d: gradient not finite, skipped", epoch, batch)
        return None
    with task.clock("optimiser"):
        optimiser.step()
    return float(loss.detach())


def _keep_best(
    module: nn.Module, entry: dict[str, Any], metric: str, epoch: int, state: Progress
) -> None:
    if metric not in entry:
        known = [name for name in entry if name not in ("epoch", "loss", "skipped")]
        raise UsageError(
            f"There is no validation value called {metric!r}.",
            hint=f"Choose one of: {', '.join(known)}.",
        )
    value = entry[metric]
    if state.best_value is None or value > state.best_value:
        state.best_value, state.best_epoch = value, epoch
        state.best_state = {
            name: tensor.detach().clone()
            for name, tensor in module.state_dict().items()
        }


def _out_of_patience(state: Progress, settings: TrainSettings) -> bool:
    if settings.patience is None or not state.history:
        return False
    since = [
        entry["epoch"]
        for entry in state.history
        if entry["epoch"] > state.best_epoch and settings.metric in entry
    ]
    return len(since) >= settings.patience


class _Store:
    """Writes checkpoints now and then, and always at the end."""

    def __init__(
        self, folder: Path | None, identity: dict[str, Any], seconds: float
    ) -> None:
        self.path = None if folder is None else folder / CHECKPOINT
        self.identity, self.seconds = identity, seconds
        self.saved_at, self.saved_epoch = time.monotonic(), 0

    def save(
        self,
        module: nn.Module,
        optimiser: optim.Optimizer,
        state: Progress,
        *,
        final: bool,
    ) -> None:
        """Write a checkpoint if it is time."""
        due = time.monotonic() - self.saved_at >= self.seconds
        if self.path is None or state.epoch == self.saved_epoch or not (final or due):
            return
        save_checkpoint(self.path, module, optimiser, state, self.identity)
        self.saved_at, self.saved_epoch = time.monotonic(), state.epoch

    def interrupted(self, state: Progress) -> None:
        """Say where a resumed training will go on."""
        if self.path is not None and self.path.exists():
            logger.warning(
                "interrupted in epoch %d; %s goes on after epoch %d",
                state.epoch + 1,
                self.path,
                self.saved_epoch,
            )
