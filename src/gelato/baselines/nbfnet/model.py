"""NBFNet: learned encodings of all paths between two nodes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gelato.baselines.nbfnet.rows import SCALERS, PathGraph, PathWeights
from gelato.baselines.nbfnet.scorer import PathScorer
from gelato.baselines.nbfnet.states import path_states
from gelato.baselines.shared_layers.link_module import LinkModule
from gelato.baselines.shared_layers.network import GNNModel
from gelato.baselines.shared_layers.network_task import NetworkSettings
from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.kernels.vectors import LANES
from gelato.parameters import Dimension, constant, unlisted, whole
from gelato.splits import EdgeSplit

_STATISTICS = 4
_FORWARD_SHARE = 0.35  # of a step's time


class NBFNetModule(LinkModule):
    """A generalised Bellman-Ford recursion and a net on what it finds."""

    def __init__(self, graph: Graph, model: NBFNet) -> None:
        super().__init__(graph, None, normalise=False)
        w, layers = model.dimensions, model.layers
        # As embeddings and linear layers are initialised.
        bound = 1 / math.sqrt(w + SCALERS * _STATISTICS * w)
        self.query = nn.Parameter(torch.randn(w))
        self.relation = nn.Parameter(torch.randn(layers, w))
        self.gathered, self.own, self.bias = (
            nn.Parameter(torch.empty(layers, *shape).uniform_(-bound, bound))
            for shape in ((SCALERS, _STATISTICS * w, w), (w, w), (w,))
        )
        self.gain = nn.Parameter(torch.ones(layers, w))
        self.shift = nn.Parameter(torch.zeros(layers, w))
        self.first, self.last = nn.Linear(2 * w, 2 * w), nn.Linear(2 * w, 1)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """What propagates, in the order of :class:`PathWeights`."""
        return tuple(getattr(self, name) for name in PathWeights._fields)

    def prepare(self, graph: Graph) -> PathGraph:
        """Return edges and degrees; attributes and weights are not used."""
        return PathGraph.of(graph)

    def encode(self, inputs: PathGraph) -> PathGraph:
        """Return the graph itself: states belong to pairs."""
        return inputs

    def decode(self, states: PathGraph, pairs: Tensor) -> Tensor:
        """Return logits of the mean of both directions' encodings."""
        found = path_states(states, pairs.numpy(), self.weights).mean(dim=1)
        known = self.query.expand(len(found), -1)
        hidden = self.first(torch.cat([found, known], dim=1)).relu()
        logits: Tensor = self.last(hidden)
        return logits

    def scorer(self, states: PathGraph) -> PathScorer:
        """Return what scores pairs by one propagation per node."""
        w = len(self.query)
        inner, by_query = self.first.weight[:, :w], self.first.weight[:, w:]
        shift = by_query @ self.query + self.first.bias
        return PathScorer(
            states,
            PathWeights.of(self.weights),
            tuple(
                tensor.detach().numpy().copy()
                for tensor in (inner.T, shift, self.last.weight[0], self.last.bias)
            ),
        )


class NBFNet(GNNModel):
    """Neural Bellman-Ford network (Zhu et al., 2021), for graphs of one relation.

    Parameters
    ----------
    dimensions, layers : int
        Width of states, a multiple of 8, and edges of the longest path.
    batch_size : int
        Positives per step where training is biased.
    steps : int, optional
        The most steps of an epoch, which then does not see every positive; default
        all. Only where training is biased.
    batches : int
        Steps per epoch where training is unbiased.
    masking : bool
        Hide a step's positives from the messages, as the reference always does.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`. There are no
        features: attributes are not used.

    Examples
    --------
    >>> NBFNet(layers=4)
    NBFNet(layers=4)
    """

    name = "nbfnet"
    summary = "encodings of all paths by a learned Bellman-Ford recursion"

    search_space: ClassVar = {
        "lr": Dimension((0.005, 0.001, 0.01), 5e-4, 2e-2, log=True),
        "layers": Dimension((6, 3, 4)),
        "dimensions": unlisted(32, 16, 64),
    }
    # Its authors' for pubmed; photo and computers are large too.
    presets: ClassVar = {
        graph: {"batch_size": 16, "epochs": 10, "validate_exact_every": None}
        for graph in ("pubmed", "photo", "computers")
    }

    features: str = constant("none")
    dimensions: int = whole(32)
    layers: int = whole(6)
    batch_size: int = whole(64)
    steps: int | None = whole(None)
    masking: bool | None = True
    batches: int = 10
    lr: float = 0.005
    epochs: int = 20
    validate_every: int = 2
    validate_exact_every: int | None = 10

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range."""
        super().check_parameters()
        if self.dimensions % LANES:
            raise UsageError(
                f"dimensions is {self.dimensions}, but must be a multiple of {LANES}.",
                hint=f"Use {-(-self.dimensions // LANES) * LANES}.",
            )

    def _batching(self, num_edges: int) -> tuple[int, int]:
        parts = self.batches
        if self.training == "biased":
            # A single batch would hide every edge from itself.
            parts = max(-(-num_edges // self.batch_size), 2)
        return parts, min(parts, self.steps or parts)

    def validation_seconds(self, split: EdgeSplit, step_seconds: float) -> float | None:
        """Return what a validation takes, by that of a step.

        As many negatives as positives are scored, without a gradient.
        """
        if not self._samples_validation():
            return None
        step = 2 * self.batch_size
        if self.training == "unbiased":
            step = split.train_graph.num_pairs // self.batches
        return step_seconds * _FORWARD_SHARE * 2 * len(split.valid) / max(1, step)

    def _notes(self, settings: NetworkSettings) -> tuple[str, ...]:
        notes = ["attributes are not used"]
        if settings.steps < settings.batches:
            notes.append(
                f"an epoch takes {settings.steps} of {settings.batches} batches"
            )
        return tuple(notes)

    def _build(self, graph: Graph, stored: dict[str, Any] | None) -> NBFNetModule:
        return NBFNetModule(graph, self)
