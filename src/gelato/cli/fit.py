"""``gelato fit``: train a model and keep it as a run folder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelato.cli import numbers
from gelato.cli.forecasts import RANKING_KERNELS, tell_compilation
from gelato.cli.grouping import grouped
from gelato.cli.inputs import LoadedGraph, describe_split, load_split
from gelato.cli.options import (
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SplitOptions,
)
from gelato.cli.outputs import new_folder
from gelato.cli.run_folders import (
    CHECKPOINT,
    check_same_run,
    clear_run,
    has_checkpoint,
    look_into_folder,
)
from gelato.cli.screen import Screen, make_facts, make_table
from gelato.cli.settings import describe_model, make_model, model_title
from gelato.cli.training import (
    TRAINING_KERNELS,
    Interrupted,
    fit_model,
    is_trained,
    training_facts,
)

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit

_PARTS = {"validation": "valid", "test": "test"}
_ROWS = ("ap", "prec@100%", "hits@100", "mrr", "auc")
_TITLES = {"ap": "AP", "mrr": "MRR", "auc": "AUC"}


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("fit")(grouped(fit))


def fit(
    data: DataOptions,
    split: SplitOptions,
    model: ModelOptions,
    run: RunOptions,
    output: OutputOptions,
    folder: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where the run goes."),
    ] = Path("run"),
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a training that was interrupted."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run in the folder.")
    ] = False,
) -> None:
    """Train a model and keep it, with its graph and split, as a folder."""
    screen = Screen(output)
    name = model.model or "gelato"
    made = make_model(name, model)
    stored = None
    if not run.dry_run:
        stored = look_into_folder(folder, resume=resume, overwrite=overwrite)
    loaded, parts = load_split(data, split, screen)
    for text in loaded.graph.notes:
        screen.note(text)
    _suggest_preset(screen, name, model, data)
    tell_compilation(screen, TRAINING_KERNELS if is_trained(made) else RANKING_KERNELS)
    if run.dry_run:
        _forecast(screen, name, made, parts)
        return
    if stored is not None:
        check_same_run(stored, folder, made, parts)
        screen.note(f"{folder} is finished already: these are its numbers.")
        measured = stored.metrics
    else:
        with new_folder(folder):
            if overwrite:
                clear_run(folder)
            job = (screen, name, made, parts, folder)
            _train(*job, resume=resume, threads=run.threads)
        measured = _measure(screen, made, parts, run.threads)
        _keep(made, folder, measured)
    _print(screen, name, made, loaded, folder, measured)
    screen.give(
        {
            "data": loaded.to_dict(),
            "split": describe_split(parts),
            "model": describe_model(name, made),
            "run": str(folder),
            "notes": list(getattr(made, "notes_", ())),
            **measured,
        }
    )


def _suggest_preset(
    screen: Screen, name: str, model: ModelOptions, data: DataOptions
) -> None:
    from gelato.models.presets import PRESETS

    if name == "gelato" and model.preset is None and data.dataset in PRESETS:
        screen.note(
            f"the paper's parameters for this graph come with --preset {data.dataset}."
        )


def _forecast(screen: Screen, name: str, model: Any, split: EdgeSplit) -> None:
    from gelato.cli.training_forecast import forecast_training, give_training_forecast

    coming = forecast_training(screen, model, split) if is_trained(model) else None
    give_training_forecast(screen, name, coming)


def _train(
    screen: Screen,
    name: str,
    model: Any,
    split: EdgeSplit,
    folder: Path,
    *,
    resume: bool,
    threads: int | None,
) -> None:
    """Fit a model; an interruption says how to go on."""
    # Threads decide nothing, so they are no part of what is kept.
    own = getattr(model, "threads", None)
    if threads is not None and hasattr(model, "threads"):
        model.threads = threads
    try:
        fit_model(screen, name, model, split, folder=folder, resume=resume)
    except KeyboardInterrupt as stop:
        raise Interrupted(_how_to_go_on(folder)) from stop
    if hasattr(model, "threads"):
        model.threads = own


def _how_to_go_on(folder: Path) -> str:
    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    if not has_checkpoint(folder):
        return "There is no checkpoint yet: run the same command again."
    return f"Go on with: gelato {shlex.join(words)} --resume"


def _measure(
    screen: Screen, model: Any, split: EdgeSplit, threads: int | None
) -> dict[str, Any]:
    """Return what a finished run records: the training, and exact metrics."""
    from gelato.ranking import evaluate

    measured: dict[str, Any] = {"training": training_facts(model), "metrics": {}}
    for title, part in _PARTS.items():
        if not len(split.positives(part)):  # type: ignore[arg-type]
            continue
        with screen.progress(f"ranking the {title} edges") as progress:
            result = evaluate(
                model,
                split,
                part=part,  # type: ignore[arg-type]
                threads=threads,
                progress=progress,
            )
        measured["metrics"][title] = result.to_dict()
    return measured


def _keep(model: Any, folder: Path, measured: dict[str, Any]) -> None:
    model.save(folder, metrics=measured)
    # Only a finished run makes it superfluous.
    (folder / CHECKPOINT).unlink(missing_ok=True)


def _print(
    screen: Screen,
    name: str,
    model: Any,
    loaded: LoadedGraph,
    folder: Path,
    measured: dict[str, Any],
) -> None:
    screen.show(f"{model_title(name, model)} on {loaded.name}")
    training = measured.get("training")
    if training is not None:
        skipped = training["skipped_steps"]
        lost = f", {numbers.plural(skipped, 'step')} skipped" if skipped else ""
        screen.show(
            f"{numbers.plural(training['epochs'], 'epoch')} in "
            f"{numbers.duration(training['seconds'])}, best after epoch "
            f"{training['best_epoch']} by validation {training['metric']} "
            f"{numbers.percent(training['best_value'])}{lost}"
        )
    metrics = measured.get("metrics", {})
    if metrics:
        screen.show("", metrics_table(metrics))
    screen.show(
        "",
        make_facts(
            [
                ("written", f"{folder}/"),
                ("find links", f"gelato predict {folder} --top 100 -o links.csv"),
                ("measure", f"gelato evaluate {folder} --protocol both"),
            ]
        ),
    )


def metrics_table(metrics: dict[str, dict[str, Any]]) -> Any:
    """Return stored results side by side, a random order beside each."""
    columns = ["in percent, all pairs"]
    for part in metrics:
        columns += [part, "random order"]
    table = make_table(*columns)
    for row in _ROWS:
        cells = [_TITLES.get(row, row)]
        for result in metrics.values():
            cells += [numbers.percent(_value(result, row)), _chance(result, row)]
        table.add_row(*cells)
    return table


def _value(result: dict[str, Any], row: str) -> float:
    kind, _, argument = row.partition("@")
    nested = {"prec": "precision_at", "hits": "hits_at"}
    return float(result[nested[kind]][argument] if argument else result[row])


def _chance(result: dict[str, Any], row: str) -> str:
    from gelato.cli.rankings import random_hits, random_mrr

    negatives = result["negatives"]
    chances = {
        "hits@100": random_hits(negatives, 100),
        "mrr": random_mrr(negatives),
        "auc": 0.5,
    }
    return numbers.percent(chances.get(row, result["random_ap"]))
