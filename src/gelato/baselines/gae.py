"""GAE: a graph auto-encoder, variational as its reference implementation is."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from gelato.baselines.shared_layers.decoders import ProductScorer
from gelato.baselines.shared_layers.dots import pair_dots, softplus_of_products
from gelato.baselines.shared_layers.link_module import LinkModule, glorot
from gelato.baselines.shared_layers.network import LEARNING_RATES, GNNModel
from gelato.baselines.shared_layers.network_task import NetworkSettings, NetworkTask
from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.nn.messages import SparseMatrix, symmetric_average
from gelato.parameters import Dimension, choice, flag, unlisted, whole
from gelato.splits import EdgeSplit

# Averages over neighbours, and features.
Inputs = tuple[SparseMatrix, SparseMatrix]
# Means, logarithms of the standard deviations (if variational), drawn states.
States = tuple[Tensor, Tensor | None, Tensor]


class GAEModule(LinkModule):
    """Two graph convolutions without biases; pairs are scored by inner products."""

    def __init__(self, graph: Graph, model: GAE) -> None:
        super().__init__(graph, model.features, normalise=model.normalise)
        shape = model.hidden, model.dimensions
        self.first = glorot(self.num_features, model.hidden)
        self.mean = glorot(*shape)
        self.spread = glorot(*shape) if model.variational else None

    def prepare(self, graph: Graph) -> Inputs:
        """Return averages over neighbours, and features."""
        return SparseMatrix(symmetric_average(graph)), self.feature_matrix(graph)

    def encode(self, inputs: Inputs) -> States:
        """Return means, log deviations and, in training, drawn states."""
        average, features = inputs
        hidden = average.times(features.times(self.first)).relu()
        gathered = average.times(hidden)
        mean = gathered @ self.mean
        if self.spread is None:
            return mean, None, mean
        spread = gathered @ self.spread
        if not self.training:
            return mean, spread, mean
        return mean, spread, mean + torch.randn_like(mean) * spread.exp()

    def decode(self, states: States, pairs: Tensor) -> Tensor:
        """Return the inner products of pairs as logits."""
        return pair_dots(states[2], states[2], pairs)[:, None]

    def penalty(self, states: States) -> Tensor | None:
        """Return the divergence from a normal distribution, divided by n twice."""
        mean, spread, _ = states
        if spread is None:
            return None
        terms = 1 + 2 * spread - mean * mean - (2 * spread).exp()
        # The mean over nodes, divided by n once more, as the reference has it.
        return -0.5 / len(mean) * terms.sum(dim=1).mean()

    def scorer(self, states: States) -> ProductScorer:
        """Return the inner products of the means."""
        mean = states[0].double().numpy()
        return ProductScorer(mean, mean)


class WeightedTask(NetworkTask):
    """All ordered entries of A + I at once, positives weighted up to the negatives."""

    def step_loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step; the batch's edges count, hidden or not."""
        graph, positions = self.graph, self.positives.batch(epoch, batch)
        visible, _ = self.hide(positions)
        with self.clock("encode"):
            states = self.module.encode(visible)
        with self.clock("decode"):
            value = weighted_loss(states[2], torch.from_numpy(graph.edges))
        penalty = self.module.penalty(states)
        return value if penalty is None else value + penalty


def weighted_loss(states: Tensor, edges: Tensor) -> Tensor:
    """Return ``norm * BCE(Z Z^T, A + I, pos_weight)`` without an n x n matrix.

    Parameters
    ----------
    states : (n, d) Tensor
        Z.
    edges : (m, 2) int64 Tensor
        Each edge of A once.
    """
    total, ones = len(states) ** 2, 2 * len(edges)
    weight, norm = (total - ones) / ones, total / (2 * (total - ones))
    own = (states * states).sum(dim=1)
    linked = pair_dots(states, states, edges)
    # Every entry as a negative, then what the positives among them change.
    value = softplus_of_products(states)
    for logits, copies in ((own, 1), (linked, 2)):
        gain = weight * functional.softplus(-logits) - functional.softplus(logits)
        value = value + copies * gain.sum()
    return norm / total * value


class GAE(GNNModel):
    """Graph auto-encoder (Kipf and Welling, 2016), variational by default.

    Parameters
    ----------
    hidden, dimensions : int
        Units of the hidden layer and of the states.
    variational : bool
        Draw states in training and add the divergence to the loss.
    normalise : bool
        Divide rows of features by their sums.
    negatives : {"weighted", "redrawn", "fixed"}
        Biased training: all pairs with positives weighted up to the negatives, as
        the reference; or as many negatives as positives, drawn as ``redraw`` says.
        "fixed" is an older way to say "redrawn" with ``redraw=False``.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> GAE(epochs=20)
    GAE(epochs=20)
    """

    name = "gae"
    summary = "graph auto-encoder: graph convolutions, inner products"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "hidden": Dimension((32, 16, 64, 128)),
        "dimensions": Dimension((16, 32, 64)),
        "variational": unlisted(True, False),
        "normalise": unlisted(False, True),
    }
    # It ranks all pairs now and then only; a short training needs it more often, or
    # no trial could be pruned.
    tuning_defaults: ClassVar = {"validate_exact_every": 20}
    presets: ClassVar = {}  # the same settings everywhere

    hidden: int = whole(32)
    dimensions: int = whole(16)
    variational: bool = flag(True)
    normalise: bool = flag(False)
    negatives: str = choice("weighted", ("weighted", "redrawn", "fixed"))
    metric: str = "last"
    validate_every: int = 10

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range."""
        super().check_parameters()
        if self._is_weighted and not self.redraw:
            raise UsageError(
                'redraw is False, but negatives="weighted" draws none.',
                hint='Use negatives="redrawn", redraw=False.',
            )
        if self._is_weighted and self.loss != "cross-entropy":
            raise UsageError(
                'negatives="weighted" weighs a cross entropy, and the loss is '
                f"{self.loss}.",
                hint='Use negatives="redrawn", or training="unbiased".',
            )

    @property
    def _is_weighted(self) -> bool:
        return self.training == "biased" and self.negatives == "weighted"

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> GAEModule:
        return GAEModule(graph, self)

    def _settings(self, split: EdgeSplit) -> NetworkSettings:
        redraw = self.redraw and self.negatives != "fixed"
        return replace(super()._settings(split), redraw=redraw)

    def _network_task(
        self, module: LinkModule, split: EdgeSplit, settings: NetworkSettings
    ) -> NetworkTask:
        kind = WeightedTask if self._is_weighted else NetworkTask
        return kind(module, split, settings)
