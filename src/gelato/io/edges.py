"""The edge table: which columns hold the ends, the weight and the time."""

from __future__ import annotations

from dataclasses import dataclass, field

from gelato.errors import InputError
from gelato.graph import FloatArray
from gelato.io.ids import Ids, read_ids
from gelato.io.numbers import read_times, read_weights
from gelato.io.tables import Column, Table


@dataclass(frozen=True)
class EdgeRows:
    """The columns of an edge table that are used, one entry per row."""

    source: Ids
    target: Ids
    weights: FloatArray | None
    times: FloatArray | None
    columns: dict[str, str]
    notes: list[str] = field(default_factory=list)


def read_edge_rows(
    table: Table,
    source: Column | None,
    target: Column | None,
    weight: Column | None,
    time: Column | None,
) -> EdgeRows:
    """Pick and check the columns of an edge table whose header is decided."""
    first, second = end_columns(table, source, target)
    columns = {"source": first, "target": second}
    for role, wanted in (("weight", weight), ("time", time)):
        chosen = _optional(table, wanted, role, columns)
        if chosen is not None:
            columns[role] = chosen
    source_ids, notes = read_ids(table, first)
    target_ids, more = read_ids(table, second)
    notes += more
    weights = read_weights(table, columns["weight"]) if "weight" in columns else None
    times = None
    if "time" in columns:
        times, told = read_times(table, columns["time"])
        notes += told
    unused = [name for name in table.frame.columns if name not in columns.values()]
    if unused:
        listed = ", ".join(unused[:10])
        notes.append(f"{table.name}: columns not used: {listed}")
    return EdgeRows(source_ids, target_ids, weights, times, columns, notes)


def end_columns(
    table: Table, source: Column | None, target: Column | None
) -> tuple[str, str]:
    """Return the columns of the two ends.

    Default: columns called source and target where both exist, else the first two
    that are not spoken for.
    """
    names = table.frame.columns
    if len(names) < 2:
        raise InputError(
            f"{table.name} has one column only, but an edge has two ends.",
            hint="Name the character between the cells with delimiter=, for example "
            "' ' or ';'.",
        )
    first = None if source is None else table.column(source, "source")
    second = None if target is None else table.column(target, "target")
    if first is None and second is None and {"source", "target"} <= set(names):
        first, second = "source", "target"
    free = [name for name in names if name not in (first, second)]
    if first is None:
        first = free.pop(0)
    if second is None:
        second = free.pop(0)
    if first == second:
        raise InputError(
            f"{table.name}: column {first!r} cannot be both source and target.",
            hint="Name two columns.",
        )
    return first, second


def _optional(
    table: Table, wanted: Column | None, role: str, taken: dict[str, str]
) -> str | None:
    if wanted is not None:
        chosen = table.column(wanted, role)
        if chosen in taken.values():
            raise InputError(
                f"{table.name}: column {chosen!r} is used twice.",
                hint=f"Name another column for the {role}.",
            )
        return chosen
    free = [name for name in table.frame.columns if name not in taken.values()]
    return role if table.has_header and role in free else None
