"""The paper as data: what to run for a table, and what the paper printed."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from gelato.errors import UnknownNameError
from gelato.experiments.runs import RunSpec
from gelato.models.presets import preset


@dataclass(frozen=True)
class Row:
    """One cell of a table of the paper: a method on a dataset."""

    method: str
    dataset: str
    parameters: dict[str, Any]
    seeds: tuple[int | None, ...]
    published: dict[str, float]
    label: str = ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the paper printed, in its order; AP where it has none."""
        named = tuple(name for name in self.published if not name.endswith("_sd"))
        return named or ("ap",)

    def runs(self, seeds: tuple[int, ...] | None = None) -> list[RunSpec]:
        """Return the runs of the cell, for given seeds or its own."""
        chosen = self.seeds if seeds is None or self.seeds == (None,) else seeds
        return [
            RunSpec(self.method, self.dataset, seed, self.parameters, self.label)
            for seed in chosen
        ]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    title: str
    notes: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets of the rows, in their order."""
        return tuple(dict.fromkeys(row.dataset for row in self.rows))

    def on(self, datasets: Collection[str]) -> Experiment:
        """Return the part of the experiment on given datasets."""
        rows = tuple(row for row in self.rows if row.dataset in datasets)
        return replace(self, rows=rows)


@cache
def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments."""
    folder = resources.files("gelato.experiments") / "specs"
    return tuple(
        sorted(
            entry.name.removesuffix(".toml")
            for entry in folder.iterdir()
            if entry.name.endswith(".toml")
        )
    )


def read_experiment(name: str) -> Experiment:
    """Return an experiment by name, or suggest near names."""
    require_known(name, experiment_names(), "experiment")
    file = resources.files("gelato.experiments") / "specs" / f"{name}.toml"
    content = tomllib.loads(file.read_text("utf-8"))
    rows = tuple(_row(content, entry) for entry in content["rows"])
    return Experiment(name, content["title"], tuple(content.get("notes", ())), rows)


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


def _row(content: dict[str, Any], entry: dict[str, Any]) -> Row:
    method: str = entry["method"] if "method" in entry else content["method"]
    parameters = preset(entry["dataset"]) if method == "gelato" else {}
    return Row(
        method=method,
        dataset=entry["dataset"],
        parameters=parameters | entry.get("parameters", {}),
        seeds=tuple(entry.get("seeds", (None,))),
        published=entry.get("published", {}),
        label=entry.get("label", ""),
    )
