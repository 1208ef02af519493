"""Rows of cells from delimited text, each row with its exact line number.

Plain files (no quotes, no blank lines, every row complete) go through polars. All
others, and every file in which polars stumbles, go through Python's ``csv`` module,
which knows the line of each record. Both give the same cells.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gelato.errors import InputError
from gelato.text import plural

if TYPE_CHECKING:
    import polars as pl


_SIGNS = r"[=+\-@\t\r]"


def guarded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose text cells no spreadsheet takes for formulas."""
    return _replaced(frame, rf"^('*{_SIGNS})", "'${1}")


def unguarded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with the apostrophes of :func:`guarded` taken away."""
    return _replaced(frame, rf"^'('*{_SIGNS})", "${1}")


def _replaced(frame: pl.DataFrame, pattern: str, value: str) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns(pl.col(pl.String).str.replace(pattern, value))


# Preferred delimiter by suffix; the rest are tried in this order. A space only counts
# in files whose suffix does not promise another delimiter.
_BY_SUFFIX = {".csv": ",", ".tsv": "\t"}
_DELIMITERS = "\t,;|"
_COMMENT = re.compile(r"[#%]+([ \t]|$)")
_SAMPLE = 50
# Rows held as Python lists at a time: more of them only slow the collector down.
_BLOCK = 20_000


@dataclass(frozen=True)
class Delimited:
    """All rows of a delimited file as text, the header (if any) still among them."""

    frame: pl.DataFrame
    lines: Sequence[int]
    delimiter: str
    notes: tuple[str, ...]


def parse_delimited(
    text: str, name: str, suffix: str, delimiter: str | None = None
) -> Delimited:
    """Split text into rows and cells; an empty cell is null.

    Parameters
    ----------
    text : str
        The whole file.
    name : str
        What to call the file in messages.
    suffix : str
        ``.csv``, ``.tsv`` or other; it says which delimiter to expect.
    delimiter : str, optional
        One character; a space means any run of blanks. ``None`` detects it.
    """
    text = text.replace("\r\n", "\n")
    text, skipped = _without_comments(text)
    comments = plural(skipped, "comment line")
    notes = [f"{name}: skipped {comments} at the top"] if skipped else []
    if not text.strip():
        raise InputError(f"{name} has no rows.", hint="Write or export the file again.")
    if delimiter is None:
        delimiter = detect_delimiter(text, suffix)
        if delimiter != _BY_SUFFIX.get(suffix, delimiter):
            notes.append(f"{name}: cells are separated by {delimiter!r}")
    if delimiter == " " and '"' not in text:
        text, delimiter = _collapse_blanks(text), "\t"
    frame = _parse_plain(text, delimiter)
    lines: Sequence[int]
    if frame is None:
        frame, lines = _parse_carefully(text, delimiter, name, skipped)
    else:
        lines = range(skipped + 1, skipped + 1 + frame.height)
    if "'" in text:
        frame = unguarded(frame)
    return Delimited(frame, lines, delimiter, tuple(notes))


def detect_delimiter(text: str, suffix: str) -> str:
    """Return the delimiter that splits the first lines into equal numbers of cells."""
    expected = _BY_SUFFIX.get(suffix)
    candidates = expected + _DELIMITERS if expected else _DELIMITERS + " "
    head = text.split("\n", _SAMPLE + 1)[: _SAMPLE + 1]
    # The last line may be one half of a quoted cell: leave it out where possible.
    sample = "\n".join(head[:-1] if len(head) > 1 else head)
    for delimiter in candidates:
        widths = _widths(sample, delimiter)
        if len(widths) == 1 and max(widths) > 1:
            return delimiter
    first = next((line for line in head if line.strip()), "")
    # Uneven rows are told later, by line; here the first row decides.
    return next((d for d in candidates if d in first.strip()), expected or ",")


def _widths(sample: str, delimiter: str) -> set[int]:
    if delimiter == " ":
        return {len(line.split()) for line in sample.split("\n") if line.strip()}
    rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    try:
        return {len(row) for row in rows if row}
    except csv.Error:
        return set()


def _without_comments(text: str) -> tuple[str, int]:
    """Drop the lines at the top that start with '# ' or '% ', as SNAP and KONECT do."""
    skipped = start = 0
    while start < len(text):
        end = text.find("\n", start)
        if not _COMMENT.match(text[start : end if end >= 0 else len(text)]):
            break
        skipped += 1
        start = len(text) if end < 0 else end + 1
    return text[start:], skipped


def _collapse_blanks(text: str) -> str:
    return re.sub(r"[ \t]*\n[ \t]*", "\n", re.sub(r"[ \t]+", "\t", text.strip(" \t")))


def _parse_plain(text: str, delimiter: str) -> pl.DataFrame | None:
    """Parse with polars, or return None where its answer might not be exact."""
    body = text.removesuffix("\n")
    if '"' in body or "\r" in body or "\n\n" in body or body[:1] == "\n":
        return None
    import polars as pl

    try:
        frame = pl.read_csv(
            body.encode("utf-8"),
            has_header=False,
            separator=delimiter,
            quote_char=None,
            infer_schema=False,
        )
    except (pl.exceptions.PolarsError, ValueError, TypeError):
        return None
    # Too many cells raise, too few become null: the delimiters tell whether any miss.
    rows = body.count("\n") + 1
    complete = body.count(delimiter) == rows * (frame.width - 1)
    if not complete or frame.height != rows:
        return None
    # In a single column a line of blanks looks like a cell.
    if frame.width == 1 and frame.to_series().str.strip_chars().eq("").any():
        return None
    # Counted from 1 by some versions of polars and from 0 by others.
    frame.columns = [f"column_{k + 1}" for k in range(frame.width)]
    return frame


def _parse_carefully(
    text: str, delimiter: str, name: str, skipped: int
) -> tuple[pl.DataFrame, list[int]]:
    """Parse with Python's csv module, which tells the line of every record."""
    import polars as pl

    lines: list[int] = []
    blocks: list[pl.DataFrame] = []
    block: list[list[str]] = []
    width = 0
    for line, row in _records(text, delimiter, name, skipped):
        width = width or len(row)
        if len(row) != width:
            raise InputError(
                f"{name}, line {line}: {_cells(len(row))}, but line {lines[0]} has "
                f"{width}.",
                hint="Give every row the same number of cells, or check the delimiter.",
            )
        lines.append(line)
        block.append(row)
        if len(block) == _BLOCK:
            blocks.append(_frame_of(block))
            block = []
    if block:
        blocks.append(_frame_of(block))
    if not blocks:
        raise InputError(f"{name} has no rows.", hint="Write or export the file again.")
    return pl.concat(blocks), lines


def _frame_of(rows: list[list[str]]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(
        [
            pl.Series(f"column_{k}", [cell or None for cell in column], dtype=pl.String)
            for k, column in enumerate(zip(*rows, strict=True), start=1)
        ]
    )


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"


def _records(
    text: str, delimiter: str, name: str, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    try:
        reader = csv.reader(
            io.StringIO(text, newline=""), delimiter=delimiter, strict=True
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{delimiter!r} cannot be a delimiter: {error}.",
            hint="Give one character, for example ';'.",
        ) from None
    start = skipped + 1
    try:
        for row in reader:
            # A line of blanks holds no cell; a row of empty cells has delimiters.
            if row and (len(row) > 1 or row[0].strip()):
                yield start, row
            start = skipped + reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{name}, line {start}: {error}.",
            hint="Look for a quotation mark that is not closed or not doubled.",
        ) from None
