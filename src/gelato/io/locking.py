"""One writer per folder or file: who comes second waits, or is told.

A hidden file beside it is locked, by the operating system, so that nothing is held
any more when a process ends in whatever way; it is taken away with the lock. Where no
such file can be made, writers are trusted not to meet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gelato.errors import GelatoError, OutputError


@contextmanager
def locked(
    place: str | os.PathLike[str],
    *,
    wait: float = 0.0,
    refusal: GelatoError | None = None,
    waiting: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Hold a file or folder against other processes, and other threads of this one.

    Whoever holds it may hold it again.

    Parameters
    ----------
    place : path
        The file or folder; it need not exist.
    wait : float
        Seconds to wait for another writer to finish; -1 waits for ever.
    refusal : GelatoError, optional
        What to raise if that takes longer.
    waiting : callable, optional
        Called once if there is somebody to wait for.
    """
    from filelock import FileLock, Timeout

    path = Path(place).resolve()
    beside = path.with_name(f".{path.name}.lock")
    lock = FileLock(beside, is_singleton=True)
    try:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if waiting is not None:
                waiting()
            lock.acquire(timeout=wait)
    except Timeout as error:
        raise (refusal or error) from None
    except OSError:  # a folder that nobody may write to, a drive without locks
        yield
        return
    try:
        yield
    finally:
        # Taken away while held: whoever opened it meanwhile sees that and starts anew.
        if lock.lock_counter == 1 and os.name != "nt":
            with suppress(OSError):
                beside.unlink()
        lock.release()


@contextmanager
def locked_folder(
    folder: str | os.PathLike[str], *, wait: float = 0.0
) -> Iterator[None]:
    """Hold a folder, which is made if need be, against other writers.

    Raises
    ------
    OutputError
        If another process, or another thread of this one, still writes into it after
        so many seconds.
    """
    refusal = OutputError(
        f"Another process is writing into the folder {folder}.",
        hint="Wait until it has finished, or name another folder.",
    )
    with locked(folder, wait=wait, refusal=refusal):
        # Whoever held it may have taken it away.
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield
