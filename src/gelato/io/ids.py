"""The rows of an edge table: node ids, numbered once, with weights and times.

Ids are ``int``, ``text`` or ``mixed`` (anything else that is hashable); text has no
surrounding white space. Text files say nothing about types: their ids are integers
where every single one is written like an integer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gelato.errors import InputError
from gelato.graph import LONGEST_FIXED_ID, FloatArray, as_id_array
from gelato.io.tables import (
    Column,
    Table,
    number_notes,
    required_numbers,
    to_dates,
    to_numbers,
)
from gelato.text import plural

if TYPE_CHECKING:
    import polars as pl


_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"
_NO_NAMES = ["na", "n/a", "#n/a", "nan", "null", "none", "?", "-", "missing"]


@dataclass(frozen=True)
class Ids:
    """One column of ids: a polars series (``int``, ``text``) or a list (``mixed``).

    Text that repeats itself is kept once: ``codes`` then says for every row which of
    the ``values`` is its id.
    """

    kind: str
    values: Any
    from_text: bool = False
    codes: npt.NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.values if self.codes is None else self.codes)

    @property
    def rows(self) -> Any:
        """The id of every row."""
        return self.values if self.codes is None else self.values.gather(self.codes)

    def to_list(self) -> list[Hashable]:
        """Return the ids as Python values."""
        return list(self.rows)


def drop_rows_without_id(
    table: Table, columns: Sequence[str], missing: str
) -> tuple[Table, list[str]]:
    """Return a table whose rows all have ids in some columns, and what was dropped."""
    lacking = np.zeros(table.frame.height, dtype=bool)
    for column in columns:
        lacking |= _lacks_id(table.frame[column])
    count = int(lacking.sum())
    if not count:
        return table, []
    first = int(np.argmax(lacking))
    if missing == "error":
        column = next(c for c in columns if _lacks_id(table.frame[c])[first])
        raise InputError(
            f"{table.place(first)}: no id in column {column!r}.",
            hint="Fill it in or remove the row; such rows are dropped with "
            "missing_ids='drop' (--missing-ids drop).",
        )
    place = table.place(first).removeprefix(f"{table.name}, ")
    rows = plural(count, "row")
    note = f"{table.name}: dropped {rows} without an id, the first at {place}"
    return table.kept(~lacking), [note]


def _lacks_id(series: pl.Series) -> npt.NDArray[np.bool_]:
    import polars as pl

    if series.dtype == pl.Object:
        return np.array([_is_missing(value) for value in series.to_list()], dtype=bool)
    empty = series.is_null()
    if series.dtype in (pl.Categorical, pl.Enum):
        distinct = series.unique().drop_nulls()
        blank = distinct.filter(distinct.cast(pl.String).str.strip_chars() == "")
        empty = empty | series.is_in(blank).fill_null(True)
    elif series.dtype == pl.String:
        empty = empty | (series.str.strip_chars() == "").fill_null(True)
    elif series.dtype.is_float():
        empty = empty | series.is_nan().fill_null(True)
    return empty.to_numpy().astype(bool)


def read_ids(table: Table, column: str) -> tuple[Ids, list[str]]:
    """Return the ids of a column, none of which is missing, with notes."""
    import polars as pl

    series = table.frame[column]
    if series.dtype in (pl.Categorical, pl.Enum):
        return _text_ids(table, column, *_coded(series))
    if series.dtype == pl.String:
        return _text_ids(table, column, series)
    if series.dtype.is_float():
        return _float_ids(table, column, series)
    if series.dtype.is_integer():
        whole = series.cast(pl.Int64, strict=False)
        if whole.null_count() == 0:
            return Ids("int", whole), []
    return _object_ids(table, column, series.to_list()), []


def _coded(series: pl.Series) -> tuple[pl.Series, npt.NDArray[np.uint32]]:
    """Return the distinct texts of categories, and which of them each row has."""
    import polars as pl

    distinct = series.unique()
    numbers = distinct.to_physical().to_numpy()
    place = np.zeros(int(numbers.max(initial=0)) + 1, dtype=np.uint32)
    place[numbers] = np.arange(len(numbers))
    return distinct.cast(pl.String), place[series.to_physical().to_numpy()]


def _text_ids(
    table: Table,
    column: str,
    texts: pl.Series,
    codes: npt.NDArray[np.uint32] | None = None,
) -> tuple[Ids, list[str]]:
    stripped = texts.str.strip_chars()
    notes = []
    changed = _rows_of(stripped != texts, codes)
    if len(changed):
        notes.append(
            f"{table.name}: removed white space around {plural(len(changed), 'id')} in "
            f"column {column!r}"
        )
    odd = _rows_of(stripped.str.to_lowercase().is_in(_NO_NAMES), codes)
    if len(odd):
        first = stripped[int(odd[0] if codes is None else codes[odd[0]])]
        notes.append(
            f"{table.name}: {plural(len(odd), 'id')} in column {column!r} read "
            f"{first!r}, which became a node; empty the cells if it means no id"
        )
    values = stripped if len(changed) else texts  # one of them is let go
    return Ids("text", values, from_text=table.is_text, codes=codes), notes


def _rows_of(
    chosen: pl.Series, codes: npt.NDArray[np.uint32] | None
) -> npt.NDArray[np.int64]:
    """Return the rows whose text is among the chosen ones."""
    mask = chosen.to_numpy()
    if codes is not None and mask.any():
        mask = mask[codes]
    return np.flatnonzero(mask)


def _float_ids(table: Table, column: str, series: pl.Series) -> tuple[Ids, list[str]]:
    import polars as pl

    exact = (series == series.floor()) & (series.abs() <= 2.0**53)
    if not exact.all():
        return _object_ids(table, column, series.to_list()), []
    note = f"{table.name}: ids in column {column!r} are whole floats, read as integers"
    return Ids("int", series.cast(pl.Int64)), [note] if len(series) else []


def _object_ids(table: Table, column: str, values: list[Any]) -> Ids:
    for row, value in enumerate(values):
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


def decide_integers(columns: Sequence[Ids]) -> list[Ids]:
    """Turn ids from text files into integers if every one is written like one."""
    whole = [_as_integers(ids) if ids.from_text else ids for ids in columns]
    found = [ids for ids in whole if ids is not None]
    return found if len(found) == len(columns) else list(columns)


def _as_integers(ids: Ids) -> Ids | None:
    """Return ids as integers, or None if one of them is not written like one."""
    import polars as pl

    if ids.kind == "int":
        return ids
    numbers = ids.values.cast(pl.Int64, strict=False)
    if numbers.null_count() or not ids.values.str.contains(_INTEGER).all():
        return None
    return replace(ids, kind="int", values=numbers)


def combine_ends(source: Ids, target: Ids, name: str) -> tuple[Ids, Ids, list[str]]:
    """Bring the two ends of the edges to one kind of id."""
    if source.kind == target.kind or not len(source):
        return source, target, []
    if {source.kind, target.kind} == {"int", "text"}:
        whole = [_as_integers(ends) for ends in (source, target)]
        if whole[0] is not None and whole[1] is not None:
            note = f"{name}: ids of the two ends differ in type, both read as integers"
            return whole[0], whole[1], [note]
    common = {_key(v) for v in source.values} & {_key(v) for v in target.values}
    if common:
        note = f"{name}: ids of the two ends differ in type, both read as text"
        return _as_text(source), _as_text(target), [note]
    note = f"{name}: the two ends have ids of different types"
    mixed = Ids("mixed", source.to_list()), Ids("mixed", target.to_list())
    return *mixed, [note]


def _as_text(ids: Ids) -> Ids:
    import polars as pl

    texts = pl.Series([_key(v) for v in ids.values], dtype=pl.String)
    return Ids("text", texts, codes=ids.codes)


def _key(value: Any) -> str:
    """Return the text by which ids of different types are matched."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def distinct_ends(source: Ids, target: Ids) -> Ids:
    """Return every id that is the end of an edge once."""
    if source.kind == "mixed" or target.kind != source.kind:
        values: Any = list(dict.fromkeys([*source.rows, *target.rows]))
        return Ids("mixed", values, source.from_text)
    import polars as pl

    both = pl.concat([source.rows.alias("id"), target.rows.alias("id")])
    return Ids(source.kind, both.unique(maintain_order=True), source.from_text)


