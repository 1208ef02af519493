"""What a validation computed and the next training step needs too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gelato.baselines.shared_layers.decoders import DifferenceNetScorer
from gelato.baselines.shared_layers.difference_net import (
    at_most_one,
    convolve_twice,
    net_logits,
    net_of_pairs,
    net_of_units,
    net_scorer,
    start_net,
)
from gelato.baselines.shared_layers.link_module import (
    CHUNK,
    LinkModule,
    glorot,
    pick,
)
from gelato.baselines.shared_layers.network import LEARNING_RATES, GNNModel
from gelato.graph import Graph, IntArray, find_pairs
from gelato.kernels.chunks import generator
from gelato.models.trained import DROPOUTS
from gelato.nn.messages import (
    SparseMatrix,
    refuse_large,
    symmetric_average,
)
from gelato.parameters import flag, number, unlisted, whole


class Ahead:
    """Keeps one differentiable value from a validation to the step after it.

    Between the two no parameter changes, so that whatever dropout does not touch is
    computed once. The value and what its gradient needs live as long as this object.

    Examples
    --------
    >>> ahead, weight = Ahead(), nn.Parameter(torch.ones(2))
    >>> found = ahead.value(lambda: 2 * weight, [weight], training=False)
    >>> ahead.value(lambda: 3 * weight, [weight], training=True).tolist()
    [2.0, 2.0]
    """

    def __init__(self) -> None:
        self._known: tuple[list[tuple[int, int]], Tensor] | None = None

    def value(
        self,
        compute: Callable[[], Tensor],
        parameters: Iterable[nn.Parameter],
        *,
        training: bool,
    ) -> Tensor:
        """Return a value, computed anew if a parameter has changed since.

        Parameters
        ----------
        compute : callable
            Gives the value: always the same for the same parameters.
        parameters : iterable of Parameter
            All that it depends on.
        training : bool
            Whether the value's gradient is asked for: then it is given away.
        """
        # Every change in place counts up a parameter's version.
        now = [(id(parameter), parameter._version) for parameter in parameters]
        known, self._known = self._known, None
        if training:
            return known[1] if known is not None and known[0] == now else compute()
        with torch.enable_grad():
            found = compute()
        self._known = (now, found)
        return found.detach()


def sample_edges(graph: Graph, count: int, seed: int) -> IntArray:
    """Draw edges once: ``count`` directed ones, then those that differ, sorted."""
    directed = 2 * graph.num_edges
    drawn = generator(seed, "simplices").choice(
        directed, size=min(count, directed), replace=False
    )
    return graph.edges[np.unique(drawn % graph.num_edges)]


def edge_laplacians(
    edges: IntArray, present: np.ndarray, num_nodes: int
) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the two Laplacians between edges, ``(e, e)`` each.

    With B1 the node-edge and B2 the edge-triangle incidence: ``L0 = B1^T B1`` and
    ``L1 = D2 B1^T D1^+ B1 + B2 B2^T D2^-1 / 3``, where ``D2 = max(|B2| 1, 1)`` and
    ``D1 = 2 |B1| D2 1``.

    Parameters
    ----------
    edges : (e, 2) int64
        Sorted pairs u < v.
    present : (e,) bool
        Edges that are not hidden; hidden ones keep their place, with rows of zeros.
    num_nodes : int
        Number of nodes.
    """
    count = len(edges)
    at = np.flatnonzero(present)
    signs = np.repeat([-1.0, 1.0], len(at))
    ends = np.concatenate([edges[at, 0], edges[at, 1]])
    shape = (num_nodes, count)
    nodes = sp.csr_array(sp.coo_array((signs, (ends, np.tile(at, 2))), shape=shape))
    triangles = _triangle_incidence(edges, at)
    sizes = np.maximum(np.asarray(abs(triangles).sum(axis=1)).ravel(), 1.0)
    reach = 2.0 * (abs(nodes) @ sizes)
    inverse = np.divide(1.0, reach, out=np.zeros_like(reach), where=reach > 0)
    lower = nodes.T @ nodes
    shared = sp.diags_array(sizes) @ nodes.T @ sp.diags_array(inverse) @ nodes
    upper = triangles @ triangles.T @ sp.diags_array(1.0 / sizes) / 3.0
    return sp.csr_array(lower), sp.csr_array(shared + upper)


def _triangle_incidence(edges: IntArray, at: IntArray) -> sp.csr_array:
    """Return the edge-triangle incidence: +1 for ab and bc, -1 for ac, a < b < c."""
    place = {(int(u), int(v)): int(i) for i, (u, v) in zip(at, edges[at], strict=True)}
    above: dict[int, set[int]] = {}
    for u, v in place:
        above.setdefault(u, set()).add(v)
    rows: list[int] = []
    for a, b in place:
        for c in sorted(above[a] & above.get(b, set())):
            rows += [place[a, b], place[b, c], place[a, c]]
    faces = len(rows) // 3
    entries = (np.tile([1.0, 1.0, -1.0], faces), (rows, np.repeat(np.arange(faces), 3)))
    return sp.csr_array(sp.coo_array(entries, shape=(len(edges), faces)))


