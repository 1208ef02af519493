"""What a tuning found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from gelato.models.base import fitted
from gelato.models.registry import make
from gelato.splits import EdgeSplit
from gelato.tuning.trial import blind, seat

State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class TrialRecord:
    """One trial.

    Parameters
    ----------
    number : int
        From 0, in the order of trial.
    parameters : dict
        Those that are searched.
    value : float or None
        The validation value; of a pruned trial the best that it had reached.
    epochs : int or None
        Epochs of training; None where nothing is trained.
    seconds : float
        Time taken.
    state : {"complete", "pruned", "failed"}
        Only complete trials can be the best.
    reason : str
        Why it is not complete, or stopped early; empty otherwise.
    """

    number: int
    parameters: dict[str, Any]
    value: float | None
    epochs: int | None
    seconds: float
    state: State
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "number": self.number,
            "parameters": dict(self.parameters),
            "value": self.value,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "state": self.state,
            "reason": self.reason or None,
        }


def point(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what two trials share only if they have the same parameters."""
    return tuple(f"{name}={parameters[name]!r}" for name in sorted(parameters))


def best_of(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the complete trial with the largest value, the first of equals."""
    ran = [x for x in records if x.state == "complete" and x.value is not None]
    return max(ran, key=lambda x: (x.value, -x.number), default=None)


def table_of(records: Sequence[TrialRecord], names: Sequence[str]) -> pl.DataFrame:
    """Return trials as a table: number, one column per parameter, value, ..."""
    fixed: dict[str, Any] = {
        "value": pl.Float64,
        "epochs": pl.Int64,
        "seconds": pl.Float64,
        "state": pl.String,
        "reason": pl.String,
    }
    rows = [record.to_dict() for record in records]
    columns = {"number": pl.Series([row["number"] for row in rows], dtype=pl.Int64)}
    for name in names:
        columns[name] = pl.Series(
            [row["parameters"][name] for row in rows], strict=False
        )
    for name, kind in fixed.items():
        columns[name] = pl.Series([row[name] for row in rows], dtype=kind)
    return pl.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best parameters that were found, and what they were found among.

    Parameters
    ----------
    name : str
        Registered name of the model.
    parameters : dict
        Parameters of the best trial, with those that were fixed: ``gelato.make(name,
        **parameters)`` fitted on the same split is the best model.
    best : TrialRecord
        The best trial.
    trials : polars.DataFrame
        One row per trial: ``number``, one column for each parameter that was searched,
        ``value``, ``epochs``, ``seconds``, ``state`` ("complete", "pruned" or
        "failed") and ``reason``.
    records : list of TrialRecord
        The same as objects.
    search, metric, seed
        How trials were chosen, measured and seeded.
    seconds : float
        Time of this run.
    """

    name: str
    parameters: dict[str, Any]
    best: TrialRecord
    trials: pl.DataFrame
    records: list[TrialRecord]
    search: str
    metric: str
    seed: int
    seconds: float
    _split: EdgeSplit = field(repr=False)
    _kept: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def value(self) -> float:
        """Validation value of the best trial."""
        assert self.best.value is not None
        return self.best.value

    @property
    def is_fitted(self) -> bool:
        """Whether the best model is at hand; else :attr:`model` fits it again."""
        return "model" in self._kept

    @property
    def model(self) -> Any:
        """The best model, fitted on the split.

        A trial of an earlier run is fitted again, to the same bits.
        """
        if "model" not in self._kept:
            model = fitted(self.make(), blind(self._split))
            self._kept["model"] = seat(model, self._split)
        return self._kept["model"]

    def make(self) -> Any:
        """Return a new model with the best parameters, not fitted."""
        return make(self.name, **self.parameters)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: everything but the model itself."""
        return {
            "model": self.name,
            "parameters": dict(self.parameters),
            "search": self.search,
            "metric": self.metric,
            "value": self.value,
            "seed": self.seed,
            "seconds": self.seconds,
            "best": self.best.number,
            "trials": [record.to_dict() for record in self.records],
        }


class TuningInterrupted(KeyboardInterrupt):
    """Ctrl-C during a tuning; ``tuned`` is what the finished trials gave, if any."""

    def __init__(self, tuned: Tuned | None) -> None:
        super().__init__()
        self.tuned = tuned
