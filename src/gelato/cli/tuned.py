"""What a tuning found, as the user sees it: trials, the best, and how to use it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from time import monotonic
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.options import DataOptions, SplitOptions
from gelato.cli.screen import Screen, make_table, safe

if TYPE_CHECKING:
    from gelato.tuning import Tuned
    from gelato.tuning.records import TrialRecord

_MOST_ROWS = 10
_LINE_SECONDS = 5.0  # between lines where there is no terminal
_BAR_STEPS = 1000


class TuningWatch:
    """Tells what is tried: a bar, or a line now and then.

    Parameters
    ----------
    screen : Screen
        Where to.
    name : str
        Model that is tuned.
    """

    def __init__(self, screen: Screen, name: str) -> None:
        self.screen = screen
        self.bar = screen.training_bar(f"tuning {name}")
        self.last_line = monotonic()

    def __call__(self, what: str, done: float, total: float) -> None:
        """Note how far it is."""
        if self.bar is not None:
            self.bar.describe(what)
            self.bar.step(round(_BAR_STEPS * min(1.0, done / total)), _BAR_STEPS)
        elif what and monotonic() - self.last_line >= _LINE_SECONDS:
            self.last_line = monotonic()
            self.screen.line(f"{done:.1f} of {total:.0f}: trying {what}")

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.close()


def show_tuned(screen: Screen, tuned: Tuned, data_name: str) -> None:
    """Print the best trials."""
    records = tuned.records
    states = Counter(record.state for record in records)
    others = [f"{states[x]} {x}" for x in ("pruned", "failed") if states[x]]
    said = f" ({', '.join(others)})" if others else ""
    screen.show(
        f"{tuned.name} tuned on {safe(data_name)}: {tuned.search} search, "
        f"{numbers.plural(len(records), 'trial')}{said} in "
        f"{numbers.duration(sum(record.seconds for record in records))}",
        "",
        trials_table(records, tuned.best, tuned.metric),
    )
    ran = states["complete"]
    if ran > _MOST_ROWS:
        screen.show(f"and {numbers.plural(ran - _MOST_ROWS, 'other complete trial')}")
    failed = [record for record in records if record.state == "failed"]
    if failed:
        screen.note(
            f"{numbers.plural(len(failed), 'trial')} failed, the first because: "
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
            *(short(record.parameters[name]) for name in names),
            f"{numbers.percent(record.value or 0.0)} %",
            *([str(record.epochs)] * trained),
            numbers.short_duration(record.seconds),
        )
    return table


def short(value: Any) -> str:
    """Return a parameter's value for people."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def fit_command(tuned: Tuned, data: DataOptions, split: SplitOptions) -> str:
    """Return the command that fits the best model again."""
    parameters = dict(tuned.parameters)
    seed = parameters.pop("seed", None)
    words = ["gelato", "fit", *option_words(data), *option_words(split)]
    words += ["--model", tuned.name]
    for name, value in changed(tuned.make(), parameters).items():
        words += ["--set", f"{name}={_word(value)}"]
    if seed not in (None, 1):  # what `fit` takes by itself
        words += ["--seed", str(seed)]
    return shlex.join(words)


def changed(model: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that differ from a model's defaults."""
    known: dict[str, Any] = getattr(model, "parameter_defaults", dict)()
    return {k: v for k, v in parameters.items() if k not in known or known[k] != v}


def option_words(group: DataOptions | SplitOptions) -> list[str]:
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