@dataclass(frozen=True, eq=False)
class Peaks:
    """The constant half of a row softmax: ``exp(relu(L^2) - peak)``, kept sparse.

    Parameters
    ----------
    laplacian : SparseMatrix
        L itself, so that ``L^2 W`` is two sparse products.
    peak : (e, 1) Tensor
        Largest entry of each row of relu(L^2).
    floor : (e, 1) Tensor
        ``exp(-peak)``: what every entry holds at least.
    bulk : SparseMatrix
        What positive entries of L^2 hold above the floor.
    total : (e, 1) Tensor
        Sum of each row, floor included.
    """

    laplacian: SparseMatrix
    peak: Tensor
    floor: Tensor
    bulk: SparseMatrix
    total: Tensor

    @classmethod
    def of(cls, laplacian: sp.csr_array) -> Peaks:
        """Prepare a Laplacian."""
        square = sp.csr_array(laplacian @ laplacian)
        square.data = np.maximum(square.data, 0.0)
        square.eliminate_zeros()
        peak = np.asarray(square.max(axis=1).todense()).reshape(-1, 1)
        rows = np.repeat(np.arange(square.shape[0]), np.diff(square.indptr))
        bulk = square.copy()
        bulk.data = np.exp(square.data - peak[rows, 0]) - np.exp(-peak[rows, 0])
        floor = np.exp(-peak)
        total = np.asarray(bulk.sum(axis=1)).reshape(-1, 1) + square.shape[0] * floor
        numbers = (torch.from_numpy(x.astype(np.float32)) for x in (peak, floor, total))
        peaks, floors, totals = numbers
        return cls(SparseMatrix(laplacian), peaks, floors, SparseMatrix(bulk), totals)

    def squared_times(self, table: Tensor) -> Tensor:
        """Return ``L^2`` times a table."""
        return self.laplacian.times(self.laplacian.times(table))

    def softmax_times(self, other: Tensor, own: Tensor, rest: Tensor) -> Tensor:
        """Return ``softmax(relu([L^2, R])) [own; rest]``, row by row.

        Parameters
        ----------
        other : (e, e) Tensor
            R, the learned half of the rows.
        own, rest : (e, width) Tensor
            What the two halves are multiplied with.
        """
        moving = other.relu()
        highest = torch.maximum(self.peak, moving.detach().amax(dim=1, keepdim=True))
        share = (self.peak - highest).exp()
        moving = (moving - highest).exp()
        fixed = self.bulk.times(own) + self.floor * own.sum(dim=0)
        top = share * fixed + moving @ rest
        return top / (share * self.total + moving.sum(dim=1, keepdim=True))


def prepare_simplices(edges: IntArray, graph: Graph) -> tuple[Peaks, Peaks]:
    """Return both Laplacians of those sampled edges that a graph has."""
    present = find_pairs(graph.edges, edges, graph.num_nodes) >= 0
    lower, upper = edge_laplacians(edges, present, graph.num_nodes)
    return Peaks.of(lower), Peaks.of(upper)


SIMPLEX_SHARE = 0.1  # weight of the simplicial embedding's differences
# Tables of e x e numbers alive at once in a step and ahead of it, and copies of every
# parameter (value, gradient, two moments of Adam, the best epoch's).
_TABLES, _COPIES = 14, 5


@dataclass(frozen=True, eq=False)
class Inputs:
    """Averages over neighbours, features, both Laplacians, and what comes of them.

    The simplicial embedding knows no dropout: validation computes it ahead of a step.
    """

    average: SparseMatrix
    features: SparseMatrix
    lower: Peaks
    upper: Peaks
    ahead: Ahead = field(default_factory=Ahead)


