"""``gelato reproduce``: the paper's experiments, run where they are missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gelato.cli.grouping import grouped
from gelato.cli.options import EngineOptions, OutputOptions
from gelato.cli.outputs import check_output_file
from gelato.cli.screen import Screen
from gelato.cli.settings import whole_numbers

if TYPE_CHECKING:
    from gelato.experiments.jobs import Place
    from gelato.experiments.paper import Experiment

_QUICK = "quick"


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("reproduce")(grouped(reproduce))


def reproduce(
    output: OutputOptions,
    engine: EngineOptions,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WHAT",
            help="Experiments of --list; default: all of them.",
            show_default=False,
        ),
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option("--datasets", metavar="NAMES", help="Only these graphs."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods", metavar="NAMES", help="Only these methods, or rows of a table."
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds", metavar="NUMBERS", help="Only these seeds of trained models."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Everything at toy size on the embedded graph, in minutes, kept apart "
            "in WORK/quick: shows that it runs, and nothing about the paper.",
        ),
    ] = False,
    results: Annotated[
        Path,
        typer.Option("--results", metavar="FOLDER", help="Where runs are recorded."),
    ] = Path("results"),
    work: Annotated[
        Path,
        typer.Option(
            "--work", metavar="FOLDER", help="Checkpoints of unfinished runs."
        ),
    ] = Path("runs"),
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            metavar="FOLDER",
            help="Where figures go; default: WORK/figures, and none with --no-run.",
            show_default=False,
        ),
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the experiments, and run nothing.")
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Only show what is recorded.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs, with their time.")
    ] = False,
    write_docs: Annotated[
        Path | None,
        typer.Option(
            "--write-docs",
            metavar="FILE",
            help="Write the page of all records (.md) with its figures, run nothing.",
        ),
    ] = None,
) -> None:
    """Run the paper's experiments that are missing, and show ours beside theirs."""
    from gelato.cli.reproduce_plan import show_plan
    from gelato.cli.reproduce_tables import list_experiments, show_results
    from gelato.cli.reproducing import draw_all, run_missing, write_document

    screen = Screen(output)
    check_output_file(write_docs, (".md",))
    chosen = _experiments(what, datasets, methods, quick)
    place = _place(results, work, quick)
    seed_list = None if seeds is None else tuple(whole_numbers(seeds, "--seeds"))
    if list_only:
        list_experiments(screen, chosen, place, seed_list)
    elif write_docs is not None:
        write_document(screen, chosen, place, write_docs, figures)
    elif dry_run:
        show_plan(screen, chosen, place, seed_list)
    else:
        if not no_run:
            run_missing(screen, chosen, place, seed_list)
        folder = figures or (None if no_run else place.work / "figures")
        drawn = {} if folder is None else draw_all(chosen, place, folder)
        show_results(screen, chosen, place, seed_list, drawn)


def _place(results: Path, work: Path, quick: bool) -> Place:
    """Return where records are; toy runs have a place of their own."""
    from gelato.experiments.jobs import Place
    from gelato.experiments.toy import TIME_SECONDS

    if not quick:
        return Place(results, work)
    return Place(work / _QUICK / "results", work / _QUICK, TIME_SECONDS)


def _experiments(
    what: list[str] | None, datasets: str | None, methods: str | None, quick: bool
) -> list[Experiment]:
    from gelato.experiments.paper import experiment_names, read_experiment
    from gelato.experiments.toy import toy_experiment

    chosen = [read_experiment(name) for name in what or experiment_names()]
    if quick:
        chosen = [toy_experiment(one) for one in chosen]
    if datasets is not None:
        known = {row.dataset for one in chosen for row in one.rows}
        named = _known_names(datasets, known, "dataset of these experiments")
        chosen = [one.on(named) for one in chosen]
    if methods is not None:
        rows = [row for one in chosen for row in one.rows]
        known = {row.method for row in rows} | {row.name for row in rows}
        named = _known_names(methods, known, "method of these experiments")
        chosen = [one.of(named) for one in chosen]
    if datasets is None and methods is None:
        return chosen
    return [one for one in chosen if one.rows]


def _known_names(text: str, known: set[str], what: str) -> list[str]:
    """Return the names of a list with commas; refuse one that is not known."""
    from gelato.experiments.paper import require_known

    names = [name.strip() for name in text.split(",")]
    for name in names:
        require_known(name, sorted(known), what)
    return names
