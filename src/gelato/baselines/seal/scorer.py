"""SEAL's scores of pairs, subgraph by subgraph, without one for pairs far apart.

Three things are computed less often than they are used, and change nothing:

- the first layer's product is looked up, one row per node plus one per label;
- the first convolution after the sort pooling has the stride of its kernel, so it is a
  linear map of each node's states to 16 numbers, taken for the nodes that are kept;
- two balls that neither meet nor touch do not see each other: every ball is sorted
  once, and a pair merges two sorted lists.

All sums of a pair are added in an order that its own subgraph decides, so that a pair
has the same bits in every list of pairs.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor

from gelato.baselines.shared_layers.decoders import PairwiseScorer
from gelato.baselines.shared_layers.subgraphs import (
    AS_IT_IS,
    LEFT_OUT,
    ball_sizes,
    forget,
    gather,
    induce,
    label,
    stable_order,
)
from gelato.graph import FloatArray, IntArray
from gelato.kernels.compiled import kernel
from gelato.kernels.tiles import column_tiles, rows_times
from gelato.nn.messages import refuse_large

if TYPE_CHECKING:
    from gelato.baselines.seal.model import SEALModule
    from gelato.baselines.shared_layers.subgraph_model import Neighbours


CHANNELS = 16
"""Numbers per kept node."""
WIDTH = 5
"""Positions that the second convolution sees at a time."""
# Pairs whose last layers are computed together: a multiple of a tile's rows.
_GROUP = 24


@kernel(inline="always")
def tanh(x):
    """Return tanh to about 1e-6, by operations that fill vector registers.

    Lambert's continued fraction at x / 4, then the double angle twice.
    """
    x = min(max(x, np.float32(-9.0)), np.float32(9.0)) * np.float32(0.25)
    s = x * x
    above = x * (
        np.float32(135135.0) + s * (np.float32(17325.0) + s * (np.float32(378.0) + s))
    )
    below = np.float32(135135.0) + s * (
        np.float32(62370.0) + s * (np.float32(3150.0) + s * np.float32(28.0))
    )
    for _ in range(2):
        above, below = (
            np.float32(2.0) * above * below,
            above * above + below * below,
        )
    return above / below


@kernel()
def _average(count, rows, columns, scale, y, bias, out):
    """Write tanh of averages over neighbours and the node itself, plus a bias."""
    total = np.empty(y.shape[1], np.float32)
    for i in range(count):
        for k in range(total.size):
            total[k] = scale[i] * y[i, k]
        for slot in range(rows[i], rows[i + 1]):
            j = columns[slot]
            for k in range(total.size):
                total[k] += scale[j] * y[j, k]
        for k in range(total.size):
            out[i, k] = tanh(scale[i] * total[k] + bias[k])


@kernel()
def _states(count, nodes, labels, rows, columns, net, work):
    """Fill ``work`` with the outputs of the four graph convolutions."""
    label_rows, node_rows, weights, biases, last = net[:5]
    y, states, keys, scale = work
    width = y.shape[1]
    for i in range(count):
        scale[i] = np.float32(1.0) / np.sqrt(np.float32(rows[i + 1] - rows[i] + 1))
        for k in range(width):
            y[i, k] = label_rows[labels[i], k]
        if node_rows.shape[0] > 0:
            for k in range(width):
                y[i, k] += node_rows[nodes[i], k]
    _average(count, rows, columns, scale, y, biases[0], states[0])
    for layer in range(2):
        rows_times(states[layer], weights[layer], y, 0, count)
        _average(count, rows, columns, scale, y, biases[layer + 1], states[layer + 1])
    for i in range(count):
        total = np.float32(0.0)
        for k in range(width):
            total += states[2, i, k] * last[k]
        y[i, 0] = total
    for i in range(count):
        total = scale[i] * y[i, 0]
        for slot in range(rows[i], rows[i + 1]):
            total += scale[columns[slot]] * y[columns[slot], 0]
        keys[i] = tanh(scale[i] * total + last[width])


@kernel()
def _falling_order(count, keys):
    """Return the positions of the first keys, largest first, ties in their order."""
    turned = np.empty(count, np.float32)
    for i in range(count):
        turned[i] = -keys[i]
    return stable_order(turned, np.empty(count, np.int64), np.empty(count, np.int64))


@kernel()
def _keep(count, net, work, keys_out, vectors):
    """Write the keys, largest first, and the vectors of the nodes that are kept."""
    convolution, of_key, bias = net[5:]
    y, states, keys, _ = work
    kept = min(count, vectors.shape[0])
    order = _falling_order(count, keys)
    part = np.empty((kept, CHANNELS), np.float32)
    for r in range(kept):
        key = keys[order[r]]
        keys_out[r] = key
        for c in range(CHANNELS):
            vectors[r, c] = bias[c] + key * of_key[c]
    for layer in range(3):
        for r in range(kept):
            for k in range(y.shape[1]):
                y[r, k] = states[layer, order[r], k]
        rows_times(y, convolution[layer], part, 0, kept)
        for r in range(kept):
            for c in range(CHANNELS):
                vectors[r, c] += part[r, c]
    for r in range(kept):
        for c in range(CHANNELS):
            vectors[r, c] = max(vectors[r, c], np.float32(0.0))
    return kept


@kernel()
def _merge(u, v, balls, vectors):
    """Write the vectors of the largest keys of two balls; return how many."""
    start, _, keys, known = balls
    i, j, kept = start[u], start[v], 0
    while kept < vectors.shape[0] and (i < start[u + 1] or j < start[v + 1]):
        left = j == start[v + 1] or (i < start[u + 1] and keys[i] >= keys[j])
        vectors[kept] = known[i if left else j]
        if left:
            i += 1
        else:
            j += 1
        kept += 1
    return kept


@kernel()
def _pool(vectors, kept, bias, profile):
    """Write the larger of every two neighbours; missing nodes have only the bias."""
    for c in range(CHANNELS):
        absent = max(bias[c], np.float32(0.0))
        for r in range(profile.size // CHANNELS):
            one = vectors[2 * r, c] if 2 * r < kept else absent
            two = vectors[2 * r + 1, c] if 2 * r + 1 < kept else absent
            profile[r * CHANNELS + c] = max(one, two)


@kernel()
def _finish(count, profiles, head, work, out):
    """Write the logits of profiles: a convolution and two linear layers."""
    second, second_bias, third, third_bias, last = head
    windows, middle, hidden = work
    places = windows.shape[0] // _GROUP
    inside = WIDTH * CHANNELS
    for p in range(count):
        for r in range(places):
            for k in range(inside):
                windows[p * places + r, k] = profiles[p, r * CHANNELS + k]
    rows_times(windows, second, middle, 0, count * places)
    for row in range(count * places):
        for c in range(middle.shape[1]):
            middle[row, c] = max(middle[row, c] + second_bias[c], np.float32(0.0))
    flat = middle.reshape(_GROUP, places * middle.shape[1])
    rows_times(flat, third, hidden, 0, count)
    for p in range(count):
        total = last[hidden.shape[1]]
        for k in range(hidden.shape[1]):
            unit = max(hidden[p, k] + third_bias[k], np.float32(0.0))
            total += last[k] * unit
        out[p] = total


@kernel()
def _make_work(most, width):
    return (
        np.empty((most, width), np.float32),
        np.empty((3, most, width), np.float32),
        np.empty(most, np.float32),
        np.empty(most, np.float32),
    )


@kernel()
def sort_balls(graph, hops, limit, net, balls):
    """Fill the sorted lists of all balls, their centres labelled 1 and all else 0.

    ``balls`` is (start, sizes, keys, vectors); the lists of node u are at
    ``start[u] .. start[u + 1] - 1``. A ball larger than ``limit`` is left out.
    """
    start, sizes, keys, vectors = balls
    place = np.zeros(sizes.size, np.int32)
    nodes = np.empty(sizes.size, np.int32)
    labels = np.zeros(sizes.size, np.int32)
    labels[0] = 1
    most = min(limit, sizes.max())
    rows = np.empty(most + 1, np.int64)
    columns = np.empty(1, np.int32)
    work = _make_work(most, net[0].shape[1])
    for u in range(sizes.size):
        if sizes[u] > limit:
            continue
        nodes[0] = u
        count = gather(1, graph, hops, sizes.size, place, nodes)
        columns = induce(count, graph, place, nodes, AS_IT_IS, rows, columns)
        forget(count, place, nodes)
        _states(count, nodes, labels, rows, columns, net, work)
        own = slice(start[u], start[u + 1])
        _keep(count, net, work, keys[own], vectors[own])


@kernel()
def _cut_and_keep(u, v, graph, cut, net, local, work, kept):
    """Run the network on a pair's subgraph; return how many are kept, and columns."""
    place, nodes, rows, columns, labels, walked = local
    hops, limit, last_label = cut[0], cut[1], cut[3]
    nodes[0], nodes[1] = u, v
    count = gather(2, graph, hops, limit, place, nodes)
    columns = induce(count, graph, place, nodes, LEFT_OUT, rows, columns)
    forget(count, place, nodes)
    label(count, rows, columns, walked, last_label, labels)
    _states(count, nodes, labels, rows, columns, net, work)
    return _keep(count, net, work, *kept), columns


