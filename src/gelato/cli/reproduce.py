"""``gelato reproduce``: the paper's experiments, run where they are missing."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato import text
from gelato.cli.console import Console, make_facts, make_table
from gelato.cli.forecasts import about, forecast_training
from gelato.cli.options import EngineOptions, OutputOptions, argument, option
from gelato.cli.outputs import check_output_file
from gelato.cli.progress import Interrupted, is_trained, watch_training
from gelato.cli.settings import whole_numbers
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.paper.cells import Cell
    from gelato.paper.experiment import Experiment
    from gelato.paper.jobs import Job, Place
    from gelato.paper.runner import RunSpec
    from gelato.paper.sections import Table


_QUICK = "quick"
# Kinds of experiments whose cells the list names, each cell in one place only.
_LISTED = ("runs", "settings", "grid", "splits", "orders")
_STYLES = {"below": "bold red", "above": "bold green", "missing": "dim"}
Drawn = dict[str, dict[str, list[Path]]]
"""By experiment and figure the files written; none where nothing is recorded."""


def reproduce(
    output: OutputOptions,
    engine: EngineOptions,
    what: list[str] | None = argument(
        "WHAT",
        "Experiments of --list, or tables and figures of the paper, such as table 2; "
        "default: all of them.",
        None,
    ),
    datasets: str | None = option("--datasets NAMES", "Only these graphs."),
    methods: str | None = option(
        "--methods NAMES", "Only these methods, or rows of a table."
    ),
    seeds: str | None = option(
        "--seeds NUMBERS", "Only these seeds of trained models."
    ),
    quick: bool = option(
        "--quick",
        "Everything at toy size, on a part of the embedded graph, in minutes, kept "
        "apart in WORK/quick: shows that it runs, and nothing about the paper.",
        False,
    ),
    results: Path = option(
        "--results FOLDER", "Where runs are recorded.", Path("results")
    ),
    work: Path = option(
        "--work FOLDER", "Checkpoints of unfinished runs.", Path("runs")
    ),
    figures: Path | None = option(
        "--figures FOLDER",
        "Where figures go; default: WORK/figures, and none with --no-run.",
    ),
    table: Path | None = option(
        "--output -o FILE",
        "Write the tables, ours beside the paper's: .tex, .md or .csv.",
    ),
    list_only: bool = option("--list", "List the experiments, and run nothing.", False),
    no_run: bool = option("--no-run", "Only show what is recorded.", False),
    dry_run: bool = option("--dry-run", "Only list the runs, with their time.", False),
    write_docs: Path | None = option(
        "--write-docs FILE",
        "Write the page of all records (.md) with a page for each experiment beside "
        "it and figures, run nothing.",
    ),
    migrate: bool = option(
        "--migrate",
        "Only write records of older layouts in that of today; digests stay.",
        False,
    ),
) -> None:
    """Run the paper's experiments that are missing, and show ours beside theirs."""
    console = Console(output)
    check_output_file(write_docs, (".md",))
    check_output_file(table, (".tex", ".md", ".csv"))
    chosen = _experiments(what, datasets, methods, quick)
    place = _place(results, work, quick)
    seed_list = None if seeds is None else tuple(whole_numbers(seeds, "--seeds"))
    if migrate:
        migrate_records(console, place)
    elif list_only:
        list_experiments(console, chosen, place, seed_list)
    elif write_docs is not None:
        write_document(console, chosen, place, write_docs, figures)
    elif dry_run:
        show_plan(console, chosen, place, seed_list)
    else:
        if not no_run:
            run_missing(console, chosen, place, seed_list)
        folder = figures or (None if no_run else place.work / "figures")
        drawn = {} if folder is None else draw_all(chosen, place, folder)
        shown = show_results(console, chosen, place, seed_list, drawn)
        if table is not None:
            _write_cells(console, shown, table)


def _place(results: Path, work: Path, quick: bool) -> Place:
    """Return where records are; toy runs have a place of their own."""
    from gelato.paper.jobs import Place
    from gelato.paper.toy import TIME_SECONDS

    if not quick:
        return Place(results, work)
    return Place(work / _QUICK / "results", work / _QUICK, TIME_SECONDS)


