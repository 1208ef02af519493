"""The trials of one call: what comes next, when it ends, what it gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Literal

from gelato.splits import EdgeSplit
from gelato.tuning.plan import Plan
from gelato.tuning.records import TrialRecord, best_of, point, table_of
from gelato.tuning.result import Tuned
from gelato.tuning.searches import Parameters
from gelato.tuning.study import LiveTrial, Study
from gelato.tuning.trial import Outcome, TrialRunner, seat

Progress = Callable[[str, float, float], None]


class Sitting:
    """Runs trials until the search or the budget ends.

    Parameters
    ----------
    plan : Plan
        What is searched, and how.
    study : Study
        Where trials are kept.
    split : EdgeSplit
        Without test edges.
    trials, seconds, threads, progress
        See :func:`gelato.tune`.
    """

    def __init__(
        self,
        plan: Plan,
        study: Study,
        split: EdgeSplit,
        trials: int | None,
        seconds: float | None,
        threads: int | None,
        progress: Progress | None,
    ) -> None:
        self.started = monotonic()
        self.plan, self.study, self.seconds = plan, study, seconds
        self.limit = plan.trials(trials, seconds)
        self.search, self.progress = plan.searching(), progress
        self.records = study.records()
        until = None if seconds is None else self.started + seconds
        self.runner = TrialRunner(
            plan.name, split, plan.metric, threads=threads, until=until
        )
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
