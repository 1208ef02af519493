"""No model named: candidates compete on the validation edges, and the best is kept."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.candidates import require_positives
from gelato.cli.options import ChoiceOptions, ModelOptions
from gelato.cli.screen import Screen, make_table
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
    screen: Screen,
    split: EdgeSplit,
    model: ModelOptions,
    choice: ChoiceOptions,
    *,
    threads: int | None,
) -> Choice:
    """Choose a model, showing what is tried."""
    from gelato.choosing import choose_model
    from gelato.cli.training import watch_notes

    require_positives(split, "valid")
    if len(split.valid) < _FEW_EDGES:
        screen.note(
            f"only {numbers.plural(len(split.valid), 'validation edge')}: the choice "
            "is a rough one; hold out more with --valid 0.2, or name a --model."
        )
    seconds = seconds_of(choice)
    title = f"choosing a model within {numbers.duration(seconds)}"
    with watch_notes(screen), screen.progress(title) as bar:
        return choose_model(
            split,
            seconds=seconds,
            seed=1 if model.seed is None else model.seed,
            threads=threads,
            progress=_Watch(screen, bar),
        )


class _Watch:
    """Tells what is tried: a bar of seconds, or a line now and then."""

    def __init__(self, screen: Screen, bar: Progress | None) -> None:
        self.screen, self.bar = screen, bar
        self.last_line = monotonic()

    def __call__(self, what: str, done: float, total: float) -> None:
        if self.bar is not None:
            self.bar(round(done), round(total))
        elif monotonic() - self.last_line >= _LINE_SECONDS:
            self.last_line = monotonic()
            self.screen.line(f"{done:.0f} of {total:.0f} s: trying {what}")


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
            f"{numbers.percent(row['ap'])} %",
            _mean(row) if parts else numbers.short_duration(row["seconds"]),
        )
    return table


def _mean(row: dict[str, Any]) -> str:
    # Training once is long enough: it is compared by the validation edges alone.
    return "-" if row["kind"] == "trained" else f"{numbers.percent(row['mean_ap'])} %"


def give_candidates(screen: Screen, split: EdgeSplit, choice: ChoiceOptions) -> None:
    """Print what would compete, as the whole result of a command."""
    from gelato.trials import untrained

    require_positives(split, "valid")
    listed = [(name, parameters) for _, name, parameters in untrained(split)]
    names = ", ".join(dict.fromkeys(name for name, _ in listed))
    trained = " and gelato" if split.graph.num_attributes else ""
    screen.show(
        f"{numbers.plural(len(listed), 'untrained candidate')} ({names}){trained} "
        f"compete on {numbers.plural(len(split.valid), 'validation edge')} within "
        f"{numbers.duration(seconds_of(choice))}."
    )
    screen.give(
        {
            "choice_forecast": {
                "seconds": seconds_of(choice),
                "validation_edges": len(split.valid),
                "untrained": [{"model": n, "parameters": p} for n, p in listed],
                "trained": bool(split.graph.num_attributes),
            }
        }
    )
