"""Persistence images pair by pair, by networkx and formulas as published."""

from __future__ import annotations

import itertools
from math import erf, sqrt

import networkx as nx
import numpy as np


def network(graph, lengths):
    """Return a networkx graph with lengths of edges."""
    made = nx.Graph()
    made.add_nodes_from(range(graph.num_nodes))
    ends = zip(graph.edges.tolist(), lengths, strict=True)
    made.add_weighted_edges_from((u, v, length) for (u, v), length in ends)
    return made


def filtered(made, u, v, hops, hide):
    """Return the subgraph around a pair and its values, or None where there is none."""
    if hide and made.has_edge(u, v):
        made = made.copy()
        made.remove_edge(u, v)
    near = [
        set(nx.single_source_shortest_path_length(made, end, hops)) for end in (u, v)
    ]
    inside = made.subgraph(near[0] & near[1])
    if not len(inside) or not nx.is_connected(inside):
        return None
    values = {}
    for w in inside:
        ways = [
            nx.dijkstra_path_length(inside, w, end) if end in inside else 100
            for end in (u, v)
        ]
        values[w] = 0.0 if w in (u, v) else sum(ways)
    highest = max(values.values())
    if highest == 0:
        return None
    return inside, {w: value / highest for w, value in values.items()}


def component_points(inside, values):
    """Return ascending and essential points by counting components at all levels."""
    levels = sorted(set(values.values()))
    points = [(min(levels), max(levels))]
    for birth, death in itertools.combinations(levels, 2):
        before, last = _before(levels, birth), _before(levels, death)
        merged = [
            _classes(inside, values, born, last) - _classes(inside, values, born, death)
            for born in (birth, before)
        ]
        points += [(birth, death)] * (merged[0] - merged[1])
    return points


def _classes(inside, values, birth, death):
    """Return how many components at ``death`` hold nodes of values up to ``birth``."""
    later = inside.subgraph([w for w in inside if values[w] <= death])
    return sum(
        any(values[w] <= birth for w in part) for part in nx.connected_components(later)
    )


def loop_points(inside, values):
    """Return a point per independent cycle by counting cycles between all levels."""
    levels = sorted(set(values.values()))
    points = []
    for low, high in itertools.product(levels, repeat=2):
        higher, lower = _after(levels, low), _before(levels, high)
        count = _loops(inside, values, low, high) - _loops(inside, values, higher, high)
        count -= _loops(inside, values, low, lower)
        count += _loops(inside, values, higher, lower)
        points += [(low, high)] * count
    return points


def _after(levels, level):
    return next((x for x in levels if x > level), 2.0)


def _before(levels, level):
    return next((x for x in reversed(levels) if x < level), -1.0)


def _loops(inside, values, low, high):
    """Count the independent cycles among nodes of values from low to high.

    Cycles of a graph bound nothing, so these are the points that begin at ``low`` or
    above and end at ``high`` or below.
    """
    kept = inside.subgraph([w for w in inside if low <= values[w] <= high])
    parts = nx.number_connected_components(kept) if len(kept) else 0
    return kept.number_of_edges() - kept.number_of_nodes() + parts


def image(points):
    """Return the 5 x 5 image of points (birth, death)."""

    def below(x):
        return 0.5 * (1 + erf(x / sqrt(2)))

    made = np.zeros((5, 5))
    for birth, death in points:
        height = death - birth
        weight = min(max(height, 0.0), 1.0)
        for i, j in itertools.product(range(5), repeat=2):
            across = below((i + 1) / 5 - birth) - below(i / 5 - birth)
            upwards = below((j + 1) / 5 - height) - below(j / 5 - height)
            made[i, j] += weight * across * upwards
    return made.ravel()


def plain_image(made, u, v, hops, hide=False):
    """Return the image of a pair by the slow way."""
    found = filtered(made, u, v, hops, hide)
    if found is None:
        return np.zeros(25)
    return image(component_points(*found) + loop_points(*found))
