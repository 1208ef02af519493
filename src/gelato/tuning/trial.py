"""One trial: fit a model with some parameters, rank the validation edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gelato.errors import GelatoError, MissingExtraError
from gelato.models.base import Model, fitted
from gelato.models.registry import make
from gelato.models.two_stage import MLPAutocovariance
from gelato.ranking import evaluate
from gelato.splits import EdgeSplit
from gelato.training.budget import TimeLimit
from gelato.training.loop import StopTraining
from gelato.training.validation import validation_metric

Report = Callable[[int, float], bool]
EpochTold = Callable[[int, int], None]


class PrunedError(Exception):
    """Ends a training that is below the median of others."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came out of a trial.

    Parameters
    ----------
    value : float or None
        Of the validation edges among all pairs, where the trial got so far.
    epochs : int or None
        Epochs of training.
    state : {"complete", "pruned", "failed"}
        How it ended.
    reason : str
        Why so.
    is_cut : bool
        Whether the clock ended it: the value is one of fewer epochs.
    model : Model, optional
        Fitted, if complete.
    """

    value: float | None
    epochs: int | None
    state: Any
    reason: str = ""
    is_cut: bool = False
    model: Any = None


class TrialRunner:
    """Fits models of one name on one split.

    Parameters
    ----------
    name : str
        Registered name.
    split : EdgeSplit
        Without test edges: see :func:`blind`.
    metric : str
        What is measured.
    until : float, optional
        A time of :func:`time.monotonic` that ends trainings.
    """

    def __init__(
        self,
        name: str,
        split: EdgeSplit,
        metric: str,
        *,
        until: float | None = None,
    ) -> None:
        self.name, self.split, self.metric = name, split, metric
        self.until = until
        self._mlp: Any = None

    def run(
        self, parameters: dict[str, Any], report: Report, told: EpochTold
    ) -> Outcome:
        """Fit and measure; problems of the data or the parameters make it fail."""
        watch = _Watch(self.metric, report, told)
        try:
            return self._run(parameters, watch)
        except PrunedError:
            why = f"below the median of other trials after epoch {watch.epochs}"
            return Outcome(watch.best, watch.epochs, "pruned", why)
        except StopTraining:
            why = "no time for a validated epoch"
            return Outcome(None, watch.epochs, "failed", why, is_cut=True)
        except MissingExtraError:
            raise
        except (GelatoError, MemoryError) as error:
            why = "not enough memory"
            if isinstance(error, GelatoError):
                why = error.problem
            return Outcome(None, watch.epochs or None, "failed", why)

    def _run(self, parameters: dict[str, Any], watch: _Watch) -> Outcome:
        model = make(self.name, **parameters)
        self._fit(model, watch)
        result = evaluate(model, self.split, part="valid")
        value = validation_metric(self.metric)(result.counts)
        if not math.isfinite(value):
            return Outcome(None, watch.epochs or None, "failed", "value not finite")
        training = model.training_ if isinstance(model, Model) else None
        epochs = None if training is None else len(training.history)
        if not watch.is_cut:
            return Outcome(value, epochs, "complete", model=model)
        # The last epoch that was validated: so many epochs give this model again.
        kept = _validated_epochs(training, model.metric)
        model.set_params(epochs=kept)
        why = f"stopped by the clock after {kept} epochs"
        return Outcome(value, kept, "complete", why, is_cut=True, model=model)

    def _fit(self, model: Any, watch: _Watch) -> None:
        if not is_trained(model):
            fitted(model, self.split)
            return
        more: dict[str, Any] = {}
        staged = isinstance(model, MLPAutocovariance)
        if staged:
            # The epochs are those of a first stage, which several trials can share;
            # how it ranks by itself is no reason to prune.
            watch.report = None
            more = {"mlp": self._shared_mlp(model)}
        watch.begin(model, self.until)
        model.fit(self.split, on_step=watch.on_step, on_epoch=watch.on_epoch, **more)
        if staged and not watch.is_cut:
            self._mlp = model.mlp_

    def _shared_mlp(self, model: Any) -> Any:
        """Return the first stage of the trial before, if it is the same."""
        same = self._mlp is not None and all(
            value == self._mlp.get_params()[key]
            for key, value in model.mlp_parameters().items()
        )
        return self._mlp if same else None


class _Watch:
    """The callbacks of a training in a trial."""

    def __init__(self, metric: str, report: Report | None, told: EpochTold) -> None:
        self.metric, self.told = metric, told
        self.report = report
        self.limit: TimeLimit | None = None
        self.epochs, self.last = 0, 0
        self.best: float | None = None
        self.is_cut = False

    def begin(self, model: Any, until: float | None) -> None:
        """Learn how long the training is, and how long it may take."""
        self.last = model.epochs
        if until is not None:
            self.limit = TimeLimit(until, model.batches)

    def on_step(self, epoch: int, batch: int) -> None:
        """Keep to the clock."""
        if self.limit is not None:
            self._limited(self.limit.on_step, epoch, batch)

    def on_epoch(self, entry: dict[str, Any], state: Any) -> None:
        """Report a validation, which may end the trial."""
        self.epochs = entry["epoch"]
        value = entry.get(self.metric)
        if self.report is not None and value is not None and math.isfinite(value):
            self.best = value if self.best is None else max(self.best, value)
            if self.report(self.epochs, value) and self.epochs < self.last:
                raise PrunedError
        self.told(self.epochs, self.last)
        if self.limit is not None and self.epochs < self.last:
            self._limited(self.limit.on_epoch, entry, state)

    def _limited(self, call: Callable[..., None], *given: Any) -> None:
        try:
            call(*given)
        except StopTraining:
            self.is_cut = True
            raise


def is_trained(model: Any) -> bool:
    """Tell whether fitting a model reports epochs."""
    return isinstance(model, Model) and model.trains_by_epoch


def _validated_epochs(training: Any, metric: str) -> int:
    return int(max(entry["epoch"] for entry in training.history if metric in entry))


def blind(split: EdgeSplit) -> EdgeSplit:
    """Return a split whose test edges are gone, from its graph as well.

    Whatever is fitted on it cannot have seen them.
    """
    graph = split.graph.with_edges(split.known("test"))
    return EdgeSplit(graph, split.train, split.valid, split.test[:0], kind="given")


def seat(model: Any, split: EdgeSplit) -> Any:
    """Give a model that was fitted on a blind split the whole one.

    Nothing is learned again; predictions then start from all known edges.
    """
    if isinstance(model, MLPAutocovariance):
        seat(model.mlp_, split)
    if isinstance(model, Model):
        model.graph_, model.split_ = split.graph, split
    return model
