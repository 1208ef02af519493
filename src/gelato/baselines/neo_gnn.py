"""Neo-GNN: learned overlaps of neighbourhoods beside graph convolutions.

The overlap of u and v is ``sum_k (A_uk w_k)(A_vk w_k)``, k ascending: the same bits
in a list, in a row and with the ends exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.baselines.shared_layers.decoders import ProductNet, RowsOrHalf
from gelato.baselines.shared_layers.link_module import LinkModule, glorot, pick, zeros
from gelato.baselines.shared_layers.network import LEARNING_RATES, GNNModel
from gelato.engines import single_blas_thread
from gelato.graph import FloatArray, Graph, IntArray
from gelato.kernels.compiled import kernel
from gelato.nn.messages import (
    SparseMatrix,
    adjacency_pattern,
    node_features,
    refuse_large,
    symmetric_average,
)
from gelato.parameters import Dimension, flag, number, unlisted, whole

# Bytes per entry of A^2: value and column, twice while it is added to A.
_ENTRY_BYTES = 32
# Above this share of filled entries a dense product is faster.
_DENSE_ABOVE = 0.25


@kernel()
def shorter_first(indptr, u, v):  # type: ignore[no-untyped-def]
    """Return two nodes, the one with the shorter row first."""
    if indptr[u + 1] - indptr[u] <= indptr[v + 1] - indptr[v]:
        return u, v
    return v, u


@kernel()
def overlaps(indptr, indices, values, weights, u, v, out):  # type: ignore[no-untyped-def]
    """Write the overlap of listed pairs; columns of a row ascend.

    The shorter row is spread out and met by the longer one: merging two sorted rows
    would guess wrong at every other branch. Columns that only the longer row has add
    0, which changes no bit.
    """
    spread = np.zeros(weights.shape[0])
    for p in range(u.shape[0]):
        few, many = shorter_first(indptr, u[p], v[p])
        for s in range(indptr[few], indptr[few + 1]):
            spread[indices[s]] = values[s] * weights[indices[s]]
        total = 0.0
        for s in range(indptr[many], indptr[many + 1]):
            total += spread[indices[s]] * (values[s] * weights[indices[s]])
        out[p] = total
        for s in range(indptr[few], indptr[few + 1]):
            spread[indices[s]] = 0.0


@kernel()
def overlaps_backward(  # type: ignore[no-untyped-def]
    indptr, indices, values, weights, u, v, gradient, by_weight
):
    """Write the gradient of every node's weight."""
    by_weight[:] = 0.0
    spread = np.zeros(weights.shape[0])
    for p in range(u.shape[0]):
        few, many = shorter_first(indptr, u[p], v[p])
        for s in range(indptr[few], indptr[few + 1]):
            spread[indices[s]] = gradient[p] * values[s]
        for s in range(indptr[many], indptr[many + 1]):
            by_weight[indices[s]] += spread[indices[s]] * values[s]
        for s in range(indptr[few], indptr[few + 1]):
            spread[indices[s]] = 0.0
    for k in range(weights.shape[0]):
        by_weight[k] *= 2.0 * weights[k]


@kernel()
def overlap_rows(rows, indptr, indices, values, weights, out):  # type: ignore[no-untyped-def]
    """Write the overlaps of rows with all nodes, for a symmetric matrix."""
    out[:] = 0.0
    for i in range(rows.shape[0]):
        for s in range(indptr[rows[i]], indptr[rows[i] + 1]):
            k = indices[s]
            w = weights[k]
            factor = values[s] * w
            for t in range(indptr[k], indptr[k + 1]):
                out[i, indices[t]] += factor * (values[t] * w)


@kernel()
def scalar_net(values, slopes, shifts, weights, bias, out):  # type: ignore[no-untyped-def]
    """Write ``bias + sum_j weights[j] max(slopes[j] x + shifts[j], 0)`` for every x."""
    out[:] = bias
    for j in range(slopes.shape[0]):
        slope, shift, weight = slopes[j], shifts[j], weights[j]
        for i in range(values.shape[0]):
            out[i] += weight * max(slope * values[i] + shift, 0.0)


