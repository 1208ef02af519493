"""Write what methods reached, from the recorded runs, into the README and their pages.

The README, the leaderboard, and a page of ``docs/models`` named after a method, hold
their table between two comments: ``<!-- recorded -->`` and
``<!-- end of recorded -->``. What stands outside of them is written by hand.

    python scripts/write_reached.py
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from scipy.stats import t as student

from gelato.comparison.orders import MEASURES
from gelato.io import write_text_atomic
from gelato.paper.cells import Cell, cells, marked, row_records
from gelato.paper.document import paper_text, seed_text, spread
from gelato.paper.experiment import Experiment, Row, read_experiment

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = ROOT / "docs" / "models"
LEADERBOARD = ROOT / "docs" / "leaderboard.md"
RESULTS = ROOT / "results"
BEYOND = ("rivals", "gelato2", "stack")
"""The experiments with methods that are not in the paper."""
ORDERS = "orders"
"""The experiment with other protocols, and with more heuristics."""
_PROTOCOLS = ("degree-corrected", "heart")
_TRAININGS = {
    "ap": "biased",
    "ap-unbiased": "unbiased",
    "gnn-n-pair": "unbiased, N-pair",
    "rivals": "biased",
    "gelato2": "all pairs",
}
_BLOCK = re.compile(
    r"(?<=<!-- recorded -->\n).*?(?=<!-- end of recorded -->)", flags=re.S
)
_HEADER = "| training | graph | AP, % | paper | AUC, % | paper | seeds |"


def pages() -> list[Path]:
    """Return the pages that have a table."""
    every = [README, LEADERBOARD, *sorted(PAGES.glob("*.md"))]
    return [page for page in every if _BLOCK.search(page.read_text("utf-8"))]


def table(method: str) -> str:
    """Return the recorded runs of a method beside the paper's numbers."""
    rows = [row for name in _TRAININGS for row in _rows(name, method)]
    if not rows:
        return "\nNothing is recorded yet.\n\n"
    lines = [_HEADER, "|---|---|---:|---:|---:|---:|---|", *rows]
    return "\n" + "\n".join(lines) + "\n\n"


def overview() -> str:
    """Return the mean AP of every method on every graph, and Gelato's in the paper."""
    experiment = read_experiment("ap")
    found = {(c.method, c.dataset): c for c in cells(experiment, RESULTS)}
    methods = list(dict.fromkeys(method for method, _ in found))
    lines = [f"| | {' | '.join(experiment.datasets)} |", "|---|---|---|---|---|---|"]
    for method in methods:
        texts = [_short(found.get((method, name))) for name in experiment.datasets]
        title = f"**{method}**" if method == "Gelato" else method
        lines.append(f"| {title} | {' | '.join(texts)} |")
    theirs = [found["Gelato", name].published for name in experiment.datasets]
    lines.append(f"| Gelato in the paper | {' | '.join(f'{x:.2f}' for x in theirs)} |")
    lines += [f"| {' | '.join(row)} |" for row in _beyond(experiment.datasets)]
    return "\n" + "\n".join(lines) + "\n\n"


