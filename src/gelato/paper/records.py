"""Files of measurements: sealed, so that an edited one is noticed, and locked.

Whatever is measured ends as one JSON document with a digest of its content.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
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
    write_text_atomic(path, json.dumps(sealed, indent=1) + "\n")
    return sealed


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
        record: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
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
    rest = {name: value for name, value in record.items() if name != "digest"}
    if record.get("digest") != _digest(rest):
        raise StoredFileError(
            f"{path} was edited after it was written.",
            hint="Delete it to run it again.",
        )
    return record


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


def code_commit() -> str | None:
    """Return the commit of the code that runs, marked where files were changed."""
    here = Path(__file__).resolve().parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],  # noqa: S607
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()
