"""What is missing and how long it would take, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.screen import Screen, make_facts, make_table
from gelato.cli.training import is_trained

if TYPE_CHECKING:
    from gelato.experiments.jobs import Place
    from gelato.experiments.paper import Experiment
    from gelato.experiments.runs import RunSpec


def show_plan(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: Place,
    seeds: tuple[int, ...] | None,
) -> None:
    """Print what would run, with the time that equal runs took or would take."""
    from gelato.experiments.jobs import count_parts, missing_jobs, run_specs

    missing = missing_jobs(experiments, place, seeds)
    known: dict[str, float | None] = {}
    known |= _known_seconds(run_specs(experiments, seeds), place)
    trained: set[str] = set()
    rows, total = [], 0.0
    for job in missing:
        seconds: float | None = None
        started = False
        if job.spec is not None:
            seconds = _seconds(screen, job.spec, known, trained, place)
            started = (place.work / job.spec.name).is_dir()
        total += seconds or 0.0
        rows.append({"run": job.title, "started": started, "seconds": seconds})
    every = count_parts(experiments, seeds)
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


def _key(spec: RunSpec) -> str:
    """Return what runs of equal cost share: all but the seed."""
    parameters = json.dumps(spec.parameters, sort_keys=True)
    return f"{spec.method} {spec.dataset} {spec.label} {parameters}"


def _known_seconds(specs: Sequence[RunSpec], place: Place) -> dict[str, float]:
    """Return the mean time to fit of recorded runs that differ in the seed alone."""
    from gelato.experiments.runs import find_result

    spent: dict[str, list[float]] = {}
    for spec in specs:
        record = find_result(place.results, spec)
        if record is not None:
            spent.setdefault(_key(spec), []).append(record["fit_seconds"])
    return {key: sum(times) / len(times) for key, times in spent.items()}


def _seconds(
    screen: Screen,
    spec: RunSpec,
    known: dict[str, float | None],
    trained: set[str],
    place: Place,
) -> float | None:
    """Return what fitting a run takes; a training that two share counts once."""
    from gelato.experiments.runs import find_result, first_stage

    stage = first_stage(spec) or spec
    if stage.name in trained or (
        stage != spec and find_result(place.results, stage) is not None
    ):
        return 0.0
    trained.add(stage.name)
    if _key(spec) not in known:
        known[_key(spec)] = _timed_seconds(screen, spec)
    return known[_key(spec)]


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
