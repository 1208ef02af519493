"""A training that ends when its time is up."""

from __future__ import annotations

from time import monotonic
from typing import Any

from gelato.training.loop import StopTraining

_TIMED_STEPS = 3  # the first one also prepares and is not counted


class TimeLimit:
    """Callbacks for :func:`gelato.training.loop.train` that keep to a time limit.

    The last complete epoch counts. After a few steps it is known what an epoch takes:
    if not even the first one would end in time, the training ends at once.

    Parameters
    ----------
    until : float
        A time of :func:`time.monotonic`.
    batches : int
        Steps per epoch.
    validation_seconds : float
        What a validation takes, about.
    least_epochs : int
        End at once, too, if fewer epochs than this would fit.
    """

    def __init__(
        self,
        until: float,
        batches: int,
        *,
        validation_seconds: float = 0.0,
        least_epochs: int = 1,
    ) -> None:
        self.until, self.batches = until, batches
        self.validation_seconds, self.least_epochs = validation_seconds, least_epochs
        self.epoch_seconds: float | None = None
        self.epochs = 0
        self._steps = 0
        self._started = 0.0

    @property
    def fitting(self) -> float:
        """How many epochs fit into the time that is left, as far as is known."""
        if self.epoch_seconds is None:
            return float("inf")
        return max(0.0, self.until - monotonic()) / max(self.epoch_seconds, 1e-9)

    def on_step(self, epoch: int, batch: int) -> None:
        """Note a step; end a training that cannot finish an epoch in time."""
        now = monotonic()
        self._steps += 1
        if self._steps == 1:
            self._started = now
        elif self._steps == min(_TIMED_STEPS, self.batches):
            step = (now - self._started) / (self._steps - 1)
            self.epoch_seconds = step * self.batches + self.validation_seconds
            if self.fitting < self.least_epochs:
                raise StopTraining
        if now > self.until:
            raise StopTraining

    def on_epoch(self, entry: dict[str, Any], state: Any) -> None:
        """Note an epoch; end the training if another one would be late."""
        self.epochs = entry["epoch"]
        self.epoch_seconds = entry["seconds"]
        if monotonic() + self.epoch_seconds > self.until:
            raise StopTraining
