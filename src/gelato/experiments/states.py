"""Marks of what is not exact: estimated, reduced or missing, and why.

A number that is estimated or reduced never stands beside exact ones without its mark,
in whatever is printed, written or drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gelato.experiments.paper import Row
from gelato.experiments.tables import Cell

ESTIMATED = "≈"
REDUCED = "†"


def marked(text: str, cell: Cell | Row) -> str:
    """Return a number or a name with the marks of its cell.

    Examples
    --------
    >>> marked("SEAL", Row("seal", "photo", {}, (1,), {}, "2 epochs", estimate=0.01))
    '≈ SEAL †'
    """
    before = f"{ESTIMATED} " if cell.estimate is not None else ""
    return f"{before}{text}{f' {REDUCED}' if cell.label else ''}"


def number_text(cell: Cell) -> str:
    """Return what was measured for a cell, in percent, with its marks."""
    text = marked(spread(cell.mean, cell.deviation), cell) if cell.values else "-"
    if cell.interval is None:
        return text
    low, high = cell.interval
    return f"{text} ({low:.2f} to {high:.2f})"


def spread(mean: float | None, deviation: float | None) -> str:
    """Return a mean with its deviation, in percent, or a dash."""
    if mean is None:
        return "-"
    return f"{mean:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def state_lines(found: Iterable[Cell]) -> list[str]:
    """Return why cells are not exact, a line for each reason.

    Cells that only wait for their run are left out: what is missing is told with the
    command that runs it.
    """
    told: dict[tuple[str, str], list[str]] = {}
    for cell in found:
        if cell.state == "exact" or (cell.state == "missing" and cell.missing):
            continue
        places = told.setdefault((cell.state, cell.why), [])
        where = f"{cell.method} on {cell.dataset}"
        if where not in places:
            places.append(where)
    order = ("estimated", "reduced and estimated", "reduced", "missing")
    return [
        f"{state_title(state)}: {', '.join(places)} ({why})"
        for (state, why), places in sorted(
            told.items(), key=lambda item: order.index(item[0][0])
        )
    ]


def state_title(state: str) -> str:
    """Return a state with its marks."""
    marks = {"estimated": ESTIMATED, "reduced": REDUCED, "missing": "-"}
    parts = [f"{marks[part]} {part}" for part in state.split(" and ")]
    return " and ".join(parts)


def figure_note(found: Mapping[str, Sequence[tuple[Row, Any]]]) -> str:
    """Name, for the foot of a figure, the curves that are not exact.

    Parameters
    ----------
    found : mapping
        By dataset the rows that are drawn, with their records.
    """
    parts = []
    for dataset, rows in found.items():
        shown = [row for row, records in rows if records]
        for word, chosen in (
            ("estimated", [row for row in shown if row.estimate is not None]),
            ("reduced", [row for row in shown if row.label]),
        ):
            if chosen:
                names = ", ".join(row.name for row in chosen)
                parts.append(f"{word} on {dataset}: {names}")
    return "; ".join(parts)
