"""Discussions of differences: data in the specs, tied to the cells they speak of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gelato.experiments.paper import Experiment, Remark
from gelato.experiments.tables import Cell

NOT_DISCUSSED = "not discussed yet"


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
