"""Doing what experiments still need: runs, figures, the page."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gelato.cli import numbers
from gelato.cli.screen import Screen
from gelato.cli.training import Interrupted, watch_training

if TYPE_CHECKING:
    from gelato.experiments.jobs import Job, Place
    from gelato.experiments.paper import Experiment

Drawn = dict[str, dict[str, list[Path]]]
"""By experiment and figure the files written; none where nothing is recorded."""


def run_missing(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: Place,
    seeds: tuple[int, ...] | None,
) -> None:
    """Do what is missing, one thing after the other; on an engine, side by side."""
    from gelato.experiments.jobs import missing_jobs

    missing = _run_together(screen, missing_jobs(experiments, place, seeds), place)
    for done, job in enumerate(missing):
        screen.line(f"run {done + 1} of {len(missing)}: {job.title}")
        started = time.monotonic()
        try:
            said = job.run(screen.note, partial(watch_training, screen, job.title))
        except KeyboardInterrupt as stop:
            raise Interrupted(
                "What was finished is recorded: the same command goes on from there."
            ) from stop
        spent = numbers.duration(time.monotonic() - started)
        screen.line(f"  {said} after {spent}")


def _run_together(screen: Screen, missing: list[Job], place: Place) -> list[Job]:
    """Do the runs on the engine in use, if there is one; return what is left."""
    from gelato.engines import current_engine
    from gelato.experiments.jobs import ap_text, run_title
    from gelato.experiments.spreading import perform_together

    engine = current_engine()
    specs = [job.spec for job in missing if job.spec is not None]
    if engine is None or engine.name == "local" or not specs:
        return missing
    screen.line(f"{numbers.plural(len(specs), 'run')} on {engine.workers} workers")
    runs = perform_together(engine, specs, place.results)
    try:
        for done, (spec, record) in enumerate(runs, start=1):
            said = ap_text(record["metrics"])
            screen.line(f"{done} of {len(specs)}: {run_title(spec)}: {said}")
    except KeyboardInterrupt as stop:
        raise Interrupted(
            "What was finished is recorded: the same command goes on from there."
        ) from stop
    return [job for job in missing if job.spec is None]


def draw_all(experiments: Sequence[Experiment], place: Place, folder: Path) -> Drawn:
    """Draw the figures of experiments, as far as records allow."""
    from gelato.experiments.figures import draw_figures

    return {
        one.name: draw_figures(one, place.results, folder)
        for one in experiments
        if one.figures
    }


def write_document(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: Place,
    path: Path,
    folder: Path | None,
) -> None:
    """Write the page of all records, its figures first.

    Figures go to ``images/<name of the page>`` beside it, unless a folder is named.
    """
    from gelato.experiments.document import write_page
    from gelato.io import write_text_atomic

    write_page(experiments, place.results)  # refuses bad records before drawing
    images = path.parent / "images" / path.stem if folder is None else folder
    drawn = draw_all(experiments, place, images)
    links = {
        name: {
            figure: _link(files[0].with_suffix(""), path.parent) if files else ""
            for figure, files in found.items()
        }
        for name, found in drawn.items()
    }
    write_text_atomic(path, write_page(experiments, place.results, links))
    screen.show(str(path))
    files = [one for part in drawn.values() for found in part.values() for one in found]
    screen.give({"written": str(path), "figures": [str(file) for file in files]})


def _link(file: Path, folder: Path) -> str:
    """Return the path of a file as a page in a folder names it."""
    return Path(os.path.relpath(file, folder)).as_posix()
