"""What a training will cost, by timing its first steps on the real graph."""

from __future__ import annotations

import resource
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.screen import Screen, make_facts
from gelato.cli.training import watch_notes

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit


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
    patience : int, optional
        Validations without gain after which it stops: it may take less time then.
    preparation_seconds : float
        Time before the first step, where a model needs much.
    step_seconds, validation_seconds, epoch_seconds, seconds : float
        Time of a step, of a validation, of an epoch with its validation, and in all.
    peak_bytes : int
        Resident memory at its peak during the steps that were timed.
    """

    edges: int
    pairs: int | None
    epochs: int
    steps: int
    patience: int | None
    preparation_seconds: float
    step_seconds: float
    validation_seconds: float
    epoch_seconds: float
    seconds: float
    peak_bytes: int


def forecast_training(
    screen: Screen, model: Any, split: EdgeSplit
) -> TrainingForecast | None:
    """Time the first steps of a training; ``None`` if there is nothing to train."""
    from gelato.training.step_times import time_steps

    with watch_notes(screen):
        trial = time_steps(model, split)
    if trial is None:
        return None
    validation = trial.validation_seconds
    if validation is None:
        validation = _validation_seconds(model, split)
    checks = -(-model.epochs // model.validate_every)
    training = trial.step_seconds * model.steps_
    checking = validation * checks + _ranking_seconds(model, split)
    return TrainingForecast(
        edges=len(split.train),
        pairs=_pairs(model, split),
        epochs=model.epochs,
        steps=model.steps_,
        patience=getattr(model, "patience", None),
        preparation_seconds=trial.preparation_seconds,
        step_seconds=trial.step_seconds,
        validation_seconds=validation,
        epoch_seconds=training + checking / model.epochs,
        seconds=trial.preparation_seconds + training * model.epochs + checking,
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
                *_preparation(coming),
                ("step", f"{numbers.short_duration(coming.step_seconds)}"),
                (
                    "epoch",
                    f"{numbers.short_duration(coming.epoch_seconds)}: "
                    f"{numbers.plural(coming.steps, 'step')}, then a validation of "
                    f"{numbers.short_duration(coming.validation_seconds)}",
                ),
                (
                    "training",
                    f"{about(coming.seconds, most=coming.patience is not None)} for "
                    f"{numbers.plural(coming.epochs, 'epoch')}{_may_stop(coming)}",
                ),
                ("memory", numbers.size(coming.peak_bytes)),
            ]
        )
    )
    screen.give({"training_forecast": asdict(coming)})


def about(seconds: float, *, most: bool) -> str:
    """Return a time to fit as text; it is the most for what may stop early."""
    return f"{'at most ' if most else ''}about {numbers.duration(seconds)}"


def _may_stop(coming: TrainingForecast) -> str:
    if coming.patience is None:
        return ""
    checks = numbers.plural(coming.patience, "validation")
    return f"; it stops after {checks} without gain"


def _preparation(coming: TrainingForecast) -> list[tuple[str, str]]:
    if coming.preparation_seconds == 0:
        return []
    return [("preparation", numbers.short_duration(coming.preparation_seconds))]


def _pairs(model: Any, split: EdgeSplit) -> int | None:
    kind = getattr(model, "training", None)
    if kind == "unbiased":
        return int(split.train_graph.num_pairs)
    return 2 * len(split.train) if kind == "biased" else None


def _ranking_seconds(model: Any, split: EdgeSplit) -> float:
    """Forecast all rankings of all pairs that stand beside sampled validations.

    Steps that were timed are of the first epochs, which do not get that far.
    """
    every = getattr(model, "ranking_every", None)
    times = 0 if every is None else model.epochs // every
    return times * _validation_seconds(model, split) if times else 0.0


def _validation_seconds(model: Any, split: EdgeSplit) -> float:
    """Forecast a validation, which ranks all pairs, with weights not trained yet."""
    from gelato.models.registry import make
    from gelato.ranking.forecast import forecast

    graph = split.train_graph
    if hasattr(model, "untrained"):
        ranking = model.untrained(split)
    else:
        ranking = make("ac").fit(graph)
    return float(forecast(ranking, graph, positives=len(split.valid)).seconds)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)
