"""The pages of the reproduction: the first one, and one for each experiment.

The first says what was reproduced, what differs and why, and where the rest is. That of
an experiment has tables, figures, discussions of differences, and gaps. Discussions are
data in the specs, tied to the cells that they speak of.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gelato.paper.cells import (
    Cell,
    cells,
    figure_note,
    judge,
    mark_lines,
    marked,
    number_text,
    row_records,
    spread,
)
from gelato.paper.experiment import Experiment, Remark, Row, read_facts
from gelato.paper.plots import FIGURES
from gelato.paper.sections import Table, section_tables

NOT_DISCUSSED = "not discussed yet"
_METRICS = {"ap": "AP", "auc": "AUC"}
_SIGNS = {"above": "▲", "below": "▼"}
_MOST = 9  # things that a line of what is missing names one by one


def write_page(
    experiment: Experiment, results: Path, drawn: Mapping[str, str] | None = None
) -> str:
    """Return the page of an experiment as Markdown.

    Parameters
    ----------
    experiment : Experiment
        Which one.
    results : Path
        Folder of recorded runs.
    drawn : mapping, optional
        By figure the path of the SVG file from the page, without its suffix; an empty
        text where the figure could not be drawn.
    """
    lines = [f"# {experiment.title}", ""]
    if experiment.paper:
        lines += [f"In the paper: {experiment.paper}.", ""]
    lines += [f"`gelato reproduce {experiment.name}`", ""]
    if experiment.kind == "runs":
        found = cells(experiment, results)
        for metric in dict.fromkeys(cell.metric for cell in found):
            lines += _matrix([cell for cell in found if cell.metric == metric])
        lines += _marks(found)
        missing = missing_commands(experiment, found)
        discussed = discussion_lines(experiment, found, results)
    else:
        tables = section_tables(experiment, results)
        lines += [line for table in tables for line in plain_table(table)]
        missing = {k: v for table in tables for k, v in (table.missing or {}).items()}
        discussed = []
    said = finding_lines(experiment, results)
    lines += ["Findings:", "", *said, ""] if said else []
    lines += _figures(experiment, drawn or {}, results)
    notes = [f"- {note}" for note in experiment.notes]
    noted = ["How it was done:", "", *notes, ""] if notes else []
    return "\n".join([*lines, *discussed, *noted, *_missing(missing)]).rstrip() + "\n"


def finding_lines(experiment: Experiment, results: Path) -> list[str]:
    """Return what is found, and below each finding the records that say so."""
    lines = []
    for one in experiment.findings:
        lines.append(f"- {'Open: ' if one.open else ''}{one.text}")
        lines += [f"    - {told}" for told in _evidence(one.evidence, results)]
    return lines


def _evidence(statements: Sequence[str], results: Path | None) -> list[str]:
    """Return what the records say of statements, one text for each comparison."""
    if results is None:
        return []
    told: dict[tuple[str, str], list[str]] = {}
    for statement in statements:
        verdict = judge(statement, results)
        told.setdefault((verdict.state, verdict.about), []).append(verdict.numbers)
    words = {"holds": "recorded", "broken": "NOT SUPPORTED by"}
    return [
        f"{words.get(state, state)}: {about}: {'; '.join(numbers)}"
        for (state, about), numbers in told.items()
    ]


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text: int
) -> list[str]:
    marks = ["---"] * text + ["---:"] * (len(header) - text)
    body = [header, marks, *rows]
    return [*(f"| {' | '.join(row)} |" for row in body), ""]


def plain_table(table: Table) -> list[str]:
    """Return a table of text as Markdown."""
    lines = [f"**{table.title}**", ""] if table.title else []
    return lines + (_table(table.header, table.rows, table.text) if table.rows else [])


def _matrix(found: Sequence[Cell]) -> list[str]:
    """Return a table in the paper's shape: methods down, datasets across."""
    datasets = list(dict.fromkeys(cell.dataset for cell in found))
    # Runs of two lengths may share a place: each has its line there.
    at: dict[tuple[str, str], list[Cell]] = {}
    for cell in found:
        at.setdefault((cell.method, cell.dataset), []).append(cell)
    rows = [
        [method, *(_matrix_place(at.get((method, name), [])) for name in datasets)]
        for method in dict.fromkeys(cell.method for cell in found)
    ]
    title = _METRICS.get(found[0].metric, found[0].metric)
    return _table((f"{title}, %", *datasets), rows, 1)


