"""``gelato tune``: search for the parameters that rank the validation edges best."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gelato import text
from gelato.cli.console import Console, make_facts, make_table
from gelato.cli.fit import keep, measure, next_steps, train
from gelato.cli.forecasts import (
    RANKING_KERNELS,
    TRAINING_KERNELS,
    forecast_training,
    tell_compilation,
)
from gelato.cli.inputs import load_split, require_positives
from gelato.cli.options import (
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SideOptions,
    SplitOptions,
    option,
)
from gelato.cli.outputs import check_output_file, new_folder
from gelato.cli.progress import Interrupted, go_on_text, is_trained, watch_trials
from gelato.cli.run_folders import clear_run, look_into_folder
from gelato.cli.settings import assignments, make_model
from gelato.errors import OutputError, UsageError

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit
    from gelato.tuning import Tuned
    from gelato.tuning.plan import Plan
    from gelato.tuning.result import TrialRecord


STUDY = "study.jsonl"
_MOST_ROWS = 10
_MOST_COMBINATIONS = 20
_FEW_EDGES = 50


@dataclass(frozen=True)
class SearchOptions:
    """How parameters are searched, and for how long."""

    panel: ClassVar[str] = "Search: which parameters are tried"
    search: str = option(
        "--search NAME",
        "line (one parameter at a time), grid (every combination; the "
        "paper's for gelato) or free (drawn by Optuna).",
        "line",
    )
    trials: int | None = option(
        "--trials N", "Most trials; default: until the search ends (free: 20)."
    )
    budget: float | None = option("--budget SECONDS", "Most time for trials.")
    metric: str = option(
        "--metric NAME",
        "What is maximised on the validation edges: prec@100%, ap, auc, mrr, "
        "hits@100, ...",
        "prec@100%",
    )
    values: list[str] | None = option(
        "--try NAME=VALUE,VALUE",
        "Search only the parameters named so, among these values. May be repeated.",
    )
    prune: bool = option(
        "--prune/--no-prune",
        "Whether trainings below the median of others are ended early.",
        True,
    )
    study: Path | None = option(
        "--study FILE", f"Keeps every trial; with --output it is FOLDER/{STUDY}."
    )


def tune(
    data: DataOptions,
    split: SplitOptions,
    sides: SideOptions,
    model: ModelOptions,
    search: SearchOptions,
    run: RunOptions,
    output: OutputOptions,
    folder: Path | None = option("--output -o FOLDER", "Where the best model goes."),
    resume: bool = option("--resume", "Go on with the study.", False),
    overwrite: bool = option("--overwrite", "Begin the study anew.", False),
) -> None:
    """Search for the parameters of a model that rank the validation edges best.

    Test edges stay unseen. Without --model, Gelato is tuned. --set fixes a parameter,
    --try names what to search in place of the model's own parameters and values.
    """
    console = Console(output)
    plan = _plan(model, search)
    place = search.study or (None if folder is None else folder / STUDY)
    if not run.dry_run:
        _check_places(folder, place, resume=resume, overwrite=overwrite)
    loaded, parts = load_split(data, split, console, sides)
    console.note(*loaded.graph.notes)
    require_positives(parts, "valid")
    made = plan.make()
    tell_compilation(console, TRAINING_KERNELS if is_trained(made) else RANKING_KERNELS)
    if run.dry_run:
        give_tuning_forecast(console, plan, parts, search.trials, search.budget)
        return
    _tell_few(console, parts)
    with _places(folder, place, overwrite=overwrite):
        tuned = _search(console, plan, parts, search, place, loaded.name)
        measured = {}
        if folder is not None:
            measured = _keep(console, tuned, parts, folder)
    command = fit_command(tuned, data, split, sides)
    show_tuned(console, tuned, loaded.name)
    console.show("", make_facts(_next_steps(folder, place, command)))
    console.give(
        {
            "data": loaded.to_dict(),
            "split": parts.to_dict(),
            "tuning": tuned.to_dict(),
            "command": command,
            "study": None if place is None else str(place),
            "run": None if folder is None else str(folder),
            **measured,
        }
    )


def _plan(model: ModelOptions, search: SearchOptions) -> Plan:
    """Return what is searched; wrong names and values are refused here."""
    from gelato.models.registry import parameter_names
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
    seeded = "seed" in parameter_names(name)
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
    for key, listed in assignments(given, "--try", "NAME=VALUE,VALUE").items():
        made = [
            make_model(name, ModelOptions(name, settings=[f"{key}={value.strip()}"]))
            for value in listed.split(",")
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


def _tell_few(console: Console, split: EdgeSplit) -> None:
    if len(split.valid) < _FEW_EDGES:
        console.note(
            f"only {text.plural(len(split.valid), 'validation edge')}: differences "
            "between trials are mostly chance; hold out more with --valid 0.2."
        )


def _search(
    console: Console,
    plan: Plan,
    split: EdgeSplit,
    options: SearchOptions,
    study: Path | None,
    data_name: str,
) -> Tuned:
    """Run the trials, showing them; an interruption shows what was finished."""
    from gelato.tuning import TuningInterrupted
    from gelato.tuning.trial_loop import run_plan

    try:
        with watch_trials(console, f"tuning {plan.name}") as watch:
            return run_plan(
                plan,
                split,
                trials=options.trials,
                seconds=options.budget,
                study=study,
                prune=options.prune,
                progress=watch,
            )
    except TuningInterrupted as stop:
        if stop.tuned is not None:
            show_tuned(console, stop.tuned, data_name)
        raise Interrupted(_how_to_go_on(study)) from stop


def _how_to_go_on(study: Path | None) -> str:
    if study is None:
        return "Trials are kept with --study FILE or -o FOLDER."
    return go_on_text()


def _keep(
    console: Console, tuned: Tuned, split: EdgeSplit, folder: Path
) -> dict[str, Any]:
    """Write the best model as a run folder, and return what it records."""
    from gelato.models.base import Model
    from gelato.tuning.trial import blind

    if tuned.is_fitted:
        model = tuned.model
    else:
        model = tuned.make()
        train(console, model, split, None)
    if not isinstance(model, Model):
        console.note(f"{tuned.name} cannot be saved; the study is kept.")
        return {}
    # A split without test edges: they are for `gelato evaluate`, once all is decided.
    found = measure(console, model, blind(split))
    found["metrics"]["validation"]["split"] = split.fingerprint
    measured = found | {"tuning": tuned.to_dict()}
    keep(model, folder, measured)
    return found


def show_tuned(console: Console, tuned: Tuned, data_name: str) -> None:
    """Print the best trials."""
    records = tuned.records
    states = Counter(record.state for record in records)
    others = [f"{states[x]} {x}" for x in ("pruned", "failed") if states[x]]
    said = f" ({', '.join(others)})" if others else ""
    console.show(
        f"{tuned.name} tuned on {text.printable(data_name)}: {tuned.search} search, "
        f"{text.plural(len(records), 'trial')}{said} in "
        f"{text.duration(sum(record.seconds for record in records))}",
        "",
        trials_table(records, tuned.best, tuned.metric),
    )
    ran = states["complete"]
    if ran > _MOST_ROWS:
        console.show(f"and {text.plural(ran - _MOST_ROWS, 'other complete trial')}")
    failed = [record for record in records if record.state == "failed"]
    if failed:
        console.note(
            f"{text.plural(len(failed), 'trial')} failed, the first because: "
            f"{failed[0].reason}"
        )


def trials_table(records: Sequence[TrialRecord], best: TrialRecord, metric: str) -> Any:
    """Return the best complete trials, the first of them marked."""
    ran = [x for x in records if x.state == "complete" and x.value is not None]
    ran.sort(key=lambda x: (-(x.value or 0.0), x.number))
    names = list(best.parameters)
    trained = any(record.epochs is not None for record in ran)
    columns = ["trial", *names, f"valid. {metric}", *(["epochs"] * trained), "time"]
    table = make_table(*columns)
    for record in ran[:_MOST_ROWS]:
        table.add_row(
            ("* " if record is best else "  ") + str(record.number),
            *(text.parameter(record.parameters[name]) for name in names),
            f"{text.percent(record.value or 0.0)} %",
            *([str(record.epochs)] * trained),
            text.short_duration(record.seconds),
        )
    return table


def _next_steps(
    folder: Path | None, study: Path | None, command: str
) -> list[tuple[str, str]]:
    steps = [("fit with it", command)]
    if folder is not None:
        steps = [
            ("written", f"{folder}/"),
            *steps,
            *next_steps(folder),
        ]
    if study is not None:
        steps.append(("study", str(study)))
    return steps


def fit_command(
    tuned: Tuned, data: DataOptions, split: SplitOptions, sides: SideOptions
) -> str:
    """Return the command that fits the best model again."""
    parameters = dict(tuned.parameters)
    seed = parameters.pop("seed", None)
    groups = (data, split, sides)
    words = ["gelato", "fit", *(x for group in groups for x in option_words(group))]
    words += ["--model", tuned.name]
    for name, value in changed(tuned.make(), parameters).items():
        words += ["--set", f"{name}={_word(value)}"]
    if seed not in (None, 1):  # what `fit` takes by itself
        words += ["--seed", str(seed)]
    return shlex.join(words)


def changed(model: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that differ from a model's defaults."""
    from gelato.parameters import parameters_of

    known = {k: x.default for k, x in parameters_of(type(model)).items()}
    return {k: v for k, v in parameters.items() if k not in known or known[k] != v}


