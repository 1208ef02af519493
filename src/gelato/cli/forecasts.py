"""What a command will cost, told before it starts."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato import text
from gelato.cli.console import Console, make_facts, make_table
from gelato.cli.options import OUTPUT, DataOptions, option
from gelato.cli.progress import is_trained, watch_notes
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.graph import Graph
    from gelato.ranking.forecast import Forecast
    from gelato.splits import EdgeSplit


RANKING_KERNELS = ("near_walks", "counting")
SELECTING_KERNELS = ("near_walks",)
TRAINING_KERNELS = (*RANKING_KERNELS, "walk_training", "deal")
# A forecast takes up to a second itself; below this many pairs nothing takes a minute.
_WORTH_A_FORECAST = 50_000_000
_LONG = 60.0  # seconds that deserve a warning


def tell_compilation(console: Console, kernels: Iterable[str]) -> None:
    """Say so if kernels are about to be compiled, which happens once."""
    if all(_is_compiled(name) for name in kernels):
        return
    console.note("compiling kernels, once per installation (about ten seconds).")


def _is_compiled(name: str) -> bool:
    """Tell whether a module of kernels has left compiled code behind."""
    module = import_module(f"gelato.kernels.{name}")
    for kernel in vars(module).values():
        folder = getattr(getattr(kernel, "stats", None), "cache_path", None)
        if folder is not None:
            return any(Path(folder).glob(f"{name}.*.nbi"))
    return True  # nothing is cached, as with NUMBA_DISABLE_JIT


def is_heuristic(name: str) -> bool:
    """Tell whether a model only scores, so that trying it out costs nothing."""
    from gelato.heuristics.declared import listed

    return name in listed()


def forecast_model(
    name: str,
    fit: Callable[[], Any],
    graph: Any,
    *,
    stored: bool = False,
    **options: Any,
) -> Forecast | str:
    """Return the forecast of one pass of a model, or why there is none."""
    from gelato.ranking.forecast import forecast

    if not stored and not is_heuristic(name):
        return "is trained first: see gelato fit --dry-run"
    return forecast(fit(), graph, **options)


def tell_long_run(
    console: Console, model: Any, graph: Any, rule: Any, runs: int = 1, **options: Any
) -> None:
    """Say what is coming if it will take over a minute."""
    if console.quiet or rule.count < _WORTH_A_FORECAST:
        return
    from gelato.ranking.forecast import forecast

    coming = forecast(model, graph, candidates=rule, **options)
    if runs * coming.seconds >= _LONG:
        console.note(
            f"{text.count(coming.pairs)} candidate pairs, about "
            f"{text.duration(runs * coming.seconds)} and "
            f"{text.size(coming.peak_bytes)} of memory."
        )


def show_forecasts(console: Console, forecasts: dict[str, Forecast | str]) -> None:
    """Print forecasts by model; text says why there is none."""
    rows = []
    for name, coming in forecasts.items():
        if isinstance(coming, str):
            continue
        near = "all" if coming.near_pairs is None else text.count(coming.near_pairs)
        rows.append(
            (
                name,
                text.count(coming.pairs),
                near,
                text.size(coming.peak_bytes),
                text.duration(coming.seconds),
            )
        )
    columns = ("model", "candidate pairs", "visited one by one", "memory", "time")
    if rows:
        console.show(make_table(*columns, rows=rows))
    reasons = [(name, x) for name, x in forecasts.items() if isinstance(x, str)]
    if reasons:
        console.show(make_facts(reasons))


def give_forecasts(console: Console, forecasts: dict[str, Forecast | str]) -> None:
    """Print forecasts as the whole result of a command."""
    show_forecasts(console, forecasts)
    console.give({"forecast": forecast_data(forecasts)})


def forecast_data(forecasts: dict[str, Forecast | str]) -> list[dict[str, Any]]:
    """Return forecasts by model as plain data."""
    return [
        {"model": name}
        | ({"unsuited": item} if isinstance(item, str) else item.to_dict())
        for name, item in forecasts.items()
    ]


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
    console: Console, model: Any, split: EdgeSplit
) -> TrainingForecast | None:
    """Time the first steps of a training; ``None`` if there is nothing to train."""
    from gelato.storage import peak_bytes
    from gelato.training.step_times import time_steps

    with watch_notes(console):
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
        patience=model.patience,
        preparation_seconds=trial.preparation_seconds,
        step_seconds=trial.step_seconds,
        validation_seconds=validation,
        epoch_seconds=training + checking / model.epochs,
        seconds=trial.preparation_seconds + training * model.epochs + checking,
        peak_bytes=peak_bytes(),
    )


def give_training_forecast(
    console: Console, name: str, coming: TrainingForecast | None
) -> None:
    """Print the forecast of a training as the whole result of a command."""
    if coming is None:
        console.show(f"{name} learns nothing on this graph: it only ranks.")
        console.give({"training_forecast": None})
        return
    pairs = "sampled" if coming.pairs is None else text.count(coming.pairs)
    console.show(
        make_facts(
            [
                ("edges", f"{coming.edges:,} for training"),
                ("pairs", f"{pairs} per epoch"),
                *_preparation(coming),
                ("step", f"{text.short_duration(coming.step_seconds)}"),
                (
                    "epoch",
                    f"{text.short_duration(coming.epoch_seconds)}: "
                    f"{text.plural(coming.steps, 'step')}, then a validation of "
                    f"{text.short_duration(coming.validation_seconds)}",
                ),
                (
                    "training",
                    f"{about(coming.seconds, most=coming.patience is not None)} for "
                    f"{text.plural(coming.epochs, 'epoch')}{_may_stop(coming)}",
                ),
                ("memory", text.size(coming.peak_bytes)),
            ]
        )
    )
    console.give({"training_forecast": asdict(coming)})


def give_parts_forecast(console: Console, model: Any, split: EdgeSplit) -> None:
    """Print what a fit in parts takes, as the whole result of a command."""
    console.line(f"timing a part of {model.name}")
    seconds = model.fit_seconds(split)
    rows = [
        ("edges", f"{len(split.train):,} for training"),
        ("fit", about(seconds, most=False)),
    ]
    console.show(make_facts(rows))
    console.give({"training_forecast": {"edges": len(split.train), "seconds": seconds}})


def about(seconds: float, *, most: bool) -> str:
    """Return a time to fit as text; it is the most for what may stop early."""
    return f"{'at most ' if most else ''}about {text.duration(seconds)}"


def _may_stop(coming: TrainingForecast) -> str:
    if coming.patience is None:
        return ""
    checks = text.plural(coming.patience, "validation")
    return f"; it stops after {checks} without gain"


def _preparation(coming: TrainingForecast) -> list[tuple[str, str]]:
    if coming.preparation_seconds == 0:
        return []
    return [("preparation", text.short_duration(coming.preparation_seconds))]


def _pairs(model: Any, split: EdgeSplit) -> int | None:
    kind = model.get_params().get("training")
    if kind == "unbiased":
        return int(split.train_graph.num_pairs)
    return 2 * len(split.train) if kind == "biased" else None


def _ranking_seconds(model: Any, split: EdgeSplit) -> float:
    """Forecast all rankings of all pairs that stand beside sampled validations.

    Steps that were timed are of the first epochs, which do not get that far.
    """
    every = model.ranking_every
    times = 0 if every is None else model.epochs // every
    return times * _validation_seconds(model, split) if times else 0.0


def _validation_seconds(model: Any, split: EdgeSplit) -> float:
    """Forecast a validation, which ranks all pairs, with weights not trained yet."""
    from gelato.ranking.forecast import forecast

    graph, ranking = split.train_graph, model.untrained(split)
    return float(forecast(ranking, graph, positives=len(split.valid)).seconds)


MEMORY = option(
    "--memory SIZE",
    "Most memory to use, for example 4GB: fewer threads, or refused at once.",
    panel=OUTPUT,
)
_UNITS = {"": 1, "B": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(given: str) -> int:
    """Return an amount of memory in bytes.

    Examples
    --------
    >>> parse_size("4GB"), parse_size("1.5 gib"), parse_size("2000")
    (4000000000, 1610612736, 2000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?\s*", given.upper())
    if found is None or (found[3] and not found[2]) or float(found[1]) == 0:
        raise UsageError(
            f"--memory {given!r} is not an amount of memory.",
            hint="Give a number and a unit, for example 4GB or 500MB.",
        )
    unit = _BINARY[found[2]] if found[3] else _UNITS[found[2]]
    return int(float(found[1]) * unit)


def refuse_large_files(limit: str | None, data: DataOptions) -> None:
    """Refuse files of which a limit does not even hold the graph, before reading."""
    from gelato.io.npz import npz_bytes
    from gelato.io.tables import reading_bytes

    if limit is None:
        return
    allowed = parse_size(limit)
    for path in (data.edges, *(data.attributes or ())):
        if path is None or not path.is_file():
            continue  # whoever reads it will say so
        is_npz = path.suffix.lower() == ".npz"
        needed = npz_bytes(path) if is_npz else reading_bytes(path)
        if needed > allowed:
            raise UsageError(
                f"Reading {path} takes about {text.size(needed)} of memory, and "
                f"--memory allows {text.size(allowed)}.",
                hint="Allow more, or give a smaller graph.",
            )


def respect_memory(
    console: Console,
    limit: str | None,
    model: Any,
    data: Graph | EdgeSplit,
    *,
    stored: bool = False,
    **options: Any,
) -> int | None:
    """Return how many threads fit into a limit, or refuse before any work is done.

    None where all of them do.

    Parameters
    ----------
    console : Console
        Told where fewer threads are used.
    limit : str, optional
        What ``--memory`` gave; None allows everything.
    model : model
        What will be fitted, unless ``stored``, and rank.
    data : Graph or EdgeSplit
        What it will be fitted on.
    stored : bool
        Whether it is fitted already.
    **options
        Of :func:`gelato.ranking.forecast.forecast`.
    """
    if limit is None:
        return None
    allowed = parse_size(limit)
    if not stored and is_trained(model):
        _check_training(console, model, data, allowed)
        return None
    from gelato.ranking.forecast import forecast

    graph: Any = getattr(data, "train_graph", data)
    ready = model if stored else copy.copy(model).fit(data)
    coming = forecast(ready, graph, **options)
    if coming.peak_bytes <= allowed:
        return None
    # The forecast is linear in the threads, and its first part is there already.
    own = (coming.peak_bytes - coming.resident_bytes) / coming.threads
    fitting = int((allowed - coming.resident_bytes) // max(own, 1.0))
    if fitting < 1:
        _refuse(model.name, coming.resident_bytes + own, allowed)
    console.note(f"{fitting} of {coming.threads} threads, to stay within {limit}.")
    return fitting


def _check_training(
    console: Console, model: Any, data: Graph | EdgeSplit, allowed: int
) -> None:
    """Refuse a training whose first steps need too much."""
    from gelato.splits import EdgeSplit, split_edges

    split = data if isinstance(data, EdgeSplit) else split_edges(data, test=0.0)
    coming = forecast_training(console, copy.copy(model), split)
    if coming is not None and coming.peak_bytes > allowed:
        _refuse(model.name, coming.peak_bytes, allowed)


def _refuse(name: str, needed: float, allowed: int) -> None:
    raise UsageError(
        f"{name} would need about {text.size(needed)} of memory on this graph, and "
        f"--memory allows {text.size(allowed)}.",
        hint="Allow more, or see what each model needs: gelato check.",
    )
