"""The paper as data: what to run for a table, and what the paper printed."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import product
from typing import Any

from gelato.errors import UnknownNameError
from gelato.models.registry import preset
from gelato.paper.runner import RunSpec


@dataclass(frozen=True)
class Row:
    """One cell of a table of the paper: a method on a dataset.

    Parameters
    ----------
    method, dataset : str
        Registered names.
    parameters : dict
        Of the method, without the seed.
    seeds : tuple
        Seeds to record; ``(None,)`` where nothing is random, empty where only the
        paper's number is known here.
    published : dict
        By metric the paper's mean, and under ``"ap_sd"`` its deviation, in percent.
    label : str
        Why the runs differ from the paper's setting; else empty.
    title : str
        What the paper calls the row, where the method's name does not say it.
    mark : str
        The paper's mark: ``*`` one run only, ``***`` too slow, ``OOM``; else empty.
    group : str
        The paper's group of methods, such as ``"GNN"``; else empty.
    estimate : float, optional
        The rate, where rankings are estimates; None where they are exact.
    missing : str
        Why nothing is run, where there are no seeds; else empty.
    splits : tuple
        Seeds of splits to record; ``(None,)`` is the paper's split.
    protocols : tuple of str
        What runs are evaluated by beside all pairs and a balanced sample.
    """

    method: str
    dataset: str
    parameters: dict[str, Any]
    seeds: tuple[int | None, ...]
    published: dict[str, float]
    label: str = ""
    title: str = ""
    mark: str = ""
    group: str = ""
    estimate: float | None = None
    missing: str = ""
    splits: tuple[int | None, ...] = (None,)
    protocols: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the paper printed, in its order; AP where it has none."""
        named = tuple(name for name in self.published if not name.endswith("_sd"))
        return named or ("ap",)

    @property
    def name(self) -> str:
        """What to call the row."""
        return self.title or self.method

    def runs(self, seeds: tuple[int, ...] | None = None) -> list[RunSpec]:
        """Return the runs of the cell, for given seeds or its own."""
        fixed = self.seeds in ((), (None,))
        chosen = self.seeds if seeds is None or fixed else seeds
        named = (self.parameters, self.label, self.estimate)
        return [
            RunSpec(self.method, self.dataset, seed, *named, split, self.protocols)
            for split in self.splits
            for seed in chosen
        ]


@dataclass(frozen=True)
class Remark:
    """A discussion of a difference, true as long as the verdict is what it was.

    Parameters
    ----------
    methods, datasets : tuple of str
        The cells that it speaks of: every combination of these.
    verdict : str
        The verdict of all of them when the text was written.
    text : str
        What is known about the difference.
    metric : str, optional
        Only this metric; default the experiment's.
    evidence : tuple of str
        What recorded numbers must say for the text to be true: see
        :func:`gelato.paper.cells.judge`.
    """

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    verdict: str
    text: str
    metric: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A sentence about an experiment that recorded numbers must support.

    Parameters
    ----------
    text : str
        The sentence.
    evidence : tuple of str
        See :func:`gelato.paper.cells.judge`; at least one.
    open : bool
        Whether it is only a question so far: shown as such, whatever is recorded.
    """

    text: str
    evidence: tuple[str, ...]
    open: bool = False


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Parameters
    ----------
    name, title : str
        For commands and for people.
    notes : tuple of str
        Choices and known deviations.
    rows : tuple of Row
        What is run; empty where the kind says what is done.
    kind : str
        ``"runs"``: a table of recorded runs. Others are named in
        :mod:`gelato.paper.sections`.
    figures : tuple of str
        Names of :mod:`gelato.paper.plots`.
    remarks : tuple of Remark
        Discussions of differences.
    paper : str
        Which table or figure of the paper it is.
    findings : tuple of Finding
        What the numbers say.
    """

    name: str
    title: str
    notes: tuple[str, ...]
    rows: tuple[Row, ...]
    kind: str = "runs"
    figures: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    paper: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets of the rows, in their order."""
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    def on(self, datasets: Collection[str]) -> Experiment:
        """Return the part of the experiment on given datasets."""
        rows = tuple(row for row in self.rows if row.dataset in datasets)
        return replace(self, rows=rows)

    def of(self, methods: Collection[str]) -> Experiment:
        """Return the part of the experiment with given methods or rows' names."""
        rows = (row for row in self.rows if {row.method, row.name} & set(methods))
        return replace(self, rows=tuple(rows))


