"""What a tuning will do: everything that is decided before the first trial."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.errors import UnknownNameError, UsageError
from gelato.models.registry import facts_of, make, parameter_names
from gelato.parameters import SEARCHES, Parametrised
from gelato.splits import EdgeSplit
from gelato.training.validation import validation_metric
from gelato.tuning.searches import GridSearch, LineSearch, Search, make_search
from gelato.tuning.spaces import Space, parameter_of, space_of

# Trials of a free search where nothing else is said: it has no end of its own.
FREE_TRIALS = 20
_WARMUP_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Plan:
    """A search through the parameters of a model.

    Parameters
    ----------
    name : str
        Registered name of the model.
    search : {"line", "grid", "free"}
        How values are chosen.
    metric : str
        Validation value, larger is better.
    seed : int
        Seed of the model and of what is drawn.
    space : Space
        What is searched.
    fixed : dict
        All other parameters that are not left at their defaults.
    start : dict
        Where a line or a free search begins.
    """

    name: str
    search: str
    metric: str
    seed: int
    space: Space
    fixed: dict[str, Any]
    start: dict[str, Any]

    def make(self) -> Any:
        """Return a model at the beginning of the search, not fitted."""
        return make(self.name, **(self.fixed | self.start))

    def first_trials(self, most: int | None) -> list[dict[str, Any]]:
        """Return the trials that are known before any of them has run."""
        search = self.searching()
        if isinstance(search, GridSearch):
            return search.points[:most]
        if isinstance(search, LineSearch):
            return search.first_line()[:most]
        return [self.start]

    def searching(self) -> Search:
        """Return what proposes trials."""
        return make_search(self.search, self.space, self.start, self.seed)

    def trials(self, asked: int | None, seconds: float | None) -> int | None:
        """Return how many trials are allowed; None if the search ends by itself."""
        if asked is None and seconds is None and self.search == "free":
            return FREE_TRIALS
        return asked

    def warmup(self) -> int:
        """Return the epochs before a trial can be pruned."""
        every = _parameters(make(self.name, **self.fixed))
        return int(_WARMUP_SHARE * (every.get("epochs") or 0))

    def identity(self, split: EdgeSplit, *, prune: bool) -> dict[str, Any]:
        """Return what must be equal for a stored study to go on, as plain data."""
        model = make(self.name, **self.fixed)
        every = _parameters(model) or self.fixed
        rest = {k: v for k, v in every.items() if k not in self.space}
        return {
            "graph": graph_digest(split),
            "split": split.fingerprint,
            "model": self.name,
            "search": self.search,
            "metric": self.metric,
            "seed": self.seed,
            "space": self.space_dict(),
            "parameters": {name: _named(value) for name, value in rest.items()},
            "pruning": prune,
        }

    def space_dict(self) -> dict[str, Any]:
        """Return what may be tried, as plain data."""
        return {name: x.to_dict(self.search) for name, x in self.space.items()}


def make_plan(
    name: str,
    *,
    search: str = "line",
    metric: str = "prec@100%",
    seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    space: Mapping[str, Any] | None = None,
) -> Plan:
    """Decide what a tuning does; see :func:`gelato.tune` for the arguments.

    Raises
    ------
    UsageError, UnknownNameError
        If there is nothing to search, or a name or a value is wrong.
    """
    if search not in SEARCHES:
        raise UnknownNameError(
            f"There is no search called {search!r}.",
            hint=f"Searches: {', '.join(SEARCHES)}.",
        )
    validation_metric(metric)
    fixed = _fixed(name, metric, seed, dict(parameters or {}))
    found = space_of(name, search, parameters or {}, space)
    model = make(name, **fixed)
    if isinstance(model, Parametrised):
        model.check_parameters()
    start = {key: x.start(parameter_of(name, key).default) for key, x in found.items()}
    fixed = {key: value for key, value in fixed.items() if key not in found}
    seed = int(fixed.get("seed", seed))
    return Plan(name, search, metric, seed, found, fixed, start)


def check_budget(trials: int | None, seconds: float | None) -> None:
    """Raise unless a budget allows for something."""
    if trials is not None and trials < 1:
        raise UsageError(f"The number of trials is {trials}, but must be at least 1.")
    if seconds is not None and not seconds > 0:
        raise UsageError(f"The time budget is {seconds} s, but must be positive.")


def _fixed(name: str, metric: str, seed: int, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of all trials."""
    known = parameter_names(name)
    fixed = dict(facts_of(name).tuning_defaults)
    if "seed" in known:
        fixed["seed"] = seed
    if "metric" in known and _is_exact(parameter_of(name, "metric").default):
        # Epochs are selected by what trials are; networks keep to their authors' way.
        fixed["metric"] = metric
    return fixed | given


def _is_exact(metric: Any) -> bool:
    """Tell whether a metric ranks all pairs."""
    try:
        validation_metric(metric)
    except UnknownNameError:
        return False
    return True


def _parameters(model: Any) -> dict[str, Any]:
    """Return all parameters of a model; nothing is known of those of one's own."""
    return model.get_params() if isinstance(model, Parametrised) else {}


def _named(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return getattr(value, "__qualname__", None) or repr(value)


def graph_digest(split: EdgeSplit) -> str:
    """Return sixteen digits of the weights and attributes that trials see."""
    graph = split.graph
    parts: list[Any] = [] if graph.weights is None else [graph.weights]
    if graph.attributes is not None:
        found = graph.attributes
        sparse = sp.issparse(found)
        parts += [found.data, found.indices, found.indptr] if sparse else [found]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]
