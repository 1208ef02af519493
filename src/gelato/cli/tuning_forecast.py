"""What a tuning would try, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.screen import Screen, make_facts, make_table
from gelato.cli.training import is_trained
from gelato.cli.tuned import short

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit
    from gelato.tuning.plan import Plan

_MOST_ROWS = 20


def give_tuning_forecast(
    screen: Screen,
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
    each = _trial_seconds(screen, plan, blind(split))
    rows = [
        ("search", _described(plan, allowed, expected)),
        ("validation", numbers.plural(len(split.valid), "edge")),
        ("a trial", f"about {numbers.short_duration(each)}"),
    ]
    whole = None if number is None else number * each
    if whole is not None:
        most = "at most " if is_trained(plan.make()) else ""
        rows.append(("in all", f"{most}about {numbers.duration(whole)}"))
    if seconds is not None:
        rows.append(("budget", numbers.duration(seconds)))
    screen.show(_space_table(plan), "", make_facts(rows))
    if plan.search == "grid":
        _show_trials(screen, plan, first)
    screen.give(
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
    limit = "" if allowed is None else f", at most {numbers.plural(allowed, 'trial')}"
    if plan.search == "grid":
        return f"grid of {numbers.plural(expected or 0, 'combination')}{limit}"
    if plan.search == "free":
        return f"drawn by Optuna from what earlier trials gave{limit}"
    return (
        f"line, {numbers.plural(expected or 0, 'trial')} in the first round, then "
        f"until a round changes nothing{limit}"
    )


def _space_table(plan: Plan) -> Any:
    table = make_table("parameter", "values to try", text=2)
    for name, given in plan.space_dict().items():
        if "values" in given:
            said = ", ".join(map(short, given["values"]))
        else:
            said = f"{short(given['low'])} to {short(given['high'])}"
            said += ", evenly in the logarithm" if given["log"] else ""
        table.add_row(name, said)
    return table


def _show_trials(screen: Screen, plan: Plan, first: list[dict[str, Any]]) -> None:
    names = list(plan.space)
    table = make_table("trial", *names)
    for number, parameters in enumerate(first[:_MOST_ROWS]):
        table.add_row(str(number), *(short(parameters[name]) for name in names))
    screen.show("", table)
    if len(first) > _MOST_ROWS:
        screen.show(f"and {len(first) - _MOST_ROWS:,} more")


def _trial_seconds(screen: Screen, plan: Plan, split: EdgeSplit) -> float:
    """Forecast one trial, at the point where the search begins."""
    from gelato.cli.training_forecast import forecast_training
    from gelato.ranking.evaluate import test_candidates
    from gelato.ranking.forecast import forecast

    model = plan.make()
    if is_trained(model):
        coming = forecast_training(screen, model, split)
        if coming is not None:
            return coming.seconds
    elif hasattr(model, "fit"):
        model.fit(split)
    rule = test_candidates(split, "valid")
    graph = split.train_graph
    found = forecast(model, graph, candidates=rule, positives=len(split.valid))
    return float(found.seconds)