class _Overlaps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, matrix: sp.csr_array, pairs: Tensor
    ) -> Tensor:
        ctx.save_for_backward(weights, pairs)
        ctx.matrix = matrix
        out = weights.new_empty(len(pairs))
        overlaps(*_arguments(matrix, weights, pairs), out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        weights, pairs = ctx.saved_tensors
        by_weight = torch.empty_like(weights)
        overlaps_backward(
            *_arguments(ctx.matrix, weights, pairs),
            gradients[0].contiguous().numpy(),
            by_weight.numpy(),
        )
        return by_weight, None, None


def pair_overlaps(weights: Tensor, matrix: sp.csr_array, pairs: Tensor) -> Tensor:
    """Return ``sum_k A_uk A_vk w_k^2`` for every pair (u, v).

    Parameters
    ----------
    weights : (n,) float64 Tensor
        w, of the nodes.
    matrix : CSR float64
        A, symmetric, with sorted indices.
    pairs : (K, 2) int64 Tensor
        Pairs (u, v).
    """
    return cast(Tensor, _Overlaps.apply(weights, matrix, pairs))  # type: ignore[no-untyped-call]


def _arguments(matrix: sp.csr_array, weights: Tensor, pairs: Tensor) -> tuple[Any, ...]:
    ends = pairs.numpy()
    return (
        matrix.indptr,
        matrix.indices,
        matrix.data,
        weights.detach().contiguous().numpy(),
        ends[:, 0],
        ends[:, 1],
    )


@dataclass(frozen=True, eq=False)
class Inputs:
    """What Neo-GNN needs of a graph.

    Parameters
    ----------
    reach : CSR float64
        ``A + beta A^2``, whose diagonal is that of A^2.
    levels : (l, 1) float64 Tensor
        The distinct values of ``reach``.
    histogram : SparseMatrix
        How often each node's row holds each level.
    average : SparseMatrix
        Averages over neighbours.
    smoothed : SparseMatrix or Tensor
        Features averaged once already: the first layer is linear up to there.
    """

    reach: sp.csr_array
    levels: Tensor
    histogram: SparseMatrix
    average: SparseMatrix
    smoothed: SparseMatrix | Tensor


def reach_levels(
    graph: Graph, beta: float
) -> tuple[sp.csr_array, FloatArray, sp.csr_array]:
    """Return ``A + beta A^2``, its distinct values, and their counts by row."""
    pattern = adjacency_pattern(graph)
    degrees = np.diff(pattern.indptr).astype(np.float64)
    refuse_large(
        "Neo-GNN's square of the adjacency matrix",
        _ENTRY_BYTES * min(float(degrees @ degrees), float(graph.num_nodes) ** 2),
        hint="The graph has nodes of very large degree; use another model.",
    )
    # Twice the paths plus the edge: a whole number per distinct value.
    keys = sp.csr_array(2.0 * (pattern @ pattern) + pattern)
    keys.sort_indices()
    known, level = np.unique(keys.data, return_inverse=True)
    levels = known % 2 + beta * (known // 2)
    shape = (graph.num_nodes, len(known))
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(keys.indptr))
    counts = sp.coo_array((np.ones(keys.nnz), (rows, level)), shape=shape)
    reach = keys.copy()
    reach.data = levels[level]
    return reach, levels, sp.csr_array(counts)


@dataclass(frozen=True, eq=False)
class NeoScorer(RowsOrHalf):
    """The logit of Neo-GNN's mixed probability, which never saturates.

    Parameters
    ----------
    reach : CSR float64
        ``A + beta A^2``.
    weights : (n,) float64
        Structural weights of nodes.
    inner, outer
        Slopes and shifts, weights and bias of the net on overlaps.
    product : ProductNet
        Net on the product of states.
    shares : tuple of float
        Logarithms of the shares of structure and of features.
    """

    reach: sp.csr_array
    weights: FloatArray
    inner: tuple[FloatArray, FloatArray]
    outer: tuple[FloatArray, float]
    product: ProductNet
    shares: tuple[float, float]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.weights)

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        overlap = np.empty(len(pairs))
        overlaps(*self._matrix, self.weights, pairs[:, 0], pairs[:, 1], overlap)
        with single_blas_thread():
            return self._mixed(overlap, self.product.pairs(pairs))

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        scores = np.zeros((len(rows), self.num_nodes))
        overlap = np.empty((1, self.num_nodes))
        with single_blas_thread():
            for i, u in enumerate(rows.tolist()):
                first = u + 1 if above else 0
                overlap_rows(rows[i : i + 1], *self._matrix, self.weights, overlap)
                feature = self.product.row(u, first)
                scores[i, first:] = self._mixed(overlap[0, first:], feature)
        return scores

    @property
    def _matrix(self) -> tuple[Any, ...]:
        return self.reach.indptr, self.reach.indices, self.reach.data

    def _mixed(self, overlap: FloatArray, feature: FloatArray) -> FloatArray:
        """Return the logit of the mixture of both probabilities."""
        structure = np.empty_like(overlap)
        scalar_net(overlap, *self.inner, *self.outer, structure)
        one, two = self.shares
        yes = np.logaddexp(one + _log_sigmoid(structure), two + _log_sigmoid(feature))
        no = np.logaddexp(one + _log_sigmoid(-structure), two + _log_sigmoid(-feature))
        odds: FloatArray = yes - no
        return odds


