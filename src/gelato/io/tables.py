"""Any table a user may hand over, as one polars frame that can name its rows.

Files, polars and pandas frames, dictionaries of columns, arrays and sequences of rows
all become a :class:`Table`. What the columns mean is decided elsewhere.
"""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gelato.errors import InputError
from gelato.io.delimited import parse_delimited

if TYPE_CHECKING:
    import polars as pl


Column = str | int


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
    notes : tuple of str
        What was assumed while reading.
    """

    frame: pl.DataFrame
    name: str
    is_text: bool = False
    has_header: bool | None = None
    lines: Sequence[int] | None = None
    notes: tuple[str, ...] = ()

    def place(self, row: int) -> str:
        """Return where a row (from 0) stands, for the start of a message."""
        if self.lines is None:
            return f"{self.name}, row {row + 1}"
        return f"{self.name}, line {self.lines[row]}"

    def column(self, wanted: Column, role: str) -> str:
        """Return the name of a column given by name or by position from 0."""
        names = self.frame.columns
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


def read_table(source: Any, what: str, delimiter: str | None = None) -> Table:
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
    """
    if isinstance(source, str | os.PathLike):
        table = _read_file(Path(source), delimiter)
    else:
        table = _reader(source, what)(source, what)
    if table.frame.width == 0:
        raise InputError(f"{table.name} has no columns.", hint="Give one or more.")
    return table


def _reader(source: Any, what: str) -> Callable[[Any, str], Table]:
    if isinstance(source, Mapping):
        return _from_mapping
    if isinstance(source, np.ndarray):
        return _from_array
    if hasattr(type(source), "columns"):  # the type: a lazy frame warns
        return _from_frame
    if hasattr(source, "__iter__"):
        return _from_rows
    raise InputError(
        f"{what} cannot be read from {type(source).__name__}.",
        hint="Give a path, a polars or pandas frame, an array or a list of rows.",
    )


def _read_file(path: Path, delimiter: str | None) -> Table:
    data = read_bytes(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"] or data[:2] == b"\x1f\x8b":
        data, suffixes = gunzip(data, path), [s for s in suffixes if s != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in (".parquet", ".pq") or data[:4] == b"PAR1":
        return Table(read_parquet(data, path), str(path), has_header=True)
    parsed = parse_delimited(decode(data, path), str(path), suffix, delimiter)
    return Table(
        parsed.frame, str(path), is_text=True, lines=parsed.lines, notes=parsed.notes
    )


def read_parquet(data: bytes, path: Path) -> pl.DataFrame:
    """Return a frame from Parquet bytes, or say that they are damaged."""
    import io

    import polars as pl

    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise InputError(
            f"{path} is not a complete Parquet file.",
            hint="Copy it again, or give csv files the suffix .csv.",
        )
    try:
        return pl.read_parquet(io.BytesIO(data))
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
        columns = [(str(name), frame[name].to_list()) for name in frame.columns]
    except (Exception, pl.exceptions.PanicException) as error:
        raise InputError(
            f"{what} is not a usable frame: {_first_line(error)}.",
            hint="Give a polars or pandas frame with one name per column.",
        ) from error
    return _from_columns(columns, what, named=True)


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
    listed = [v.item() if isinstance(v, np.generic) else v for v in values]
    if any(isinstance(value, str) for value in listed):
        # pandas marks missing text with NaN, a number.
        listed = [None if _is_nan(value) else value for value in listed]
    if all(type(value) in (int, float, type(None)) for value in listed):
        dtype = pl.Float64 if any(type(v) is float for v in listed) else None
        if dtype is None or not _loses_digits(listed):
            listed = [float(v) if dtype and v is not None else v for v in listed]
    if any(isinstance(value, tuple) for value in listed):
        return pl.Series(name, listed, dtype=pl.Object)  # hashable, unlike lists
    try:
        return pl.Series(name, listed, strict=True)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return pl.Series(name, listed, dtype=pl.Object)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _loses_digits(values: Sequence[Any]) -> bool:
    return any(isinstance(v, int) and abs(v) > 2**53 for v in values)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file that exists, is a file and is not empty."""
    try:
        if path.is_dir():
            raise InputError(
                f"{path} is a directory, not a file.", hint="Name a file inside it."
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.", hint=_nearest(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{path} cannot be read: {reason}.", hint="Check the path and its rights."
        ) from error
    if not data:
        raise InputError(f"{path} is empty.", hint="Write or export the file again.")
    return data


def _nearest(path: Path) -> str:
    folder = path.parent
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return f"The folder {folder} does not exist either."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    if near:
        return f"Did you mean {folder / near[0]}?"
    return "Check the name and the folder."


def gunzip(data: bytes, path: Path) -> bytes:
    """Decompress gzip data, or say that it is damaged."""
    try:
        plain = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a complete gzip file: {error}.",
            hint="Copy or download it again.",
        ) from error
    if not plain:
        raise InputError(f"{path} is empty.", hint="Write or export the file again.")
    return plain


def decode(data: bytes, path: Path) -> str:
    """Return text from UTF-8, or from UTF-16 that starts with a byte-order mark.

    Nothing is guessed: another encoding raises with the line of its first byte that
    is not UTF-8.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decode_utf16(data, path)
    head = data.removeprefix(b"\xef\xbb\xbf")
    zero = head.find(b"\0")
    if zero >= 0:
        raise InputError(
            f"{path}, line {_line_at(head, zero)}: a zero byte, so this is not text.",
            hint="Give a csv, tsv or txt file, or Parquet with the suffix .parquet.",
        )
    try:
        return head.decode("utf-8")
    except UnicodeDecodeError as error:
        line = _line_at(head, error.start)
        raise InputError(
            f"{path}, line {line}: the byte 0x{head[error.start]:02x} is not UTF-8.",
            hint="Save the file as UTF-8 (from Latin-1: iconv -f latin1 -t utf-8).",
        ) from None


def _decode_utf16(data: bytes, path: Path) -> str:
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} starts like UTF-16 text but is damaged: {error.reason}.",
            hint="Save the file as UTF-8.",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{path}, line {line}: a zero character, so this is not text.",
            hint="Save the file as UTF-8 text.",
        )
    return text


def _line_at(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1
