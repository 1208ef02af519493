"""Any table a user may hand over, as one polars frame that can name its rows.

Files, polars and pandas frames, dictionaries of columns, arrays and sequences of rows
all become a :class:`Table`, whose cells are read as numbers or dates where asked. What
the columns mean is decided elsewhere.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gelato.errors import InputError
from gelato.graph import FloatArray
from gelato.io.delimited import decode, gunzip, parse_delimited, read_bytes
from gelato.text import builtin

if TYPE_CHECKING:
    import polars as pl


Column = str | int
_log = logging.getLogger(__name__)
Needed = Callable[["Table"], tuple[Collection[str], Collection[str]]]
_UNNAMED = re.compile(r"column_\d+")


@dataclass(frozen=True)
class Table:
    """A table with the origin of its rows.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows; all columns are text if they come from delimited text.
    name : str
        The file, or a phrase such as "the edge table".
    is_text : bool
        Whether cells were read as text and types have still to be found.
    has_header : bool, optional
        Whether columns have names given by the user; ``None``: not decided yet.
    lines : sequence of int, optional
        The line of each row, where the table is a text file.
    decimal_comma : bool
        Whether "1,234" is more likely a decimal number than a thousand, as in files
        whose cells are separated by semicolons.
    notes : tuple of str
        What was assumed while reading.
    """

    frame: pl.DataFrame
    name: str
    is_text: bool = False
    has_header: bool | None = None
    lines: Sequence[int] | None = None
    decimal_comma: bool = False
    notes: tuple[str, ...] = ()

    def place(self, row: int) -> str:
        """Return where a row (from 0) stands, for the start of a message."""
        if self.lines is None:
            return f"{self.name}, row {row + 1}"
        return f"{self.name}, line {self.lines[row]}"

    def column(self, wanted: Column, role: str) -> str:
        """Return the name of a column given by name or by position from 0."""
        names = self.frame.columns
        wanted = builtin(wanted)
        if isinstance(wanted, str) and wanted in names:
            return wanted
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            if 0 <= wanted < len(names):
                return names[wanted]
            raise InputError(
                f"{self.name} has no column at position {wanted} for {role}.",
                hint=f"It has {len(names)} columns, counted from 0: {_listed(names)}.",
            )
        near = difflib.get_close_matches(str(wanted), names, n=1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{self.name} has no column {wanted!r} for {role}.",
            hint=f"{meant}The columns are: {_listed(names)}.",
        )

    def kept(self, rows: Any) -> Table:
        """Return the table with some of its rows, given as a mask."""
        places = np.flatnonzero(rows)
        lines = range(1, self.frame.height + 1) if self.lines is None else self.lines
        lines = [lines[place] for place in places.tolist()]
        numbered = None if self.lines is None else lines
        return replace(self, frame=self.frame[places], lines=numbered)

    def with_header(
        self,
        header: bool | None,
        wanted: Sequence[Any],
        evidence: Callable[[pl.DataFrame], tuple[bool, str]],
    ) -> Table:
        """Return the table with its header decided, and a note that tells how.

        ``wanted`` are the columns that somebody asked for: a name among them that is
        in the first row, or that no table without header has, decides.
        """
        if self.has_header is not None:
            return self
        if header is not None:
            return self.headed(header)
        cells = [(cell or "").strip() for cell in self.frame.row(0)]
        named = [name for name in wanted if isinstance(name, str)]
        asked = [name for name in named if name in cells or not _UNNAMED.match(name)]
        found, reason = evidence(self.frame)
        if asked:
            found, reason = True, f"a column {asked[0]!r} was asked for"
        headed = self.headed(found)
        names = ", ".join(headed.frame.columns[:6])
        fate = f"column names ({names})" if found else "data, not as column names"
        note = f"{self.place(0)}: read as {fate}, because {reason}"
        _log.info(note)
        return replace(headed, notes=(*headed.notes, note))

    def headed(self, has_header: bool) -> Table:
        """Return the table with the first row taken as column names, or not."""
        if not has_header:
            return replace(self, has_header=False)
        names = _header_names(self)
        lines = None if self.lines is None else self.lines[1:]
        frame = self.frame[1:].rename(dict(zip(self.frame.columns, names, strict=True)))
        return replace(self, frame=frame, lines=lines, has_header=True)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _header_names(table: Table) -> list[str]:
    cells = [("" if cell is None else cell.strip()) for cell in table.frame.row(0)]
    names = [cell or f"column_{k}" for k, cell in enumerate(cells, start=1)]
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(
                f"{table.place(0)}: two columns are called {name!r}.",
                hint="Give every column a name of its own.",
            )
        seen.add(name)
    return names


def read_table(
    source: Any,
    what: str,
    delimiter: str | None = None,
    needed: Needed | None = None,
) -> Table:
    """Return a table from a file, frame, dictionary, array or sequence of rows.

    Parameters
    ----------
    source
        A path; a polars or pandas frame (or another that narwhals knows); a mapping
        of columns; a two-dimensional array; a sequence of rows of equal length.
    what : str
        What the table is called if it has no file name, e.g. "the edge table".
    delimiter : str, optional
        For text files; ``None`` goes by the suffix and the content.
    needed : callable, optional
        Takes a Parquet file's table without its rows, and returns the columns that
        are read and those among them whose text repeats itself: each text is then
        kept once (a categorical). The other columns are null.
    """
    if isinstance(source, str | os.PathLike):
        table = _read_file(Path(source), delimiter, needed)
    else:
        table = _reader(source, what)(source, what)
    if table.frame.width == 0:
        raise InputError(f"{table.name} has no columns.", hint="Give one or more.")
    return table


def is_frame(source: Any) -> bool:
    """Tell whether something is a frame, eager or lazy, of a library that we read.

    Frames of a dozen libraries have no common class but their columns.
    """
    return hasattr(type(source), "columns")  # the type: a lazy frame warns


def _reader(source: Any, what: str) -> Callable[[Any, str], Table]:
    if isinstance(source, Mapping):
        return _from_mapping
    if isinstance(source, np.ndarray):
        return _from_array
    if is_frame(source):
        return _from_frame
    if isinstance(source, Iterable):
        return _from_rows
    raise InputError(
        f"{what} cannot be read from {type(source).__name__}.",
        hint="Give a path, a polars or pandas frame, an array, a list of rows such as "
        "('a', 'b') or, for edges, a graph of gelato, networkx, PyG or scipy.",
    )


def _read_file(path: Path, delimiter: str | None, needed: Needed | None) -> Table:
    if _is_parquet(path):
        frame = _guarded(lambda: _scan(path, needed), path)
        return Table(frame, str(path), has_header=True)
    data = read_bytes(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] or data[:2] == b"\x1f\x8b":
        data, suffixes = gunzip(data, path), [s for s in suffixes if s != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in (".parquet", ".pq") or data[:4] == b"PAR1":
        return Table(read_parquet(data, path), str(path), has_header=True)
    text, notes = decode(data, path)
    parsed = parse_delimited(text, str(path), suffix, delimiter)
    return Table(
        parsed.frame,
        str(path),
        is_text=True,
        lines=parsed.lines,
        decimal_comma=parsed.delimiter == ";",
        notes=(*notes, *parsed.notes),
    )


def _is_parquet(path: Path) -> bool:
    """Tell whether a file is Parquet at both ends: such a file is never held whole."""
    try:
        if not path.is_file():  # a pipe has no end to look at
            return False
        with path.open("rb") as file:
            start = file.read(4)
            file.seek(-4, os.SEEK_END)
            return start == file.read(4) == b"PAR1"
    except (OSError, ValueError):
        return False  # whoever reads it will say why


def reading_bytes(path: Path) -> int:
    """Return the memory that reading a table takes, about, and rather too little.

    Parquet is counted by its rows, which are kept as numbers; of text, the file, its
    characters and its cells are there at once.
    """
    import polars as pl

    if not _is_parquet(path):
        return 3 * path.stat().st_size
    try:
        rows = pl.scan_parquet(path.resolve(), glob=False).select(pl.len()).collect()
    except (Exception, pl.exceptions.PanicException):
        return 0  # damaged: whoever reads it will say so
    return 40 * int(rows.item())


def _scan(path: Path, needed: Needed | None) -> pl.DataFrame:
    """Read a Parquet file in pieces, and only what is needed of it."""
    import polars as pl

    rows = pl.scan_parquet(path.resolve(), glob=False, hive_partitioning=False)
    schema = rows.collect_schema()
    if needed is None:
        return rows.collect()
    read, repeating = needed(Table(pl.DataFrame(schema=schema), str(path), False, True))
    columns = [
        pl.lit(None).alias(name)
        if name not in read
        else pl.col(name).cast(pl.Categorical)
        if name in repeating and schema[name] == pl.String
        else pl.col(name)
        for name in schema
    ]
    return rows.select(columns).collect(engine="streaming")


def read_parquet(data: bytes, path: Path) -> pl.DataFrame:
    """Return a frame from Parquet bytes, or say that they are damaged."""
    import io

    import polars as pl

    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise InputError(
            f"{path} is not a complete Parquet file.",
            hint="Copy it again, or give csv files the suffix .csv.",
        )
    return _guarded(lambda: pl.read_parquet(io.BytesIO(data)), path)


def _guarded(read: Callable[[], pl.DataFrame], path: Path) -> pl.DataFrame:
    import polars as pl

    try:
        return read()
    except InputError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # a foreign parser
        raise InputError(
            f"{path} is a damaged Parquet file: {_first_line(error)}.",
            hint="Copy or export it again.",
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _from_mapping(source: Mapping[Any, Any], what: str) -> Table:
    return _from_columns([(str(k), v) for k, v in source.items()], what, named=True)


def _from_frame(source: Any, what: str) -> Table:
    import narwhals as nw
    import polars as pl

    try:
        frame = nw.from_native(source)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
        native = frame.to_native()
        if isinstance(native, pl.DataFrame):
            return Table(native, what, has_header=True)
        columns = [(str(name), _frame_column(frame[name])) for name in frame.columns]
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError(
            f"{what} is not a usable frame: {_first_line(error)}.",
            hint="Give a polars or pandas frame with one name per column.",
        ) from error
    return _from_columns(columns, what, named=True)


def _frame_column(column: Any) -> Any:
    """Return a column of a pandas or Arrow frame: categories, or a list."""
    import narwhals as nw
    import polars as pl

    if column.dtype in (nw.Categorical, nw.Enum):
        texts = [None if _is_missing(v) else str(v) for v in column.to_list()]
        return pl.Series(texts, dtype=pl.String).cast(pl.Categorical)
    return column.to_list()


def _from_array(source: np.ndarray[Any, Any], what: str) -> Table:
    if source.ndim != 2 or source.shape[1] == 0:
        raise InputError(
            f"{what} must be two-dimensional, one row each, not {source.shape}.",
            hint="Turn a (2, m) edge index with .T.",
        )
    columns = [
        (
            f"column_{k + 1}",
            source[:, k] if source.dtype.kind in "iufb" else source[:, k].tolist(),
        )
        for k in range(source.shape[1])
    ]
    return _from_columns(columns, what, named=False)


def _from_rows(source: Any, what: str) -> Table:
    rows = [_as_row(row, number, what) for number, row in enumerate(source, start=1)]
    if not rows:
        return _from_columns([("column_1", []), ("column_2", [])], what, named=False)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise InputError(
                f"{what}, row {number}: {len(row)} values, but row 1 has "
                f"{len(rows[0])}.",
                hint="Give every row the same number of values.",
            )
    columns = [
        (f"column_{k}", list(column))
        for k, column in enumerate(zip(*rows, strict=True), start=1)
    ]
    return _from_columns(columns, what, named=False)


def _as_row(row: Any, number: int, what: str) -> Sequence[Any]:
    if isinstance(row, np.ndarray) and row.ndim == 1:
        return list(row.tolist())
    if isinstance(row, tuple | list):
        return row
    raise InputError(
        f"{what}, row {number}: {row!r} is not a row of values.",
        hint="Give pairs such as ('a', 'b').",
    )


def _from_columns(
    columns: Sequence[tuple[str, Any]], what: str, *, named: bool
) -> Table:
    import polars as pl

    names = [name for name, _ in columns]
    if len(set(names)) != len(names):
        raise InputError(
            f"{what} has two columns of the same name.",
            hint="Give every column a name of its own.",
        )
    series = [_as_series(name, values) for name, values in columns]
    try:
        frame = pl.DataFrame(series)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"{what} has columns of different lengths: {_first_line(error)}.",
            hint="Give one value per row in every column.",
        ) from error
    return Table(frame, what, has_header=named)


def _as_series(name: str, values: Any) -> pl.Series:
    """Return a column of its own type, or of Python objects where types are mixed."""
    import polars as pl

    if isinstance(values, pl.Series):
        return values.alias(name)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        return pl.Series(name, np.ascontiguousarray(values))
    listed = [_plain(value) for value in values]
    if any(isinstance(value, str | list) for value in listed):
        # pandas marks missing text and lists with NaN, a number.
        listed = [None if _is_missing(value) else value for value in listed]
    if all(type(value) in (int, float, type(None)) for value in listed):
        dtype = pl.Float64 if any(type(v) is float for v in listed) else None
        if dtype is None or not _loses_digits(listed):
            listed = [float(v) if dtype and v is not None else v for v in listed]
    if any(isinstance(value, tuple) for value in listed):
        return pl.Series(name, listed, dtype=pl.Object)  # hashable, unlike lists
    try:
        return pl.Series(name, listed, strict=True)
    except (
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
        *(TypeError, ValueError, OverflowError),
    ):
        return pl.Series(name, listed, dtype=pl.Object)


def _plain(value: Any) -> Any:
    """Return a cell without the types of numpy and pandas."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _loses_digits(values: Sequence[Any]) -> bool:
    return any(isinstance(v, int) and abs(v) > 2**53 for v in values)


