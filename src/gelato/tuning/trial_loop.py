"""The trials of one call: what comes next, when it ends, what it gave."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Literal, NoReturn

from gelato.engines import use_threads
from gelato.errors import GelatoError
from gelato.ranking.evaluate import candidates_of, check_positives
from gelato.splits import EdgeSplit, as_split
from gelato.tuning.plan import Plan, check_budget, make_plan
from gelato.tuning.result import (
    TrialRecord,
    Tuned,
    TuningInterrupted,
    best_of,
    point,
    table_of,
)
from gelato.tuning.searches import Parameters
from gelato.tuning.spaces import SearchName
from gelato.tuning.study import LiveTrial, Study, open_study, require_optuna
from gelato.tuning.trial import Outcome, TrialRunner, blind, seat

Progress = Callable[[str, float, float], None]


class TrialLoop:
    """Runs trials until the search or the budget ends.

    Parameters
    ----------
    plan : Plan
        What is searched, and how.
    study : Study
        Where trials are kept.
    split : EdgeSplit
        Without test edges.
    trials, seconds, progress
        See :func:`gelato.tune`.
    """

    def __init__(
        self,
        plan: Plan,
        study: Study,
        split: EdgeSplit,
        trials: int | None,
        seconds: float | None,
        progress: Progress | None,
    ) -> None:
        self.started = monotonic()
        self.plan, self.study, self.seconds = plan, study, seconds
        self.limit = plan.trials(trials, seconds)
        self.search, self.progress = plan.searching(), progress
        self.records = study.records()
        until = None if seconds is None else self.started + seconds
        self.runner = TrialRunner(plan.name, split, plan.metric, until=until)
        self.model: Any = None
        self.model_of: int | None = None
        self.cut: int | None = None  # the trial that the clock ended

    def run(self) -> None:
        """Run trials until the search or the budget ends."""
        while not self._is_over():
            proposal = self.search.next(self.records)
            if proposal is None:
                break
            if self._try(proposal):
                break
        self._tell("", len(self.records))

    def result(self, split: EdgeSplit) -> Tuned | None:
        """Return what was found; None where no trial is complete."""
        best = best_of(self.records)
        if best is None:
            return None
        parameters = self.plan.fixed | best.parameters
        if best.number == self.cut:
            parameters |= {"epochs": best.epochs}
        return Tuned(
            name=self.plan.name,
            parameters=parameters,
            best=best,
            trials=table_of(self.records, list(self.plan.space)),
            records=list(self.records),
            search=self.plan.search,
            metric=self.plan.metric,
            seed=self.plan.seed,
            seconds=monotonic() - self.started,
            _split=split,
            _kept=(
                {"model": seat(self.model, split)}
                if self.model_of == best.number
                else {}
            ),
        )

    def _try(self, proposal: Parameters | Literal["drawn"]) -> bool:
        """Run one trial; tell whether the clock ended it."""
        number, began = len(self.records), monotonic()
        live = self.study.ask(proposal, number)
        try:
            self._tell(_label(live.parameters), number)
            outcome = self._repeated(live) or self._run(live, number)
        except BaseException:
            self.study.forget(live)
            raise
        record = TrialRecord(
            number,
            live.parameters,
            outcome.value,
            outcome.epochs,
            monotonic() - began,
            outcome.state,
            outcome.reason,
        )
        if outcome.is_cut:
            self.cut = number
            self.study.forget(live)
        else:
            self.study.finish(live, record)
        if outcome.value is not None or not outcome.is_cut:
            self.records.append(record)
        if best_of(self.records) is record and outcome.model is not None:
            self.model, self.model_of = outcome.model, number
        return outcome.is_cut

    def _run(self, live: LiveTrial, number: int) -> Outcome:
        label = _label(live.parameters)

        def told(epoch: int, epochs: int) -> None:
            share = epoch / epochs if epochs else 0.0
            self._tell(f"{label}: epoch {epoch}", number + min(share, 1.0))

        return self.runner.run(self.plan.fixed | live.parameters, live.report, told)

    def _repeated(self, live: LiveTrial) -> Outcome | None:
        """Return the outcome of an earlier trial with the same parameters."""
        for earlier in self.records:
            if point(earlier.parameters) == point(live.parameters):
                why = f"as trial {earlier.number}"
                return Outcome(earlier.value, earlier.epochs, earlier.state, why)
        return None

    def _is_over(self) -> bool:
        if self.limit is not None and len(self.records) >= self.limit:
            return True
        return self.seconds is not None and self._elapsed() >= self.seconds

    def _elapsed(self) -> float:
        return monotonic() - self.started

    def _tell(self, what: str, done: float) -> None:
        if self.progress is None:
            return
        total: float | None = self.limit or self.search.expected()
        if self.limit is None and total is not None:
            total = max(total, len(self.records) + bool(what))
        if total is None:  # only the clock ends an endless search
            total = self.seconds or 0.0
            done = min(self._elapsed(), total)
        self.progress(what, done, total)


def _label(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in parameters.items())


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def tune(
    name: str,
    split: EdgeSplit,
    *,
    search: SearchName = "line",
    trials: int | None = None,
    seconds: float | None = None,
    metric: str = "prec@100%",
    seed: int = 0,
    study: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    space: Mapping[str, Any] | None = None,
    prune: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Search for the parameters of a model that rank the validation edges best.

    Only training and validation edges are used: trials get a graph without the test
    edges. A trial of a model that learns nothing is one exact ranking; a training is
    also reported whenever it ranks all pairs, and ended if it is below the median of
    earlier trials at that epoch. Every trial counts, pruned and failed ones too, so
    that the same budget means the same for all models.

    Parameters
    ----------
    name : str
        A registered model.
    split : EdgeSplit
        Its training edges are learned from, its validation edges ranked among all
        pairs; its test edges are not looked at.
    search : {"line", "grid", "free"}
        One parameter at a time, the others at their best so far, until a round changes
        nothing; every combination, in an order drawn by seed (for Gelato the grid of
        the paper); or Optuna's sampler (TPE), which learns from earlier trials.
    trials : int, optional
        Most trials, those of earlier runs included. Default: until the search
        ends; a free search without any budget makes 20.
    seconds : float, optional
        Time of this run. A training that it ends counts with the epochs it had,
        and is run again if the study goes on.
    metric : str
        What is maximised, over all pairs: "prec@100%" as in the paper, "ap", "auc",
        "mrr", "prec@50%", "hits@100", ...
    seed : int
        Seed of the model, of the order of a grid and of drawn values. The same seed
        gives the same trials, in one run or several.
    study : path, optional
        File that keeps every trial. If it exists, the search goes on from there; a
        study of another graph, split, model, space or seed is refused, and so is one
        that another process is working on.
    parameters : mapping, optional
        Parameters that are fixed.
    space : mapping, optional
        Values to try by parameter, in place of the model's own, for example
        ``{"t": (2, 3, 4)}``; see also :class:`gelato.tuning.Dimension`.
    prune : bool
        Whether trainings may be ended early.
    threads : int, optional
        Number of threads (:func:`gelato.use_threads`); does not change the result.
    progress : callable, optional
        Told (what is tried, done, in all), in trials, or in seconds where only the
        time is limited.

    Raises
    ------
    GelatoError
        If no trial could be completed.
    TuningInterrupted
        On Ctrl-C, with what the finished trials gave.

    Examples
    --------
    >>> from gelato import load_dataset, split_edges, tune
    >>> split = split_edges(load_dataset("citeseer"))
    >>> tune("ac", split, search="grid").best.parameters  # doctest: +SKIP
    {'t': 3, 'self_loops': 'isolated'}
    """
    split = as_split(split)
    require_optuna()
    plan = make_plan(
        name,
        search=search,
        metric=metric,
        seed=seed,
        parameters=parameters,
        space=space,
    )
    return run_plan(
        plan,
        split,
        trials=trials,
        seconds=seconds,
        study=study,
        prune=prune,
        threads=threads,
        progress=progress,
    )