def _beyond(datasets: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of methods that are not in the paper, with what they lack."""
    every = [cell for name in BEYOND for cell in cells(read_experiment(name), RESULTS)]
    found = {(cell.method, cell.dataset): cell for cell in every}
    rivals = {row.name for row in read_experiment("rivals").rows}
    for method in dict.fromkeys(method for method, _ in found):
        title = method if method in rivals else f"**{method}**"
        if sum((method, x) in found for x in datasets) > 1:  # else a setting of one
            yield [title, *(_partly(found.get((method, x))) for x in datasets)]


def _partly(cell: Cell | None) -> str:
    """Return the mean, and of how many runs where some are missing."""
    if cell is None or not cell.missing:
        return _short(cell)
    if not cell.values:
        return "not recorded yet"
    planned = len(cell.values) + len(cell.missing)
    return f"{_short(cell)} ({len(cell.values)} of {planned} runs)"


def leaderboard() -> str:
    """Return a table for every graph, the best average precision first."""
    named = ("ap", *BEYOND)
    rows = [row for name in named for row in read_experiment(name).rows]
    orders = {(row.method, row.dataset): row for row in read_experiment(ORDERS).rows}
    known = {(row.method, row.dataset) for row in rows}
    rows += [row for key, row in orders.items() if key not in known]
    parts = []
    for dataset in read_experiment("ap").datasets:
        here = [row for row in rows if row.dataset == dataset]
        entries = [_entry(row, orders.get((row.method, dataset))) for row in here]
        found = [entry for entry in entries if entry is not None]
        found.sort(key=lambda entry: -entry[0])
        lines = [f"| {i} | {text} |" for i, (_, text, _) in enumerate(found, 1)]
        notes = [f"- {note}" for _, _, note in found if note]
        head = [
            "| | method | AP | 95 % | AUC | BIASED AP | degree AUC | HeaRT MRR "
            "| runs |",
            "|---:|---|---:|---:|---:|---:|---:|---:|---|",
        ]
        block = [f"## {dataset}", "", *head, *lines, *([""] if notes else []), *notes]
        parts.append("\n".join(block))
    return "\n" + "\n\n".join(parts) + "\n\n"


def _entry(row: Row, others: Row | None) -> tuple[float, str, str] | None:
    """Return a row's mean AP, its cells, and why it is not exact.

    ``others`` are runs of the same method under other protocols.
    """
    records = row_records(row, RESULTS)
    if not records:
        return None
    (ap,) = cells(_only(row), RESULTS, "ap")
    (auc,) = cells(_only(row), RESULTS, "auc")
    sampled = [r["biased_metrics"]["ap"] for r in records if r.get("biased_metrics")]
    told = f"{100 * fmean(sampled):.1f}" if sampled else "-"
    numbers = (f"{ap.mean:.2f}", _interval(ap), f"{auc.mean:.1f}", told)
    numbers += tuple(_other_protocols(others))
    seeds = seed_text(ap.seeds) if row.seeds != (None,) else "fixed"
    note = f"{row.name}: {ap.why}" if ap.why else ""
    return ap.mean or 0.0, " | ".join([marked(row.name, row), *numbers, seeds]), note


def _other_protocols(row: Row | None) -> Iterator[str]:
    found = [] if row is None else row_records(row, RESULTS)
    for name in _PROTOCOLS:
        measured = (record["protocols"][name] for record in found)
        values = [100 * one[MEASURES[name]] for one in measured]
        yield f"{fmean(values):.1f}" if values else "-"


def _only(row: Row) -> Experiment:
    return replace(read_experiment("ap"), rows=(row,))


def _interval(cell: Cell) -> str:
    """Return the limits of the mean, of an estimate or over seeds."""
    limits = cell.interval
    if limits is None and cell.deviation is not None and cell.mean is not None:
        runs = len(cell.values)
        width = float(student.ppf(0.975, runs - 1)) * cell.deviation / math.sqrt(runs)
        limits = cell.mean - width, cell.mean + width
    return "-" if limits is None else f"{max(limits[0], 0):.2f} to {limits[1]:.2f}"


def _short(cell: Cell | None) -> str:
    """Return the mean, with the marks of the cell."""
    if cell is None or not cell.values:
        return "-"
    return marked(f"{cell.mean:.2f}", cell)


def _rows(name: str, method: str) -> Iterator[str]:
    experiment = read_experiment(name).of([method])
    if name == "gnn-n-pair":  # which has cross entropy beside it
        rows = [row for row in experiment.rows if "n-pair" in row.parameters.values()]
        experiment = replace(experiment, rows=tuple(rows))
    areas = cells(read_experiment("auc").of([method]), RESULTS)
    auc = {(c.dataset, c.label): c for c in areas}
    both = (cells(experiment, RESULTS, metric) for metric in ("ap", "auc"))
    for cell, area in zip(*both, strict=True):
        if not cell.values:
            continue
        published = auc.get((cell.dataset, cell.label)) if name == "ap" else None
        shown = area if published is None else published
        differs = cell.label or cell.method.partition(", ")[2]
        label = "" if differs in _TRAININGS[name] else f" ({differs})"
        parts = (
            _TRAININGS[name] + label,
            cell.dataset,
            *_numbers(cell),
            *_numbers(shown),
            seed_text(cell.seeds),
        )
        yield f"| {' | '.join(parts)} |"


def _numbers(cell: Cell) -> tuple[str, str]:
    """Return ours, marked where it is outside of the tolerance, and the paper's."""
    ours = spread(cell.mean, cell.deviation)
    mark = f" **{cell.verdict}**" if cell.verdict in ("above", "below") else ""
    return ours + mark, paper_text(cell).replace("*", "\\*")


def refreshed(page: Path) -> str:
    """Return the text of a page with its table up to date."""
    if page == LEADERBOARD:
        new = leaderboard()
    else:
        new = overview() if page == README else table(page.stem)
    return _BLOCK.sub(lambda _: new, page.read_text("utf-8"))


def main() -> None:
    """Write all pages."""
    for page in pages():
        write_text_atomic(page, refreshed(page))
        print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
