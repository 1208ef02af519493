"""The training loop that every trained model shares.

It knows nothing of graphs: a task gives losses and validation values, the loop
steps the optimiser, keeps the best epoch, writes checkpoints and can resume.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn, optim

from gelato.errors import GelatoError, UsageError
from gelato.kernels.chunks import generator
from gelato.training.checkpoints import Progress, Snapshot, load_checkpoint

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.safetensors"
_LARGE = 1_000_000  # parameters
_COPY_SECONDS = 2.0  # between copies of a training's state
_WRITING_SHARE = 20  # writing takes at most this part of the time


class Clock:
    """Adds up wall-clock seconds by phase.

    Examples
    --------
    >>> clock = Clock()
    >>> with clock("mlp"):
    ...     pass
    >>> list(clock.seconds)
    ['mlp']
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time the body as part of a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - started

    def lap(self) -> dict[str, float]:
        """Return the seconds by phase since the last lap, and start anew."""
        lap = {phase: round(seconds, 6) for phase, seconds in self.seconds.items()}
        self.seconds.clear()
        return lap


class StopTraining(Exception):  # noqa: N818 - a signal, as StopIteration is
    """Raise it in a callback to end a training; the best epoch so far is kept.

    It comes out of :func:`train` again where no epoch has been validated yet.
    """


class Task(Protocol):
    """What is trained."""

    batches: int
    clock: Clock
    metrics: tuple[str, ...]

    @property
    def module(self) -> nn.Module:
        """What is learned."""
        ...

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step; epochs count from 1, batches from 0."""
        ...

    def validate(self) -> dict[str, float]:
        """Return the values that ``metrics`` names, of the module as it is."""
        ...


@runtime_checkable
class TellsMore(Protocol):
    """A task whose epochs have something to tell besides loss and validation."""

    def epoch_values(self) -> dict[str, float]:
        """Return what goes into the history, and start anew."""
        ...


@runtime_checkable
class LearnsInParts(Protocol):
    """A module whose parts have learning rates of their own."""

    def rates(self) -> list[tuple[list[nn.Parameter], float]]:
        """Return all parameters in parts, each with its learning rate."""
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
    seed : int
        Seeds torch's generator for each epoch, for modules that draw from it.
    checkpoint_seconds : float
        Least time between two checkpoints, longer where writing them takes long;
        0 for one after every epoch.
    validate_start : bool
        Whether the first weights compete, as epoch 0.
    """

    epochs: int = 100
    lr: float = 1e-3
    weight_decay: float = 0.0
    metric: str = "prec@100%"
    validate_every: int = 1
    patience: int | None = None
    seed: int = 0
    checkpoint_seconds: float = 20.0
    validate_start: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "validate_every", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}, but must be at least 1.")
        if not 0 < self.lr < math.inf:
            raise UsageError(f"lr is {self.lr}, but must be a positive number.")
        if not 0 <= self.weight_decay < math.inf:
            raise UsageError(
                f"weight_decay is {self.weight_decay}, but must be 0 or more."
            )


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
        """Time taken by all epochs, those before a resume included."""
        return float(sum(entry["seconds"] for entry in self.history))


EpochReport = Callable[[dict[str, Any], Progress], None]


@dataclass(frozen=True)
class FitOptions:
    """Where a training keeps its state, whether it goes on, and whom it tells.

    Parameters
    ----------
    folder : Path, optional
        Where checkpoints go; without it none are written.
    resume : bool
        Continue from the folder's checkpoint, if there is one, to the same result.
    on_epoch, on_step : callable, optional
        Told of every finished epoch, and of every step as (epoch, batch).
    """

    folder: Path | None = None
    resume: bool = False
    on_epoch: EpochReport | None = None
    on_step: Callable[[int, int], None] | None = None


PLAIN = FitOptions()