def run_plan(
    plan: Plan,
    split: EdgeSplit,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    study: str | os.PathLike[str] | None = None,
    prune: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Run the trials of a plan; see :func:`tune` for the arguments."""
    check_budget(trials, seconds)
    seen = blind(split)
    check_positives(seen, "valid", candidates_of(seen, "valid"))
    with open_study(
        study,
        plan.identity(seen, prune=prune),
        plan.space,
        search=plan.search,
        seed=plan.seed,
        warmup=plan.warmup(),
        prune=prune,
    ) as opened:
        loop = TrialLoop(plan, opened, seen, trials, seconds, progress)
        try:
            with use_threads(threads):
                loop.run()
        except KeyboardInterrupt as stop:
            raise TuningInterrupted(loop.result(split)) from stop
    found = loop.result(split)
    if found is None:
        _refuse_result(loop.records)
    return found


def _refuse_result(records: list[TrialRecord]) -> NoReturn:
    failed = [record for record in records if record.state == "failed"]
    if failed:
        raise GelatoError(
            f"No trial could be completed; the first: {failed[0].reason}",
            hint="Fit the model once by itself: gelato fit.",
        )
    raise GelatoError(
        "The time was up before the first trial was complete.",
        hint="Allow more time, or train for fewer epochs.",
    )
