"""Numbers, ids and sentences of a report, as people read them."""

from __future__ import annotations

import math
from typing import Any

from gelato.comparison.paired import SAME
from gelato.explain.explanation import printable

_LONGEST = 80


def hundredths(share: float | None) -> str:
    """Return a share in percent, without the sign.

    Examples
    --------
    >>> hundredths(0.0265), hundredths(0.0000823)
    ('2.65', '0.0082')
    """
    if share is None or not math.isfinite(share):
        return "-"
    value = 100 * share
    if value == 0 or abs(value) >= 0.095:
        return f"{value:.2f}"
    return f"{value:.{min(1 - math.floor(math.log10(abs(value))), 12)}f}"


def percent(share: float | None) -> str:
    """Return a share in percent, short.

    Examples
    --------
    >>> percent(0.5), percent(0.0456), percent(0.0000823)
    ('50 %', '4.56 %', '0.0082 %')
    """
    text = hundredths(share)
    return f"{text.removesuffix('.00')} %"


def count(value: float) -> str:
    """Return a whole number with thousands separated."""
    return f"{round(value):,}"


def score(value: float) -> str:
    """Return a score with four significant digits."""
    return f"{value:.4g}"


def shown(value: Any) -> str:
    """Return an id or a text: everything unprintable escaped, and not endless."""
    text = printable(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def whole(value: Any) -> str:
    """Return a text with everything unprintable escaped."""
    return printable(value)


def spread(mean: float, limits: dict[str, float] | None) -> str:
    """Return a mean in percent, with the half-width of its interval if there is one.

    Examples
    --------
    >>> spread(0.0265, {"low": 0.0234, "high": 0.0296}), spread(0.0265, None)
    ('2.65 ± 0.31', '2.65')
    """
    text = hundredths(mean)
    if limits is None:
        return text
    digits = len(text.partition(".")[2])
    return f"{text} ± {100 * (limits['high'] - mean):.{digits}f}"


def difference(found: dict[str, Any] | None) -> str:
    """Return a paired difference in points, with its sign and its interval."""
    if found is None:
        return ""
    value, high = found["value"], found["high"]
    margin = 0.0 if high is None else high - value
    digits = len(hundredths(max(abs(value), margin)).partition(".")[2])
    beside = "" if high is None else f" ± {100 * margin:.{digits}f}"
    return f"{100 * value:+.{digits}f}{beside}"


def times(ratio: float) -> str:
    """Return a factor."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


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
        f"a random order has {percent(found['random_ap'])}"
        if found["random_ap"]
        else "a random order has none"
    )
    if found["heuristic"] is None:
        return f"{name} finds {among} with AP {percent(ap)}; {chance}."
    rival, other = found["heuristic"], found["heuristic_ap"]
    if found["best"] == name:
        gain = f"{times(ap / other)} times" if other else "more than"
        return (
            f"{name} is best at finding {among}: AP {percent(ap)}, {gain} the best "
            f"heuristic ({rival}, {percent(other)}){_doubt(found)}; {chance}."
        )
    return (
        f"{rival} is best at finding {among}: AP {percent(other)}, ahead of this run's "
        f"{name} with {percent(ap)}{_doubt(found)}; {chance}."
    )


def _doubt(found: dict[str, Any]) -> str:
    """Return a word of caution where so few edges cannot tell two methods apart."""
    beside = found.get("against_heuristic")
    if beside is None or abs(beside["gain"]) > 2 * beside["error"]:
        return ""
    gain, error = 100 * abs(beside["gain"]), 100 * beside["error"]
    return f", a difference of {gain:.2g} ± {error:.2g} points that may be chance"


def comparison_verdict(summary: dict[str, Any]) -> str:
    """Return the result of a comparison in one sentence."""
    fair = [entry for entry in summary["ranking"] if not entry["biased"]]
    best = fair[0]
    mean = best["mean"]["ap"]
    runs = f" over {best['runs']} runs" if best["runs"] > 1 else ""
    value = spread(mean, best["interval"]["ap"])
    text = f"{shown(best['model'])} is best: AP {value} %{runs}"
    if len(fair) > 1:
        next_best = fair[1]
        other = next_best["mean"]["ap"]
        gain = f"{times(mean / other)} times" if other else "more than"
        text += (
            f", {gain} the next best ({shown(next_best['model'])}, "
            f"{hundredths(other)} %{_unseen(best, next_best)})"
        )
    return f"{text}; a random order has {percent(best['random_ap'])}."


def _unseen(best: dict[str, Any], next_best: dict[str, Any]) -> str:
    """Return a caution where the best of a comparison may not be better."""
    found = next_best["difference"]["ap"] or {}
    against_best = next_best["against"] == best["model"]
    doubtful = against_best and found.get("verdict") == SAME
    return f", {SAME}" if doubtful else ""
