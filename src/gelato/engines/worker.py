"""What happens inside a worker, of whatever engine.

A worker keeps what items share (unpacked from memory that it does not own), works on
one item at a time on one thread, and sends back a result or an error.
"""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from gelato.engines.local import single_blas_thread
from gelato.errors import EngineError

# What the steps of a training share stays, while what one step shares comes and goes.
_KEPT = 2

_kept: OrderedDict[Hashable, Any] = OrderedDict()


@dataclass(frozen=True)
class Outcome:
    """What became of an item: its result, or the error that it ended with."""

    result: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        """Return the result or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result


def be_a_worker() -> None:
    """Keep this process to one thread: as many workers run as there are cores."""
    os.environ["GELATO_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"


def recall(key: Hashable, load: Callable[[], Any]) -> Any:
    """Return what was kept under a key, loading it if need be."""
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    while len(_kept) >= _KEPT:
        _kept.popitem(last=False)
    value = _kept[key] = load()
    return value


def perform(key: Hashable, load: Callable[[], Any], item: bytes) -> Outcome:
    """Work on one item with what ``load`` returns: a function, and what it shares."""
    try:
        function, shared = recall(key, load)
        with single_blas_thread():
            given = pickle.loads(item)  # noqa: S301 - our own driver's
            return Outcome(function(shared, given))
    except Exception as error:
        return Outcome(error=_sendable(error))


def _sendable(error: Exception) -> Exception:
    """Return an error that survives the way to the driver."""
    try:
        same = type(pickle.loads(pickle.dumps(error))) is type(error)  # noqa: S301
    except Exception:
        same = False
    if same:
        return error
    return EngineError(f"A worker failed with {type(error).__name__}: {error}")
