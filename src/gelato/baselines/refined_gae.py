"""The refined GAE: linear convolutions, and a deep net on the product of two states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers.decoders import TiledScorer
from gelato.baselines.shared_layers.link_module import LinkModule, glorot, pick
from gelato.baselines.shared_layers.network import LEARNING_RATES, HidingModel
from gelato.baselines.shared_layers.network_task import NetworkSettings
from gelato.baselines.shared_layers.normed_net import (
    ACTIVATIONS,
    NormedLayer,
    RowLayer,
    RowOutput,
    rows_of,
)
from gelato.graph import FloatArray, Graph
from gelato.nn.messages import SparseMatrix, symmetric_average
from gelato.parameters import Dimension, choice, flag, number, unlisted, whole
from gelato.splits import EdgeSplit

Table = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DeepProductScorer(TiledScorer):
    """A normalised net on the product of two states, along rows.

    Parameters
    ----------
    nodes : int
        Their number.
    states : (padded n, d) float32
        States of nodes, in whole tiles.
    layers : list of RowLayer
        The hidden layers.
    last : RowOutput
        Of the score.
    residual : bool
        Whether the product is added to every hidden layer.
    """

    nodes: int
    states: Table
    layers: list[RowLayer]
    last: RowOutput
    residual: bool

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.nodes

    def _tile(self, u: int, start: int) -> FloatArray:
        values = product = self.states[start : start + self._TILE] * self.states[u]
        for layer in self.layers:
            values = layer(values, product if self.residual else None)
        return self.last(values)


Inputs = tuple[SparseMatrix, SparseMatrix]


class RefinedGAEModule(LinkModule):
    """Averages of averages, mixed by learned shares, and a net on products."""

    chunked = True

    def __init__(self, graph: Graph, model: RefinedGAE) -> None:
        super().__init__(graph, model.features, normalise=model.normalise)
        self.dropout, self.residual = model.dropout, model.residual
        hidden = model.hidden
        self.first = glorot(self.num_features, hidden)
        if model.features == "one-hot":  # a learned vector of its own for every node
            nn.init.orthogonal_(self.first)
        self.shares = nn.Parameter(model.decay ** torch.arange(float(model.layers)))
        self.norms = nn.ModuleList(
            nn.LayerNorm(hidden) for _ in range(model.layers - 1)
        )
        self.net = nn.ModuleList(
            NormedLayer(hidden, hidden, model.dropout, model.activation)
            for _ in range(model.net_layers - 1)
        )
        self.last = nn.Linear(hidden, 1)

    def prepare(self, graph: Graph) -> Inputs:
        """Return averages over neighbours, and features."""
        return SparseMatrix(symmetric_average(graph)), self.feature_matrix(graph)

    def encode(self, inputs: Inputs) -> Tensor:
        """Return states of nodes."""
        average, features = inputs
        shares = self.shares.softmax(0)
        states = average.times(features.times(self.first))
        mixed = shares[0] * states
        for share, norm in zip(shares[1:], self.norms, strict=True):
            states = functional.dropout(norm(states), self.dropout, self.training)
            states = average.times(states)
            mixed = mixed + share * states
        return mixed

    def decode(self, states: Tensor, pairs: Tensor) -> Tensor:
        """Return the logits of pairs."""
        u, v = pick(states, pairs)
        x = product = u * v
        for layer in self.net:
            x = layer(x, product if self.residual else None)
        logits: Tensor = self.last(x)
        return logits

    def clip_groups(self) -> list[Iterable[nn.Parameter]]:
        """Return the encoder's parameters apart from those of the net."""
        net = [*self.net.parameters(), *self.last.parameters()]
        encoder = [self.first, self.shares, *self.norms.parameters()]
        return [encoder, net]

    def scorer(self, states: Tensor) -> DeepProductScorer:
        """Return the logits of whole rows."""
        return DeepProductScorer(
            len(states),
            DeepProductScorer.padded(states),
            rows_of(self.net),
            RowOutput.of(self.last),
            self.residual,
        )


# Its authors' for pubmed, which photo and computers borrow: nobody searched there.
_LARGE = {"hidden": 512, "layers": 2, "dropout": 0.4, "negatives": 3}


class RefinedGAE(HidingModel):
    """Graph auto-encoder as refined by Ma, Wang, Wang and Zhang (2024).

    Parameters
    ----------
    hidden, layers : int
        Width of everything, and averages over neighbours; nothing between them but
        normalisation and dropout.
    decay : float
        Averages start with shares that follow its powers.
    net_layers : int
        Layers of the net on products, the output included.
    residual : bool
        Add the product to every hidden layer of the net.
    activation : {"relu", "gelu", "silu"}
        Of the net.
    dropout : float
        Share of units left out in training.
    negatives : int
        Per positive, where training is biased.
    batch_size : int
        Positives per step where training is biased; they are hidden meanwhile.
    normalise : bool
        Divide rows of features by their sums.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`. With
        ``features="one-hot"`` every node learns a vector, orthogonal to others at
        first.

    Examples
    --------
    >>> RefinedGAE(hidden=64)
    RefinedGAE(hidden=64)
    """

    name = "refined-gae"
    summary = "linear graph convolutions, a deep net on the product of states"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": Dimension((0.6, 0.2, 0.4), 0.0, 0.7, step=0.1),
        "layers": unlisted(4, 2),
        "hidden": unlisted(1024, 256, 512),
        "net_layers": unlisted(2, 4),
    }
    # Its authors'; the defaults are those for citeseer.
    presets: ClassVar = {
        "cora": {
            "net_layers": 4,
            "residual": True,
            "activation": "silu",
            "negatives": 3,
            "batch_size": 2048,
            "lr": 0.005,
        },
        "pubmed": {**_LARGE, "decay": 0.5, "activation": "gelu"},
        "photo": _LARGE,
        "computers": _LARGE,
    }

    hidden: int = whole(1024)
    layers: int = whole(4)
    decay: float = number(1.0, above=0, most=1)
    net_layers: int = whole(2, least=2)
    residual: bool = flag(False)
    activation: str = choice("relu", ACTIVATIONS)
    dropout: float = number(0.6, least=0, below=1)
    negatives: int = whole(1)
    normalise: bool = flag(True)
    batch_size: int = 4096
    lr: float = 0.001
    epochs: int = 100
    validate_exact_every: int | None = None

    def _settings(self, split: EdgeSplit) -> NetworkSettings:
        return replace(super()._settings(split), negatives=self.negatives)

    def _build(
        self, graph: Graph, stored: dict[str, Tensor] | None
    ) -> RefinedGAEModule:
        return RefinedGAEModule(graph, self)
