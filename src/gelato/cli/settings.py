"""From options to a model with its parameters."""

from __future__ import annotations

from typing import Any

from gelato.errors import UsageError


def assignments(given: list[str] | None, option: str, form: str) -> dict[str, str]:
    """Return options of the form NAME=VALUE as a dictionary."""
    pairs = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} {item} is not of the form {form}.")
        pairs[name.strip()] = value.strip()
    return pairs


def make_model(name: str, given: list[str] | None) -> Any:
    """Return a model by name with the settings of ``--set``."""
    from gelato.models.registry import make, model_class

    settings = {
        key: _value(text)
        for key, text in assignments(given, "--set", "NAME=VALUE").items()
    }
    defaults: Any = getattr(model_class(name), "parameter_defaults", dict)
    known: dict[str, Any] = defaults()
    for key, value in settings.items():
        _check_type(name, key, value, known.get(key))
    return make(name, **settings)


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


def _check_type(model: str, name: str, value: Any, default: Any) -> None:
    """Refuse a value of another type than the default's, if that has one."""
    words = {bool: "true or false", int: "a whole number", float: "a number"}
    kind = type(default)
    if kind not in words or value is None or type(value) is kind:
        return
    if kind is float and type(value) is int:
        return
    raise UsageError(
        f"The parameter {name} of {model} is {words[kind]}, not {value!r}.",
        hint=f"Its default is {default!r}.",
    )


def describe_model(name: str, model: Any) -> dict[str, Any]:
    """Return a model's name and all of its parameters."""
    parameters = model.get_params() if hasattr(model, "get_params") else {}
    return {"name": name, "parameters": parameters}


def model_title(name: str, model: Any) -> str:
    """Return a model's name with its parameters, for people."""
    parameters = describe_model(name, model)["parameters"]
    listed = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    return f"{name} ({listed})" if listed else name
