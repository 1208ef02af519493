"""Which kind of attribute a column is, and why; the user's word comes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gelato.errors import InputError, UsageError
from gelato.io.encoding import (
    Encoded,
    as_text,
    encode_category,
    encode_list,
    encode_numeric,
    encode_text,
    encode_vector,
    missing_numbers,
    split_cells,
)
from gelato.io.numbers import to_numbers
from gelato.io.report import ColumnChoice
from gelato.io.tables import Table
from gelato.io.wording import counted

if TYPE_CHECKING:
    import polars as pl

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
        return "category", counted(distinct, "different value")
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