def match_ids(known: Ids, other: Ids, table: Table) -> tuple[Ids, list[str]]:
    """Bring ids of the attribute table to the type of the ids of the edges.

    Ids that are equal stay; ids that are equal as text (1 and "1", "a " and "a") are
    converted and told. Ids that cannot be of the edges' type raise.
    """
    if not len(known) or not len(other):
        return other, []
    other = replace(other, values=other.rows, codes=None)
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
) -> tuple[list[npt.NDArray[np.int32]], npt.NDArray[Any] | None]:
    """Give every distinct id a node index, in the order of the sorted ids.

    Returns
    -------
    codes : list of int32 arrays
        For every column, the node index of each of its ids.
    ids : array or None
        The id of every node; ``None`` if these are just ``0..n-1``.
    """
    kinds = {ids.kind for ids in columns if len(ids)}
    if kinds == {"int"}:
        codes, distinct = _number_integers([ids.values for ids in columns])
    elif kinds == {"text"}:
        codes, distinct = _number_texts([ids.values for ids in columns])
    else:
        codes, distinct = _number_objects([ids.to_list() for ids in columns])
        columns = [replace(ids, codes=None) for ids in columns]
    codes = [
        part if ids.codes is None else part[ids.codes]
        for ids, part in zip(columns, codes, strict=True)
    ]
    if distinct.dtype == np.int64 and np.array_equal(
        distinct, np.arange(len(distinct))
    ):
        return codes, None
    return codes, distinct


