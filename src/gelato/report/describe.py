"""A graph as plain data: sizes, degrees, components, attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from gelato.graph import Graph
from gelato.ranking.places import bucket_name, degree_bucket_edges, neighbour_counts
from gelato.text import plural


def describe_graph(graph: Graph) -> dict[str, Any]:
    """Return sizes, components and degrees; degrees count neighbours, not weights."""
    neighbours = neighbour_counts(graph)
    sizes = np.bincount(graph.components)
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
        "components": len(sizes),
        "largest_component": int(sizes.max(initial=0)),
        "degree": None,
    }
    if graph.num_nodes:
        facts["degree"] = {
            "min": int(neighbours.min()),
            "median": float(np.median(neighbours)),
            "mean": float(neighbours.mean()),
            "max": int(neighbours.max()),
            "max_node": str(graph.node_ids[int(np.argmax(neighbours))]),
        }
    return facts


_LOST = {
    "self_loops": ("self-loop", "self-loops"),
    "zero_weights": ("edge of weight 0", "edges of weight 0"),
    "rows_without_id": ("row without an id", "rows without an id"),
}


def reading_text(reading: Mapping[str, Any] | None) -> str:
    """Return what reading a graph dropped and merged, in a sentence.

    Parameters
    ----------
    reading : mapping, optional
        ``graph.reading``: what a :class:`gelato.io.ReadReport` tells.

    Examples
    --------
    >>> reading_text({"edge_rows": 900, "self_loops": 20, "repeated_edges": 1})
    '900 rows were read: 20 self-loops were dropped, 1 repeated edge was merged.'
    """
    if not reading or "edge_rows" not in reading:
        return "What was dropped or merged when the graph was read is not recorded."
    rows = f"{plural(int(reading['edge_rows']), 'row')} were read"
    lost = [
        plural(number, *words)
        for name, words in _LOST.items()
        if (number := int(reading.get(name) or 0))
    ]
    merged = int(reading.get("repeated_edges") or 0)
    said = []
    if lost:
        one = len(lost) == 1 and lost[0].startswith("1 ")
        said.append(f"{' and '.join(lost)} {'was' if one else 'were'} dropped")
    if merged:
        verb = "was" if merged == 1 else "were"
        said.append(f"{plural(merged, 'repeated edge')} {verb} merged")
    if not said:
        return f"{rows}; nothing was dropped or merged."
    return f"{rows}: {', '.join(said)}."


def count_degrees(graph: Graph) -> list[dict[str, Any]]:
    """Return how many nodes have how many neighbours, in buckets."""
    neighbours, found = neighbour_counts(graph), []
    for low, high in degree_bucket_edges(int(neighbours.max(initial=0))):
        inside = (neighbours >= low) & (neighbours <= high)
        count = int(np.count_nonzero(inside))
        found.append({"degree": bucket_name(low, high), "nodes": count})
    return found


def describe_attributes(graph: Graph) -> dict[str, Any]:
    """Return how many attributes there are, and how full their table is."""
    if graph.attributes is None or graph.num_attributes == 0:
        return {"count": 0, "nodes_with": 0, "filled": 0.0, "unused": 0}
    matrix = sp.csr_array(graph.attributes)
    matrix.eliminate_zeros()
    rows = np.diff(matrix.indptr)
    columns = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return {
        "count": graph.num_attributes,
        "nodes_with": int(np.count_nonzero(rows)),
        "filled": matrix.nnz / max(matrix.shape[0] * matrix.shape[1], 1),
        "unused": int(np.count_nonzero(columns == 0)),
    }
