"""The ranges of the parameters of trained models, checked before any work is done."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gelato.errors import InputError, UnknownNameError, UsageError
from gelato.nn.losses import LOSSES
from gelato.splits import EdgeSplit
from gelato.training.enhanced_scorers import HEURISTICS
from gelato.training.negatives import SAMPLERS
from gelato.training.validation import validation_metric

# Smallest value of every whole number.
_WHOLE = {
    "t": 1,
    "hidden": 1,
    "chunk": 2,
    "epochs": 1,
    "batches": 1,
    "validate_every": 1,
    "seed": 0,
    "patience": 1,
    "threads": 1,
}
_OPTIONAL = ("patience", "threads", "near_rate")
# What every other number must be.
_NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "eta": (lambda x: x >= 0, "0 or larger"),
    "alpha": (lambda x: 0 <= x <= 1, "from 0 to 1"),
    "beta": (lambda x: 0 <= x <= 1, "from 0 to 1"),
    "dropout": (lambda x: 0 <= x < 1, "at least 0 and below 1"),
    "lr": (lambda x: x > 0, "above 0"),
    "valid": (lambda x: 0 < x < 1, "above 0 and below 1"),
    "near_rate": (lambda x: 0 < x <= 1, "above 0 and at most 1"),
}
# Parameters that are names, and the names.
_NAMES: dict[str, Iterable[str]] = {
    "loss": LOSSES,
    "training": SAMPLERS,
    "heuristic": HEURISTICS,
    "negatives": ("auto", "all", "near"),
    "masking": ("both", "one-sided"),
    "self_loops": ("isolated", "all"),
}


def check_gelato(parameters: dict[str, Any]) -> None:
    """Raise unless every parameter of Gelato is in its range."""
    check_ranges(parameters)
    if not callable(parameters["similarity"]):
        _known("similarity", parameters["similarity"], ("cosine",))
    if parameters["heuristic"] == "mixture" and parameters["t"] != 3:
        raise UsageError(
            f"The mixture of heuristics walks 3 steps, and t is {parameters['t']}.",
            hint='Leave t at 3, or use heuristic="ac".',
        )
    _check_near(parameters)


# What training on near and far negatives rests on: far scores known from degrees
# alone, and a loss whose sum over negatives a sample of them can stand for.
_NEAR_NEEDS = {
    "loss": "n-pair",
    "training": "unbiased",
    "heuristic": "ac",
    "masking": "both",
}


def _check_near(parameters: dict[str, Any]) -> None:
    if parameters["negatives"] == "all" and parameters["near_rate"] is not None:
        raise UsageError(
            f"near_rate is {parameters['near_rate']!r}, but all negatives are asked "
            "for.",
            hint='Use negatives="near", or leave near_rate out.',
        )
    if parameters["negatives"] != "near":
        return
    for name, needed in _NEAR_NEEDS.items():
        if parameters[name] != needed:
            raise UsageError(
                f'negatives="near" needs {name}="{needed}", and it is '
                f"{parameters[name]!r}.",
                hint=f'Leave {name} at "{needed}", or use negatives="all".',
            )


def check_ranges(
    parameters: dict[str, Any], *, optional: tuple[str, ...] = _OPTIONAL
) -> None:
    """Raise unless every parameter that trained models share is in its range.

    Parameters
    ----------
    parameters : dict
        Those that a model has; unknown ones are left to the model.
    optional : tuple of str
        Which may be ``None``.
    """
    for name, value in parameters.items():
        if value is None and name in optional:
            continue
        if name in _WHOLE:
            _check_whole(name, value)
        elif name in _NUMBERS:
            _check_number(name, value)
        elif name in _NAMES:
            _known(name, value, _NAMES[name])
        elif name == "metric":
            validation_metric(value)


def _check_whole(name: str, value: Any) -> None:
    if not _is(value, int | np.integer) or value < _WHOLE[name]:
        raise UsageError(
            f"{name} is {value!r}, but must be a whole number of at least "
            f"{_WHOLE[name]}."
        )


def _check_number(name: str, value: Any) -> None:
    allows, expected = _NUMBERS[name]
    number = _is(value, int | float | np.number) and math.isfinite(value)
    if not number or not allows(value):
        raise UsageError(f"{name} is {value!r}, but must be a number {expected}.")


def check_split(split: EdgeSplit, batches: int) -> None:
    """Raise unless a split can be trained on."""
    if len(split.train) < batches:
        raise InputError(
            f"There are {len(split.train)} training edges, too few for {batches} "
            "batches.",
            hint="Use fewer batches, or give more edges.",
        )
    if not len(split.valid):
        raise InputError(
            "The validation part of the split is empty, so no epoch can be chosen.",
            hint="Hold out some edges: split_edges(graph, valid=0.05); a small graph "
            "fitted as it is needs a larger share, valid=0.2.",
        )


def _is(value: Any, kinds: Any) -> bool:
    """Tell whether a value is of some kind; True and False are not numbers."""
    return isinstance(value, kinds) and not isinstance(value, bool)


def _known(parameter: str, value: Any, names: Iterable[str]) -> None:
    listed = list(names)
    if value not in listed:
        near = difflib.get_close_matches(str(value), listed, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(
            f"{parameter} is {value!r}, which is not known.{meant}",
            hint=f"Known: {', '.join(listed)}.",
        )
