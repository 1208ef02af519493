"""Results of experiments as the user sees them: ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato.cli.screen import Screen, make_table

if TYPE_CHECKING:
    from gelato.experiments.jobs import Place
    from gelato.experiments.paper import Experiment
    from gelato.experiments.sections import Table
    from gelato.experiments.tables import Cell

_STYLES = {"below": "bold red", "above": "bold green", "missing": "dim"}


def show_results(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: Place,
    seeds: tuple[int, ...] | None,
    drawn: dict[str, dict[str, list[Path]]],
) -> None:
    """Print the tables of experiments, their figures, and what is missing."""
    shown = [_Shown.of(one, place, seeds) for one in experiments]  # all, or an error
    documents: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    for order, part in enumerate(shown):
        one = part.experiment
        screen.show(*([""] if order else []), f"{one.title} ({one.name})", "")
        if one.kind == "runs":
            screen.show(cell_table(part.cells))
            _show_states(screen, part.cells)
        for table in part.tables:
            _show_table(screen, table)
        files = _show_figures(screen, drawn.get(one.name, {}))
        documents.append({**part.to_dict(), "figures": files})
        missing |= part.missing
    _show_missing(screen, missing)
    screen.give({"experiments": documents})


@dataclass(frozen=True)
class _Shown:
    """What is shown of an experiment."""

    experiment: Experiment
    cells: list[Cell]
    tables: list[Table]
    missing: dict[str, str]

    @classmethod
    def of(
        cls, experiment: Experiment, place: Place, seeds: tuple[int, ...] | None
    ) -> _Shown:
        from gelato.experiments.document import missing_commands
        from gelato.experiments.sections import section_tables
        from gelato.experiments.tables import cells

        if experiment.kind == "runs":
            found = cells(experiment, place.results, seeds=seeds)
            return cls(experiment, found, [], missing_commands(experiment, found))
        tables = section_tables(experiment, place.results)
        missing = {k: v for table in tables for k, v in (table.missing or {}).items()}
        return cls(experiment, [], tables, missing)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "notes": list(self.experiment.notes),
            "cells": [cell.to_dict() for cell in self.cells],
            "tables": [table.to_dict() for table in self.tables],
        }


def _show_table(screen: Screen, table: Table) -> None:
    if table.title:
        screen.show(table.title)
    if table.rows:
        screen.show(make_table(*table.header, rows=table.rows, text=table.text), "")


def _show_figures(screen: Screen, drawn: dict[str, list[Path]]) -> dict[str, list[str]]:
    for name, files in drawn.items():
        named = ", ".join(str(file) for file in files)
        screen.show(f"figure {name}: {named or 'missing, nothing is recorded for it'}")
    return {name: [str(file) for file in files] for name, files in drawn.items()}


def cell_table(found: Sequence[Cell]) -> Any:
    """Return ours beside the paper's; what lies outside the tolerance stands out."""
    from rich.text import Text

    from gelato.experiments.document import paper_text, seed_text
    from gelato.experiments.states import number_text

    columns = ("method", "dataset", "%", "ours", "paper", "diff.", "verdict")
    table = make_table(*columns, "seeds", text=3)
    table.columns[6].justify = "left"
    for cell in found:
        difference = "" if cell.difference is None else f"{cell.difference:+.2f}"
        within = cell.verdict == "within" and cell.tolerance is not None
        verdict = f"within {cell.tolerance:.2f}" if within else cell.verdict
        if cell.verdict in ("below", "above"):
            verdict = f"{cell.verdict.upper()} {cell.tolerance:.2f}"
        table.add_row(
            f"{cell.method}, {cell.label}" if cell.label else cell.method,
            cell.dataset,
            {"ap": "AP", "auc": "AUC"}.get(cell.metric, cell.metric),
            number_text(cell),
            paper_text(cell),
            difference,
            Text(verdict, style=_STYLES.get(cell.verdict, "")),
            seed_text(cell.seeds),
        )
    return table


def _show_states(screen: Screen, found: Sequence[Cell]) -> None:
    """Say why cells are estimated, reduced, or will stay empty."""
    from gelato.experiments.states import state_lines

    lines = state_lines(found)
    if lines:
        screen.show("", *lines)


def _show_missing(screen: Screen, missing: dict[str, str]) -> None:
    from gelato.experiments.document import by_command

    if missing:
        screen.show("", "Missing, and what runs it")
    for command, what in by_command(missing).items():
        screen.show(f"  {command}", *(f"    {part}" for part in what))


def list_experiments(
    screen: Screen,
    experiments: Sequence[Experiment],
    place: Place,
    seeds: tuple[int, ...] | None,
) -> None:
    """Print the experiments, and how much of each is recorded."""
    from gelato.experiments.jobs import count_parts, missing_jobs

    rows = []
    for one in experiments:
        every = count_parts([one], seeds)
        rows.append((one, every, every - len(missing_jobs([one], place, seeds))))
    screen.show(
        make_table(
            "experiment",
            "what it is",
            "graphs",
            "recorded",
            rows=[
                (
                    one.name,
                    one.title,
                    ", ".join(one.datasets),
                    f"{have} of {every}" if every else "computed",
                )
                for one, every, have in rows
            ],
            text=3,
        )
    )
    screen.give(
        {
            "experiments": [
                {
                    "name": one.name,
                    "title": one.title,
                    "datasets": list(one.datasets),
                    "runs": every,
                    "recorded": have,
                }
                for one, every, have in rows
            ]
        }
    )
