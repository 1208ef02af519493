"""Files of measurements: sealed, so that an edited one is noticed, and locked.

Whatever is measured ends as one JSON document with a digest of its content. Curves of
a training are written column by column, and read as the rows that they were: the digest
is of the content, not of its layout, so files of the first layout are read as they are
and keep their digests when :func:`migrate` writes them anew.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

from gelato.errors import OutputError, StoredFileError
from gelato.io import write_text_atomic
from gelato.io.locking import locked

Report = Callable[[str], None]


def seal(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the digest of everything else in it."""
    rest = {name: value for name, value in record.items() if name != "digest"}
    return {**rest, "digest": _digest(rest)}


def write_record(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Seal a record and write it, completely or not at all."""
    sealed = seal(record)
    make_folders(path.parent)
    write_text_atomic(path, _layout(sealed))
    return sealed


def migrate(results: Path) -> list[Path]:
    """Write the records of a folder in the layout of today; return those that changed.

    Contents and digests stay what they are; a record that was edited is refused.

    Parameters
    ----------
    results : Path
        Folder of records.
    """
    changed = []
    for path in sorted(results.rglob("*.json")):
        text = path.read_text("utf-8")
        if '"digest": ' not in text:  # no record: a benchmark
            continue
        record = read_record(path, {})
        written = _layout(record)
        if written != text:
            write_text_atomic(path, written)
            changed.append(path)
    return changed


def read_record(path: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """Read a record; refuse a damaged or edited one, or one of something else.

    Parameters
    ----------
    path : Path
        Where it is.
    expected : dict
        Entries that the record must have.
    """
    try:
        stamp = path.stat()
        record, sound = _content(path.absolute(), stamp.st_mtime_ns, stamp.st_size)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise StoredFileError(
            f"{path} is damaged: {error}.", hint="Delete it to run it again."
        ) from error
    if not isinstance(record, dict) or any(
        record.get(name) != value for name, value in expected.items()
    ):
        raise StoredFileError(
            f"{path} does not record the run that its name promises.",
            hint="Was it edited? Delete it to run it again.",
        )
    if not sound:
        raise StoredFileError(
            f"{path} was edited after it was written.",
            hint="Delete it to run it again.",
        )
    return dict(record)


# Tables share runs: a page reads most files several times.
@lru_cache(maxsize=1000)
def _content(path: Path, *stamp: int) -> tuple[Any, bool]:
    """Return what a file holds, and whether its digest is right."""
    record: Any = json.loads(path.read_text("utf-8"))
    if not isinstance(record, dict):
        return record, False
    record = _with_history(record, _rows_of)
    rest = {name: value for name, value in record.items() if name != "digest"}
    return record, record.get("digest") == _digest(rest)


def _layout(record: dict[str, Any]) -> str:
    """Return a record as text: an entry a line, a curve a line."""
    return _lines(_with_history(record, _columns_of)) + "\n"


def _lines(value: Any, indent: int = 0) -> str:
    if not isinstance(value, dict) or not any(
        isinstance(part, dict | list) for part in value.values()
    ):
        return json.dumps(value, separators=(",", ": "))
    space = " " * (indent + 1)
    entries = (
        f"{space}{json.dumps(name)}: {_lines(part, indent + 1)}"
        for name, part in value.items()
    )
    return "{\n" + ",\n".join(entries) + "\n" + " " * indent + "}"


def _with_history(
    record: dict[str, Any], change: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return a record whose training's history is changed, if it has one."""
    training = record.get("training")
    if not isinstance(training, dict) or "history" not in training:
        return record
    return {**record, "training": {**training, "history": change(training["history"])}}


def _columns_of(rows: Any) -> Any:
    """Return a list of dicts as a dict of columns; ``_rows_of`` gives it back."""
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        places = [place for place, row in enumerate(rows) if name in row]
        column = _column([rows[place][name] for place in places])
        if len(places) < len(rows):
            column = {"at": _column(places), "values": column}
        columns[name] = column
    return {"rows": len(rows), "columns": columns}


def _column(values: list[Any]) -> Any:
    """Return values as they are, or in short where they follow a rule."""
    if all(isinstance(value, dict) for value in values):
        return _columns_of(values)
    if len(values) < 3:
        return values
    if len({json.dumps(value) for value in values}) == 1:
        return {"same": values[0], "rows": len(values)}
    if all(type(value) is int for value in values):
        first, step = values[0], values[1] - values[0]
        if values == [first + step * place for place in range(len(values))]:
            return {"first": first, "step": step, "rows": len(values)}
    return values


def _rows_of(packed: Any) -> Any:
    if isinstance(packed, list):  # the first layout: rows already
        return packed
    rows: list[dict[str, Any]] = [{} for _ in range(packed["rows"])]
    for name, column in packed["columns"].items():
        places: Any = range(len(rows))
        values = column
        if isinstance(column, dict) and "at" in column:
            places, values = _values_of(column["at"]), column["values"]
        for place, value in zip(places, _values_of(values), strict=True):
            rows[place][name] = value
    return rows


def _values_of(column: Any) -> list[Any]:
    if isinstance(column, list):
        return list(column)
    if "columns" in column:
        found: list[Any] = _rows_of(column)
        return found
    if "same" in column:
        return [column["same"]] * column["rows"]
    return [column["first"] + column["step"] * n for n in range(column["rows"])]


def _digest(rest: dict[str, Any]) -> str:
    text = json.dumps(rest, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_folders(*folders: Path) -> None:
    """Make folders, or say why that cannot be."""
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{error.filename} cannot be made: {error.strerror}.",
            hint="Name folders that you may write to.",
        ) from error


def lock(folder: Path, report: Report | None = None) -> AbstractContextManager[None]:
    """Wait until no other process works in a folder."""

    def waiting() -> None:
        if report is not None:
            report(f"another process is at {folder.name}: waiting for it")

    return locked(folder, wait=-1, waiting=waiting)


PACKAGE = Path(__file__).resolve().parent.parent


def code_commit(package: Path = PACKAGE) -> str | None:
    """Return the commit of the code that runs, marked where the package was changed.

    Records that come and pages that are written meanwhile are no change of the code.
    """

    def git(*words: str) -> str:
        options: Any = {"capture_output": True, "text": True, "check": True}
        done = subprocess.run(["git", *words], cwd=package, **options)  # noqa: S603, S607
        return str(done.stdout).strip()

    try:
        commit = git("describe", "--always", "--abbrev=12")
        changed = git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit
