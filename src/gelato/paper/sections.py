"""The tables of experiments that are not plain tables of runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gelato.comparison.orders import MEASURES, protocol_orders
from gelato.datasets.catalog import find
from gelato.paper.cells import (
    ESTIMATED,
    REDUCED,
    marked,
    row_records,
    trained_alike,
)
from gelato.paper.claims import (
    NAMED,
    claims,
    count_parameters,
    orderings,
    statistics_of,
)
from gelato.paper.experiment import Experiment, Row, read_experiment, read_facts
from gelato.paper.runner import FIRST, paper_preset
from gelato.paper.timing import find_times, missing_times, training_seconds
from gelato.paper.visual import find_visual, missing_panels
from gelato.ranking.example import worked_example
from gelato.text import LABELS

HEADER = (
    *("setting", "graph", "validation, balanced", "validation AP, all pairs"),
    *("test AP", "test AUC", "paper's AP"),
)
"""Columns of :func:`settings_rows`."""
_NAMES = ("eta", "alpha", "beta")


@dataclass(frozen=True)
class Table:
    """A table of text.

    Parameters
    ----------
    header : tuple of str
        Names of the columns.
    rows : tuple of tuples of str
        Cells.
    text : int
        How many columns, from the first, are text; the others are numbers.
    title : str
        What it shows, where an experiment has several.
    missing : dict
        What is missing, with the command that runs it.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: int = 1
    title: str = ""
    missing: dict[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {
            "title": self.title,
            "header": list(self.header),
            "rows": [list(row) for row in self.rows],
            "missing": self.missing or {},
        }


def section_tables(experiment: Experiment, results: Path) -> list[Table]:
    """Return the tables of an experiment that is not a plain table of runs."""
    return KINDS[experiment.kind](experiment, results)


def _statistics(experiment: Experiment, results: Path) -> list[Table]:
    facts = read_facts("datasets")
    rows = []
    for name, printed in facts["rows"].items():
        known = find(name)  # what loading makes sure of
        ours = statistics_of(known.num_nodes, known.num_edges, known.num_attributes)
        texts = [", ".join(str(value) for value in part) for part in (ours, printed)]
        rows.append((name, *texts, "yes" if texts[0] == texts[1] else "NO"))
    named = ", ".join(column.replace("_", " ") for column in facts["columns"])
    header = ("dataset", f"ours: {named}", "paper", "equal")
    return [Table(header, tuple(rows), 4)]


def _example(experiment: Experiment, results: Path) -> list[Table]:
    found = worked_example().to_dict()
    printed = {"biased": ("0.99", "0.95"), "unbiased": ("0.99", "0.05")}
    rows = tuple(
        (name, f"{found[name]['auc']:.2f}", auc, f"{found[name]['ap']:.2f}", ap)
        for name, (auc, ap) in printed.items()
    )
    return [Table(("testing", "AUC", "paper", "AP", "paper"), rows)]


def _parameters(experiment: Experiment, results: Path) -> list[Table]:
    datasets = list(read_facts("datasets")["rows"])
    printed = {("gelato", "photo"): 208_130, ("neo-gnn", "photo"): 455_200}
    rows = []
    for method in NAMED:
        cells = []
        for dataset in datasets:
            ours = f"{count_parameters(method, dataset):,}"
            paper = printed.get((method, dataset))
            cells.append(ours if paper is None else f"{ours} (paper {paper:,})")
        rows.append((method, *cells))
    return [Table(("method", *datasets), tuple(rows))]


def _selection(experiment: Experiment, results: Path) -> list[Table]:
    rows, missing = [], {}
    for found in selections(results):
        rows.append(found.cells)
        if found.command:
            missing[found.lacking] = found.command
    header = ("dataset", "paper", "selected again", "among", "validation prec@100%")
    return [Table(header, tuple(rows), 4, missing=missing)]


@dataclass(frozen=True)
class Selection:
    """What validation selects on a graph.

    Parameters
    ----------
    cells : tuple of str
        Dataset, the paper's values, ours, among how many, validation value.
    lacking : str
        What is missing, in words; empty if nothing.
    command : str
        What runs it.
    """

    cells: tuple[str, ...]
    lacking: str = ""
    command: str = ""


def selections(results: Path) -> list[Selection]:
    """Return, for every graph of the paper, what recorded combinations select."""
    experiment = read_experiment("sensitivity")
    return [
        _selected_again(
            dataset,
            values,
            [r for r in experiment.rows if r.dataset == dataset],
            results,
        )
        for dataset, values in read_facts("hyperparameters")["rows"].items()
    ]


def _selected_again(
    dataset: str, values: list[float], rows: list[Row], results: Path
) -> Selection:
    paper = _text(dict(zip(_NAMES, values, strict=True)))
    found = trained_alike(rows, results)
    known = [
        (statistics.fmean(r["training"]["best_value"] for r in records), row)
        for row, records in found
        if records
    ]
    count = f"{len(known)} of {len(found)} combinations"
    command = f"gelato reproduce sensitivity --datasets {dataset}"
    lacking = f"{len(found) - len(known)} combinations on {dataset}"
    if not known:
        cells = (dataset, paper, "missing", count, "-")
        return Selection(cells, lacking, command)
    value, best = max(known, key=lambda item: item[0])
    chosen = _text({name: best.parameters[name] for name in _NAMES})
    chosen += f", {best.label}" if best.label else ""
    cells = (dataset, paper, chosen, count, f"{100 * value:.2f}")
    done = len(known) == len(found)
    return Selection(cells, "" if done else lacking, "" if done else command)


def _text(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def _protocols(experiment: Experiment, results: Path) -> list[Table]:
    tables = []
    for dataset in experiment.datasets:
        rows, lacking = [], []
        line = _mean_of(experiment, results, dataset, "AA")
        for row in experiment.rows:
            if row.dataset != dataset:
                continue
            records = row_records(row, results)
            if not records:
                lacking += [row.name] if row.seeds else []
                continue
            ap = _mean(records, "metrics", "ap")
            rows.append(
                (
                    marked(f"{row.name}, {row.label}" if row.label else row.name, row),
                    f"{_mean(records, 'biased_metrics', 'auc'):.2f}",
                    f"{_mean(records, 'biased_metrics', 'ap'):.2f}",
                    f"{ap:.2f}",
                    _against(ap, line, row),
                )
            )
        header = ("method", "BIASED AUC", "BIASED AP", "AP, all pairs", "against AA")
        command = f"gelato reproduce ap --datasets {dataset}"
        missing = {f"{', '.join(lacking)} on {dataset}": command} if lacking else {}
        tables.append(Table(header, tuple(rows), title=dataset, missing=missing))
    return tables


def _orders(experiment: Experiment, results: Path) -> list[Table]:
    """Return, by graph, what methods reach under each protocol, and their places."""
    tables = []
    for dataset in experiment.datasets:
        rows = [row for row in experiment.rows if row.dataset == dataset]
        found = {row.name: row_records(row, results) for row in rows}
        lacking = [name for name, records in found.items() if not records]
        command = f"gelato reproduce {experiment.name} --datasets {dataset}"
        missing = {f"{', '.join(lacking)} on {dataset}": command} if lacking else {}
        entries = [
            {"model": name, "protocol": protocol, "mean": measured}
            for name, records in found.items()
            for record in records[:1]
            for protocol, measured in by_protocol(record).items()
        ]
        orders = protocol_orders(entries)
        known = orders["protocols"]
        header = ("method", *map(protocol_column, known))
        texts = [
            (model, *(_value_and_place(one, model) for one in known.values()))
            for model in orders["models"]
        ]
        if texts:
            taus = (_tau_text(one["kendall_tau"]) for one in known.values())
            texts.append(("Kendall's tau with the first", *taus))
        tables.append(Table(header, tuple(texts), title=dataset, missing=missing))
    return tables


def by_protocol(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the measures of a record under each of its protocols."""
    others: dict[str, dict[str, Any]] = record.get("protocols", {})
    return {"all": record["metrics"], "sampled": record["biased_metrics"], **others}


def protocol_column(name: str) -> str:
    """Return a protocol's column: what is measured there, and its label."""
    measure = MEASURES.get(name, "ap").upper()
    return f"{measure}, {LABELS.get(name) or 'all pairs'}"


def _value_and_place(one: dict[str, Any], model: str) -> str:
    return f"{100 * one['values'][model]:.2f} ({one['places'][model]:g})"


def _tau_text(tau: float | None) -> str:
    return "" if tau is None else f"{tau:.2f}"


def _mean(records: list[dict[str, Any]], part: str, metric: str) -> float:
    return 100 * statistics.fmean(record[part][metric] for record in records)


def _mean_of(
    experiment: Experiment, results: Path, dataset: str, name: str
) -> float | None:
    for row in experiment.rows:
        if (row.dataset, row.name) == (dataset, name):
            records = row_records(row, results)
            return _mean(records, "metrics", "ap") if records else None
    return None


def _settings(experiment: Experiment, results: Path) -> list[Table]:
    rows, missing = settings_rows(experiment, results)
    return [Table(HEADER, tuple(rows), 2, missing=missing)]


def settings_rows(
    experiment: Experiment, results: Path
) -> tuple[list[tuple[str, ...]], dict[str, str]]:
    """Return a row of text per recorded setting, and what is missing by command."""
    rows, missing = [], {}
    for row in experiment.rows:
        records = row_records(row, results)
        if records:
            rows.append(_texts(row, records))
        else:
            command = f"gelato reproduce {experiment.name} --datasets {row.dataset}"
            missing[f"{row.name} on {row.dataset}"] = command
    return rows, missing


def _grid(experiment: Experiment, results: Path) -> list[Table]:
    """Return a table per graph: combinations down, runs of one length side by side."""
    return [
        _combinations(experiment.on([dataset]), results)
        for dataset in experiment.datasets
    ]


def _combinations(experiment: Experiment, results: Path) -> Table:
    (dataset,) = experiment.datasets
    labels = list(dict.fromkeys(row.label for row in experiment.rows))
    places: dict[tuple[float, ...], dict[str, Row]] = {}
    missing = {}
    for row in experiment.rows:
        values = tuple(float(row.parameters[name]) for name in _NAMES)
        places.setdefault(values, {})[row.label] = row
        if not row_records(row, results):
            what = ", ".join(part for part in (row.name, row.label) if part)
            command = f"gelato reproduce {experiment.name} --datasets {dataset}"
            missing[f"{what} on {dataset}"] = command
    header = [*_NAMES, "the paper's"]
    for label in labels:
        length = f", {label} {REDUCED}" if label else ""
        header += [f"validation prec@100%{length}", f"AP{length}"]
    chosen = paper_preset(dataset)
    rows = []
    for values, by_label in sorted(places.items()):
        own = all(chosen[n] == v for n, v in zip(_NAMES, values, strict=True))
        cells = [*(f"{value:g}" for value in values), "selected" if own else ""]
        for label in labels:
            records = row_records(by_label[label], results) if label in by_label else []
            best = [record["training"]["best_value"] for record in records]
            cells += [_percent(best), _percent([r["metrics"]["ap"] for r in records])]
        rows.append(tuple(cells))
    return Table(tuple(header), tuple(rows), 4, title=dataset, missing=missing)


def _texts(row: Row, records: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return (
        f"{row.name}, {row.label}" if row.label else row.name,
        row.dataset,
        _percent([_selected(record, "sampled-mean") for record in records]),
        _percent([_selected(record, "ap") for record in records]),
        _percent([record["metrics"]["ap"] for record in records]),
        _percent([record["metrics"]["auc"] for record in records]),
        f"{row.published['ap']:.2f}" if "ap" in row.published else "-",
    )


def _selected(record: dict[str, Any], name: str) -> float | None:
    """Return a validation value of the selected epoch, or of the nearest one with it.

    Rankings of all pairs are recorded every so many epochs only.
    """
    training = record["training"]
    known = [entry for entry in training["history"] if name in entry]
    if not known:
        return None
    best = training["best_epoch"]
    near = min(known, key=lambda entry: (abs(entry["epoch"] - best), entry["epoch"]))
    return float(near[name])


def _percent(values: Sequence[float | None]) -> str:
    found = [value for value in values if value is not None]
    return f"{100 * statistics.fmean(found):.2f}" if found else "-"


def _against(ap: float, line: float | None, row: Row) -> str:
    if line is None or row.name == "AA":
        return ""
    return "below" if ap < line else "above"


def _time(experiment: Experiment, results: Path) -> list[Table]:
    paper = read_facts("time")["rows"]
    tables = []
    for dataset in experiment.datasets:
        record = find_times(results, dataset) or {"methods": {}}
        printed = paper if dataset == "photo" else {}
        rows = tuple(
            _time_row(row, record["methods"][row.method], printed, results)
            for row in experiment.rows
            if row.dataset == dataset and row.method in record["methods"]
        )
        lacking = [r.method for r in missing_times(experiment.on([dataset]), results)]
        missing = {}
        if lacking:
            what = f"times of {', '.join(lacking)} on {dataset}"
            missing[what] = f"gelato reproduce time --datasets {dataset}"
        header = (
            *("method", "epoch, biased", "epoch, unbiased"),
            *("training, biased", "paper", "training, unbiased", "paper"),
            *("inference", "paper"),
        )
        tables.append(Table(header, rows, title=f"{dataset}, seconds", missing=missing))
    return tables


def _time_row(
    row: Row, found: dict[str, Any], printed: dict[str, Any], results: Path
) -> tuple[str, ...]:
    # Columns of the paper: training as each method is trained, inference, unbiased.
    first, inference, unbiased = printed.get(row.method, ("", "", ""))
    gelato = row.method == "gelato"  # the paper trains it unbiased in both tables
    cells = [row.method]
    spans, epochs = [], []
    for kind in ("biased", "unbiased"):
        part = found["training"].get(kind)
        if part is None:
            epochs.append("-")
            spans.append("-")
            continue
        known = _recorded_epochs(row, kind, results)
        total = training_seconds(part, found["inference_seconds"], known)
        epochs.append(_seconds(part["steps"] * part["step_seconds"]))
        counted = part["epochs"] if known is None else known
        bound = "" if known is not None else "up to "
        spans.append(f"{_seconds(total)} ({bound}{counted} epochs)")
    cells += epochs
    cells += [spans[0], "" if gelato else _printed(first)]
    cells += [spans[1], _printed(unbiased)]
    ours = _seconds(found["inference_seconds"])
    ours = f"{ESTIMATED} {ours}" if found.get("inference_forecast") else ours
    return (*cells, ours, _printed(inference))


def _recorded_epochs(row: Row, kind: str, results: Path) -> int | None:
    """Return how many epochs a recorded training of the same kind took."""
    table = "ap-unbiased" if kind == "unbiased" else "ap"
    for other in read_experiment(table).rows:
        if (other.method, other.dataset) != (row.method, row.dataset) or other.label:
            continue
        if row.method == "gelato" and kind == "biased":
            return None
        for record in row_records(other, results):
            return len(record["training"]["history"])
    return None


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _printed(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def _visual(experiment: Experiment, results: Path) -> list[Table]:
    dataset = experiment.rows[0].dataset
    record = find_visual(results, dataset)
    rows = []
    if record is not None:
        true = {tuple(sorted(pair)) for pair in record["test_edges"]}
        for name, found in record["models"].items():
            pairs = [tuple(sorted(pair)) for pair in found["predicted"]]
            hits = sum(pair in true for pair in pairs)
            rows.append((name, str(len(pairs)), str(hits), str(len(true))))
    missing = {
        f"{row.name} on {dataset}": "gelato reproduce visual"
        for row in missing_panels(experiment, results)
    }
    header = ("method", "predicted pairs of these nodes", "test edges among them", "of")
    return [Table(header, tuple(rows), missing=missing)]


def _claims(experiment: Experiment, results: Path) -> list[Table]:
    rows, missing = [], {}
    for claim in claims(results):
        rows.append(
            (
                claim.name,
                claim.printed,
                _number(claim.published, claim.unit),
                _number(claim.ours, claim.unit),
                claim.note,
            )
        )
        if claim.ours is None:
            missing[claim.name] = claim.command
    header = ("claim", "paper says", "paper's tables", "ours", "note")
    return [Table(header, tuple(rows), 5, missing=missing), _orderings(results)]


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "missing"
    return f"{value:.1f} %" if unit == "%" else f"{value:,.1f} times"


def _orderings(results: Path) -> Table:
    found = orderings(results)
    rows = tuple((o.text, o.dataset, o.published, o.ours) for o in found)
    missing = {f"{o.text} on {o.dataset}": o.command for o in found if o.command}
    header = ("ordering of AP", "dataset", "paper's numbers", "ours")
    return Table(header, rows, 4, "Orderings, of full and exact runs", missing)


def _splits(experiment: Experiment, results: Path) -> list[Table]:
    """Return, by graph, means over splits beside the first method, on equal splits."""
    names = tuple(dict.fromkeys(row.name for row in experiment.rows))[:2]
    header = (
        *("method", "AP, %", "95 % interval", f"{names[0]} minus it", "95 % interval"),
        *(f"prec@{k}, %" for k in FIRST),
        "splits",
    )
    tables, beside = [], []
    for dataset in experiment.datasets:
        rows = [row for row in experiment.rows if row.dataset == dataset]
        found = {row.name: _by_split(row, results) for row in rows}
        first = found[rows[0].name]
        texts = [
            _split_row(row.name, found[row.name], first if row is not rows[0] else {})
            for row in rows
            if found[row.name]
        ]
        lacking = [row.name for row in rows if len(found[row.name]) < len(row.splits)]
        command = f"gelato reproduce {experiment.name} --datasets {dataset}"
        missing = {f"{', '.join(lacking)} on {dataset}": command} if lacking else {}
        tables.append(Table(header, tuple(texts), title=dataset, missing=missing))
        for k in FIRST:
            both = _paired(first, found.get(names[-1], {}), f"prec@{k}")
            if len(names) == 2 and len(both) > 1:
                beside.append((dataset, str(k), *_difference(both)))
    columns = ("graph", "first pairs", *names, "difference", "standard error", "")
    title = f"Precision among the first pairs beside {names[-1]}, mean over splits, %"
    return [*tables, Table(columns, tuple(beside), 1, title)]


def _by_split(row: Row, results: Path) -> dict[int, dict[str, Any]]:
    """Return the measures of a row's recorded runs, by split."""
    records = row_records(row, results)
    return {record["spec"]["split"]: record["metrics"] for record in records}


def _paired(
    one: dict[int, dict[str, Any]], other: dict[int, dict[str, Any]], metric: str
) -> list[tuple[float, float]]:
    shared = sorted(set(one) & set(other))
    return [(100 * one[split][metric], 100 * other[split][metric]) for split in shared]


def _split_row(
    name: str, found: dict[int, dict[str, Any]], first: dict[int, dict[str, Any]]
) -> tuple[str, ...]:
    ap = [100 * measured["ap"] for measured in found.values()]
    gains = [a - b for a, b in _paired(first, found, "ap")]
    means = (statistics.fmean(m[f"prec@{k}"] for m in found.values()) for k in FIRST)
    return (
        name,
        f"{statistics.fmean(ap):.2f}",
        _interval(ap),
        f"{statistics.fmean(gains):+.2f}" if gains else "",
        _interval(gains),
        *(f"{100 * mean:.1f}" for mean in means),
        str(len(found)),
    )


def _interval(values: Sequence[float]) -> str:
    """Return where the mean of a few values lies with 95 % confidence (Student's t)."""
    if len(values) < 2:
        return ""
    from scipy.stats import t

    error = statistics.stdev(values) / math.sqrt(len(values))
    reach = float(t.ppf(0.975, len(values) - 1)) * error
    middle = statistics.fmean(values)
    return f"{middle - reach:.2f} to {middle + reach:.2f}"


def _difference(both: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    gains = [a - b for a, b in both]
    gain = statistics.fmean(gains)
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    verdict = "BELOW" if gain < -2 * error else "not below"
    ours, theirs = (statistics.fmean(values) for values in zip(*both, strict=True))
    return (f"{ours:.1f}", f"{theirs:.1f}", f"{gain:+.1f}", f"{error:.1f}", verdict)


KINDS: dict[str, Callable[[Experiment, Path], list[Table]]] = {
    "statistics": _statistics,
    "example": _example,
    "parameters": _parameters,
    "selection": _selection,
    "protocols": _protocols,
    "settings": _settings,
    "grid": _grid,
    "splits": _splits,
    "orders": _orders,
    "time": _time,
    "visual": _visual,
    "claims": _claims,
}