# Spellings of "no value" among numbers in text files.
MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-")
_BLANKS = r"\s'\x{2019}\x{a0}\x{202f}"
_COMMA = rf"^[+-]?(\d{{1,3}}([.{_BLANKS}]\d{{3}})+|\d+)?(,\d+)?$"  # 1.234,5
_POINT = rf"^[+-]?\d{{1,3}}([,{_BLANKS}]\d{{3}})+(\.\d+)?$"  # 1,234.5


def to_numbers(series: pl.Series, *, decimal_comma: bool = False) -> pl.Series:
    """Return a Float64 series; what is not a number becomes null.

    A column of text in which some cells are not plain numbers is tried with decimal
    commas and with separated thousands. "1,234" may be both: ``decimal_comma`` says
    which it is.
    """
    import polars as pl

    if series.dtype == pl.Object:
        listed = [to_float(value) for value in series.to_list()]
        return pl.Series(series.name, listed, dtype=pl.Float64).fill_nan(None)
    if series.dtype == pl.String:
        return _text_numbers(series.str.strip_chars(), decimal_comma)
    if not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        return pl.Series(series.name, [None] * len(series), dtype=pl.Float64)
    return series.cast(pl.Float64, strict=False)


def _text_numbers(text: pl.Series, decimal_comma: bool) -> pl.Series:
    import polars as pl

    plain = text.cast(pl.Float64, strict=False)
    odd = text.filter(plain.is_null() & text.is_not_null())
    if not odd.str.contains(rf"^[+-]?[\d,.{_BLANKS}]*\d$").any():
        return plain
    comma = text.str.contains(_COMMA) & text.str.contains(r"\d")
    point = text.str.contains(_POINT)
    points, commas = int((point | plain.is_not_null()).sum()), int(comma.sum())
    if commas > points or (commas == points and decimal_comma):
        clean = text.str.replace_all(rf"[.{_BLANKS}]", "").str.replace(",", ".")
        return clean.set(~comma, None).cast(pl.Float64, strict=False)
    clean = text.str.replace_all(rf"[,{_BLANKS}]", "")
    return plain.fill_null(clean.set(~point, None).cast(pl.Float64, strict=False))