def _matrix_place(cells: Sequence[Cell]) -> str:
    return "<br>".join(_matrix_cell(cell, alone=len(cells) == 1) for cell in cells)


def _matrix_cell(cell: Cell, *, alone: bool) -> str:
    """Return two lines: ours, and the paper's. Neither is to break."""
    ours = number_text(cell)
    if cell.verdict in _SIGNS:
        ours += f" {_SIGNS[cell.verdict]}"
    runs = len([seed for seed in cell.seeds if seed is not None])
    if runs > 1:
        ours += f" ({runs})"
    if cell.label and not alone:
        ours += f" {cell.label}"
    paper = paper_text(cell)
    lines = [ours] if paper == "-" else [ours, f"paper {_escaped(paper)}"]
    return "<br>".join(line.replace(" ", "\u00a0") for line in lines)


def _marks(found: Sequence[Cell]) -> list[str]:
    """Return why cells are estimated, reduced, or will stay empty."""
    lines = [f"- {line[2:] if line[0] == '-' else line}" for line in mark_lines(found)]
    return ["Not exact:", "", *lines, ""] if lines else []


def _escaped(text: str) -> str:
    return text.replace("*", "\\*")  # the paper's marks are no emphasis


def paper_text(cell: Cell) -> str:
    """Return the paper's number with its mark, or the mark alone."""
    if cell.published is None:
        return cell.mark or "-"
    return spread(cell.published, cell.published_sd) + cell.mark


def seed_text(seeds: Sequence[int | None]) -> str:
    """Return seeds for people: runs of consecutive ones are shortened.

    Examples
    --------
    >>> seed_text([1, 2, 3, 7])
    '1-3, 7'
    """
    runs: list[list[int]] = []
    for seed in sorted(seed for seed in seeds if seed is not None):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(
        f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in runs
    )


def _figures(
    experiment: Experiment, drawn: Mapping[str, str], results: Path
) -> list[str]:
    lines = []
    rows: dict[str, list[tuple[Row, Any]]] = {}
    # Panels of a grid say themselves how long their runs were.
    for row in experiment.rows if drawn and experiment.kind != "grid" else ():
        rows.setdefault(row.dataset, []).append((row, row_records(row, results)))
    noted = figure_note(rows)
    noted = f"; {noted}" if noted else ""
    for name in experiment.figures:
        title = FIGURES[name][0]
        path = drawn.get(name, "")
        if path:
            lines += [f"![{experiment.title}: {title}]({path}.svg)", ""]
            caption = f"*{experiment.title}: {title}{noted}*"
            lines += [f"{caption} ([PNG]({path}.png))", ""]
        else:
            lines += [f"Figure missing, nothing is recorded for it: {title}.", ""]
    return lines


def discussion_lines(
    experiment: Experiment, found: Sequence[Cell], results: Path | None = None
) -> list[str]:
    """Return every difference outside its tolerance, by what is known of it."""
    told: dict[str, list[str]] = {}
    for cell, text in differences(experiment, found):
        remark = remark_on(experiment, cell)
        known = [] if remark is None else _evidence(remark.evidence, results)
        shown = f" ({'. '.join(known)})" if known else ""
        where = f"{cell.method} on {cell.dataset}"
        where += f", {cell.label}" if cell.label else ""
        numbers = f"{number_text(cell)} against {paper_text(cell)}"
        text = f"{text[0].upper()}{text[1:].rstrip('.')}.{shown}"
        told.setdefault(text, []).append(
            f"{where}: {numbers}, {cell.difference:+.2f} with a tolerance of "
            f"{cell.tolerance:.2f}"
        )
    lines = []
    for text, told_of in told.items():
        if len(told_of) == 1:
            lines.append(f"- {told_of[0]}. {text}")
        else:
            lines += [f"- {text}", *(f"    - {cell}" for cell in told_of)]
    return ["Differences:", "", *lines, ""] if lines else []


