"""Returns, crossings and traces of learned walks, with gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gelato.baselines.gae import GAE
from gelato.baselines.shared_layers.decoders import PairwiseScorer
from gelato.baselines.shared_layers.link_module import LinkModule, glorot, zeros
from gelato.baselines.shared_layers.network import GNNModel
from gelato.baselines.shared_layers.network_task import NetworkSettings
from gelato.baselines.shared_layers.subgraph_model import (
    Neighbours,
    SubgraphModel,
    SubgraphModule,
    SubgraphTask,
    neighbours,
    packed_average,
)
from gelato.baselines.shared_layers.subgraphs import Packed, ball_sizes, pack_subgraphs
from gelato.baselines.walkpool.infoclust import InfoClust
from gelato.baselines.walkpool.profiles import (
    HEADS,
    PER_HEAD,
    POWERS,
    SLOPE,
    follow_packed,
    score_pairs,
    unfollow_packed,
)
from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels.chunks import balanced_chunks, run_chunks
from gelato.kernels.tiles import column_tiles
from gelato.models.trained import DROPOUTS
from gelato.nn.messages import refuse_large
from gelato.parameters import Dimension, choice, number, unlisted, whole
from gelato.splits import EdgeSplit
from gelato.training.step_times import time_steps


def row_softmax(scores: Tensor, rows: Tensor, count: int, without: Tensor) -> Tensor:
    """Return the softmax of scores over the entries of each row.

    Parameters
    ----------
    scores : (e, heads) Tensor
        One row of numbers per entry.
    rows : (e,) int64 Tensor
        The row of each entry.
    count : int
        Number of rows.
    without : (k,) int64 Tensor
        Entries that are masked; a row of none but these is 0.
    """
    masked = scores.index_fill(0, without, -torch.inf)
    top = masked.new_full((count, scores.shape[1]), -torch.inf)
    index = rows[:, None].expand_as(scores)
    top = top.scatter_reduce(0, index, masked.detach(), "amax").nan_to_num(neginf=0.0)
    terms = (masked - top.index_select(0, rows)).exp()
    sums = terms.new_zeros(top.shape).index_add(0, rows, terms)
    return terms / sums.index_select(0, rows).clamp_min(1e-16)


class _WalkSums(torch.autograd.Function):
    """Sums of walks on packed subgraphs, of entries ``(channels, e)``."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, packed: Packed) -> Tensor:
        out = values.new_empty(len(packed.start) - 1, len(values), 3, POWERS)
        _by_chunks(packed, follow_packed, (values,), out)
        ctx.packed = packed
        ctx.save_for_backward(values)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        out = torch.empty_like(values)
        _by_chunks(ctx.packed, unfollow_packed, (values, gradient.contiguous()), out)
        return out, None


def walk_sums(packed: Packed, values: Tensor) -> Tensor:
    """Return returns, crossings and traces of walks of 2 to 8 steps.

    Parameters
    ----------
    packed : Packed
        Subgraphs whose rows are the targets of steps.
    values : (e, channels) Tensor
        Entries of the matrix of each channel.

    Returns
    -------
    (p, channels, 3, POWERS) Tensor
        By pair and channel.
    """
    found: Tensor = _WalkSums.apply(  # type: ignore[no-untyped-call]
        values.T.contiguous(), packed
    )
    return found


def _by_chunks(
    packed: Packed, kernel: Any, given: tuple[Tensor, ...], out: Tensor
) -> None:
    """Run a kernel on chunks of subgraphs that cost about the same."""
    csr = packed.start, packed.rows, packed.columns
    arrays, found = [tensor.detach().numpy() for tensor in given], out.numpy()
    entries = np.diff(packed.rows[packed.start])
    bounds = balanced_chunks(entries * np.diff(packed.start).astype(np.float64))

    def work(chunk: int) -> None:
        kernel(csr, *arrays, bounds[chunk], bounds[chunk + 1], found)

    run_chunks(work, len(bounds) - 1)


# Hidden units of the auto-encoder, and its learning rate.
_CODER_UNITS, _CODER_LR = 64, 0.005
_STATES = ("vgae", "infoclust")
_NUMBERS = HEADS * PER_HEAD
# Seconds in which a forecast times what gives the nodes their states.
_REHEARSED = 2.0

