"""From options to a model with its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from gelato.models.registry import make, parameter_names

    given = {
        key: _value(text)
        for key, text in assignments(options.settings, "--set", "NAME=VALUE").items()
    }
    known = parameter_names(name)
    chosen = _preset(name, options.preset) | _seed(options.seed, given, known)
    return make(name, **(chosen | given))


def _preset(name: str, chosen: str | None) -> dict[str, Any]:
    """Return the parameters of a preset."""
    if chosen is None:
        return {}
    from gelato.models.registry import has_presets, preset

    if not has_presets(name):
        raise UsageError(
            f"There are no presets for {name!r}: the paper gives it no parameters.",
            hint="Leave out --preset, or choose --model gelato.",
        )
    return preset(chosen, name)


def _seed(
    seed: int | None, given: Mapping[str, Any], known: Sequence[str]
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


def describe_model(name: str, model: Any) -> dict[str, Any]:
    """Return a model's name and all of its parameters."""
    from gelato.parameters import Parametrised

    parameters = model.get_params() if isinstance(model, Parametrised) else {}
    return {"name": name, "parameters": parameters}


def model_title(name: str, model: Any) -> str:
    """Return a model's name with its parameters, for people."""
    parameters = describe_model(name, model)["parameters"]
    if len(parameters) > _MOST_LISTED:
        defaults = model.parameter_defaults()
        parameters = {k: v for k, v in parameters.items() if v != defaults[k]}
    listed = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    return f"{name} ({listed})" if listed else name
