"""Extended persistence of a small graph filtered by its nodes, as an image.

Points of the diagram are (birth, persistence): components of ascending values
(elder rule), the one that never dies, and one loop per independent cycle, from the
value at which it appears when nodes come in descending order up to the largest value
that every loop of its class must visit. Components of descending values have
negative persistence, hence no weight in the image, and are left out.

Loops are found in one pass: nodes come in descending order and a spanning forest of
least ascending values is kept. An edge that closes a loop ends the highest edge of
that loop: the pair of both values is a point.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numba
import numpy as np

PIXELS = 5
"""Rows and columns of an image, over births and persistences from 0 to 1."""


@numba.njit(cache=True, nogil=True)
def _masses(centre, out):
    """Write what a normal distribution of variance 1 puts into each pixel."""
    below = 0.5 * math.erfc(centre / math.sqrt(2.0))
    for i in range(PIXELS):
        above = 0.5 * math.erfc((centre - (i + 1) / PIXELS) / math.sqrt(2.0))
        out[i] = above - below
        below = above


@numba.njit(cache=True, nogil=True)
def _add_point(birth, death, work, image):
    """Add a point's mass, weighted by its persistence, at most 1."""
    persistence = death - birth
    if persistence <= 0.0:
        return
    rows, columns = work
    _masses(birth, rows)
    _masses(persistence, columns)
    weight = min(persistence, 1.0)
    for i in range(PIXELS):
        for j in range(PIXELS):
            image[i * PIXELS + j] += weight * rows[i] * columns[j]


@numba.njit(cache=True, nogil=True)
def _root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@numba.njit(cache=True, nogil=True)
def add_components(values, order, rank, edges, parent, work, image):
    """Add the components of ascending values, and the one that never dies.

    Parameters
    ----------
    values : (n,) float64
        By node.
    order, rank : (n,) int64
        Nodes by ascending value, and the place of each node in that order.
    edges : (start, end, neighbours)
        Where each node's neighbours begin and end in the list.
    parent : (n,) int64
        Room; roots are the lowest nodes of their components.
    work, image
        Two rows of pixels, and what is added to.
    """
    start, end, neighbours = edges
    n = order.shape[0]
    for i in range(n):
        node = order[i]
        parent[node] = node
        for s in range(start[node], end[node]):
            if rank[neighbours[s]] > i:
                continue
            one, two = _root(parent, node), _root(parent, neighbours[s])
            if one == two:
                continue
            if rank[one] > rank[two]:
                one, two = two, one
            _add_point(values[two], values[node], work, image)
            parent[two] = one
    _add_point(values[order[0]], values[order[n - 1]], work, image)


@numba.njit(cache=True, nogil=True)
def _highest(parent, height, node, root):
    """Return the node below the highest edge on the way up, and where the way ends.

    The search ends early at ``root``, whose own edge does not count.
    """
    best = node
    while node != root and parent[node] != node:
        if height[node] > height[best]:
            best = node
        node = parent[node]
    return best, node


@numba.njit(cache=True, nogil=True)
def _hang(parent, height, node, last, top, edge_height):
    """Turn the way from ``node`` up to ``last`` round, and hang it from ``top``."""
    above, carried = top, edge_height
    while True:
        following, own = parent[node], height[node]
        parent[node], height[node] = above, carried
        if node == last:
            return
        above, carried, node = node, own, following


@numba.njit(cache=True, nogil=True)
def add_loops(values, order, rank, edges, forest, work, image):
    """Add one point per independent cycle; see :func:`add_components`.

    ``forest`` is room for parents and for the ranks of the edges that lead to them.
    """
    start, end, neighbours = edges
    parent, height = forest
    for i in range(order.shape[0] - 1, -1, -1):
        node = order[i]
        parent[node], height[node] = node, -1
        low = values[node]
        for s in range(start[node], end[node]):
            other = neighbours[s]
            if rank[other] < i:
                continue
            best, root = _highest(parent, height, other, node)
            if root != node:  # two trees become one
                _hang(parent, height, other, root, node, rank[other])
            elif height[best] > rank[other]:
                high = values[order[height[best]]]
                _hang(parent, height, other, best, node, rank[other])
                _add_point(low, high, work, image)
            else:
                _add_point(low, values[other], work, image)


@numba.njit(cache=True, nogil=True)
def diagram_image(values, edges, image):
    """Write the image of a connected graph's diagram.

    Parameters
    ----------
    values : (n,) float64
        By node, from 0 to 1.
    edges : (start, end, neighbours)
        Where each node's neighbours begin and end in the list; both directions.
    image : (25,) float64
        Pixels by birth, then persistence.
    """
    n = values.shape[0]
    order = np.argsort(values, kind="mergesort")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    parent, height = np.empty(n, np.int64), np.empty(n, np.int64)
    work = (np.empty(PIXELS), np.empty(PIXELS))
    image[:] = 0.0
    add_components(values, order, rank, edges, parent, work, image)
    add_loops(values, order, rank, edges, (parent, height), work, image)
