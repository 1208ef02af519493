"""Gelato 2: learned edge weights, short walks, and a learned readout of them.

A training step hides a batch of edges, weighs what is left, and scores them beside
negatives that stand for all: hard ones, drawn from the best non-edges by the untrained
model, and a uniform sample of the rest. Each negative counts as many times as it stands
for others.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gelato.explain.explanation import Explanation
from gelato.explain.pair import explain_pair
from gelato.graph import Graph, IntArray, find_pairs, pair_keys
from gelato.kernels.chunks import generator
from gelato.models.enhanced import EnhancedModel
from gelato.models.mlp import LEARNING_RATES
from gelato.models.trained import DROPOUTS, WIDTHS, TrainedModel, fill_module
from gelato.nn.enhancement import EnhancedGraph
from gelato.nn.readout import ReadoutGraph, ReadoutModule, ReadoutScorer
from gelato.nn.similarity import SimilarityPairs, pair_similarity
from gelato.parameters import Dimension, constant, number, whole
from gelato.ranking.best import best_candidates
from gelato.ranking.scorers import ClosedForm, WalkScorer
from gelato.splits import EdgeSplit
from gelato.stacking.node_attributes import AttributeBasis
from gelato.storage import Run
from gelato.training.loop import Task, Training
from gelato.training.negatives import NegativePairs
from gelato.training.validation import RankedTask

HARD = 10
"""Hard negatives per training edge; a step draws some of them."""
DRAWN_HARD = 60_000
"""Hard negatives of a step, at most."""
DRAWN_REST = 20_000
"""Other negatives of a step."""


class HardAndOtherNegatives:
    """Negatives of a step that stand for all of them.

    Parameters
    ----------
    num_nodes : int
    edges : (m, 2) int64
        The training edges.
    hard : (h, 2) int64
        Negatives that are seen often.
    seed : int
        With epoch and batch, decides what is drawn.
    """

    def __init__(
        self, num_nodes: int, edges: IntArray, hard: IntArray, *, seed: int
    ) -> None:
        self.all, self.seed = NegativePairs(num_nodes, edges), seed
        keys = np.sort(pair_keys(hard, num_nodes))
        self.hard_keys = keys
        self.hard = np.stack(np.divmod(keys, num_nodes), axis=1)

    def draw(self, epoch: int, batch: int) -> tuple[IntArray, Tensor]:
        """Return negatives, and the logarithm of how many each stands for."""
        random = generator(self.seed, "readout negatives", epoch, batch)
        hard = self.hard
        if len(hard) > DRAWN_HARD:
            hard = hard[np.sort(random.choice(len(hard), DRAWN_HARD, replace=False))]
        rest = self.all.sample(min(DRAWN_REST, self.all.count), random)
        rest = rest[~np.isin(pair_keys(rest, self.all.num_nodes), self.hard_keys)]
        parts = ((hard, len(self.hard)), (rest, self.all.count - len(self.hard)))
        stands = [
            np.full(len(drawn), math.log(whole / len(drawn)), np.float32)
            for drawn, whole in parts
            if len(drawn)
        ]
        return np.concatenate([hard, rest]), torch.from_numpy(np.concatenate(stands))


class ReadoutTask(RankedTask):
    """Losses and validation of Gelato 2.

    Parameters
    ----------
    graph : Graph
        The training graph, undirected.
    validation, batches, metric, seed
        As for :class:`~gelato.training.validation.RankedTask`; a step hides its share
        of the edges.
    module : ReadoutModule
        What is trained.
    readout_graph : ReadoutGraph
        The training graph, enhanced.
    """

    def __init__(
        self,
        graph: Graph,
        validation: IntArray,
        module: ReadoutModule,
        readout_graph: ReadoutGraph,
        *,
        batches: int = 10,
        metric: str = "prec@100%",
        seed: int = 0,
    ) -> None:
        super().__init__(graph, validation, batches=batches, metric=metric, seed=seed)
        self.module, self.edges, self.graph = module, graph.edges, readout_graph
        self.place = find_pairs(
            readout_graph.enhanced.pairs, graph.edges, graph.num_nodes
        )
        best = best_candidates(self.scorer(), self.candidates, HARD * graph.num_edges)
        self.negatives = HardAndOtherNegatives(
            graph.num_nodes, graph.edges, best.pairs, seed=seed
        )

    def loss(self, epoch: int, batch: int) -> Tensor:
        """Return the loss of one step.

        The mean over positives of ``log(1 + sum over all negatives of exp(z_negative
        - z_positive))``, the sum estimated by those that were drawn.
        """
        chosen = self.positives.batch(epoch, batch)
        with self.clock("negatives"):
            negatives, stands = self.negatives.draw(epoch, batch)
            pairs = np.concatenate([self.edges[chosen], negatives])
            lists, order = self.graph.structure.sort_pairs(pairs)
        with self.clock("edges"):
            view = self.graph.view(self.place[chosen])
        with self.clock("walks"):
            found = self.module.scores(self.graph, view, lists, pairs[order])
        back = torch.from_numpy(np.argsort(order))
        z = found[back]
        against = torch.logsumexp(z[len(chosen) :] + stands, dim=0)
        return functional.softplus(against - z[: len(chosen)]).mean()

    def scorer(self) -> ReadoutScorer:
        """Return what scores pairs with the module as it is (evaluation mode)."""
        self.module.eval()  # dropout would draw from the generator of the caller
        return ReadoutScorer(self.module, self.graph)

    def validate(self) -> dict[str, float]:
        """Rank the validation edges among all pairs that are not training edges."""
        return self.ranked(self.scorer())


class Gelato2(TrainedModel, EnhancedModel):
    """Walks on learned edge weights, combined by a learned readout.

    A small network on low-rank attributes, degrees and shared neighbours weighs each
    edge and each attribute-similar pair. Walks of two and of three edges on these
    weights, both degrees and the cosine of the attributes are read out by a second
    network. Both are trained end to end: a step hides a batch of edges and ranks them
    above all other pairs. A hidden edge that is similar stays as a similar pair, as a
    test edge does. Works without attributes, too.

    Parameters
    ----------
    eta : float
        Similarity pairs to add, as a share of the edges.
    hidden : int
        Units of a node's layer and of the edge network.
    units : int
        Hidden units of the readout.
    dropout : float
        Share of a node's units that a step leaves out.
    lr, epochs, batches
        Learning rate of Adam, epochs, and steps per epoch; a step hides
        ``1 / batches`` of the edges.
    metric, validate_every, patience
        What selects the epoch, how often it is measured (each time ranks all pairs),
        and how many measurements without a better one end the training (default:
        never).
    valid : float
        Share of the edges held out for validation when fitted on a bare graph.
    seed : int
        Decides initial weights, batches and negatives.

    Attributes
    ----------
    module_ : ReadoutModule
        Both networks.
    notes_ : tuple of str
        What people should know.

    Examples
    --------
    >>> Gelato2(eta=0.5, seed=1)
    Gelato2(eta=0.5, seed=1)
    """

    name = "gelato2"
    summary = "walks on learned edge weights, combined by a learned readout"
    undirected_only = True
    search_space: ClassVar = {
        "eta": Dimension((1.0, 0.0, 0.5), 0.0, 2.0, step=0.1),
        "lr": LEARNING_RATES,
        "dropout": DROPOUTS,
        "hidden": WIDTHS,
    }

    eta: float = number(1.0, least=0)
    hidden: int = whole(32)
    units: int = whole(16)
    dropout: float = number(0.5, least=0, below=1)
    lr: float = 1e-2
    epochs: int = 40
    metric: str = "ap"
    validate_every: int = 4

    alpha: float = constant(0.0)
    beta: float = 1.0
    self_loops: Any = constant("isolated")
    t: int = constant(3)

    module_: ReadoutModule
    _prefix = "model."

    def scorer(self, graph: Graph) -> ReadoutScorer:
        """Return what scores pairs when the edges of ``graph`` are known."""
        graph.require_undirected(f"{self.summary} ({self.name})")
        with _one_torch_thread():
            return ReadoutScorer(self.module_, self._seen(graph, self.enhanced(graph)))

    def weights(self, graph: Graph, enhanced: EnhancedGraph) -> Tensor:
        """Return the weight of every pair of an enhanced graph."""
        with _one_torch_thread():
            return ReadoutScorer(self.module_, self._seen(graph, enhanced)).weights

    def explain(self, u: Hashable, v: Hashable, **options: Any) -> Explanation:
        """Return the walks of three edges on the learned weights, and the score.

        The readout is no sum: the walks tell how both nodes are joined, not what each
        adds to the score.
        """
        graph = self._fitted_graph()
        scorer = self.scorer(graph)
        walks = WalkScorer(
            self.enhanced_adjacency(graph),
            scorer.factors,
            3,
            1.0,
            ClosedForm.zero(graph.num_nodes),
        )
        made = explain_pair(walks, graph, u, v, **options)
        pair = np.array([[graph.index_of(u), graph.index_of(v)]])
        score = float(scorer.pair_scores(np.sort(pair, axis=1))[0])
        note = (
            f"the walks sum to {made.walk_score:.4g}; the score, {score:.4g}, is read "
            "out from them, walks of two edges, degrees and attributes"
        )
        return replace(made, score=score, kind="score only", notes=(*made.notes, note))

    def _seen(self, graph: Graph, enhanced: EnhancedGraph) -> ReadoutGraph:
        """Return an enhanced graph with its attributes as the module sees them."""
        similarity = np.zeros(len(enhanced.pairs))
        if enhanced.has_attributes:
            similarity = pair_similarity(self._compared(graph), enhanced.pairs)
        return ReadoutGraph(enhanced, self._basis.factors(graph), similarity)

    @property
    def _basis(self) -> AttributeBasis:
        """The directions of the attributes, as they were found in training."""
        module = self.module_
        arrays = (module.mean, module.scale, module.basis)
        return AttributeBasis(*(array.numpy() for array in arrays))

    def _compared(self, graph: Graph) -> Any:
        return self._basis.weighed(graph.attributes)

    def _enhance(self, graph: Graph, similar: SimilarityPairs | None) -> EnhancedGraph:
        if graph.num_attributes:
            graph = replace(graph, attributes=self._compared(graph))
        return super()._enhance(graph, similar)

    def _module(self, graph: Graph, stored: Any = None) -> ReadoutModule:
        if stored is None:
            basis = AttributeBasis.of(graph)
            arrays = (basis.mean, basis.scale, basis.directions)
            given = [torch.from_numpy(array) for array in arrays]
        else:
            names = ("mean", "scale", "basis")
            given = [stored[f"{self._prefix}{name}"].clone() for name in names]
        return ReadoutModule(
            *given,
            hidden=self.hidden,
            units=self.units,
            dropout=self.dropout,
            seed=int(self.seed),
        )

    def _task(self, split: EdgeSplit) -> ReadoutTask:
        graph = split.train_graph
        self.module_ = self._module(graph)
        enhanced = self._find_similar(graph)
        with _one_torch_thread():
            return ReadoutTask(
                graph,
                split.valid,
                self.module_,
                self._seen(graph, enhanced),
                batches=self.batches,
                metric=self.metric,
                seed=int(self.seed),
            )

    def _trained(self, task: Task, split: EdgeSplit) -> Training:
        with _one_torch_thread():
            return super()._trained(task, split)

    def _start(self, graph: Graph) -> None:
        super()._start(graph)
        self._find_similar(graph)

    def _store(self, run: Run) -> None:
        EnhancedModel._store(self, run)
        TrainedModel._store(self, run)

    def _restore(self, run: Run) -> None:
        self._restore_training(run)
        EnhancedModel._restore(self, run)
        module = self._module(run.graph, run.tensors)
        fill_module(module, run, self._prefix)
        self.module_ = module


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Let torch use one thread: more would change the order of its sums.

    The walks, which take most of the time, keep theirs.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
