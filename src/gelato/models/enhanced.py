"""What all models share that rank pairs on an enhanced graph."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import polars as pl
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gelato.errors import StoredFileError, UsageError
from gelato.graph import Graph
from gelato.heuristics.walks import SELF_LOOPS, SelfLoops
from gelato.models.base import Model, refuse_other_attributes
from gelato.nn.enhancement import EnhancedGraph, ReadsEdges, enhance
from gelato.nn.first_layer import PairFeatures
from gelato.nn.similarity import (
    BlockSimilarity,
    SimilarityPairs,
    pair_similarity,
    similarity_above,
)
from gelato.nn.two_steps import HeuristicMixture
from gelato.parameters import Dimension, choice, number, unlisted, whole
from gelato.predict.prediction import id_column
from gelato.ranking.scorers import RowScorer
from gelato.storage import Run
from gelato.training.enhanced_scorers import HeuristicName, enhanced_scorer

# The paper tunes these three by a grid (section "Hyperparameters").
ETAS = Dimension((0.0, 0.25, 0.5, 0.75, 1.0), 0.0, 1.0, step=0.05)
ALPHAS = Dimension((0.0, 0.25, 0.5, 0.75), 0.0, 0.95, step=0.05)
BETAS = Dimension((0.25, 0.5, 0.75, 1.0), 0.05, 1.0, step=0.05)
# The paper puts loops on all nodes of two graphs; it does not say how that was chosen.
LOOPS = Dimension(SELF_LOOPS)
LOOPS_AFTER = unlisted(*SELF_LOOPS)
LOOPS_OF: dict[str, dict[str, Any]] = {
    "cora": {"self_loops": "all"},
    "citeseer": {"self_loops": "all"},
    "pubmed": {},
    "photo": {},
    "computers": {},
}

_STORED = ("similar.pairs", "similar.similarity", "similar.threshold")


class EnhancedModel(Model):
    """A model that adds similar pairs to a graph, weighs all pairs, then ranks.

    The similarity pairs are found once, from the training edges; graphs that come
    later are enhanced with the same threshold.
    """

    eta: float = number(0.0, least=0)
    alpha: float = number(0.5, least=0, most=1)
    self_loops: SelfLoops = choice("isolated", SELF_LOOPS)
    t: int = whole(3)

    beta: float = 0.0
    similarity: str | BlockSimilarity = "cosine"
    heuristic: HeuristicName = "ac"
    pair_model: Any = None
    similar_: SimilarityPairs | None
    mixture_: HeuristicMixture | None = None

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known.

        Edges and nodes that were not there in training are welcome: see
        :meth:`with_graph`.
        """
        enhanced = self.enhanced(graph)
        return enhanced_scorer(
            enhanced,
            self.weights(graph, enhanced).double().numpy(),
            heuristic=self.heuristic,
            t=self.t,
            self_loops=self.self_loops,
            mixture=self.mixture_,
        )

    def with_graph(self, graph: Graph) -> Self:
        """Return this fitted model over a newer graph; nothing is learned again.

        As :meth:`gelato.models.base.Model.with_graph`. New edges are weighed as the
        training edges are; new nodes are linked to similar ones by the threshold
        that was found in training.
        """
        newer = super().with_graph(graph)
        newer.similar_ = self._similar_pairs(newer.graph_)
        return newer

    def enhanced(self, graph: Graph) -> EnhancedGraph:
        """Return a graph's edges and similarity pairs."""
        return self._enhance(graph, self._similar_pairs(graph))

    def weights(self, graph: Graph, enhanced: EnhancedGraph) -> Tensor:
        """Return the weight of every pair of an enhanced graph."""
        return enhanced.weights()

    def enhanced_adjacency(self, graph: Graph) -> sp.csr_array:
        """Return the weights that walks run over, without loops, as a matrix."""
        enhanced = self.enhanced(graph)
        weights = self.weights(graph, enhanced).double().numpy()
        u, v = enhanced.pairs.T
        if not graph.directed:
            u, v, weights = np.r_[u, v], np.r_[v, u], np.r_[weights, weights]
        shape = (graph.num_nodes, graph.num_nodes)
        return sp.csr_array(sp.coo_array((weights, (u, v)), shape=shape))

    def enhanced_edges(self) -> pl.DataFrame:
        """Return the enhanced graph as a table, from all known edges.

        Columns ``source``, ``target`` (the user's ids), ``weight``, ``similarity``
        and ``is_edge`` (false: a similarity pair only).
        """
        graph = self._fitted_graph()
        enhanced = self.enhanced(graph)
        similarity = np.zeros(len(enhanced.pairs))
        if enhanced.has_attributes:
            similarity = pair_similarity(
                self._compared(graph), enhanced.pairs, similarity=self.similarity
            )
        return pl.DataFrame(
            {
                "source": id_column(graph, enhanced.pairs[:, 0]),
                "target": id_column(graph, enhanced.pairs[:, 1]),
                "weight": self.weights(graph, enhanced).double().numpy(),
                "similarity": similarity,
                "is_edge": enhanced.is_edge,
            }
        )

    def _find_similar(self, graph: Graph) -> EnhancedGraph:
        """Enhance the training graph; keep its similarity pairs for later ones."""
        enhanced = self._enhance(graph, None)
        self.similar_, self.notes_ = enhanced.similar, enhanced.notes
        return enhanced

    def _enhance(self, graph: Graph, similar: SimilarityPairs | None) -> EnhancedGraph:
        return enhance(
            graph,
            eta=self.eta,
            alpha=self.alpha,
            beta=self.beta,
            similarity=self.similarity,
            similar=similar,
        )

    def _similar_pairs(self, graph: Graph) -> SimilarityPairs | None:
        """Return the similarity pairs of a graph, by the threshold of training."""
        known = self._fitted_graph()
        refuse_other_attributes(known, graph)
        if self.similar_ is None or _equal(known.attributes, graph.attributes):
            return self.similar_
        return similarity_above(
            self._compared(graph), self.similar_.threshold, similarity=self.similarity
        )

    def _compared(self, graph: Graph) -> Any:
        """Return the attributes whose similarity counts."""
        return graph.attributes

    def _store(self, run: Run) -> None:
        run.tables["enhanced"] = self.enhanced_edges()
        run.facts["notes"] = list(self.notes_)
        if self.similar_ is not None:
            pairs, values = self.similar_.pairs, self.similar_.similarity
            threshold = torch.tensor(self.similar_.threshold, dtype=torch.float64)
            parts = (torch.from_numpy(pairs), torch.from_numpy(values), threshold)
            run.tensors |= dict(zip(_STORED, parts, strict=True))

    def _restore(self, run: Run) -> None:
        given = [run.tensors.pop(name, None) for name in _STORED]
        pairs, values, threshold = given
        if pairs is None or values is None or threshold is None:
            if run.graph.num_attributes:
                raise StoredFileError(
                    "The stored weights lack the similarity pairs.",
                    hint="The files of the folder do not belong together.",
                )
            self.similar_ = None
        else:
            self.similar_ = SimilarityPairs(
                pairs.numpy(), values.numpy(), float(threshold)
            )
        self.notes_ = tuple(run.facts.get("notes", ()))


def learned_weights(
    module: nn.Module | None, graph: Graph, enhanced: EnhancedGraph
) -> Tensor:
    """Return the weights of an enhanced graph, with what a pair model learned."""
    if not enhanced.needs_model:
        return enhanced.weights()
    if module is None:
        raise UsageError("The pair model has not been trained.", hint="Call fit first.")
    features = PairFeatures(graph.attributes, enhanced.pairs, directed=graph.directed)
    if isinstance(module, ReadsEdges):
        module.read(graph)
    with torch.no_grad():
        trained: Tensor = module(features)
        return enhanced.weights(trained)


def _equal(one: Any, two: Any) -> bool:
    """Tell whether two attribute matrices hold the same numbers."""
    if one is two:
        return True
    if one is None or two is None or one.shape != two.shape:
        return False
    if sp.issparse(one) or sp.issparse(two):
        return bool((sp.csr_array(one) != sp.csr_array(two)).nnz == 0)
    return np.array_equal(one, two)
