"""The worker's side of the Ray engine, apart from its handshake."""

from __future__ import annotations

from typing import Any

import ray

from gelato.engines.packing import Span, as_writable, unpack
from gelato.engines.worker import Outcome, be_a_worker, perform


def work(ref: Any, spans: tuple[Span, ...], item: bytes) -> Outcome:
    """Work on an item with what lies in the object store.

    Parameters
    ----------
    ref : ray.ObjectRef
        The packed function and what it shares: fetched once per machine, and read by
        its workers where it lies.
    spans : tuple of (start, end)
        Its layout.
    item : bytes
        The packed item.
    """
    be_a_worker()
    return perform(ref.hex(), lambda: unpack(as_writable(ray.get(ref)), spans), item)
