"""One flat piece of memory for everything that items share.

Arrays are laid out side by side and come back as views, so that any number of workers
of a machine hold one copy of a graph. What is packed is only ever read by workers of
the same engine, never stored.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gelato.errors import UsageError

Bytes = npt.NDArray[np.uint8]
Span = tuple[int, int]
Dumps = Callable[..., bytes]

_ALIGN = 64


@dataclass(frozen=True, eq=False)
class Packed:
    """A value as pieces of bytes, and where each of them belongs.

    Parameters
    ----------
    pieces : tuple of bytes-like
        The value's description first, then its arrays.
    spans : tuple of (start, end)
        Their places; each starts at a multiple of 64 bytes.
    """

    pieces: tuple[Any, ...]
    spans: tuple[Span, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.spans[-1][1]

    def to_array(self) -> Bytes:
        """Return the flat memory as an array."""
        memory = np.zeros(self.size, dtype=np.uint8)
        for piece, (start, end) in zip(self.pieces, self.spans, strict=True):
            memory[start:end] = np.frombuffer(piece, dtype=np.uint8)
        return memory


def pack(value: Any, *, dumps: Dumps = pickle.dumps) -> Packed:
    """Take a value apart into a description and its arrays, without copying them.

    Parameters
    ----------
    value : object
        Anything that can be sent to another process.
    dumps : callable
        What describes it; a cluster's own also takes functions made on the fly.
    """
    arrays: list[pickle.PickleBuffer] = []
    try:
        described = dumps(value, protocol=5, buffer_callback=arrays.append)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"This work cannot be sent to other processes: {error}.",
            hint="Use the local engine, or define the scorer's functions and classes "
            "at the top of a module.",
        ) from error
    pieces: tuple[Any, ...] = (described, *(array.raw() for array in arrays))
    spans, at = [], 0
    for piece in pieces:
        start = -(-at // _ALIGN) * _ALIGN
        at = start + memoryview(piece).nbytes
        spans.append((start, at))
    return Packed(pieces, tuple(spans))


def unpack(memory: Any, spans: tuple[Span, ...]) -> Any:
    """Put a value together again; its arrays are views of the memory."""
    view = memoryview(memory)
    described, *arrays = (view[start:end] for start, end in spans)
    return pickle.loads(described, buffers=arrays)  # noqa: S301 - our own driver's


class _Writable:
    """Memory that is offered as if it could be written to."""

    def __init__(self, array: Bytes) -> None:
        self.array = array
        self.__array_interface__ = {
            **array.__array_interface__,
            "data": (array.__array_interface__["data"][0], False),
        }


def as_writable(array: Bytes) -> Bytes:
    """Return the same memory, not marked as read-only.

    Compiled kernels are made anew for read-only arrays, which takes many seconds.
    Nothing in a worker writes to what is shared.
    """
    return np.asarray(_Writable(array))
