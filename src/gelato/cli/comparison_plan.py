"""What ``gelato compare`` is asked to do: models by seed, splits, budgets, files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gelato.cli.options import ModelOptions, SplitOptions
from gelato.cli.outputs import TABLE_SUFFIXES, check_output_file
from gelato.cli.settings import make_model
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.comparison.budgets import Budget
    from gelato.comparison.runs import Contender
    from gelato.splits import EdgeSplit

_FIGURES = (".svg", ".png")


@dataclass(frozen=True)
class KeepOptions:
    """Where results go besides the screen."""

    table: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write one row per run: .csv, .tsv, .parquet, .json or .jsonl.",
            rich_help_panel="Output",
        ),
    ] = None
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw models with their intervals: .svg or .png.",
            rich_help_panel="Output",
        ),
    ] = None


@dataclass(frozen=True)
class BudgetOptions:
    """How much tuning every model gets."""

    tune_trials: Annotated[
        int | None,
        typer.Option(
            "--tune-trials",
            metavar="N",
            help="Tune every model that has parameters with N trials, on each split, "
            "by its validation edges.",
            rich_help_panel="Equal tuning budgets",
        ),
    ] = None
    tune_time: Annotated[
        float | None,
        typer.Option(
            "--tune-time",
            metavar="SECONDS",
            help="The same with a time for each; with both, what ends first.",
            rich_help_panel="Equal tuning budgets",
        ),
    ] = None


def model_list(text: str) -> list[str]:
    """Return the models that an option names, each once; unknown ones are refused."""
    from gelato.models.registry import model_class

    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        model_class(name)  # unknown names are refused before anything is read
    return names


def check_reference(against: str | None, names: list[str]) -> None:
    """Raise unless the model to compare with is compared."""
    if against is not None and against not in names:
        raise UsageError(
            f"--against {against} is not one of the models compared.",
            hint=f"They are: {', '.join(names)}.",
        )


def check_places(keep: KeepOptions) -> None:
    """Raise unless results can be written where they are wanted."""
    check_output_file(keep.table, TABLE_SUFFIXES)
    check_output_file(keep.plot, _FIGURES)


def budget_of(spend: BudgetOptions) -> Budget | None:
    """Return the tuning budget, if one is asked for."""
    from gelato.comparison.budgets import Budget

    return Budget.given(spend.tune_trials, spend.tune_time)


def splits_of(first: EdgeSplit, count: int, options: SplitOptions) -> list[EdgeSplit]:
    """Return a split, and others drawn at random if several are asked for."""
    from gelato.splits import split_edges

    if count < 1:
        raise UsageError(f"--splits is {count}, but must be at least 1.")
    if count == 1:
        return [first]
    if first.kind != "random" or options.split_file or options.split_seed is not None:
        raise UsageError(
            "--splits draws random splits of its own, with seeds from 0.",
            hint="Leave out --splits, or the option that chooses one split.",
        )
    given = {"valid": options.valid, "test": options.test}
    shares = {name: share for name, share in given.items() if share is not None}
    drawn = (split_edges(first.graph, seed=k, **shares) for k in range(1, count))
    return [first, *drawn]


def make_contenders(
    names: list[str], seeds: list[int], preset: str | None, settings: list[str] | None
) -> list[Contender]:
    """Return the models to fit, by name and seed; wrong settings are refused here."""
    from gelato.comparison.runs import Contender
    from gelato.models.registry import model_class, parameter_names

    own: dict[str, list[str]] = {name: [] for name in names}
    for item in settings or ():
        name, dot, rest = item.partition(".")
        if not dot or name not in own:
            raise UsageError(
                f"--set {item} does not name one of the models compared.",
                hint=f"For example: --set {names[-1]}.NAME=VALUE",
            )
        own[name].append(rest)
    if preset is not None and "gelato" not in names:
        raise UsageError(
            "--preset holds parameters of gelato, which is not compared.",
            hint="Leave it out, or add gelato to --models.",
        )
    made = []
    for name in names:
        seeded = "seed" in parameter_names(model_class(name))
        chosen = preset if name == "gelato" else None
        models = {
            seed: make_model(
                name, ModelOptions(name, preset=chosen, settings=own[name], seed=seed)
            )
            for seed in (seeds if seeded else [None])
        }
        made.append(Contender(name, models))
    return made
