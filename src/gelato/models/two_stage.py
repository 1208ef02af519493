"""Two stages: weights first, walks second, nothing trained end to end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

from torch import Tensor

from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.heuristics.walks import SelfLoops
from gelato.models.enhanced import EnhancedModel, learned_weights
from gelato.models.mlp import MLP, check_mlp, require_attributes
from gelato.models.trained import TrainedModel
from gelato.nn.enhancement import EnhancedGraph, enhance
from gelato.nn.similarity import SimilarityPairs
from gelato.ranking import evaluate
from gelato.splits import EdgeSplit, as_data
from gelato.storage import Run
from gelato.training.loop import EpochReport
from gelato.training.negatives import ListedTraining


class CosineAutocovariance(EnhancedModel):
    """Autocovariance on a graph enhanced by cosine similarity (the paper's Cos+AC).

    Parameters
    ----------
    eta : float
        Similarity pairs to add, as a share of the edges.
    alpha : float
        Share of the graph's own weights; the rest is similarity.
    t : int
        Length of a walk.
    self_loops : {"isolated", "all"}
        Where loops of weight 1 are added.
    """

    name = "cos+ac"
    summary = "autocovariance on edges and attribute-similar pairs"

    def __init__(
        self,
        *,
        eta: float = 1.0,
        alpha: float = 0.5,
        t: int = 3,
        self_loops: SelfLoops = "isolated",
    ) -> None:
        self.eta, self.alpha, self.t = eta, alpha, t
        self.self_loops = self_loops

    def fit(self, data: Graph | EdgeSplit) -> Self:
        """Find the similarity pairs, as many as the training edges ask for."""
        data = as_data(data)
        super().fit(data)
        self._find_similar(data.train_graph if isinstance(data, EdgeSplit) else data)
        return self


class MLPAutocovariance(TrainedModel, EnhancedModel):
    """Autocovariance on edges weighed by a separately trained MLP (MLP+AC).

    The weight of an edge is the probability that :class:`~gelato.models.mlp.MLP`,
    trained for link prediction before, gives to its pair.

    Parameters
    ----------
    eta : float
        Similarity pairs to add, as a share of the edges.
    alpha : float, optional
        Share of the graph's own weights; default: 0 or 0.5, whichever ranks the
        validation edges better.
    beta : float
        Share of the MLP's weight in the rest; what remains is similarity.
    t : int
        Length of a walk.
    self_loops : {"isolated", "all"}
        Where loops of weight 1 are added.
    loss, training, hidden, dropout, chunk, lr, epochs, batches, metric
        Of the MLP; see :class:`~gelato.models.mlp.MLP`.
    validate_every, patience, valid, seed, threads
        As well.

    Attributes
    ----------
    mlp_ : MLP
        The first stage.
    alpha_ : float
        Share of the graph's own weights that is used.
    """

    name = "mlp+ac"
    summary = "autocovariance on edges weighed by a separately trained MLP"
    undirected_only = True
    alpha: float | None  # type: ignore[assignment]
    choices = (0.0, 0.5)  # of alpha, the smaller first: it wins a tie

    def __init__(
        self,
        *,
        eta: float = 0.0,
        alpha: float | None = None,
        beta: float = 1.0,
        t: int = 3,
        self_loops: SelfLoops = "isolated",
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
        self.eta, self.beta, self.t, self.self_loops = eta, beta, t, self_loops
        self.alpha = alpha
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
        mlp: MLP | None = None,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: EpochReport | None = None,
        on_step: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Train the MLP, then weigh the graph.

        Parameters
        ----------
        data : Graph or EdgeSplit
            A bare graph holds out ``valid`` of its own edges for validation.
        mlp : MLP, optional
            Trained before, with the same parameters, on the same split; else it is
            trained now. The folder of a finished training serves as well.
        folder : path, optional
            Where checkpoints of the MLP go: those that ``MLP.fit`` writes.
        resume : bool
            Go on from the folder's checkpoint, if there is one.
        on_epoch, on_step : callable, optional
            Told of every epoch and every step; see :func:`gelato.training.loop.train`.
        """
        self.check_parameters()
        data = as_data(data)
        graph = data.graph if isinstance(data, EdgeSplit) else data
        require_attributes(graph, self.name)
        split = data if isinstance(data, EdgeSplit) else self._held_out(data)
        self.steps_ = self.batches  # those of the MLP, for whoever watches
        if mlp is None:
            mlp = MLP(**self.mlp_parameters()).fit(
                split,
                folder=folder,
                resume=resume,
                on_epoch=on_epoch,
                on_step=on_step,
            )
        self._refuse_other(mlp, split)
        super().fit(split)
        self.mlp_, self.training_ = mlp, mlp.training_
        self.alpha_ = self.choices[0] if self.alpha is None else float(self.alpha)
        self._find_similar(split.train_graph)
        if self.alpha is None:
            self._choose_alpha(split)
        return self

    def mlp_parameters(self) -> dict[str, Any]:
        """Return the parameters of the first stage."""
        known = MLP.parameter_defaults()
        return {k: v for k, v in self.get_params().items() if k in known}

    def untrained(self, split: EdgeSplit) -> MLP:
        """Return the first stage with its first weights, to see what ranking costs."""
        return MLP(**self.mlp_parameters()).untrained(split)

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range."""
        check_mlp(self.get_params(), optional=("alpha",))

    def weights(self, graph: Graph, enhanced: EnhancedGraph) -> Tensor:
        """Return the weight of every pair of an enhanced graph."""
        return learned_weights(self.mlp_.module_, graph, enhanced)

    def _choose_alpha(self, split: EdgeSplit) -> None:
        found = {}
        for alpha in self.choices:
            self.alpha_ = alpha
            ranked = evaluate(self, split, part="valid", threads=self.threads)
            found[alpha] = ranked.precision_at(1.0)
        self.alpha_ = max(found, key=lambda alpha: found[alpha])
        told = ", ".join(f"{value:.4f} with {alpha}" for alpha, value in found.items())
        chosen = f"alpha {self.alpha_} chosen by validation prec@100%: {told}"
        self.notes_ = (*self.notes_, chosen)

    def _enhance(self, graph: Graph, similar: SimilarityPairs | None) -> EnhancedGraph:
        return enhance(
            graph, eta=self.eta, alpha=self.alpha_, beta=self.beta, similar=similar
        )

    def _refuse_other(self, mlp: MLP, split: EdgeSplit) -> None:
        ours = {k: v for k, v in self.mlp_parameters().items() if k != "threads"}
        theirs = {k: v for k, v in mlp.get_params().items() if k != "threads"}
        named = [name for name in ours if ours[name] != theirs[name]]
        if named:
            raise UsageError(
                f"The MLP was trained with {named[0]}={theirs[named[0]]!r}, and the "
                f"model has {named[0]}={ours[named[0]]!r}.",
                hint="Give both the same parameters.",
            )
        if mlp.split_ is None or mlp.split_.fingerprint != split.fingerprint:
            raise UsageError(
                "The MLP was trained on another split.", hint="Fit it on this one."
            )

    def _store(self, run: Run) -> None:
        super()._store(run)
        self.mlp_._store(run)
        run.facts["alpha"] = self.alpha_

    def _restore(self, run: Run) -> None:
        self.alpha_ = float(run.facts["alpha"])
        self.mlp_ = MLP(**self.mlp_parameters())
        self.mlp_.graph_, self.mlp_.split_ = run.graph, run.split
        super()._restore(run)
        self.mlp_._restore(run)
        self.training_ = self.mlp_.training_


class MLPCosineAutocovariance(MLPAutocovariance):
    """Autocovariance on edges and similar pairs, both weighed (MLP+Cos+AC).

    As :class:`MLPAutocovariance`, with similar pairs added and half of the rest of
    the weight from similarity.
    """

    name = "mlp+cos+ac"
    summary = "autocovariance on edges and similar pairs, weighed by an MLP and cosine"

    def __init__(
        self,
        *,
        eta: float = 1.0,
        alpha: float = 0.5,
        beta: float = 0.5,
        t: int = 3,
        self_loops: SelfLoops = "isolated",
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
        given = {k: v for k, v in locals().items() if k in self.parameter_defaults()}
        super().__init__(**given)
