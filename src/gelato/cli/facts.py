"""Facts about a graph that tell whether it was read as it was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gelato.graph import Graph


def graph_facts(graph: Graph) -> dict[str, Any]:
    """Return sizes, degrees and components as plain data."""
    import numpy as np
    from scipy.sparse.csgraph import connected_components

    neighbours = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)
    parts, member = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(member, minlength=max(parts, 1))
    facts: dict[str, Any] = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "directed": graph.directed,
        "weighted": graph.is_weighted,
        "times": graph.times is not None,
        "attributes": graph.num_attributes,
        "pairs": graph.num_pairs,
        "density": graph.num_edges / max(graph.num_pairs, 1),
        "isolated": int(np.count_nonzero(neighbours == 0)),
        "components": int(parts),
        "largest_component": int(sizes.max()) if graph.num_nodes else 0,
        "degree": None,
    }
    if graph.num_nodes:
        hub = int(np.argmax(neighbours))
        facts["degree"] = {
            "min": int(neighbours.min()),
            "median": float(np.median(neighbours)),
            "mean": float(neighbours.mean()),
            "max": int(neighbours.max()),
            "max_node": str(graph.node_ids[hub]),
        }
    return facts
