"""Orderings that the paper states: held, broken, or not recorded yet."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from gelato.experiments.claims import Scores, table_scores
from gelato.experiments.paper import read_experiment, read_facts


@dataclass(frozen=True)
class Ordering:
    """An ordering on one graph.

    Parameters
    ----------
    text, dataset : str
        What is said, and of which graph.
    published, ours : str
        Whether the paper's numbers and ours hold it: "holds" or "broken: ...", and
        what is missing.
    command : str
        What runs what is missing; empty if nothing is.
    """

    text: str
    dataset: str
    published: str
    ours: str
    command: str


def orderings(results: Path) -> list[Ordering]:
    """Return every ordering of the paper with what its numbers and ours say."""
    tables: dict[tuple[str, bool], Scores] = {}
    found = []
    for entry in read_facts("orderings")["rows"]:
        for dataset in entry["datasets"]:
            paper = _verdict(_values(entry, dataset, None, tables))
            ours = _verdict(_values(entry, dataset, results, tables))
            command = ""
            if "missing" in ours and _runs(entry, dataset, ours):
                command = f"gelato reproduce {entry['table']} --datasets {dataset}"
            found.append(Ordering(entry["text"], dataset, paper, ours, command))
    return found


def _runs(entry: dict[str, Any], dataset: str, ours: str) -> bool:
    """Tell whether something that is missing would be run by the table's command."""
    return any(
        row.seeds and row.dataset == dataset and row.name in ours
        for row in read_experiment(entry["table"]).rows
    )


def _values(
    entry: dict[str, Any],
    dataset: str,
    results: Path | None,
    tables: dict[tuple[str, bool], Scores],
) -> list[dict[str, float | None]]:
    """Return AP by method, group by group."""
    groups = []
    for group in entry["groups"]:
        values: dict[str, float | None] = {}
        for name in group:
            table, _, method = name.rpartition(":")
            key = (table or entry["table"], results is not None)
            if key not in tables:
                tables[key] = table_scores(key[0], results)
            values[method] = tables[key].get(method, {}).get(dataset)
        groups.append(values)
    return groups


def _verdict(groups: list[dict[str, float | None]]) -> str:
    broken = [
        f"{one} {a:.2f}, {two} {b:.2f}"
        for above, below in pairwise(groups)
        for one, a in above.items()
        for two, b in below.items()
        if a is not None and b is not None and a <= b
    ]
    missing = [name for part in groups for name, value in part.items() if value is None]
    known = [[v for v in part.values() if v is not None] for part in groups]
    parts = [f"broken: {'; '.join(broken)}"] if broken else []
    if not broken and all(known):
        parts.append("holds")
    if missing:
        parts.append(f"missing: {', '.join(missing)}")
    return "; ".join(parts)
