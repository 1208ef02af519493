"""The paper's numbers beside ours, and the marks of what is not exact.

A number that is estimated or reduced never stands beside exact ones without its mark,
in whatever is printed, written or drawn.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gelato.paper.experiment import Experiment, Row, read_experiment
from gelato.paper.runner import RunSpec, find_result

ESTIMATED = "≈"
REDUCED = "†"
# Networks whose AUC varies more between implementations.
_LOOSE_AUC = frozenset({"TLC-GNN", "NBFNet", "Neo-GNN"})


def cells(
    experiment: Experiment,
    results: Path,
    metric: str | None = None,
    *,
    seeds: tuple[int, ...] | None = None,
) -> list[Cell]:
    """Return the cells of an experiment from the runs recorded so far.

    Parameters
    ----------
    experiment : Experiment
        Which one.
    results : Path
        Folder of recorded runs.
    metric : str, optional
        ``"ap"`` or ``"auc"``; default each metric that the paper printed.
    seeds : tuple of int, optional
        Only these; default those of the experiment.
    """
    return [
        _cell(row, records, seeds, name)
        for row in experiment.rows
        for records in [row_records(row, results, seeds)]
        for name in (row.metrics if metric is None else (metric,))
    ]


def row_records(
    row: Row, results: Path, seeds: tuple[int, ...] | None = None
) -> list[dict[str, Any]]:
    """Return the recorded runs of a row, in the order of its seeds."""
    found = (find_result(results, spec) for spec in row.runs(seeds))
    return [record for record in found if record is not None]


def trained_alike(
    rows: Iterable[Row], results: Path
) -> list[tuple[Row, list[dict[str, Any]]]]:
    """Return those of some rows that can be compared, each with its recorded runs.

    Rows that were trained for a shorter time say so in their label, and are compared
    with each other only. Of several labels the one with most recorded rows counts;
    where they are as many, no label.
    """
    found: dict[str, list[tuple[Row, list[dict[str, Any]]]]] = {}
    for row in rows:
        found.setdefault(row.label, []).append((row, row_records(row, results)))
    recorded = {label: sum(bool(r) for _, r in part) for label, part in found.items()}
    best = max(found, key=lambda label: (recorded[label], not label), default="")
    return found.get(best, [])


def _cell(
    row: Row,
    records: list[dict[str, Any]],
    seeds: tuple[int, ...] | None,
    metric: str,
) -> Cell:
    recorded = tuple(RunSpec(**record["spec"]).number for record in records)
    wanted = (spec.number for spec in row.runs(seeds))
    return Cell(
        row.name,
        row.dataset,
        metric,
        tuple(100 * record["metrics"][metric] for record in records),
        recorded,
        row.published.get(metric),
        row.published.get(f"{metric}_sd"),
        row.label,
        tuple(seed for seed in wanted if seed not in recorded),
        row.mark,
        row.group,
        row.estimate,
        tuple(_limits(record["metrics"], metric) for record in records)
        if row.estimate is not None
        else (),
        row.missing,
    )


def _limits(metrics: dict[str, Any], metric: str) -> tuple[float, float]:
    low, high = metrics["estimate"]["intervals"][metric]
    return 100 * low, 100 * high


@dataclass(frozen=True)
class Cell:
    """One number of the paper and what was measured for it.

    Parameters
    ----------
    method, dataset, metric : str
        Which number.
    values : tuple of float
        One value per recorded run, in percent.
    seeds : tuple
        Their seeds; seeds of their splits, where these vary.
    published, published_sd : float, optional
        The paper's mean and deviation, in percent.
    label : str
        Why the runs differ from the paper's setting; else empty.
    missing : tuple
        Seeds that are not recorded yet.
    mark : str
        The paper's mark in place of, or beside, a number: ``*``, ``***`` or ``OOM``.
    group : str
        The paper's group of methods; networks have wider tolerances.
    estimate : float, optional
        The rate, where the runs were to be ranked by an estimate.
    limits : tuple
        Of every run that was, the interval of its value, in percent.
    reason : str
        Why nothing is run; else empty.
    """

    method: str
    dataset: str
    metric: str
    values: tuple[float, ...]
    seeds: tuple[int | None, ...]
    published: float | None
    published_sd: float | None
    label: str = ""
    missing: tuple[int | None, ...] = ()
    mark: str = ""
    group: str = ""
    estimate: float | None = None
    limits: tuple[tuple[float, float], ...] = ()
    reason: str = ""

    @property
    def state(self) -> str:
        """One of "exact", "estimated", "reduced", both of these, and "missing"."""
        if not self.values:
            return "missing"
        parts = ["reduced"] if self.label else []
        parts += ["estimated"] if self.estimate is not None else []
        return " and ".join(parts) or "exact"

    @property
    def why(self) -> str:
        """Why the cell is not exact, in words; empty if it is."""
        if not self.values:
            planned = "not recorded yet" if self.missing else "no run is planned"
            return self.reason or planned
        told = [self.label] if self.label else []
        if self.estimate is not None:
            told.append(
                f"near pairs exactly, {100 * self.estimate:g} % of the others sampled"
            )
        return "; ".join(told)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the exact mean lies with 95 % confidence, if it was estimated."""
        if not self.limits:
            return None
        low, high = zip(*self.limits, strict=True)
        return statistics.fmean(low), statistics.fmean(high)

    @property
    def mean(self) -> float | None:
        """Mean of the recorded runs."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the recorded runs."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def tolerance(self) -> float | None:
        """How far a mean of this many runs may lie from the paper's by chance.

        ``3 sd sqrt(1/10 + 1/s)``: both means are of finitely many runs. Where the
        paper's deviation is 0, half of the last printed digit. Networks were built
        from descriptions that leave settings open, so theirs are wider.
        """
        if self.published is None or not self.values:
            return None
        if self.group == "GNN":
            return self._network_tolerance(self.published)
        if not self.published_sd:
            return 0.005 + 1e-9
        return 3 * self.published_sd * math.sqrt(1 / 10 + 1 / len(self.values))

    def _network_tolerance(self, published: float) -> float:
        """Return 3 sd or a quarter of the mean for AP, 2 or 3 points for AUC."""
        single = self.mark == "*"
        if self.metric == "auc":
            return 3.0 if single or self.method in _LOOSE_AUC else 2.0
        share = 0.35 if single else 0.25
        return max(3 * (self.published_sd or 0.0), share * published)

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's."""
        if self.mean is None or self.published is None:
            return None
        return self.mean - self.published

    @property
    def verdict(self) -> str:
        """One of "within", "above", "below", "missing" and "no figure"."""
        if self.mean is None:
            return "missing"
        if self.difference is None or self.tolerance is None:
            return "no figure"
        if abs(self.difference) <= self.tolerance:
            return "within"
        return "above" if self.difference > 0 else "below"

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain data."""
        return {
            "method": self.method,
            "dataset": self.dataset,
            "metric": self.metric,
            "seeds": list(self.seeds),
            "values": list(self.values),
            "mean": self.mean,
            "deviation": self.deviation,
            "published": self.published,
            "published_sd": self.published_sd,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "verdict": self.verdict,
            "state": self.state,
            "why": self.why,
            "label": self.label,
            "estimate": self.estimate,
            "interval": None if self.interval is None else list(self.interval),
            "missing_seeds": list(self.missing),
            "mark": self.mark,
        }


@dataclass(frozen=True)
class Verdict:
    """What recorded numbers say of a statement.

    Parameters
    ----------
    state : {"holds", "broken", "not recorded yet"}
        Whether they support it.
    about : str
        What is compared with what.
    numbers : str
        Its numbers, and of which graph they are.
    """

    state: str
    about: str
    numbers: str


def judge(statement: str, results: Path) -> Verdict:
    """Compare a statement about cells with what is recorded.

    Parameters
    ----------
    statement : str
        ``"table:row:graph within"``, the cell agrees with the paper's number;
        ``"table:row:graph > table:row:graph"``; or the same with ``~``, the two
        differ by no more than chance explains: 3 sd sqrt(1/r + 1/s) for the means of
        r and s runs. A fourth part names the metric, by default AP.
        Of the first run's training: ``"table:row:graph best 5 of 200"``, the epoch
        kept and the last one; ``"table:row:graph ap 0.71 at 100"``, a value after an
        epoch, in percent (a loss as it is), to the digits that are given.
    results : Path
        Folder of recorded runs.
    """
    if parts := _OF_TRAINING.fullmatch(statement):
        name, what, number, epoch = parts.groups()
        return _judge_training(name, what, number, int(epoch), results)
    if statement.endswith(" within"):
        (only,) = found = [_named_cell(statement.removesuffix(" within"), results)]
        true = only.verdict == "within"
        about = f"{only.method} beside the paper's"
        numbers = f"{only.dataset} {number_text(only)}, {only.published}"
    else:
        sign = " ~ " if " ~ " in statement else " > "
        names = statement.split(sign)
        first, second = found = [_named_cell(name, results) for name in names]
        gap = (first.mean or 0) - (second.mean or 0)
        true = abs(gap) <= _chance(first, second) if sign == " ~ " else gap > 0
        titles = [cell.method for cell in found]
        if first.method == second.method:  # in two tables
            tables = (name.partition(":")[0] for name in names)
            titles = [f"{a} ({b})" for a, b in zip(titles, tables, strict=True)]
        about = " against ".join(titles)
        where = [f"{cell.dataset} {number_text(cell)}" for cell in found]
        if first.dataset == second.dataset:
            where[1] = number_text(second)
        numbers = ", ".join(where)
    if not all(cell.values for cell in found):
        return Verdict("not recorded yet", about, numbers)
    return Verdict("holds" if true else "broken", about, numbers)


_OF_TRAINING = re.compile(r"(\S+:.+:\S+) (\S+) ([\d.]+) (?:of|at) (\d+)")


def _judge_training(
    name: str, what: str, number: str, epoch: int, results: Path
) -> Verdict:
    """Compare what is said of a training with the record of its first run."""
    (row,) = _named_rows(name)
    records = row_records(row, results)
    about = f"{row.name} in training"
    if what == "best":
        numbers = f"{row.dataset} keeps epoch {number} of {epoch}"
    else:
        numbers = f"{row.dataset} {what} {number} after epoch {epoch}"
    if not records:
        return Verdict("not recorded yet", about, numbers)
    training = records[0]["training"]
    if what == "best":
        kept = training["best_epoch"], training["history"][-1]["epoch"]
        true = kept == (int(number), epoch)
    else:
        (entry,) = (e for e in training["history"] if e["epoch"] == epoch)
        value = entry[what] * (1 if what == "loss" else 100)
        digits = len(number.partition(".")[2])
        true = f"{value:.{digits}f}" == number
    return Verdict("holds" if true else "broken", about, numbers)


def _named_rows(name: str) -> tuple[Row, ...]:
    """Return the rows that a statement's ``table:row:graph`` names."""
    table, method, dataset, *_ = name.split(":")
    rows = read_experiment(table).on([dataset]).of([method]).rows
    return tuple(row for row in rows if row.name == method)


def _named_cell(name: str, results: Path) -> Cell:
    table, _, _, *metric = name.split(":")
    named = replace(read_experiment(table), rows=_named_rows(name))
    (cell,) = cells(named, results, metric[0] if metric else "ap")
    return cell


def _chance(*found: Cell) -> float:
    """Return by how much the means of cells may differ without meaning anything."""
    spread = max(cell.deviation or 0.0 for cell in found)
    return 3 * spread * math.sqrt(sum(1 / max(1, len(cell.values)) for cell in found))


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


def mark_lines(found: Iterable[Cell]) -> list[str]:
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
        f"{mark_title(state)}: {', '.join(places)} ({why})"
        for (state, why), places in sorted(
            told.items(), key=lambda item: order.index(item[0][0])
        )
    ]


def mark_title(state: str) -> str:
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
