"""Compare models on the same splits, as a tidy table with one row per run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from gelato.comparison.budgets import Budget, Tuned
from gelato.engines import Engine, current_engine, use_engine, use_threads
from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.io import as_graph
from gelato.models.base import Learner, fitted
from gelato.models.registry import make, parameter_names
from gelato.ranking import Evaluation, evaluate
from gelato.ranking.pair_scores import score_pairs
from gelato.ranking.resampling import locate_positives, resampled_precision
from gelato.ranking.scorers import as_scorer
from gelato.splits import EdgeSplit, split_edges

Report = Callable[[str, int, int], None]
METRICS = ("ap", "prec@100%", "hits@100", "mrr", "auc")
RESAMPLED = "ap_resampled"
_TYPES: dict[str, Any] = {
    "seed": pl.Int64,
    RESAMPLED: pl.List(pl.Float64),
    "budget": pl.String,
    "parameters": pl.String,
    "tune_seconds": pl.Float64,
}


@dataclass(frozen=True)
class Contender:
    """What is compared under one name: a model per seed, none of them fitted yet."""

    label: str
    models: Mapping[int | None, Any]


@dataclass(frozen=True)
class Run:
    """One model about to be fitted on one split: run ``place`` (from 0) of ``total``.

    ``part`` is the number of the split, from 0.
    """

    label: str
    seed: int | None
    model: Any
    split: EdgeSplit
    part: int
    place: int
    total: int


if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Comparison(pl.DataFrame):
    """What :func:`gelato.compare` measured: a polars frame with one row per run."""

    def plot(self, *, against: str | None = None) -> Figure:  # type: ignore[override]
        """Draw models with their intervals; see :func:`gelato.plot_comparison`."""
        from gelato.report.figures import plot_comparison

        return plot_comparison(self, against=against)


def compare(
    data: Graph | EdgeSplit | Sequence[EdgeSplit],
    models: Sequence[str | Any] | Mapping[str, Any],
    *,
    seeds: Sequence[int] = (1,),
    splits: int = 1,
    protocols: Sequence[str] = ("all",),
    negatives: Any = None,
    tune_trials: int | None = None,
    tune_seconds: float | None = None,
    threads: int | None = None,
    engine: Engine | str | None = None,
    progress: Report | None = None,
) -> Comparison:
    """Fit and evaluate models on the same splits and return one row per run.

    What the table tells, with confidence intervals and paired differences, is
    :func:`summarise_comparison`.

    Parameters
    ----------
    data : Graph, EdgeSplit or several splits
        A graph is split as the paper does.
    models : sequence of names or models, or mapping
        Models without a seed run once per split, and so do models that are passed as
        objects, with their own parameters. A mapping gives them names.
    seeds : sequence of int
        Seeds of models that have one.
    splits : int
        How many random splits of a graph, with seeds 0, 1, ...
    protocols : sequence of {"all", "sampled", "degree-corrected", "heart", "given"}
        All but the first add numbers of some negatives only, in rows of their own.
    negatives : path, frame or array, optional
        For ``"given"``; see :func:`gelato.evaluate`.
    tune_trials, tune_seconds : optional
        Tune every model that has parameters to choose, on every split, by its
        validation edges and with this budget for each.
    threads : int, optional
        Number of threads (:func:`gelato.use_threads`); does not change the numbers.
    engine : {"local", "ray"} or Engine, optional
        Where runs happen; other than on local threads, one task each, side by side.
        Does not change the numbers.
    progress : callable, optional
        Called with (what runs now, runs done, runs in all).

    Returns
    -------
    polars.DataFrame
        ``model``, ``split``, ``seed``, ``protocol``, ``ap``, ``auc``, ``prec@100%``,
        ``hits@100``, ``mrr``, ``random_ap``, ``train_edges``, ``test_edges``,
        ``fit_seconds``, ``evaluate_seconds``. On a single split also
        ``ap_resampled``: the average precision over test edges drawn again, in the
        same draws for every model. With a budget also ``budget``, ``parameters`` (as
        JSON) and ``tune_seconds``.

    Examples
    --------
    >>> import gelato
    >>> graph = gelato.load_dataset("citeseer")
    >>> table = gelato.compare(graph, ["cn", "aa"], splits=3)
    >>> gelato.summarise_comparison(table)["model"].to_list()
    ['aa', 'cn']
    """
    made = draw_splits(data, splits)
    with use_threads(threads), use_engine(engine):
        rows = measure(
            [*_contenders(models, seeds)],
            made,
            protocols=protocols,
            negatives=negatives,
            budget=Budget.given(tune_trials, tune_seconds),
            progress=progress,
        )
        return Comparison(as_table(list(rows)))


def draw_splits(
    data: Graph | EdgeSplit | Sequence[EdgeSplit], count: int, **shares: float
) -> list[EdgeSplit]:
    """Return splits: those given, or so many random ones of a graph."""
    if count < 1:
        raise UsageError(f"The number of splits is {count}, but must be at least 1.")
    given = [data] if isinstance(data, EdgeSplit) else data
    if not isinstance(given, list | tuple) or not all(
        isinstance(split, EdgeSplit) for split in given
    ):
        graph = as_graph(data)
        return [split_edges(graph, seed=seed, **shares) for seed in range(count)]
    if count > 1:
        raise UsageError(
            f"{count} splits cannot be drawn from splits.",
            hint="Give the graph, or leave out the number of splits.",
        )
    return list(given)


def measure(
    contenders: Sequence[Contender],
    splits: Sequence[EdgeSplit],
    *,
    protocols: Sequence[str] = ("all",),
    negatives: Any = None,
    budget: Budget | None = None,
    fit: Callable[[Run], Any] | None = None,
    tune: Callable[[Run], Tuned] | None = None,
    progress: Report | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a comparison as they are finished, split by split.

    Whoever stops asking has kept what was finished, and on a finished split all models
    can be compared. ``fit`` and ``tune`` stand in for the library's own, to show
    progress; workers of an engine have nobody to show it to.
    """
    total = len(splits) * sum(len(item.models) for item in contenders)
    if not total:
        raise UsageError(
            "There is nothing to compare.", hint="Name at least one model."
        )
    _refuse_fixed(contenders, splits)
    engine = current_engine()
    if engine is not None and engine.name != "local":
        plan = Plan(contenders, splits, protocols, negatives, budget)
        yield from spread(engine, plan, _run_item, progress)
        return
    place = 0
    for part, split in enumerate(splits):
        for item in contenders:
            tuned = None
            for seed, model in item.models.items():
                run = Run(item.label, seed, model, split, part, place, total)
                if progress is not None:
                    progress(run.label, place, total)
                # All seeds share what the first one found: one budget per split.
                if budget is not None and tuned is None:
                    tuned = tune(run) if tune else budget.spend(model, split)
                ranked = (protocols, negatives)
                yield from _rows(run, tuned, fit or _fit, ranked, splits)
                place += 1
    if progress is not None:
        progress("", total, total)


