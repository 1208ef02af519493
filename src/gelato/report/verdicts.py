"""What a report says first: the result of a run, or of a comparison, in a sentence."""

from __future__ import annotations

from typing import Any

from gelato.comparison.paired import SAME
from gelato.text import (
    count,
    percent,
    percent_margin,
    short_percent,
    shortened,
    times,
)

LONGEST = 80  # characters of a name on a page


def run_verdict(summary: dict[str, Any]) -> str:
    """Return the result of a run in one sentence."""
    found = summary["verdict"]
    if found is None:
        return (
            f"{summary['model']['name']} was fitted on all edges: none is held out, so "
            "how well it ranks is not known."
        )
    name, ap = found["model"], found["ap"]
    among = (
        f"the {count(found['positives'])} held-out links among "
        f"{count(found['candidates'])} candidate pairs"
    )
    chance = (
        f"a random order has {short_percent(found['random_ap'])}"
        if found["random_ap"]
        else "a random order has none"
    )
    if found["heuristic"] is None:
        return f"{name} finds {among} with AP {short_percent(ap)}; {chance}."
    rival, other = found["heuristic"], found["heuristic_ap"]
    if found["best"] == name:
        gain = f"{times(ap / other)} times" if other else "more than"
        return (
            f"{name} is best at finding {among}: AP {short_percent(ap)}, {gain} the "
            f"best heuristic ({rival}, {short_percent(other)}){_doubt(found)}; "
            f"{chance}."
        )
    return (
        f"{rival} is best at finding {among}: AP {short_percent(other)}, ahead of this "
        f"run's {name} with {short_percent(ap)}{_doubt(found)}; {chance}."
    )


def _doubt(found: dict[str, Any]) -> str:
    """Return a word of caution where so few edges cannot tell two methods apart."""
    beside = found.get("against_heuristic")
    if beside is None:
        return ""
    if beside["margin"] is None:
        return ", which a single held-out edge cannot tell from chance"
    if abs(beside["gain"]) > beside["margin"]:
        return ""
    gain, width = 100 * abs(beside["gain"]), 100 * beside["margin"]
    return (
        f", a difference of {gain:.2g} ± {width:.2g} points (95 % interval) that may "
        "be chance"
    )


def comparison_verdict(summary: dict[str, Any]) -> str:
    """Return the result of a comparison in one sentence."""
    fair = [entry for entry in summary["ranking"] if not entry["biased"]]
    best = fair[0]
    mean = best["mean"]["ap"]
    runs = f" over {best['runs']} runs" if best["runs"] > 1 else ""
    value = percent_margin(mean, best["interval"]["ap"])
    text = f"{shortened(best['model'], LONGEST)} is best: AP {value} %{runs}"
    if len(fair) > 1:
        next_best = fair[1]
        other = next_best["mean"]["ap"]
        gain = f"{times(mean / other)} times" if other else "more than"
        text += (
            f", {gain} the next best ({shortened(next_best['model'], LONGEST)}, "
            f"{percent(other)} %{_unseen(best, next_best)})"
        )
    return f"{text}; a random order has {short_percent(best['random_ap'])}."


def _unseen(best: dict[str, Any], next_best: dict[str, Any]) -> str:
    """Return a caution where the best of a comparison may not be better."""
    found = next_best["difference"]["ap"] or {}
    against_best = next_best["against"] == best["model"]
    doubtful = against_best and found.get("verdict") == SAME
    return f", {SAME}" if doubtful else ""
