"""What is known of a trial when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

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
