"""SEAL's trained weights, laid out for the kernel that scores pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor

from gelato.graph import FloatArray, IntArray
from gelato.kernels.matrix_tiles import column_tiles
from gelato.kernels.seal_scores import CHANNELS, WIDTH, score_pairs, sort_balls
from gelato.kernels.subgraphs import ball_sizes
from gelato.models.gnn.features import refuse_large
from gelato.models.gnn.pairwise_scorer import PairwiseScorer

if TYPE_CHECKING:
    from gelato.models.gnn.seal import SEALModule
    from gelato.models.gnn.subgraph_model import Neighbours


@dataclass(frozen=True, eq=False)
class SEALScorer(PairwiseScorer):
    """Logits of pairs; parameters as :func:`gelato.kernels.seal_scores.score_pairs`.

    Parameters
    ----------
    graph, cut, net, balls, head
        The kernel's arguments.
    """

    graph: Neighbours
    cut: tuple[int, int, int, int, int]
    net: tuple[Any, ...]
    balls: tuple[Any, ...]
    head: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        module: SEALModule,
        graph: Neighbours,
        node_rows: Tensor | None,
        *,
        merged: bool = True,
    ) -> SEALScorer:
        """Return the scorer of a module.

        Parameters
        ----------
        module : SEALModule
            The network.
        graph : (indptr, indices)
            Neighbours of all nodes.
        node_rows : (n, h) Tensor, optional
            The first layer's product for every node.
        merged : bool
            Merge sorted balls of pairs that are far apart; changes no score.
        """
        n = len(graph[0]) - 1
        sizes = np.empty(n, np.int64)
        ball_sizes(graph, module.hops, sizes)
        limit = n if module.max_nodes is None else module.max_nodes
        most = max(2, min(n, limit, int(np.sort(sizes)[-2:].sum())))
        labels = module.labels.num_embeddings
        cut = (module.hops, limit, module.kept, labels - 1, most)
        net = _net(module, node_rows)
        balls: tuple[Any, ...] = (
            np.zeros(1, np.int64),
            np.empty(0, np.int64),
            np.empty(0, np.float32),
            np.empty((0, CHANNELS), np.float32),
        )
        if merged:
            balls = _sorted_balls(graph, sizes, cut, net)
        return cls(graph, cut, net, balls, _head(module))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.graph[0]) - 1

    def _score(self, pairs: IntArray, out: FloatArray) -> None:
        score_pairs(pairs, self.graph, self.cut, self.net, self.balls, self.head, out)


def _sorted_balls(
    graph: Neighbours, sizes: IntArray, cut: tuple[int, ...], net: tuple[Any, ...]
) -> tuple[Any, ...]:
    hops, limit, top = cut[:3]
    kept = np.where(sizes <= limit, np.minimum(sizes, top), 0)
    start = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    refuse_large(
        f"Sorted balls of {hops} hops around all nodes",
        4.0 * (CHANNELS + 1) * float(start[-1]),
        hint="Take fewer hops, or cut subgraphs by max_nodes.",
    )
    keys = np.empty(start[-1], np.float32)
    vectors = np.empty((start[-1], CHANNELS), np.float32)
    balls = (start, sizes, keys, vectors)
    sort_balls(graph, hops, limit, net, balls)
    return balls


def _net(module: SEALModule, node_rows: Tensor | None) -> tuple[Any, ...]:
    """Return what the kernel needs up to the kept nodes' vectors."""
    width = module.hidden
    rows = module.label_rows(module.labels.num_embeddings)
    of_nodes = np.empty((0, width), np.float32)
    weights = [_array(module.weights[layer]) for layer in range(4)]
    biases = [_array(module.biases[layer]) for layer in range(4)]
    flat = _array(module.per_node.weight).T
    return (
        _array(rows),
        of_nodes if node_rows is None else _array(node_rows),
        np.stack([column_tiles(weights[1]), column_tiles(weights[2])]),
        np.stack(biases[:3]),
        np.concatenate([weights[3][:, 0], biases[3]]),
        np.stack([column_tiles(flat[i * width : (i + 1) * width]) for i in range(3)]),
        flat[3 * width].copy(),
        _array(module.per_node.bias),
    )


def _head(module: SEALModule) -> tuple[Any, ...]:
    """Return the layers after the pooling, inputs ordered by place, then channel."""
    second = _array(module.second.weight).transpose(2, 1, 0)
    places = module.kept // 2 - WIDTH + 1
    inner = _array(module.inner.weight).reshape(len(module.inner.weight), -1, places)
    third = inner.transpose(2, 1, 0).reshape(-1, len(inner))
    last = [_array(module.outer.weight)[0], _array(module.outer.bias)]
    return (
        column_tiles(second.reshape(WIDTH * CHANNELS, -1)),
        _array(module.second.bias),
        column_tiles(third),
        _array(module.inner.bias),
        np.concatenate(last),
    )


def _array(tensor: Tensor | None) -> Any:
    array: Any = cast(Tensor, tensor).detach().numpy()  # every layer has a bias
    return np.ascontiguousarray(array)
