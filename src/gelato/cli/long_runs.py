"""Evaluations that take long: limited, estimated, or resumed after an interruption."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gelato import text
from gelato.cli.options import option
from gelato.cli.progress import is_trained
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.ranking.forecast import Forecast
    from gelato.splits import EdgeSplit

_PANEL = "Where ranking all pairs takes long"
_UNITS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_RATES = (0.1, 0.01, 0.001)  # that a refusal looks at


RATE = option(
    "--estimate RATE",
    "Score near pairs and positives exactly, and this share of all other pairs, for "
    "example 0.01: an ESTIMATE with intervals, labelled so.",
    panel=_PANEL,
)


@dataclass(frozen=True)
class LongOptions:
    """What to do where scoring every pair takes too long."""

    panel: ClassVar[str] = _PANEL
    estimate: float | None = RATE
    resume: Path | None = option(
        "--resume FOLDER",
        "Keep what is done in a folder: after an interruption the same "
        "command goes on from there, to the same bits.",
    )
    time_limit: str | None = option(
        "--time-limit TIME",
        "Most time for the ranking, for example 2h: refused before it starts "
        "if the forecast is longer.",
    )


def check_long(options: LongOptions, protocols: tuple[str, ...]) -> float | None:
    """Refuse options that make no sense; return the limit in seconds."""
    given = [
        name
        for name, value in (
            ("--estimate", options.estimate),
            ("--resume", options.resume),
            ("--time-limit", options.time_limit),
        )
        if value is not None
    ]
    if given and "all" not in protocols:
        raise UsageError(
            f"{given[0]} is about ranking all pairs, and --protocol sampled ranks few.",
            hint=f"Leave out {given[0]}, or take --protocol all or both.",
        )
    check_estimate(options.estimate)
    if options.resume is not None and options.resume.exists():
        _refuse_no_folder(options.resume)
    return None if options.time_limit is None else parse_time(options.time_limit)


def check_estimate(rate: float | None) -> None:
    """Refuse a rate that is no share, before anything is done."""
    if rate is not None:
        from gelato.ranking.estimate import check_rate

        check_rate(rate)


def _refuse_no_folder(place: Path) -> None:
    if not place.is_dir():
        raise UsageError(
            f"--resume {place} is not a folder.",
            hint="Name a folder; it is made if missing.",
        )


def parse_time(given: str) -> float:
    """Return a time span in seconds.

    Examples
    --------
    >>> parse_time("90"), parse_time("30 min"), parse_time("1.5h")
    (90.0, 1800.0, 5400.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", given.lower())
    if found is None or found[2] not in _UNITS or float(found[1]) == 0:
        raise UsageError(
            f"--time-limit {given!r} is not a time.",
            hint="Give a number and a unit, for example 90s, 30min or 2h.",
        )
    return float(found[1]) * _UNITS[found[2]]


def forecast_ranking(
    model: Any, split: EdgeSplit, *, stored: bool, **options: Any
) -> Forecast | None:
    """Forecast a ranking before anything is trained; None where that cannot be.

    Weights that are not trained yet take as long as trained ones.
    """
    from gelato.models.base import fitted
    from gelato.ranking.forecast import forecast

    graph = split.train_graph
    if stored:
        return forecast(model, graph, **options)
    ready = model.untrained(split) if is_trained(model) else fitted(model, split)
    return forecast(ready, graph, **options)


def respect_time(
    limit: float | None, model: Any, split: EdgeSplit, *, name: str, **options: Any
) -> None:
    """Refuse a ranking that is forecast to take longer than a limit.

    Parameters
    ----------
    limit : float, optional
        In seconds; None allows everything.
    model : model
        What will rank.
    split : EdgeSplit
        What it will rank on.
    name : str
        What to call it.
    **options
        Of :func:`forecast_ranking`.
    """
    if limit is None:
        return
    coming = forecast_ranking(model, split, **options)
    if coming is None or coming.seconds <= limit:
        return
    asked = options.pop("estimate", None)
    what = "ranking all" if asked is None else f"an estimate at {asked:g} of"
    raise UsageError(
        f"With {name}, {what} {text.count(coming.pairs)} candidate pairs would take "
        f"about {text.duration(coming.seconds)}, and --time-limit allows "
        f"{text.duration(limit)}.",
        hint=_way_out(limit, asked, model, split, options),
    )


def _way_out(
    limit: float, asked: float | None, model: Any, split: EdgeSplit, options: Any
) -> str:
    """Name the largest rate of an estimate that fits, if there is one."""
    more = "Allow more time, with --resume FOLDER to survive an interruption"
    for rate in _RATES:
        if asked is not None and rate >= asked:
            continue
        coming = forecast_ranking(model, split, estimate=rate, **options)
        if coming is not None and coming.seconds <= limit:
            spent = text.duration(coming.seconds)
            return f"Estimate it: --estimate {rate:g} takes about {spent}. {more}."
    return f"Not even --estimate {_RATES[-1]:g} fits. {more}."