def train(
    task: Task,
    settings: TrainSettings,
    options: FitOptions = PLAIN,
    *,
    identity: dict[str, Any] | None = None,
) -> Training:
    """Train a task and leave its module at the best epoch.

    Parameters
    ----------
    task : Task
        Losses and validation.
    settings : TrainSettings
        Epochs, learning rate, selection.
    options : FitOptions
        Checkpoints and callbacks.
    identity : dict, optional
        Stored with checkpoints; resuming a different training is refused.
    """
    if settings.metric not in task.metrics:
        raise UsageError(
            f"There is no validation value called {settings.metric!r}.",
            hint=f"Choose one of: {', '.join(task.metrics)}.",
        )
    optimiser = _adam(task.module, settings)
    store = _Store(options.folder, identity or {}, settings.checkpoint_seconds)
    state = _first_state(task, optimiser, settings, options, store)
    try:
        with torch.random.fork_rng(devices=[]):
            while state.epoch < settings.epochs and not _impatient(state, settings):
                store.leave()
                entry = _one_epoch(task, optimiser, settings, state, options)
                store.keep(task.module, optimiser, state)
                if options.on_epoch is not None:
                    options.on_epoch(entry, state)
    except StopTraining:
        if state.best_value is None:
            raise
    except (KeyboardInterrupt, SystemExit):
        store.write()
        raise
    store.write()
    if state.best_value is None:
        raise GelatoError(
            f"No epoch gave a validation value; {state.skipped} steps were skipped "
            "because their gradients were not finite.",
            hint="Are the attributes or weights extreme? Try a smaller lr.",
        )
    if state.skipped:
        logger.warning("%d steps were skipped: gradient not finite", state.skipped)
    task.module.load_state_dict(state.best_state)
    return Training(state.history, state.best_epoch, state.best_value, state.skipped)


def _first_state(
    task: Task,
    optimiser: optim.Optimizer,
    settings: TrainSettings,
    options: FitOptions,
    store: _Store,
) -> Progress:
    """Return where a training begins: at a checkpoint, or at its first weights."""
    if options.resume and store.path is not None and store.path.exists():
        state = load_checkpoint(store.path, task.module, optimiser, store.identity)
        logger.info("resuming after epoch %d of %d", state.epoch, settings.epochs)
        return state
    state = Progress()
    if settings.validate_start:
        _keep_best(task.module, _validated(task), settings.metric, 0, state)
    return state


def _adam(module: nn.Module, settings: TrainSettings) -> optim.Adam:
    """Return the optimiser; large modules get the one that is six times as fast.

    Its last bits differ from those that small modules were trained with before.
    """
    size = sum(parameter.numel() for parameter in module.parameters())
    parts: Any = module.parameters()
    if isinstance(module, LearnsInParts):
        parts = [{"params": part, "lr": rate} for part, rate in module.rates()]
    return optim.Adam(
        parts,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        fused=size > _LARGE,
    )


def all_finite(values: Tensor) -> bool:
    """Tell whether no entry is infinite or not a number.

    A sum is one quick pass; only where finite entries overflow it are they asked one
    by one.
    """
    values = values.detach()
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())


def _one_epoch(
    task: Task,
    optimiser: optim.Optimizer,
    settings: TrainSettings,
    state: Progress,
    options: FitOptions,
) -> dict[str, Any]:
    started = time.perf_counter()
    epoch = state.epoch + 1
    # By epoch, so that a resumed training draws what it would have drawn.
    torch.manual_seed(int(generator(settings.seed, "torch", epoch).integers(2**63)))
    task.module.train()
    losses: list[float] = []
    skipped = 0
    for batch in range(task.batches):
        loss = _step(task, optimiser, epoch, batch)
        if loss is None:
            skipped += 1
        else:
            losses.append(loss)
        if options.on_step is not None:
            options.on_step(epoch, batch)
    entry: dict[str, Any] = {
        "epoch": epoch,
        "loss": sum(losses) / len(losses) if losses else None,
        "skipped": skipped,
    }
    state.skipped += skipped
    if isinstance(task, TellsMore):
        entry |= task.epoch_values()
    if epoch % settings.validate_every == 0 or epoch == settings.epochs:
        entry |= _validated(task)
        _keep_best(task.module, entry, settings.metric, epoch, state)
    entry["phases"] = task.clock.lap()
    entry["seconds"] = time.perf_counter() - started
    state.epoch = epoch
    state.history.append(entry)
    return entry


