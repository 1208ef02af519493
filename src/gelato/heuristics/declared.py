"""How a heuristic says what it is, in the file in which it stands.

A heuristic is a function from a graph (and keyword parameters) to a scorer of rows,
with the decorator :func:`heuristic` on it. That is all: the registry finds it, and
:mod:`gelato.models.heuristic` makes a model of it.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from gelato.parameters import Parameter

Made = TypeVar("Made", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Declared:
    """What is known of a heuristic.

    Parameters
    ----------
    name : str
        What people call it by.
    summary : str
        What it is, in a few words.
    kind : str
        What it looks at: topology, or attributes.
    undirected, attributes : bool
        Whether it needs an undirected graph, and node attributes.
    parameters : dict of Parameter
        Those that its function takes, with their ranges and defaults.
    search_space : dict
        Values that a tuning tries.
    function : callable, optional
        From a graph to a scorer.
    """

    name: str
    summary: str
    kind: str = "topology"
    undirected: bool = False
    attributes: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    search_space: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Listed:
    """A heuristic as the text of its file tells it: enough for a list of names."""

    name: str
    summary: str
    kind: str
    module: str
    function: str

    @property
    def class_name(self) -> str:
        """The name of its model: common_neighbours is CommonNeighbours."""
        return class_name(self.function)


def class_name(function: str) -> str:
    """Return a function's name as that of a class."""
    return function.title().replace("_", "")


_BY_FUNCTION: dict[Any, Declared] = {}


def heuristic(
    name: str,
    summary: str,
    *,
    kind: str = "topology",
    undirected: bool = False,
    attributes: bool = False,
    parameters: Mapping[str, Any] | None = None,
    search_space: Mapping[str, Any] | None = None,
) -> Callable[[Made], Made]:
    """Declare a function as a heuristic (a decorator); see :class:`Declared`.

    ``name``, ``summary`` and ``kind`` are written as plain texts: lists of names are
    made from the text of the files, without importing them. ``parameters`` are ranges
    of :mod:`gelato.parameters`; the defaults are those of the function.
    """

    def declare(function: Made) -> Made:
        ranges, defaults = parameters or {}, function.__kwdefaults__ or {}
        _BY_FUNCTION[function] = Declared(
            name,
            summary,
            kind,
            undirected,
            attributes,
            {
                key: replace(ranges.get(key, Parameter(None)), default=default)
                for key, default in defaults.items()
            },
            dict(search_space or {}),
            function,
        )
        return function

    return declare


def declared(function: Callable[..., Any]) -> Declared:
    """Return what a function with the decorator declares."""
    return _BY_FUNCTION[function]


def load(listed: Listed) -> Declared:
    """Import the file of a heuristic, and return what it declares."""
    return declared(getattr(importlib.import_module(listed.module), listed.function))


@cache
def listed() -> dict[str, Listed]:
    """Return the heuristics of this folder by name, in the order of their files.

    From the text of the files: importing them would load compilers, and names are
    asked for by ``gelato list`` and every ``--help``.
    """
    found = [one for path in _files() for one in _read(path)]
    return {one.name: one for one in found}


def _files() -> list[Path]:
    import gelato.heuristics as folder

    return sorted(
        (path for place in folder.__path__ for path in Path(place).glob("*.py")),
        # The walks of the paper first, then whatever came later.
        key=lambda path: (path.stem != "walks", path.stem),
    )


def _read(path: Path) -> Iterator[Listed]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "heuristic":
                name, summary = (ast.literal_eval(given) for given in call.args)
                given = {x.arg: x.value for x in call.keywords}
                kind = (
                    ast.literal_eval(given["kind"]) if "kind" in given else "topology"
                )
                module = f"gelato.heuristics.{path.stem}"
                yield Listed(name, summary, kind, module, node.name)