# The graph, and representations of its nodes.
Inputs = tuple[Neighbours, Tensor]
# The graph, and products of representations: first convolution, queries, keys.
States = tuple[Neighbours, Tensor, Tensor, Tensor]


class WalkPoolModule(SubgraphModule):
    """Two graph convolutions give attention to edges; walks along it a profile."""

    def __init__(self, graph: Graph, model: WalkPool) -> None:
        super().__init__(
            graph, model.features, hops=model.hops, max_nodes=model.max_nodes
        )
        self.dimensions, hidden, units = model.dimensions, model.hidden, model.units
        self.hidden, self.dropout = hidden, model.dropout
        self.coder = model.coder()._build(graph, None).requires_grad_(False)
        widths = [model.dimensions, hidden, hidden]
        self.weights = nn.ParameterList(glorot(*width) for width in pairwise(widths))
        self.biases = zeros(*widths[1:])
        # Queries and keys: an inner layer on all three representations, an outer one.
        self.inner = nn.ModuleList(nn.Linear(sum(widths), hidden) for _ in range(2))
        self.outer = nn.ModuleList(nn.Linear(hidden, HEADS * hidden) for _ in range(2))
        self.norm = nn.BatchNorm1d(_NUMBERS)
        through = [_NUMBERS, units, units, max(1, units // 2), _NUMBERS, 1]
        self.classifier = nn.ModuleList(
            nn.Linear(*width) for width in pairwise(through)
        )

    def prepare(self, graph: Graph) -> Inputs:
        """Return the graph's neighbours, and the states that stand for its nodes."""
        with torch.no_grad():
            return neighbours(graph), self.coder.encode(self.coder.prepare(graph))[0]

    def encode(self, inputs: Inputs) -> States:
        """Return the products of representations, which subgraphs look up."""
        graph, x = inputs
        first = x @ self.weights[0]
        query, key = (
            functional.linear(x, layer.weight[:, : self.dimensions], layer.bias)
            for layer in (self._inner(side) for side in range(2))
        )
        return graph, first, query, key

    def describe(self, states: States, pairs: Tensor) -> Tensor:
        """Return the numbers of walks with and without the pair's own edge."""
        graph, first, *sides = states
        packed = pack_subgraphs(
            pairs.numpy(), graph, hops=self.hops, limit=self.max_nodes, joined=True
        )
        nodes = torch.from_numpy(packed.nodes)
        one = packed_average(packed, first.index_select(0, nodes)) + self.biases[0]
        y = self._drop(one.relu()) @ self.weights[1]
        two = packed_average(packed, y) + self.biases[1]
        both = torch.cat([one, two], dim=1)
        query, key = (
            self._attend(side, looked_up.index_select(0, nodes), both)
            for side, looked_up in enumerate(sides)
        )
        count = len(packed.nodes)
        rows = torch.from_numpy(np.repeat(np.arange(count), np.diff(packed.rows)))
        sources = torch.from_numpy(packed.columns)
        products = query.index_select(0, sources) * key.index_select(0, rows)
        scores = products.sum(dim=2) / math.sqrt(self.hidden)
        start = packed.start[:-1]
        own = torch.from_numpy(packed.rows[np.stack([start, start + 1])])
        none = own.new_empty(0)
        steps = [
            row_softmax(scores, rows, count, without)
            for without in (none, own.flatten())
        ]
        sums = walk_sums(packed, torch.cat(steps, dim=1))
        omega = scores.sigmoid()[own].sum(dim=0)  # (pairs, heads)
        return _profile(sums, omega)

    def classify(self, described: Tensor) -> Tensor:
        """Return the logits of a wide net on normalised profiles."""
        x: Tensor = self.norm(described)
        for layer in self.classifier[:-1]:
            x = layer(x).relu()
        logits: Tensor = self.classifier[-1](self._drop(x))
        return logits

    def scorer(self, states: States) -> WalkPoolScorer:
        """Return the logits of pairs."""
        return WalkPoolScorer.of(self, *states)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)

    def _inner(self, side: int) -> nn.Linear:
        return cast(nn.Linear, self.inner[side])

    def _attend(self, side: int, looked_up: Tensor, both: Tensor) -> Tensor:
        """Return queries or keys, ``(nodes, heads, hidden)``."""
        rest = self._inner(side).weight[:, self.dimensions :]
        x = functional.leaky_relu(looked_up + both @ rest.T, SLOPE)
        found: Tensor = self.outer[side](self._drop(x))
        return found.view(-1, HEADS, self.hidden)


def _profile(sums: Tensor, omega: Tensor) -> Tensor:
    """Return profiles, laid out head by head as the kernel's.

    ``sums`` are those of all heads with the pair's own edge, then without.
    """
    kept, gone = sums[:, :HEADS], sums[:, HEADS:]
    parts = [kept[:, :, 0], gone[:, :, 0], kept[:, :, 1], gone[:, :, 1]]
    parts += [kept[:, :, 2] - gone[:, :, 2], omega[:, :, None]]
    return torch.cat(parts, dim=2).flatten(1)


@dataclass(frozen=True, eq=False)
class WalkPoolScorer(PairwiseScorer):
    """Logits of pairs: trained weights, laid out for the kernel ``score_pairs``.

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


class WalkPool(SubgraphModel):
    """Walk pooling (Pan et al., 2022), on states that were learned before.

    Parameters
    ----------
    states : {"vgae", "infoclust"}
        What gives the nodes their states, trained first, on the training edges: a
        variational auto-encoder, or Graph InfoClust.
    dimensions : int
        Of these states.
    pretraining : int
        Epochs of what gives them.
    hidden : int
        Units of the graph convolutions and of each attention head.
    units : int
        Width of the classifier's first layers.
    dropout : float
        Share of hidden units left out in training.
    hops, max_nodes, batch_size, steps
        See :class:`gelato.baselines.shared_layers.subgraph_model.SubgraphModel`.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> WalkPool(max_nodes=200)
    WalkPool(max_nodes=200)
    """

    name = "walkpool"
    summary = "learned walks on the subgraph of each pair, with and without its edge"

    search_space: ClassVar = {
        "lr": Dimension((0.00005, 0.0005, 0.005), 2e-5, 2e-2, log=True),
        "hops": Dimension((2, 1)),
        "dropout": DROPOUTS,
        "hidden": unlisted(32, 16, 64),
        "states": unlisted(*_STATES),
    }
    presets: ClassVar = {}  # the same settings everywhere

    hops: int = 2
    states: str = choice("vgae", _STATES)
    dimensions: int = whole(32)
    pretraining: int = whole(500)
    hidden: int = whole(32)
    units: int = whole(1440)
    dropout: float = number(0.5, least=0, below=1)
    lr: float = 0.00005

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> WalkPoolModule:
        if stored is None:
            self._measured(graph)
        return WalkPoolModule(graph, self)

    def _network_task(
        self, module: LinkModule, split: EdgeSplit, settings: NetworkSettings
    ) -> SubgraphTask:
        if not self._rehearsing:
            trained = self.coder().fit(split).module_
            module.get_submodule("coder").load_state_dict(trained.state_dict())
        # The auto-encoder draws states that nobody uses: not from the user's generator.
        with torch.random.fork_rng(devices=[]):
            return super()._network_task(module, split, settings)

    def coder(self) -> GNNModel:
        """Return the model that gives nodes their states."""
        given = {
            "dimensions": self.dimensions,
            "features": self.features,
            "epochs": self.pretraining,
            "seed": self.seed,
        }
        if self.states == "infoclust":
            return InfoClust(**given)
        return GAE(
            **given,
            hidden=_CODER_UNITS,
            negatives="redrawn",
            lr=_CODER_LR,
            metric="sampled-auc",
            validate_exact_every=None,
        )

    def preparation_seconds(self, split: EdgeSplit) -> float:
        """Forecast the training of what gives the nodes their states."""
        coder = self.coder()
        times = time_steps(coder, split, seconds=_REHEARSED)
        if times is None:
            return 0.0
        checks = coder.epochs / coder.validate_every
        return (
            times.step_seconds * coder.epochs
            + (times.validation_seconds or 0.0) * checks
        )

    def _pair_bytes(self, sizes: IntArray) -> FloatArray:
        # Four powers and as many gradients, by graph and head; states of nodes.
        nodes = sizes[:, 0].astype(np.float64)
        return 4.0 * (2 * HEADS * 14 * nodes**2 + 60 * self.hidden * nodes)
