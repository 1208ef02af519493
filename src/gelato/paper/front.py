"""The first page: what was reproduced, what differs and why, and where the rest is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gelato.paper.cells import Cell, cells, number_text
from gelato.paper.document import differences, finding_lines, paper_text, plain_table
from gelato.paper.experiment import Experiment, read_facts
from gelato.paper.sections import Table, section_tables

FIGURE = ("biased-testing", "protocols")
"""Experiment and name of the one figure of the page."""
_TABLES = ("ap", "auc", "ap-unbiased", "ablation")
_HEAD = """\
# The paper, reproduced

Written by `gelato reproduce --write-docs` from the records in `results/`; do not edit
it by hand. Each run is one file there, with its settings, its split, all metrics and
curves, its time and memory, and the commit of the code. All numbers are percentages
over all candidate pairs, unless a heading says otherwise.
"""
_LEGEND = """\
## How to read the tables

A cell holds the mean over our runs, with the standard deviation where there are
several, and below it the paper's number with its mark. **above** or **below** stands
where they differ by more than chance explains: 3 sd sqrt(1/10 + 1/s) for the mean of
s runs against the paper's mean of ten, half of the last printed digit where the
paper's sd is 0. Networks, whose descriptions leave settings open, have wider
tolerances: 3 sd or a quarter of the AP (a third for single runs), and 2 to 3 points
of AUC.

A cell without a mark is exact: every candidate pair was ranked. **≈** stands before
an estimate: near pairs and positives were ranked exactly and a random sample of the
other pairs was weighted, so that the exact value lies in the interval beside it with
95 % confidence. **†** stands behind a run with less than the paper's setting, which
it names. **-** is missing; below each table stands why.

`gelato reproduce --list` shows the state and the forecast of every cell, `gelato
reproduce --quick` runs all of it at toy size in a few minutes.
"""


def write_front(
    experiments: Sequence[Experiment],
    results: Path,
    *,
    folder: str,
    figure: str = "",
) -> str:
    """Return the first page as Markdown.

    Parameters
    ----------
    experiments : sequence of Experiment
        In the order of the paper's pages.
    results : Path
        Folder of recorded runs.
    folder : str
        Where the other pages are, from this one.
    figure : str
        Path of :data:`FIGURE` from the page, without its suffix; else empty.
    """
    known = {one.name: one for one in experiments}
    found = {
        name: cells(one, results) for name, one in known.items() if one.kind == "runs"
    }
    lines = [_HEAD, *_reproduced(known, found, folder)]
    if figure:
        title = "Biased testing beside unbiased testing, of the same trained models"
        lines += [f"![{title}]({figure}.svg)", "", f"*{title}*", ""]
    lines += _differs(known, found, results, folder)
    if "claims" in known:
        lines += ["## The paper's claims", ""]
        lines += plain_table(section_tables(known["claims"], results)[0])
    lines += _not_tested()
    lines += _pages(experiments, found, folder)
    return "\n".join([*lines, _LEGEND]).rstrip() + "\n"


def _reproduced(
    known: Mapping[str, Experiment],
    found: Mapping[str, Sequence[Cell]],
    folder: str,
) -> list[str]:
    """Return Gelato's numbers, and how many cells of each table agree."""
    lines = ["## What was reproduced", ""]
    own = [cell for cell in found.get("gelato", ()) if cell.metric == "ap"]
    if own:
        rows: tuple[tuple[str, ...], ...] = (
            ("ours", *(number_text(cell) for cell in own)),
            ("runs", *(str(len(cell.values)) for cell in own)),
            ("paper", *(paper_text(cell) for cell in own)),
        )
        header = ("Gelato, AP in %", *(cell.dataset for cell in own))
        lines += plain_table(Table(header, rows, 1))
    rows = tuple(
        (f"[{known[name].title}]({folder}/{name}.md)", *_counts(found[name]))
        for name in ("heuristics", *_TABLES)
        if name in found
    )
    if rows:
        header = ("cells of", "agree", "above", "below", "not in the paper", "missing")
        lines += plain_table(Table(header, rows, 1))
    return lines


def _counts(found: Sequence[Cell]) -> list[str]:
    counted = Counter(cell.verdict for cell in found)
    named = ("within", "above", "below", "missing")
    rest = len(found) - sum(counted[name] for name in named)
    return [
        str(count)
        for count in (*(counted[name] for name in named[:3]), rest, counted["missing"])
    ]


def _differs(
    known: Mapping[str, Experiment],
    found: Mapping[str, Sequence[Cell]],
    results: Path,
    folder: str,
) -> list[str]:
    """Return findings, then every difference in a line per method and table."""
    said = [line for one in known.values() for line in finding_lines(one, results)]
    rows = []
    for name in _TABLES:
        told: dict[str, list[Cell]] = {}
        for cell, _ in differences(known[name], found[name]) if name in found else ():
            told.setdefault(cell.method, []).append(cell)
        for method, part in told.items():
            where = ", ".join(f"{cell.dataset} {cell.verdict}" for cell in part)
            rows.append((f"[{known[name].title}]({folder}/{name}.md)", method, where))
    if not said and not rows:
        return []
    lines = ["## What differs, and why", "", *said, *([""] if said else [])]
    if rows:
        lines += ["Outside the tolerance; the reasons are on the pages:", ""]
        lines += plain_table(Table(("table", "row", "ours is"), tuple(rows), 3))
    return lines


def _not_tested() -> list[str]:
    rows = tuple((row["what"], row["why"]) for row in read_facts("open")["rows"])
    return [
        "## Not tested",
        "",
        "Differences to reference implementations that could weaken a baseline:",
        "",
        *plain_table(Table(("what", "why it is open"), rows, 2)),
    ]


def _pages(
    experiments: Sequence[Experiment],
    found: Mapping[str, Sequence[Cell]],
    folder: str,
) -> list[str]:
    rows = []
    for one in experiments:
        cells_of = found.get(one.name, ())
        have = sum(bool(cell.values) for cell in cells_of)
        state = f"{have} of {len(cells_of)} cells" if cells_of else "computed"
        link = f"[{one.title}]({folder}/{one.name}.md)"
        rows.append((one.paper, link, f"`gelato reproduce {one.name}`", state))
    rows.append(("", f"[Recorded runs]({folder}/runs.md)", "", ""))
    header = ("in the paper", "page", "command", "recorded")
    return [
        "## Every table and figure",
        "",
        *plain_table(Table(header, tuple(rows), 4)),
    ]
