"""Gelato: a graph enhanced by learned weights, ranked by autocovariance."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

import torch
from torch import Tensor, nn

from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.heuristics.walks import SelfLoops
from gelato.models.enhanced import (
    ALPHAS,
    BETAS,
    ETAS,
    LOOPS_AFTER,
    LOOPS_OF,
    EnhancedModel,
    learned_weights,
)
from gelato.models.mlp import LEARNING_RATES, MLP, PairTrained
from gelato.models.trained import DROPOUTS, fill_module
from gelato.nn.enhancement import EnhancedGraph
from gelato.nn.pair_gcn import PairGCN
from gelato.nn.pair_mlp import Precision
from gelato.nn.similarity import BlockSimilarity
from gelato.nn.two_steps import HeuristicMixture
from gelato.parameters import Dimension, choice, function, number
from gelato.splits import EdgeSplit
from gelato.storage import Run
from gelato.training.dense_task import DenseTask, refuse_dense
from gelato.training.enhanced_scorers import HEURISTICS, HeuristicName
from gelato.training.gelato_task import GelatoTask, StepSettings, TrainingSet
from gelato.training.loop import TrainSettings
from gelato.training.near_negatives import NegativeKinds
from gelato.training.negatives import SAMPLERS

if TYPE_CHECKING:
    from gelato.nn.dense import Masking

logger = logging.getLogger(__name__)

# What training on near and far negatives rests on: far scores known from degrees
# alone, and a loss whose sum over negatives a sample of them can stand for.
_NEAR_NEEDS = {
    "loss": "n-pair",
    "training": "unbiased",
    "heuristic": "ac",
    "masking": "both",
}
_NOTHING_GAINED = (
    "no epoch ranks the validation edges better than equal weights do: these are kept, "
    "and the model is its heuristic"
)
# As the paper selected them. The last column of its table is one setting for three
# graphs: no similarity pairs, weights learned completely.
_LEARNED = {"eta": 0.0, "alpha": 0.0, "beta": 1.0}
_SELECTED = {
    "cora": {"eta": 0.5, "alpha": 0.5, "beta": 0.25},
    "citeseer": {"eta": 0.75, "alpha": 0.5, "beta": 0.5},
    "pubmed": _LEARNED,
    "photo": _LEARNED,
    "computers": _LEARNED,
}


class Gelato(PairTrained, EnhancedModel):
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
    precision : {"float32", "bfloat16"}
        What the MLP's second layer rounds numbers to before it multiplies them, in
        training. "bfloat16" is faster, for processors that have it (avx512_bf16).
    lr, epochs, batches
        Learning rate of Adam, epochs, and steps per epoch.
    loss : {"n-pair", "cross-entropy", "listnet"}
        Training loss.
    training : {"unbiased", "biased", "partitioned", "adversarial"}
        Which negatives a step sees; "unbiased" is every one of them once an epoch.
    redraw : bool
        Draw the negatives of biased training anew each epoch.
    bias : {"zero", "log-odds"}
        Where the bias of cross entropy's unit starts. From 0 it first has to learn
        how rare links are, which takes most of an unbiased training; the logarithm of
        positives per negative is where that ends.
    start : {"random", "even"}
        First weights. "even" gives all pairs the same weight: training starts from the
        heuristic on the unlearned graph (up to the loops of isolated nodes), which
        competes as epoch 0, so that what is kept never ranks validation edges worse.
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
    pair_model : "gcn" or callable, optional
        What weighs pairs in place of the MLP: two graph convolutions with the MLP's
        ``hidden`` and ``dropout``; or a function that takes the training graph and
        returns an ``nn.Module`` that maps
        :class:`~gelato.nn.first_layer.PairFeatures` to a weight per pair. A module
        with a method ``read(graph)`` is given the edges that it may see before each
        step (the batch's positives are not among them) and before it weighs a graph.

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
    search_space: ClassVar = {
        "eta": ETAS,
        "alpha": ALPHAS,
        "beta": BETAS,
        "self_loops": LOOPS_AFTER,
        # The paper keeps these fixed.
        "lr": LEARNING_RATES.only("free"),
        "dropout": DROPOUTS.only("free"),
        "t": Dimension((3, 2, 4)).only("free"),
    }
    presets: ClassVar = {
        graph: own | LOOPS_OF[graph] | MLP.presets[graph]
        for graph, own in _SELECTED.items()
    }

    eta: float = 0.0
    alpha: float = 0.0
    beta: float = number(1.0, least=0, most=1)
    self_loops: SelfLoops = "isolated"
    t: int = 3
    heuristic: HeuristicName = choice("ac", HEURISTICS)
    similarity: str | BlockSimilarity = function("cosine", "cosine")
    hidden: int = 128
    dropout: float = 0.5
    chunk: int = 20_000
    precision: Precision = choice("float32", get_args(Precision))
    lr: float = 1e-3
    epochs: int = 100
    batches: int = 10
    loss: str = "n-pair"
    bias: str = choice("zero", ("zero", "log-odds"))
    start: str = choice("random", ("random", "even"))
    training: TrainingSet = choice("unbiased", SAMPLERS)
    negatives: NegativeKinds = choice("auto", ("auto", "all", "near"))
    near_rate: float | None = number(None, above=0, most=1)
    masking: Masking = choice("both", ("both", "one-sided"))
    metric: str = "prec@100%"
    validate_every: int = 1
    patience: int | None = None
    valid: float = 0.05
    seed: int = 0
    pair_model: str | Callable[[Graph], nn.Module] | None = function(None, "gcn")

    module_: nn.Module | None
    later_parameters = (
        "redraw",
        "bias",
        "start",
        "negatives",
        "near_rate",
        "precision",
    )

    def check_parameters(self) -> None:
        """Raise unless every parameter is in its range, and they go together."""
        super().check_parameters()
        if self.heuristic == "mixture" and self.t != 3:
            raise UsageError(
                f"The mixture of heuristics walks 3 steps, and t is {self.t}.",
                hint='Leave t at 3, or use heuristic="ac".',
            )
        if self.negatives == "all" and self.near_rate is not None:
            raise UsageError(
                f"near_rate is {self.near_rate!r}, but all negatives are asked for.",
                hint='Use negatives="near", or leave near_rate out.',
            )
        if self.bias != "zero" and self.loss != "cross-entropy":
            raise UsageError(
                f"bias is {self.bias!r}, but the {self.loss} loss has no unit.",
                hint='Use loss="cross-entropy", or leave bias out.',
            )
        if self.start != "random" and self.pair_model is not None:
            raise UsageError(
                f"start is {self.start!r}, but the pair model is not the MLP.",
                hint="Leave start out, or pair_model.",
            )
        if self.precision != "float32" and self.pair_model is not None:
            raise UsageError(
                f"precision is {self.precision!r}, but the pair model is not the MLP.",
                hint="Leave precision out, or pair_model.",
            )
        given = self.get_params()
        for name, needed in _NEAR_NEEDS.items():
            if self.negatives == "near" and given[name] != needed:
                raise UsageError(
                    f'negatives="near" needs {name}="{needed}", and it is '
                    f"{given[name]!r}.",
                    hint=f'Leave {name} at "{needed}", or use negatives="all".',
                )

    def weights(self, graph: Graph, enhanced: EnhancedGraph) -> Tensor:
        """Return the weight of every pair of an enhanced graph."""
        return learned_weights(self.module_, graph, enhanced)

    def _learns(self, graph: Graph) -> bool:
        """Tell whether anything is learned from a graph."""
        weighs = graph.num_attributes > 0 and (1 - self.alpha) * self.beta > 0
        return weighs or self.heuristic == "mixture"

    def _task(self, split: EdgeSplit) -> GelatoTask | DenseTask:
        graph, enhanced = split.train_graph, self._find_similar(split.train_graph)
        model = self._module(graph) if enhanced.needs_model else None
        given = (graph, enhanced, split.valid, model, self._step_settings())
        task: GelatoTask | DenseTask
        if self._is_dense(graph):
            task = DenseTask(*given, masking=self.masking)
        else:
            task = GelatoTask(*given)
        self._tell_path(task)
        return task

    def _train_settings(self) -> TrainSettings:
        return replace(super()._train_settings(), validate_start=self.start == "even")

    def _keep(self, task: Any) -> None:
        if self.start == "even" and task.module.pair_model is not None:
            assert self.training_ is not None
            if self.training_.best_epoch == 0:
                self.notes_ = (*self.notes_, _NOTHING_GAINED)
        self.module_, self.mixture_ = task.module.pair_model, task.module.mixture

    def _start(self, graph: Graph) -> None:
        self.module_ = None
        self.mixture_ = HeuristicMixture() if self.heuristic == "mixture" else None
        if self._find_similar(graph).needs_model:
            self.module_ = self._module(graph).eval()

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
            bias=self.bias,
            redraw=self.redraw,
            negatives=self.negatives,
            near_rate=self.near_rate,
            metric=self.metric,
            seed=int(self.seed),
        )

    def _module(self, graph: Graph, stored: Any = None) -> nn.Module:
        if self.pair_model == "gcn":
            units: Any = {"hidden": self.hidden, "dropout": self.dropout}
            return PairGCN(graph, **units, seed=int(self.seed))
        if callable(self.pair_model):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                return self.pair_model(graph)
        made: Any = super()._module(graph)
        made.precision = self.precision
        if self.start == "even":
            nn.init.zeros_(made.output.weight)
            nn.init.zeros_(made.output.bias)
        return cast(nn.Module, made)

    def _check_split(self, split: EdgeSplit) -> None:
        graph = split.train_graph
        if self.heuristic != "ac":
            graph.require_undirected(f"Gelato with heuristic={self.heuristic!r}")
        if self.negatives == "near":
            graph.require_undirected('Gelato with negatives="near"')
        if self._is_dense(graph):
            refuse_dense(graph, self._step_settings(), self.masking)
        super()._check_split(split)

    def _store(self, run: Run) -> None:
        EnhancedModel._store(self, run)
        for name, module in (("model", self.module_), ("mixture", self.mixture_)):
            if module is not None:
                state = module.state_dict()
                run.tensors |= {f"{name}.{key}": value for key, value in state.items()}
        self._store_training(run)

    def _restore(self, run: Run) -> None:
        self._restore_training(run)
        self.module_, self.mixture_ = None, None
        EnhancedModel._restore(self, run)
        if self.enhanced(run.graph).needs_model:
            self.module_ = fill_module(self._module(run.graph), run, "model.")
        if self.heuristic == "mixture":
            self.mixture_ = HeuristicMixture()
            fill_module(self.mixture_, run, "mixture.")
