"""Training on subgraphs of pairs: small steps, negatives that are drawn once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gelato.graph import IntArray
from gelato.models.gnn.module import LinkModule
from gelato.models.gnn.task import NetworkSettings, NetworkTask
from gelato.splits import EdgeSplit
from gelato.training.batches import NegativePairs, generator


class SubgraphTask(NetworkTask):
    """Losses and validation of a network that sees the subgraphs of pairs.

    Biased training draws its negatives once, as the networks' authors do, and deals
    them out anew each epoch.

    Parameters
    ----------
    module, split, settings
        See :class:`gelato.models.gnn.task.NetworkTask`.
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
        drawn = pool.sample(count, generator(seed, "subgraph negatives"))
        positives = _Dealt(np.arange(count) % edges, parts, seed, "subgraph positives")
        negatives = _Dealt(drawn, parts, seed, "dealt negatives")

        def deal(epoch: int, batch: int, wanted: int) -> tuple[IntArray, Any]:
            # As many as positives: both lists are cut into parts of the same sizes.
            return negatives.batch(epoch, batch), np.arange(wanted, dtype=np.int32)

        self.positives = positives  # type: ignore[assignment]
        self._negatives = deal


class _Dealt:
    """Things dealt out into parts that differ in size by at most 1, anew each epoch."""

    def __init__(self, things: IntArray, parts: int, seed: int, purpose: str) -> None:
        self.things, self.parts = things, parts
        self.seed, self.purpose = seed, purpose
        self._known: tuple[int, list[IntArray]] = (0, [])

    def batch(self, epoch: int, batch: int) -> IntArray:
        """Return one part of an epoch."""
        if self._known[0] != epoch:
            order = generator(self.seed, self.purpose, epoch).permutation(
                len(self.things)
            )
            self._known = (epoch, np.array_split(order, self.parts))
        return self.things[self._known[1][batch]]