def _experiments(
    what: list[str] | None, datasets: str | None, methods: str | None, quick: bool
) -> list[Experiment]:
    from gelato.paper.experiment import experiment_names, read_experiment
    from gelato.paper.toy import toy_experiment

    named = experiment_names() if not what else experiments_called(what)
    chosen = [read_experiment(name) for name in named]
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


def experiments_called(words: Sequence[str]) -> list[str]:
    """Return experiments by name, or by number: ``table 2``, ``figure-7``, ``fig8``."""
    from gelato.paper.experiment import experiment_names, read_experiment

    numbers: dict[str, str] = {}
    for name in experiment_names():
        paper = read_experiment(name).paper
        # "in Table 2" and "beside Table 2" are parts of it, not the table.
        if paper.startswith(("Table", "Figure")):
            for kind, listed in re.findall(r"(Table|Figure)s? ([\d and]+)", paper):
                for number in re.findall(r"\d+", listed):
                    numbers[f"{kind.lower()} {number}"] = name
    found = []
    spoken = re.sub(
        r"\b(table|tab\.?|figure|fig\.?)[\s_-]*(\d+)\b",
        lambda match: f"{match[1][:3].lower()}:{match[2]}",
        " ".join(words),
        flags=re.IGNORECASE,
    )
    for word in spoken.split():
        kind, colon, number = word.partition(":")
        if not colon:
            found.append(word)
            continue
        title = f"{ {'tab': 'table', 'fig': 'figure'}[kind] } {number}"
        if title not in numbers:
            raise UsageError(
                f"There is nothing to reproduce for {title} of the paper.",
                hint=f"There is: {', '.join(numbers)}.",
            )
        found.append(numbers[title])
    return list(dict.fromkeys(found))


def _known_names(given: str, known: set[str], what: str) -> list[str]:
    """Return the names of a list with commas; refuse one that is not known."""
    from gelato.paper.experiment import require_known

    names = [given]
    if given not in known:  # a name may have a comma of its own
        names = [name.strip() for name in given.split(",")]
    for name in names:
        require_known(name, sorted(known), what)
    return names


def list_experiments(
    console: Console,
    experiments: Sequence[Experiment],
    place: Place,
    seeds: tuple[int, ...] | None,
) -> None:
    """Print the experiments, then the state and the forecast of every cell."""
    from gelato.paper.cells import cells
    from gelato.paper.jobs import Forecasts, count_parts, missing_jobs

    forecasts = Forecasts(place.results)
    rows, listed, documents = [], [], []
    for one in experiments:
        every = count_parts([one], seeds)
        have = every - len(missing_jobs([one], place, seeds))
        done = f"{have} of {every}" if every else "computed"
        rows.append((one.name, one.paper, one.title, done))
        parts = []
        for row in one.rows if one.kind in _LISTED else ():
            part = replace(one, rows=(row,))
            (cell, *_) = cells(part, place.results, seeds=seeds)
            seconds = forecasts.missing_seconds(row, cell.missing)
            parts.append(
                {
                    "row": cell.method,
                    "dataset": cell.dataset,
                    "state": cell.state,
                    "why": cell.why,
                    "recorded": len(cell.values),
                    "missing_seeds": list(cell.missing),
                    "forecast_seconds": seconds,
                }
            )
            listed.append((one.name, cell, seconds))
        documents.append(
            {
                "name": one.name,
                "paper": one.paper,
                "title": one.title,
                "datasets": list(one.datasets),
                "runs": every,
                "recorded": have,
                "cells": parts,
            }
        )
    names = ("experiment", "in the paper", "what it is", "recorded")
    console.show(make_table(*names, rows=rows, text=3))
    if listed:
        columns = (
            "experiment",
            "row",
            "graph",
            "state",
            "runs",
            "time to run the rest",
        )
        lines = [
            (
                name,
                cell.method,
                cell.dataset,
                cell.state if cell.values or cell.missing else f"none: {cell.why}",
                f"{len(cell.values)} of {len(cell.values) + len(cell.missing)}",
                _rest_text(cell, seconds),
            )
            for name, cell, seconds in listed
        ]
        console.show("", make_table(*columns, rows=lines, text=4))
    console.give({"experiments": documents})


