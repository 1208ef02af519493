"""Graph enhancement: edges and similar pairs, weighted by topology and attributes.

The enhanced weight of a pair is (paper, section on graph learning)
``alpha A + (1 - alpha) [edge or similarity pair] (beta w + (1 - beta) s)`` with A the
graph's own weight, w what a pair model learned and s the pair's similarity, at least
0. Pairs and similarities never change; only w does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from gelato.errors import UsageError
from gelato.graph import FloatArray, Graph, IntArray, find_pairs, pair_keys
from gelato.nn.similarity import (
    BlockSimilarity,
    SimilarityPairs,
    pair_similarity,
    similarity_count,
    similarity_edges,
)


@runtime_checkable
class ReadsEdges(Protocol):
    """A pair model that looks at edges: it is told which ones it may see."""

    def read(self, graph: Graph) -> None:
        """Look at the edges of this graph, and no others, from now on."""


@dataclass(frozen=True, eq=False)
class EnhancedGraph:
    """The pairs that carry weight, and what their weights are made of.

    Parameters
    ----------
    num_nodes : int
    directed : bool
    pairs : (M, 2) int64
        Edges and similarity pairs, sorted; u < v unless directed.
    base : (M,) float64
        The graph's own weight, 0 for pairs that are similar only.
    similarity : (M,) float64
        At least 0.
    is_edge, is_similar : (M,) bool
        Which pairs are edges of the graph, and which are similarity pairs; a pair may
        be both.
    alpha, beta : float
        Share of the topology; share of the learned weight in the rest.
    has_attributes : bool
        Without attributes the weights are the graph's own.
    similar : SimilarityPairs, optional
        The similarity pairs by themselves, to enhance further graphs alike.
    notes : tuple of str
        What people should know about the result.
    """

    num_nodes: int
    directed: bool
    pairs: IntArray
    base: FloatArray
    similarity: FloatArray
    is_edge: npt.NDArray[np.bool_]
    is_similar: npt.NDArray[np.bool_]
    alpha: float
    beta: float
    has_attributes: bool
    similar: SimilarityPairs | None = None
    notes: tuple[str, ...] = ()

    @property
    def needs_model(self) -> bool:
        """Whether the weights depend on a pair model."""
        return self.has_attributes and (1 - self.alpha) * self.beta > 0

    def weights(self, trained: Tensor | None = None) -> Tensor:
        """Return the enhanced weight of every pair, (M,).

        Parameters
        ----------
        trained : (M,) Tensor, optional
            What the pair model says; gradients flow through. Only needed, and only
            used, where :attr:`needs_model` says so.
        """
        if not self.has_attributes:
            return torch.from_numpy(self.base.copy())
        fixed = self.alpha * self.base
        fixed = fixed + (1 - self.alpha) * (1 - self.beta) * self.similarity
        if not self.needs_model:
            return torch.from_numpy(fixed)
        if trained is None or trained.shape != self.base.shape:
            seen = "none" if trained is None else f"shape {tuple(trained.shape)}"
            raise UsageError(
                f"The enhanced weights need one learned weight for each of the "
                f"{len(self.base):,} pairs; got {seen}.",
                hint="Set beta to 0 to do without a model.",
            )
        constant = torch.from_numpy(fixed).to(trained.dtype)
        return torch.add(constant, trained, alpha=(1 - self.alpha) * self.beta)


def enhance(
    graph: Graph,
    *,
    eta: float = 0.0,
    alpha: float = 0.0,
    beta: float = 1.0,
    similarity: str | BlockSimilarity = "cosine",
    similar: SimilarityPairs | None = None,
) -> EnhancedGraph:
    """Add similar pairs to a graph and prepare the weights of all its pairs.

    Parameters
    ----------
    graph : Graph
        The training graph: weighted or not, directed or not.
    eta : float
        Similarity pairs to add, as a share of the edges (paper eta); at least 0.
    alpha : float
        Share of the graph's own weights (paper alpha), in [0, 1].
    beta : float
        Share of the learned weight in the rest (paper beta), in [0, 1].
    similarity : "cosine" or callable
        See :func:`gelato.nn.similarity.similarity_edges`.
    similar : SimilarityPairs, optional
        Similarity pairs found before, over the same nodes; ``eta`` is then not used.
    """
    for name, share in (("alpha", alpha), ("beta", beta)):
        if not 0 <= share <= 1:
            raise UsageError(f"{name} must lie between 0 and 1, not {share}.")
    count = similarity_count(graph.num_edges, eta, directed=graph.directed)
    notes, attributes = _notes(graph), graph.attributes
    has_attributes = attributes is not None and attributes.shape[1] > 0
    pairs = graph.edges
    if has_attributes:
        if similar is None:
            similar = similarity_edges(attributes, count, similarity=similarity)
        notes += [similar.note] if similar.note else []
        pairs, added = _union(graph, similar.pairs)
        if added:
            notes.append(
                f"added {added:,} similarity pair{'s'[: added > 1]} to the edges"
            )
    values = np.zeros(len(pairs))
    if has_attributes and beta < 1 and alpha < 1:
        values = pair_similarity(attributes, pairs, similarity=similarity)
    base = np.zeros(len(pairs))
    position = find_pairs(graph.edges, pairs, graph.num_nodes)
    own = np.ones(graph.num_edges) if graph.weights is None else graph.weights
    base[position >= 0] = own[position[position >= 0]]
    return EnhancedGraph(
        num_nodes=graph.num_nodes,
        directed=graph.directed,
        pairs=pairs,
        base=base,
        similarity=np.maximum(values, 0.0),
        is_edge=position >= 0,
        is_similar=_is_similar(graph, pairs, similar),
        alpha=float(alpha),
        beta=float(beta),
        has_attributes=has_attributes,
        similar=similar,
        notes=tuple(notes),
    )


def _union(graph: Graph, found: IntArray) -> tuple[IntArray, int]:
    """Return edges and similarity pairs, sorted, and how many are not edges."""
    if graph.directed:
        found = np.concatenate([found, found[:, ::-1]])
    keys = np.unique(
        np.concatenate([pair_keys(p, graph.num_nodes) for p in (graph.edges, found)])
    )
    pairs = np.stack(np.divmod(keys, max(1, graph.num_nodes)), axis=1)
    return pairs.astype(np.int64), len(pairs) - graph.num_edges


def _is_similar(
    graph: Graph, pairs: IntArray, similar: SimilarityPairs | None
) -> npt.NDArray[np.bool_]:
    if similar is None:
        return np.zeros(len(pairs), dtype=bool)
    unordered = np.sort(pairs, axis=1)
    found: npt.NDArray[np.bool_] = (
        find_pairs(similar.pairs, unordered, graph.num_nodes) >= 0
    )
    return found


def _notes(graph: Graph) -> list[str]:
    attributes: Any = graph.attributes
    if attributes is None or attributes.shape[1] == 0:
        return [
            "the graph has no attributes: nothing to enhance it with, so the model "
            "reduces to its heuristic on the plain graph"
        ]
    if graph.num_nodes == 0:
        return []
    if sp.issparse(attributes):
        low, high = (
            np.asarray(extreme.toarray()).ravel()
            for extreme in (attributes.min(axis=0), attributes.max(axis=0))
        )
    else:
        low, high = attributes.min(axis=0), attributes.max(axis=0)
    if not low.any() and not high.any():
        return ["all attributes are 0: they tell no pair from another"]
    if np.array_equal(low, high):
        return ["all nodes have the same attributes: they tell no pair from another"]
    return []
