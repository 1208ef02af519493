"""``gelato reproduce``: the paper's experiments, run where they are missing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelato.cli import numbers
from gelato.cli.grouping import grouped
from gelato.cli.options import OutputOptions
from gelato.cli.outputs import check_output_file
from gelato.cli.screen import Screen, make_facts, make_table
from gelato.cli.settings import whole_numbers
from gelato.cli.training import Interrupted, is_trained, watch_training

if TYPE_CHECKING:
    from gelato.experiments.paper import Experiment
    from gelato.experiments.runs import RunSpec
    from gelato.experiments.tables import Cell


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("reproduce")(grouped(reproduce))


@dataclass(frozen=True)
class _Place:
    """Where records and checkpoints are."""

    results: Path
    work: Path


def reproduce(
    output: OutputOptions,
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
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds", metavar="NUMBERS", help="Only these seeds of trained models."
        ),
    ] = None,
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
            help="Write the page of all recorded runs (.md), and run nothing.",
        ),
    ] = None,
) -> None:
    """Run the paper's experiments that are missing, and show ours beside theirs."""
    screen = Screen(output)
    check_output_file(write_docs, (".md",))
    place = _Place(results, work)
    chosen = _experiments(what, datasets)
    seed_list = None if seeds is None else tuple(whole_numbers(seeds, "--seeds"))
    if list_only:
        _list(screen, chosen, place, seed_list)
    elif write_docs is not None:
        _write_page(screen, chosen, place, write_docs)
    elif dry_run:
        _plan(screen, chosen, place, seed_list)
    else:
        if not no_run:
            _run_missing(screen, chosen, place, seed_list)
        _show(screen, chosen, place, seed_list)


def _experiments(what: list[str] | None, datasets: str | None) -> list[Experiment]:
    from gelato.experiments.paper import (
        experiment_names,
        read_experiment,
        require_known,
    )

    chosen = [read_experiment(name) for name in what or experiment_names()]
    if datasets is None:
        return chosen
    named = [name.strip() for name in datasets.split(",")]
    known = list(dict.fromkeys(name for part in chosen for name in part.datasets))
    for name in named:
        require_known(name, known, "dataset of these experiments")
    return [part for part in (one.on(named) for one in chosen) if part.rows]


def _specs(
    experiments: Sequence[Experiment], seeds: tuple[int, ...] | None
) -> list[RunSpec]:
    """Return the runs of experiments, each once."""
    specs = (
        spec for part in experiments for row in part.rows for spec in row.runs(seeds)
    )
    return list({spec.key: spec for spec in specs}.values())


def _missing(
    experiments: Sequence[Experiment], place: _Place, seeds: tuple[int, ...] | None
) -> list[RunSpec]:
    from gelato.experiments.runs import find_result

    return [
        spec
        for spec in _specs(experiments, seeds)
        if find_result(place.results, spec) is None
    ]


def _run_missing(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: _Place,
    seeds: tuple[int, ...] | None,
) -> None:
    from gelato.experiments.runs import perform

    missing = _missing(experiments, place, seeds)
    for done, spec in enumerate(missing):
        title = run_title(spec)
        screen.line(f"run {done + 1} of {len(missing)}: {title}")
        started = time.monotonic()
        try:
            record = perform(
                spec,
                place.results,
                place.work,
                report=screen.note,
                watch=partial(watch_training, screen, title),
            )
        except KeyboardInterrupt as stop:
            raise Interrupted(
                "What was finished is recorded: the same command goes on from there."
            ) from stop
        ap = numbers.percent(record["metrics"]["ap"])
        spent = numbers.duration(time.monotonic() - started)
        screen.line(f"  AP {ap} after {spent}")


def run_title(spec: RunSpec) -> str:
    """Return a run in words."""
    seed = "" if spec.seed is None else f", seed {spec.seed}"
    label = f", {spec.label}" if spec.label else ""
    return f"{spec.method} on {spec.dataset}{seed}{label}"


def _show(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: _Place,
    seeds: tuple[int, ...] | None,
) -> None:
    from gelato.experiments.tables import cells

    found = {one.name: cells(one, place.results, seeds=seeds) for one in experiments}
    for place_in_list, one in enumerate(experiments):
        screen.show(
            *([""] if place_in_list else []),
            f"{one.title} ({one.name}), in percent",
            "",
            cell_table(found[one.name]),
        )
    _show_missing(screen, experiments, found)
    screen.give(
        {
            "experiments": [
                {
                    "name": one.name,
                    "title": one.title,
                    "notes": list(one.notes),
                    "cells": [cell.to_dict() for cell in found[one.name]],
                }
                for one in experiments
            ]
        }
    )


