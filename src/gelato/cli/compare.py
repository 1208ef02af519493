"""``gelato compare``: several models on the same splits."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gelato import text
from gelato.cli.console import Console, make_table
from gelato.cli.evaluate import NEGATIVES, PROTOCOL, protocols_of
from gelato.cli.forecasts import (
    RANKING_KERNELS,
    forecast_model,
    give_forecasts,
    is_heuristic,
    tell_compilation,
    tell_long_run,
)
from gelato.cli.inputs import LoadedGraph, load_split, require_positives
from gelato.cli.options import (
    OUTPUT,
    DataOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SideOptions,
    SplitOptions,
    option,
)
from gelato.cli.outputs import TABLE_SUFFIXES, check_output_file
from gelato.cli.progress import Interrupted, fit_model, is_trained
from gelato.cli.rankings import comparison_table, order_table, tell_biases
from gelato.cli.run_folders import load_run_model
from gelato.cli.settings import make_model, whole_numbers
from gelato.errors import GelatoError, UsageError

if TYPE_CHECKING:
    from gelato.comparison.budgets import Budget, Tuned
    from gelato.comparison.runs import Contender, Report, Run
    from gelato.splits import EdgeSplit


@dataclass(frozen=True)
class KeepOptions:
    """Where results go besides the console."""

    panel: ClassVar[str] = OUTPUT
    table: Path | None = option(
        "--output -o FILE",
        "Write one row per run: .csv, .tsv, .parquet, .json or .jsonl; with .tex and "
        ".md the ranking, as --table does.",
    )
    paper: Path | None = option(
        "--table FILE", "Write the ranking with its intervals: .tex, .md or .csv."
    )
    plot: Path | None = option(
        "--plot FILE", "Draw models with their intervals: .svg or .png."
    )
    orders: Path | None = option(
        "--plot-orders FILE",
        "Draw how the order of models changes with the protocol: .svg or .png.",
    )


@dataclass(frozen=True)
class BudgetOptions:
    """How much tuning every model gets."""

    panel: ClassVar[str] = "Equal tuning budgets"
    tune_trials: int | None = option(
        "--tune-trials N",
        "Tune every model that has parameters with N trials, on each split, "
        "by its validation edges.",
    )
    tune_time: float | None = option(
        "--tune-time SECONDS",
        "The same with a time for each; with both, what ends first.",
    )


def compare(
    data: DataOptions,
    split: SplitOptions,
    sides: SideOptions,
    run: RunOptions,
    output: OutputOptions,
    keep: KeepOptions,
    spend: BudgetOptions,
    models: str = option(
        "--models -m NAMES",
        "Separated by commas: names, LABEL=NAME (for one model with other parameters), "
        "run folders (their model, fitted again).",
        "cn,aa,ra,ac",
    ),
    splits: int = option("--splits N", "Random splits, with seeds 0 to N - 1.", 1),
    seeds: str = option("--seeds NUMBERS", "Seeds of models that have one.", "1"),
    preset: str | None = option("--preset NAME", "Parameters of gelato in the paper."),
    settings: list[str] | None = option(
        "--set -s LABEL.NAME=VALUE",
        "A parameter of a model, for example gelato.epochs=50. May be repeated.",
    ),
    against: str | None = option(
        "--against NAME", "The model that differences are taken to (the best)."
    ),
    protocol: str = PROTOCOL,
    negatives: Path | None = NEGATIVES,
) -> None:
    """Compare models: the same splits, every non-edge, best first."""
    from gelato.comparison.budgets import Budget

    console = Console(output)
    protocols = protocols_of(protocol, negatives)
    names, seed_list = model_list(models), whole_numbers(seeds, "--seeds")
    budget = Budget.given(spend.tune_trials, spend.tune_time)
    contenders = make_contenders(names, seed_list, preset, settings)
    check_output_file(keep.table, (*TABLE_SUFFIXES, ".tex", ".md"))
    check_output_file(keep.paper, (".tex", ".md", ".csv"))
    check_output_file(keep.plot, (".svg", ".png"))
    check_output_file(keep.orders, (".svg", ".png"))
    check_reference(against, names)
    windows = [] if split.cutoff is None else split.cutoff.split(",")
    if windows:
        split = replace(split, cutoff=windows[-1].strip())
    loaded, first = load_split(data, split, console, sides)
    console.note(*loaded.graph.notes)
    require_positives(first, "test")
    if budget is not None:
        require_positives(first, "valid")
    made = splits_of(first, splits, split)
    if len(windows) > 1:
        made = windows_of(first, windows, split)
    tell_compilation(console, RANKING_KERNELS)
    if run.dry_run:
        _forecast(console, names, first)
        return
    for name in filter(is_heuristic, dict.fromkeys(one.model for one in names)):
        _tell_long(console, name, first, len(made))
    job = Comparing(console, contenders, made, protocols, budget, negatives)
    job.tell_budget()
    job.run()
    finish(console, job, loaded, keep, against)
    job.end()


@dataclass(frozen=True)
class Named:
    """A model of a comparison: what it is called, and what it starts from."""

    label: str
    model: str
    parameters: dict[str, Any]


def model_list(given: str) -> list[Named]:
    """Return the models that an option names; unknown ones are refused.

    ``NAME``; ``LABEL=NAME``, so that one model can come twice with other parameters;
    or a run folder, for its model with its parameters, fitted again.
    """
    from gelato.models.registry import model_class

    named: dict[str, Named] = {}
    for entry in dict.fromkeys(part.strip() for part in given.split(",")):
        label, equals, name = (part.strip() for part in entry.partition("="))
        if not equals:
            label = name = entry
        one = Named(label, name, {})
        if Path(name).is_dir():
            stored = load_run_model(Path(name))
            here = Path(name).resolve().name if not equals else label
            one = Named(here, stored.name, stored.get_params())
        model_class(one.model)  # unknown names are refused before anything is read
        if one.label in named:
            raise UsageError(
                f"Two of the models are called {one.label}.",
                hint="Give them names of their own: --models one=NAME,other=NAME",
            )
        named[one.label] = one
    return list(named.values())


def check_reference(against: str | None, named: list[Named]) -> None:
    """Raise unless the model to compare with is compared."""
    names = [one.label for one in named]
    if against is not None and against not in names:
        raise UsageError(
            f"--against {against} is not one of the models compared.",
            hint=f"They are: {', '.join(names)}.",
        )


def splits_of(first: EdgeSplit, count: int, options: SplitOptions) -> list[EdgeSplit]:
    """Return a split, and others drawn at random if several are asked for."""
    from gelato.splits import split_edges

    if count < 1:
        raise UsageError(f"--splits is {count}, but must be at least 1.")
    if count == 1:
        return [first]
    if first.kind != "random" or options.split_file or options.split_seed is not None:
        raise UsageError(
            "--splits draws random splits of its own, with seeds from 0.",
            hint="Leave out --splits, or the option that chooses one split.",
        )
    given = {"valid": options.valid, "test": options.test}
    shares = {name: share for name, share in given.items() if share is not None}
    drawn = (split_edges(first.graph, seed=k, **shares) for k in range(1, count))
    return [first, *drawn]


def windows_of(
    last: EdgeSplit, cutoffs: list[str], options: SplitOptions
) -> list[EdgeSplit]:
    """Return one temporal split per cut-off, each up to the next one."""
    from gelato.splits import split_rolling

    shares = {} if options.valid is None else {"valid": options.valid}
    return split_rolling(last.graph, [one.strip() for one in cutoffs], **shares)


def make_contenders(
    named: list[Named], seeds: list[int], preset: str | None, settings: list[str] | None
) -> list[Contender]:
    """Return the models to fit, by label and seed; wrong settings are refused here."""
    from gelato.comparison.runs import Contender
    from gelato.models.registry import make, parameter_names

    own: dict[str, list[str]] = {one.label: [] for one in named}
    for item in settings or ():
        label, dot, rest = item.partition(".")
        if not dot or label not in own:
            raise UsageError(
                f"--set {item} does not name one of the models compared.",
                hint=f"For example: --set {named[-1].label}.NAME=VALUE",
            )
        own[label].append(rest)
    if preset is not None and all(one.model != "gelato" for one in named):
        raise UsageError(
            "--preset holds parameters of gelato, which is not compared.",
            hint="Leave it out, or add gelato to --models.",
        )
    made = []
    for one in named:
        seeded = "seed" in parameter_names(one.model)
        chosen = preset if one.model == "gelato" else None
        given = own[one.label]
        models = {}
        for seed in seeds if seeded else [None]:
            options = ModelOptions(one.model, preset=chosen, settings=given, seed=seed)
            model = make_model(one.model, options)
            if one.parameters:
                asked = {item.partition("=")[0].strip() for item in given} | {"seed"}
                kept = {k: v for k, v in one.parameters.items() if k not in asked}
                model = make(one.model, **(model.get_params() | kept))
            models[seed] = model
        made.append(Contender(one.label, models))
    return made


def _tell_long(console: Console, name: str, split: EdgeSplit, runs: int) -> None:
    from gelato.ranking.evaluate import candidates_of

    tell_long_run(
        console,
        _fitted(name, split),
        split.train_graph,
        candidates_of(split, "test"),
        runs=runs,
        positives=len(split.test),
    )


def _fitted(name: str, split: EdgeSplit) -> Any:
    from gelato.models.registry import make

    return make(name).fit(split)


def _forecast(console: Console, named: list[Named], split: EdgeSplit) -> None:
    from gelato.ranking.evaluate import candidates_of

    rule = candidates_of(split, "test")
    coming = {
        one.label: forecast_model(
            one.model,
            partial(_fitted, one.model, split),
            split.train_graph,
            candidates=rule,
            positives=len(split.test),
        )
        for one in named
    }
    give_forecasts(console, coming)


class Comparing:
    """Models on splits, and the rows that are finished.

    Parameters
    ----------
    console : Console
        Where progress is shown.
    contenders : list of Contender
        What is compared.
    splits : list of EdgeSplit
        On what.
    protocols : tuple of str
        How it is measured.
    budget : Budget, optional
        What every model may spend on tuning.
    negatives : Path, optional
        Those of the protocol given.
    """

    def __init__(
        self,
        console: Console,
        contenders: list[Contender],
        splits: list[EdgeSplit],
        protocols: tuple[str, ...],
        budget: Budget | None,
        negatives: Path | None = None,
    ) -> None:
        self.console, self.contenders, self.splits = console, contenders, splits
        self.protocols, self.budget, self.negatives = protocols, budget, negatives
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
                with self.console.progress("comparing") as bar:
                    self._measure(lambda _, done, total: bar(done, total))
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

    def _measure(self, progress: Report | None) -> None:
        from gelato.comparison.runs import measure

        for row in measure(
            self.contenders,
            self.splits,
            protocols=self.protocols,
            negatives=self.negatives,
            budget=self.budget,
            fit=self._fit,
            tune=self._tune,
            progress=progress,
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
        return fit_model(self.console, run.label, run.model, run.split)

    def _tell(self, run: Run, what: str) -> None:
        """Say what begins, where there is more than one thing to wait for."""
        if run.total == 1:
            return
        seed = "" if run.seed is None else f", seed {run.seed}"
        parts = len(self.splits)
        split = "" if parts == 1 else f", split {run.part + 1} of {parts}"
        place = f"run {run.place + 1} of {run.total}"
        self.console.line(f"{place}: {what} {run.label}{seed}{split}")

    def _tune(self, run: Run) -> Tuned:
        from gelato.comparison.budgets import is_tunable

        assert self.budget is not None
        if is_tunable(run.model):
            self._tell(run, "tuning")
        with self.console.progress(f"tuning {run.label}") as bar:
            return self.budget.spend(
                run.model, run.split, lambda _, done, total: bar(int(done), int(total))
            )

    def tell_budget(self) -> None:
        """Say what tuning will cost, before it begins."""
        from gelato.comparison.budgets import is_tunable

        if self.budget is None:
            return
        first = [next(iter(item.models.values())) for item in self.contenders]
        studies = len(self.splits) * sum(map(is_tunable, first))
        told = f"{self.budget} for each of {text.plural(studies, 'tuning')}"
        if self.budget.seconds is not None:
            spent = text.duration(studies * self.budget.seconds)
            told += f": up to {spent}, and what is measured afterwards"
        self.console.note(f"{told}.")

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
                chosen = ", ".join(
                    f"{key} {text.parameter(x)}" for key, x in found.items()
                )
            spent = text.duration(row["tune_seconds"])
            number = str(parts[row["split"]])
            lines[row["model"], number] = (row["model"], number, spent, chosen)
        table = make_table("tuned", "split", "time", "chosen", rows=lines.values())
        table.columns[-1].justify = "left"
        self.console.show(f"\nBudget of each model and split: {self.budget}.\n", table)


def finish(
    console: Console,
    job: Comparing,
    loaded: LoadedGraph,
    keep: KeepOptions,
    against: str | None,
) -> None:
    """Show and keep what was measured, be it all or what an interruption left."""
    from gelato.comparison.orders import protocol_orders
    from gelato.comparison.summary import (
        advice,
        covered,
        rank_models,
        told_apart,
        unadjusted,
    )

    ranking = rank_models(job.rows, against=against)
    first = job.splits[0]
    by_time = first.kind == "temporal"
    title = (
        f"{loaded.name}: {text.plural(len(first.test), 'test edge')} among "
        f"{text.count(first.num_candidates('test'))} candidate pairs"
    )
    fair = [entry for entry in ranking if not entry["biased"]]
    verdicts = told_apart(fair, text.shortened)
    table = comparison_table(ranking)
    if not console.fits(table):
        table = comparison_table(ranking, narrow=True)
    console.show(f"{title}{_runs_text(ranking, by_time=by_time)}\n", table)
    if fair:
        said = [*verdicts, covered(fair, by_time=by_time), unadjusted(fair)]
        if first.kind == "random":  # others are what they are
            said.append(advice(fair))
        console.show("", *filter(None, said))
    tell_biases(console, job.protocols)
    orders = protocol_orders(ranking)
    if len(orders["protocols"]) > 1 and len(orders["models"]) > 1:
        console.show("", order_table(orders))
    job.show_tuned()
    _keep(console, job, ranking, keep, loaded.name)
    covers = covered(fair, by_time=by_time) if fair else ""
    told = {"covers": covers, "verdicts": verdicts, "orders": orders}
    console.give(_document(job, loaded, told | {"against": against}, ranking))


def _runs_text(ranking: list[dict[str, Any]], *, by_time: bool) -> str:
    counts = {
        "windows of time" if by_time else "splits": max(
            entry["splits"] for entry in ranking
        ),
        "seeds": max(entry["seeds"] for entry in ranking),
    }
    several = [f"{number} {noun}" for noun, number in counts.items() if number > 1]
    return f", mean over {' and '.join(several)}" if several else ""


def _document(
    job: Comparing,
    loaded: LoadedGraph,
    told: dict[str, Any],
    ranking: list[dict[str, Any]],
) -> dict[str, Any]:
    from gelato.comparison.paired import CONFIDENCE

    return {
        "data": loaded.to_dict(),
        "splits": [item.to_dict() for item in job.splits],
        "budget": None if job.budget is None else str(job.budget),
        "complete": job.stopped is None,
        "confidence": CONFIDENCE,
        **told,
        "ranking": ranking,
        "runs": job.rows,
    }


def _keep(
    console: Console,
    job: Comparing,
    ranking: list[dict[str, Any]],
    keep: KeepOptions,
    name: str,
) -> None:
    for file in filter(None, (keep.table, keep.paper)):
        if file is keep.paper or file.suffix.lower() in (".tex", ".md"):
            from gelato.report.paper_tables import write_ranking

            write_ranking(ranking, file)
            console.line(f"wrote the ranking to {file}")
        else:
            job.write(file)
            console.line(f"wrote {text.plural(len(job.rows), 'row')} to {file}")
    if keep.plot is not None:
        from gelato.drawing import write_figure
        from gelato.report.figures import draw_intervals

        write_figure(
            draw_intervals(
                ranking, f"{text.shortened(name)}, 95 % confidence intervals"
            ),
            keep.plot,
        )
        console.line(f"drew {keep.plot}")
    if keep.orders is not None:
        from gelato.comparison.orders import protocol_orders
        from gelato.drawing import write_figure
        from gelato.report.figures import draw_orders

        write_figure(draw_orders(protocol_orders(ranking), name), keep.orders)
        console.line(f"drew {keep.orders}")
