"""A graph as paths see it, and the weights that encode them.

A node's update multiplies 4w statistics of its messages by three matrices, scaled by
1, s and 1/s, where s follows from the node's degree. Nodes of one degree share these
numbers: their three matrices are added up once, and a node costs a third.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels.matrix_tiles import COLUMNS

Array = npt.NDArray[Any]
SCALERS = 3
_LEAST_SCALE = 0.01


@dataclass(frozen=True, eq=False)
class PathGraph:
    """Edges in both directions, and nodes by degree.

    Parameters
    ----------
    indptr : (n + 1,) int64
    indices : int32
        Neighbours of every node, without the node itself.
    class_of : (n,) int32
        Nodes of equal degree have the same class.
    degrees : (C,) int64
        Neighbours of a node of each class, the node itself counted.
    scales : (C, 3) float64
        1, s and 1/s, where s is log(degree + 1) divided by its mean over nodes.
    """

    indptr: IntArray
    indices: npt.NDArray[np.int32]
    class_of: npt.NDArray[np.int32]
    degrees: IntArray
    scales: FloatArray

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Return a graph's edges, whatever their weights."""
        adjacency = graph.adjacency
        indptr = adjacency.indptr.astype(np.int64)
        own = np.diff(indptr) + 1
        degrees, class_of, counts = np.unique(
            own, return_inverse=True, return_counts=True
        )
        logs = np.log(degrees + 1.0)
        # By degree, so that the order of the nodes does not change the mean.
        scale = logs / max((logs @ counts) / max(1, graph.num_nodes), 1e-300)
        scales = [np.ones_like(scale), scale, 1 / np.maximum(scale, _LEAST_SCALE)]
        return cls(
            indptr,
            adjacency.indices.astype(np.int32),
            class_of.astype(np.int32),
            degrees.astype(np.int64),
            np.stack(scales, axis=1),
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.class_of)

    @property
    def edges(self) -> tuple[IntArray, npt.NDArray[np.int32]]:
        """What kernels take: indptr and indices."""
        return self.indptr, self.indices


@dataclass(frozen=True, eq=False)
class PathWeights:
    """What a propagation of T layers and width w learns.

    Parameters
    ----------
    query : (w,)
        State of the source at the beginning.
    relation : (T, w)
        Messages are states times this.
    gathered : (T, 3, 4w, w)
        For the statistics of messages, by scaler.
    own : (T, w, w)
        For a node's own state.
    bias, gain, shift : (T, w)
        Of the linear map, and of the normalisation after it.
    """

    query: Array
    relation: Array
    gathered: Array
    own: Array
    bias: Array
    gain: Array
    shift: Array

    @classmethod
    def of(cls, tensors: tuple[Tensor, ...]) -> Self:
        """Return the arrays of parameters."""
        return cls(*(tensor.detach().contiguous().numpy() for tensor in tensors))

    @property
    def layers(self) -> int:
        """Number of layers T."""
        return len(self.relation)

    @property
    def width(self) -> int:
        """Width w of states."""
        return len(self.query)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All of them, in the order of the parameters."""
        return (
            self.query,
            self.relation,
            self.gathered,
            self.own,
            self.bias,
            self.gain,
            self.shift,
        )

    def zeros(self) -> PathWeights:
        """Return zeros of the same shapes."""
        return PathWeights(*(np.zeros_like(array) for array in self.arrays))

    def by_class(self, layer: int, graph: PathGraph) -> Array:
        """Return one (5w, w) matrix per class of nodes."""
        scales = graph.scales.astype(self.query.dtype)
        gathered = np.einsum("cs,sij->cij", scales, self.gathered[layer])
        own = np.broadcast_to(self.own[layer], (len(scales), *self.own[layer].shape))
        return np.concatenate([gathered, own], axis=1)

    def forward(self, layer: int, matrices: Array) -> tuple[Array, ...]:
        """Return a layer's weights as :func:`layer_forward` takes them."""
        return (
            self.relation[layer],
            self.query,
            column_tiles(matrices),
            self.bias[layer],
            self.gain[layer],
            self.shift[layer],
        )

    def sums(self, layer: int) -> tuple[Array, ...]:
        """Return a layer's arrays as :func:`layer_backward` adds to them."""
        return (
            self.relation[layer],
            self.query,
            self.gathered[layer],
            self.own[layer],
            self.bias[layer],
            self.gain[layer],
            self.shift[layer],
        )


def column_tiles(matrices: Array) -> Array:
    """Return matrices (C, k, width) as (C, tiles, k, COLUMNS), padded with 0."""
    count, inner, width = matrices.shape
    tiles = np.zeros((count, -(-width // COLUMNS), inner, COLUMNS), matrices.dtype)
    for tile in range(tiles.shape[1]):
        part = matrices[:, :, tile * COLUMNS : (tile + 1) * COLUMNS]
        tiles[:, tile, :, : part.shape[2]] = part
    return tiles
