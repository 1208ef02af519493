"""The user's node ids: kept as they are, matched between tables, numbered once.

Ids are ``int``, ``text`` or ``mixed`` (anything else that is hashable). Text files say
nothing about types: their ids are text without surrounding white space, and integers
where every single one is written like an integer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError
from gelato.graph import FloatArray, as_id_array
from gelato.io.columns import read_times, read_weights
from gelato.io.tables import Column, Table
from gelato.text import plural

if TYPE_CHECKING:
    import polars as pl


_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"
_REMEDY = "Every row needs an id: fill it in or remove the row."


@dataclass(frozen=True)
class Ids:
    """One column of ids: a polars series (``int``, ``text``) or a list (``mixed``)."""

    kind: str
    values: Any
    from_text: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def to_list(self) -> list[Hashable]:
        """Return the ids as Python values."""
        return list(self.values)


def read_ids(table: Table, column: str) -> tuple[Ids, list[str]]:
    """Return the ids of a column with notes, or raise where one is missing."""
    series = table.frame[column]
    if table.is_text:
        stripped = series.str.strip_chars()
        _refuse_empty(table, column, stripped)
        changed = int((stripped != series).sum())
        notes = (
            [
                f"{table.name}: removed white space around {plural(changed, 'id')} in "
                f"column {column!r}"
            ]
            if changed
            else []
        )
        return Ids("text", stripped, from_text=True), notes
    return _typed_ids(table, column, series)


def _typed_ids(table: Table, column: str, series: pl.Series) -> tuple[Ids, list[str]]:
    import polars as pl

    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        _refuse_empty(table, column, series)
        padded = int((series.str.strip_chars() != series).sum())
        note = f"{table.name}: white space kept around {plural(padded, 'id')} in column"
        return Ids("text", series), [f"{note} {column!r}"] if padded else []
    if series.dtype.is_float():
        _refuse_empty(table, column, series.fill_nan(None))
        return _float_ids(table, column, series)
    if series.dtype.is_integer():
        _refuse_empty(table, column, series)
        whole = series.cast(pl.Int64, strict=False)
        if whole.null_count() == 0:
            return Ids("int", whole), []
    return _object_ids(table, column, series.to_list()), []


def _float_ids(table: Table, column: str, series: pl.Series) -> tuple[Ids, list[str]]:
    import polars as pl

    exact = (series == series.floor()) & (series.abs() <= 2.0**53)
    if not exact.all():
        return _object_ids(table, column, series.to_list()), []
    note = f"{table.name}: ids in column {column!r} are whole floats, read as integers"
    return Ids("int", series.cast(pl.Int64)), [note] if len(series) else []


def _object_ids(table: Table, column: str, values: list[Any]) -> Ids:
    for row, value in enumerate(values):
        if _is_missing(value):
            raise InputError(
                f"{table.place(row)}: no id in column {column!r}.", hint=_REMEDY
            )
        try:
            hash(value)
        except TypeError:
            raise InputError(
                f"{table.place(row)}: {type(value).__name__} in column {column!r} "
                "cannot be an id.",
                hint="Ids must be numbers, text or other hashable values.",
            ) from None
    return Ids("mixed", values)


def _is_missing(value: Any) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    try:
        return bool(value != value)  # NaN differs from itself
    except (TypeError, ValueError):
        return type(value).__name__ in ("NAType", "NaTType")


def _refuse_empty(table: Table, column: str, series: pl.Series) -> None:
    import polars as pl

    empty = series.is_null()
    if series.dtype == pl.String:
        empty = empty | (series.str.strip_chars() == "").fill_null(True)
    if empty.any():
        row = int(empty.arg_max() or 0)
        raise InputError(
            f"{table.place(row)}: no id in column {column!r}.", hint=_REMEDY
        )


def decide_integers(columns: Sequence[Ids]) -> list[Ids]:
    """Turn ids from text files into integers if every one is written like one."""
    import polars as pl

    as_numbers: list[Ids] = []
    for ids in columns:
        if not ids.from_text:
            as_numbers.append(ids)
            continue
        numbers = ids.values.cast(pl.Int64, strict=False)
        if numbers.null_count() or not ids.values.str.contains(_INTEGER).all():
            return list(columns)
        as_numbers.append(Ids("int", numbers, from_text=True))
    return as_numbers


def combine_ends(source: Ids, target: Ids, name: str) -> tuple[Ids, Ids, list[str]]:
    """Bring the two ends of the edges to one kind of id."""
    if source.kind == target.kind or not len(source):
        return source, target, []
    common = {_key(v) for v in source.values} & {_key(v) for v in target.values}
    if common:
        note = f"{name}: ids of the two ends differ in type, both read as text"
        return _as_text(source), _as_text(target), [note]
    note = f"{name}: the two ends have ids of different types"
    mixed = Ids("mixed", source.to_list()), Ids("mixed", target.to_list())
    return *mixed, [note]


def _as_text(ids: Ids) -> Ids:
    import polars as pl

    return Ids("text", pl.Series([_key(v) for v in ids.values], dtype=pl.String))


def _key(value: Any) -> str:
    """Return the text by which ids of different types are matched."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def distinct_ends(source: Ids, target: Ids) -> Ids:
    """Return every id that is the end of an edge once."""
    if source.kind == "mixed" or target.kind != source.kind:
        values: Any = list(dict.fromkeys([*source.values, *target.values]))
        return Ids("mixed", values, source.from_text)
    import polars as pl

    both = pl.concat([source.values.alias("id"), target.values.alias("id")])
    return Ids(source.kind, both.unique(maintain_order=True), source.from_text)