class BScNetsModule(LinkModule):
    """Two embeddings of nodes, and a small net on their squared differences."""

    def __init__(self, graph: Graph, model: BScNets, edges: IntArray) -> None:
        super().__init__(graph, model.features, normalise=model.normalise)
        self.dropout = model.dropout
        hidden, dimensions = model.hidden, model.dimensions
        simplex, size = model.simplex_dimensions, len(edges)
        refuse_block(size, self.num_features)
        self.sample: Tensor
        self.register_buffer("sample", torch.from_numpy(edges))
        self.first = glorot(self.num_features, hidden)
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = glorot(hidden, dimensions)
        self.second_bias = nn.Parameter(torch.zeros(dimensions))
        self.lift = _kaiming(self.num_features, 2 * size)
        self.off = _kaiming(size, size)
        self.lower = _kaiming(size, model.simplex_units)
        self.upper = _kaiming(size, model.simplex_units)
        self.down = _kaiming(2 * size, simplex)
        self.pair = nn.Linear(dimensions + simplex, model.pair_units)
        self.out = nn.Linear(model.pair_units, 1)
        start_net(self.pair, self.out)
        share = torch.ones(dimensions + simplex)
        share[dimensions:] = SIMPLEX_SHARE
        self.share: Tensor
        self.register_buffer("share", share, persistent=False)

    def prepare(self, graph: Graph) -> Inputs:
        """Return averages, features, and Laplacians of the sampled edges left."""
        return Inputs(
            SparseMatrix(symmetric_average(graph)),
            self.feature_matrix(graph),
            *prepare_simplices(self.sample.numpy(), graph),
        )

    def encode(self, inputs: Inputs) -> Tensor:
        """Return both embeddings side by side, each of norm at most 1."""
        convolved = convolve_twice(
            inputs.average,
            inputs.features,
            (self.first, self.first_bias),
            (self.second, self.second_bias),
            dropout=self.dropout if self.training else 0.0,
        )
        simplicial = inputs.ahead.value(
            lambda: self._simplicial(inputs),
            (self.lift, self.off, self.lower, self.upper, self.down),
            training=self.training,
        )
        parts = [at_most_one(convolved), at_most_one(simplicial)]
        return torch.cat(parts, dim=1)

    def _simplicial(self, inputs: Inputs) -> Tensor:
        """Return ``X E S W``, multiplied from the right, S never formed."""
        size = len(self.sample)
        lower = self.off @ inputs.lower.squared_times(self.lower)  # (e, units)
        across = lower @ inputs.upper.squared_times(self.upper).T  # (e, e)
        top, bottom = self.down[:size], self.down[size:]
        mixed = torch.cat(
            [
                inputs.lower.softmax_times(across, top, bottom),
                inputs.upper.softmax_times(across.T, bottom, top),
            ]
        )
        return inputs.features.times(self.lift @ mixed)

    def decode(self, states: Tensor, pairs: Tensor) -> Tensor:
        """Return Fermi-Dirac logits of the net's size."""
        if len(pairs) > CHUNK:
            first = (self.pair.weight * self.share, self.pair.bias)
            output = net_of_pairs(states, first, self.out, pairs)
        else:
            u, v = pick(states, pairs)
            units = self.pair(self.share * (u - v) ** 2)
            output = net_of_units(units, self.out)
        return net_logits(output, training=self.training)

    def scorer(self, states: Tensor) -> DifferenceNetScorer:
        """Return minus the net's size, not clamped."""
        mix = self.pair.weight * self.share
        return net_scorer(states, mix, self.pair.bias, self.out)


def refuse_block(size: int, num_features: int) -> None:
    """Raise if the blocks of so many sampled edges will not fit into memory."""
    parameters = size * size + 2 * size * num_features
    refuse_large(
        f"BScNets with {size:,} sampled edges and {num_features:,} features",
        4.0 * (_TABLES * size * size + _COPIES * parameters),
        hint="Sample fewer edges: sampled_edges=2500.",
    )


def _kaiming(rows: int, columns: int) -> nn.Parameter:
    weights = torch.empty(rows, columns)
    nn.init.kaiming_uniform_(weights, a=math.sqrt(5), mode="fan_out")
    return nn.Parameter(weights)


class BScNets(GNNModel):
    """Block simplicial complex network (Chen et al., 2022), its version for cora.

    Parameters
    ----------
    hidden, dimensions : int
        Units of the two graph convolutions.
    simplex_units, simplex_dimensions : int
        Units between the Laplacians, and of the simplicial embedding.
    pair_units : int
        Hidden units of the net on pairs.
    dropout : float
        Share of inputs and hidden units left out in training.
    sampled_edges : int
        Directed edges drawn once, between which Laplacians are taken.
    normalise : bool
        Divide rows of features by their sums.
    **others
        See :class:`gelato.baselines.shared_layers.network.GNNModel`.

    Examples
    --------
    >>> BScNets(sampled_edges=1500)
    BScNets(sampled_edges=1500)
    """

    name = "bscnets"
    summary = "graph convolutions and block Hodge Laplacians of sampled edges"

    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": DROPOUTS,
        "hidden": unlisted(64, 32, 128),
        "normalise": unlisted(True, False),
    }
    # Its authors' where they give any; elsewhere those for cora, the defaults.
    presets: ClassVar = {
        "citeseer": {"normalise": False},
        "pubmed": {
            "normalise": False,
            "hidden": 128,
            "simplex_units": 64,
            "simplex_dimensions": 32,
            "sampled_edges": 1500,
            "epochs": 5000,
            "patience": 300,
        },
        "photo": {"normalise": False},
        "computers": {"normalise": False},
    }

    hidden: int = whole(64)
    dimensions: int = whole(32)
    simplex_units: int = whole(32)
    simplex_dimensions: int = whole(8)
    pair_units: int = whole(32)
    dropout: float = number(0.5, least=0, below=1)
    sampled_edges: int = whole(2500)
    normalise: bool = flag(True)
    lr: float = 0.005
    epochs: int = 2000
    patience: int | None = 200

    def _build(self, graph: Graph, stored: dict[str, Tensor] | None) -> BScNetsModule:
        if stored is not None and "sample" in stored:
            edges = stored["sample"].numpy()
        else:
            edges = sample_edges(graph, self.sampled_edges, self.seed)
        return BScNetsModule(graph, self, edges)
