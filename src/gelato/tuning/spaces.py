"""What a search tries: values that a model's class names, or those that are given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, runtime_checkable

from gelato.errors import UsageError
from gelato.models.registry import model_class
from gelato.parameters import Dimension, Parameter, parameters_of, unlisted

SearchName = Literal["line", "grid", "free"]
_PLAIN = (str, int, float, bool, type(None))

Space = dict[str, Dimension]

# For models that do not say what to try, by usual names of parameters.
_COMMON: Space = {
    "lr": Dimension((0.01, 0.001, 0.005, 0.02), 5e-4, 5e-2, log=True),
    "dropout": Dimension((0.5, 0.0, 0.25), 0.0, 0.8, step=0.05),
    "weight_decay": Dimension((0.0, 1e-4, 1e-3)),
    "hidden": unlisted(32, 64, 128, 256),
    "dimensions": unlisted(16, 32, 64),
}


@runtime_checkable
class Searchable(Protocol):
    """A class that says what to try."""

    search_space: Mapping[str, Dimension | Sequence[Any]]


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
    factory: Any = model_class(name)
    known = list(parameters_of(factory))
    own: Mapping[str, Any] = {}
    if isinstance(factory, Searchable):
        own = factory.search_space
    usual = {key: value for key, value in _COMMON.items() if key in known}
    declared = given or own or usual
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


def parameter_of(name: str, parameter: str) -> Parameter:
    """Return what a model declares of a parameter."""
    return parameters_of(model_class(name))[parameter]
