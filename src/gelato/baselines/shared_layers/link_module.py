"""What the shared training asks of a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gelato.errors import InputError
from gelato.graph import Graph
from gelato.nn.messages import SparseMatrix, node_features
from gelato.ranking.scorers import RowScorer

CHUNK = 1 << 16
"""Pairs whose intermediate values are held at a time."""


class LinkModule(nn.Module, ABC):
    """A network that turns a graph into node states, and states into scores of pairs.

    Parameters
    ----------
    graph : Graph
        The training graph; decides the number of features.
    features : str, optional
        See :func:`gelato.nn.messages.node_features`; None for a
        network that is given nothing about nodes.
    normalise : bool
        Whether rows of features are divided by their sums.
    """

    # Decoders that hold many numbers per pair are run in chunks, each once more for
    # its gradient.
    chunked = False
    # States that are a tuple of tensors: the loss of many pairs can be taken part by
    # part, each with its gradient before the next.
    in_parts = False

    def __init__(self, graph: Graph, features: str | None, *, normalise: bool) -> None:
        super().__init__()
        self.features, self.normalise = features or "", normalise
        self._known_features: tuple[Any, SparseMatrix] | None = None
        self.num_features = 0  # not known yet
        if features is not None:
            self.num_features = self.feature_matrix(graph).shape[1]

    @abstractmethod
    def prepare(self, graph: Graph) -> Any:
        """Return what messages need of a graph; constant in training."""

    @abstractmethod
    def encode(self, inputs: Any) -> Any:
        """Return the states of all nodes."""

    def encode_ends(self, inputs: Any, pairs: Tensor) -> Any:
        """Return states that are right at the ends of pairs, and perhaps elsewhere."""
        return self.encode(inputs)

    @abstractmethod
    def decode(self, states: Any, pairs: Tensor) -> Tensor:
        """Return logits ``(K, heads)`` of pairs; the last head is the score."""

    @abstractmethod
    def scorer(self, states: Any) -> RowScorer:
        """Return what ranks pairs by states that need no gradient."""

    def penalty(self, states: Any) -> Tensor | None:
        """Return what is added to the loss of pairs, if anything."""
        return None

    def clip_groups(self) -> list[Iterable[nn.Parameter]]:
        """Return groups of parameters whose gradients are clipped to norm 1."""
        return []

    def logits(self, states: Any, pairs: Tensor) -> Tensor:
        """Return logits of any number of pairs, ``(K, heads)``."""
        if not self.chunked or len(pairs) <= CHUNK:
            return self.decode(states, pairs)
        parts = [
            checkpoint(self.decode, states, part, use_reentrant=False)
            for part in torch.split(pairs, CHUNK)
        ]
        return torch.cat(parts)

    def feature_matrix(self, graph: Graph) -> SparseMatrix:
        """Return the network's input for a graph."""
        if self.features == "attributes" and self._known_features is not None:
            known, matrix = self._known_features
            if known is graph.attributes:  # hiding edges leaves attributes alone
                return matrix
        matrix = SparseMatrix(
            node_features(graph, self.features, normalise=self.normalise)
        )
        if self.num_features not in (0, matrix.shape[1]):
            raise InputError(
                f"The network was trained with {self.num_features:,} features per "
                f"node, and this graph gives {matrix.shape[1]:,}.",
                hint="Give the same attributes in the same order, or fit again.",
            )
        self._known_features = (graph.attributes, matrix)
        return matrix


def glorot(rows: int, columns: int, *, gain: float = 1.0) -> nn.Parameter:
    """Return a ``(rows, columns)`` parameter by Xavier's uniform rule."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, columns), gain))


def zeros(*widths: int) -> nn.ParameterList:
    """Return biases of some layers."""
    return nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in widths)


def pick(states: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states of both ends of pairs."""
    return states.index_select(0, pairs[:, 0]), states.index_select(0, pairs[:, 1])