# Ids that are looked at together: what is computed of them stays small.
_BLOCK = 1 << 22


def _blocks(series: pl.Series) -> Iterator[Any]:
    return (series.slice(at, _BLOCK) for at in range(0, len(series), _BLOCK))


def _number_integers(
    columns: Sequence[Any],
) -> tuple[list[npt.NDArray[np.int32]], npt.NDArray[Any]]:
    """Give integers numbers: by a table where they are dense, else by a search."""
    filled = [column for column in columns if len(column)]
    low, high = min(c.min() for c in filled), max(c.max() for c in filled)
    if high - low < 4 * sum(map(len, filled)):
        seen = np.zeros(high - low + 1, dtype=bool)
        for column in filled:
            for block in _blocks(column):
                seen[block.to_numpy() - low] = True
        numbers = np.flatnonzero(seen) + low
        place = np.cumsum(seen, dtype=np.int32) - np.int32(1)
        return [_looked_up(c, lambda ids: place[ids - low]) for c in columns], numbers
    import polars as pl

    parts = [block.unique() for column in filled for block in _blocks(column)]
    numbers = pl.concat([part.alias("id") for part in parts]).unique().sort().to_numpy()
    del parts
    return [
        _looked_up(c, lambda ids: np.searchsorted(numbers, ids)) for c in columns
    ], numbers


def _looked_up(
    column: Any, number: Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]]
) -> npt.NDArray[np.int32]:
    codes = np.empty(len(column), dtype=np.int32)
    if len(column):
        for at, block in enumerate(_blocks(column)):
            codes[at * _BLOCK : (at + 1) * _BLOCK] = number(block.to_numpy())
    return codes


def _number_texts(
    columns: Sequence[Any],
) -> tuple[list[npt.NDArray[np.int32]], npt.NDArray[Any]]:
    import polars as pl

    filled = [column.alias("id") for column in columns if len(column)]
    distinct = pl.concat(filled).unique().sort()
    # Codes of an Enum are positions in its list of values: one hash per id.
    places = pl.Enum(distinct)
    codes = [
        pl.Series(column, dtype=pl.String)
        .cast(places)
        .to_physical()
        .to_numpy()
        .astype(np.int32)
        for column in columns
    ]
    del filled, places  # a second table of all ids
    return codes, _text_array(distinct)


def _text_array(texts: pl.Series) -> npt.NDArray[Any]:
    """Return :func:`as_id_array` of texts, without all of them as Python objects."""
    width: Any = texts.str.len_chars().max() or 0
    if width > LONGEST_FIXED_ID or texts.str.ends_with("\0").any():
        return as_id_array(texts.to_list())
    array = np.empty(len(texts), dtype=f"<U{max(width, 1)}")
    for at, block in enumerate(_blocks(texts)):
        array[at * _BLOCK : (at + 1) * _BLOCK] = block.to_list()
    return array


def _number_objects(
    columns: Sequence[list[Hashable]],
) -> tuple[list[npt.NDArray[np.int32]], npt.NDArray[Any]]:
    distinct: list[Any] = list(dict.fromkeys(v for values in columns for v in values))
    # Ids that have no common order stay in the order of appearance.
    with contextlib.suppress(TypeError):
        distinct = sorted(distinct)
    position = {value: i for i, value in enumerate(distinct)}
    codes = [
        np.array([position[value] for value in values], dtype=np.int32)
        for values in columns
    ]
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
    without_id: int = 0
    times_are_dates: bool = False


