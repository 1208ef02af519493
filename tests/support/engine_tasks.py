"""What workers are asked to do in tests; they import it by its name."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
from pathlib import Path

import numpy as np

from gelato.engines.ray_cluster import pack, perform, unpack
from gelato.errors import InputError


def total(shared, item):
    """Sum a part of a shared array; it looks like any other array."""
    array = shared["array"]
    assert array.flags.writeable
    return float(array[item].sum())


def late(shared, item):
    """Return early items late."""
    time.sleep(0.2 if item == 0 else 0.0)
    return item


def refuse(shared, item):
    """Fail at one item, in the way that is asked for."""
    if item == 2:
        if shared == "gelato":
            raise InputError("The pair (1, 2) is odd.", hint="Fix it.")
        if shared == "odd":
            raise OddError("a", "b", "c")
        return 1 / 0
    return item


class OddError(Exception):
    """An error that cannot be sent: it cannot be made from its arguments."""

    def __init__(self, first, second, third):
        super().__init__(first)


class DieOnce:
    """Do something, but kill the process that does it the first time."""

    def __init__(self, function, marker: Path, at: int = 1):
        self.function, self.marker, self.at = function, marker, at

    def __call__(self, shared, item):
        """Die at the given call of the first process that gets that far."""
        self.at -= 1
        if self.at <= 0:
            # Only one process can make the file, so that only one dies.
            with contextlib.suppress(FileExistsError):
                self.marker.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return self.function(shared, item)


def die(shared, item):
    """Kill the worker, whoever it is."""
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """An engine one of whose workers is killed in the middle of its work."""

    def __init__(self, engine, marker: Path, maps: int = 1):
        self.engine, self.marker, self.maps = engine, marker, maps
        self.name, self.workers = engine.name, engine.workers

    def map(self, function, shared, items):
        """Map, and kill a worker in the given map."""
        self.maps -= 1
        if self.maps == 0:
            function = DieOnce(function, self.marker, at=2)
        return self.engine.map(function, shared, items)

    def close(self):
        """Leave the engine open."""


class PackedEngine:
    """One worker in this process: what is shared, items and errors are packed."""

    name, workers = "packed", 1

    def map(self, function, shared, items):
        """Map as a worker of a cluster does."""
        pieces, key = pack((function, shared)), object()
        for item in items:
            sent = pickle.dumps(item)
            yield perform(key, lambda: unpack(pieces), sent).get()

    def close(self):
        """Do nothing."""


class PlainScorer:
    """A scorer in plain Python, as a user may bring one."""

    def __init__(self, matrix):
        self.matrix = np.asarray(matrix)

    def score_rows(self, rows):
        """Return rows of the matrix."""
        return self.matrix[rows]
