"""``gelato compare``: several models on the same splits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelato.cli import numbers
from gelato.cli.candidates import require_positives
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
from gelato.cli.inputs import describe_split, load_split
from gelato.cli.options import DataOptions, OutputOptions, RunOptions, SplitOptions
from gelato.cli.rankings import BIASED, comparison_summary, comparison_table
from gelato.cli.screen import Screen
from gelato.errors import UsageError

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
    protocol: Protocol = "all",
) -> None:
    """Compare models: the same splits, every non-edge, best first."""
    screen = Screen(output)
    protocols = protocols_of(protocol)
    names, seed_list = _names(models), _seeds(seeds)
    loaded, first = load_split(data, split, screen)
    for text in loaded.graph.notes:
        screen.note(text)
    require_positives(first, "test")
    made = _splits(first, splits, split)
    tell_compilation(screen, RANKING_KERNELS)
    if run.dry_run:
        _forecast(screen, names, first, run.threads)
        return
    for name in filter(is_heuristic, names):
        _tell_long(screen, name, first, len(made), run.threads)
    summary, table = _measure(screen, made, names, seed_list, protocols, run.threads)
    runs = f", mean ± sd over {len(made)} splits" if len(made) > 1 else ""
    screen.show(
        f"{loaded.name}: {numbers.plural(len(first.test), 'test edge')} among "
        f"{numbers.count(first.num_candidates('test'))} candidate pairs{runs}\n",
        comparison_table(summary),
    )
    if any(entry["biased"] for entry in summary):
        screen.show(
            f"\n{BIASED}: measured against as many random non-edges as edges, which "
            "flatters every model."
        )
    screen.give(
        {
            "data": loaded.to_dict(),
            "splits": [describe_split(item) for item in made],
            "ranking": [
                {key: value for key, value in entry.items() if key != "values"}
                for entry in summary
            ],
            "runs": table.to_dicts(),
        }
    )


def _names(text: str) -> list[str]:
    from gelato.models.registry import model_class

    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        model_class(name)  # unknown names are refused before anything is read
    return names


def _seeds(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(
            f"--seeds {text} is not a list of whole numbers.",
            hint="For example: --seeds 1,2,3",
        )
    return list(dict.fromkeys(int(part) for part in parts))


def _splits(first: EdgeSplit, count: int, options: SplitOptions) -> list[EdgeSplit]:
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


def _measure(
    screen: Screen,
    splits: list[EdgeSplit],
    names: list[str],
    seeds: list[int],
    protocols: tuple[str, ...],
    threads: int | None,
) -> tuple[list[dict[str, Any]], Any]:
    from gelato import compare

    with screen.progress("comparing") as progress:

        def report(what: str, done: int, total: int) -> None:
            if progress is not None:
                progress(done, total)

        table = compare(
            splits,
            names,
            seeds=seeds,
            protocols=protocols,
            threads=threads,
            progress=report,
        )
    return comparison_summary(table), table


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
