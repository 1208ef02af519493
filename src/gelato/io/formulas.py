"""Text cells that a spreadsheet would run as a formula, made harmless and back.

In csv and tsv output a text cell that starts with ``= + - @``, tab or carriage return
gets a leading apostrophe, which spreadsheets show as plain text. So does one that
starts with apostrophes followed by such a sign, so that reading, which takes one
apostrophe away again, gives back exactly what was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
