"""Two stages: weights first, walks second, nothing trained end to end."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.heuristics.walks import SelfLoops
from gelato.models.enhanced import (
    ALPHAS,
    BETAS,
    ETAS,
    LOOPS,
    LOOPS_AFTER,
    LOOPS_OF,
    EnhancedModel,
    learned_weights,
)
from gelato.models.mlp import LEARNING_RATES, MLP, PairTrained
from gelato.models.trained import DROPOUTS
from gelato.nn.enhancement import EnhancedGraph, enhance
from gelato.nn.similarity import SimilarityPairs
from gelato.parameters import Dimension, number
from gelato.ranking import evaluate
from gelato.splits import EdgeSplit, as_data
from gelato.storage import Run
from gelato.training.pair_task import PairMLPTask


class CosineAutocovariance(EnhancedModel):
    """Autocovariance on a graph enhanced by cosine similarity (the paper's Cos+AC).

    Parameters
    ----------
    eta : float
        Similarity pairs to add, as a share of the edges.
    alpha : float
        Share of the graph's own weights.
    beta : float
        Share of a constant weight of 1 in the rest; what remains is similarity. With
        the eta, alpha and beta of Gelato it is Gelato whose weights are all 1.
    t : int
        Length of a walk.
    self_loops : {"isolated", "all"}
        Where loops of weight 1 are added.
    """

    name = "cos+ac"
    summary = "autocovariance on edges and attribute-similar pairs"
    search_space: ClassVar = {
        "eta": ETAS,
        "alpha": ALPHAS,
        "self_loops": LOOPS,
        "t": Dimension((3, 2, 4)).only("free"),
    }
    presets: ClassVar = LOOPS_OF
    later_parameters = ("beta",)

    eta: float = 1.0
    alpha: float = 0.5
    beta: float = number(0.0, least=0, most=1)
    t: int = 3
    self_loops: SelfLoops = "isolated"

    def weights(self, graph: Graph, enhanced: EnhancedGraph) -> Tensor:
        """Return the weight of every pair of an enhanced graph."""
        ones = torch.ones(len(enhanced.pairs), dtype=torch.float64)
        return enhanced.weights(ones if enhanced.needs_model else None)

    def fit(self, data: Graph | EdgeSplit) -> Self:
        """Find the similarity pairs, as many as the training edges ask for."""
        data = as_data(data)
        super().fit(data)
        self._find_similar(data.train_graph if isinstance(data, EdgeSplit) else data)
        return self


class MLPAutocovariance(PairTrained, EnhancedModel):
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
    loss, training, redraw, hidden, dropout, chunk, lr, epochs, batches, metric
        Of the MLP; see :class:`~gelato.models.mlp.MLP`.
    validate_every, patience, valid, seed
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
    needs_attributes = True
    search_space: ClassVar = {
        "alpha": ALPHAS,
        "self_loops": LOOPS,
        "lr": LEARNING_RATES.only("free"),
        "dropout": DROPOUTS.only("free"),
    }
    presets: ClassVar = {
        graph: LOOPS_OF[graph] | own for graph, own in MLP.presets.items()
    }
    choices = (0.0, 0.5)  # of alpha, the smaller first: it wins a tie

    eta: float = 0.0
    alpha: float | None = number(None, least=0, most=1)  # type: ignore[assignment]
    beta: float = number(1.0, least=0, most=1)
    t: int = 3
    self_loops: SelfLoops = "isolated"
    validate_every: int = 25

    mlp_: MLP

    def fit(
        self, data: Graph | EdgeSplit, *, mlp: MLP | None = None, **options: Any
    ) -> Self:
        """Train the MLP, then weigh the graph.

        Parameters
        ----------
        data : Graph or EdgeSplit
            A bare graph holds out ``valid`` of its own edges for validation.
        mlp : MLP, optional
            Trained before, with the same parameters, on the same split; else it is
            trained now. The folder of a finished training serves as well.
        **options
            As :meth:`gelato.models.trained.TrainedModel.fit` takes them; checkpoints
            are those that ``MLP.fit`` writes.
        """
        if mlp is None:
            return super().fit(data, **options)
        split = self._begin(data)
        assert split is not None
        self._refuse_other(mlp, split)
        self.steps_ = self.batches
        self._weigh(mlp, split)
        return self

    def _task(self, split: EdgeSplit) -> PairMLPTask:
        self.mlp_ = MLP(**self.mlp_parameters())
        self.mlp_._begin(split)
        return self.mlp_._task(split)

    def _keep(self, task: Any) -> None:
        assert self.split_ is not None
        self.mlp_._keep(task)
        self.mlp_.steps_, self.mlp_.training_ = self.steps_, self.training_
        self._weigh(self.mlp_, self.split_)

    def _identity(self, split: EdgeSplit) -> dict[str, Any]:
        return self.mlp_._identity(split)

    def _weigh(self, mlp: MLP, split: EdgeSplit) -> None:
        """Take a trained MLP; choose alpha if it is not given."""
        self.mlp_, self.training_ = mlp, mlp.training_
        self.alpha_ = self.choices[0] if self.alpha is None else float(self.alpha)
        self._find_similar(split.train_graph)
        if self.alpha is None:
            self._choose_alpha(split)

    def mlp_parameters(self) -> dict[str, Any]:
        """Return the parameters of the first stage."""
        known = MLP.parameter_defaults()
        return {k: v for k, v in self.get_params().items() if k in known}

    def untrained(self, split: EdgeSplit) -> MLP:
        """Return the first stage with its first weights, to see what ranking costs."""
        fresh: MLP = MLP(**self.mlp_parameters()).untrained(split)
        return fresh

    def weights(self, graph: Graph, enhanced: EnhancedGraph) -> Tensor:
        """Return the weight of every pair of an enhanced graph."""
        return learned_weights(self.mlp_.module_, graph, enhanced)

    def _choose_alpha(self, split: EdgeSplit) -> None:
        found = {}
        for alpha in self.choices:
            self.alpha_ = alpha
            ranked = evaluate(self, split, part="valid")
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
        ours, theirs = self.mlp_parameters(), mlp.get_params()
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
        EnhancedModel._store(self, run)
        self.mlp_._store(run)
        run.facts["alpha"] = self.alpha_

    def _restore(self, run: Run) -> None:
        self.alpha_ = float(run.facts["alpha"])
        self.mlp_ = MLP(**self.mlp_parameters())
        self.mlp_.graph_, self.mlp_.split_ = run.graph, run.split
        EnhancedModel._restore(self, run)
        self.mlp_._restore(run)
        self.training_ = self.mlp_.training_


class MLPCosineAutocovariance(MLPAutocovariance):
    """Autocovariance on edges and similar pairs, both weighed (MLP+Cos+AC).

    As :class:`MLPAutocovariance`, with similar pairs added and half of the rest of
    the weight from similarity.
    """

    name = "mlp+cos+ac"
    summary = "autocovariance on edges and similar pairs, weighed by an MLP and cosine"
    search_space: ClassVar = {
        "eta": ETAS,
        "alpha": ALPHAS,
        "beta": BETAS,
        "self_loops": LOOPS_AFTER,
        "lr": LEARNING_RATES.only("free"),
        "dropout": DROPOUTS.only("free"),
    }

    eta: float = 1.0
    alpha: float = 0.5
    beta: float = 0.5