@cache
def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments, in the order of the paper."""
    folder = resources.files("gelato.paper") / "specs"
    names = (
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )
    return tuple(sorted(names, key=lambda name: (_content(name)["place"], name)))


def read_experiment(name: str) -> Experiment:
    """Return an experiment by name, or suggest near names."""
    require_known(name, experiment_names(), "experiment")
    content = _content(name)
    return Experiment(
        name,
        content["title"],
        tuple(content.get("notes", ())),
        _rows(content),
        content.get("kind", "runs"),
        tuple(content.get("figures", ())),
        tuple(_remark(entry) for entry in content.get("remarks", ())),
        content["paper"],
        tuple(_finding(entry) for entry in content.get("findings", ())),
    )


def _rows(content: dict[str, Any]) -> tuple[Row, ...]:
    rows = _method_rows(content) if "methods" in content else []
    rows += [_row(content, entry) for entry in content.get("rows", ())]
    rows += [row for entry in content.get("grids", ()) for row in _grid(entry)]
    rows += [_row(content, entry) for entry in _every(content)]
    if "like" in content and "methods" not in content:
        rows += _taken(content)
    # A combination may belong to two grids: it is one row.
    unique: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        unique.setdefault((row.name, row.dataset, row.label), row)
    return tuple(unique.values())


def _taken(content: dict[str, Any]) -> list[Row]:
    """Return rows of another experiment: all, or those on a dataset and named."""
    rows = read_experiment(content["like"]).rows
    only = content.get("only")
    if only is None:
        return list(rows)
    place = {title: order for order, title in enumerate(only["titles"])}
    chosen = (r for r in rows if r.dataset == only["dataset"] and r.name in place)
    return sorted(chosen, key=lambda row: place[row.name])


def _every(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of datasets and methods that are combined, each with each."""
    named = content.get("every", {})
    own, without = named.get("parameters", {}), named.get("without", {})
    entries = [
        {"method": method, "dataset": dataset, "parameters": own.get(method, {})}
        for dataset, method in product(
            named.get("datasets", ()), named.get("methods", ())
        )
        if method not in without.get(dataset, ())
    ]
    # Entries of their own that are the same on several graphs.
    return entries + [
        {**entry, "dataset": dataset}
        for entry in content.get("alike", ())
        for dataset in entry["datasets"]
    ]


def _remark(entry: dict[str, Any]) -> Remark:
    return Remark(
        tuple(entry["methods"]),
        tuple(entry["datasets"]),
        entry["verdict"],
        entry["text"],
        entry.get("metric"),
        tuple(entry.get("evidence", ())),
    )


def _finding(entry: dict[str, Any]) -> Finding:
    return Finding(entry["text"], tuple(entry["evidence"]), entry.get("open", False))


@cache
def _content(name: str) -> dict[str, Any]:
    file = resources.files("gelato.paper") / "specs" / f"{name}.toml"
    return tomllib.loads(file.read_text("utf-8"))


def require_known(name: str, known: Collection[str], what: str) -> None:
    """Refuse an unknown name, and suggest a near one."""
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise UnknownNameError(
        f"There is no {what} called {name!r}.{meant}",
        hint=f"Known: {', '.join(known)}.",
    )


