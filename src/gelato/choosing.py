"""Choose a model for a graph by its validation edges, within a stated time.

Simple ones first: plain heuristics, then the untrained models that use attributes,
then what learns: the stack, and Gelato with a few settings. A less simple model must
beat the simpler ones by more than the standard error of the difference, so that few
validation edges do not decide for noise. Test edges are never looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from time import monotonic
from typing import Any, Literal

import numpy as np
import polars as pl

from gelato import text
from gelato.engines import use_threads
from gelato.errors import GelatoError, InputError, UsageError
from gelato.graph import Graph
from gelato.kernels.compiled import compile_all
from gelato.models.registry import make
from gelato.ranking import metrics
from gelato.ranking.evaluate import candidates_of, check_positives
from gelato.ranking.forecast import forecast
from gelato.ranking.resampling import RankedPositives, paired_gain, rank_positives
from gelato.splits import EdgeSplit, as_split

Kind = Literal["plain", "attributes", "trained"]
Progress = Callable[[str, float, float], None]
Parameters = dict[str, Any]

SECONDS = 120.0
QUICK_SECONDS = 10.0

# Untrained models may use this share of the time, or all of it if no training worth
# its start would fit into the rest. An epoch takes about ten times as long as a ranking
# by walks, and what comes before the first one about as long as an epoch.
_UNTRAINED_SHARE = 0.6
_RANKINGS_PER_EPOCH = 10
_LEAST_EPOCHS = 2
# From here on a model is timed on a few rows before it ranks all pairs.
_WORTH_A_FORECAST = 50_000_000
# Where edges are also held out from the training edges, and how many.
_SMALL_PAIRS, _MOST_FOLDS, _ENOUGH_EDGES = 10_000_000, 9, 1_000
_WARM_UP_NODES = 8
_EPOCHS = 100
_PATIENCE = 10
# A setting that gets fewer epochs than this is not worth starting beside another one.
_FEW_EPOCHS = 5
# With fewer epochs than this, larger steps get further.
_HURRIED_EPOCHS, _HURRIED_LR = 20, 3e-3

_PLAIN: tuple[tuple[str, Parameters], ...] = (
    ("cn", {}),
    ("aa", {}),
    ("ra", {}),
    ("pa", {}),
    ("ac", {"t": 3}),
    ("ac", {"t": 3, "self_loops": "all"}),
    ("ac", {"t": 2}),
    ("ac", {"t": 2, "self_loops": "all"}),
)
_LONG_WALKS: tuple[tuple[str, Parameters], ...] = (
    ("ac", {"t": 4}),
    ("ac", {"t": 4, "self_loops": "all"}),
    ("ease", {}),
)
# Where every edge joins two kinds of nodes, an even number of steps leads back to one's
# own kind: these score no pair that can be a link, unless nodes have loops.
_EVEN_COUNTS = ("cn", "aa", "ra")
_EVEN = ({"t": 2}, {"t": 4})
_ODD_WALKS: tuple[tuple[str, Parameters], ...] = (
    ("ac", {"t": 5}),
    ("ac", {"t": 5, "self_loops": "all"}),
)
# The ridge walk inverts a matrix: about so many seconds for n^3 of them.
_INVERSE_SECONDS, _INVERSE_SHARE = 1e-10, 0.2
# The stack may take this share of what the untrained models leave; with less time than
# this, its first part alone would exceed it.
_STACK_SHARE, _STACK_LEAST_SECONDS = 0.6, 15.0
# Where validation edges also chose what the stack mixes in they flatter it: it has to
# gain more than so many standard errors on them. Within these it is fitted again,
# without folds of training edges that it then ranks: one standard error is enough.
_STACK_ERRORS, _STACK_FOLDS = 2.0, 3
_ATTRIBUTES: tuple[tuple[str, Parameters], ...] = (
    ("cos+ac", {"eta": 0.5, "alpha": 0.5, "self_loops": "all"}),
    ("cos", {}),
    ("cos+ac", {"eta": 0.0, "alpha": 0.0}),
    ("cos+ac", {"eta": 1.0, "alpha": 0.5}),
    ("cos+ac", {"eta": 1.0, "alpha": 0.0}),
    ("cos+ac", {"eta": 0.25, "alpha": 0.75}),
)
# The two settings that the paper arrives at: weights learned completely, or edges,
# similarity and learned weights mixed.
_LEARNED = {"eta": 0.0, "alpha": 0.0, "beta": 1.0}
_MIXED = {"eta": 0.5, "alpha": 0.5, "beta": 0.5, "self_loops": "all"}


@dataclass(frozen=True, eq=False)
class Choice:
    """The model that was chosen, and what it was chosen from.

    Parameters
    ----------
    model : Model
        Fitted on the split.
    name : str
        Its registered name.
    reason : str
        One line for people.
    candidates : polars.DataFrame
        One row per candidate, in the order of trial: ``model``, ``parameters``,
        ``kind`` ("plain", "attributes" or "trained"), validation values ``ap``,
        ``prec@100%`` and ``auc``, ``mean_ap`` (over the validation edges and, in small
        graphs, training edges held out in turn), ``epochs``, ``seconds``, ``why_not``
        (null if it ran) and ``chosen``.
    seconds : float
        Time taken.
    budget : float
        Time allowed.
    seed : int
        Seed of trainings and resamples.
    """

    model: Any
    name: str
    reason: str
    candidates: pl.DataFrame
    seconds: float
    budget: float
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: everything but the model itself."""
        return {
            "model": self.name,
            "parameters": self.model.get_params(),
            "reason": self.reason,
            "seconds": self.seconds,
            "budget": self.budget,
            "seed": self.seed,
            "candidates": self.candidates.to_dicts(),
        }