def match_ids(known: Ids, other: Ids, table: Table) -> tuple[Ids, list[str]]:
    """Bring ids of the attribute table to the type of the ids of the edges.

    Ids that are equal stay; ids that are equal as text (1 and "1", "a " and "a") are
    converted and told. Ids that cannot be of the edges' type raise.
    """
    if not len(known) or not len(other):
        return other, []
    exact = set(known.to_list())
    if known.kind == other.kind and (known.from_text and other.from_text):
        converted, changed = other, 0
    else:
        converted, changed = _converted(known, other, exact, table)
    if exact.isdisjoint(converted.to_list()):
        raise InputError(
            f"{table.name}: none of its {len(other):,} ids is the end of an edge; the "
            f"first is {other.values[0]!r}, the edges name {known.values[0]!r}.",
            hint="Choose the id column with id=, or check that the files belong "
            "together.",
        )
    note = f"{table.name}: matched {plural(changed, 'id')} across type or white space"
    return converted, [note] if changed else []


def _converted(
    known: Ids, other: Ids, exact: set[Hashable], table: Table
) -> tuple[Ids, int]:
    same_kind = known.kind == other.kind
    by_text = {_key(value): value for value in known.values}
    taken = exact.intersection(other.to_list()) if same_kind else set()
    values: list[Hashable] = []
    changed = 0
    for row, value in enumerate(other.values):
        found = by_text.get(_key(value), value)
        if (same_kind and value in exact) or (found is not value and found in taken):
            found = value
        if found is value and not same_kind:
            found = _cast(value, known.kind, table, row, known.values[0])
        changed += found != value or type(found) is not type(value)
        values.append(found)
    return _rebuilt(known.kind, values), changed


def _cast(value: Any, kind: str, table: Table, row: int, example: Any) -> Hashable:
    text = _key(value)
    if kind == "text":
        return text
    if kind == "mixed":
        return value  # type: ignore[no-any-return]
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or str(number) != text or abs(number) >= 2**63:
        raise InputError(
            f"{table.place(row)}: the id {value!r} is not an integer, but the ids of "
            f"the edges are, for example {example!r}.",
            hint="Use ids of one type in both tables.",
        )
    return number


def _rebuilt(kind: str, values: list[Hashable]) -> Ids:
    import polars as pl

    if kind == "mixed":
        return Ids("mixed", values)
    return Ids(kind, pl.Series(values, dtype=pl.Int64 if kind == "int" else pl.String))


def number_ids(
    columns: Sequence[Ids],
) -> tuple[list[npt.NDArray[np.int64]], npt.NDArray[Any] | None]:
    """Give every distinct id a node index, in the order of the sorted ids.

    Returns
    -------
    codes : list of int64 arrays
        For every column, the node index of each of its ids.
    ids : array or None
        The id of every node; ``None`` if these are just ``0..n-1``.
    """
    bounds = np.cumsum([len(ids) for ids in columns])[:-1]
    filled = [ids for ids in columns if len(ids)]
    if {ids.kind for ids in filled} in ({"int"}, {"text"}):
        codes, distinct = _number_sorted(filled)
    else:
        codes, distinct = _number_objects([v for ids in columns for v in ids.values])
    if distinct.dtype == np.int64 and np.array_equal(
        distinct, np.arange(len(distinct))
    ):
        return np.split(codes, bounds), None
    return np.split(codes, bounds), distinct


def _number_sorted(
    columns: Sequence[Ids],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    import polars as pl

    joined = pl.concat([ids.values.alias("id") for ids in columns])
    distinct = joined.unique().sort()
    if distinct.dtype == pl.Int64:
        numbers = distinct.to_numpy()
        codes = np.searchsorted(numbers, joined.to_numpy()).astype(np.int64)
        return codes, numbers
    # Codes of an Enum are positions in its list of values: one hash per id.
    coded = joined.cast(pl.Enum(distinct)).to_physical()
    return coded.to_numpy().astype(np.int64), as_id_array(distinct.to_list())


def _number_objects(
    values: list[Hashable],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    distinct: list[Any] = list(dict.fromkeys(values))
    # Ids that have no common order stay in the order of appearance.
    with contextlib.suppress(TypeError):
        distinct = sorted(distinct)
    position = {value: i for i, value in enumerate(distinct)}
    codes = np.array([position[value] for value in values], dtype=np.int64)
    return codes, as_id_array(distinct)


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
