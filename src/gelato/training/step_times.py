"""What a step of a training takes, by taking a few and stopping."""

from __future__ import annotations

import statistics
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from gelato.splits import EdgeSplit

_PLENTY = 20  # steps: their median is steady
_LONG = 10  # times the time given: so long a first step is enough


@dataclass(frozen=True)
class StepTimes:
    """Times of the first steps of a training.

    Parameters
    ----------
    step_seconds : float
        One step, validation not counted: the median of those that were timed.
    validation_seconds : float, optional
        A validation, the last one that was reached; where none was, what the model
        tells of it, or None if it ranks all pairs.
    timed : int
        How many steps were timed.
    preparation_seconds : float
        What a model that prepares for long forecasts for it; 0 for others.
    """

    step_seconds: float
    validation_seconds: float | None
    timed: int
    preparation_seconds: float = 0.0


class _EnoughError(Exception):
    """Ends the trial."""


def time_steps(
    model: Any, split: EdgeSplit, *, seconds: float = 6.0, least: int = 3
) -> StepTimes | None:
    """Train a model for a few steps, or for a few epochs if they are short.

    The model is left untrained; its ``steps_`` then tells the steps of an epoch.
    One whose preparation takes long has ``preparation_seconds(split)``, and
    ``rehearsal()``, a context in which a training begins without it.

    Parameters
    ----------
    model : TrainedModel
        What is trained.
    split : EdgeSplit
        On what.
    seconds : float
        Stop after this long, though not within the first steps.
    least : int
        Steps to take at least. The first one also prepares and is not counted,
        unless it alone takes ten times ``seconds``.

    Returns
    -------
    times : StepTimes or None
        None where nothing is trained on this graph.
    """
    trial = _Trial(seconds, least)
    with suppress(_EnoughError), model.rehearsal():
        model.fit(split, on_step=trial.on_step, on_epoch=trial.on_epoch)
    if not trial.steps:
        return None
    step = statistics.median(trial.steps[1:] or trial.steps)
    validation = trial.validation
    if validation is None:
        with model.rehearsal():
            validation = model.validation_seconds(split, step)
    return StepTimes(
        step,
        validation,
        max(1, len(trial.steps) - 1),
        model.preparation_seconds(split),
    )


class _Trial:
    """Callbacks of a training; the time between two calls is one step's."""

    def __init__(self, seconds: float, least: int) -> None:
        self.seconds, self.least = seconds, least
        self.started = self.last = perf_counter()
        self.steps: list[float] = []
        self.validation: float | None = None

    def on_step(self, epoch: int, batch: int) -> None:
        now = perf_counter()
        self.steps.append(now - self.last)
        self.last = now
        alone = len(self.steps) == 1 and self.steps[0] > _LONG * self.seconds
        if alone or (len(self.steps) >= self.least and self._late(now)):
            raise _EnoughError

    def on_epoch(self, entry: dict[str, Any], state: Any) -> None:
        self.last = perf_counter()
        self.validation = entry["phases"].get("validation", self.validation)
        # The first validation may also load compiled code: take a second one.
        plenty = entry["epoch"] > 1 and len(self.steps) >= _PLENTY
        if len(self.steps) >= self.least and (plenty or self._late(self.last)):
            raise _EnoughError

    def _late(self, now: float) -> bool:
        return now - self.started > self.seconds
