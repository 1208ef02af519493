"""Numbers from columns: weights, times and numeric attributes.

A cell that is not a number raises with its place; nothing is skipped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError, UsageError
from gelato.graph import FloatArray
from gelato.io.report import ColumnChoice
from gelato.io.tables import Table
from gelato.text import plural

if TYPE_CHECKING:
    import polars as pl


# Spellings of "no value" among numbers in text files.
MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")


def read_weights(table: Table, column: str) -> FloatArray:
    """Return edge weights: finite and not negative, or raise with the place."""
    values = _required_numbers(table, column, "weight")
    if np.any(values < 0):
        row = int(np.argmax(values < 0))
        raise InputError(
            f"{table.place(row)}: the weight {values[row]:g} is negative.",
            hint="Weights must be positive: shift or drop negative ones.",
        )
    return values


def read_times(table: Table, column: str) -> tuple[FloatArray, list[str]]:
    """Return times as numbers; dates become seconds since 1970."""
    series = table.frame[column]
    dates = _as_dates(series)
    if dates is None:
        return _required_numbers(table, column, "time"), []
    if dates.null_count():
        row = int(dates.is_null().arg_max() or 0)
        raise InputError(
            f"{table.place(row)}: {series[row]!r} in column {column!r} is not a date.",
            hint="Write every time as a number, or every time as YYYY-MM-DD.",
        )
    seconds = dates.dt.epoch("us").to_numpy() / 1e6
    note = f"{table.name}: dates in column {column!r} read as seconds since 1970"
    return np.asarray(seconds, dtype=np.float64), [note]


def _as_dates(series: pl.Series) -> pl.Series | None:
    """Return a datetime series, or None if the column does not look like dates."""
    import polars as pl

    if series.dtype in (pl.Date, pl.Datetime):
        return series.cast(pl.Datetime("us"))
    if series.dtype != pl.String:
        return None
    text = series.str.strip_chars()
    if not text.head(100).drop_nulls().str.contains(r"^\d{4}-\d{2}-\d{2}").any():
        return None
    day = text.str.to_datetime("%Y-%m-%d", time_unit="us", strict=False)
    clean = text.str.replace("T", " ", literal=True).str.strip_suffix("Z")
    moment = clean.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    return day.fill_null(moment)


def _required_numbers(table: Table, column: str, role: str) -> FloatArray:
    series = table.frame[column]
    numbers = to_numbers(series)
    values = numbers.to_numpy().astype(np.float64)
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        seen = series[row]
        found = "is missing" if seen is None else f"{seen!r} is not a finite number"
        raise InputError(
            f"{table.place(row)}: the {role} in column {column!r} {found}.",
            hint="Fill it in or remove the row.",
        )
    return values


def to_numbers(series: pl.Series) -> pl.Series:
    """Return a Float64 series; what is not a number becomes null."""
    import polars as pl

    if series.dtype == pl.Object:
        listed = [to_float(value) for value in series.to_list()]
        return pl.Series(series.name, listed, dtype=pl.Float64).fill_nan(None)
    if series.dtype == pl.String:
        series = series.str.strip_chars()
    elif not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        return pl.Series(series.name, [None] * len(series), dtype=pl.Float64)
    return series.cast(pl.Float64, strict=False)


def to_float(value: object) -> float:
    """Return a number, NaN for what is none."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


@dataclass(frozen=True)
class Encoded:
    """The attributes of one column: an (rows, width) CSR matrix and their names."""

    matrix: sp.csr_array
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def encode_numeric(table: Table, series: pl.Series) -> Encoded:
    """Keep numbers; true and false are 1 and 0; missing ones become 0, with a note."""
    plain = to_numbers(series)
    if plain.null_count() == 0:  # nothing is missing and nothing else is there
        with np.errstate(over="ignore"):
            whole = plain.to_numpy().astype(np.float32)
        if np.isfinite(whole).all():
            return Encoded(sp.csr_array(whole[:, None]), (series.name,))
    numbers = to_numbers(_booleans(series))
    missing = missing_numbers(series)
    values = numbers.fill_null(np.nan).to_numpy().astype(np.float64)
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    wrong = ~np.isfinite(narrow) & ~missing
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{table.place(row)}: {series[row]!r} in column {series.name!r} is not a "
            "finite number (of single precision).",
            hint="Mend the cell, or choose another encoding for the column.",
        )
    narrow[missing] = 0
    count = int(missing.sum())
    note = f"column {series.name!r}: {plural(count, 'missing number')} read as 0"
    matrix = sp.csr_array(narrow[:, None])
    return Encoded(matrix, (series.name,), (note,) if count else ())


