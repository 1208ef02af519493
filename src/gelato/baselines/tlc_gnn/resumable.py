"""Long computations part by part, kept on disk so that an interruption costs little.

What is computed follows from a graph alone. Parts are done in order; a file holds
what is done, is replaced whole or not at all, and tells which graph it is of. A file
that is damaged or of another graph is not used, and replaced.
"""

from __future__ import annotations

import hashlib
import io
import logging
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.graph import FloatArray, Graph
from gelato.io import write_bytes_atomic
from gelato.kernels.chunks import balanced_chunks, run_chunks

logger = logging.getLogger(__name__)

_SECONDS = 20.0  # between two writings, and what is worth keeping
_LONG = 60.0  # seconds that deserve a word before they pass
_PART = 3e7  # cost of a part: a second or two
PARTS = "*.parts.npz"
"""Names of the files."""

Array = npt.NDArray[Any]
Work = Callable[[int, int], None]


@dataclass(frozen=True)
class PartFolder:
    """Where parts of computations on one graph are kept.

    Parameters
    ----------
    folder : Path
        Must exist when something is written.
    identity : str
        Tells the graph.
    """

    folder: Path
    identity: str

    @classmethod
    def of(cls, folder: Path, graph: Graph) -> PartFolder:
        """Return the place for a graph in a folder."""
        content = f"{graph.num_nodes}:".encode() + graph.edges.tobytes()
        return cls(folder, hashlib.sha256(content).hexdigest())

    def path(self, name: str) -> Path:
        """Return the file of a computation."""
        return self.folder / PARTS.replace("*", name)

    def read(self, name: str, out: Array) -> int:
        """Fill in what was done before; return how many parts that is."""
        path = self.path(name)
        if not path.exists():
            return 0
        try:
            content = io.BytesIO(path.read_bytes())
            with np.load(content, allow_pickle=False) as stored:
                same = str(stored["identity"]) == self.identity
                values, done = stored["values"], int(stored["done"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            logger.warning("%s cannot be read and is made anew: %s", path, error)
            return 0
        if not same or values.shape != out.shape or values.dtype != out.dtype:
            return 0
        out[:] = values
        return done

    def write(self, name: str, out: Array, done: int) -> None:
        """Keep the first parts of a computation, in one atomic step."""
        buffer = io.BytesIO()
        np.savez(buffer, identity=np.str_(self.identity), done=done, values=out)
        write_bytes_atomic(self.path(name), buffer.getvalue())

    @staticmethod
    def clear(folder: Path) -> None:
        """Remove all parts of a folder."""
        for path in folder.glob(PARTS):
            path.unlink(missing_ok=True)


def fill_by_parts(
    out: Array,
    cost: FloatArray,
    work: Work,
    *,
    name: str,
    place: PartFolder | None = None,
) -> None:
    """Fill an array part by part, on all threads, going on where a file left off.

    The partition follows from the cost alone, so that results do not depend on
    threads or interruptions.

    Parameters
    ----------
    out : array
        What is filled; its first axis is cut.
    cost : (len(out),) float64
        What each entry costs, in steps of a compiled loop.
    work : callable
        ``work(first, last)`` fills ``out[first:last]``, and lets other threads run.
    name : str
        What is computed, for the file and for people.
    place : PartFolder, optional
        Where parts are kept; without it nowhere.
    """
    parts = max(1, int(np.ceil(cost.sum() / _PART)))
    bounds = balanced_chunks(cost, parts)
    done = 0 if place is None else place.read(name, out)
    clock = _Clock(name, parts, done)
    try:
        for part in range(done, parts):
            _run_part(cost, work, int(bounds[part]), int(bounds[part + 1]))
            done = part + 1
            clock.announce(done)
            if place is not None and clock.is_due():
                place.write(name, out, done)
    except (KeyboardInterrupt, SystemExit):
        if place is not None and done:
            place.write(name, out, done)
        raise


def _run_part(cost: FloatArray, work: Work, first: int, last: int) -> None:
    inner = first + balanced_chunks(cost[first:last])

    def chunk(index: int) -> None:
        work(int(inner[index]), int(inner[index + 1]))

    run_chunks(chunk, len(inner) - 1)


class _Clock:
    """Tells when to write, and once that a computation will take long."""

    def __init__(self, name: str, parts: int, done: int) -> None:
        self.name, self.parts, self.first = name, parts, done
        self.started = self.last = time.monotonic()
        self.told = False

    def announce(self, done: int) -> None:
        """Say once how long the rest takes, if that is long."""
        spent = time.monotonic() - self.started
        rest = spent / (done - self.first) * (self.parts - done)
        if not self.told and rest > _LONG:
            minutes = max(1, round(rest / 60))
            logger.warning("%s takes about %d min, once.", self.name, minutes)
            self.told = True

    def is_due(self) -> bool:
        """Tell whether it is time to write."""
        now = time.monotonic()
        if now - self.last < _SECONDS:
            return False
        self.last = now
        return True
