"""Numbers from columns: weights, times and numeric attributes.

A cell that is not a number raises with its place; nothing is skipped silently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gelato.errors import InputError
from gelato.graph import FloatArray
from gelato.io.tables import Table

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
