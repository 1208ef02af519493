"""Counts so far, kept in a file: a long evaluation survives an interruption.

Work is cut into spans that do not depend on threads, and done in order. A journal
holds the sum of the first spans; whole numbers add up to the same whatever was done
in which run.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gelato.engines import map_shared
from gelato.errors import OutputError, StoredFileError
from gelato.graph import IntArray
from gelato.io import write_bytes_atomic

Progress = Callable[[int, int], None]

FORMAT = "gelato evaluation 1"
# Writing a few kilobytes is cheap, but not after every span of a fast scorer.
_KEEP_SECONDS = 10.0
_NAME = "evaluation-{}.npz"


class Journal:
    """Where counts so far are kept.

    Parameters
    ----------
    folder : path
        Made if missing. Evaluations of different things have files of their own.
    seconds : float
        Time between two writes; an interruption that can be caught writes at once.

    Attributes
    ----------
    seconds_before : float
        What earlier runs of the same evaluation took.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, seconds: float = _KEEP_SECONDS
    ) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"The folder {folder} cannot be made: {error.strerror}.",
                hint="Name a folder that you may write to.",
            ) from error
        self.seconds_before = 0.0
        self._every = seconds
        self._path: Path | None = None
        self._started = self._kept = time.monotonic()

    def open(self, identity: str, size: int) -> tuple[int, IntArray]:
        """Return how many spans are done, and their counts; 0 for a new evaluation.

        Parameters
        ----------
        identity : str
            Digest of all that decides the counts.
        size : int
            How many counts there are.
        """
        self._started = self._kept = time.monotonic()
        self.seconds_before = 0.0
        self._path = self.folder / _NAME.format(identity)
        if not self._path.exists():
            return 0, np.zeros(size, dtype=np.int64)
        done, seconds, counts = _read(self._path, size)
        self.seconds_before = seconds
        return done, counts

    def keep(self, done: int, counts: IntArray, *, now: bool = False) -> None:
        """Write the counts of the first ``done`` spans, if it is time or ``now``."""
        assert self._path is not None
        at = time.monotonic()
        if not now and at - self._kept < self._every:
            return
        spent = self.seconds_before + at - self._started
        header = {"format": FORMAT, "done": done, "seconds": spent}
        buffer = io.BytesIO()
        np.savez(buffer, header=np.array(json.dumps(header)), counts=counts)
        write_bytes_atomic(self._path, buffer.getvalue())
        self._kept = at


def journal_files(folder: Path) -> list[Path]:
    """Return the files that journals have left in a folder."""
    return sorted(folder.glob(_NAME.format("*")))


def _read(path: Path, size: int) -> tuple[int, float, IntArray]:
    try:
        content = io.BytesIO(path.read_bytes())  # NumPy leaves a bad file open
        with np.load(content, allow_pickle=False) as stored:
            header = json.loads(str(stored["header"]))
            counts = stored["counts"]
        done, seconds = int(header["done"]), float(header["seconds"])
    except (OSError, EOFError, ValueError, LookupError, TypeError, BadZipFile) as error:
        raise StoredFileError(
            f"{path} is damaged: {error}.", hint="Delete it to count again."
        ) from error
    if header["format"] != FORMAT or counts.shape != (size,) or done < 0:
        raise StoredFileError(
            f"{path} does not hold the counts that its name promises.",
            hint="Delete it to count again.",
        )
    return done, seconds, counts.astype(np.int64)


def digest(*parts: Any) -> str:
    """Return a digest of arrays and of plain values."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype} {part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(repr(part).encode())
        found.update(b"|")
    return found.hexdigest()[:16]


def sum_spans(
    count: Callable[[Any, Any], tuple[IntArray, int]],
    job: Any,
    spans: Sequence[Any],
    size: int,
    *,
    journal: Journal | None = None,
    identity: str = "",
    progress: Progress | None = None,
) -> IntArray:
    """Return the sum of the counts of all spans, on the engine in use.

    Parameters
    ----------
    count : callable
        ``count(job, span)`` returns counts and how many rows they are of.
    job : object
        What all spans share.
    spans : sequence
        Pieces of work whose length is their number of rows.
    size : int
        How many counts there are.
    journal : Journal, optional
        Where to go on from, and to keep what is done.
    identity : str
        Digest of all that decides the counts, for the journal.
    progress : callable, optional
        Called with (rows done, rows in all).
    """
    # One name for both: an interruption never parts a sum from what it is of.
    state = (0, np.zeros(size, dtype=np.int64))
    if journal is not None:
        state = journal.open(identity, size)
    before = state[0]
    every = sum(len(span) for span in spans)
    rows = sum(len(span) for span in spans[:before])
    try:
        for counts, length in map_shared(count, job, spans[before:]):
            state = (state[0] + 1, state[1] + counts)
            rows += length
            if journal is not None:
                journal.keep(*state)
            if progress is not None:
                progress(rows, every)
    finally:
        if journal is not None and state[0] > before:
            journal.keep(*state, now=True)
    return state[1]