def _validated(task: Task) -> dict[str, float]:
    """Return the validation values of the module as it is."""
    task.module.eval()
    with task.clock("validation"), torch.no_grad():
        return task.validate()


def _step(
    task: Task, optimiser: optim.Optimizer, epoch: int, batch: int
) -> float | None:
    """Take one step; return its loss, or None where a gradient was not finite."""
    optimiser.zero_grad(set_to_none=True)
    statistics = {
        name: buffer.clone()
        for name, buffer in task.module.named_buffers()
        if buffer.is_floating_point()
    }
    loss = task.loss(epoch, batch)
    with task.clock("backward"):
        loss.backward()  # type: ignore[no-untyped-call]
    finite = all_finite(loss) and all(
        all_finite(parameter.grad)
        for parameter in task.module.parameters()
        if parameter.grad is not None
    )
    if not finite:
        logger.warning("epoch %d, batch %d: gradient not finite, skipped", epoch, batch)
        # Running statistics that met an infinity would never lose it again.
        task.module.load_state_dict(statistics, strict=False)
        return None
    with task.clock("optimiser"):
        optimiser.step()
    return float(loss.detach())


def _keep_best(
    module: nn.Module, entry: dict[str, Any], metric: str, epoch: int, state: Progress
) -> None:
    value = entry[metric]
    if math.isfinite(value) and (state.best_value is None or value > state.best_value):
        state.best_value, state.best_epoch = value, epoch
        state.best_state = {
            name: tensor.detach().clone()
            for name, tensor in module.state_dict().items()
        }


def _impatient(state: Progress, settings: TrainSettings) -> bool:
    if settings.patience is None:
        return False
    since = [
        entry["epoch"]
        for entry in state.history
        if entry["epoch"] > state.best_epoch and settings.metric in entry
    ]
    return len(since) >= settings.patience


class _Store:
    """Writes checkpoints now and then, at the end, and when interrupted.

    A broken epoch must not be written, so the last complete one is copied now and
    then: an interruption within an epoch costs a few seconds of training at most.
    """

    def __init__(
        self, folder: Path | None, identity: dict[str, Any], seconds: float
    ) -> None:
        self.path = None if folder is None else folder / CHECKPOINT
        self.identity, self.seconds = identity, seconds
        self.written_at, self.copied_at = time.monotonic(), -math.inf
        self.snapshot: Snapshot | None = None
        self.complete: tuple[nn.Module, optim.Optimizer, Progress] | None = None

    def leave(self) -> None:
        """Take note that a new epoch begins: the training's state is in between."""
        self.complete = None

    def keep(
        self, module: nn.Module, optimiser: optim.Optimizer, state: Progress
    ) -> None:
        """Take note of a complete epoch; copy it or write it if it is time."""
        if self.path is None:
            return
        self.complete = (module, optimiser, state)
        now = time.monotonic()
        if now - self.written_at >= self.seconds:
            self.write()
        elif now - self.copied_at >= _COPY_SECONDS:
            self._copy()

    def write(self) -> None:
        """Write the last complete epoch that is known, unless it is on disk."""
        if self.path is None:
            return
        self._copy()
        if self.snapshot is None:
            return
        began = time.monotonic()
        self.snapshot.write(self.path)
        self.snapshot, self.written_at = None, time.monotonic()
        if self.seconds > 0:  # large states on a slow disk are written less often
            took = self.written_at - began
            self.seconds = max(self.seconds, _WRITING_SHARE * took)

    def _copy(self) -> None:
        if self.complete is None:
            return
        self.snapshot = Snapshot.take(*self.complete, self.identity)
        self.complete, self.copied_at = None, time.monotonic()
