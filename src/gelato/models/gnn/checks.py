"""The ranges of the networks' parameters, checked before any work is done."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gelato.errors import UnknownNameError, UsageError
from gelato.models.gnn.features import FEATURES
from gelato.models.gnn.task import LAST, SAMPLED
from gelato.training.validation import validation_metric

# Smallest value of every whole number.
_WHOLE = {
    "hidden": 1,
    "dimensions": 1,
    "layers": 1,
    "edge_units": 1,
    "pair_units": 1,
    "simplex_units": 1,
    "simplex_dimensions": 1,
    "sampled_edges": 1,
    "batch_size": 1,
    "hops": 1,
    "max_nodes": 2,
    "steps": 1,
    "pretraining": 1,
    "units": 1,
    "epochs": 1,
    "batches": 1,
    "validate_every": 1,
    "validate_exact_every": 1,
    "patience": 1,
    "seed": 0,
}
_OPTIONAL = ("patience", "validate_exact_every", "max_nodes", "steps")
# What every other number must be.
_NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "dropout": (lambda x: 0 <= x < 1, "at least 0 and below 1"),
    "lr": (lambda x: x > 0, "above 0"),
    "weight_decay": (lambda x: x >= 0, "0 or larger"),
    "valid": (lambda x: 0 < x < 1, "above 0 and below 1"),
    "beta": (lambda x: x >= 0, "0 or larger"),
    "curvature": (lambda x: x > 0, "above 0"),
}
_CHOICES = {
    "training": ("biased", "unbiased"),
    "loss": ("cross-entropy", "balanced", "n-pair"),
    "negatives": ("weighted", "redrawn", "fixed"),
    "activation": ("relu", "elu"),
}
_FLAGS = ("normalise", "variational", "trainable_curvature", "hide_target")


def check_gnn(
    parameters: dict[str, Any], *, features: tuple[str, ...] = FEATURES
) -> None:
    """Raise unless every parameter of a network is in its range.

    ``features`` are the kinds that the network knows.
    """
    choices = _CHOICES | {"features": features}
    for name, value in parameters.items():
        if value is None and (name in _OPTIONAL or name == "masking"):
            continue
        if name in _WHOLE:
            _check_whole(name, value)
        elif name in _NUMBERS:
            _check_number(name, value)
        elif name in choices:
            _check_choice(name, value, choices[name])
        elif (name in _FLAGS or name == "masking") and not isinstance(value, bool):
            raise UsageError(f"{name} is {value!r}, but must be true or false.")
    if parameters["metric"] not in (*SAMPLED, LAST):
        _check_metric(parameters["metric"])


def _check_whole(name: str, value: Any) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < _WHOLE[name]:
        raise UsageError(
            f"{name} is {value!r}, but must be a whole number of at least "
            f"{_WHOLE[name]}."
        )


def _check_number(name: str, value: Any) -> None:
    allows, expected = _NUMBERS[name]
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not allows(value):
        raise UsageError(f"{name} is {value!r}, but must be a number {expected}.")


def _check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(
            f"{name} is {value!r}, which is not known.{meant}",
            hint=f"Known: {', '.join(known)}.",
        )


def _check_metric(name: Any) -> None:
    try:
        validation_metric(name)
    except UnknownNameError as error:
        own = ", ".join((*SAMPLED, LAST))
        raise UnknownNameError(
            error.problem, hint=f"{error.hint} Or: {own}."
        ) from error