def number_notes(series: pl.Series, numbers: pl.Series) -> list[str]:
    """Tell by an example how numbers were read that are not written the plain way."""
    import polars as pl

    if series.dtype != pl.String:
        return []
    plain = series.str.strip_chars().cast(pl.Float64, strict=False)
    other = (numbers.is_not_null() & plain.ne_missing(numbers)).arg_true()
    if not len(other):
        return []
    row = int(other[0])
    seen, value = series[row].strip(), numbers[row]
    return [f"column {series.name!r}: numbers such as {seen!r} read as {value:.15g}"]


def to_float(value: object) -> float:
    """Return a number, NaN for what is none."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def missing_numbers(series: pl.Series) -> Any:
    """Return which cells of a column of numbers hold no value."""
    import polars as pl

    empty = series.is_null()
    if series.dtype == pl.String:
        text = series.str.strip_chars().str.to_lowercase()
        empty = empty | text.is_in(list(MISSING)).fill_null(True)
    elif series.dtype == pl.Object:
        empty = pl.Series([_is_missing(v) for v in series.to_list()], dtype=pl.Boolean)
    elif series.dtype.is_float():
        empty = empty | series.is_nan().fill_null(True)
    return empty.to_numpy()


def required_numbers(table: Table, column: str, role: str) -> FloatArray:
    """Return one finite number per row, or raise with the place."""
    series = table.frame[column]
    numbers = to_numbers(series, decimal_comma=table.decimal_comma)
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


# In this order: where several fit all cells, the first is taken.
_FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"),
    *("%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y-%m"),
)
_DATE = r"^\d{1,4}[-./]\d{1,2}([-./]\d{1,4})?([T ]|$)"
_CLOCK = r"^(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?$"


def to_dates(series: pl.Series) -> tuple[pl.Series, str] | None:
    """Return moments (null: not a date) and how they are written, or None.

    None where the first cells do not look like dates. The way in which dates are
    written names both where day and month could be exchanged: ``"%d/%m/%Y or
    %m/%d/%Y"``, read as the first.
    """
    import polars as pl

    if series.dtype.is_temporal() and series.dtype in (pl.Date, pl.Datetime):
        if getattr(series.dtype, "time_zone", None) is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return series.cast(pl.Datetime("us")), "%Y-%m-%d"
    if series.dtype != pl.String:
        return None
    text = series.str.strip_chars().replace("", None)
    looks = text.head(100).drop_nulls().str.contains(_DATE)
    if not len(looks) or 2 * looks.sum() < len(looks):
        return None
    text = text.str.replace("T", " ", literal=True).str.strip_suffix("Z")
    day = text.str.extract(r"^(\S+)")
    clock = text.str.extract(r"^\S+\s+(.*)$")
    parsed = {form: day.str.to_date(form, strict=False) for form in _FORMATS}
    most = max(found.count() for found in parsed.values())
    best = [form for form, found in parsed.items() if found.count() == most > 0]
    if not best:
        return None
    moments = parsed[best[0]].cast(pl.Datetime("us"))
    parts = [clock.str.extract(_CLOCK, k).cast(pl.Float64) for k in (1, 2, 3)]
    seconds = 3600 * parts[0] + 60 * parts[1] + parts[2].fill_null(0)
    wrong = clock.is_not_null() & seconds.is_null()
    shift = (seconds.fill_null(0) * 1e6).cast(pl.Int64).cast(pl.Duration("us"))
    told = " or ".join(best[:2]) if "/" in best[0] or "-%Y" in best[0] else best[0]
    return (moments + shift).set(wrong, None).alias(series.name), told
