"""Cut rows into a fixed number of chunks and run them on any number of threads.

The partition depends on the work alone, never on the number of threads, and every
chunk writes to its own buffers: results are then the same bits on any machine
size. Compiled kernels release the interpreter lock, so plain threads suffice, and
several passes may run at the same time (validation beside training).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.errors import UsageError
from gelato.kernels.compiled import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@kernel()
def mix(value):
    """Return 64 well mixed bits for a 64-bit value (the splitmix64 step)."""
    z = np.uint64(value) + _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def derive_key(*parts: int) -> np.uint64:
    """Return one 64-bit key for several integers, such as seed, step and layer."""
    key = np.uint64(0)
    for part in parts:
        key = np.uint64(mix(key ^ np.uint64(part & 0xFFFFFFFFFFFFFFFF)))
    return key


def generator(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """Return a generator that depends on these numbers only.

    The purpose keeps, say, positives and negatives of the same epoch independent.
    """
    return np.random.default_rng([seed, *purpose.encode(), *counters])


NUM_CHUNKS = 16
"""Chunks per pass: enough to keep 16 cores busy, few enough to sum quickly."""


def balanced_chunks(
    cost: npt.NDArray[np.float64], count: int = NUM_CHUNKS
) -> npt.NDArray[np.int64]:
    """Return ``count + 1`` row bounds that give each chunk about the same cost.

    Examples
    --------
    >>> balanced_chunks(np.array([9.0, 1.0, 1.0, 1.0]), 2).tolist()
    [0, 1, 4]
    """
    total = np.concatenate([[0.0], np.cumsum(cost, dtype=np.float64)])
    goals = total[-1] * np.arange(1, count) / count
    inner = np.searchsorted(total, goals, side="left")
    return np.concatenate([[0], inner, [len(cost)]]).astype(np.int64)


_threads: ContextVar[int | None] = ContextVar("threads", default=None)


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Let everything inside use so many threads; ``None`` changes nothing.

    Results never depend on the number of threads.

    Examples
    --------
    >>> with use_threads(1):
    ...     default_threads()
    1
    """
    if count is not None and count < 1:
        raise UsageError(f"threads must be at least 1, not {count}.")
    token = _threads.set(_threads.get() if count is None else count)
    try:
        yield
    finally:
        _threads.reset(token)


def set_threads(count: int) -> None:
    """Use so many threads from here on, at most to the end of :func:`use_threads`.

    What is ambient does not reach another thread by itself: this is how it gets there.
    """
    _threads.set(count)


def default_threads() -> int:
    """Return the threads in use here.

    What :func:`use_threads` says comes first, then ``GELATO_THREADS``, then the cores
    that this process may use.
    """
    ambient = _threads.get()
    if ambient is not None:
        return ambient
    text = os.environ.get("GELATO_THREADS", "").strip()
    if not text:
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:  # not every operating system can tell
            return os.cpu_count() or 1
    if not text.isdigit() or int(text) < 1:
        raise UsageError(
            f"GELATO_THREADS is {text!r}, which is not a positive number.",
            hint="Set it to the number of threads to use, for example 4.",
        )
    return int(text)


def run_chunks(task: Callable[[int], None], count: int) -> None:
    """Call ``task(0) .. task(count - 1)``, on several threads if that helps.

    Parameters
    ----------
    task : callable
        Writes to storage of its own; releases the interpreter lock inside.
    count : int
        Number of calls.
    """
    threads = default_threads()
    if threads == 1 or count == 1:
        for chunk in range(count):
            task(chunk)
        return
    for _ in _pool(threads, os.getpid()).map(task, range(count)):
        pass


def run_rows(
    kernel: Callable[..., object], bounds: Any, *given: Any, own: tuple[Any, ...] = ()
) -> None:
    """Call ``kernel(first, last, *given, ...)`` for the rows of every chunk.

    Parameters
    ----------
    kernel : callable
        Handles rows ``first..last-1``.
    bounds : sequence of int
        First row of each chunk, and the number of rows.
    *given
        What all chunks share.
    own : tuple of arrays
        Of which every chunk gets a row of its own, after what is shared.
    """

    def task(chunk: int) -> None:
        mine = (array[chunk] for array in own)
        kernel(bounds[chunk], bounds[chunk + 1], *given, *mine)

    run_chunks(task, len(bounds) - 1)


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return a pool that lives as long as its process (a fork needs its own)."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"gelato-{process}")


# A part's rows of 128 float32 fill half a second-level cache of 512 KB; the number is
# a multiple of the rows of a matrix tile.
_PART_ROWS = 504
# More shares than threads, so that a thread held up elsewhere does not hold up all.
_SHARES_PER_THREAD = 3


@dataclass(frozen=True)
class Parts:
    """Rows ``start[p]..start[p + 1] - 1`` make part p, which lies in ``chunk[p]``."""

    start: npt.NDArray[np.int64]
    chunk: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    """Rows of each chunk."""

    @classmethod
    def cut(cls, rows: int, chunk_rows: int) -> Parts:
        """Cut rows into chunks and those into parts.

        A last chunk of a single row joins the one before it: one row has no variance.

        Examples
        --------
        >>> Parts.cut(7, 3).sizes.tolist()
        [3, 4]
        """
        bounds = [*range(0, rows, chunk_rows), rows]
        if len(bounds) > 2 and bounds[-1] - bounds[-2] == 1:
            del bounds[-2]
        start, chunk = [0], []
        for index, (low, high) in enumerate(pairwise(bounds)):
            cuts = [*range(low + _PART_ROWS, high, _PART_ROWS), high]
            start.extend(cuts)
            chunk.extend([index] * len(cuts))
        return cls(
            np.array(start, dtype=np.int64),
            np.array(chunk, dtype=np.int64),
            np.diff(bounds).astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.chunk)

    def by_chunk(self, sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up the parts' sums (first axis) chunk by chunk, in order."""
        total = np.zeros((len(self.sizes), *sums.shape[1:]))
        np.add.at(total, self.chunk, sums)
        return total


def run_shares(work: Callable[[int, int], object], count: int) -> None:
    """Call ``work(start, stop)`` on shares of ``0..count-1`` until all are done.

    Parameters
    ----------
    work : callable
        Handles ``start..stop-1`` and writes only to places that belong to them, so
        that the result does not depend on the shares.
    count : int
        Number of things to do.
    """
    if count == 0:
        return
    threads = default_threads()
    shares = 1 if threads <= 1 else min(count, threads * _SHARES_PER_THREAD)
    bounds = [count * i // shares for i in range(shares + 1)]

    def task(share: int) -> None:
        work(bounds[share], bounds[share + 1])

    run_chunks(task, shares)
