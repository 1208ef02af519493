"""WalkPool's trained weights, laid out for the kernel that scores pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor, nn

from gelato.baselines.shared_layers.decoders import PairwiseScorer
from gelato.baselines.shared_layers.messages import refuse_large
from gelato.baselines.shared_layers.subgraphs import ball_sizes
from gelato.baselines.walkpool.profiles import score_pairs
from gelato.graph import FloatArray, IntArray
from gelato.kernels.tiles import column_tiles

if TYPE_CHECKING:
    from gelato.baselines.shared_layers.subgraph_model import Neighbours
    from gelato.baselines.walkpool.model import WalkPoolModule


@dataclass(frozen=True, eq=False)
class WalkPoolScorer(PairwiseScorer):
    """Logits of pairs; see :func:`gelato.baselines.walkpool.profiles.score_pairs`.

    Parameters
    ----------
    graph, cut, net, layers
        The kernel's arguments.
    """

    graph: Neighbours
    cut: tuple[int, int, int]
    net: tuple[Any, ...]
    layers: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        module: WalkPoolModule,
        graph: Neighbours,
        first: Tensor,
        query: Tensor,
        key: Tensor,
    ) -> WalkPoolScorer:
        """Return the scorer of a module, given its states."""
        n = len(graph[0]) - 1
        sizes = np.empty(n, np.int64)
        ball_sizes(graph, module.hops, sizes)
        limit = n if module.max_nodes is None else module.max_nodes
        most = max(2, min(n, limit, int(np.sort(sizes)[-2:].sum())))
        refuse_large(
            f"Walks on a subgraph of up to {most:,} nodes",
            16.0 * most**2,
            hint="Cut subgraphs: max_nodes=500; or take fewer hops.",
        )
        rows = tuple(_array(tensor) for tensor in (first, query, key))
        cut = (module.hops, limit, most)
        return cls(graph, cut, (*rows, *_net(module)), _classifier(module))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.graph[0]) - 1

    def _score(self, pairs: IntArray, out: FloatArray) -> None:
        score_pairs(pairs, self.graph, self.cut, self.net, self.layers, out)


def _net(module: WalkPoolModule) -> tuple[Any, ...]:
    """Return the weights of convolutions and attention as the kernel takes them."""
    first = module.dimensions
    middle = first + module.hidden
    inner = [_array(cast(nn.Linear, layer).weight).T for layer in module.inner]
    outer = [cast(nn.Linear, layer) for layer in module.outer]
    return (
        column_tiles(_array(module.weights[1])),
        np.stack([_array(bias) for bias in module.biases]),
        np.stack(
            [
                np.stack([column_tiles(w[first:middle]), column_tiles(w[middle:])])
                for w in inner
            ]
        ),
        np.stack([column_tiles(_array(layer.weight).T) for layer in outer]),
        np.stack([_array(layer.bias) for layer in outer]),
    )


def _classifier(module: WalkPoolModule) -> tuple[Any, ...]:
    """Return tiles and biases of all layers, the first of them with the norm in it."""
    layers = [cast(nn.Linear, layer) for layer in module.classifier]
    weights = [_array(layer.weight).astype(np.float64) for layer in layers]
    biases = [_array(layer.bias).astype(np.float64) for layer in layers]
    norm = module.norm
    deviation = np.sqrt(_array(norm.running_var).astype(np.float64) + norm.eps)
    scale = _array(norm.weight) / deviation
    shift = _array(norm.bias) - _array(norm.running_mean) * scale
    biases[0] = biases[0] + weights[0] @ shift
    weights[0] = weights[0] * scale
    return tuple(
        (column_tiles(w.T.astype(np.float32)), b.astype(np.float32))
        for w, b in zip(weights, biases, strict=True)
    )


def _array(tensor: Tensor | None) -> Any:
    array: Any = cast(Tensor, tensor).detach().numpy()  # nothing here is left out
    return np.ascontiguousarray(array)
