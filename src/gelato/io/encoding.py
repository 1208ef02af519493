"""Columns of an attribute table, each as a few sparse attributes.

One function per kind of column; which kind a column is, ``kinds`` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import InputError
from gelato.io.numbers import MISSING, to_float, to_numbers
from gelato.io.tables import Table
from gelato.io.wording import counted

if TYPE_CHECKING:
    import polars as pl


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
    note = f"column {series.name!r}: {counted(count, 'missing number')} read as 0"
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
    note = f"column {series.name!r}: {counted(missing, 'missing vector')} read as 0"
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
