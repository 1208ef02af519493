"""What is missing and how long it would take, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gelato.cli.screen import Screen, make_facts, make_table
from gelato.cli.training import is_trained
from gelato.cli.training_forecast import about

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
    known: dict[str, _Cost] = {}
    known |= _known_costs(run_specs(experiments, seeds), place)
    trained: set[str] = set()
    rows: list[dict[str, Any]] = []
    total = 0.0
    for job in missing:
        cost, started = _UNKNOWN, False
        if job.spec is not None:
            cost = _cost(screen, job.spec, known, trained, place)
            started = (place.work / job.spec.name).is_dir()
        total += cost.seconds or 0.0
        rows.append({"run": job.title, "started": started} | asdict(cost))
    every = count_parts(experiments, seeds)
    screen.show(f"{every - len(missing)} of {every} runs are recorded.")
    if rows:
        lines = [
            (
                row["run"],
                _text(row["seconds"], most=row["may_stop_early"]),
                "resumes" if row["started"] else "",
            )
            for row in rows
        ]
        screen.show("", make_table("missing run", "time to fit", "", rows=lines))
        if total:
            most = any(row["may_stop_early"] for row in rows)
            screen.show("", make_facts([("to fit in all", _text(total, most=most))]))
    screen.give({"runs": every, "missing": rows, "seconds": total or None})


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
    from gelato.experiments.runs import find_result

    spent: dict[str, list[float]] = {}
    for spec in specs:
        record = find_result(place.results, spec)
        if record is not None:
            spent.setdefault(_key(spec), []).append(record["fit_seconds"])
    return {key: _Cost(sum(times) / len(times)) for key, times in spent.items()}


def _cost(
    screen: Screen,
    spec: RunSpec,
    known: dict[str, _Cost],
    trained: set[str],
    place: Place,
) -> _Cost:
    """Return what fitting a run takes; a training that two share counts once."""
    from gelato.experiments.runs import find_result, first_stage

    stage = first_stage(spec) or spec
    if stage.name in trained or (
        stage != spec and find_result(place.results, stage) is not None
    ):
        return _Cost(0.0)
    trained.add(stage.name)
    if _key(spec) not in known:
        known[_key(spec)] = _timed_cost(screen, spec)
    return known[_key(spec)]


def _timed_cost(screen: Screen, spec: RunSpec) -> _Cost:
    """Time the first steps of a run, if its graph is on this machine."""
    from gelato.cli.training_forecast import forecast_training
    from gelato.datasets import list_datasets, load_dataset
    from gelato.experiments.runs import make_run_model
    from gelato.splits import split_edges

    here = {facts.name for facts in list_datasets() if facts.path is not None}
    model = make_run_model(spec)
    if spec.dataset not in here or not is_trained(model):
        return _UNKNOWN
    screen.line(f"timing a few steps of {spec.method} on {spec.dataset}")
    split = split_edges(load_dataset(spec.dataset))
    coming = forecast_training(screen, model, split)
    if coming is None:
        return _UNKNOWN
    return _Cost(coming.seconds, coming.patience is not None)
