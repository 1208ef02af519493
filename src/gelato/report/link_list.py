"""The predicted links of a report, each with the walks that explain it."""

from __future__ import annotations

import copy
from typing import Any

from gelato.explain import explain_pair
from gelato.explanation import Explanation
from gelato.report.plain import plain

_WALKS, _EDGES, _ATTRIBUTES = 6, 2, 3


def list_links(model: Any, top: int, threads: int | None) -> dict[str, Any]:
    """Return the best links with their evidence, and notes on all of them."""
    graph = model.graph_
    scorer = model.scorer(graph)
    # Explaining asks for the same scorer and enhanced graph every time: make them once.
    prepared = copy.copy(model)
    prepared.scorer = lambda _graph: scorer
    if hasattr(model, "enhanced"):
        enhanced = model.enhanced(graph)
        prepared.enhanced = lambda _graph: enhanced
    made = model.prediction(top=top, threads=threads)
    links = []
    for row in made.table.iter_rows(named=True):
        why = explain_pair(
            prepared,
            graph,
            row["source"],
            row["target"],
            top=_WALKS,
            top_edges=_EDGES,
            top_attributes=_ATTRIBUTES,
        )
        links.append({**plain(row), "why": short_explanation(why)})
    return {"links": links, "notes": list(made.notes)}


def short_explanation(why: Explanation) -> dict[str, Any]:
    """Return what a reader of a table wants to know of an explanation."""
    told: dict[str, Any] = plain(why.to_dict())
    kept = ("kind", "num_walks", "walk_score", "covered", "chance", "notes")
    return {
        **{name: told[name] for name in kept},
        "walks": told["walks"],
        "edges": [edge for edge in told["edges"] if edge["effects"]],
        "shared": told["shared"],
        "shared_rest": told["shared_rest"],
    }