def parse_cell(text: str, metric: str) -> tuple[dict[str, float], str]:
    """Return what a printed cell holds: numbers by name, and the paper's mark.

    Examples
    --------
    >>> parse_cell("0.27 ± 0.02", "ap")
    ({'ap': 0.27, 'ap_sd': 0.02}, '')
    >>> parse_cell("6.84*", "ap"), parse_cell("OOM", "ap")
    (({'ap': 6.84}, '*'), ({}, 'OOM'))
    """
    if text in ("***", "OOM"):
        return {}, text
    mean, _, deviation = text.removesuffix("*").partition("±")
    numbers = {metric: float(mean)}
    if deviation:
        numbers[f"{metric}_sd"] = float(deviation)
    return numbers, "*" if text.endswith("*") else ""


def _method_rows(content: dict[str, Any]) -> list[Row]:
    """Return the rows of a table: one per method and dataset, in the paper's order."""
    table = _content(content["like"]) if "like" in content else content
    known = {entry["title"]: entry for entry in table["methods"]}
    rows = []
    for entry in content["methods"]:
        runs = known[entry["title"]]
        for dataset, text in zip(table["datasets"], entry["published"], strict=True):
            published, mark = parse_cell(text, content["metric"])
            given = runs.get("runs", {}).get(dataset, {})
            method = runs["method"]
            own = runs.get("parameters", {}) | given.get("parameters", {})
            rows.append(
                Row(
                    method=method,
                    dataset=dataset,
                    parameters=preset(dataset, method) | own,
                    seeds=(None,)
                    if runs.get("deterministic")
                    else tuple(given.get("seeds", ())),
                    published=published,
                    label=given.get("label", ""),
                    title=entry["title"],
                    mark=mark,
                    group=runs.get("group", ""),
                    estimate=given.get("estimate"),
                    missing=given.get("missing", ""),
                )
            )
    return rows


def _grid(entry: dict[str, Any]) -> list[Row]:
    """Return one row per combination of the values of a grid."""
    method, dataset, vary = entry["method"], entry["dataset"], entry["vary"]
    fixed = preset(dataset, method) | entry.get("parameters", {})
    rows = []
    for values in product(*vary.values()):
        parameters = fixed | dict(zip(vary, values, strict=True))
        rows.append(
            Row(
                method=method,
                dataset=dataset,
                parameters=parameters,
                seeds=tuple(entry["seeds"]),
                published={},
                label=entry.get("label", ""),
                title=gelato_title(method, parameters),
            )
        )
    return rows


def gelato_title(method: str, parameters: dict[str, Any]) -> str:
    """Return the name of a combination of eta, alpha and beta."""
    named = (f"{name} {parameters[name]:g}" for name in ("eta", "alpha", "beta"))
    return f"{method} ({', '.join(named)})"


def _row(content: dict[str, Any], entry: dict[str, Any]) -> Row:
    method: str = entry["method"] if "method" in entry else content["method"]
    dataset = entry["dataset"]
    return Row(
        method=method,
        dataset=dataset,
        parameters=preset(dataset, method) | entry.get("parameters", {}),
        seeds=tuple(entry.get("seeds", (None,))),
        published=entry.get("published", {}),
        label=entry.get("label", ""),
        title=entry.get("title", ""),
        group=entry.get("group", ""),
        estimate=entry.get("estimate"),
        splits=tuple(entry.get("splits", (None,))),
        protocols=tuple(content.get("protocols", ())),
    )


def read_facts(name: str) -> dict[str, Any]:
    """Return a table of the paper that needs no run.

    Parameters
    ----------
    name : {"datasets", "hyperparameters", "orderings", "references", "time"}
        Which one; ``columns``, if given, names the numbers of every entry of
        ``rows``.
    """
    folder = resources.files("gelato.paper") / "specs" / "facts"
    names = [entry.name.removesuffix(".toml") for entry in folder.iterdir()]
    require_known(name, sorted(names), "table of facts")
    return tomllib.loads((folder / f"{name}.toml").read_text("utf-8"))
