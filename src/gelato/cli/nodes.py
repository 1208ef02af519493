"""Node ids as they are typed: always text, while a graph's ids may be numbers."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from gelato.errors import InputError

if TYPE_CHECKING:
    from gelato.graph import Graph


def node_of(graph: Graph, text: str) -> Hashable:
    """Return the id of a graph that is written like this, or suggest near ones."""
    from gelato.graph.ids import unknown_node

    tries: list[Hashable] = [text]
    with suppress(ValueError):
        tries.append(int(text))
    index = next((found for x in tries if (found := graph.find(x)) is not None), None)
    if index is None:
        written = [str(node) for node in graph.node_ids.tolist()]
        # Two ids may be written alike; then the type of neither can be told.
        if written.count(text) == 1:
            index = written.index(text)
        else:
            raise InputError(
                unknown_node(tries[-1], graph.node_ids),
                hint="Write an id as your files do; in quotes if it has spaces.",
            )
    return cast(Hashable, graph.node_ids[index : index + 1].tolist()[0])
