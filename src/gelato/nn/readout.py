"""Gelato 2's torch parts: learned edge weights, short walks, a learned readout.

Edges and similar pairs are weighed by a small network; walks of one to three edges
on these weights, both degrees and the cosine of the attributes are read out by another.
Everything is one differentiable function of the networks' parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from gelato.graph import FloatArray, IntArray
from gelato.kernels import pair_walks
from gelato.kernels.chunks import NUM_CHUNKS, balanced_chunks, run_chunks, run_rows
from gelato.kernels.pair_walks import EPSILON, LEAST_DEGREE
from gelato.kernels.walk_structure import PairLists, WalkStructure
from gelato.nn.autocovariance import as_array
from gelato.nn.enhancement import EnhancedGraph

Factors = npt.NDArray[np.float32]

FEATURES = (
    "own weight",
    "walks of two edges",
    "walks of three edges",
    "weighted degrees",
    "numbers of neighbours",
    "attributes",
)
"""What the readout sees of a pair."""

# Brings the features to about the same size, 0 to 9.
_SCALES = (1.0, 1.0, 1.0, 1.0, 0.5, 9.0)
# Where the readout starts: three-edge walks first, as in Gelato.
_START = (0.15, 0.5, 1.0, 0.0, 0.0, 0.3)
_INPUTS = 5  # of the edge network, attributes apart


class _ShortWalks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        factors: Tensor,
        structure: WalkStructure,
        lists: PairLists,
    ) -> Tensor:
        graph = _compressed(structure, as_array(weights), as_array(factors))
        bounds = _bounds(structure, lists)
        out = np.empty((len(lists), 3), graph[2].dtype)
        run_rows(pair_walks.walk_pairs, bounds, graph, lists.arrays, out)
        ctx.kept = (structure, lists, graph, bounds)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        structure, lists, graph, bounds = ctx.kept
        gradient = gradients[0].contiguous().numpy()
        by_slot = np.zeros((NUM_CHUNKS, len(graph[2])), graph[2].dtype)
        by_node = np.zeros((NUM_CHUNKS, structure.num_nodes), graph[2].dtype)
        given = (graph, lists.arrays, gradient)
        run_rows(pair_walks.pull_pairs, bounds, *given, own=(by_slot, by_node))
        by_edge = np.bincount(
            structure.slot_edge,
            by_slot.sum(axis=0, dtype=np.float64),
            minlength=structure.num_edges,
        )
        by_factor = by_node.sum(axis=0, dtype=np.float64)[structure.inside]
        one, two = (torch.from_numpy(g).to(gradients[0]) for g in (by_edge, by_factor))
        return one, two, None, None


def short_walk_sums(
    weights: Tensor, factors: Tensor, structure: WalkStructure, lists: PairLists
) -> Tensor:
    """Return ``W``, ``W F W`` and ``W F W F W`` at pairs, in the lists' order, (K, 3).

    Parameters
    ----------
    weights : (M,) Tensor
        Weight of every edge of the structure, float32 or float64.
    factors : (n,) Tensor
        Diagonal of F, of the same type.
    structure : WalkStructure
        The edges; its rule for loops plays no part here.
    lists : PairLists
        Of :meth:`WalkStructure.sort_pairs`.
    """
    return cast(
        Tensor,
        _ShortWalks.apply(weights, factors, structure, lists),  # type: ignore[no-untyped-call]
    )


def _compressed(
    structure: WalkStructure, weights: npt.NDArray[Any], factors: npt.NDArray[Any]
) -> tuple[Any, ...]:
    """Return what the kernels take, in inside labels."""
    indptr = structure.indptr.astype(np.uint64)
    values = weights[structure.slot_edge]
    return indptr, structure.indices, values, factors[structure.outside]


def _bounds(structure: WalkStructure, lists: PairLists) -> IntArray:
    sizes = np.diff(structure.indptr)
    ahead = np.concatenate([[0], np.cumsum(sizes[structure.indices])])
    counts = np.diff(lists.offsets)
    two_edges = np.diff(ahead[structure.indptr])
    return balanced_chunks(np.where(counts > 0, two_edges, 0) + counts * 16.0)


@dataclass(frozen=True, eq=False)
class View:
    """An enhanced graph as a step sees it, some of its edges hidden.

    Parameters
    ----------
    own : (M,) float32 Tensor
        Weights of the visible edges of the graph; 1 for pairs that are similar only, or
        that are similar and hidden; 0 for pairs that are not there.
    inputs : (M, 5) float32 Tensor
        What the edge network sees of every pair besides attributes.
    numbers : (n,) float32 Tensor
        Logarithm of 1 + number of visible neighbours.
    """

    own: Tensor
    inputs: Tensor
    numbers: Tensor


class ReadoutGraph:
    """An enhanced graph with everything that no parameter changes.

    Parameters
    ----------
    enhanced : EnhancedGraph
        Undirected: edges and similarity pairs.
    factors : (n, k) float32
        Low-rank factors of the attributes, of length 1, k a multiple of 4; 0 columns
        without attributes.
    similarity : (M,) array
        Similarity of the ends of every enhanced pair.
    """

    def __init__(
        self, enhanced: EnhancedGraph, factors: Factors, similarity: npt.NDArray[Any]
    ) -> None:
        self.enhanced, self.factors = enhanced, factors
        self.similarity = similarity
        self.structure = WalkStructure(enhanced.num_nodes, enhanced.pairs)
        self.lists, self.order = self.structure.sort_pairs(enhanced.pairs)
        self.ends = torch.from_numpy(enhanced.pairs)

    def cosines(self, pairs: IntArray) -> Factors:
        """Return the cosines of the attributes of pairs."""
        out = np.zeros(len(pairs), np.float32)
        if self.factors.shape[1]:
            size = max(1, -(-len(pairs) // NUM_CHUNKS))

            def task(chunk: int) -> None:
                part = slice(chunk * size, (chunk + 1) * size)
                pair_walks.pair_cosines(pairs[part], self.factors, out[part])

            run_chunks(task, NUM_CHUNKS)
        return out

    def view(self, hidden: IntArray | None = None) -> View:
        """Return the graph without some of its edges, positions in the pairs.

        A hidden edge that is similar stays, as a pair that is similar only.
        """
        enhanced = self.enhanced
        visible = enhanced.is_edge.copy()
        if hidden is not None:
            visible[hidden] = False
        counts = np.bincount(
            enhanced.pairs[visible].ravel(), minlength=enhanced.num_nodes
        )
        numbers = np.log1p(counts)
        u, v = enhanced.pairs.T
        own = np.where(visible, enhanced.base, 1.0 * enhanced.is_similar)
        inputs = np.stack(
            [
                visible,
                numbers[u] + numbers[v],
                np.abs(numbers[u] - numbers[v]),
                np.log1p(self._shared(visible)),
                self.similarity,
            ],
            axis=1,
        )
        arrays = (own, inputs, numbers)
        return View(*(torch.from_numpy(a.astype(np.float32)) for a in arrays))

    def _shared(self, visible: npt.NDArray[np.bool_]) -> FloatArray:
        """Return how many visible neighbours the ends of every pair share."""
        ones = torch.ones(self.enhanced.num_nodes)
        weights = torch.from_numpy(visible.astype(np.float32))
        walks = short_walk_sums(weights, ones, self.structure, self.lists)
        out = np.empty(len(self.order))
        out[self.order] = walks[:, 1].numpy()
        return out


class ReadoutModule(nn.Module):
    """Everything that Gelato 2 learns, and the directions that attributes are seen in.

    Parameters
    ----------
    mean, scale : (r,) float32
        What is taken from every attribute, and what it is multiplied by then.
    basis : (r, k) float32
        Directions in the space of the attributes; r = 0 without attributes.
    hidden : int
        Units of a node's layer and of the edge network.
    units : int
        Hidden units of the readout.
    dropout : float
        Share of a node's units that a step leaves out.
    seed : int
        Decides the first weights.
    """

    mean: Tensor
    scale: Tensor
    basis: Tensor

    def __init__(
        self,
        mean: Tensor,
        scale: Tensor,
        basis: Tensor,
        *,
        hidden: int = 64,
        units: int = 16,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, value in (("mean", mean), ("scale", scale), ("basis", basis)):
            self.register_buffer(name, value)
        dimensions = basis.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.node = nn.Linear(dimensions, hidden) if dimensions else None
            self.edge = nn.Linear(_INPUTS + 2 * hidden * bool(dimensions), hidden)
            self.weight = nn.Linear(hidden, 1)
            self.inner = nn.Linear(len(FEATURES), units)
        # All edges weigh the same at first, and the readout is linear.
        nn.init.zeros_(self.weight.weight)
        nn.init.zeros_(self.weight.bias)
        self.linear = nn.Parameter(torch.tensor(_START))
        self.outer = nn.Parameter(torch.zeros(units))
        self.gamma = nn.Parameter(torch.tensor(1.0))
        self.dropout = nn.Dropout(dropout)

    def weights(self, graph: ReadoutGraph, view: View) -> Tensor:
        """Return the weight of every enhanced pair, (M,); 0 for absent ones."""
        u, v = graph.ends.T
        inputs = [view.inputs]
        if self.node is not None:
            # Entries of unit rows are small: brought to about 1.
            wide = torch.from_numpy(graph.factors) * math.sqrt(graph.factors.shape[1])
            h = self.dropout(torch.relu(self.node(wide)))
            inputs += [h[u] + h[v], (h[u] - h[v]).abs()]
        seen = torch.relu(self.edge(torch.cat(inputs, dim=1)))
        return view.own * torch.sigmoid(self.weight(seen)[:, 0])

    def degrees(self, graph: ReadoutGraph, weights: Tensor) -> Tensor:
        """Return the weighted degree of every node."""
        zeros = weights.new_zeros(graph.enhanced.num_nodes)
        u, v = graph.ends.T
        return zeros.index_add(0, u, weights).index_add(0, v, weights)

    def factors(self, degrees: Tensor) -> Tensor:
        """Return what a walk is multiplied by at every node: its degree ** -gamma."""
        known = degrees > 0
        safe = torch.where(known, degrees, 1.0)
        return torch.where(known, safe ** -self.gamma.to(degrees.dtype), 0.0)

    def scores(
        self,
        graph: ReadoutGraph,
        view: View,
        lists: PairLists,
        pairs: IntArray,
    ) -> Tensor:
        """Return the scores of pairs, given in the order of their lists."""
        weights = self.weights(graph, view)
        degrees = self.degrees(graph, weights)
        walks = short_walk_sums(
            weights, self.factors(degrees), graph.structure, lists
        )  # (K, 3)
        popularity = torch.log(degrees + LEAST_DEGREE)
        u, v = torch.from_numpy(pairs).T
        x_scale = torch.tensor(_SCALES)
        x = (
            torch.cat(
                [
                    torch.log(walks + EPSILON) - math.log(EPSILON),
                    (popularity[u] + popularity[v])[:, None],
                    (view.numbers[u] * view.numbers[v])[:, None],
                    torch.from_numpy(graph.cosines(pairs))[:, None],
                ],
                dim=1,
            )
            * x_scale
        )  # (K, features)
        bent = functional.softsign(self.inner(x))
        return x @ self.linear + bent @ self.outer


class ReadoutScorer:
    """Scores all pairs of a graph by a trained module, exactly, in double precision.

    Every cell of a row is visited: time grows with n^2, as for a dense network.

    Parameters
    ----------
    module : ReadoutModule
        Its weights are read once.
    graph : ReadoutGraph
        All of its edges are visible.
    """

    def __init__(self, module: ReadoutModule, graph: ReadoutGraph) -> None:
        self.num_nodes = graph.enhanced.num_nodes
        view = graph.view()
        with torch.no_grad():
            self.weights = module.weights(graph, view).double()
            degrees = module.degrees(graph, self.weights)
            self.factors = module.factors(degrees).numpy()
            popularity = torch.log(degrees + LEAST_DEGREE).numpy()
        u, v = graph.enhanced.pairs.T
        order = np.lexsort((np.r_[v, u], np.r_[u, v]))
        values = np.tile(self.weights.numpy(), 2)[order]
        sizes = np.bincount(np.r_[u, v], minlength=self.num_nodes)
        indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        indices = np.r_[v, u][order].astype(np.int32)
        self._graph = (indptr, indices, values, self.factors)
        self._nodes = (popularity, view.numbers.double().numpy(), graph.factors)
        linear, inner, shift, outer = (
            value.detach().double().numpy()
            for value in (
                module.linear,
                module.inner.weight,
                module.inner.bias,
                module.outer,
            )
        )
        self._readout = (linear * _SCALES, inner * _SCALES, shift, outer)

    def score_rows(self, rows: IntArray) -> FloatArray:
        """Return scores of shape ``(len(rows), n)``."""
        return self._rows(rows, above=False)

    def score_rows_above(self, rows: IntArray) -> FloatArray:
        """Return the scores of columns above each row, and 0 elsewhere."""
        return self._rows(rows, above=True)

    def _rows(self, rows: IntArray, *, above: bool) -> FloatArray:
        out = np.zeros((len(rows), self.num_nodes))
        given = (self._graph, self._nodes, self._readout)
        rows = np.asarray(rows, dtype=np.int64)
        pair_walks.read_rows(rows, above, *given, out)
        return out

    def pair_scores(self, pairs: IntArray) -> FloatArray:
        """Return the scores of given pairs."""
        pairs = np.ascontiguousarray(pairs, dtype=np.int64)
        order = np.argsort(pairs[:, 0], kind="stable")
        found, out = np.empty(len(pairs)), np.empty(len(pairs))
        given = (self._graph, self._nodes, self._readout)
        pair_walks.read_pairs(pairs[order], *given, found)
        out[order] = found
        return out