@kernel()
def _make_head_work(half, head):
    places = half - WIDTH + 1
    return (
        np.empty((_GROUP * places, WIDTH * CHANNELS), np.float32),
        np.empty((_GROUP * places, head[1].size), np.float32),
        np.empty((_GROUP, head[3].size), np.float32),
    )


@kernel()
def score_pairs(pairs, graph, cut, net, balls, head, out):
    """Write the logits of pairs, which are best sorted by their first node.

    Parameters
    ----------
    pairs : (p, 2) int64
        Two different nodes each.
    graph : (indptr, indices)
        CSR of the edges, int64 and int32.
    cut : (hops, limit, top, last_label, most)
        How subgraphs are cut out, how many of their nodes are kept, and a bound on
        their nodes.
    net : tuple
        Rows of labels and of nodes (or none), tiles and biases of the convolutions,
        the last of them with its bias, tiles of the first flat convolution by layer,
        its row of the key, its bias.
    balls : (start, sizes, keys, vectors)
        See :func:`sort_balls`; lists of no node if balls are not to be merged.
    head : tuple
        Tiles and bias of the second convolution and of the linear layer, and the
        last layer with its bias.
    out : (p,) float64
        Logits.
    """
    hops, limit, top, _, most = cut
    n, half = graph[0].size - 1, top // 2
    near, reached = np.zeros(n, np.int32), np.empty(n, np.int32)
    place, nodes = np.zeros(n, np.int32), np.empty(n, np.int32)
    rows, columns = np.empty(most + 1, np.int64), np.empty(1, np.int32)
    labels, walked = np.empty(most, np.int32), np.empty((3, most), np.int32)
    work = _make_work(most, net[0].shape[1])
    best = (np.empty(top, np.float32), np.empty((top, CHANNELS), np.float32))
    profiles = np.empty((_GROUP, half * CHANNELS), np.float32)
    head_work = _make_head_work(half, head)
    source, found, sizes = -1, 0, balls[1]
    for p in range(pairs.shape[0]):
        u, v = pairs[p]
        if u != source:
            forget(found, near, reached)
            source, reached[0] = u, u
            found = gather(1, graph, 2 * hops + 1, n, near, reached)
        if near[v] == 0 and sizes.size > 0 and sizes[u] + sizes[v] <= limit:
            kept = _merge(u, v, balls, best[1])
        else:
            local = (place, nodes, rows, columns, labels, walked)
            kept, columns = _cut_and_keep(u, v, graph, cut, net, local, work, best)
        slot = p % _GROUP
        _pool(best[1], kept, net[7], profiles[slot])
        if slot == _GROUP - 1 or p == pairs.shape[0] - 1:
            _finish(slot + 1, profiles, head, head_work, out[p - slot : p + 1])


@dataclass(frozen=True, eq=False)
class SEALScorer(PairwiseScorer):
    """Logits of pairs; parameters as :func:`gelato.baselines.seal.scorer.score_pairs`.

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
