"""``gelato fit``: train or choose a model and keep it as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato import text
from gelato.cli.console import Console, make_facts, make_table
from gelato.cli.forecasts import (
    RANKING_KERNELS,
    TRAINING_KERNELS,
    forecast_training,
    give_parts_forecast,
    give_training_forecast,
    tell_compilation,
)
from gelato.cli.inputs import LoadedGraph, load_split, require_positives
from gelato.cli.long_runs import RATE, check_estimate
from gelato.cli.options import (
    ChoiceOptions,
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SideOptions,
    SplitOptions,
    option,
)
from gelato.cli.progress import (
    Interrupted,
    fit_model,
    fits_in_parts,
    go_on_text,
    is_trained,
    training_facts,
    watch_trials,
)
from gelato.cli.rankings import metrics_table, tell_sizes
from gelato.cli.run_folders import (
    check_same_run,
    check_same_split,
    claimed_folder,
    clear_progress,
    has_checkpoint,
    look_into_folder,
)
from gelato.cli.settings import describe_model, make_model, model_title
from gelato.errors import UsageError

if TYPE_CHECKING:
    from gelato.choosing import Choice
    from gelato.splits import EdgeSplit

_FEW_EDGES = 50
_PARTS = {"validation": "valid", "test": "test"}


def fit(
    data: DataOptions,
    split: SplitOptions,
    sides: SideOptions,
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

    Without --model, plain heuristics, models with attributes, the stack and Gelato
    compete on the validation edges within --budget seconds. --preset and --set alone
    mean Gelato.
    """
    console = Console(output)
    check_estimate(estimate)
    made = named_model(model, choice)
    stored = None
    if not run.dry_run:
        stored = look_into_folder(folder, resume=resume, overwrite=overwrite)
    loaded, parts = load_split(data, split, console, sides)
    console.note(*loaded.graph.notes)
    if made is not None:
        _suggest_preset(console, made.name, model, data)
    trained = made is None or is_trained(made)
    tell_compilation(console, TRAINING_KERNELS if trained else RANKING_KERNELS)
    if run.dry_run:
        give_fit_forecast(console, made, parts, choice)
        return
    if stored is not None:
        from gelato.models.registry import restore

        check_same_split(stored, folder, parts)
        if made is not None:
            check_same_run(stored, folder, made)
        console.note(f"{folder} is finished already: these are its numbers.")
        made, measured = restore(stored, folder), stored.metrics
    else:
        with claimed_folder(folder, resume=resume, overwrite=overwrite):
            made, found = fit_or_choose(
                console, made, parts, model, choice, folder, resume=resume
            )
            measured = measure(console, made, parts, estimate=estimate, folder=folder)
            measured |= found
            keep(made, folder, measured)
    _print(console, made, loaded, folder, measured)
    console.give(
        {
            "data": loaded.to_dict(),
            "split": parts.to_dict(),
            "model": describe_model(made.name, made),
            "run": str(folder),
            "notes": list(made.notes_),
            **measured,
        }
    )


def named_model(model: ModelOptions, choice: ChoiceOptions) -> Any:
    """Return the model that the options name, not fitted; None where one is chosen.

    Parameters without a name are Gelato's. A budget beside a model is refused.
    """
    if model.model or model.preset or model.settings:
        if choice != ChoiceOptions():
            idle = "--quick" if choice.quick else "--budget"
            raise UsageError(
                f"{idle} is the time to choose a model, and one is named already.",
                hint=f"Leave out {idle}, or --model, --preset and --set.",
            )
        return make_model(model.model or "gelato", model)
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
    return None


