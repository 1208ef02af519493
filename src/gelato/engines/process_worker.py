"""The main loop of a worker process of this machine."""

from __future__ import annotations

import mmap
import os
import pickle
import shutil
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import parent_process
from pathlib import Path
from typing import Any

from gelato.engines.packing import Span, unpack
from gelato.engines.worker import be_a_worker, perform

# Seconds in which a driver that hung up because it died is seen to be dead.
_GRACE = 0.2


@dataclass(frozen=True)
class Message:
    """An item, and the file and layout of what it shares with others."""

    path: str
    spans: tuple[Span, ...]
    item: bytes


def serve(connection: Connection, folder: str) -> None:
    """Work on what comes in until the driver hangs up."""
    # Ctrl-C reaches every process of a terminal; the driver alone decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    be_a_worker()
    threading.Thread(target=_follow_driver, args=(folder,), daemon=True).start()
    while True:
        try:
            message: Message = connection.recv()
        except (EOFError, OSError):
            _tidy_up(folder)
            return
        outcome = perform(message.path, lambda m=message: _load(m), message.item)  # type: ignore[misc]
        try:
            connection.send_bytes(pickle.dumps(outcome, protocol=5))
        except OSError:  # it died while this worked for it
            _tidy_up(folder)
            return


def _load(message: Message) -> Any:
    with Path(message.path).open("rb") as file:
        # Copy-on-write: shared as long as nobody writes, and nobody can harm others.
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return unpack(memory, message.spans)


def _follow_driver(folder: str) -> None:
    """End with the driver, even in the middle of an item, and tidy up after it."""
    driver = parent_process()
    if driver is not None:
        driver.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def _tidy_up(folder: str) -> None:
    """Remove what a dead driver left: the thread above ends with this process."""
    driver = parent_process()
    if driver is not None:
        driver.join(_GRACE)
        if not driver.is_alive():
            shutil.rmtree(folder, ignore_errors=True)
