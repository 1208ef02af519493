"""What a training will cost, by timing its first steps on the real graph."""

from __future__ import annotations

import resource
import sys
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.screen import Screen, make_facts
from gelato.cli.training import watch_notes

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit

_SECONDS = 6.0  # spent on timing
_LEAST_STEPS = 3  # the first one also prepares and is not counted


@dataclass(frozen=True)
class TrainingForecast:
    """What a training is expected to take.

    Parameters
    ----------
    edges : int
        Training edges.
    pairs : int, optional
        Pairs that an epoch ranks, where the training set fixes them.
    epochs, steps : int
        Epochs, and steps per epoch.
    step_seconds, validation_seconds, epoch_seconds, seconds : float
        Time of a step, of a validation, of an epoch with its validation, and in all.
    peak_bytes : int
        Resident memory at its peak during the steps that were timed.
    """

    edges: int
    pairs: int | None
    epochs: int
    steps: int
    step_seconds: float
    validation_seconds: float
    epoch_seconds: float
    seconds: float
    peak_bytes: int


class _EnoughError(Exception):
    """Ends the trial."""


class _Trial:
    """Stops a training after a few steps, or after two epochs if they are short."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.validation: float | None = None

    def on_step(self, epoch: int, batch: int) -> None:
        self.times.append(perf_counter())
        enough = self.times[-1] - self.times[0] > _SECONDS
        if len(self.times) >= _LEAST_STEPS and enough:
            raise _EnoughError

    def on_epoch(self, entry: dict[str, Any], state: Any) -> None:
        self.validation = entry["phases"].get("validation", 0.0)
        # The first validation may also load compiled code: take the second one.
        if entry["epoch"] > 1 or perf_counter() - self.times[0] > _SECONDS:
            raise _EnoughError

    @property
    def step_seconds(self) -> float:
        gaps = [b - a for a, b in zip(self.times, self.times[1:], strict=False)]
        # The gap over a validation is no step: the median does not see it.
        return sorted(gaps)[len(gaps) // 2] if gaps else 0.0


def forecast_training(
    screen: Screen, model: Any, split: EdgeSplit
) -> TrainingForecast | None:
    """Time the first steps of a training; ``None`` if there is nothing to train."""
    trial = _Trial()
    with watch_notes(screen):
        try:
            model.fit(split, on_step=trial.on_step, on_epoch=trial.on_epoch)
        except _EnoughError:
            pass
        else:
            if not trial.times:
                return None
    if trial.validation is None:
        trial.validation = _validation_seconds(split)
    checks = -(-model.epochs // model.validate_every)
    training = trial.step_seconds * model.steps_
    return TrainingForecast(
        edges=len(split.train),
        pairs=_pairs(model, split),
        epochs=model.epochs,
        steps=model.steps_,
        step_seconds=trial.step_seconds,
        validation_seconds=trial.validation,
        epoch_seconds=training + trial.validation * checks / model.epochs,
        seconds=training * model.epochs + trial.validation * checks,
        peak_bytes=_peak_bytes(),
    )


def give_training_forecast(
    screen: Screen, name: str, coming: TrainingForecast | None
) -> None:
    """Print the forecast of a training as the whole result of a command."""
    if coming is None:
        screen.show(f"{name} learns nothing on this graph: it only ranks.")
        screen.give({"training_forecast": None})
        return
    pairs = "sampled" if coming.pairs is None else numbers.count(coming.pairs)
    screen.show(
        make_facts(
            [
                ("edges", f"{coming.edges:,} for training"),
                ("pairs", f"{pairs} per epoch"),
                ("step", f"{numbers.short_duration(coming.step_seconds)}"),
                (
                    "epoch",
                    f"{numbers.short_duration(coming.epoch_seconds)}: "
                    f"{numbers.plural(coming.steps, 'step')}, then a validation of "
                    f"{numbers.short_duration(coming.validation_seconds)}",
                ),
                (
                    "training",
                    f"about {numbers.duration(coming.seconds)} for "
                    f"{numbers.plural(coming.epochs, 'epoch')}",
                ),
                ("memory", numbers.size(coming.peak_bytes)),
            ]
        )
    )
    screen.give({"training_forecast": asdict(coming)})


def _pairs(model: Any, split: EdgeSplit) -> int | None:
    kind = getattr(model, "training", None)
    if kind == "unbiased":
        return int(split.train_graph.num_pairs)
    return 2 * len(split.train) if kind == "biased" else None


def _validation_seconds(split: EdgeSplit) -> float:
    """Forecast a pass of plain walks, which ranks as a validation does."""
    from gelato.models.registry import make
    from gelato.ranking.forecast import forecast

    graph = split.train_graph
    model = make("ac").fit(graph)
    return float(forecast(model, graph, positives=len(split.valid)).seconds)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)