def _refuse_fixed(contenders: Sequence[Contender], splits: Sequence[EdgeSplit]) -> None:
    """Raise where one and the same scores would be measured on several splits.

    Whatever they were made from, they know test edges of all splits but one.
    """
    if len({split.fingerprint for split in splits}) < 2:
        return
    for item in contenders:
        if not all(isinstance(model, Learner) for model in item.models.values()):
            raise UsageError(
                f"{item.label!r} cannot be fitted, so its scores are the same on "
                f"{len(splits)} splits: what is a test edge in one of them was known "
                "in another.",
                hint="Give an object with fit(split) that returns what scores, or "
                "compare on one split: compare(split, ...).",
            )


def _run_item(plan: Plan, item: Item) -> list[dict[str, Any]]:
    """Run seeds of a contender on a split, inside a worker."""
    part, number, seeds = item
    contender, split, tuned = plan.contenders[number], plan.splits[part], None
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        model = contender.models[seed]
        run = Run(contender.label, seed, model, split, part, 0, len(seeds))
        if plan.budget is not None and tuned is None:
            tuned = plan.budget.spend(model, split)
        ranked = (plan.protocols, plan.negatives)
        rows += _rows(run, tuned, _fit, ranked, plan.splits)
    return rows


def as_table(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return rows as a table whose columns have the same types whatever they hold."""
    names = {name for row in rows for name in row}
    types = {name: kind for name, kind in _TYPES.items() if name in names}
    return pl.DataFrame(rows, schema_overrides=types)


def measure_fitted(
    model: Any,
    split: EdgeSplit,
    *,
    protocols: Sequence[str] = ("all",),
    negatives: Any = None,
    fit_seconds: float = 0.0,
    resample: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield what a fitted model reaches on a split, one row per protocol."""
    started = time.perf_counter()
    scorer = as_scorer(model, split.train_graph)
    prepared = time.perf_counter() - started
    for protocol in protocols:
        given = negatives if protocol == "given" else None
        ranked: Any = protocol
        result = evaluate(scorer, split, protocol=ranked, negatives=given)
        row = _measured(result, split)
        row["fit_seconds"] = fit_seconds
        row["evaluate_seconds"] = prepared + result.seconds
        if resample and protocol == "all":
            scores = score_pairs(scorer, split.test, split.graph.num_nodes)
            ranked = locate_positives(result.counts, scores)
            row[RESAMPLED] = resampled_precision(ranked).tolist()
        elif resample:
            row[RESAMPLED] = None
        yield row


def _contenders(
    models: Sequence[str | Any] | Mapping[str, Any], seeds: Sequence[int]
) -> Iterator[Contender]:
    for label, model in _labelled(models).items():
        if not isinstance(model, str):
            yield Contender(label, {None: model})
        elif "seed" in parameter_names(model):
            yield Contender(label, {seed: make(model, seed=seed) for seed in seeds})
        else:
            yield Contender(label, {None: make(model)})


def _labelled(models: Sequence[str | Any] | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return models by name; two under one name could not be told apart later."""
    if isinstance(models, Mapping):
        return models
    named: dict[str, Any] = {}
    for model in models:
        label = model if isinstance(model, str) else repr(model)
        if label in named:
            raise UsageError(
                f"Two of the models are called {label!r}.",
                hint='Give them names: compare(data, {"one": ..., "other": ...}).',
            )
        named[label] = model
    return named


def _rows(
    run: Run,
    tuned: Tuned | None,
    fit: Callable[[Run], Any],
    ranked: tuple[Sequence[str], Any],
    splits: Sequence[EdgeSplit],
) -> Iterator[dict[str, Any]]:
    started = time.perf_counter()
    fitted = fit(run if tuned is None else tuned.applied(run))
    rows = measure_fitted(
        fitted,
        run.split,
        protocols=ranked[0],
        negatives=ranked[1],
        fit_seconds=time.perf_counter() - started,
        resample=len(splits) == 1,
    )
    about = {} if tuned is None else tuned.to_dict()
    for row in rows:
        named = {"model": run.label, "split": row["split"], "seed": run.seed}
        yield named | row | about


def _fit(run: Run) -> Any:
    return fitted(run.model, run.split)


def _measured(result: Evaluation, split: EdgeSplit) -> dict[str, Any]:
    return {
        "split": result.split,
        "protocol": result.protocol,
        "ap": result.ap,
        "auc": result.auc,
        "prec@100%": result.precision_at(1.0),
        "hits@100": result.hits_at(100),
        "mrr": result.mrr,
        "random_ap": result.random_ap,
        "train_edges": len(split.train),
        "test_edges": len(split.test),
    }


Item = tuple[int, int, tuple[int | None, ...]]
"""The number of a split, the number of a contender, and the seeds to run."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What all runs of a comparison share; graphs are sent to each machine once."""

    contenders: Sequence[Contender]
    splits: Sequence[EdgeSplit]
    protocols: Sequence[str]
    negatives: Any
    budget: Budget | None


def spread(
    engine: Engine,
    plan: Plan,
    run_item: Callable[[Plan, Item], list[dict[str, Any]]],
    progress: Callable[[str, int, int], None] | None,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a comparison in the order in which one process would.

    Parameters
    ----------
    engine : Engine
        Where runs happen; models that were passed as objects are fitted there, on
        copies.
    plan : Plan
        What is compared.
    run_item : callable
        Does the runs of an item and returns their rows.
    progress : callable, optional
        Called with (what was finished, runs done, runs in all).
    """
    items = list(_items(plan))
    done, total = 0, sum(len(seeds) for _, _, seeds in items)
    for item, rows in zip(items, engine.map(run_item, plan, items), strict=True):
        yield from rows
        done += len(item[2])
        if progress is not None:
            progress(plan.contenders[item[1]].label, done, total)


def _items(plan: Plan) -> Iterator[Item]:
    for part in range(len(plan.splits)):
        for number, contender in enumerate(plan.contenders):
            seeds = tuple(contender.models)
            # All seeds share what tuning found on a split: one task for all of them.
            if plan.budget is not None:
                yield part, number, seeds
            else:
                yield from ((part, number, (seed,)) for seed in seeds)
