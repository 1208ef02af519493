"""The file of a study: one line per event, held by one process, whole after a kill.

Lines are Optuna's journal, so that its own tools can read them. An event is appended
and synchronised as a whole; what a kill leaves of the last line is cut off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gelato.errors import OutputError, StoredFileError

_BEGINNING = b'{"op_code":'


@contextmanager
def hold_study_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Hold a study file, made if need be, against other processes.

    Raises
    ------
    StoredFileError
        If another process holds it, or it is no study.
    OutputError
        If it cannot be written.
    """
    place = Path(path)
    existed = place.exists()
    try:
        file = place.open("ab+")
    except OSError as error:
        raise OutputError(
            f"The study {place} cannot be written: {error.strerror or error}.",
            hint="Name a file in a folder that you may write to.",
        ) from error
    with file:
        _lock(file, place)
        try:
            _mend(file, place)
            yield place
        finally:
            if not existed and place.exists() and place.stat().st_size == 0:
                place.unlink()


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # pragma: no cover - no such lock on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StoredFileError(
            f"Another process is working on the study {path}.",
            hint="Wait for it to end, or name another study.",
        ) from error


def _mend(file: BinaryIO, path: Path) -> None:
    """Cut off an incomplete last line; refuse what is no study."""
    file.seek(0)
    content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    rest = content[len(whole) :]
    for number, line in enumerate(whole.splitlines(), start=1):
        if not _is_event(line):
            raise StoredFileError(
                f"{path} is no study, or damaged: line {number} is no event.",
                hint="Name a new file.",
            )
    if rest and not (rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)):
        raise StoredFileError(f"{path} is no study.", hint="Name a new file.")
    if rest:
        file.truncate(len(whole))


def _is_event(line: bytes) -> bool:
    try:
        return line.startswith(_BEGINNING) and isinstance(json.loads(line), dict)
    except ValueError:
        return False
