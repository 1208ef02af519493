"""The pair MLP by itself: links predicted from the attributes of two nodes."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any, Self

from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.models.base import Model, refuse_other_attributes
from gelato.models.gelato_checks import check_ranges, check_split
from gelato.models.trained import TrainedModel, fill_module
from gelato.nn.pair_mlp import PairMLP
from gelato.nn.pair_scorer import PairMLPScorer
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit, as_data
from gelato.storage import Run
from gelato.training.gelato_task import refuse_few_negatives
from gelato.training.loop import EpochReport
from gelato.training.negatives import ListedTraining
from gelato.training.pair_task import PairMLPTask

_PREFIX = "model."


class MLP(TrainedModel):
    """Gelato's pair MLP, trained directly for link prediction (the paper's MLP).

    Edges are only its labels: the score of a pair depends on the attributes of its
    two nodes alone. It is the logit of the learned probability. With
    ``loss="n-pair"`` and ``training="unbiased"`` it is Gelato without
    autocovariance.

    Parameters
    ----------
    loss : {"cross-entropy", "n-pair", "listnet"}
        Training loss, on the logit.
    training : {"biased", "unbiased"}
        As many negatives as positives, redrawn each epoch, or every negative once an
        epoch.
    hidden, dropout, chunk
        Units per hidden layer, dropout, and most pairs per chunk of batch
        normalisation.
    lr, epochs, batches
        Learning rate of Adam, epochs, and steps per epoch.
    metric, validate_every, patience
        What selects the epoch, how often it is measured (each time ranks all pairs,
        which takes longer than an epoch of biased training), and how many
        measurements without a better one end the training (default: never).
    valid : float
        Share of the edges held out for validation when fitted on a bare graph.
    seed : int
        Decides initial weights, dropout, batches and negatives.
    threads : int, optional
        Threads of the kernels; results do not depend on it.

    Attributes
    ----------
    module_ : PairMLP
        The trained MLP.
    notes_ : tuple of str
        What people should know.

    Examples
    --------
    >>> MLP(loss="n-pair", training="unbiased", seed=1)
    MLP(loss='n-pair', training='unbiased', seed=1)
    """

    name = "mlp"
    summary = "pair MLP on attributes alone, trained for link prediction"
    undirected_only = True
    module_: PairMLP
    notes_: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        loss: str = "cross-entropy",
        training: ListedTraining = "biased",
        hidden: int = 128,
        dropout: float = 0.5,
        chunk: int = 20_000,
        lr: float = 1e-3,
        epochs: int = 100,
        batches: int = 10,
        metric: str = "prec@100%",
        validate_every: int = 25,
        patience: int | None = None,
        valid: float = 0.05,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.loss, self.training = loss, training
        self.hidden, self.dropout, self.chunk = hidden, dropout, chunk
        self.lr, self.epochs, self.batches = lr, epochs, batches
        self.metric, self.validate_every = metric, validate_every
        self.patience, self.valid = patience, valid
        self.seed, self.threads = seed, threads

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
        data = as_data(data)
        graph = data.graph if isinstance(data, EdgeSplit) else data
        graph.require_undirected(f"{self.summary} ({self.name})")
        require_attributes(graph, self.name)
        split = data if isinstance(data, EdgeSplit) else self._held_out(data)
        check_split(split, self.batches)
        refuse_few_negatives(split.train_graph)
        super().fit(split)
        task = PairMLPTask(
            split.train_graph,
            split.valid,
            self._module(split.train_graph),
            batches=self.batches,
            loss=self.loss,
            training=self.training,
            metric=self.metric,
            seed=int(self.seed),
        )
        self._train(
            task,
            split,
            folder=folder,
            resume=resume,
            on_epoch=on_epoch,
            on_step=on_step,
        )
        self.module_ = task.module
        return self

    def untrained(self, split: EdgeSplit) -> Self:
        """Return a copy with its first weights, to see what ranking costs."""
        fresh = copy.copy(self)
        Model.fit(fresh, split)
        fresh.training_ = None
        fresh.module_ = self._module(split.train_graph)
        fresh.module_.eval()
        return fresh

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range."""
        check_mlp(self.get_params())

    def scorer(self, graph: Graph) -> RowScorer:
        """Return what scores pairs by the attributes of a graph's nodes."""
        refuse_other_attributes(self._fitted_graph(), graph)
        return PairMLPScorer(self.module_, graph.attributes)

    def with_graph(self, graph: Graph) -> Self:
        """Return this fitted model over a newer graph; nothing is learned again.

        As :meth:`gelato.models.base.Model.with_graph`; new nodes need attributes.
        """
        newer = super().with_graph(graph)
        refuse_other_attributes(self._fitted_graph(), newer.graph_)
        return newer

    def _module(self, graph: Graph) -> PairMLP:
        return PairMLP(
            2 * graph.num_attributes,
            hidden=self.hidden,
            dropout=self.dropout,
            chunk=self.chunk,
            seed=int(self.seed),
        )

    def _store(self, run: Run) -> None:
        state = self.module_.state_dict()
        run.tensors |= {f"{_PREFIX}{key}": value for key, value in state.items()}
        self._store_training(run)

    def _restore(self, run: Run) -> None:
        self._restore_training(run)
        self.module_ = self._module(run.graph)
        fill_module(self.module_, run, _PREFIX)


def check_mlp(parameters: dict[str, Any], *, optional: tuple[str, ...] = ()) -> None:
    """Raise unless the parameters of a pair MLP are in their ranges."""
    check_ranges(parameters, optional=("patience", "threads", *optional))
    if parameters["training"] not in ("biased", "unbiased"):
        raise UsageError(
            f"training is {parameters['training']!r}, which needs walks; a pair MLP "
            "has none.",
            hint="Use training='biased' or 'unbiased'.",
        )


def require_attributes(graph: Graph, name: str) -> None:
    """Raise unless a graph has attributes."""
    if graph.num_attributes == 0:
        raise UsageError(
            f"The model {name!r} learns from node attributes, and this graph has none.",
            hint="Use a heuristic such as 'ac', or give attributes.",
        )