def _rest_text(cell: Cell, seconds: float | None) -> str:
    if not cell.missing:
        return ""
    return "not forecast" if seconds is None else about(seconds, most=False)


def migrate_records(console: Console, place: Place) -> None:
    """Write records in the layout of today."""
    from gelato.paper import records

    changed = [str(path) for path in records.migrate(place.results)]
    console.show(f"{text.plural(len(changed), 'record')} written in today's layout.")
    console.give({"written": changed})


def run_missing(
    console: Console,
    experiments: Sequence[Experiment],
    place: Place,
    seeds: tuple[int, ...] | None,
) -> None:
    """Do what is missing, one thing after the other; on an engine, side by side."""
    from gelato.paper.jobs import missing_jobs

    missing = _run_together(console, missing_jobs(experiments, place, seeds), place)
    for done, job in enumerate(missing):
        console.line(f"run {done + 1} of {len(missing)}: {job.title}")
        started = time.monotonic()
        try:
            said = job.run(console.note, partial(watch_training, console, job.title))
        except KeyboardInterrupt as stop:
            raise Interrupted(
                "What was finished is recorded: the same command goes on from there."
            ) from stop
        spent = text.duration(time.monotonic() - started)
        console.line(f"  {said} after {spent}")


def _run_together(console: Console, missing: list[Job], place: Place) -> list[Job]:
    """Do the runs on the engine in use, if there is one; return what is left."""
    from gelato.engines import current_engine
    from gelato.paper.jobs import ap_text, run_title
    from gelato.paper.runner import perform_together

    engine = current_engine()
    specs = [job.spec for job in missing if job.spec is not None]
    if engine is None or engine.name == "local" or not specs:
        return missing
    console.line(f"{text.plural(len(specs), 'run')} on {engine.workers} workers")
    runs = perform_together(engine, specs, place.results)
    try:
        for done, (spec, record) in enumerate(runs, start=1):
            said = ap_text(record["metrics"])
            console.line(f"{done} of {len(specs)}: {run_title(spec)}: {said}")
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "What was finished is recorded: the same command goes on from there."
        ) from stop
    return [job for job in missing if job.spec is None]


def draw_all(experiments: Sequence[Experiment], place: Place, folder: Path) -> Drawn:
    """Draw the figures of experiments, as far as records allow."""
    from gelato.paper.plots import draw_figures

    return {
        one.name: draw_figures(one, place.results, folder)
        for one in experiments
        if one.figures
    }


def write_document(
    console: Console,
    experiments: Sequence[Experiment],
    place: Place,
    path: Path,
    folder: Path | None,
) -> None:
    """Write the first page, a page for each experiment beside it, and their figures.

    The pages go to a folder with the name of the first one, figures to
    ``images/<name of the page>`` beside it, unless a folder is named.
    """
    from gelato.io import write_text_atomic
    from gelato.paper.document import FIGURE, write_front, write_page, write_runs
    from gelato.paper.records import make_folders

    for one in experiments:  # refuses bad records before drawing
        write_page(one, place.results)
    images = path.parent / "images" / path.stem if folder is None else folder
    drawn = draw_all(experiments, place, images)
    pages = path.parent / path.stem
    make_folders(pages)
    for one in experiments:
        links = {
            figure: _link(files[0].with_suffix(""), pages) if files else ""
            for figure, files in drawn.get(one.name, {}).items()
        }
        page = write_page(one, place.results, links)
        write_text_atomic(pages / f"{one.name}.md", page)
    write_text_atomic(pages / "runs.md", write_runs(experiments, place.results))
    shown = drawn.get(FIGURE[0], {}).get(FIGURE[1], [])
    figure = _link(shown[0].with_suffix(""), path.parent) if shown else ""
    front = write_front(experiments, place.results, folder=path.stem, figure=figure)
    write_text_atomic(path, front)
    console.show(str(path))
    files = [one for part in drawn.values() for found in part.values() for one in found]
    console.give({"written": str(path), "figures": [str(file) for file in files]})