def option_words(group: DataOptions | SplitOptions | SideOptions) -> list[str]:
    """Return the words of a command line that say what a group of options says."""
    words: list[str] = []
    for field in fields(group):
        value = getattr(group, field.name)
        option = f"--{field.name.replace('_', '-')}"
        if value == field.default:
            continue
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        elif isinstance(value, list):
            words += [word for item in value for word in (option, str(item))]
        else:
            words += [option, str(value)]
    return words


def _word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def give_tuning_forecast(
    console: Console,
    plan: Plan,
    split: EdgeSplit,
    trials: int | None,
    seconds: float | None,
) -> None:
    """Print the trials to come, as far as they are known, and their time."""
    from gelato.tuning.trial import blind

    first = plan.first_trials(trials)
    allowed = plan.trials(trials, seconds)
    expected = plan.searching().expected()
    known = [x for x in (allowed, expected) if x is not None]
    # A line search may go on after its first round, unless the trials are limited.
    number = allowed if plan.search == "line" and allowed else min(known, default=None)
    each = _trial_seconds(console, plan, blind(split))
    rows = [
        ("search", _described(plan, allowed, expected)),
        ("validation", text.plural(len(split.valid), "edge")),
        ("a trial", f"about {text.short_duration(each)}"),
    ]
    whole = None if number is None else number * each
    if whole is not None:
        most = "at most " if is_trained(plan.make()) else ""
        rows.append(("in all", f"{most}about {text.duration(whole)}"))
    if seconds is not None:
        rows.append(("budget", text.duration(seconds)))
    console.show(_space_table(plan), "", make_facts(rows))
    if plan.search == "grid":
        _show_trials(console, plan, first)
    console.give(
        {
            "tuning_forecast": {
                "model": plan.name,
                "search": plan.search,
                "metric": plan.metric,
                "space": plan.space_dict(),
                "fixed": plan.fixed,
                "first_trials": first,
                "trials": number,
                "trial_seconds": each,
                "seconds": whole,
                "budget": seconds,
            }
        }
    )