def read_edge_rows(
    table: Table, wanted: Sequence[Column | None], missing_ids: str
) -> EdgeRows:
    """Pick and check the columns of an edge table whose header is decided.

    ``wanted`` are the columns of source, target, weight and time, where given.
    """
    columns = edge_columns(table, wanted)
    first, second = columns["source"], columns["target"]
    rows = table.frame.height
    table, notes = drop_rows_without_id(table, (first, second), missing_ids)
    source_ids, told = read_ids(table, first)
    target_ids, more = read_ids(table, second)
    notes += [*told, *more]
    weights = times = None
    if "weight" in columns:
        weights, told = _read_weights(table, columns["weight"])
        notes += told
    if "time" in columns:
        times, told = _read_times(table, columns["time"])
        notes += told
    unused = [name for name in table.frame.columns if name not in columns.values()]
    if unused[:1] == table.frame.columns[:1] and counts_rows(table):
        notes.append(f"{table.name}: column 1 counts the rows and is not used")
        unused = unused[1:]
    if unused:
        listed = ", ".join(unused[:10])
        notes.append(f"{table.name}: columns not used: {listed}")
    without = rows - table.frame.height
    dated = times is not None and to_dates(table.frame[columns["time"]]) is not None
    ends = (source_ids, target_ids)
    return EdgeRows(*ends, weights, times, columns, notes, without, dated)


def edge_columns(table: Table, wanted: Sequence[Column | None]) -> dict[str, str]:
    """Return role to column, for the roles that there are."""
    source, target, weight, time = wanted
    first, second = end_columns(table, source, target)
    columns = {"source": first, "target": second}
    for role, given in (("weight", weight), ("time", time)):
        chosen = _optional(table, given, role, columns)
        if chosen is not None:
            columns[role] = chosen
    return columns


def _read_weights(table: Table, column: str) -> tuple[FloatArray, list[str]]:
    """Return edge weights: finite and not negative, or raise with the place."""
    values = required_numbers(table, column, "weight")
    if np.any(values < 0):
        row = int(np.argmax(values < 0))
        raise InputError(
            f"{table.place(row)}: the weight {values[row]:g} is negative.",
            hint="Weights must be positive: shift or drop negative ones.",
        )
    return values, _told_numbers(table, column)


def _read_times(table: Table, column: str) -> tuple[FloatArray, list[str]]:
    """Return times as numbers; dates become seconds since 1970."""
    series = table.frame[column]
    dates = to_dates(series)
    if dates is None:
        return required_numbers(table, column, "time"), _told_numbers(table, column)
    moments, form = dates
    if moments.null_count():
        row = int(moments.is_null().arg_max() or 0)
        raise InputError(
            f"{table.place(row)}: {series[row]!r} in column {column!r} is not a date "
            f"written as {form.partition(' or ')[0]}, as others are.",
            hint="Write every time as a number, or every time as YYYY-MM-DD or "
            "YYYY-MM-DD HH:MM:SS.",
        )
    if " or " in form:
        raise InputError(
            f"{table.place(0)}: {series[0]!r} in column {column!r} may be day/month or "
            "month/day, and no date tells which.",
            hint="Write the dates as YYYY-MM-DD.",
        )
    seconds = moments.dt.epoch("us").to_numpy() / 1e6
    written = "" if form == "%Y-%m-%d" else f" written as {form}"
    note = f"dates in column {column!r}{written} read as seconds since 1970"
    return np.asarray(seconds, dtype=np.float64), [f"{table.name}: {note}"]


def _told_numbers(table: Table, column: str) -> list[str]:
    series = table.frame[column]
    numbers = to_numbers(series, decimal_comma=table.decimal_comma)
    return [f"{table.name}, {note}" for note in number_notes(series, numbers)]


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
    if len(free) > 2 and counts_rows(table):
        free.remove(names[0])
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


def counts_rows(table: Table) -> bool:
    """Tell whether the first column is the unnamed row number that pandas writes."""
    import polars as pl

    first = table.frame.to_series(0)
    if not table.has_header or first.name != "column_1":
        return False
    numbers = first.cast(pl.Int64, strict=False)
    return numbers.null_count() == 0 and bool((numbers.diff().drop_nulls() == 1).all())


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
