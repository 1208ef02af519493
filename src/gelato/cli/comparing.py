"""The runs of a comparison, one after another; an interruption keeps the finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.screen import Screen, make_table
from gelato.cli.training import Interrupted, fit_model, is_trained
from gelato.errors import GelatoError

if TYPE_CHECKING:
    from gelato.comparison.budgets import Budget, Tuned
    from gelato.comparison.runs import Contender, Run
    from gelato.splits import EdgeSplit


class Comparing:
    """Models on splits, and the rows that are finished.

    Parameters
    ----------
    screen : Screen
        Where progress is shown.
    contenders : list of Contender
        What is compared.
    splits : list of EdgeSplit
        On what.
    protocols : tuple of str
        How it is measured.
    budget : Budget, optional
        What every model may spend on tuning.
    threads : int, optional
        Number of threads.
    """

    def __init__(
        self,
        screen: Screen,
        contenders: list[Contender],
        splits: list[EdgeSplit],
        protocols: tuple[str, ...],
        budget: Budget | None,
        threads: int | None,
    ) -> None:
        self.screen, self.contenders, self.splits = screen, contenders, splits
        self.protocols, self.budget, self.threads = protocols, budget, threads
        self.rows: list[dict[str, Any]] = []
        self.stopped: BaseException | None = None

    @property
    def total(self) -> int:
        """Runs in all."""
        return len(self.splits) * sum(len(item.models) for item in self.contenders)

    @property
    def finished(self) -> str:
        """How many of the runs came to their end, in words."""
        return f"{len(self.rows) // len(self.protocols)} of {self.total}"

    def run(self) -> None:
        """Measure until all is done, or something stops it.

        Once a run is finished, Ctrl-C and failures are kept in ``stopped``: what was
        finished is shown first.
        """
        from gelato.engines import current_engine

        models = [model for item in self.contenders for model in item.models.values()]
        # A training has a bar of its own, and two of them would fight for the terminal;
        # those of an engine's workers have none.
        lone = self.budget is None and not any(map(is_trained, models))
        lone = lone or current_engine() is not None
        try:
            if lone:
                with self.screen.progress("comparing") as bar:
                    self._measure(bar)
            else:
                self._measure(None)
        except (KeyboardInterrupt, GelatoError) as stop:
            # A run with one of two protocols is no finished one.
            del self.rows[len(self.rows) // len(self.protocols) * len(self.protocols) :]
            if not self.rows:
                raise
            self.stopped = stop

    def end(self) -> None:
        """Raise what stopped the runs, if anything did."""
        if isinstance(self.stopped, KeyboardInterrupt):
            raise Interrupted(f"Shown above: {self.finished} runs that were finished.")
        if self.stopped is not None:
            raise self.stopped

    def _measure(self, bar: Any) -> None:
        from gelato.comparison.runs import measure

        for row in measure(
            self.contenders,
            self.splits,
            protocols=self.protocols,
            budget=self.budget,
            threads=self.threads,
            fit=self._fit,
            tune=self._tune,
            progress=None if bar is None else lambda _, done, total: bar(done, total),
        ):
            self.rows.append(row)

    def write(self, path: Path) -> None:
        """Write the rows; in text files without the resampled numbers, too many."""
        from gelato.comparison.runs import RESAMPLED, as_table
        from gelato.io import write_table

        table = as_table(self.rows)
        if path.suffix.lower() in (".csv", ".tsv"):
            table = table.drop(RESAMPLED, strict=False)
        write_table(table, path)

    def _fit(self, run: Run) -> Any:
        if is_trained(run.model):
            self._tell(run, "training")
        return fit_model(self.screen, run.label, run.model, run.split)

    def _tell(self, run: Run, what: str) -> None:
        """Say what begins, where there is more than one thing to wait for."""
        if run.total == 1:
            return
        seed = "" if run.seed is None else f", seed {run.seed}"
        parts = len(self.splits)
        split = "" if parts == 1 else f", split {run.part + 1} of {parts}"
        place = f"run {run.place + 1} of {run.total}"
        self.screen.line(f"{place}: {what} {run.label}{seed}{split}")

    def _tune(self, run: Run) -> Tuned:
        from gelato.comparison.budgets import is_tunable

        assert self.budget is not None
        if is_tunable(run.model):
            self._tell(run, "tuning")
        with self.screen.progress(f"tuning {run.label}") as bar:
            told = None if bar is None else lambda _, done, total: bar(done, total)
            return self.budget.spend(run.model, run.split, self.threads, told)

    def tell_budget(self) -> None:
        """Say what tuning will cost, before it begins."""
        from gelato.comparison.budgets import is_tunable

        if self.budget is None:
            return
        first = [next(iter(item.models.values())) for item in self.contenders]
        studies = len(self.splits) * sum(map(is_tunable, first))
        text = f"{self.budget} for each of {numbers.plural(studies, 'tuning')}"
        if self.budget.seconds is not None:
            spent = numbers.duration(studies * self.budget.seconds)
            text += f": up to {spent}, and what is measured afterwards"
        self.screen.note(f"{text}.")

    def show_tuned(self) -> None:
        """Show what the budget of each model chose, split by split."""
        if self.budget is None:
            return
        parts = {split.fingerprint: k for k, split in enumerate(self.splits, start=1)}
        lines: dict[tuple[str, str], tuple[str, ...]] = {}
        for row in self.rows:
            chosen = "nothing to choose"
            if row["parameters"] is not None:
                found = json.loads(row["parameters"])
                chosen = ", ".join(f"{key} {_short(x)}" for key, x in found.items())
            spent = numbers.duration(row["tune_seconds"])
            number = str(parts[row["split"]])
            lines[row["model"], number] = (row["model"], number, spent, chosen)
        table = make_table("tuned", "split", "time", "chosen", rows=lines.values())
        table.columns[-1].justify = "left"
        self.screen.show(f"\nBudget of each model and split: {self.budget}.\n", table)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
