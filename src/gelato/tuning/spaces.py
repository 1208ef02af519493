"""What is searched: the parameters of every model, and the values to try.

One table. A model of one's own declares ``search_space`` as a class attribute, a
dictionary from parameters to tuples of values (or to :class:`Dimension`); a model with
neither is searched by those of its parameters that networks commonly have.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gelato.errors import UsageError
from gelato.models.registry import model_class, parameter_names

SearchName = Literal["line", "grid", "free"]
SEARCHES: tuple[SearchName, ...] = ("line", "grid", "free")
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Dimension:
    """A parameter's values to try.

    Parameters
    ----------
    values : tuple
        What a grid and a line search try, in this order.
    low, high : float, optional
        Ends of what a free search may draw, in place of ``values``.
    log : bool
        Draw the logarithm evenly.
    step : float, optional
        Distance of drawn values.
    searches : tuple of str
        Which searches look at this parameter.
    """

    values: tuple[Any, ...]
    low: float | None = None
    high: float | None = None
    log: bool = False
    step: float | None = None
    searches: tuple[str, ...] = SEARCHES

    @property
    def is_range(self) -> bool:
        """Whether a free search draws from a range."""
        return self.low is not None and self.high is not None

    @property
    def is_whole(self) -> bool:
        """Whether the parameter is a whole number."""
        return all(type(value) is int for value in self.values)

    def start(self, default: Any) -> Any:
        """Return where a search begins: the model's default, if it may be tried."""
        known = any(type(x) is type(default) and x == default for x in self.values)
        return default if known else self.values[0]

    def tidy(self, value: Any) -> Any:
        """Return a drawn value without the noise of adding up steps."""
        stepped = self.step is not None and isinstance(value, float)
        return round(value, 10) if stepped else value

    def to_dict(self, search: str) -> dict[str, Any]:
        """Return what a search may try, as plain data."""
        if search == "free" and self.is_range:
            ends = {"low": self.low, "high": self.high}
            return {**ends, "log": self.log, "step": self.step}
        return {"values": list(self.values)}


Space = dict[str, Dimension]

# The paper tunes these three by a grid (section "Hyperparameters").
_ETA = Dimension((0.0, 0.25, 0.5, 0.75, 1.0), 0.0, 1.0, step=0.05)
_ALPHA = Dimension((0.0, 0.25, 0.5, 0.75), 0.0, 0.95, step=0.05)
_BETA = Dimension((0.25, 0.5, 0.75, 1.0), 0.05, 1.0, step=0.05)
# The paper puts loops on all nodes of two graphs; it does not say how that was chosen.
_LOOPS = Dimension(("isolated", "all"))
_LOOPS_AFTER = Dimension(("isolated", "all"), searches=("line", "free"))
_WALK = Dimension((3, 2, 4))
_WALK_FREE = Dimension((3, 2, 4), searches=("free",))

_LR = Dimension((0.001, 0.0003, 0.003, 0.01), 1e-4, 3e-2, log=True)
_DROPOUT = Dimension((0.5, 0.0, 0.25), 0.0, 0.8, step=0.05)
_DECAY = Dimension((0.0, 1e-4, 1e-3))
_WIDTH = Dimension((32, 64, 128, 256), searches=("line", "free"))
_NETWORK_LR = Dimension((0.01, 0.001, 0.005, 0.02), 5e-4, 5e-2, log=True)
_SUBGRAPH_LR = Dimension((0.0001, 0.001, 0.01), 2e-5, 2e-2, log=True)


def _free(dimension: Dimension) -> Dimension:
    """Return a dimension for free search only: the paper keeps this one fixed."""
    return replace(dimension, searches=("free",))