def _link(file: Path, folder: Path) -> str:
    """Return the path of a file as a page in a folder names it."""
    return Path(os.path.relpath(file, folder)).as_posix()


def show_plan(
    console: Console,
    experiments: Sequence[Experiment],
    place: Place,
    seeds: tuple[int, ...] | None,
) -> None:
    """Print what would run, with the time that equal runs took or would take."""
    from gelato.paper.jobs import count_parts, missing_jobs, run_specs

    missing = missing_jobs(experiments, place, seeds)
    known: dict[str, _Cost] = {}
    known |= _known_costs(run_specs(experiments, seeds), place)
    trained: set[str] = set()
    rows: list[dict[str, Any]] = []
    total = 0.0
    for job in missing:
        cost, started = _UNKNOWN, False
        if job.spec is not None:
            cost = _cost(console, job.spec, known, trained, place)
            started = (place.work / job.spec.name).is_dir()
        total += cost.seconds or 0.0
        rows.append({"run": job.title, "started": started} | asdict(cost))
    every = count_parts(experiments, seeds)
    console.show(f"{every - len(missing)} of {every} runs are recorded.")
    if rows:
        lines = [
            (
                row["run"],
                _text(row["seconds"], most=row["may_stop_early"]),
                "resumes" if row["started"] else "",
            )
            for row in rows
        ]
        console.show("", make_table("missing run", "time to fit", "", rows=lines))
        if total:
            most = any(row["may_stop_early"] for row in rows)
            console.show("", make_facts([("to fit in all", _text(total, most=most))]))
    console.give({"runs": every, "missing": rows, "seconds": total or None})


@dataclass(frozen=True)
class _Cost:
    """Time to fit, if it is known, and whether it is the most that it can be."""

    seconds: float | None
    may_stop_early: bool = False


_UNKNOWN = _Cost(None)


def _text(seconds: float | None, *, most: bool) -> str:
    return "unknown" if seconds is None else about(seconds, most=most)


def _key(spec: RunSpec) -> str:
    """Return what runs of equal cost share: all but the seed."""
    parameters = json.dumps(spec.parameters, sort_keys=True)
    return f"{spec.method} {spec.dataset} {spec.label} {parameters}"


def _known_costs(specs: Sequence[RunSpec], place: Place) -> dict[str, _Cost]:
    """Return the mean time to fit of recorded runs that differ in the seed alone."""
    from gelato.paper.runner import find_result

    spent: dict[str, list[float]] = {}
    for spec in specs:
        record = find_result(place.results, spec)
        if record is not None:
            spent.setdefault(_key(spec), []).append(record["fit_seconds"])
    return {key: _Cost(sum(times) / len(times)) for key, times in spent.items()}


def _cost(
    console: Console,
    spec: RunSpec,
    known: dict[str, _Cost],
    trained: set[str],
    place: Place,
) -> _Cost:
    """Return what fitting a run takes; a training that two share counts once."""
    from gelato.paper.runner import find_result, first_stage

    stage = first_stage(spec) or spec
    if stage.name in trained or (
        stage != spec and find_result(place.results, stage) is not None
    ):
        return _Cost(0.0)
    trained.add(stage.name)
    if _key(spec) not in known:
        known[_key(spec)] = _timed_cost(console, spec)
    return known[_key(spec)]


def _timed_cost(console: Console, spec: RunSpec) -> _Cost:
    """Time the first steps of a run, if its graph is on this machine."""
    from gelato.datasets import list_datasets
    from gelato.paper.runner import make_run_model

    here = {facts.name for facts in list_datasets() if facts.path is not None}
    model = make_run_model(spec)
    if spec.dataset not in here or not is_trained(model):
        return _UNKNOWN
    console.line(f"timing a few steps of {spec.method} on {spec.dataset}")
    split = spec.read_split()
    coming = forecast_training(console, model, split)
    if coming is None:
        return _UNKNOWN
    return _Cost(coming.seconds, coming.patience is not None)


