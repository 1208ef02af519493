"""``gelato tune``: search for the parameters that rank the validation edges best."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelato.cli import numbers
from gelato.cli.candidates import require_positives
from gelato.cli.fitting import keep, measure, train
from gelato.cli.forecasts import RANKING_KERNELS, tell_compilation
from gelato.cli.grouping import grouped
from gelato.cli.inputs import describe_split, load_split
from gelato.cli.options import (
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SplitOptions,
)
from gelato.cli.outputs import check_output_file, new_folder
from gelato.cli.run_folders import clear_run, look_into_folder
from gelato.cli.screen import Screen, make_facts
from gelato.cli.settings import assignments, make_model
from gelato.cli.training import (
    TRAINING_KERNELS,
    Interrupted,
    is_trained,
    watch_notes,
)
from gelato.cli.tuned import TuningWatch, fit_command, show_tuned
from gelato.errors import OutputError, UsageError

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit
    from gelato.tuning import Tuned
    from gelato.tuning.plan import Plan

STUDY = "study.jsonl"
_SEARCH = "Search: which parameters are tried"
_FEW_EDGES = 50


def _option(*names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=_SEARCH)


@dataclass(frozen=True)
class SearchOptions:
    """How parameters are searched, and for how long."""

    search: Annotated[
        str,
        _option(
            "--search",
            metavar="NAME",
            help="line (one parameter at a time), grid (every combination; the "
            "paper's for gelato) or free (drawn by Optuna).",
        ),
    ] = "line"
    trials: Annotated[
        int | None,
        _option(
            "--trials",
            metavar="N",
            help="Most trials; default: until the search ends (free: 20).",
        ),
    ] = None
    budget: Annotated[
        float | None,
        _option("--budget", metavar="SECONDS", help="Most time for trials."),
    ] = None
    metric: Annotated[
        str,
        _option(
            "--metric",
            metavar="NAME",
            help="What is maximised on the validation edges: prec@100%, ap, auc, mrr, "
            "hits@100, ...",
        ),
    ] = "prec@100%"
    values: Annotated[
        list[str] | None,
        _option(
            "--try",
            metavar="NAME=VALUE,VALUE",
            help="Search only the parameters named so, among these values. May be "
            "repeated.",
        ),
    ] = None
    prune: Annotated[
        bool,
        _option(
            "--prune/--no-prune",
            help="Whether trainings below the median of others are ended early.",
        ),
    ] = True
    study: Annotated[
        Path | None,
        _option(
            "--study",
            metavar="FILE",
            help=f"Keeps every trial; with --output it is FOLDER/{STUDY}.",
        ),
    ] = None


def add(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("tune")(grouped(tune))


def tune(
    data: DataOptions,
    split: SplitOptions,
    model: ModelOptions,
    search: SearchOptions,
    run: RunOptions,
    output: OutputOptions,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Where the best model goes."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the study.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin the study anew.")
    ] = False,
) -> None:
    """Search for the parameters of a model that rank the validation edges best.

    Test edges stay unseen. Without --model, Gelato is tuned. --set fixes a parameter,
    --try names what to search in place of the model's own parameters and values.
    """
    screen = Screen(output)
    plan = _plan(model, search)
    place = search.study or (None if folder is None else folder / STUDY)
    if not run.dry_run:
        _check_places(folder, place, resume=resume, overwrite=overwrite)
    loaded, parts = load_split(data, split, screen)
    for text in loaded.graph.notes:
        screen.note(text)
    require_positives(parts, "valid")
    made = plan.make()
    tell_compilation(screen, TRAINING_KERNELS if is_trained(made) else RANKING_KERNELS)
    if run.dry_run:
        from gelato.cli.tuning_forecast import give_tuning_forecast

        give_tuning_forecast(screen, plan, parts, search.trials, search.budget)
        return
    _tell_few(screen, parts)
    with _places(folder, place, overwrite=overwrite):
        tuned = _search(screen, plan, parts, search, place, run.threads, loaded.name)
        measured = {}
        if folder is not None:
            measured = _keep(screen, tuned, parts, folder, run.threads)
    command = fit_command(tuned, data, split)
    show_tuned(screen, tuned, loaded.name)
    screen.show("", make_facts(_next_steps(folder, place, command)))
    screen.give(
        {
            "data": loaded.to_dict(),
            "split": describe_split(parts),
            "tuning": tuned.to_dict(),
            "command": command,
            "study": None if place is None else str(place),
            "run": None if folder is None else str(folder),
            **measured,
        }
    )


def _plan(model: ModelOptions, search: SearchOptions) -> Plan:
    """Return what is searched; wrong names and values are refused here."""
    from gelato.models.registry import model_class, parameter_names
    from gelato.tuning.plan import check_budget, make_plan
    from gelato.tuning.study import require_optuna

    require_optuna()
    if model.preset is not None:
        raise UsageError(
            "--preset gives the parameters that tune searches for.",
            hint="Leave it out; --set NAME=VALUE fixes a single parameter.",
        )
    check_budget(search.trials, search.budget)
    name = model.model or "gelato"
    seeded = "seed" in parameter_names(model_class(name))
    made = make_model(name, model if seeded else replace(model, seed=None))
    fixed = assignments(model.settings, "--set", "NAME=VALUE")
    return make_plan(
        name,
        search=search.search,
        metric=search.metric,
        seed=made.seed if seeded else model.seed or 0,
        parameters={key: getattr(made, key) for key in fixed},
        space=_values(name, search.values) or None,
    )


def _values(name: str, given: list[str] | None) -> dict[str, tuple[Any, ...]]:
    """Return the values of ``--try``, checked as those of ``--set`` are."""
    found = {}
    for key, text in assignments(given, "--try", "NAME=VALUE,VALUE").items():
        made = [
            make_model(name, ModelOptions(name, settings=[f"{key}={value.strip()}"]))
            for value in text.split(",")
        ]
        found[key] = tuple(getattr(one, key) for one in made)
    return found


def _check_places(
    folder: Path | None, study: Path | None, *, resume: bool, overwrite: bool
) -> None:
    """Refuse places that hold something else, before anything is read."""
    if study is None:
        if resume or overwrite:
            option = "--resume" if resume else "--overwrite"
            raise UsageError(
                f"{option} is about a study that is kept, and none is named.",
                hint="Name its folder with -o, or its file with --study.",
            )
        return
    if study.exists() and not (resume or overwrite):
        raise OutputError(
            f"{study} holds a study already.",
            hint="Go on with it by adding --resume, or start anew with --overwrite.",
        )
    if folder is not None:
        look_into_folder(folder, resume=resume, overwrite=overwrite)
    if folder is None or study.parent != folder:
        check_output_file(study, (study.suffix,))


@contextmanager
def _places(
    folder: Path | None, study: Path | None, *, overwrite: bool
) -> Iterator[None]:
    """Hold the output folder; what is to be replaced goes first."""
    with nullcontext() if folder is None else new_folder(folder):
        if overwrite:
            if folder is not None:
                clear_run(folder)
            if study is not None:
                study.unlink(missing_ok=True)
        yield


def _search(
    screen: Screen,
    plan: Plan,
    split: EdgeSplit,
    options: SearchOptions,
    study: Path | None,
    threads: int | None,
    data_name: str,
) -> Tuned:
    """Run the trials, showing them; an interruption shows what was finished."""
    from gelato.tuning import TuningInterrupted
    from gelato.tuning.tuner import run_plan

    watch = TuningWatch(screen, plan.name)
    try:
        with watch_notes(screen):
            return run_plan(
                plan,
                split,
                trials=options.trials,
                seconds=options.budget,
                study=study,
                prune=options.prune,
                threads=threads,
                progress=watch,
            )
    except TuningInterrupted as stop:
        watch.close()
        if stop.tuned is not None:
            show_tuned(screen, stop.tuned, data_name)
        raise Interrupted(_how_to_go_on(study)) from stop
    finally:
        watch.close()


def _how_to_go_on(study: Path | None) -> str:
    if study is None:
        return "Trials are kept with --study FILE or -o FOLDER."
    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    return f"Go on with: gelato {shlex.join(words)} --resume"


def _keep(
    screen: Screen, tuned: Tuned, split: EdgeSplit, folder: Path, threads: int | None
) -> dict[str, Any]:
    """Write the best model as a run folder, and return what it records."""
    from gelato.tuning.trial import blind

    if tuned.is_fitted:
        model = tuned.model
    else:
        model = tuned.make()
        train(screen, tuned.name, model, split, None, threads=threads)
    if not hasattr(model, "save"):
        screen.note(f"{tuned.name} cannot be saved; the study is kept.")
        return {}
    # A split without test edges: they are for `gelato evaluate`, once all is decided.
    found = measure(screen, model, blind(split), threads)
    found["metrics"]["validation"]["split"] = split.fingerprint
    measured = found | {"tuning": tuned.to_dict()}
    keep(model, folder, measured)
    return found


def _tell_few(screen: Screen, split: EdgeSplit) -> None:
    if len(split.valid) < _FEW_EDGES:
        screen.note(
            f"only {numbers.plural(len(split.valid), 'validation edge')}: differences "
            "between trials are mostly chance; hold out more with --valid 0.2."
        )


def _next_steps(
    folder: Path | None, study: Path | None, command: str
) -> list[tuple[str, str]]:
    steps = [("fit with it", command)]
    if folder is not None:
        steps = [
            ("written", f"{folder}/"),
            *steps,
            ("find links", f"gelato predict {folder} --top 100 -o links.csv"),
            ("measure", f"gelato evaluate {folder} --protocol both"),
        ]
    if study is not None:
        steps.append(("study", str(study)))
    return steps