def missing_numbers(series: pl.Series) -> Any:
    """Return which cells of a column of numbers hold no value."""
    import polars as pl

    empty = series.is_null()
    if series.dtype == pl.String:
        text = series.str.strip_chars().str.to_lowercase()
        empty = empty | text.is_in(list(MISSING)).fill_null(True)
    elif series.dtype == pl.Object:
        listed = [v is None or v != v for v in series.to_list()]
        empty = pl.Series(listed, dtype=pl.Boolean)
    elif series.dtype.is_float():
        empty = empty | series.is_nan().fill_null(True)
    return empty.to_numpy()


def _booleans(series: pl.Series) -> pl.Series:
    import polars as pl

    if series.dtype != pl.String:
        return series
    text = series.str.strip_chars().str.to_lowercase()
    if not text.is_in(["true", "false"]).any():
        return series
    return (
        pl.select(
            pl.when(text == "true")
            .then(pl.lit("1"))
            .when(text == "false")
            .then(pl.lit("0"))
            .otherwise(series)
        )
        .to_series()
        .alias(series.name)
    )


def encode_category(table: Table, series: pl.Series) -> Encoded:
    """Give every value an attribute of its own; a missing value has none."""
    cells = ([] if cell is None else [cell] for cell in as_text(series))
    return _multi_hot(cells, series)


def encode_list(table: Table, series: pl.Series) -> Encoded:
    """Give every item an attribute of its own; a node may have several."""
    return _multi_hot(split_cells(series), series)


def encode_text(table: Table, series: pl.Series) -> Encoded:
    """Give every word an attribute of its own (a binary bag of words)."""
    from sklearn.feature_extraction.text import CountVectorizer

    texts = [cell or "" for cell in as_text(series)]
    try:
        vectorizer = CountVectorizer(binary=True, dtype=np.float32)
        matrix = vectorizer.fit_transform(texts)
    except ValueError:  # no word in any cell
        note = f"column {series.name!r}: no words found, so it gives no attributes"
        return Encoded(sp.csr_array((len(series), 0), dtype=np.float32), (), (note,))
    words = vectorizer.get_feature_names_out()
    names = tuple(f"{series.name}:{word}" for word in words)
    return Encoded(sp.csr_array(matrix), names)


def encode_vector(table: Table, series: pl.Series) -> Encoded:
    """Keep lists of numbers of one length as that many attributes."""
    rows = series.to_list()
    width = max((len(row) for row in rows if row is not None), default=0)
    values = np.zeros((len(rows), width), dtype=np.float32)
    missing = 0
    for place, row in enumerate(rows):
        if row is None:
            missing += 1
            continue
        with np.errstate(over="ignore"):
            filled = np.array([to_float(item) for item in row]).astype(np.float32)
        if len(filled) != width or not np.all(np.isfinite(filled)):
            raise InputError(
                f"{table.place(place)}: column {series.name!r} needs {width} finite "
                "numbers here.",
                hint="Give every node a vector of the same length.",
            )
        values[place] = filled
    names = tuple(f"{series.name}[{k}]" for k in range(width))
    note = f"column {series.name!r}: {plural(missing, 'missing vector')} read as 0"
    matrix = sp.csr_array(values)
    return Encoded(matrix, names, (note,) if missing else ())


def as_text(series: pl.Series) -> list[str | None]:
    """Return stripped text, empty cells as None."""
    listed = series.to_list()
    texts = (None if v is None or v != v else str(v).strip() for v in listed)
    return [text or None for text in texts]


def split_cells(series: pl.Series) -> list[list[str]]:
    """Return the items of every cell: of a list, or of text split at ';' or '|'."""
    listed = series.to_list()
    split: list[list[str]] = []
    for cell in listed:
        if cell is None:
            split.append([])
        elif isinstance(cell, str):
            split.append(cell.replace("|", ";").split(";"))
        elif isinstance(cell, Iterable):
            split.append([str(item) for item in cell if item is not None])
        else:
            split.append([str(cell)])
    return [[item.strip() for item in cell if item.strip()] for cell in split]


def _multi_hot(cells: Iterable[Sequence[str]], series: pl.Series) -> Encoded:
    distinct = [list(dict.fromkeys(cell)) for cell in cells]
    vocabulary = sorted({item for cell in distinct for item in cell})
    position = {item: k for k, item in enumerate(vocabulary)}
    indices = np.array([position[item] for cell in distinct for item in cell], np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(cell) for cell in distinct])])
    data = np.ones(len(indices), dtype=np.float32)
    shape = (len(distinct), len(vocabulary))
    matrix = sp.csr_array((data, indices, indptr.astype(np.int64)), shape=shape)
    matrix.sort_indices()
    return Encoded(matrix, tuple(f"{series.name}={item}" for item in vocabulary))


KINDS = ("numeric", "category", "text", "list", "drop")
# Columns with at most this many values are categories even if no value repeats.
_FEW = 20
_BOOLEANS = frozenset({"true", "false"})
_ENCODERS: Mapping[str, Callable[[Table, pl.Series], Encoded]] = {
    "numeric": encode_numeric,
    "vector": encode_vector,
    "category": encode_category,
    "text": encode_text,
    "list": encode_list,
}


