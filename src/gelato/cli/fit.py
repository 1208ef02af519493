"""``gelato fit``: train or choose a model and keep it as a run folder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from gelato import text
from gelato.cli.console import Console, make_facts, make_table
from gelato.cli.forecasts import RANKING_KERNELS, TRAINING_KERNELS, tell_compilation
from gelato.cli.inputs import LoadedGraph, describe_split, load_split, require_positives
from gelato.cli.long_runs import RATE, check_estimate
from gelato.cli.options import (
    ChoiceOptions,
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SplitOptions,
    grouped,
    option,
)
from gelato.cli.progress import (
    Interrupted,
    fit_model,
    is_trained,
    training_facts,
)
from gelato.cli.rankings import ESTIMATE, random_hits, random_mrr
from gelato.cli.run_folders import (
    CHECKPOINT,
    check_same_run,
    check_same_split,
    claimed_folder,
    clear_journals,
    has_checkpoint,
    load_run_model,
    look_into_folder,
)
from gelato.cli.settings import describe_model, make_model, model_title
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.choosing import Choice
    from gelato.ranking.journal import Progress
    from gelato.splits import EdgeSplit


_LINE_SECONDS = 5.0  # between lines where there is no terminal
_FEW_EDGES = 50


def is_open(model: ModelOptions, choice: ChoiceOptions) -> bool:
    """Tell whether the model is to be chosen; parameters without a name are Gelato's.

    A budget beside a model makes no sense and is refused.
    """
    named = model.model or model.preset or model.settings
    if not named:
        if choice.quick and choice.budget is not None:
            raise UsageError(
                "--quick and --budget exclude each other.",
                hint="Give the seconds, or leave them to --quick.",
            )
        if choice.budget is not None and not choice.budget > 0:
            raise UsageError(
                f"--budget is {choice.budget:g} seconds, but must be positive.",
                hint="For example: --budget 120",
            )
        return True
    if choice != ChoiceOptions():
        idle = "--quick" if choice.quick else "--budget"
        raise UsageError(
            f"{idle} is the time to choose a model, and one is named already.",
            hint=f"Leave out {idle}, or --model, --preset and --set.",
        )
    return False


def seconds_of(choice: ChoiceOptions) -> float:
    """Return the time that candidates have."""
    from gelato.choosing import QUICK_SECONDS, SECONDS

    return QUICK_SECONDS if choice.quick else choice.budget or SECONDS


def choose(
    console: Console,
    split: EdgeSplit,
    model: ModelOptions,
    choice: ChoiceOptions,
) -> Choice:
    """Choose a model, showing what is tried."""
    from gelato.choosing import choose_model
    from gelato.cli.progress import watch_notes

    require_positives(split, "valid")
    if len(split.valid) < _FEW_EDGES:
        console.note(
            f"only {text.plural(len(split.valid), 'validation edge')}: the choice "
            "is a rough one; hold out more with --valid 0.2, or name a --model."
        )
    seconds = seconds_of(choice)
    title = f"choosing a model within {text.duration(seconds)}"
    with watch_notes(console), console.progress(title) as bar:
        return choose_model(
            split,
            seconds=seconds,
            seed=1 if model.seed is None else model.seed,
            progress=_Watch(console, bar),
        )


class _Watch:
    """Tells what is tried: a bar of seconds, or a line now and then."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self.console, self.bar = console, bar
        self.last_line = monotonic()

    def __call__(self, what: str, done: float, total: float) -> None:
        if self.bar is not None:
            self.bar(round(done), round(total))
        elif monotonic() - self.last_line >= _LINE_SECONDS:
            self.last_line = monotonic()
            self.console.line(f"{done:.0f} of {total:.0f} s: trying {what}")


def candidates_table(stored: dict[str, Any]) -> Any:
    """Return what competed, from the record of a choice; what did not run last."""
    ran = [row for row in stored["candidates"] if row["ap"] is not None]
    ran.sort(key=lambda row: -row["ap"])
    # Small graphs hold out further parts; there the time is nothing to speak of.
    parts = any(row.get("mean_ap", row["ap"]) != row["ap"] for row in ran)
    last = "mean AP" if parts else "time"
    table = make_table("model", "with", "valid. AP", last, text=2)
    for row in ran:
        table.add_row(
            ("* " if row["chosen"] else "  ") + row["model"],
            row["parameters"].replace(" = ", "=").replace(",", ""),
            f"{text.percent(row['ap'])} %",
            _mean(row) if parts else text.short_duration(row["seconds"]),
        )
    return table


