"""One writer per folder: who comes second waits, or is told.

The folder itself is locked, by the operating system, so that nothing is left behind
when a process ends in whatever way. Where a system or a network drive knows no such
lock (Windows among them), writers are trusted not to meet.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from gelato.errors import OutputError

if sys.platform != "win32":
    import fcntl

_BUSY = (errno.EACCES, errno.EAGAIN)
_PAUSE = 0.05
# Whoever holds a folder may write into it by several calls, one inside another.
_held: set[tuple[int, tuple[int, int]]] = set()


@contextlib.contextmanager
def locked_folder(
    folder: str | os.PathLike[str], *, wait: float = 0.0
) -> Iterator[None]:
    """Hold a folder, which must exist, against other writers.

    Parameters
    ----------
    folder : path
        The folder; it may be empty.
    wait : float
        Seconds to wait for another writer to finish.

    Raises
    ------
    OutputError
        If another process, or another thread of this one, still writes into it.
    """
    path = Path(folder)
    handle = _open(path, wait)
    if handle is None:
        yield
        return
    key = (threading.get_ident(), _identity(os.fstat(handle)))
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        os.close(handle)  # which also gives the lock back


def _open(path: Path, wait: float) -> int | None:
    """Return a locked folder's handle; None if it is held already, or cannot be."""
    if sys.platform == "win32":
        return None
    until = time.monotonic() + wait
    while True:
        handle = os.open(path, os.O_RDONLY)
        try:
            if (threading.get_ident(), _identity(os.fstat(handle))) in _held:
                os.close(handle)
                return None
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno not in _BUSY:  # a drive without locks
                return None
            if time.monotonic() >= until:
                raise OutputError(
                    f"Another process is writing into the folder {path}.",
                    hint="Wait until it has finished, or name another folder.",
                ) from error
            time.sleep(_PAUSE)
            continue
        # Whoever held it may have taken it away and somebody else made it anew.
        with contextlib.suppress(OSError):
            if _identity(path.stat()) == _identity(os.fstat(handle)):
                return handle
        os.close(handle)
        path.mkdir(parents=True, exist_ok=True)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
