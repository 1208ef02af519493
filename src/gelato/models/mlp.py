"""The pair MLP by itself: links predicted from the attributes of two nodes."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.models.base import refuse_other_attributes
from gelato.models.trained import DROPOUTS, WIDTHS, TrainedModel
from gelato.nn.losses import LOSSES
from gelato.nn.pair_mlp import PairMLP
from gelato.nn.pair_scorer import PairMLPScorer
from gelato.parameters import Dimension, choice, flag, number, whole
from gelato.ranking.scorers import RowScorer
from gelato.splits import EdgeSplit
from gelato.training.pair_task import PairMLPTask

LEARNING_RATES = Dimension((0.001, 0.0003, 0.003, 0.01), 1e-4, 3e-2, log=True)


class PairTrained(TrainedModel):
    """Trains a pair MLP: the parameters that such models share."""

    loss: str = choice("cross-entropy", LOSSES)
    training: Any = choice("biased", ("biased", "unbiased"))
    redraw: bool = flag(True)
    hidden: int = whole(128)
    dropout: float = number(0.5, least=0, below=1)
    chunk: int = whole(20_000, least=2)

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range, and they go together."""
        super().check_parameters()
        if not self.redraw and self.training != "biased":
            raise UsageError(
                f"redraw is False, but {self.training} training does not draw once.",
                hint='Use training="biased", or leave redraw out.',
            )

    def _module(self, graph: Graph, stored: Any = None) -> Any:
        return PairMLP(
            2 * graph.num_attributes,
            hidden=self.hidden,
            dropout=self.dropout,
            chunk=self.chunk,
            seed=int(self.seed),
        )


class MLP(PairTrained):
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
        As many negatives as positives, or every negative once an epoch.
    redraw : bool
        Draw the negatives of biased training anew each epoch, which makes a stronger
        model; the paper's authors draw them once.
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
    needs_attributes = True
    search_space: ClassVar = {
        "lr": LEARNING_RATES,
        "dropout": DROPOUTS,
        "hidden": WIDTHS,
    }
    # Epochs are the paper's. Chunks of batch normalisation are the published code's
    # ("BatchNorm sees the edges in chunks" in the protocol).
    presets: ClassVar = {
        "cora": {"epochs": 100, "chunk": 50_000},
        "citeseer": {"epochs": 100, "chunk": 20_000},
        "pubmed": {"epochs": 100, "chunk": 100_000},
        "photo": {"epochs": 250, "chunk": 20_000},
        "computers": {"epochs": 250, "chunk": 75_000},
    }

    validate_every: int = 25

    module_: PairMLP
    _prefix = "model."

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

    def _task(self, split: EdgeSplit) -> PairMLPTask:
        return PairMLPTask(
            split.train_graph,
            split.valid,
            self._module(split.train_graph),
            batches=self.batches,
            loss=self.loss,
            training=self.training,
            redraw=self.redraw,
            metric=self.metric,
            seed=int(self.seed),
        )
