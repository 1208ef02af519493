"""Gelato: a graph enhanced by learned weights, ranked by autocovariance."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from gelato.graph import Graph
from gelato.heuristics.walks import SelfLoops
from gelato.models.base import Model
from gelato.models.enhanced import EnhancedModel, learned_weights
from gelato.models.gelato_checks import check_gelato, check_split
from gelato.models.trained import TrainedModel, fill_module
from gelato.nn.enhancement import EnhancedGraph
from gelato.nn.pair_mlp import PairMLP
from gelato.nn.similarity import BlockSimilarity
from gelato.nn.two_steps import HeuristicMixture
from gelato.splits import EdgeSplit, as_data
from gelato.storage import Run
from gelato.training.dense_task import DenseTask, refuse_dense
from gelato.training.enhanced_scorers import HeuristicName
from gelato.training.gelato_task import (
    GelatoTask,
    StepSettings,
    TrainingSet,
    refuse_few_negatives,
)
from gelato.training.loop import EpochReport
from gelato.training.near_negatives import NegativeKinds

if TYPE_CHECKING:
    from gelato.nn.dense import Masking

logger = logging.getLogger(__name__)


class Gelato(TrainedModel, EnhancedModel):
    """Graph enhancement for link prediction with autocovariance (the paper's model).

    An MLP on the attributes of two nodes weighs each edge; attribute-similar pairs
    may be added; random walks on the enhanced graph score every pair; the MLP is
    trained end to end with a ranking loss over all negative pairs.

    Parameters
    ----------
    eta : float
        Similarity pairs to add, as a share of the edges (paper eta).
    alpha : float
        Share of the graph's own weights (paper alpha).
    beta : float
        Share of the learned weight in the rest (paper beta).
    self_loops : {"isolated", "all"}
        Where loops of weight 1 are added.
    t : int
        Length of the walk.
    heuristic : {"ac", "cn", "aa", "ra", "mixture"}
        What scores pairs on the enhanced graph: autocovariance, common neighbours,
        Adamic-Adar, resource allocation, or a learned combination of all four.
    similarity : "cosine" or callable
        Which attributes are similar.
    hidden, dropout, chunk
        Units per hidden layer, dropout, and pairs per chunk of batch normalisation.
    lr, epochs, batches
        Learning rate of Adam, epochs, and steps per epoch.
    loss : {"n-pair", "cross-entropy", "listnet"}
        Training loss.
    training : {"unbiased", "biased", "partitioned", "adversarial"}
        Which negatives a step sees; "unbiased" is every one of them once an epoch.
    negatives : {"auto", "all", "near"}
        How unbiased training sees them: all one by one; or one by one those that a
        walk of t edges joins, and all others, whose scores depend on degrees alone,
        by a weighted sample. "auto" is "near" on graphs of more than 25,000 nodes
        with less than a fifth of their pairs near.
    near_rate : float, optional
        Share of the near negatives, and of the positives of each epoch, to train on;
        by default 1, or as many as take a few seconds per epoch.
    masking : {"both", "one-sided"}
        How a batch's positives are hidden: in both directions, or in one as the
        published code does (dense, up to 3,000 nodes).
    metric, validate_every, patience
        What selects the epoch ("prec@100%", "hits@50", "ap", "auc", "mrr"), how often
        it is measured, and how many measurements without a better one end the
        training (default: never).
    valid : float
        Share of the edges held out for validation when fitted on a bare graph.
    seed : int
        Decides initial weights, dropout, batches and negatives.
    threads : int, optional
        Threads of the kernels; results do not depend on it.
    pair_model : callable, optional
        Takes the training graph and returns an ``nn.Module`` that maps
        :class:`~gelato.nn.first_layer.PairFeatures` to a weight per pair, in place
        of the MLP. A model that reads the graph's edges also sees a batch's
        positives: only their weight is hidden.

    Attributes
    ----------
    notes_ : tuple of str
        What people should know: reduced to the heuristic, dense training, ...
    training_ : Training or None
        History, best epoch and skipped steps; None where nothing was trained.

    Examples
    --------
    >>> Gelato(eta=0.5, alpha=0.5, beta=0.25, seed=1)
    Gelato(eta=0.5, alpha=0.5, beta=0.25, seed=1)
    """

    name = "gelato"
    summary = "graph enhanced by a learned MLP, ranked by autocovariance"

    def __init__(
        self,
        *,
        eta: float = 0.0,
        alpha: float = 0.0,
        beta: float = 1.0,
        self_loops: SelfLoops = "isolated",
        t: int = 3,
        heuristic: HeuristicName = "ac",
        similarity: str | BlockSimilarity = "cosine",
        hidden: int = 128,
        dropout: float = 0.5,
        chunk: int = 20_000,
        lr: float = 1e-3,
        epochs: int = 100,
        batches: int = 10,
        loss: str = "n-pair",
        training: TrainingSet = "unbiased",
        negatives: NegativeKinds = "auto",
        near_rate: float | None = None,
        masking: Masking = "both",
        metric: str = "prec@100%",
        validate_every: int = 1,
        patience: int | None = None,
        valid: float = 0.05,
        seed: int = 0,
        threads: int | None = None,
        pair_model: Callable[[Graph], nn.Module] | None = None,
    ) -> None:
        self.eta, self.alpha, self.beta = eta, alpha, beta
        self.self_loops, self.t = self_loops, t
        self.heuristic, self.similarity = heuristic, similarity
        self.hidden, self.dropout, self.chunk = hidden, dropout, chunk
        self.lr, self.epochs, self.batches = lr, epochs, batches
        self.loss, self.training, self.masking = loss, training, masking
        self.negatives, self.near_rate = negatives, near_rate
        self.metric, self.validate_every = metric, validate_every
        self.patience, self.valid = patience, valid
        self.seed, self.threads, self.pair_model = seed, threads, pair_model

    def fit(
        self,
        data: Graph | EdgeSplit,
        *,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: EpochReport | None = None,
        on_step: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Train on the training edges; keep the epoch that ranks validation best.

        Parameters
        ----------
        data : Graph or EdgeSplit
            A bare graph holds out ``valid`` of its own edges for validation.
        folder : path, optional
            Where checkpoints go.
        resume : bool
            Go on from the folder's checkpoint, if there is one.
        on_epoch, on_step : callable, optional
            Told of every epoch and every step; see :func:`gelato.training.loop.train`.
        """
        self.check_parameters()
        self.training_ = None
        self.module_: nn.Module | None = None
        self.mixture_ = None
        data = as_data(data)
        if not self._learns(data.graph if isinstance(data, EdgeSplit) else data):
            super().fit(data)
            train_graph = data.train_graph if isinstance(data, EdgeSplit) else data
            self._find_similar(train_graph)
            return self
        split = data if isinstance(data, EdgeSplit) else self._held_out(data)
        super().fit(split)
        self._check_data(split)
        task = self._task(split, self._find_similar(split.train_graph))
        self._tell_path(task)
        self._train(
            task,
            split,
            folder=folder,
            resume=resume,
            on_epoch=on_epoch,
            on_step=on_step,
        )
        self.module_, self.mixture_ = task.module.pair_model, task.module.mixture
        return self

    def untrained(self, split: EdgeSplit) -> Self:
        """Return a copy with its first weights, to see what ranking costs."""
        fresh = copy.copy(self)
        Model.fit(fresh, split)
        fresh.training_, fresh.module_ = None, None
        fresh.mixture_ = HeuristicMixture() if self.heuristic == "mixture" else None
        if fresh._find_similar(split.train_graph).needs_model:
            fresh.module_ = self._pair_model(split.train_graph).eval()
        return fresh

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range."""
        check_gelato(self.get_params())

    def weights(self, graph: Graph, enhanced: EnhancedGraph) -> Tensor:
        """Return the weight of every pair of an enhanced graph."""
        return learned_weights(self.module_, graph, enhanced)

    def _learns(self, graph: Graph) -> bool:
        """Tell whether anything is learned from a graph."""
        weighs = graph.num_attributes > 0 and (1 - self.alpha) * self.beta > 0
        return weighs or self.heuristic == "mixture"

    def _task(
        self, split: EdgeSplit, enhanced: EnhancedGraph
    ) -> GelatoTask | DenseTask:
        graph = split.train_graph
        model = self._pair_model(graph) if enhanced.needs_model else None
        given = (graph, enhanced, split.valid, model, self._step_settings())
        if self._is_dense(graph):
            return DenseTask(*given, masking=self.masking)
        return GelatoTask(*given)

    def _is_dense(self, graph: Graph) -> bool:
        return graph.directed or self.masking == "one-sided"

    def _tell_path(self, task: GelatoTask | DenseTask) -> None:
        path = "sparse kernels"
        if isinstance(task, DenseTask):
            why = "directed graph" if task.directed else "one-sided masking"
            n = task.num_nodes
            path = f"dense {n:,} x {n:,} matrices ({why})"
            self.notes_ = (*self.notes_, f"trained with {path}")
        else:
            self.notes_ = (*self.notes_, *task.notes)
        logger.info("training with %s", path)

    def _step_settings(self) -> StepSettings:
        return StepSettings(
            heuristic=self.heuristic,
            t=self.t,
            self_loops=self.self_loops,
            batches=self.batches,
            loss=self.loss,
            training=self.training,
            negatives=self.negatives,
            near_rate=self.near_rate,
            metric=self.metric,
            seed=int(self.seed),
        )

    def _pair_model(self, graph: Graph) -> nn.Module:
        if self.pair_model is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                return self.pair_model(graph)
        return PairMLP(
            2 * graph.num_attributes,
            hidden=self.hidden,
            dropout=self.dropout,
            chunk=self.chunk,
            seed=int(self.seed),
        )

    def _check_data(self, split: EdgeSplit) -> None:
        """Raise, before any work, if a split cannot be trained on."""
        graph = split.train_graph
        if self.heuristic != "ac":
            graph.require_undirected(f"Gelato with heuristic={self.heuristic!r}")
        if self.negatives == "near":
            graph.require_undirected('Gelato with negatives="near"')
        if self._is_dense(graph):
            refuse_dense(graph, self._step_settings(), self.masking)
        check_split(split, self.batches)
        refuse_few_negatives(graph)

    def _identity(self, split: EdgeSplit) -> dict[str, Any]:
        """Return what must be equal for a training to be resumed.

        Parameters that came later are left out at their defaults, so that older
        checkpoints remain what they are.
        """
        identity = super()._identity(split)
        for name, default in (("negatives", "auto"), ("near_rate", None)):
            if identity[name] == default:
                del identity[name]
        return identity

    def _store(self, run: Run) -> None:
        super()._store(run)
        for name, module in (("model", self.module_), ("mixture", self.mixture_)):
            if module is not None:
                state = module.state_dict()
                run.tensors |= {f"{name}.{key}": value for key, value in state.items()}
        self._store_training(run)

    def _restore(self, run: Run) -> None:
        self._restore_training(run)
        self.module_, self.mixture_ = None, None
        super()._restore(run)
        if self.enhanced(run.graph).needs_model:
            self.module_ = fill_module(self._pair_model(run.graph), run, "model.")
        if self.heuristic == "mixture":
            self.mixture_ = HeuristicMixture()
            fill_module(self.mixture_, run, "mixture.")
