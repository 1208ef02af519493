"""The same tuning budget for every model of a comparison."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gelato.errors import UsageError
from gelato.models.base import Model
from gelato.models.registry import model_names
from gelato.splits import EdgeSplit

if TYPE_CHECKING:
    from gelato.comparison.runs import Run


@dataclass(frozen=True)
class Budget:
    """What every model may spend on every split, whichever ends first."""

    trials: int | None = None
    seconds: float | None = None

    @classmethod
    def given(cls, trials: int | None, seconds: float | None) -> Budget | None:
        """Return a budget, or ``None`` if neither is given."""
        if trials is None and seconds is None:
            return None
        if trials is not None and trials < 1:
            raise UsageError(f"{trials} trials are no budget: at least 1 is needed.")
        if seconds is not None and not 0 < seconds < float("inf"):
            raise UsageError(f"{seconds} seconds are no budget: more than 0 is needed.")
        return cls(trials, seconds)

    def __str__(self) -> str:
        many = "trial" if self.trials == 1 else "trials"
        trials = None if self.trials is None else f"{self.trials} {many}"
        seconds = None if self.seconds is None else f"{self.seconds:g} s"
        return " or ".join(part for part in (trials, seconds) if part is not None)

    def spend(
        self,
        model: Any,
        split: EdgeSplit,
        progress: Callable[[str, float, float], None] | None = None,
    ) -> Tuned:
        """Choose a model's parameters by the validation edges of a split.

        Parameters that differ from their defaults were chosen by somebody and stay.
        """
        if not is_tunable(model):
            return Tuned(self, {}, 0.0)
        from gelato.tuning import tune

        found = tune(
            model.name,
            split,
            search="free",
            trials=self.trials,
            seconds=self.seconds,
            seed=model.get_params().get("seed", 1),
            parameters=_fixed(model),
            progress=progress,
        )
        before, searched = model.get_params(), found.best.parameters
        chosen = {
            name: value
            for name, value in found.parameters.items()
            if name in searched or before[name] != value
        }
        return Tuned(self, chosen, found.seconds)


@dataclass(frozen=True)
class Tuned:
    """What a budget found; no parameters where a model has none to choose."""

    budget: Budget
    parameters: dict[str, Any]
    seconds: float

    def applied(self, run: Run) -> Run:
        """Return a run with these parameters, under its own seed."""
        if not self.parameters:
            return run
        model = copy.copy(run.model).set_params(**self.parameters)
        return dataclasses.replace(run, model=model)

    def to_dict(self) -> dict[str, Any]:
        """Return the columns that a budget adds to the table of runs."""
        tuned = bool(self.parameters)
        return {
            "budget": str(self.budget) if tuned else None,
            "parameters": json.dumps(self.parameters) if tuned else None,
            "tune_seconds": self.seconds,
        }


def is_tunable(model: Any) -> bool:
    """Tell whether a model is known by name and has parameters to choose."""
    from gelato.tuning.spaces import space_of

    if not isinstance(model, Model) or model.name not in model_names():
        return False
    try:
        return bool(space_of(model.name, "free", _fixed(model)))
    except UsageError:
        return False


def _fixed(model: Any) -> dict[str, Any]:
    defaults = model.parameter_defaults() | {"seed": None}
    given = {k: v for k, v in model.get_params().items() if k != "seed"}
    return {name: value for name, value in given.items() if value != defaults[name]}