def _mean(row: dict[str, Any]) -> str:
    # Training once is long enough: it is compared by the validation edges alone.
    return "-" if row["kind"] == "trained" else f"{text.percent(row['mean_ap'])} %"


def give_candidates(console: Console, split: EdgeSplit, choice: ChoiceOptions) -> None:
    """Print what would compete, as the whole result of a command."""
    from gelato.choosing import untrained

    require_positives(split, "valid")
    listed = [(name, parameters) for _, name, parameters in untrained(split)]
    names = ", ".join(dict.fromkeys(name for name, _ in listed))
    trained = " and gelato" if split.graph.num_attributes else ""
    console.show(
        f"{text.plural(len(listed), 'untrained candidate')} ({names}){trained} "
        f"compete on {text.plural(len(split.valid), 'validation edge')} within "
        f"{text.duration(seconds_of(choice))}."
    )
    console.give(
        {
            "choice_forecast": {
                "seconds": seconds_of(choice),
                "validation_edges": len(split.valid),
                "untrained": [{"model": n, "parameters": p} for n, p in listed],
                "trained": bool(split.graph.num_attributes),
            }
        }
    )


_PARTS = {"validation": "valid", "test": "test"}
_ROWS = ("ap", "prec@100%", "hits@100", "mrr", "auc")
_TITLES = {"ap": "AP", "mrr": "MRR", "auc": "AUC"}


def train(
    console: Console,
    name: str,
    model: Any,
    split: EdgeSplit,
    folder: Path | None,
    *,
    resume: bool = False,
) -> None:
    """Fit a model; an interruption says how to go on."""
    try:
        fit_model(console, name, model, split, folder=folder, resume=resume)
    except KeyboardInterrupt as stop:
        raise Interrupted(_how_to_go_on(folder)) from stop


def _how_to_go_on(folder: Path | None) -> str:
    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    if folder is None or not has_checkpoint(folder):
        return "There is no checkpoint yet: run the same command again."
    return f"Go on with: gelato {shlex.join(words)} --resume"