def remark_on(experiment: Experiment, cell: Cell) -> Remark | None:
    """Return the remark on a cell that is still true of it, if there is one."""
    for remark in experiment.remarks:
        if _speaks_of(remark, cell) and remark.verdict == cell.verdict:
            return remark
    return None


def stale_remarks(experiment: Experiment, found: Sequence[Cell]) -> list[str]:
    """Return what remarks say of cells whose verdict has changed since, in words.

    A cell that is missing makes no remark stale; a cell that is gone does.
    """
    stale = []
    for remark in experiment.remarks:
        cells = [cell for cell in found if _speaks_of(remark, cell)]
        if len(cells) < len(remark.methods) * len(remark.datasets):
            stale.append(f"{experiment.name}: no cell for {remark.text!r}")
        stale += [
            f"{experiment.name}: {cell.method} on {cell.dataset} is {cell.verdict}, "
            f"but a remark says {remark.verdict}"
            for cell in cells
            if cell.verdict not in ("missing", remark.verdict)
        ]
    return stale


def differences(
    experiment: Experiment, found: Sequence[Cell]
) -> Iterator[tuple[Cell, str]]:
    """Yield the cells outside their tolerance, with what is said of them."""
    for cell in found:
        if cell.verdict in ("above", "below"):
            remark = remark_on(experiment, cell)
            yield cell, NOT_DISCUSSED if remark is None else remark.text


def _speaks_of(remark: Remark, cell: Cell) -> bool:
    return (
        cell.method in remark.methods
        and cell.dataset in remark.datasets
        and remark.metric in (None, cell.metric)
    )


def missing_commands(experiment: Experiment, found: Iterable[Cell]) -> dict[str, str]:
    """Return, for what is missing, in words, the command that runs it."""
    told = {}
    for cell in found:
        if not cell.missing:
            continue
        what = f"{cell.method}, {cell.label}" if cell.label else cell.method
        what += ", estimated" if cell.estimate is not None else ""
        what += f" on {cell.dataset}"
        seeds = [seed for seed in cell.missing if seed is not None]
        if seeds:
            noun = "seed" if len(seeds) == 1 else "seeds"
            what += f", {noun} {seed_text(seeds)}"
        # Without seeds: every row runs those that it lacks, and no others.
        told[what] = f"gelato reproduce {experiment.name} --datasets {cell.dataset}"
    return told


