"""Cut rows into a fixed number of chunks and run them on any number of threads.

The partition depends on the work alone, never on the number of threads, and every
chunk writes to its own buffers: results are then the same bits on any machine
size. Compiled kernels release the interpreter lock, so plain threads suffice, and
several passes may run at the same time (validation beside training).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import numpy.typing as npt

from gelato.errors import UsageError

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


def default_threads() -> int:
    """Return ``GELATO_THREADS`` if it is set, else the cores this process may use."""
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


def run_chunks(
    task: Callable[[int], None], count: int, threads: int | None = None
) -> None:
    """Call ``task(0) .. task(count - 1)``, on several threads if that helps.

    Parameters
    ----------
    task : callable
        Writes to storage of its own; releases the interpreter lock inside.
    count : int
        Number of calls.
    threads : int, optional
        How many threads, :func:`default_threads` if not given. 1 uses none.
    """
    threads = default_threads() if threads is None else threads
    if threads < 1:
        raise UsageError(f"threads must be at least 1, not {threads}.")
    if threads == 1 or count == 1:
        for chunk in range(count):
            task(chunk)
        return
    for _ in _pool(threads, os.getpid()).map(task, range(count)):
        pass


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return a pool that lives as long as its process (a fork needs its own)."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"gelato-{process}")
