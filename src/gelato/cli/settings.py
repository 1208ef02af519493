"""From options to a model with its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from gelato.cli.options import ModelOptions
from gelato.errors import UsageError

# The models that people compare by parameters have few; others list what was changed.
_MOST_LISTED = 4


def assignments(given: list[str] | None, option: str, form: str) -> dict[str, str]:
    """Return options of the form NAME=VALUE as a dictionary."""
    pairs = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} {item} is not of the form {form}.")
        pairs[name.strip()] = value.strip()
    return pairs


def whole_numbers(text: str, option: str) -> list[int]:
    """Return a list of whole numbers, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(
            f"{option} {text} is not a list of whole numbers.",
            hint=f"For example: {option} 1,2,3",
        )
    return list(dict.fromkeys(int(part) for part in parts))


def make_model(name: str, options: ModelOptions) -> Any:
    """Return a model with the parameters of ``--preset``, ``--set`` and ``--seed``."""
    from gelato.models.registry import make, model_class

    given = {
        key: _value(text)
        for key, text in assignments(options.settings, "--set", "NAME=VALUE").items()
    }
    known = inspect.signature(model_class(name)).parameters
    for key, value in given.items():
        if key in known:
            _check_type(name, known[key], value)
    chosen = _preset(name, options.preset) | _seed(options.seed, given, known)
    return make(name, **(chosen | given))


def _preset(name: str, chosen: str | None) -> dict[str, Any]:
    """Return the parameters of a preset."""
    if chosen is None:
        return {}
    from gelato.models.presets import has_presets, preset

    if not has_presets(name):
        raise UsageError(
            f"There are no presets for {name!r}: the paper gives it no parameters.",
            hint="Leave out --preset, or choose --model gelato.",
        )
    return preset(chosen, name)


def _seed(
    seed: int | None, given: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the seed, 1 where a model has one and none is given, as in the paper."""
    if seed is not None and "seed" in given:
        raise UsageError(
            "--seed and --set seed say the same.", hint="Leave one of them out."
        )
    if seed is None:
        return {"seed": 1} if "seed" in known else {}
    return {"seed": seed}


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_type(model: str, parameter: inspect.Parameter, value: Any) -> None:
    """Refuse a value of another type than the parameter's, if that is a plain one."""
    words = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    kinds = {part.strip() for part in str(parameter.annotation).split("|")}
    plain = kinds - {"None"}
    if value is None:
        fits = "None" in kinds
    elif not plain <= {*words, "str"}:
        # A choice of texts; what only code can give has no text as its default.
        fits = isinstance(value, str) and isinstance(parameter.default, str)
    else:
        fits = bool(plain & {type(value).__name__}) or (
            type(value) is int and "float" in plain
        )
    if fits:
        return
    expected = " or ".join(words[kind] for kind in sorted(plain & set(words)))
    told = f"is {expected}" if expected else "takes no such value here"
    raise UsageError(
        f"The parameter {parameter.name} of {model} {told}, not {value!r}.",
        hint=f"Its default is {parameter.default!r}.",
    )


def describe_model(name: str, model: Any) -> dict[str, Any]:
    """Return a model's name and all of its parameters."""
    parameters = model.get_params() if hasattr(model, "get_params") else {}
    return {"name": name, "parameters": parameters}


def model_title(name: str, model: Any) -> str:
    """Return a model's name with its parameters, for people."""
    parameters = describe_model(name, model)["parameters"]
    if len(parameters) > _MOST_LISTED:
        defaults = model.parameter_defaults()
        parameters = {k: v for k, v in parameters.items() if v != defaults[k]}
    listed = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    return f"{name} ({listed})" if listed else name