def show_results(
    console: Console,
    experiments: Sequence[Experiment],
    place: Place,
    seeds: tuple[int, ...] | None,
    drawn: dict[str, dict[str, list[Path]]],
) -> list[Cell]:
    """Print the tables of experiments, their figures, and what is missing.

    Returns their cells.
    """
    shown = [_Shown.of(one, place, seeds) for one in experiments]  # all, or an error
    documents: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    for order, part in enumerate(shown):
        one = part.experiment
        console.show(*([""] if order else []), f"{one.title} ({one.name})", "")
        if one.kind == "runs":
            console.show(cell_table(part.cells))
            _show_marks(console, part.cells)
        for table in part.tables:
            _show_table(console, table)
        files = _show_figures(console, drawn.get(one.name, {}))
        documents.append({**part.to_dict(), "figures": files})
        missing |= part.missing
    _show_missing(console, missing)
    console.give({"experiments": documents})
    return [cell for part in shown for cell in part.cells]


def _write_cells(console: Console, cells: Sequence[Cell], file: Path) -> None:
    """Write what was measured and what the paper printed, one cell per row."""
    from gelato.paper.cells import number_text, spread
    from gelato.report.paper_tables import write_paper_table

    header = ["method", "graph", "metric", "ours, mean ± deviation", "seeds", "paper"]
    rows = [
        [
            cell.method,
            cell.dataset,
            cell.metric,
            number_text(cell),
            str(len(cell.values)),
            spread(cell.published, cell.published_sd),
        ]
        for cell in cells
    ]
    write_paper_table(header, rows, file)
    console.line(f"wrote {text.plural(len(rows), 'cell')} to {file}")


@dataclass(frozen=True)
class _Shown:
    """What is shown of an experiment."""

    experiment: Experiment
    cells: list[Cell]
    tables: list[Table]
    missing: dict[str, str]

    @classmethod
    def of(
        cls, experiment: Experiment, place: Place, seeds: tuple[int, ...] | None
    ) -> _Shown:
        from gelato.paper.cells import cells
        from gelato.paper.document import missing_commands
        from gelato.paper.sections import section_tables

        if experiment.kind == "runs":
            found = cells(experiment, place.results, seeds=seeds)
            return cls(experiment, found, [], missing_commands(experiment, found))
        tables = section_tables(experiment, place.results)
        missing = {k: v for table in tables for k, v in (table.missing or {}).items()}
        return cls(experiment, [], tables, missing)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "notes": list(self.experiment.notes),
            "cells": [cell.to_dict() for cell in self.cells],
            "tables": [table.to_dict() for table in self.tables],
        }


def _show_table(console: Console, table: Table) -> None:
    if table.title:
        console.show(table.title)
    if table.rows:
        console.show(make_table(*table.header, rows=table.rows, text=table.text), "")


def _show_figures(
    console: Console, drawn: dict[str, list[Path]]
) -> dict[str, list[str]]:
    for name, files in drawn.items():
        named = ", ".join(str(file) for file in files)
        console.show(f"figure {name}: {named or 'missing, nothing is recorded for it'}")
    return {name: [str(file) for file in files] for name, files in drawn.items()}


def cell_table(found: Sequence[Cell]) -> Any:
    """Return ours beside the paper's; what lies outside the tolerance stands out."""
    from rich.text import Text

    from gelato.paper.cells import number_text
    from gelato.paper.document import paper_text, seed_text

    columns = ("method", "dataset", "%", "ours", "paper", "diff.", "verdict")
    table = make_table(*columns, "seeds", text=3)
    table.columns[6].justify = "left"
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
            number_text(cell),
            paper_text(cell),
            difference,
            Text(verdict, style=_STYLES.get(cell.verdict, "")),
            seed_text(cell.seeds),
        )
    return table


def _show_marks(console: Console, found: Sequence[Cell]) -> None:
    """Say why cells are estimated, reduced, or will stay empty."""
    from gelato.paper.cells import mark_lines

    lines = mark_lines(found)
    if lines:
        console.show("", *lines)


def _show_missing(console: Console, missing: dict[str, str]) -> None:
    from gelato.paper.document import by_command

    if missing:
        console.show("", "Missing, and what runs it")
    for command, what in by_command(missing).items():
        console.show(f"  {command}", *(f"    {part}" for part in what))