def cell_table(found: Sequence[Cell]) -> Any:
    """Return ours beside the paper's; what lies outside the tolerance stands out."""
    from rich.text import Text

    from gelato.experiments.document import seed_text, spread

    columns = ("method", "dataset", "", "ours", "paper", "diff.", "verdict")
    table = make_table(*columns, "seeds", text=3)
    table.columns[6].justify = "left"
    styles = {"below": "bold red", "above": "bold green", "missing": "dim"}
    for cell in found:
        difference = "" if cell.difference is None else f"{cell.difference:+.2f}"
        within = cell.verdict == "within" and cell.tolerance is not None
        verdict = f"within {cell.tolerance:.2f}" if within else cell.verdict
        if cell.verdict in ("below", "above"):
            verdict = f"{cell.verdict.upper()} {cell.tolerance:.2f}"
        table.add_row(
            f"{cell.method}, {cell.label}" if cell.label else cell.method,
            cell.dataset,
            {"ap": "AP", "auc": "AUC"}.get(cell.metric, cell.metric),
            spread(cell.mean, cell.deviation),
            spread(cell.published, cell.published_sd),
            difference,
            Text(verdict, style=styles.get(cell.verdict, "")),
            seed_text(cell.seeds),
        )
    return table


def _show_missing(
    screen: Screen,
    experiments: Sequence[Experiment],
    found: dict[str, list[Cell]],
) -> None:
    from gelato.experiments.document import missing_commands

    lines = [
        line
        for one in experiments
        for line in missing_commands(one, found[one.name]).items()
    ]
    if lines:
        screen.show("", "Missing, and what runs it")
        for what, command in lines:
            screen.show(f"  {what}", f"    {command}")


def _list(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: _Place,
    seeds: tuple[int, ...] | None,
) -> None:
    rows = []
    for one in experiments:
        every = len(_specs([one], seeds))
        rows.append((one, every, every - len(_missing([one], place, seeds))))
    screen.show(
        make_table(
            "experiment",
            "what it is",
            "graphs",
            "recorded",
            rows=[
                (one.name, one.title, ", ".join(one.datasets), f"{have} of {every}")
                for one, every, have in rows
            ],
            text=3,
        )
    )
    screen.give(
        {
            "experiments": [
                {
                    "name": one.name,
                    "title": one.title,
                    "datasets": list(one.datasets),
                    "runs": every,
                    "recorded": have,
                }
                for one, every, have in rows
            ]
        }
    )


def _plan(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: _Place,
    seeds: tuple[int, ...] | None,
) -> None:
    """Print what would run, with the time that equal runs took or would take."""
    missing = _missing(experiments, place, seeds)
    known: dict[tuple[str, str], float | None] = {}
    known |= _known_seconds(experiments, place)
    rows, total = [], 0.0
    for spec in missing:
        key = (spec.method, spec.dataset)
        if key not in known:
            known[key] = _timed_seconds(screen, spec)
        seconds = known[key]
        total += seconds or 0.0
        started = (place.work / spec.name).is_dir()
        rows.append({"run": run_title(spec), "started": started, "seconds": seconds})
    every = len(_specs(experiments, seeds))
    screen.show(f"{every - len(missing)} of {every} runs are recorded.")
    if rows:
        lines = [
            (
                row["run"],
                "unknown" if row["seconds"] is None else _about(row["seconds"]),
                "resumes" if row["started"] else "",
            )
            for row in rows
        ]
        screen.show("", make_table("missing run", "time to fit", "", rows=lines))
        if total:
            screen.show("", make_facts([("in all", f"at least {_about(total)}")]))
    screen.give({"runs": every, "missing": rows, "seconds": total or None})


def _about(seconds: Any) -> str:
    return f"about {numbers.duration(float(seconds))}"


def _known_seconds(
    experiments: Sequence[Experiment], place: _Place
) -> dict[tuple[str, str], float]:
    """Return the mean time to fit of recorded runs, by method and dataset."""
    from gelato.experiments.tables import row_records

    spent: dict[tuple[str, str], list[float]] = {}
    for one in experiments:
        for row in one.rows:
            times = [r["fit_seconds"] for r in row_records(row, place.results)]
            spent.setdefault((row.method, row.dataset), []).extend(times)
    return {key: sum(times) / len(times) for key, times in spent.items() if times}


def _timed_seconds(screen: Screen, spec: RunSpec) -> float | None:
    """Time the first steps of a run, if its graph is on this machine."""
    from gelato.cli.training_forecast import forecast_training
    from gelato.datasets import list_datasets, load_dataset
    from gelato.experiments.runs import make_run_model
    from gelato.splits import split_edges

    here = {facts.name for facts in list_datasets() if facts.path is not None}
    model = make_run_model(spec)
    if spec.dataset not in here or not is_trained(model):
        return None
    screen.line(f"timing a few steps of {spec.method} on {spec.dataset}")
    split = split_edges(load_dataset(spec.dataset))
    coming = forecast_training(screen, model, split)
    return None if coming is None else coming.seconds


def _write_page(
    screen: Screen, experiments: Sequence[Experiment], place: _Place, path: Path
) -> None:
    from gelato.experiments.document import write_page
    from gelato.io import write_text_atomic

    write_text_atomic(path, write_page(experiments, place.results))
    screen.show(str(path))
    screen.give({"written": str(path)})
