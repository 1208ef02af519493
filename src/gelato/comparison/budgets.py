"""The same tuning budget for every model of a comparison."""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gelato.errors import UsageError
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
        trials = None if self.trials is None else f"{self.trials} trials"
        seconds = None if self.seconds is None else f"{self.seconds:g} s"
        return " or ".join(part for part in (trials, seconds) if part is not None)

    def spend(self, model: Any, split: EdgeSplit, threads: int | None) -> Tuned:
        """Choose a model's parameters by the validation edges of a split."""
        started = time.perf_counter()
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
            threads=threads,
        )
        return Tuned(self, dict(found.parameters), time.perf_counter() - started)


@dataclass(frozen=True)
class Tuned:
    """What a budget found; no parameters where a model has none to choose."""

    budget: Budget
    parameters: dict[str, Any]
    seconds: float

    def applied(self, run: Run) -> Run:
        """Return a run with these parameters, under its own seed."""
        chosen = {k: v for k, v in self.parameters.items() if k != "seed"}
        if not chosen:
            return run
        model = copy.copy(run.model).set_params(**chosen)
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
    """Tell whether a model is known by name and has parameters besides its seed."""
    from gelato.models.registry import model_names

    if getattr(model, "name", None) not in model_names():
        return False
    return bool(set(model.parameter_defaults()) - {"seed"})