def choose_model(
    split: EdgeSplit,
    *,
    seconds: float = SECONDS,
    seed: int = 0,
    train: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Return the model that ranks the validation edges best, unless by chance.

    Plain heuristics compete first, then attribute-based models that learn nothing,
    then the stack, then Gelato with a few settings, all of them cut to fit the clock.
    The best of a later group replaces the best so far only if its average precision is
    larger by more than the bootstrap standard error of the paired difference. Where
    there are few validation edges in a small graph, untrained models also rank training
    edges held out in turn.

    Parameters
    ----------
    split : EdgeSplit
        Its training edges are walked on, its validation edges ranked among all pairs;
        its test edges are not used.
    seconds : float
        Time budget, from when the kernels are compiled. The first heuristic runs in
        any case; what else ran is in the result.
    seed : int
        Decides trainings and resamples. With the same seed the same candidates give
        the same numbers; how many epochs fit into the time may differ.
    train : bool
        Whether the stack and Gelato compete; if not, only models that learn nothing do.
    threads : int, optional
        Number of threads (:func:`gelato.use_threads`); does not change the result.
    progress : callable, optional
        Told (what is tried, seconds gone, seconds in all). Default: a bar in
        notebooks.

    Examples
    --------
    >>> from gelato import load_dataset, split_edges
    >>> split = split_edges(load_dataset("citeseer"))
    >>> choose_model(split, seconds=60).name  # doctest: +SKIP
    'stack'
    """
    if not seconds > 0:
        raise UsageError(f"The time budget is {seconds} s, but must be positive.")
    split = as_split(split)
    with use_threads(threads), text.notebook_progress("choosing a model") as shown:
        told = shown if progress is None else progress
        trials = Trials(split, seconds=seconds, seed=seed, progress=told)
        tried = trials.run(train=train)
    best, reason = _select(tried, seed)
    rows = [{**entry.to_dict(), "chosen": entry is best} for entry in tried]
    table = pl.DataFrame(
        rows,
        schema_overrides={"epochs": pl.Int64, "why_not": pl.String},
        infer_schema_length=None,
    )
    return Choice(
        best.model, best.name, reason, table, trials.elapsed, float(seconds), seed
    )


@dataclass(eq=False)
class Tried:
    """A candidate and how its validation edges rank; ``why_not`` if it did not run.

    ``folds`` are further rankings, of training edges held out for the purpose.
    """

    name: str
    parameters: Parameters
    kind: Kind
    model: Any = None
    ranked: RankedPositives | None = None
    folds: tuple[RankedPositives, ...] = ()
    epochs: int | None = None
    seconds: float = 0.0
    why_not: str = ""

    @property
    def ap(self) -> float:
        """Average precision of the validation edges among all pairs."""
        assert self.ranked is not None
        return metrics.average_precision(self.ranked.counts)

    @property
    def mean_ap(self) -> float:
        """Average precision, over the validation edges and the folds."""
        return self.mean_ap_of(len(self.folds))

    def mean_ap_of(self, folds: int) -> float:
        """Average precision, over the validation edges and at most so many folds."""
        ranked = (fold.counts for fold in self.folds[:folds])
        values = [self.ap, *map(metrics.average_precision, ranked)]
        return sum(values) / len(values)

    @property
    def inside(self) -> str:
        """The parameters, for people."""
        return ", ".join(f"{name} = {value}" for name, value in self.parameters.items())

    @property
    def label(self) -> str:
        """Name and parameters, for people."""
        return f"{self.name} ({self.inside})" if self.parameters else self.name

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for tables and JSON."""
        measured = dict.fromkeys(("ap", "mean_ap", "prec@100%", "auc"))
        if self.ranked is not None:
            counts = self.ranked.counts
            measured |= {
                "ap": self.ap,
                "mean_ap": self.mean_ap,
                "prec@100%": metrics.precision_at_ratio(counts, 1.0),
                "auc": metrics.area_under_roc(counts),
            }
        return {
            "model": self.name,
            "parameters": self.inside,
            "kind": self.kind,
            **measured,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "why_not": self.why_not or None,
        }


class Trials:
    """Tries candidates one after another and keeps what they gave.

    Parameters
    ----------
    split : EdgeSplit
        Training edges are walked on, validation edges ranked; test edges not used.
    seconds : float
        Time for all candidates together.
    seed : int
        Seed of trainings.
    progress : callable, optional
        Told (what is tried, seconds gone, seconds in all).
    """

    def __init__(
        self,
        split: EdgeSplit,
        *,
        seconds: float,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.split, self.seconds, self.seed = split, seconds, seed
        self.progress = progress
        self.rule = candidates_of(split, "valid")
        check_positives(split, "valid", self.rule)
        # Compiled once per installation and loaded once per process: neither is the
        # fault of the candidate that happens to come first.
        warm_up(split.graph)
        self.started = monotonic()
        self.folds = inner_folds(split, seed)
        self.tried: list[Tried] = []
        self.epoch_seconds: float | None = None  # known once a training has begun

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds until the time is up."""
        return self.seconds - self.elapsed

    def run(self, *, train: bool = True) -> list[Tried]:
        """Try everything that there is time for."""
        for kind, name, parameters in untrained(self.split):
            with self._trying(Tried(name, parameters, kind)) as tried:
                self._rank_untrained(tried)
        if train and not self.split.graph.directed:
            with self._trying(Tried("stack", {}, "trained")) as tried:
                self._stack(tried)
        if train and self.split.graph.num_attributes:
            with self._pausing():
                import gelato.training.loop  # noqa: F401
            settings = self._settings()
            for place, parameters in enumerate(settings):
                with self._trying(Tried("gelato", parameters, "trained")) as tried:
                    self._train(tried, to_come=len(settings) - place)
        return self.tried

    @contextmanager
    def _trying(self, tried: Tried) -> Iterator[Tried]:
        """Keep a candidate with its time, and with why it failed if it does."""
        began = self.elapsed
        try:
            yield tried
        except GelatoError as error:
            tried.why_not = error.problem
        tried.seconds = self.elapsed - began
        self.tried.append(tried)

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        """Stop the clock: loading a library is no fault of a candidate."""
        began = monotonic()
        yield
        self.started += monotonic() - began

    def _stack(self, tried: Tried) -> None:
        """Fit the stack within its share of the time."""
        seconds = _STACK_SHARE * self.left
        if seconds < _STACK_LEAST_SECONDS:
            tried.why_not = "no time left"
            return
        self._tell("stack")
        with self._pausing():
            model = make("stack", seed=self.seed, budget=seconds)

        def on_part(what: str, *_: int) -> None:
            self._tell(f"stack: {what}")

        began = self.elapsed
        tried.model = model.fit(self.split, on_part=on_part)
        tried.ranked = _rank(model, self.split)
        took = self.elapsed - began
        plain = [x for x in self.tried if x.kind == "plain" and x.ranked is not None]
        best = max(plain, key=lambda x: x.mean_ap)
        for place, fold in enumerate(self.folds[:_STACK_FOLDS]):
            gain, error = _gain(tried, best, self.seed)
            # Where even the stack found too few of them to decide: at least once.
            enough = place > 0 or model.saw_validation_
            settled = enough and abs(gain) > _STACK_ERRORS * error
            if settled or took > _STACK_SHARE * self.left:
                break
            self._tell(f"stack: checked again, {place + 1} of {_STACK_FOLDS}")
            # On a bare graph it hides edges of its own, and never sees the fold. The
            # same budget: what is checked must not be cut shorter than what is chosen.
            again = make("stack", seed=self.seed, budget=seconds)
            tried.folds += (_rank(again.fit(fold.train_graph), fold),)

    def _rank_untrained(self, tried: Tried) -> None:
        """Fit and rank a model that learns nothing, if there is time."""
        self._tell(tried.name)
        folds = self.folds
        if tried.name == "ease":
            inverting = _INVERSE_SECONDS * self.split.graph.num_nodes**3
            rankings = int(_INVERSE_SHARE * self.seconds / inverting)
            if rankings < 1:
                tried.why_not = "no time left"
                return
            folds = folds[: rankings - 1]
        tried.model = make(tried.name, **tried.parameters)
        # The first one that suits always: there must be something to choose.
        if any(x.ranked for x in self.tried) and not self._has_time(tried.model):
            tried.why_not = "no time left"
            return
        tried.ranked = _rank(tried.model.fit(self.split), self.split)
        tried.folds = tuple(
            _rank(make(tried.name, **tried.parameters).fit(fold), fold)
            for fold in folds
        )

    def _has_time(self, model: Any) -> bool:
        """Tell whether there is time to rank all pairs with a model."""
        rest = (1 - _UNTRAINED_SHARE) * self.seconds
        left = self.left - (rest if self._fits_a_training(rest) else 0.0)
        if left <= 0 or self.rule.count < _WORTH_A_FORECAST:
            return left > 0
        graph = self.split.train_graph
        coming = forecast(model.fit(self.split), graph, candidates=self.rule)
        return coming.seconds <= left

    def _settings(self) -> list[Parameters]:
        """Return the settings to train, the most promising first."""
        ran = [x for x in self.tried if x.ranked is not None]
        plain = max((x.mean_ap for x in ran if x.kind == "plain"), default=0.0)
        similar = [x for x in ran if x.name == "cos+ac" and x.mean_ap > plain]
        if not similar:
            return [_LEARNED, _MIXED]
        best = max(similar, key=lambda x: x.mean_ap)
        near = best.parameters | {"beta": 0.5}
        others = [x for x in (_LEARNED, _MIXED) if x != near]
        return [near, *others]

    def _train(self, tried: Tried, to_come: int) -> None:
        """Train Gelato with one of the settings to come, as long as there is time."""
        epoch = self.epoch_seconds
        if epoch is not None:
            # Rather one setting well than three settings hardly at all.
            to_come = max(1, min(to_come, int(self.left / (_FEW_EPOCHS * epoch))))
        seconds = self.left / to_come
        if not self._fits_a_training(seconds) or seconds < 1.2 * (epoch or 0.0):
            tried.why_not = "no time left"
            return
        hurried = epoch is not None and seconds < _HURRIED_EPOCHS * epoch
        if not self._fit(tried, seconds, hurried=hurried):
            # Few epochs fit: larger steps, and at least a few of them.
            few = _FEW_EPOCHS * (self.epoch_seconds or 0.0)
            if not self._fit(tried, max(seconds, min(self.left, few)), hurried=True):
                tried.why_not = "no time for an epoch"

    def _fit(self, tried: Tried, seconds: float, *, hurried: bool) -> bool:
        """Train if enough epochs fit into a time, and tell whether they did."""
        from gelato.training.budget import TimeLimit
        from gelato.training.loop import StopTraining

        parameters = tried.parameters | ({"lr": _HURRIED_LR} if hurried else {})
        model = make(
            "gelato",
            **parameters,
            epochs=_EPOCHS,
            metric="ap",
            patience=_PATIENCE,
            batches=max(1, min(10, len(self.split.train) // 2)),
            seed=self.seed,
        )
        limit = TimeLimit(
            monotonic() + seconds,
            model.batches,
            validation_seconds=self._validation_seconds(),
            least_epochs=1 if hurried else _HURRIED_EPOCHS,
        )
        said = ", ".join(f"{name} {value}" for name, value in parameters.items())

        def on_epoch(entry: dict[str, Any], state: Any) -> None:
            self._tell(f"gelato, {said}: epoch {entry['epoch']}")
            limit.on_epoch(entry, state)

        self._tell(f"gelato, {said}")
        try:
            model.fit(self.split, on_step=limit.on_step, on_epoch=on_epoch)
        except StopTraining:
            return False
        finally:
            self.epoch_seconds = limit.epoch_seconds
        # As many epochs as there were: these parameters give this model again.
        model.set_params(epochs=limit.epochs or _EPOCHS)
        tried.parameters, tried.epochs = parameters, limit.epochs or None
        tried.model, tried.ranked = model, _rank(model, self.split)
        return True

    def _fits_a_training(self, seconds: float) -> bool:
        """Tell whether a few epochs may fit into a time, by a rough guess."""
        if not self.split.graph.num_attributes:
            return False
        epoch = _RANKINGS_PER_EPOCH * self._validation_seconds()
        return seconds > _LEAST_EPOCHS * epoch

    def _validation_seconds(self) -> float:
        walks = [x.seconds for x in self.tried if x.name == "ac" and x.ranked]
        return walks[0] if walks else 0.0

    def _tell(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what, min(self.elapsed, self.seconds), self.seconds)


def _rank(model: Any, split: EdgeSplit) -> RankedPositives:
    """Rank the validation edges of a split among all pairs."""
    scorer = model.scorer(split.train_graph)
    return rank_positives(scorer, split.valid, candidates_of(split, "valid"))


def inner_folds(split: EdgeSplit, seed: int) -> list[EdgeSplit]:
    """Hold out training edges as well, where there are few validation edges.

    The first of few edges decide most of an average precision; untrained candidates on
    small graphs cost next to nothing, so more edges are ranked. Which folds there are
    depends on the split alone, not on the clock.
    """
    size, edges = len(split.valid), len(split.train)
    if split.graph.num_pairs > _SMALL_PAIRS or edges < 4 * size:
        return []
    graph, rng = split.train_graph, np.random.default_rng(seed)
    folds = []
    for _ in range(min(_MOST_FOLDS, -(-_ENOUGH_EDGES // size) - 1)):
        held = np.zeros(edges, dtype=bool)
        held[rng.permutation(edges)[:size]] = True
        parts = (graph.edges[~held], graph.edges[held], graph.edges[:0])
        folds.append(EdgeSplit(graph, *parts, kind="given"))
    return folds


def warm_up(graph: Graph) -> None:
    """Have every kernel at hand that untrained candidates for a graph need."""
    size = _WARM_UP_NODES
    if graph.num_nodes < size:
        return
    compile_all()  # or so small a graph would do without
    attributes: Any = graph.attributes
    steps = np.arange(size - 1)
    small = Graph.from_indices(
        size,
        np.stack([steps, steps + 1], axis=1),
        weights=None if graph.weights is None else np.ones(size - 1),
        attributes=None if attributes is None else attributes[:size],
        directed=graph.directed,
    )
    split = EdgeSplit(small, small.edges[2:], small.edges[:1], small.edges[1:2])
    rule = candidates_of(split, "valid")
    seen: set[str] = set()
    for _, name, parameters in untrained(split):
        if name not in seen:
            seen.add(name)
            with suppress(GelatoError):
                scorer = make(name, **parameters).fit(split).scorer(split.train_graph)
                rank_positives(scorer, split.valid, rule)


def untrained(split: EdgeSplit) -> Iterator[tuple[Kind, str, Parameters]]:
    """Yield the untrained candidates, the most useful of the cheap ones first.

    On graphs of two kinds of nodes walks are of odd length, or have loops to wait at.
    """
    two_kinds = split.graph.is_bipartite
    groups: list[tuple[Kind, tuple[tuple[str, Parameters], ...]]] = [
        ("plain", _PLAIN),
        ("attributes", _ATTRIBUTES[:2]),
        ("plain", (*_ODD_WALKS, *_LONG_WALKS) if two_kinds else _LONG_WALKS),
        ("attributes", _ATTRIBUTES[2:]),
    ]
    for kind, candidates in groups:
        if kind == "plain" or split.graph.num_attributes:
            for name, parameters in candidates:
                even = name in _EVEN_COUNTS or (name == "ac" and parameters in _EVEN)
                if not (two_kinds and even):
                    yield kind, name, parameters


def _select(tried: list[Tried], seed: int) -> tuple[Tried, str]:
    """Return the best candidate, simple ones preferred, and the reason."""
    groups: list[Tried] = []
    for kind in ("plain", "attributes", "trained"):
        ran = [x for x in tried if x.kind == kind and x.ranked is not None]
        if ran:
            groups.append(
                reduce(lambda a, b: b if _gain(b, a, seed)[0] > 0 else a, ran)
            )
    if not groups:
        raise InputError(
            f"No model suits this graph: {tried[0].why_not}",
            hint="See what was read with: gelato check",
        )
    best = groups[0]
    losers: list[tuple[Tried, Tried]] = []  # each with the simpler one in its way
    for place, rival in enumerate(groups[1:], start=1):
        flattered = getattr(rival.model, "is_flattered", False) and not rival.folds
        needed = _STACK_ERRORS if flattered else 1.0
        # Over all simpler ones: two may be compared on other edges than two others.
        spare = [
            (gain - error * needed, simpler)
            for simpler in groups[:place]
            for gain, error in [_gain(rival, simpler, seed)]
        ]
        least, simpler = min(spare, key=itemgetter(0))
        if least > 0:
            best, losers = rival, []
        else:
            losers.append((rival, simpler))
    said = _praise(best, groups[0], seed)
    if best is groups[0]:
        said += ", the best plain heuristic"
    if losers:
        said += _blame(*max(losers, key=lambda x: _gain(x[0], x[1], seed)[0]), seed)
    return best, said


def _praise(best: Tried, plain: Tried, seed: int) -> str:
    """Say how good the chosen one is, beside the best plain heuristic."""
    said = f"{best.label}: AP {_measured(best, plain)} on {_basis(best, plain)}"
    if best is plain:
        return said
    gain, error = _gain(best, plain, seed)
    return (
        f"{said}, where {plain.label}, the best plain heuristic, has "
        f"{_measured(plain, best)}: a gain of {_points(gain)}, more than its standard "
        f"error of {_points(error)}"
    )


def _blame(rival: Tried, simpler: Tried, seed: int) -> str:
    """Say why one was not taken: a simpler one is as good, both on the same edges."""
    gain, error = _gain(rival, simpler, seed)
    both = (
        f"; {rival.label} has {_measured(rival, simpler)} on {_basis(rival, simpler)}, "
        f"where {simpler.label} has {_measured(simpler, rival)}"
    )
    if gain > 0:
        return (
            f"{both}: a gain of {_points(gain)} with a standard error of "
            f"{_points(error)}, too little to trust"
        )
    return both


def _basis(one: Tried, other: Tried) -> str:
    """Say on which held-out edges two candidates are compared."""
    shared = min(len(one.folds), len(other.folds))
    return f"{shared + 1} held-out parts (mean)" if shared else "the validation edges"


def _gain(one: Tried, other: Tried, seed: int) -> tuple[float, float]:
    """Return a gain and its error, over all folds that both have."""
    assert one.ranked is not None
    assert other.ranked is not None
    pairs = [(one.ranked, other.ranked)]
    pairs += zip(one.folds, other.folds, strict=False)
    gains = [paired_gain(a, b, seed=seed) for a, b in pairs]
    error = math.hypot(*(error for _, error in gains)) / len(gains)
    return sum(gain for gain, _ in gains) / len(gains), error


def _measured(one: Tried, other: Tried) -> str:
    """Return the value that the two are compared by."""
    return f"{text.percent(one.mean_ap_of(len(other.folds)))} %"


def _points(gain: float) -> str:
    return f"{text.percent(gain)} points"