def _described(plan: Plan, allowed: int | None, expected: int | None) -> str:
    limit = "" if allowed is None else f", at most {text.plural(allowed, 'trial')}"
    if plan.search == "grid":
        return f"grid of {text.plural(expected or 0, 'combination')}{limit}"
    if plan.search == "free":
        return f"drawn by Optuna from what earlier trials gave{limit}"
    return (
        f"line, {text.plural(expected or 0, 'trial')} in the first round, then "
        f"until a round changes nothing{limit}"
    )


def _space_table(plan: Plan) -> Any:
    table = make_table("parameter", "values to try", text=2)
    for name, given in plan.space_dict().items():
        if "values" in given:
            said = ", ".join(map(text.parameter, given["values"]))
        else:
            said = f"{text.parameter(given['low'])} to {text.parameter(given['high'])}"
            said += ", evenly in the logarithm" if given["log"] else ""
        table.add_row(name, said)
    return table


def _show_trials(console: Console, plan: Plan, first: list[dict[str, Any]]) -> None:
    names = list(plan.space)
    table = make_table("trial", *names)
    for number, parameters in enumerate(first[:_MOST_COMBINATIONS]):
        table.add_row(
            str(number), *(text.parameter(parameters[name]) for name in names)
        )
    console.show("", table)
    if len(first) > _MOST_COMBINATIONS:
        console.show(f"and {len(first) - _MOST_COMBINATIONS:,} more")


def _trial_seconds(console: Console, plan: Plan, split: EdgeSplit) -> float:
    """Forecast one trial, at the point where the search begins."""
    from gelato.models.base import fitted
    from gelato.ranking.evaluate import candidates_of
    from gelato.ranking.forecast import forecast

    model = plan.make()
    if is_trained(model):
        coming = forecast_training(console, model, split)
        if coming is not None:
            return coming.seconds
    else:
        fitted(model, split)
    rule = candidates_of(split, "valid")
    graph = split.train_graph
    found = forecast(model, graph, candidates=rule, positives=len(split.valid))
    return float(found.seconds)
