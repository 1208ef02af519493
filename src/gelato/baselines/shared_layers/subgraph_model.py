"""Training on subgraphs of pairs: small steps, a few subgraphs at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from gelato.baselines.shared_layers.link_module import LinkModule
from gelato.baselines.shared_layers.network import GNNModel
from gelato.baselines.shared_layers.network_task import NetworkSettings, NetworkTask
from gelato.baselines.shared_layers.subgraphs import Packed, subgraph_sizes
from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels.chunks import generator, run_shares
from gelato.nn.messages import average_rows, refuse_large
from gelato.parameters import whole
from gelato.splits import EdgeSplit
from gelato.training.negatives import NegativePairs


class SubgraphTask(NetworkTask):
    """Losses and validation of a network that sees the subgraphs of pairs.

    Biased training draws its negatives once, as the networks' authors do, unless the
    settings say otherwise, and deals them out anew each epoch.

    Parameters
    ----------
    module, split, settings
        See :class:`gelato.baselines.shared_layers.network_task.NetworkTask`.
    copies : int
        How often an epoch of biased training lists every positive, with as many
        negatives in all.
    """

    def __init__(
        self,
        module: LinkModule,
        split: EdgeSplit,
        settings: NetworkSettings,
        *,
        copies: int = 1,
    ) -> None:
        edges = len(split.train)
        fitting = replace(settings, batches=min(settings.batches, edges))
        super().__init__(module, split, fitting)
        if settings.training != "biased":
            return
        parts, seed, count = settings.batches, settings.seed, copies * edges
        pool = NegativePairs(self.graph.num_nodes, split.train)

        def draw(epoch: int) -> IntArray:
            when = (epoch,) if settings.redraw else ()
            return pool.sample(count, generator(seed, "subgraph negatives", *when))

        numbers = np.arange(count) % edges
        positives = _Dealt(lambda _: numbers, parts, seed, "subgraph positives")
        negatives = _Dealt(draw, parts, seed, "dealt negatives")

        def deal(epoch: int, batch: int, wanted: int) -> tuple[IntArray, Any]:
            # As many as positives: both lists are cut into parts of the same sizes.
            return negatives.batch(epoch, batch), np.arange(wanted, dtype=np.int32)

        self.positives = positives  # type: ignore[assignment]
        self._negatives = deal


class _Dealt:
    """Things dealt out into parts that differ in size by at most 1, anew each epoch."""

    def __init__(
        self, draw: Callable[[int], IntArray], parts: int, seed: int, purpose: str
    ) -> None:
        self.draw, self.parts = draw, parts
        self.seed, self.purpose = seed, purpose
        self._known: tuple[int, list[IntArray]] = (0, [])

    def batch(self, epoch: int, batch: int) -> IntArray:
        """Return one part of an epoch."""
        if self._known[0] != epoch:
            things = self.draw(epoch)
            order = generator(self.seed, self.purpose, epoch).permutation(len(things))
            self._known = (epoch, np.array_split(things[order], self.parts))
        return self._known[1][batch]


Neighbours = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]

# Pairs whose subgraphs are held at a time.
_CHUNK = 64
# Edges, and as many negatives, whose subgraphs are measured before training.
_MEASURED = 500
# A step forward and back, in units of a pass forward.
_BACK_AND_FORTH = 3.0


class SubgraphModule(LinkModule):
    """A network that describes pairs by their subgraphs, and classifies descriptions.

    Parameters
    ----------
    graph, features
        See :class:`gelato.baselines.shared_layers.link_module.LinkModule`.
    hops : int
        How far subgraphs reach.
    max_nodes : int, optional
        The most nodes of a subgraph.
    """

    def __init__(
        self, graph: Graph, features: str | None, *, hops: int, max_nodes: int | None
    ) -> None:
        super().__init__(graph, features, normalise=False)
        self.hops, self.max_nodes = hops, max_nodes

    @abstractmethod
    def describe(self, states: Any, pairs: Tensor) -> Tensor:
        """Return ``(K, d)`` descriptions of pairs; pairs do not see each other."""

    @abstractmethod
    def classify(self, described: Tensor) -> Tensor:
        """Return the logits ``(K, 1)`` of described pairs."""

    def decode(self, states: Any, pairs: Tensor) -> Tensor:
        """Return the logits of pairs."""
        return self.classify(self.describe(states, pairs))

    def logits(self, states: Any, pairs: Tensor) -> Tensor:
        """Return the logits of any number of pairs, a few subgraphs at a time."""
        parts = torch.split(pairs, _CHUNK)
        if len(parts) == 1:
            return self.decode(states, pairs)
        if torch.is_grad_enabled():
            described = [
                checkpoint(self.describe, states, part, use_reentrant=False)
                for part in parts
            ]
        else:
            described = [self.describe(states, part) for part in parts]
        return self.classify(torch.cat(described))


class SubgraphModel(GNNModel):
    """A network on subgraphs of pairs; see its subclasses.

    Parameters besides those of
    :class:`gelato.baselines.shared_layers.network.GNNModel`:

    hops : int
        How far subgraphs reach from both ends.
    max_nodes : int, optional
        The most nodes of a subgraph, the nearest first; a hop that does not fit is
        cut. Default no limit.
    batch_size : int
        Pairs per step where training is biased, half of them positives.
    steps : int, optional
        The most steps per epoch, which then need not see every positive.
    """

    hops: int = whole(1)
    max_nodes: int | None = whole(None, least=2)
    batch_size: int = whole(32)
    steps: int | None = whole(None)
    batches: int = 10
    epochs: int = 50
    redraw: bool = False
    validate_exact_every: int | None = None
    # How often an epoch of biased training lists every positive.
    copies = 1

    @abstractmethod
    def _pair_bytes(self, sizes: IntArray) -> FloatArray:
        """Return what training holds for pairs, given nodes and entries ``(p, 2)``."""

    def validation_seconds(self, split: EdgeSplit, step_seconds: float) -> float | None:
        """Return what a validation takes, by that of a step."""
        if not self._samples_validation():
            return None
        pairs, step = 2 * len(split.valid), self.batch_size
        if self.training == "unbiased":
            step = split.train_graph.num_pairs // self.batches
        return step_seconds * pairs / step / _BACK_AND_FORTH

    def _batching(self, num_edges: int) -> tuple[int, int]:
        parts = self.batches
        if self.training == "biased":
            positives = max(1, self.batch_size // 2)
            parts = min(-(-self.copies * num_edges // positives), num_edges)
        return parts, parts if self.steps is None else min(parts, self.steps)

    def _network_task(
        self, module: LinkModule, split: EdgeSplit, settings: NetworkSettings
    ) -> SubgraphTask:
        return SubgraphTask(module, split, settings, copies=self.copies)

    def _notes(self, settings: NetworkSettings) -> tuple[str, ...]:
        notes = list(super()._notes(settings))
        if settings.steps < settings.batches:
            notes.append(
                f"an epoch visits {settings.steps:,} of {settings.batches:,} batches"
            )
        if self.max_nodes is not None and self.split_ is not None:
            sizes = self._measure(self.split_.train_graph, self.max_nodes + 1)
            share = float(np.mean(sizes[:, 0] > self.max_nodes))
            notes.append(
                f"subgraphs are cut at {self.max_nodes:,} nodes, the nearest first: "
                f"{share:.0%} of {len(sizes):,} that were measured"
            )
        return tuple(notes)

    def _measure(self, graph: Graph, limit: int | None) -> IntArray:
        """Return nodes and entries of the subgraphs of some training pairs."""
        random = generator(self.seed, "measured subgraphs")
        some = random.permutation(graph.num_edges)[:_MEASURED]
        pool = NegativePairs(graph.num_nodes, graph.edges)
        pairs = np.concatenate([graph.edges[some], pool.sample(len(some), random)])
        sizes = np.empty((len(pairs), 2), np.int64)
        most = graph.num_nodes if limit is None else limit
        subgraph_sizes(pairs, neighbours(graph), self.hops, most, sizes)
        return sizes

    def _measured(self, graph: Graph) -> IntArray:
        """Return :meth:`_measure`, or refuse subgraphs that will not fit."""
        sizes = self._measure(graph, self.max_nodes)
        needed = self._pair_bytes(sizes)
        together = min(self.batch_size, _CHUNK)
        largest = int(sizes[:, 0].max())
        refuse_large(
            f"{together:,} subgraphs of {self.hops} hops, {sizes[:, 0].mean():,.0f} of "
            f"{graph.num_nodes:,} nodes each on average and up to {largest:,},",
            float(together * needed.mean() + needed.max()),
            hint=f"Cut them: max_nodes={max(10, largest // 10)}; or take fewer hops.",
        )
        return sizes


def neighbours(graph: Graph) -> Neighbours:
    """Return the neighbours of all nodes as kernels take them."""
    adjacency = graph.adjacency
    adjacency.sort_indices()
    return adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32)


def packed_average(packed: Packed, dense: Tensor) -> Tensor:
    """Return ``D^-1/2 (A + I) D^-1/2`` of packed subgraphs times a dense table.

    Weights are not used. The matrix is its own transpose, hence its own gradient.
    """
    return cast(Tensor, _Average.apply(dense, packed))  # type: ignore[no-untyped-call]


class _Average(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, packed: Packed) -> Tensor:
        ctx.packed = packed
        degrees = np.diff(packed.rows)
        ctx.root = np.float32(1.0) / np.sqrt(degrees.astype(np.float32) + 1)
        return _averaged(packed, ctx.root, dense)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _averaged(ctx.packed, ctx.root, gradient), None


def _averaged(packed: Packed, root: FloatArray, dense: Tensor) -> Tensor:
    out = torch.empty_like(dense, memory_format=torch.contiguous_format)
    table = dense.detach().contiguous().numpy()
    work = partial(average_rows, packed.rows, packed.columns, root, table, out.numpy())
    run_shares(work, len(out))
    return out
