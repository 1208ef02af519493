"""Fitting as the user sees it: how far it is, what it gave, how to go on later."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from gelato import text
from gelato.cli.console import Console
from gelato.errors import GelatoError

if TYPE_CHECKING:
    from gelato.choosing import Choice
    from gelato.graph import Graph
    from gelato.splits import EdgeSplit


_LONG = 60.0  # seconds that deserve a word before they pass
_LINE_SECONDS = 5.0  # between lines where there is no terminal
_BAR_STEPS = 1000
_TIMED_STEPS = 3  # the first one also prepares and is not counted


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what to do next."""

    def __init__(self, hint: str) -> None:
        super().__init__()
        self.hint = hint


def go_on_text() -> str:
    """Return the command that goes on with what was interrupted."""
    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    return f"Go on with: gelato {shlex.join(words)} --resume"


def is_trained(model: Any) -> bool:
    """Tell whether fitting a model reports epochs."""
    from gelato.models.base import Model

    return isinstance(model, Model) and model.trains_by_epoch


def fits_in_parts(model: Any) -> bool:
    """Tell whether fitting a model reports parts."""
    from gelato.models.base import Model

    return isinstance(model, Model) and model.fits_in_parts


def fit_model(
    console: Console,
    name: str,
    model: Any,
    data: Graph | EdgeSplit,
    *,
    folder: Path | None = None,
    resume: bool = False,
) -> Any:
    """Fit a model, showing how far it has come if that takes time."""
    from gelato.models.base import fitted

    if fits_in_parts(model):
        with watch_trials(console, f"fitting {name}", doing="") as tell:
            model.fit(data, folder=folder, resume=resume, on_part=tell)
        console.note(*model.notes_)
        return model
    if not is_trained(model):
        return fitted(model, data)
    with watch_training(console, name, model) as watch:
        model.fit(
            data,
            folder=folder,
            resume=resume,
            on_epoch=watch.on_epoch,
            on_step=watch.on_step,
        )
    console.note(*model.notes_)
    return model


def choose_untrained(
    console: Console, split: EdgeSplit, seed: int | None
) -> Choice | None:
    """Choose among the models that learn nothing, in seconds; None if nothing tells.

    That is what verbs do that name no model and keep none.
    """
    from gelato.choosing import QUICK_SECONDS, choose_model

    try:
        with watch_trials(console, "choosing a model", unit=" s") as watch:
            return choose_model(
                split,
                seconds=QUICK_SECONDS,
                seed=1 if seed is None else seed,
                train=False,
                progress=watch,
            )
    except GelatoError as error:
        console.note(
            f"no model could be chosen ({text.printable(error.problem)}): ac is taken"
        )
        return None


@contextmanager
def watch_training(console: Console, name: str, model: Any) -> Iterator[Watch]:
    """Yield callbacks for a training, behind a bar or lines on stderr."""
    watch = Watch(console, name, model)
    with watch_notes(console):
        try:
            yield watch
        finally:
            watch.close()


@contextmanager
def watch_notes(console: Console) -> Iterator[None]:
    """Show warnings of the library as notes."""
    handler = _Notes(console)
    logger = logging.getLogger("gelato")
    logger.addHandler(handler)
    # Without this, the words of the library would also appear raw on stderr.
    propagate, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


@contextmanager
def watch_trials(
    console: Console, title: str, unit: str = "", doing: str = "trying "
) -> Iterator[Callable[[str, float, float], None]]:
    """Yield a callback (what, done, in all) behind a bar, or a line now and then."""
    bar = console.training_bar(title)
    last_line = monotonic()

    def tell(what: str, done: float, total: float) -> None:
        nonlocal last_line
        if bar is not None:
            bar.describe(what or title)
            bar.step(round(_BAR_STEPS * min(1.0, done / total)), _BAR_STEPS)
        elif what and monotonic() - last_line >= _LINE_SECONDS:
            last_line = monotonic()
            gone = f"{done:.0f}" if isinstance(done, int) else f"{done:.1f}"
            console.line(f"{gone} of {total:.0f}{unit}: {doing}{what}")

    with watch_notes(console):
        try:
            yield tell
        finally:
            if bar is not None:
                bar.close()


class _Notes(logging.Handler):
    """Turns warnings of the library into notes."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.note(record.getMessage())


class Watch:
    """What a training is told to call; see :func:`gelato.training.loop.train`.

    Parameters
    ----------
    console : Console
        Where to.
    name : str
        What is trained.
    model : Model
        Has ``epochs`` and ``metric``, and ``steps_`` once training begins.
    """

    def __init__(self, console: Console, name: str, model: Any) -> None:
        self.console, self.name = console, name
        self.model, self.epochs, self.metric = model, model.epochs, model.metric
        self.started: float | None = None
        self.last_line = -_LINE_SECONDS
        self.steps = 0
        self.first_epoch = 1
        self.bar = console.training_bar(f"training {name}")

    def on_step(self, epoch: int, batch: int) -> None:
        """Note a step; after a few of them, tell of a long training."""
        if self.started is None:
            self.started, self.first_epoch = monotonic(), epoch
        else:
            self.steps += 1
            if self.steps == _TIMED_STEPS - 1:
                self._tell_long()
        if self.bar is not None:
            steps = self.model.steps_
            self.bar.step((epoch - 1) * steps + batch + 1, self.epochs * steps)

    def on_epoch(self, entry: dict[str, Any], state: Any) -> None:
        """Show what an epoch gave."""
        told = epoch_text(entry, state, self.metric)
        if self.bar is not None:
            self.bar.describe(f"epoch {entry['epoch']}/{self.epochs}  {told}")
            return
        now, last = monotonic(), entry["epoch"] == self.epochs
        if not last and now - self.last_line < _LINE_SECONDS:
            return
        self.last_line = now
        left = "" if last else f", {text.duration(self._left(entry['epoch']))} left"
        self.console.line(f"epoch {entry['epoch']} of {self.epochs}: {told}{left}")

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.close()

    def _left(self, epoch: int) -> float:
        assert self.started is not None
        done = max(1, epoch - self.first_epoch + 1)
        left: int = self.epochs - epoch
        return (monotonic() - self.started) / done * left

    def _tell_long(self) -> None:
        assert self.started is not None
        rest = (self.epochs - self.first_epoch + 1) * self.model.steps_
        seconds = (monotonic() - self.started) / self.steps * rest
        if seconds >= _LONG:
            self.console.note(
                f"{text.plural(rest, 'step')} of {self.name} take about "
                f"{text.duration(seconds)}, validation not counted."
            )


def epoch_text(entry: dict[str, Any], state: Any, metric: str) -> str:
    """Return loss, validation value and the best so far, in a few words."""
    loss = "none" if entry["loss"] is None else f"{entry['loss']:.4g}"
    parts = [f"loss {loss}"]
    if metric in entry:
        parts.append(f"{metric} {text.percent(entry[metric])}")
    if state.best_value is not None:
        best = text.percent(state.best_value)
        parts.append(f"best {best} (epoch {state.best_epoch})")
    return ", ".join(parts)


def training_facts(model: Any) -> dict[str, Any] | None:
    """Return what came out of a training, or ``None`` where nothing is learned."""
    training = model.training_ if is_trained(model) else None
    if training is None:
        return None
    return {
        "epochs": len(training.history),
        "metric": model.metric,
        "best_epoch": training.best_epoch,
        "best_value": training.best_value,
        "skipped_steps": training.skipped,
        "seconds": training.seconds,
    }