def fit_or_choose(
    console: Console,
    made: Any,
    split: EdgeSplit,
    model: ModelOptions,
    choice: ChoiceOptions,
    folder: Path | None,
    *,
    resume: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Return a fitted model, and how it was chosen where none was named."""
    if made is not None:
        train(console, made, split, folder, resume=resume)
        return made, {}
    chosen = _choose(console, split, model, choice)
    return chosen.model, {"choice": chosen.to_dict()}


def train(
    console: Console,
    model: Any,
    split: EdgeSplit,
    folder: Path | None,
    *,
    resume: bool = False,
) -> None:
    """Fit a model; an interruption says how to go on."""
    try:
        fit_model(console, model.name, model, split, folder=folder, resume=resume)
    except KeyboardInterrupt as stop:
        raise Interrupted(_how_to_go_on(folder)) from stop


def _choose(
    console: Console, split: EdgeSplit, model: ModelOptions, choice: ChoiceOptions
) -> Choice:
    """Choose a model, showing what is tried."""
    from gelato.choosing import choose_model

    require_positives(split, "valid")
    if len(split.valid) < _FEW_EDGES:
        console.note(
            f"only {text.plural(len(split.valid), 'validation edge')}: the choice "
            "is a rough one; hold out more with --valid 0.2, or name a --model."
        )
    seconds = seconds_of(choice)
    title = f"choosing a model within {text.duration(seconds)}"
    with watch_trials(console, title, unit=" s") as watch:
        return choose_model(
            split,
            seconds=seconds,
            seed=1 if model.seed is None else model.seed,
            progress=watch,
        )


def seconds_of(choice: ChoiceOptions) -> float:
    """Return the time that candidates have."""
    from gelato.choosing import QUICK_SECONDS, SECONDS

    return QUICK_SECONDS if choice.quick else choice.budget or SECONDS


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
    from gelato.models.base import Model
    from gelato.ranking import evaluate

    kept = folder if folder is not None and has_checkpoint(folder) else None
    measured: dict[str, Any] = {"training": training_facts(model), "metrics": {}}
    for title, part in _PARTS.items():
        if not len(split.positives(part)):  # type: ignore[arg-type]
            continue
        try:
            with console.progress(f"ranking the {title} edges") as progress:
                result = evaluate(
                    model,
                    split,
                    part=part,  # type: ignore[arg-type]
                    estimate=estimate,
                    resume=kept,
                    progress=progress,
                )
        except KeyboardInterrupt as stop:
            raise Interrupted(_how_to_go_on(folder)) from stop
        measured["metrics"][title] = result.to_dict()
        exact = not result.estimated
        if part == "valid" and exact and isinstance(model, Model):
            # The same ranking tells later which precision to expect.
            model.validation_counts_ = result.counts
    return measured


def _how_to_go_on(folder: Path | None) -> str:
    if folder is None or not has_checkpoint(folder):
        return "There is no checkpoint yet: run the same command again."
    return go_on_text()


def keep(model: Any, folder: Path, measured: dict[str, Any]) -> None:
    """Write a run folder."""
    model.save(folder, metrics=measured)
    # Only a finished run makes it superfluous.
    clear_progress(folder)


def _suggest_preset(
    console: Console, name: str, model: ModelOptions, data: DataOptions
) -> None:
    from gelato.models.registry import facts_of

    if name != "gelato" or model.preset is not None:
        return
    if data.dataset in facts_of("gelato").presets:
        console.note(
            f"the paper's parameters for this graph come with --preset {data.dataset}."
        )


def give_fit_forecast(
    console: Console, model: Any, split: EdgeSplit, choice: ChoiceOptions
) -> None:
    """Print what a training takes, or what would compete, as the whole result."""
    if model is not None and fits_in_parts(model):
        give_parts_forecast(console, model, split)
        return
    if model is not None:
        coming = forecast_training(console, model, split) if is_trained(model) else None
        give_training_forecast(console, model.name, coming)
        return
    from gelato.choosing import untrained

    require_positives(split, "valid")
    seconds = seconds_of(choice)
    listed = [(name, parameters) for _, name, parameters in untrained(split)]
    names = ", ".join(dict.fromkeys(name for name, _ in listed))
    learned = [] if split.graph.directed else ["stack"]
    learned += ["gelato"] if split.graph.num_attributes else []
    plain = f"{text.plural(len(listed), 'untrained candidate')} ({names})"
    *others, last = [plain, *learned]
    competing = f"{', '.join(others)} and {last}" if others else last
    console.show(
        f"{competing} "
        f"compete on {text.plural(len(split.valid), 'validation edge')} within "
        f"{text.duration(seconds)}."
    )
    console.give(
        {
            "choice_forecast": {
                "seconds": seconds,
                "validation_edges": len(split.valid),
                "untrained": [{"model": n, "parameters": p} for n, p in listed],
                "trained": learned,
            }
        }
    )


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
            _candidates_table(choice["candidates"]),
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
        tell_sizes(
            console, {part: found["positives"] for part, found in metrics.items()}
        )
    console.show("", make_facts([("written", f"{folder}/"), *next_steps(folder)]))


def next_steps(folder: Path) -> list[tuple[str, str]]:
    """Return what to do with a run folder."""
    return [
        ("find links", f"gelato predict {folder} --top 100 -o links.csv"),
        ("measure", f"gelato evaluate {folder} --protocol both"),
    ]


def _candidates_table(candidates: list[dict[str, Any]]) -> Any:
    """Return what competed, the best first."""
    ran = [row for row in candidates if row["ap"] is not None]
    ran.sort(key=lambda row: -row["ap"])
    # Small graphs hold out further parts; there the time is nothing to speak of.
    parts = any(row.get("mean_ap", row["ap"]) != row["ap"] for row in ran)
    last = "mean AP" if parts else "time"
    table = make_table("model", "with", "valid. AP", last, text=2)
    for row in ran:
        spent = text.short_duration(row["seconds"])
        if parts:
            # Training once is long enough: the validation edges alone compare it.
            trained = row["kind"] == "trained"
            spent = "-" if trained else f"{text.percent(row['mean_ap'])} %"
        table.add_row(
            ("* " if row["chosen"] else "  ") + row["model"],
            row["parameters"].replace(" = ", "=").replace(",", ""),
            f"{text.percent(row['ap'])} %",
            spent,
        )
    return table
