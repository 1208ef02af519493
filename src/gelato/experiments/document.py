"""The page of reproduced experiments, written from recorded runs and nothing else.

The same records give the same text: no date, no machine of whoever writes it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gelato.experiments.paper import Experiment, Row
from gelato.experiments.tables import Cell, cells, row_records

_HEAD = """\
# The paper, reproduced

Written by `gelato reproduce --write-docs` from the recorded runs in `results/`; do not
edit it by hand. Each run is one file there, with its settings, its split, all metrics
and curves, its time and memory, and the commit of the code.

All numbers are percentages over all candidate pairs. *Ours* is the mean over the seeds
named, with the standard deviation where there are several. *Tolerance* is how far the
mean of s seeds may lie from the paper's mean of ten by chance,
3 sd sqrt(1/10 + 1/s) with the paper's sd; half of the last printed digit where that
is 0. A verdict of **above** or **below** marks a number outside of it.
"""
_METRICS = {"ap": "AP", "auc": "AUC"}


def write_page(experiments: Sequence[Experiment], results: Path) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    experiments : sequence of Experiment
        In the order of the page.
    results : Path
        Folder of recorded runs.
    """
    parts = [_HEAD]
    for experiment in experiments:
        parts += _section(experiment, results)
    return "\n".join(parts)


def _section(experiment: Experiment, results: Path) -> list[str]:
    found = cells(experiment, results)
    records = [row_records(row, results) for row in experiment.rows]
    lines = [f"## {experiment.title}", "", f"`gelato reproduce {experiment.name}`", ""]
    lines += [*(f"- {note}" for note in experiment.notes), ""]
    for metric in dict.fromkeys(cell.metric for cell in found):
        lines += _metric_table([cell for cell in found if cell.metric == metric])
    lines += _run_table(experiment.rows, records)
    lines += _provenance([record for part in records for record in part])
    lines += _missing(experiment, found)
    return lines


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text: int
) -> list[str]:
    marks = ["---"] * text + ["---:"] * (len(header) - text)
    body = [header, marks, *rows]
    return [*(f"| {' | '.join(row)} |" for row in body), ""]


def _metric_table(found: Sequence[Cell]) -> list[str]:
    title = _METRICS.get(found[0].metric, found[0].metric)
    header = (
        *("method", "dataset", "verdict", f"ours, {title}", f"paper, {title}"),
        *("difference", "tolerance", "seeds"),
    )
    return _table(header, (_metric_row(cell) for cell in found), 3)


def _metric_row(cell: Cell) -> list[str]:
    outside = cell.verdict in ("above", "below")
    return [
        f"{cell.method}, {cell.label}" if cell.label else cell.method,
        cell.dataset,
        f"**{cell.verdict}**" if outside else cell.verdict,
        spread(cell.mean, cell.deviation),
        paper_text(cell),
        "" if cell.difference is None else f"{cell.difference:+.2f}",
        "" if cell.tolerance is None else f"{cell.tolerance:.2f}",
        seed_text(cell.seeds),
    ]


def paper_text(cell: Cell) -> str:
    """Return the paper's number with its mark, or the mark alone."""
    if cell.published is None:
        return cell.mark or "-"
    return spread(cell.published, cell.published_sd) + cell.mark


def spread(mean: float | None, deviation: float | None) -> str:
    """Return a mean with its deviation, in percent, or a dash."""
    if mean is None:
        return "-"
    return f"{mean:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


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


def _run_table(
    rows: Sequence[Row], records: Sequence[Sequence[dict[str, Any]]]
) -> list[str]:
    header = (
        *("method", "dataset", "seconds to fit", "best epochs", "steps skipped"),
        "peak memory, MB",
    )
    lines = [
        [
            row.name,
            row.dataset,
            f"{statistics.fmean(r['fit_seconds'] for r in found):.1f}",
            ", ".join(str(t["best_epoch"]) for t in _trainings(found)),
            str(sum(t["skipped_steps"] for t in _trainings(found))),
            f"{max(r['peak_rss_mb'] for r in found):.0f}",
        ]
        for row, found in zip(rows, records, strict=True)
        if found
    ]
    return _table(header, lines, 2) if lines else []


def _trainings(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record["training"] for record in records if "training" in record]


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


def missing_commands(experiment: Experiment, found: Iterable[Cell]) -> dict[str, str]:
    """Return, for what is missing, in words, the command that runs it."""
    told = {}
    for cell in found:
        if not cell.missing:
            continue
        seeds = [str(seed) for seed in cell.missing if seed is not None]
        what = f"{cell.method}, {cell.label}" if cell.label else cell.method
        what += f" on {cell.dataset}"
        command = f"gelato reproduce {experiment.name} --datasets {cell.dataset}"
        if seeds:
            noun = "seed" if len(seeds) == 1 else "seeds"
            what += f", {noun} {seed_text(cell.missing)}"
            command += f" --seeds {','.join(seeds)}"
        told[what] = command
    return told


def _missing(experiment: Experiment, found: Sequence[Cell]) -> list[str]:
    told = missing_commands(experiment, found)
    if not told:
        return []
    lines = [f"- {what}: `{command}`" for what, command in told.items()]
    return ["Missing, with the command that runs it:", "", *lines, ""]