def _log_sigmoid(x: FloatArray) -> FloatArray:
    return -np.logaddexp(0.0, -x)


# What the graph gives, states of nodes, their structural weights.
States = tuple[Inputs, Tensor, Tensor]


class NeoGNNModule(LinkModule):
    """A structural score and a score of features, mixed by learned shares."""

    chunked = True

    def __init__(self, graph: Graph, model: NeoGNN) -> None:
        super().__init__(graph, model.features, normalise=model.normalise)
        self.dropout, self.beta, hidden = model.dropout, model.beta, model.hidden
        widths = [self.num_features] + [hidden] * model.layers
        self.weights = nn.ParameterList(glorot(*width) for width in pairwise(widths))
        self.biases = zeros(*widths[1:])
        self.of_edge = _scalar(model.edge_units)
        self.of_node = _scalar(model.pair_units)
        self.of_overlap = _scalar(model.pair_units)
        self.shares = nn.Parameter(torch.zeros(2))
        self.predictor = nn.ModuleList(
            [nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)]
        )
        # The reference's predictor has two scalars that it never uses; they are kept
        # so that its published number of parameters can be checked.
        self.predictor.register_parameter("unused", nn.Parameter(torch.zeros(2)))

    def prepare(self, graph: Graph) -> Inputs:
        """Return overlaps' matrix, histogram of its values, and averaged features."""
        reach, levels, histogram = reach_levels(graph, self.beta)
        average = symmetric_average(graph)
        features = node_features(graph, self.features, normalise=self.normalise)
        self.feature_matrix(graph)  # refuses other attributes than those of training
        smoothed = sp.csr_array(average @ features)
        filled = smoothed.nnz / max(1, smoothed.shape[0] * smoothed.shape[1])
        return Inputs(
            reach,
            torch.from_numpy(levels)[:, None],
            SparseMatrix(histogram, np.float64),
            SparseMatrix(average),
            torch.from_numpy(smoothed.toarray().astype(np.float32))
            if filled > _DENSE_ABOVE
            else SparseMatrix(smoothed),
        )

    def encode(self, inputs: Inputs) -> States:
        """Return states of nodes and their structural weights."""
        return self._encode(inputs, None)

    def encode_ends(self, inputs: Inputs, pairs: Tensor) -> States:
        """Leave states of nodes that are in no pair at 0, if they are most."""
        nodes = torch.unique(pairs)
        few = 2 * len(nodes) < inputs.average.shape[0]
        return self._encode(inputs, nodes if few else None)

    def _encode(self, inputs: Inputs, nodes: Tensor | None) -> States:
        smoothed, average = inputs.smoothed, inputs.average
        first = self.weights[0]
        if isinstance(smoothed, SparseMatrix):
            states = smoothed.times(first)
        else:
            states = smoothed @ first
        states = states + self.biases[0]
        later = list(zip(self.weights[1:], self.biases[1:], strict=True))
        for i, (weights, bias) in enumerate(later, 1):
            states = functional.dropout(states.relu(), self.dropout, self.training)
            if nodes is None or i < len(later):
                states = average.times(states @ weights) + bias
            else:
                own = average.rows(nodes).times(states) @ weights + bias
                states = torch.zeros_like(states).index_copy(0, nodes, own)
        # Equal values of A + beta A^2 give equal terms: one evaluation per level.
        structure = inputs.histogram.times(self.of_edge(inputs.levels))
        return inputs, states, self.of_node(structure)[:, 0]

    def decode(self, states: States, pairs: Tensor) -> Tensor:
        """Return the logits of structure, of features, and of their mixture."""
        inputs, hidden, weights = states
        overlaps = pair_overlaps(weights, inputs.reach, pairs)
        structure = self.of_overlap(overlaps[:, None])[:, 0]
        u, v = pick(hidden, pairs)
        x = u * v
        for layer in self.predictor[:-1]:
            x = functional.dropout(layer(x).relu(), self.dropout, self.training)
        feature = self.predictor[-1](x)[:, 0].double()
        shares = functional.log_softmax(self.shares.double(), dim=0)
        odds = [
            torch.logaddexp(
                shares[0] + functional.logsigmoid(sign * structure),
                shares[1] + functional.logsigmoid(sign * feature),
            )
            for sign in (1, -1)
        ]
        return torch.stack([structure, feature, odds[0] - odds[1]], dim=1)

    def clip_groups(self) -> list[Iterable[nn.Parameter]]:
        """Return the predictor's parameters apart from all others."""
        own = list(self.predictor.parameters())
        mine = {id(parameter) for parameter in own}
        return [[p for p in self.parameters() if id(p) not in mine], own]

    def scorer(self, states: States) -> NeoScorer:
        """Return the logit of the mixed probability."""
        inputs, hidden, weights = states
        layers = [_numbers(layer) for layer in self.predictor]
        slopes, shifts = _numbers(self.of_overlap[0])
        outer, last = _numbers(self.of_overlap[2])
        shares = functional.log_softmax(self.shares.detach().double(), dim=0)
        return NeoScorer(
            inputs.reach,
            weights.numpy(),
            (slopes[0], shifts),
            (outer[:, 0].copy(), float(last[0])),
            ProductNet(hidden.numpy(), layers),
            (float(shares[0]), float(shares[1])),
        )


