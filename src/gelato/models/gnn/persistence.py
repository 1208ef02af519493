"""Persistence images of a graph's pairs, computed where they can be other than 0.

With one hop only edges have an image: of a pair without an edge neither end is among
the nodes near both. With more hops, pairs at most so many edges apart may have one.

A pair that is ranked is a candidate: if it has an edge, that edge is left out, so that
known edges and candidates are scored alike. Training sees the edge, as published.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from gelato.graph import FloatArray, Graph, IntArray, find_pairs
from gelato.kernels.extended_persistence import PIXELS
from gelato.kernels.persistence_images import count_near, list_near, pair_images
from gelato.models.gnn.by_parts import PartFolder, fill_by_parts
from gelato.models.gnn.curvature import arc_lengths, edge_curvature, pair_cost
from gelato.models.gnn.features import refuse_large

SIZE = PIXELS * PIXELS
"""Numbers of an image."""
# Bytes of a pair: its nodes, its image in single precision, what it adds to the units
# of a net in double precision, once more while zeros are left out.
_PAIR_BYTES = 16 + 4 * SIZE + 8 * SIZE + 4 * SIZE

Images = npt.NDArray[np.float32]


class GraphImages:
    """The images of pairs of one graph, each computed when first asked for.

    Parameters
    ----------
    graph : Graph
        Undirected.
    hops : int
        Nodes at most so many edges from both ends of a pair make its image.
    hide_target : bool
        Leave a pair's own edge out in training, too.
    place : PartFolder, optional
        Where what takes long is kept.
    rehearse : bool
        Compute nothing: all images are ones. For timing what comes after.
    """

    def __init__(
        self,
        graph: Graph,
        hops: int,
        *,
        hide_target: bool = False,
        place: PartFolder | None = None,
        rehearse: bool = False,
    ) -> None:
        self.graph, self.hops = graph, hops
        self.hide_target, self.place, self.rehearse = hide_target, place, rehearse

    def of_pairs(self, pairs: IntArray, *, training: bool) -> tuple[IntArray, Images]:
        """Return which of listed pairs have an image other than 0, and the images.

        Parameters
        ----------
        pairs : (p, 2) int64
            Pairs in any order.
        training : bool
            Whether edges have the image that training sees.
        """
        pairs = np.sort(pairs, axis=1)
        images = np.zeros((0, SIZE), np.float32)
        at = np.zeros(0, np.int64)
        if training and not self.hide_target:
            position = find_pairs(self.graph.edges, pairs, self.graph.num_nodes)
            at = np.flatnonzero(position >= 0)
            if len(at):
                images = self.of_edges[position[at]]
        if self.hops > 1:
            differ = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
            rest = np.setdiff1d(differ, at, assume_unique=True)
            others, more = self._candidates(pairs[rest], listed=training)
            at = np.concatenate([at, rest[others]])
            images = np.concatenate([images, more])
        filled = images.any(axis=1)
        return at[filled], images[filled]

    @cached_property
    def of_edges(self) -> Images:
        """Images of all edges as training sees them, ``(m, 25)``."""
        return self._computed(self.graph.edges, hide=False, name="edge-images")

    @cached_property
    def near(self) -> tuple[IntArray, Images]:
        """All candidates that have an image other than 0, sorted, and the images."""
        if self.hops == 1:
            return np.zeros((0, 2), np.int64), np.zeros((0, SIZE), np.float32)
        pairs = near_pairs(self.graph, self.hops)
        images = self._computed(pairs, hide=True, name="near-images")
        filled = images.any(axis=1)
        return pairs[filled], images[filled]

    @cached_property
    def lengths(self) -> FloatArray:
        """Length of every entry of the adjacency matrix: curvature + 1."""
        return arc_lengths(self.graph, edge_curvature(self.graph, self.place))

    def _candidates(self, pairs: IntArray, *, listed: bool) -> tuple[IntArray, Images]:
        """Return images of listed candidates, from those of all unless few count."""
        if listed and "near" not in self.__dict__:
            images = self._computed(pairs, hide=True, name="")
            at = np.flatnonzero(images.any(axis=1))
            return at, images[at]
        known, images = self.near
        position = find_pairs(known, pairs, self.graph.num_nodes)
        at = np.flatnonzero(position >= 0)
        return at, images[position[at]]

    def _computed(self, pairs: IntArray, *, hide: bool, name: str) -> Images:
        """Return images of listed pairs; what has a name is kept on disk."""
        refuse_large(
            f"Persistence images of {len(pairs):,} pairs",
            _PAIR_BYTES * len(pairs),
            hint="Use another model for a graph of this size.",
        )
        if self.rehearse:
            return np.ones((len(pairs), SIZE), np.float32)
        images = np.zeros((len(pairs), SIZE), np.float32)
        matrix, lengths = self.graph.adjacency, self.lengths
        around = (matrix.indptr, matrix.indices, lengths)

        def work(first: int, last: int) -> None:
            pair_images(first, last, pairs, self.hops, hide, *around, images)

        fill_by_parts(
            images,
            pair_cost(self.graph, pairs),
            work,
            name=name,
            place=self.place if name else None,
        )
        return images


def near_pairs(graph: Graph, hops: int) -> IntArray:
    """Return all pairs at most so many edges apart, sorted.

    Examples
    --------
    >>> near_pairs(Graph.from_indices(4, [(0, 1), (1, 2), (2, 3)]), 2).tolist()
    [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
    """
    matrix = graph.adjacency
    counts = np.zeros(graph.num_nodes, np.int64)
    count_near(hops, matrix.indptr, matrix.indices, counts)
    total = int(counts.sum())
    refuse_large(
        f"Persistence images of the {total:,} pairs within {hops} edges",
        _PAIR_BYTES * total,
        hint="Use hops=1, where only edges have an image.",
    )
    pairs = np.empty((total, 2), np.int64)
    list_near(hops, matrix.indptr, matrix.indices, pairs)
    return pairs