def by_command(missing: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what is missing, by the command that runs it."""
    told: dict[str, list[str]] = {}
    for what, command in missing.items():
        told.setdefault(command, []).append(what)
    return told


def _missing(missing: Mapping[str, str]) -> list[str]:
    lines = []
    for command, what in by_command(missing).items():
        named = "; ".join(what[:_MOST])
        rest = f"; and {len(what) - _MOST} more" if len(what) > _MOST else ""
        lines.append(f"- `{command}`: {named}{rest}")
    return ["Missing, by the command that runs it:", "", *lines, ""] if lines else []


def write_runs(experiments: Sequence[Experiment], results: Path) -> str:
    """Return the page of what every recorded run took, each once, and where."""
    rows: dict[str, tuple[Row, list[dict[str, Any]]]] = {}
    for experiment in experiments:
        for row in experiment.rows if experiment.kind == "runs" else ():
            found = row_records(row, results)
            if found:
                rows.setdefault(found[0]["digest"], (row, found))
    header = (
        *("run", "dataset", "seeds", "seconds to fit", "best epochs", "steps skipped"),
        "peak memory, MB",
    )
    every = [record for _, found in rows.values() for record in found]
    lines = [
        "# Recorded runs",
        "",
        "Times are wall-clock, most of them of one thread, on machines that also did "
        "other work; `results/benchmarks` and `gelato reproduce time` have clean ones. "
        "As `threads`, the first records give the cores of the machine.",
        "",
        *_table(header, (_run_row(row, found) for row, found in rows.values()), 3),
        *_provenance(every),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _run_row(row: Row, found: Sequence[dict[str, Any]]) -> list[str]:
    trained = [record["training"] for record in found if "training" in record]
    return [
        marked(f"{row.name}, {row.label}" if row.label else row.name, row),
        row.dataset,
        seed_text([record["spec"]["seed"] for record in found]),
        f"{statistics.fmean(r['fit_seconds'] for r in found):.1f}",
        ", ".join(str(t["best_epoch"]) for t in trained),
        str(sum(t["skipped_steps"] for t in trained)),
        f"{max(r['peak_rss_mb'] for r in found):.0f}",
    ]


def _provenance(records: Sequence[dict[str, Any]]) -> list[str]:
    """Say where the runs were made, and with which code."""
    places: dict[str, list[str]] = {}
    for record in records:
        of = record["environment"]
        packages = ", ".join(f"{k} {v}" for k, v in sorted(of["packages"].items()))
        place = (
            f"{of['processor']}, {of['cores']} cores, {of['memory_gb']} GB, "
            f"{of['system']}, Python {of['python']}, {packages}"
        )
        places.setdefault(place, []).append(record["commit"] or "unknown")
    lines = [
        f"- {len(commits)} {'run' if len(commits) == 1 else 'runs'} on {place}; "
        f"commits {', '.join(sorted(set(commits)))}"
        for place, commits in sorted(places.items())
    ]
    return [*lines, ""] if lines else []


FIGURE = ("biased-testing", "protocols")
"""Experiment and name of the one figure of the page."""
_TABLES = ("ap", "auc", "ap-unbiased", "ablation")
BEYOND = "not in the paper"
"""What specs give as their place in the paper where they have none."""
_HEAD = """\
# The paper, reproduced

Written by `gelato reproduce --write-docs` from the records in `results/`; do not edit
it by hand. Each run is one file there, with its settings, its split, all metrics and
curves, its time and memory, and the commit of the code. All numbers are percentages
over all candidate pairs, unless a heading says otherwise.
"""
_LEGEND = """\
## How to read the tables

A cell holds the mean over our runs, with the standard deviation and, in brackets, their
number where there are several, and below it the paper's number with its mark. **▲** or
**▼** stands where ours is above or below by more than chance explains: 3 sd
sqrt(1/10 + 1/s) for the mean of s runs against the paper's mean of ten, half of the
last printed digit where the paper's sd is 0. Networks, whose descriptions leave
settings open, have wider tolerances: 3 sd or a quarter of the AP (a third for single
runs), and 2 to 3 points of AUC.

A cell without a mark is exact: every candidate pair was ranked. **≈** stands before
an estimate: near pairs and positives were ranked exactly and a random sample of the
other pairs was weighted, so that the exact value lies in the interval beside it with
95 % confidence. **†** stands behind a run with less than the paper's setting. **-** is
missing. Below each table stands what was reduced, and why a cell is missing.

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
    if "claims" in known:
        lines += ["## The paper's claims", ""]
        lines += plain_table(section_tables(known["claims"], results)[0])
    lines += _differs(known, found, results, folder)
    lines += _references()
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
    """Return findings, those about the paper first; then differences by table."""
    ranked = sorted(known.values(), key=lambda one: one.paper == BEYOND)
    said = [line for one in ranked for line in finding_lines(one, results)]
    rows = []
    for name in _TABLES:
        told: dict[tuple[str, str], list[str]] = {}
        for cell, _ in differences(known[name], found[name]) if name in found else ():
            told.setdefault((cell.verdict, cell.method), []).append(cell.dataset)
        if told:
            named = (
                ", ".join(
                    f"{method} ({', '.join(graphs)})"
                    for (which, method), graphs in told.items()
                    if which == verdict
                )
                for verdict in ("above", "below")
            )
            rows.append((f"[{known[name].title}]({folder}/{name}.md)", *named))
    if not said and not rows:
        return []
    lines = ["## What differs, and why", "", *said, *([""] if said else [])]
    if rows:
        lines += ["Outside the tolerance; the reasons are on the pages:", ""]
        lines += plain_table(Table(("table", "above", "below"), tuple(rows), 3))
    return lines


def _references() -> list[str]:
    facts = read_facts("references")
    rows = tuple((row["what"], row["known"]) for row in facts["rows"])
    return [
        f"## {facts['title']}",
        "",
        "What could weaken a baseline:",
        "",
        *plain_table(Table(("difference", "what is known"), rows, 2)),
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