# In the order of a line search. Networks: around what their authors give (their
# learning rates reach from 0.001 to 0.01, widths from 16 to 256).
SPACES: dict[str, Space] = {
    "ac": {"t": _WALK, "self_loops": _LOOPS},
    "cos+ac": {"eta": _ETA, "alpha": _ALPHA, "self_loops": _LOOPS, "t": _WALK_FREE},
    "mlp": {"lr": _LR, "dropout": _DROPOUT, "hidden": _WIDTH},
    "mlp+ac": {
        "alpha": _ALPHA,
        "self_loops": _LOOPS,
        "lr": _free(_LR),
        "dropout": _free(_DROPOUT),
    },
    "mlp+cos+ac": {
        "eta": _ETA,
        "alpha": _ALPHA,
        "beta": _BETA,
        "self_loops": _LOOPS_AFTER,
        "lr": _free(_LR),
        "dropout": _free(_DROPOUT),
    },
    "gelato": {
        "eta": _ETA,
        "alpha": _ALPHA,
        "beta": _BETA,
        "self_loops": _LOOPS_AFTER,
        "lr": _free(_LR),
        "dropout": _free(_DROPOUT),
        "t": _WALK_FREE,
    },
    "gae": {
        "lr": _NETWORK_LR,
        "hidden": Dimension((32, 16, 64, 128)),
        "dimensions": Dimension((16, 32, 64)),
        "variational": Dimension((True, False), searches=("line", "free")),
        "normalise": Dimension((False, True), searches=("line", "free")),
    },
    "hgcn": {
        "lr": _NETWORK_LR,
        "dropout": _DROPOUT,
        "weight_decay": Dimension((1e-3, 0.0, 1e-4)),
        "dimensions": Dimension((16, 32, 64), searches=("line", "free")),
    },
    "lgcn": {
        "lr": _NETWORK_LR,
        "dropout": _DROPOUT,
        "weight_decay": _DECAY,
        "dimensions": Dimension((64, 16, 32), searches=("line", "free")),
        "activation": Dimension(("relu", "elu"), searches=("line", "free")),
    },
    "bscnets": {
        "lr": _NETWORK_LR,
        "dropout": _DROPOUT,
        "hidden": Dimension((64, 32, 128), searches=("line", "free")),
        "normalise": Dimension((True, False), searches=("line", "free")),
    },
    "tlc-gnn": {
        "lr": _NETWORK_LR,
        "dropout": _DROPOUT,
        "hidden": Dimension((100, 50, 200), searches=("line", "free")),
        "normalise": Dimension((True, False), searches=("line", "free")),
        "hide_target": Dimension((False, True), searches=("line", "free")),
    },
    "neo-gnn": {
        "lr": _NETWORK_LR,
        "dropout": Dimension((0.0, 0.1, 0.3), 0.0, 0.6, step=0.05),
        "weight_decay": Dimension((0.0, 1e-7, 1e-4)),
        "layers": Dimension((3, 1, 2), searches=("line", "free")),
        "hidden": Dimension((256, 64, 128), searches=("line", "free")),
    },
    "nbfnet": {
        "lr": Dimension((0.005, 0.001, 0.01), 5e-4, 2e-2, log=True),
        "layers": Dimension((6, 3, 4)),
        "dimensions": Dimension((32, 16, 64), searches=("line", "free")),
    },
    "seal": {
        "lr": _SUBGRAPH_LR,
        "hops": Dimension((1, 2, 3)),
        "features": Dimension(("none", "attributes")),
        "hidden": Dimension((32, 64, 256), searches=("line", "free")),
    },
    "walkpool": {
        "lr": Dimension((0.00005, 0.0005, 0.005), 2e-5, 2e-2, log=True),
        "hops": Dimension((2, 1)),
        "dropout": _DROPOUT,
        "hidden": Dimension((32, 16, 64), searches=("line", "free")),
    },
}
# For models that are not in the table.
_COMMON: Space = {
    "lr": _NETWORK_LR,
    "dropout": _DROPOUT,
    "weight_decay": _DECAY,
    "hidden": _WIDTH,
    "dimensions": Dimension((16, 32, 64), searches=("line", "free")),
}
# Networks rank all pairs now and then only; a short training needs it more often, or
# no trial could be pruned.
TUNING_DEFAULTS: dict[str, dict[str, Any]] = {"gae": {"validate_exact_every": 20}}


def space_of(
    name: str,
    search: str,
    fixed: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
) -> Space:
    """Return what a search looks at, in order, without the parameters that are fixed.

    Parameters
    ----------
    name : str
        Name of a model.
    search : {"line", "grid", "free"}
        Which parameters count depends on it.
    fixed : mapping
        Parameters that have their value.
    given : mapping, optional
        Values to try by parameter, in place of the model's own.
    """
    factory = model_class(name)
    known = parameter_names(factory)
    declared = given or getattr(factory, "search_space", None) or SPACES.get(name)
    if declared is None:
        declared = {key: value for key, value in _COMMON.items() if key in known}
    space = {key: _dimension(key, values) for key, values in declared.items()}
    if not space:
        _refuse_nothing(name, known)
    for key in space:
        if key not in known:
            raise UsageError(
                f"The model {name!r} has no parameter {key!r} to search.",
                hint=f"Its parameters are: {', '.join(known) or 'none'}.",
            )
    left = {
        key: dimension
        for key, dimension in space.items()
        if key not in fixed and search in dimension.searches
    }
    if not left:
        raise UsageError(
            f"Nothing is left to tune: {', '.join(space)} of {name!r} are fixed, or "
            f"not part of a {search} search.",
            hint="Fix fewer parameters, or name values to try.",
        )
    return left


def _refuse_nothing(name: str, known: Sequence[str]) -> None:
    if not known:
        raise UsageError(
            f"The model {name!r} has no parameters, so there is nothing to tune.",
            hint="Measure it as it is: gelato evaluate.",
        )
    raise UsageError(
        f"It is not known which values to try for {name!r}.",
        hint="Declare search_space = {parameter: (value, value, ...)} in its class, or "
        f"name values to try; its parameters are: {', '.join(known)}.",
    )


def _dimension(name: str, given: Any) -> Dimension:
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    made = Dimension(tuple(given)) if listed else given
    if not isinstance(made, Dimension) or not made.values:
        raise UsageError(
            f"The values to try for {name!r} are {given!r}.",
            hint=f"Give several, for example {name} = (1, 2, 3).",
        )
    for value in made.values:
        infinite = isinstance(value, float) and not math.isfinite(value)
        if not isinstance(value, _PLAIN) or infinite:
            raise UsageError(
                f"{value!r} cannot be tried for {name!r}: it is no plain value.",
                hint="Values are numbers, words, true, false or none.",
            )
    # 1, 1.0 and True are equal to a dictionary, and still three values to try.
    distinct = {repr(value): value for value in made.values}
    return replace(made, values=tuple(distinct.values()))


def parameter_default(name: str, parameter: str) -> Any:
    """Return a model's default of a parameter; None where there is none."""
    factory = model_class(name)
    default = inspect.signature(factory).parameters[parameter].default
    return None if default is inspect.Parameter.empty else default