def _numbers(layer: Any) -> tuple[Any, Any]:
    """Return the weights ``(in, out)`` and the bias of a linear layer."""
    weights = layer.weight.detach().numpy()
    return np.ascontiguousarray(weights.T), layer.bias.detach().numpy()


def _scalar(units: int) -> nn.Sequential:
    """Return a net from a number to a number, in double precision."""
    return nn.Sequential(nn.Linear(1, units), nn.ReLU(), nn.Linear(units, 1)).double()


class NeoGNN(GNNModel):
    """Neighbourhood-overlap aware network (Yun et al., 2021).

    Parameters
    ----------
    hidden, layers : int
        Units and number of graph convolutions.
    edge_units, pair_units : int
        Units of the small nets: on values of A + beta A^2; on nodes and overlaps.
    beta : float
        Weight of paths of two edges.
    dropout : float
        Share of hidden units left out in training.
    batch_size : int
        Positives per step where training is biased; ``batches`` is then the most
        steps per epoch, which need not see every positive.
    normalise : bool
        Divide rows of features by their sums.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> NeoGNN(layers=1)
    NeoGNN(layers=1)
    """

    name = "neo-gnn"
    summary = "learned neighbourhood overlaps and graph convolutions"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": Dimension((0.0, 0.1, 0.3), 0.0, 0.6, step=0.05),
        "weight_decay": Dimension((0.0, 1e-7, 1e-4)),
        "layers": unlisted(3, 1, 2),
        "hidden": unlisted(256, 64, 128),
    }
    presets: ClassVar = {}  # its authors give none for these graphs

    hidden: int = whole(256)
    layers: int = whole(3)
    edge_units: int = whole(8)
    pair_units: int = whole(128)
    beta: float = number(0.1, least=0)
    dropout: float = number(0.0, least=0, below=1)
    batch_size: int = whole(1024)
    normalise: bool = flag(False)
    batches: int = 50
    lr: float = 0.001
    validate_every: int = 5

    def _batching(self, num_edges: int) -> tuple[int, int]:
        if self.training == "biased":
            parts = -(-num_edges // self.batch_size)
            return parts, min(parts, self.batches)
        return super()._batching(num_edges)

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> NeoGNNModule:
        return NeoGNNModule(graph, self)
