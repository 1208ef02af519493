"""How numbers, names and plain data are said: on the command line and in reports.

The only place that rounds, and the only one that makes ids from outside harmless.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from html import escape
from importlib import import_module
from time import monotonic
from typing import Any

_BAR_SECONDS = 0.2  # between two looks of a bar in a notebook


def count(value: int | float) -> str:
    """Return a whole number with thousands separated."""
    return f"{round(value):,}"


def builtin(value: Any) -> Any:
    """Return a number or text of numpy as Python's own, so that messages quote it.

    Examples
    --------
    >>> import numpy as np
    >>> f"{np.int64(3)!r} is {builtin(np.int64(3))!r}"
    'np.int64(3) is 3'
    """
    if isinstance(value, tuple):
        return tuple(map(builtin, value))
    return value.item() if type(value).__module__ == "numpy" else value


def plural(number: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 edge``, ``2 edges``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float | None) -> str:
    """Return a share in percent, without the sign.

    Two decimals, as the paper prints; two significant digits below that, because a
    random baseline is often a few thousandths of a percent.

    Examples
    --------
    >>> percent(0.0265), percent(0.0000823), percent(1.0), percent(None)
    ('2.65', '0.0082', '100.00', '-')
    """
    if share is None or not math.isfinite(share):
        return "-"
    value = 100 * share
    if value == 0 or abs(value) >= 0.095:
        return f"{value:.2f}"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{min(digits, 12)}f}"


def short_percent(share: float | None) -> str:
    """Return a share in percent for a sentence.

    Examples
    --------
    >>> short_percent(0.5), short_percent(0.0456), short_percent(0.0000823)
    ('50 %', '4.56 %', '0.0082 %')
    """
    return f"{percent(share).removesuffix('.00')} %"


def percent_margin(share: float, limits: Mapping[str, float] | None) -> str:
    """Return a share in percent, with the half-width of its interval if known.

    Examples
    --------
    >>> percent_margin(0.0265, {"low": 0.0234, "high": 0.0296})
    '2.65 ± 0.31'
    >>> percent_margin(0.02, {"low": 0.0, "high": 0.05})  # no share is below 0
    '2.00 (0.00 to 5.00)'
    >>> percent_margin(0.0265, None)
    '2.65'
    """
    told = percent(share)
    if limits is None:
        return told
    digits = len(told.partition(".")[2])
    low, high = limits["low"], limits["high"]
    if (low == 0.0 or high == 1.0) and not math.isclose(high - share, share - low):
        return f"{told} ({100 * low:.{digits}f} to {100 * high:.{digits}f})"
    return f"{told} ± {100 * (high - share):.{digits}f}"


def percent_difference(share: float, margin: float | None = None) -> str:
    """Return a difference of shares in points, always with its sign.

    Examples
    --------
    >>> percent_difference(-0.0031, 0.0012), percent_difference(0.0)
    ('-0.31 ± 0.12', '+0.00')
    """
    smallest = abs(share) if margin is None else max(abs(share), margin)
    digits = len(percent(smallest).partition(".")[2])
    spread = "" if margin is None else f" ± {100 * margin:.{digits}f}"
    return f"{100 * share:+.{digits}f}{spread}"


def paired_difference(found: Mapping[str, Any] | None) -> str:
    """Return a difference of :func:`gelato.comparison.summary.rank_models`, if any."""
    if found is None:
        return ""
    margin = None if found["high"] is None else found["high"] - found["value"]
    return percent_difference(found["value"], margin)


def times(ratio: float) -> str:
    """Return a factor, for example ``320`` or ``1.9``."""
    if not math.isfinite(ratio):
        return "-"
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


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


def score(value: float, digits: int = 6) -> str:
    """Return a score with so many significant digits."""
    return f"{value:.{digits}g}"


def degree(value: float) -> str:
    """Return a degree: whole where it is whole."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"


def parameter(value: Any) -> str:
    """Return the value of a model's parameter."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def printable(value: object) -> str:
    """Return an id or name as text that cannot move a terminal's cursor."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii")
        for c in str(value)
    )


def shortened(value: object, most: int = 40) -> str:
    """Return an id or name that is printable, and not endless.

    The end stays: long ids, such as addresses, often differ only there.
    """
    told = printable(value)
    if len(told) <= most:
        return told
    end = (most - 1) // 3
    return f"{told[: most - 1 - end]}…{told[len(told) - end :]}"


def html_facts(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return facts as a small table for a notebook; whatever they hold is text."""
    lines = (
        f"<tr><th style='text-align:left'>{escape(printable(name))}</th>"
        f"<td style='text-align:left'>{escape(printable(value))}</td></tr>"
        for name, value in rows
    )
    return (
        f"<table><caption>{escape(printable(title))}</caption>{''.join(lines)}</table>"
    )


@contextmanager
def notebook_progress(
    title: str,
) -> Iterator[Callable[[str, float, float], None] | None]:
    """Yield a callback (what, done, in all) behind a bar in a notebook; None elsewhere.

    Plain HTML that IPython updates: no package of widgets is needed.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        yield None
        return
    notebook: Any = import_module("IPython.display")
    handle = notebook.display(notebook.HTML(escape(title)), display_id=True)
    shown_at = 0.0

    def tell(what: str, done: float, total: float) -> None:
        nonlocal shown_at
        if done < total and monotonic() - shown_at < _BAR_SECONDS:
            return
        shown_at = monotonic()
        bar = f"<progress value='{done:g}' max='{total:g}'></progress>"
        handle.update(notebook.HTML(f"{bar} {escape(printable(what or title))}"))

    try:
        yield tell
    finally:
        handle.update(notebook.HTML(""))


def plain_id(value: Any) -> str | int:
    """Return a node id as JSON has it: whole numbers and texts stay what they are."""
    item = value.item() if _is_numpy(value) else value
    if isinstance(item, str):
        # Lone surrogates cannot be written in any encoding.
        return item.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    return str(item)


def plain(value: Any) -> Any:
    """Return nested data as JSON can hold it; numbers that are not finite are null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if _is_numpy(value):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return plain_id(value)


def _is_numpy(value: Any) -> bool:
    """Tell whether a value is a number or text of numpy, which need not be loaded."""
    return type(value).__module__ == "numpy"


LABELS = {
    "sampled": "BIASED, sampled",
    "degree-corrected": "DEGREE-CORRECTED",
    "heart": "HEART",
    "given": "GIVEN",
}
"""What tables call numbers that are not those of all pairs."""
BIASES = {
    "sampled": "measured against as many random non-edges as edges, which flatters "
    "every model.",
    "degree-corrected": "measured against as many non-edges as edges, drawn by "
    "degree: still a sample, which flatters every model.",
    "heart": "measured against 500 hard non-edges of each edge's own nodes, chosen by "
    "heuristics, which is against models like these.",
    "given": "measured against the negatives of a file alone.",
}
"""What to know of each."""


def protocol_mark(name: str) -> str:
    """Return what stands behind a model in tables of several protocols."""
    if name not in LABELS:
        return ""
    return f", {LABELS[name].partition(',')[0]}"
