"""Where the time goes: seconds by named phase."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Adds up wall-clock seconds by phase.

    Examples
    --------
    >>> clock = Clock()
    >>> with clock("mlp"):
    ...     pass
    >>> list(clock.seconds)
    ['mlp']
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time the body as part of a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - started

    def lap(self) -> dict[str, float]:
        """Return the seconds by phase since the last lap, and start anew."""
        lap = {phase: round(seconds, 6) for phase, seconds in self.seconds.items()}
        self.seconds.clear()
        return lap
