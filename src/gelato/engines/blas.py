"""Keep BLAS to one thread while blocks of rows run on threads of their own.

Two levels of threads would fight for the cores, and a product could differ in its
last bits with the number of BLAS threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

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
