"""What networkx learns about this backend when it is imported itself: no arrays yet."""

from __future__ import annotations

from typing import Any

_FUNCTIONS = {
    "adamic_adar_index": "sums of one row of the graph at a time",
    "common_neighbor_centrality": "distances of one row of the graph at a time",
    "jaccard_coefficient": "common neighbours of one row of the graph at a time",
    "preferential_attachment": "products of degrees, one row at a time",
    "resource_allocation_index": "sums of one row of the graph at a time",
}


def get_info() -> dict[str, Any]:
    """Return what the entry point ``networkx.backend_info`` asks for."""
    return {
        "backend_name": "gelato",
        "project": "gelato-lp",
        "package": "gelato",
        "short_summary": "Link prediction indices of all candidate pairs at once.",
        "functions": {
            name: {"additional_docs": f"Computes {text}."}
            for name, text in _FUNCTIONS.items()
        },
    }
