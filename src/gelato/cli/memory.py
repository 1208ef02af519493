"""``--memory``: what a command may need, compared with a forecast before it starts."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelato.cli import numbers
from gelato.cli.screen import Screen
from gelato.cli.training import is_trained
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.graph import Graph
    from gelato.splits import EdgeSplit

Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Most memory to use, for example 4GB: fewer threads, or refused at once.",
        rich_help_panel="Output",
    ),
]

_UNITS = {"": 1, "B": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str) -> int:
    """Return an amount of memory in bytes.

    Examples
    --------
    >>> parse_size("4GB"), parse_size("1.5 gib"), parse_size("2000")
    (4000000000, 1610612736, 2000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?\s*", text.upper())
    if found is None or (found[3] and not found[2]) or float(found[1]) == 0:
        raise UsageError(
            f"--memory {text!r} is not an amount of memory.",
            hint="Give a number and a unit, for example 4GB or 500MB.",
        )
    unit = _BINARY[found[2]] if found[3] else _UNITS[found[2]]
    return int(float(found[1]) * unit)


def respect_memory(
    screen: Screen,
    limit: str | None,
    model: Any,
    data: Graph | EdgeSplit,
    *,
    stored: bool = False,
    threads: int | None = None,
    **options: Any,
) -> int | None:
    """Return how many threads fit into a limit, or refuse before any work is done.

    Parameters
    ----------
    screen : Screen
        Told where fewer threads are used.
    limit : str, optional
        What ``--memory`` gave; None allows everything.
    model : model
        What will be fitted, unless ``stored``, and rank.
    data : Graph or EdgeSplit
        What it will be fitted on.
    stored : bool
        Whether it is fitted already.
    threads : int, optional
        Threads that were asked for.
    **options
        Of :func:`gelato.ranking.forecast.forecast`.
    """
    if limit is None:
        return threads
    allowed = parse_size(limit)
    if not stored and is_trained(model):
        _check_training(screen, model, data, allowed)
        return threads
    from gelato.ranking.forecast import forecast

    graph: Any = getattr(data, "train_graph", data)
    ready = model if stored else copy.copy(model).fit(data)
    coming = forecast(ready, graph, threads=threads, **options)
    if coming.peak_bytes <= allowed:
        return threads
    # The forecast is linear in the threads, and its first part is there already.
    own = (coming.peak_bytes - coming.resident_bytes) / coming.threads
    fitting = int((allowed - coming.resident_bytes) // max(own, 1.0))
    if fitting < 1:
        _refuse(model.name, coming.resident_bytes + own, allowed)
    screen.note(f"{fitting} of {coming.threads} threads, to stay within {limit}.")
    return fitting


def _check_training(
    screen: Screen, model: Any, data: Graph | EdgeSplit, allowed: int
) -> None:
    """Refuse a training whose first steps need too much."""
    from gelato.cli.training_forecast import forecast_training
    from gelato.splits import EdgeSplit, split_edges

    split = data if isinstance(data, EdgeSplit) else split_edges(data, test=0.0)
    coming = forecast_training(screen, copy.copy(model), split)
    if coming is not None and coming.peak_bytes > allowed:
        _refuse(model.name, coming.peak_bytes, allowed)


def _refuse(name: str, needed: float, allowed: int) -> None:
    raise UsageError(
        f"{name} would need about {numbers.size(needed)} of memory on this graph, and "
        f"--memory allows {numbers.size(allowed)}.",
        hint="Allow more, or see what each model needs: gelato check.",
    )
