"""Heuristics as models: nothing is learned, so fitting only keeps the graph.

What a heuristic is stands with its function in :mod:`gelato.heuristics`. Here each
becomes a class, named as its function is: ``common_neighbours`` is CommonNeighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from gelato.graph import Graph
from gelato.heuristics.declared import Declared, class_name, listed, load
from gelato.models.base import Model
from gelato.ranking.scorers import Noted, RowScorer


class Heuristic(Model):
    """A model that scores by a function of the graph and its parameters."""

    learns_nothing = True
    function: ClassVar[Callable[..., RowScorer]]
    arguments: ClassVar[tuple[str, ...]]

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        given = {name: getattr(self, name) for name in self.arguments}
        made = self.function(graph, **given)
        self.notes_ = made.notes if isinstance(made, Noted) else ()
        return made


def heuristic_class(facts: Declared) -> type[Heuristic]:
    """Return the model of a declared heuristic."""
    assert facts.function is not None
    body: dict[str, Any] = {
        **facts.parameters,
        "__module__": __name__,
        "__doc__": facts.function.__doc__,
        "name": facts.name,
        "summary": facts.summary,
        "undirected_only": facts.undirected,
        "needs_attributes": facts.attributes,
        "search_space": facts.search_space,
        "function": staticmethod(facts.function),
        "arguments": tuple(facts.parameters),
    }
    return type(class_name(facts.function.__name__), (Heuristic,), body)


def __getattr__(name: str) -> Any:
    known = {one.class_name: one for one in listed().values()}
    if name not in known:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = heuristic_class(load(known[name]))
    globals()[name] = made
    return made
