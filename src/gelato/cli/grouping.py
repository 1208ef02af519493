"""Options that several verbs share, as dataclasses.

typer reads options from a function's parameters. A parameter whose type is a
dataclass is replaced here by the fields of that dataclass, so that a set of options is
written once and arrives as one object.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function that typer understands, with dataclass parameters unfolded."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type] = {}
    unfolded: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            unfolded += _fields(kind)
        else:
            unfolded.append(_option(name, parameter.default, kind))

    def command(**given: Any) -> None:
        with ExitStack() as stack:
            for name, kind in groups.items():
                own = {field.name: given.pop(field.name) for field in fields(kind)}
                given[name] = options = kind(**own)
                # Options may ask for something around the whole command: an engine.
                if hasattr(options, "around"):
                    stack.enter_context(options.around())
            function(**given)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {item.name: item.annotation for item in unfolded}
    command.__signature__ = inspect.Signature(unfolded)  # type: ignore[attr-defined]
    return command


def _fields(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        _option(
            field.name,
            inspect.Parameter.empty if field.default is MISSING else field.default,
            hints[field.name],
        )
        for field in fields(kind)
    ]


def _option(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
