"""What a command will cost, told before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.screen import Screen, make_facts, make_table

if TYPE_CHECKING:
    from gelato.ranking.forecast import Forecast

# A forecast takes up to a second itself; below this many pairs nothing takes a minute.
_WORTH_A_FORECAST = 50_000_000
_LONG = 60.0  # seconds that deserve a warning

RANKING_KERNELS = ("near_walks", "counting")
SELECTING_KERNELS = ("near_walks",)


def tell_compilation(screen: Screen, kernels: Iterable[str]) -> None:
    """Say so if kernels are about to be compiled, which happens once."""
    if all(_is_compiled(name) for name in kernels):
        return
    screen.note("compiling kernels, once per installation (about ten seconds).")


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
    from gelato.models.registry import entries

    module = "gelato.models.heuristic"
    return any(entry.name == name and entry.module == module for entry in entries())


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
    screen: Screen, model: Any, graph: Any, rule: Any, runs: int = 1, **options: Any
) -> None:
    """Say what is coming if it will take over a minute."""
    if screen.quiet or rule.count < _WORTH_A_FORECAST:
        return
    from gelato.ranking.forecast import forecast

    coming = forecast(model, graph, candidates=rule, **options)
    if runs * coming.seconds >= _LONG:
        screen.note(
            f"{numbers.count(coming.pairs)} candidate pairs, about "
            f"{numbers.duration(runs * coming.seconds)} and "
            f"{numbers.size(coming.peak_bytes)} of memory."
        )


def show_forecasts(screen: Screen, forecasts: dict[str, Forecast | str]) -> None:
    """Print forecasts by model; text says why there is none."""
    rows = []
    for name, coming in forecasts.items():
        if isinstance(coming, str):
            continue
        near = "all" if coming.near_pairs is None else numbers.count(coming.near_pairs)
        rows.append(
            (
                name,
                numbers.count(coming.pairs),
                near,
                numbers.size(coming.peak_bytes),
                numbers.duration(coming.seconds),
            )
        )
    columns = ("model", "candidate pairs", "visited one by one", "memory", "time")
    if rows:
        screen.show(make_table(*columns, rows=rows))
    reasons = [(name, x) for name, x in forecasts.items() if isinstance(x, str)]
    if reasons:
        screen.show(make_facts(reasons))


def give_forecasts(screen: Screen, forecasts: dict[str, Forecast | str]) -> None:
    """Print forecasts as the whole result of a command."""
    show_forecasts(screen, forecasts)
    screen.give({"forecast": forecast_data(forecasts)})


def forecast_data(forecasts: dict[str, Forecast | str]) -> list[dict[str, Any]]:
    """Return forecasts by model as plain data."""
    return [
        {"model": name}
        | ({"unsuited": item} if isinstance(item, str) else item.to_dict())
        for name, item in forecasts.items()
    ]