def encode_column(
    table: Table, name: str, wanted: str | None
) -> tuple[Encoded | None, ColumnChoice]:
    """Return the attributes of a column (None if dropped) and the choice made."""
    series = table.frame[name]
    if wanted is not None and wanted not in KINDS:
        raise UsageError(
            f"Column {name!r} cannot be encoded as {wanted!r}.",
            hint=f"Choose one of: {', '.join(KINDS)}.",
        )
    kind, reason = (wanted, "as asked") if wanted else _find_kind(series)
    if kind == "drop":
        return None, ColumnChoice(name, "drop", 0, reason)
    if kind == "numeric" and _holds_lists(series):
        kind = "vector"
    if kind == "numeric" and not reason:
        _refuse_few_words(table, series)
    encoded = _ENCODERS[kind](table, series)
    if encoded.matrix.shape[1] and _is_constant(encoded):
        reason += "; constant, so it tells no nodes apart"
    shown = "numeric" if kind == "vector" else kind
    return encoded, ColumnChoice(name, shown, len(encoded.names), reason)


def _is_constant(encoded: Encoded) -> bool:
    matrix = encoded.matrix
    if matrix.shape[0] < 2 or matrix.shape[1] > 1:
        return False
    column = matrix.toarray()  # one attribute: a single column
    return bool((column == column[0]).all())


def _holds_lists(series: pl.Series) -> bool:
    import polars as pl

    return isinstance(series.dtype, pl.List | pl.Array)


def _find_kind(series: pl.Series) -> tuple[str, str]:
    import polars as pl

    dtype = series.dtype
    if series.null_count() == len(series):
        return "drop", "all values missing"
    if isinstance(dtype, pl.List | pl.Array):
        inner = dtype.inner
        if inner.is_float():
            return "numeric", "vectors of numbers"
        return "list", "lists"
    if dtype == pl.Boolean:
        return "numeric", "true and false as 1 and 0"
    if dtype.is_numeric():
        return "numeric", "numbers"
    if dtype in (pl.Categorical, pl.Enum):
        return "category", "categories"
    if dtype == pl.Object and _all_collections(series):
        return "list", "lists"
    if dtype in (pl.String, pl.Object):
        return _find_text_kind(series)
    return "drop", f"{dtype} is neither number nor text; convert it to keep it"


def _all_collections(series: pl.Series) -> bool:
    values = (value for value in series.to_list() if value is not None)
    return all(isinstance(value, list | tuple | set | frozenset) for value in values)


def _find_text_kind(series: pl.Series) -> tuple[str, str]:
    parsed = to_numbers(series)
    if parsed.null_count() == 0 and parsed.is_finite().all():  # in most tables
        return "numeric", "numbers"
    missing = missing_numbers(series)
    filled = int((~missing).sum())
    if filled == 0:
        return "drop", "all values missing"
    if _is_boolean(series):
        return "numeric", "true and false as 1 and 0"
    numbers = int((parsed.is_not_null().to_numpy() & ~missing).sum())
    if numbers == filled:
        return "numeric", "numbers"
    if filled >= 10 and numbers >= 0.9 * filled:
        return "numeric", ""  # nearly all: _refuse_few_words names the odd cell
    return _find_word_kind(series, [cell for cell in as_text(series) if cell])


def _is_boolean(series: pl.Series) -> bool:
    """Tell whether every cell that is not empty says true or false."""
    import polars as pl

    if series.dtype != pl.String:
        return {(cell or "true").lower() for cell in as_text(series)} <= _BOOLEANS
    text = series.str.strip_chars().str.to_lowercase()
    return bool(text.is_in(["", *_BOOLEANS]).fill_null(True).all())


def _find_word_kind(series: pl.Series, cells: list[str]) -> tuple[str, str]:
    distinct = len(set(cells))
    several = sum(len(items) > 1 for items in split_cells(series))
    if 2 * several >= len(cells):
        return "list", "most cells hold several items"
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    if words >= 3 and 2 * distinct > len(cells):
        return "text", f"{words:.0f} words per cell, few cells equal"
    if distinct <= _FEW or 2 * distinct <= len(cells):
        return "category", plural(distinct, "different value")
    return "drop", (
        f"{distinct:,} different values in {len(cells):,} rows look like names; "
        "encode it as 'category' or 'text' to keep it"
    )


def _refuse_few_words(table: Table, series: pl.Series) -> None:
    """Raise where a column of numbers has a few other cells, naming the first."""
    wrong = to_numbers(series).is_null().to_numpy() & ~missing_numbers(series)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{table.place(row)}: {series[row]!r} in column {series.name!r}, where "
            "nearly all cells are numbers.",
            hint="Mend the cell, or encode the column as 'category' or 'drop'.",
        )
