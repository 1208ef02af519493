"""Blocks of rows on the threads of this process.

Kernels release the GIL, so plain threads keep every core busy and share the graph
without copying it. Results come back in the order of the blocks, whatever the
number of threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Self, TypeVar

from threadpoolctl import ThreadpoolController

from gelato.errors import UsageError
from gelato.kernels.chunks import default_threads, set_threads

_lock = threading.Lock()
_inside = 0
_limiter: Any = None


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of the nested users has left."""
    global _inside, _limiter
    with _lock:
        if _inside == 0:
            _limiter = _controller().limit(limits=1)
            _limiter.__enter__()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limiter.__exit__(None, None, None)


Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

# Enough blocks in flight to keep threads busy, few enough to bound memory.
_AHEAD_PER_THREAD = 2


def checked_workers(count: int | None) -> int:
    """Return a number of workers: the one given, or the cores there are."""
    if count is None:
        return default_threads()
    if count < 1:
        raise UsageError(f"workers is {count}, but must be at least 1.")
    return count


def map_ordered(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
) -> Iterator[Result]:
    """Yield ``function(item)`` in the order of the items, computed on threads.

    Parameters
    ----------
    function : callable
        Called once per item, from several threads at the same time.
    items : iterable
        Consumed lazily: only a few items are in flight.
    workers : int, optional
        Number of threads; :func:`default_threads` if not given.
    """
    workers = checked_workers(workers)
    if workers == 1:
        yield from map(function, items)
        return
    # What is ambient does not reach other threads by itself.
    pool = ThreadPoolExecutor(workers, initializer=set_threads, initargs=(workers,))
    with pool:
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) >= workers * _AHEAD_PER_THREAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


class ThreadEngine:
    """Threads of this process: nothing is copied, nothing is started or stopped.

    Parameters
    ----------
    workers : int, optional
        Number of threads; :func:`default_threads` if not given.
    """

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = checked_workers(workers)

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Iterable[Item],
    ) -> Iterator[Result]:
        """Yield ``function(shared, item)`` in the order of the items."""
        return map_ordered(partial(function, shared), items, workers=self.workers)

    def close(self) -> None:
        """Do nothing: threads end with their work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
