"""``gelato compare``: several models on the same splits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelato.cli.candidates import require_positives
from gelato.cli.comparing import Comparing
from gelato.cli.comparison_plan import (
    BudgetOptions,
    KeepOptions,
    budget_of,
    check_places,
    check_reference,
    make_contenders,
    model_list,
    splits_of,
)
from gelato.cli.comparison_results import finish
from gelato.cli.evaluate import Protocol, protocols_of
from gelato.cli.forecasts import (
    RANKING_KERNELS,
    forecast_model,
    give_forecasts,
    is_heuristic,
    tell_compilation,
    tell_long_run,
)
from gelato.cli.grouping import grouped
from gelato.cli.inputs import load_split
from gelato.cli.options import DataOptions, OutputOptions, RunOptions, SplitOptions
from gelato.cli.screen import Screen
from gelato.cli.settings import whole_numbers

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("compare")(grouped(compare))


def compare(
    data: DataOptions,
    split: SplitOptions,
    run: RunOptions,
    output: OutputOptions,
    keep: KeepOptions,
    spend: BudgetOptions,
    models: Annotated[
        str,
        typer.Option("--models", "-m", metavar="NAMES", help="Separated by commas."),
    ] = "cn,aa,ra,ac",
    splits: Annotated[
        int,
        typer.Option(
            "--splits", metavar="N", help="Random splits, with seeds 0 to N - 1."
        ),
    ] = 1,
    seeds: Annotated[
        str,
        typer.Option(
            "--seeds", metavar="NUMBERS", help="Seeds of models that have one."
        ),
    ] = "1",
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset", metavar="NAME", help="Parameters of gelato in the paper."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="MODEL.NAME=VALUE",
            help="A parameter of a model, for example gelato.epochs=50. May be "
            "repeated.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME",
            help="The model that differences are taken to (the best).",
        ),
    ] = None,
    protocol: Protocol = "all",
) -> None:
    """Compare models: the same splits, every non-edge, best first."""
    screen = Screen(output)
    protocols = protocols_of(protocol)
    names, seed_list = model_list(models), whole_numbers(seeds, "--seeds")
    budget = budget_of(spend)
    contenders = make_contenders(names, seed_list, preset, settings)
    check_places(keep)
    check_reference(against, names)
    loaded, first = load_split(data, split, screen)
    for text in loaded.graph.notes:
        screen.note(text)
    require_positives(first, "test")
    if budget is not None:
        require_positives(first, "valid")
    made = splits_of(first, splits, split)
    tell_compilation(screen, RANKING_KERNELS)
    if run.dry_run:
        _forecast(screen, names, first, run.threads)
        return
    for name in filter(is_heuristic, names):
        _tell_long(screen, name, first, len(made), run.threads)
    job = Comparing(screen, contenders, made, protocols, budget, run.threads)
    job.tell_budget()
    job.run()
    finish(screen, job, loaded, keep, against)
    job.end()


def _tell_long(
    screen: Screen, name: str, split: EdgeSplit, runs: int, threads: int | None
) -> None:
    from gelato.ranking.evaluate import test_candidates

    tell_long_run(
        screen,
        _fitted(name, split),
        split.train_graph,
        test_candidates(split, "test"),
        runs=runs,
        positives=len(split.test),
        threads=threads,
    )


def _fitted(name: str, split: EdgeSplit) -> Any:
    from gelato.models.registry import make

    return make(name).fit(split)


def _forecast(
    screen: Screen, names: list[str], split: EdgeSplit, threads: int | None
) -> None:
    from gelato.ranking.evaluate import test_candidates

    rule = test_candidates(split, "test")
    coming = {
        name: forecast_model(
            name,
            partial(_fitted, name, split),
            split.train_graph,
            candidates=rule,
            positives=len(split.test),
            threads=threads,
        )
        for name in names
    }
    give_forecasts(screen, coming)