def measure(
    console: Console,
    model: Any,
    split: EdgeSplit,
    *,
    estimate: float | None = None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return what a finished run records: the training, and metrics.

    They are exact unless a rate is given for an estimate. With a folder that holds a
    checkpoint an interruption loses nothing.
    """
    try:
        kept = folder if folder is not None and has_checkpoint(folder) else None
        return _measure(console, model, split, estimate, kept)
    except KeyboardInterrupt as stop:
        raise Interrupted(_how_to_go_on(folder)) from stop


def _measure(
    console: Console,
    model: Any,
    split: EdgeSplit,
    estimate: float | None,
    kept: Path | None,
) -> dict[str, Any]:
    from gelato.ranking import evaluate

    measured: dict[str, Any] = {"training": training_facts(model), "metrics": {}}
    for title, part in _PARTS.items():
        if not len(split.positives(part)):  # type: ignore[arg-type]
            continue
        with console.progress(f"ranking the {title} edges") as progress:
            result = evaluate(
                model,
                split,
                part=part,  # type: ignore[arg-type]
                estimate=estimate,
                resume=kept,
                progress=progress,
            )
        measured["metrics"][title] = result.to_dict()
        exact = not result.estimated
        if part == "valid" and exact and hasattr(model, "validation_counts_"):
            # The same ranking tells later which precision to expect.
            model.validation_counts_ = result.counts
    return measured


def keep(model: Any, folder: Path, measured: dict[str, Any]) -> None:
    """Write a run folder."""
    model.save(folder, metrics=measured)
    # Only a finished run makes them superfluous.
    (folder / CHECKPOINT).unlink(missing_ok=True)
    clear_journals(folder)


def metrics_table(metrics: dict[str, dict[str, Any]]) -> Any:
    """Return stored results side by side, a random order beside each."""
    exact = not any(result.get("estimated") for result in metrics.values())
    columns = ["in percent, all pairs" if exact else "in percent"]
    for part, result in metrics.items():
        label = f", {ESTIMATE}" if result.get("estimated") else ""
        columns += [f"{part}{label}", "random order"]
    table = make_table(*columns)
    for row in _ROWS:
        cells = [_TITLES.get(row, row)]
        for result in metrics.values():
            cells += [text.percent(_value(result, row)), _chance(result, row)]
        table.add_row(*cells)
    return table


def _value(result: dict[str, Any], row: str) -> float:
    kind, _, argument = row.partition("@")
    nested = {"prec": "precision_at", "hits": "hits_at"}
    return float(result[nested[kind]][argument] if argument else result[row])


def _chance(result: dict[str, Any], row: str) -> str:
    negatives = result["negatives"]
    chances = {
        "hits@100": random_hits(negatives, 100),
        "mrr": random_mrr(negatives),
        "auc": 0.5,
    }
    return text.percent(chances.get(row, result["random_ap"]))


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
    folder: Path = option("--output -o FOLDER", "Where the run goes.", Path("run")),
    resume: bool = option(
        "--resume", "Go on with a training that was interrupted.", False
    ),
    overwrite: bool = option("--overwrite", "Replace a run in the folder.", False),
    estimate: float | None = RATE,
) -> None:
    """Train a model, or let models compete, and keep the best as a folder.

    Without --model, plain heuristics, models with attributes and Gelato compete on
    the validation edges within --budget seconds. --preset and --set alone mean Gelato.
    """
    console = Console(output)
    check_estimate(estimate)
    made = (
        None if is_open(model, choice) else make_model(model.model or "gelato", model)
    )
    stored = None
    if not run.dry_run:
        stored = look_into_folder(folder, resume=resume, overwrite=overwrite)
    loaded, parts = load_split(data, split, console)
    console.note(*loaded.graph.notes)
    _prepare(console, made, model, data)
    if run.dry_run:
        _forecast(console, made, parts, choice)
        return
    if stored is not None:
        check_same_split(stored, folder, parts)
        if made is not None:
            check_same_run(stored, folder, made)
        console.note(f"{folder} is finished already: these are its text.")
        made, measured = load_run_model(folder), stored.metrics
    else:
        with claimed_folder(folder, resume=resume, overwrite=overwrite):
            if made is None:
                chosen = choose(console, parts, model, choice)
                made, more = chosen.model, {"choice": chosen.to_dict()}
            else:
                job = (console, made.name, made, parts, folder)
                train(*job, resume=resume)
                more = {}
            found = measure(console, made, parts, estimate=estimate, folder=folder)
            measured = found | more
            keep(made, folder, measured)
    _print(console, made, loaded, folder, measured)
    console.give(
        {
            "data": loaded.to_dict(),
            "split": describe_split(parts),
            "model": describe_model(made.name, made),
            "run": str(folder),
            "notes": list(getattr(made, "notes_", ())),
            **measured,
        }
    )


def _prepare(
    console: Console, made: Any, model: ModelOptions, data: DataOptions
) -> None:
    """Say what may help, and what takes time once."""
    if made is not None:
        _suggest_preset(console, made.name, model, data)
    trained = made is None or is_trained(made)
    tell_compilation(console, TRAINING_KERNELS if trained else RANKING_KERNELS)


def _suggest_preset(
    console: Console, name: str, model: ModelOptions, data: DataOptions
) -> None:
    from gelato.models.presets import PRESETS

    if name == "gelato" and model.preset is None and data.dataset in PRESETS:
        console.note(
            f"the paper's parameters for this graph come with --preset {data.dataset}."
        )


def _forecast(
    console: Console, model: Any, split: EdgeSplit, choice: ChoiceOptions
) -> None:
    from gelato.cli.forecasts import forecast_training, give_training_forecast

    if model is None:
        give_candidates(console, split, choice)
        return
    coming = forecast_training(console, model, split) if is_trained(model) else None
    give_training_forecast(console, model.name, coming)


def _print(
    console: Console,
    model: Any,
    loaded: LoadedGraph,
    folder: Path,
    measured: dict[str, Any],
) -> None:
    console.show(f"{model_title(model.name, model)} on {text.printable(loaded.name)}")
    choice = measured.get("choice")
    if choice is not None:
        console.show(
            f"chosen in {text.duration(choice['seconds'])} from "
            f"{text.plural(len(choice['candidates']), 'candidate')}: "
            f"{choice['reason']}",
            "",
            candidates_table(choice),
        )
    training = measured.get("training")
    if training is not None:
        skipped = training["skipped_steps"]
        lost = f", {text.plural(skipped, 'step')} skipped" if skipped else ""
        console.show(
            f"{text.plural(training['epochs'], 'epoch')} in "
            f"{text.duration(training['seconds'])}, best after epoch "
            f"{training['best_epoch']} by validation {training['metric']} "
            f"{text.percent(training['best_value'])}{lost}"
        )
    metrics = measured.get("metrics", {})
    if metrics:
        console.show("", metrics_table(metrics))
    console.show(
        "",
        make_facts(
            [
                ("written", f"{folder}/"),
                ("find links", f"gelato predict {folder} --top 100 -o links.csv"),
                ("measure", f"gelato evaluate {folder} --protocol both"),
            ]
        ),
    )
