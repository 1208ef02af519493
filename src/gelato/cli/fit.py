"""``gelato fit``: train or choose a model and keep it as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelato.cli import numbers
from gelato.cli.choice import candidates_table, choose, give_candidates, is_open
from gelato.cli.fitting import keep, measure, metrics_table, train
from gelato.cli.forecasts import RANKING_KERNELS, tell_compilation
from gelato.cli.grouping import grouped
from gelato.cli.inputs import LoadedGraph, describe_split, load_split
from gelato.cli.long_runs import Rate, check_estimate
from gelato.cli.options import (
    ChoiceOptions,
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SplitOptions,
)
from gelato.cli.run_folders import (
    check_same_run,
    check_same_split,
    claimed_folder,
    load_run_model,
    look_into_folder,
)
from gelato.cli.screen import Screen, make_facts, safe
from gelato.cli.settings import describe_model, make_model, model_title
from gelato.cli.training import TRAINING_KERNELS, is_trained

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("fit")(grouped(fit))


def fit(
    data: DataOptions,
    split: SplitOptions,
    model: ModelOptions,
    choice: ChoiceOptions,
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
    estimate: Rate = None,
) -> None:
    """Train a model, or let models compete, and keep the best as a folder.

    Without --model, plain heuristics, models with attributes and Gelato compete on
    the validation edges within --budget seconds. --preset and --set alone mean Gelato.
    """
    screen = Screen(output)
    check_estimate(estimate)
    made = (
        None if is_open(model, choice) else make_model(model.model or "gelato", model)
    )
    stored = None
    if not run.dry_run:
        stored = look_into_folder(folder, resume=resume, overwrite=overwrite)
    loaded, parts = load_split(data, split, screen)
    for text in loaded.graph.notes:
        screen.note(text)
    _prepare(screen, made, model, data)
    if run.dry_run:
        _forecast(screen, made, parts, choice)
        return
    if stored is not None:
        check_same_split(stored, folder, parts)
        if made is not None:
            check_same_run(stored, folder, made)
        screen.note(f"{folder} is finished already: these are its numbers.")
        made, measured = load_run_model(folder), stored.metrics
    else:
        with claimed_folder(folder, resume=resume, overwrite=overwrite):
            if made is None:
                chosen = choose(screen, parts, model, choice, threads=run.threads)
                made, more = chosen.model, {"choice": chosen.to_dict()}
            else:
                job = (screen, made.name, made, parts, folder)
                train(*job, resume=resume, threads=run.threads)
                more = {}
            found = measure(
                screen, made, parts, run.threads, estimate=estimate, folder=folder
            )
            measured = found | more
            keep(made, folder, measured)
    _print(screen, made, loaded, folder, measured)
    screen.give(
        {
            "data": loaded.to_dict(),
            "split": describe_split(parts),
            "model": describe_model(made.name, made),
            "run": str(folder),
            "notes": list(getattr(made, "notes_", ())),
            **measured,
        }
    )


def _prepare(screen: Screen, made: Any, model: ModelOptions, data: DataOptions) -> None:
    """Say what may help, and what takes time once."""
    if made is not None:
        _suggest_preset(screen, made.name, model, data)
    trained = made is None or is_trained(made)
    tell_compilation(screen, TRAINING_KERNELS if trained else RANKING_KERNELS)


def _suggest_preset(
    screen: Screen, name: str, model: ModelOptions, data: DataOptions
) -> None:
    from gelato.models.presets import PRESETS

    if name == "gelato" and model.preset is None and data.dataset in PRESETS:
        screen.note(
            f"the paper's parameters for this graph come with --preset {data.dataset}."
        )


def _forecast(
    screen: Screen, model: Any, split: EdgeSplit, choice: ChoiceOptions
) -> None:
    from gelato.cli.training_forecast import forecast_training, give_training_forecast

    if model is None:
        give_candidates(screen, split, choice)
        return
    coming = forecast_training(screen, model, split) if is_trained(model) else None
    give_training_forecast(screen, model.name, coming)


def _print(
    screen: Screen,
    model: Any,
    loaded: LoadedGraph,
    folder: Path,
    measured: dict[str, Any],
) -> None:
    screen.show(f"{model_title(model.name, model)} on {safe(loaded.name)}")
    choice = measured.get("choice")
    if choice is not None:
        screen.show(
            f"chosen in {numbers.duration(choice['seconds'])} from "
            f"{numbers.plural(len(choice['candidates']), 'candidate')}: "
            f"{choice['reason']}",
            "",
            candidates_table(choice),
        )
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
