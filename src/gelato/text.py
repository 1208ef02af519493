"""Numbers as people read them; the only place that rounds."""

from __future__ import annotations

import math


def count(value: int | float) -> str:
    """Return a whole number with thousands separated."""
    return f"{round(value):,}"


def percent(share: float) -> str:
    """Return a share in percent, without the sign.

    Two decimals, as the paper prints; two significant digits below that, because a
    random baseline is often a few thousandths of a percent.

    Examples
    --------
    >>> percent(0.0265), percent(0.0000823), percent(1.0)
    ('2.65', '0.0082', '100.00')
    """
    value = 100 * share
    if not math.isfinite(value):
        return "-"
    if value == 0 or abs(value) >= 0.095:
        return f"{value:.2f}"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{min(digits, 12)}f}"


def percent_margin(share: float, margin: float | None) -> str:
    """Return a share in percent, with the half-width of its interval if known.

    Examples
    --------
    >>> percent_margin(0.0265, 0.0031), percent_margin(0.0265, None)
    ('2.65 ± 0.31', '2.65')
    """
    text = percent(share)
    if margin is None:
        return text
    return f"{text} ± {100 * margin:.{len(text.partition('.')[2])}f}"


def percent_difference(share: float, margin: float | None) -> str:
    """Return a difference of shares in points, always with its sign.

    Examples
    --------
    >>> percent_difference(-0.0031, 0.0012), percent_difference(0.0, None)
    ('-0.31 ± 0.12', '+0.00')
    """
    smallest = abs(share) if margin is None else max(abs(share), margin)
    digits = len(percent(smallest).partition(".")[2])
    spread = "" if margin is None else f" ± {100 * margin:.{digits}f}"
    return f"{100 * share:+.{digits}f}{spread}"


def times(ratio: float) -> str:
    """Return a factor, for example ``320x``."""
    if not math.isfinite(ratio):
        return "-"
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.1f}x"


def duration(seconds: float) -> str:
    """Return a time span in a unit that suits it."""
    if seconds < 0.1:
        return "< 0.1 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def short_duration(seconds: float) -> str:
    """Return a time span, also of a few milliseconds."""
    return f"{1000 * seconds:.0f} ms" if seconds < 0.1 else duration(seconds)


def size(num_bytes: float) -> str:
    """Return an amount of memory."""
    if num_bytes < 1e9:
        return f"{num_bytes / 1e6:.0f} MB"
    return f"{num_bytes / 1e9:.1f} GB"


def score(value: float) -> str:
    """Return a score with six significant digits."""
    return f"{value:.6g}"


def degree(value: float) -> str:
    """Return a degree: whole where it is whole."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"


def plural(number: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 edge``, ``2 edges``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
