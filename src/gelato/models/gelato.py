"""Gelato: a graph enhanced by learned weights, ranked by autocovariance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from gelato.errors import InputError, StoredFileError, UsageError
from gelato.graph import Graph
from gelato.heuristics.walks import SelfLoops
from gelato.models.base import Model
from gelato.nn.enhancement import EnhancedGraph, enhance
from gelato.nn.pair_features import PairFeatures
from gelato.nn.pair_mlp import PairMLP
from gelato.nn.similarity import BlockSimilarity, SimilarityPairs
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit, split_edges
from gelato.training.dense_task import DenseTask
from gelato.training.gelato_task import (
    GelatoTask,
    StepSettings,
    TrainingSet,
    enhanced_scorer,
)
from gelato.training.loop import EpochReport, Training, TrainSettings, train

if TYPE_CHECKING:
    from gelato.nn.dense import Masking


class Gelato(Model):
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
    masking : {"both", "one-sided"}
        How a batch's positives are hidden: in both directions, or in one as the
        published code does (dense, small graphs only).
    metric, validate_every, patience
        What selects the epoch, how often it is measured, and how many measurements
        without a better one end the training (default: never).
    valid : float
        Share of the edges held out for validation when fitted on a bare graph.
    seed : int
        Decides initial weights, dropout, batches and negatives.
    threads : int, optional
        Threads of the kernels; results do not depend on it.
    pair_model : callable, optional
        Takes the training graph and returns an ``nn.Module`` that maps
        :class:`~gelato.nn.pair_features.PairFeatures` to a weight per pair, in place
        of the MLP.

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
        similarity: str | BlockSimilarity = "cosine",
        hidden: int = 128,
        dropout: float = 0.5,
        chunk: int = 20_000,
        lr: float = 1e-3,
        epochs: int = 100,
        batches: int = 10,
        loss: str = "n-pair",
        training: TrainingSet = "unbiased",
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
        self.self_loops, self.t, self.similarity = self_loops, t, similarity
        self.hidden, self.dropout, self.chunk = hidden, dropout, chunk
        self.lr, self.epochs, self.batches = lr, epochs, batches
        self.loss, self.training, self.masking = loss, training, masking
        self.metric, self.validate_every = metric, validate_every
        self.patience, self.valid = patience, valid
        self.seed, self.threads, self.pair_model = seed, threads, pair_model

    def fit(
        self,
        data: Graph | EdgeSplit,
        *,
        folder: Path | None = None,
        resume: bool = False,
        on_epoch: EpochReport | None = None,
        on_step: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Train on the training edges; keep the epoch that ranks validation best.

        Parameters
        ----------
        data : Graph or EdgeSplit
            A bare graph holds out ``valid`` of its own edges for validation.
        folder : Path, optional
            Where checkpoints go.
        resume : bool
            Go on from the folder's checkpoint, if there is one.
        on_epoch, on_step : callable, optional
            Told of every epoch and every step; see :func:`gelato.training.loop.train`.
        """
        split = data if isinstance(data, EdgeSplit) else self._held_out(data)
        super().fit(split)
        self._check(split)
        settings = TrainSettings(
            epochs=self.epochs,
            lr=self.lr,
            metric=self.metric,
            validate_every=self.validate_every,
            patience=self.patience,
        )
        graph = split.train_graph
        self.similar_: SimilarityPairs | None = None
        enhanced = self._enhance(graph)
        self.similar_ = enhanced.similar
        self.notes_ = enhanced.notes
        self.training_: Training | None = None
        self.module_: nn.Module | None = None
        if not enhanced.needs_model:
            return self
        task = self._task(split, enhanced)
        self.training_ = train(
            task,
            settings,
            folder=folder,
            resume=resume,
            identity=self._identity(split),
            on_epoch=on_epoch,
            on_step=on_step,
        )
        self.module_ = task.module.pair_model.eval()
        return self

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs when the edges of ``graph`` are known.

        Edges that were not there in training are weighed by the trained MLP.
        """
        self._fitted_graph()
        enhanced = self._enhance(graph)
        weights = self.edge_weights(graph, enhanced).double().numpy()
        return enhanced_scorer(enhanced, weights, t=self.t, loops=self.self_loops)

    def edge_weights(
        self, graph: Graph, enhanced: EnhancedGraph | None = None
    ) -> Tensor:
        """Return the weight of every pair of the enhanced graph."""
        enhanced = self._enhance(graph) if enhanced is None else enhanced
        if not enhanced.needs_model:
            return enhanced.weights()
        if self.module_ is None:
            raise UsageError("Gelato has not been trained.", hint="Call fit first.")
        features = PairFeatures(
            graph.attributes, enhanced.pairs, directed=graph.directed
        )
        with torch.no_grad():
            trained: Tensor = self.module_(features)
            return enhanced.weights(trained)

    def _task(
        self, split: EdgeSplit, enhanced: EnhancedGraph
    ) -> GelatoTask | DenseTask:
        graph = split.train_graph
        steps = StepSettings(
            t=self.t,
            self_loops=self.self_loops,
            batches=self.batches,
            loss=self.loss,
            training=self.training,
            seed=self.seed,
            threads=self.threads,
        )
        model = self._pair_model(graph)
        if graph.directed or self.masking == "one-sided":
            return DenseTask(
                graph, enhanced, split.valid, model, steps, masking=self.masking
            )
        return GelatoTask(graph, enhanced, split.valid, model, steps)

    def _pair_model(self, graph: Graph) -> nn.Module:
        if self.pair_model is not None:
            return self.pair_model(graph)
        return PairMLP(
            2 * graph.num_attributes,
            hidden=self.hidden,
            dropout=self.dropout,
            chunk=self.chunk,
            seed=self.seed,
            threads=self.threads,
        )

    def _enhance(self, graph: Graph) -> EnhancedGraph:
        return enhance(
            graph,
            eta=self.eta,
            alpha=self.alpha,
            beta=self.beta,
            similarity=self.similarity,
            similar=self.similar_,
        )

    def _held_out(self, graph: Graph) -> EdgeSplit:
        if not 0 < self.valid < 1:
            raise UsageError(
                f"valid is {self.valid}, but must lie between 0 and 1.",
                hint="It is the share of edges held out to choose the epoch.",
            )
        return split_edges(graph, valid=self.valid, test=0.0, seed=self.seed)

    def _check(self, split: EdgeSplit) -> None:
        if self.t < 1:
            raise UsageError(f"The walk length t is {self.t}, but must be at least 1.")
        if not len(split.train):
            raise InputError("There are no training edges.", hint="Give more edges.")
        if not len(split.valid):
            raise InputError(
                "The validation part of the split is empty, so no epoch can be chosen.",
                hint="Hold out some edges: split_edges(graph, valid=0.05).",
            )

    def _identity(self, split: EdgeSplit) -> dict[str, Any]:
        """Return what must be equal for a training to be resumed."""
        given = {k: v for k, v in self.get_params().items() if k != "threads"}
        named = {k: v if not callable(v) else v.__qualname__ for k, v in given.items()}
        return {"split": split.fingerprint, **named}

    def _state(self) -> dict[str, Tensor]:
        return {} if self.module_ is None else dict(self.module_.state_dict())

    def _restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        graph = self._fitted_graph()
        split = self.split_
        self.similar_, self.module_, self.training_ = None, None, None
        train_graph = graph if split is None else split.train_graph
        enhanced = self._enhance(train_graph)
        self.similar_, self.notes_ = enhanced.similar, enhanced.notes
        if not enhanced.needs_model:
            return
        module = self._pair_model(train_graph)
        try:
            module.load_state_dict(tensors)
        except RuntimeError as error:
            raise StoredFileError(
                f"The stored weights do not fit the model: {error}",
                hint="The files of the folder do not belong together.",
            ) from error
        self.module_ = module.eval()
