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
from gelato.cli.options import (
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SplitOptions,
)
from gelato.cli.rankings import BIASED, comparison_summary, comparison_table
from gelato.cli.screen import Screen
from gelato.cli.settings import make_model, whole_numbers
from gelato.cli.training import fit_model, is_trained
from gelato.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

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
    protocol: Protocol = "all",
) -> None:
    """Compare models: the same splits, every non-edge, best first."""
    screen = Screen(output)
    protocols = protocols_of(protocol)
    names, seed_list = _names(models), whole_numbers(seeds, "--seeds")
    plan = _plan(names, seed_list, preset, settings)
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
    table = _measure(screen, made, plan, protocols, run.threads)
    summary = comparison_summary(table)
    runs = _spread_text(len(made), max(map(len, plan.values())))
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


def _plan(
    names: list[str], seeds: list[int], preset: str | None, settings: list[str] | None
) -> dict[str, dict[int | None, Any]]:
    """Return the models to fit, by name and seed; wrong settings are refused here."""
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
    plan: dict[str, dict[int | None, Any]] = {}
    for name in names:
        seeded = "seed" in parameter_names(model_class(name))
        chosen = preset if name == "gelato" else None
        plan[name] = {
            seed: make_model(
                name, ModelOptions(name, preset=chosen, settings=own[name], seed=seed)
            )
            for seed in (seeds if seeded else [None])
        }
    return plan


def _spread_text(splits: int, seeds: int) -> str:
    counts = {"splits": splits, "seeds": seeds}
    several = [f"{number} {noun}" for noun, number in counts.items() if number > 1]
    return f", mean ± sd over {' and '.join(several)}" if several else ""


class _Watched:
    """A model whose training is shown while the library fits it."""

    def __init__(self, screen: Screen, name: str, model: Any) -> None:
        self.screen, self.name, self.model = screen, name, model

    def fit(self, split: EdgeSplit) -> Any:
        return fit_model(self.screen, self.name, self.model, split)


def _measure(
    screen: Screen,
    splits: list[EdgeSplit],
    plan: dict[str, dict[int | None, Any]],
    protocols: tuple[str, ...],
    threads: int | None,
) -> pl.DataFrame:
    """Return one row per model, seed, split and protocol."""
    import polars as pl

    jobs = [
        (name, seed, model)
        for name, models in plan.items()
        for seed, model in models.items()
    ]
    # A training has a bar of its own, and two of them would fight for the terminal.
    at_once = [job for job in jobs if not is_trained(job[2])]
    trained = [job for job in jobs if is_trained(job[2])]
    tables: list[pl.DataFrame] = []
    with screen.progress("comparing") as progress:
        for job in at_once:
            if progress is not None:
                progress(len(tables), len(at_once))
            tables.append(_rows(screen, job, splits, protocols, threads))
    tables += [_rows(screen, job, splits, protocols, threads) for job in trained]
    return pl.concat(tables)


def _rows(
    screen: Screen,
    job: tuple[str, int | None, Any],
    splits: list[EdgeSplit],
    protocols: tuple[str, ...],
    threads: int | None,
) -> pl.DataFrame:
    import polars as pl

    from gelato import compare

    name, seed, model = job
    watched = _Watched(screen, name if seed is None else f"{name}, seed {seed}", model)
    table = compare(splits, [watched], protocols=protocols, threads=threads)
    return table.with_columns(
        pl.lit(name).alias("model"), pl.lit(seed, dtype=pl.Int64).alias("seed")
    )


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
