"""Compare models on the same splits, as a tidy table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.models.registry import make, model_class, parameter_names
from gelato.ranking import Evaluation, evaluate
from gelato.splits import EdgeSplit, split_edges

Report = Callable[[str, int, int], None]


def compare(
    data: Graph | EdgeSplit | Sequence[EdgeSplit],
    models: Sequence[str | Any],
    *,
    seeds: Sequence[int] = (1,),
    protocols: Sequence[str] = ("all",),
    threads: int | None = None,
    progress: Report | None = None,
) -> pl.DataFrame:
    """Fit and evaluate models on the same splits and return one row per run.

    Parameters
    ----------
    data : Graph, EdgeSplit or several splits
        A graph is split as the paper does.
    models : sequence of names or models
        Models without a seed run once per split.
    seeds : sequence of int
        Seeds of models that have one.
    protocols : sequence of {"all", "sampled"}
        ``"sampled"`` adds the biased numbers, in rows of their own.
    threads : int, optional
        Number of threads.
    progress : callable, optional
        Called with (what runs now, runs done, runs in all).

    Returns
    -------
    polars.DataFrame
        ``model``, ``split``, ``seed``, ``protocol``, ``ap``, ``auc``, ``prec@100%``,
        ``hits@100``, ``mrr``, ``random_ap``, ``fit_seconds``, ``evaluate_seconds``.
    """
    splits = _splits(data)
    runs = [
        (split, name, seed)
        for split in splits
        for name in models
        for seed in (seeds if _takes_seed(name) else (None,))
    ]
    if not runs:
        raise UsageError(
            "There is nothing to compare.", hint="Name at least one model."
        )
    rows: list[dict[str, Any]] = []
    for done, (split, model, seed) in enumerate(runs):
        label = model if isinstance(model, str) else repr(model)
        if progress is not None:
            progress(label, done, len(runs))
        started = time.perf_counter()
        fitted = _fitted(model, split, seed)
        fit_seconds = time.perf_counter() - started
        for protocol in protocols:
            result = evaluate(fitted, split, protocol=protocol, threads=threads)  # type: ignore[arg-type]
            rows.append(_row(label, seed, result, fit_seconds))
    if progress is not None:
        progress("", len(runs), len(runs))
    return pl.DataFrame(rows, schema_overrides={"seed": pl.Int64})


def _splits(data: Graph | EdgeSplit | Sequence[EdgeSplit]) -> list[EdgeSplit]:
    if isinstance(data, Graph):
        return [split_edges(data)]
    return [data] if isinstance(data, EdgeSplit) else list(data)


def _takes_seed(model: str | Any) -> bool:
    return isinstance(model, str) and "seed" in parameter_names(model_class(model))


def _fitted(model: str | Any, split: EdgeSplit, seed: int | None) -> Any:
    if isinstance(model, str):
        model = make(model) if seed is None else make(model, seed=seed)
    return model.fit(split) if hasattr(model, "fit") else model


def _row(
    label: str, seed: int | None, result: Evaluation, fit_seconds: float
) -> dict[str, Any]:
    return {
        "model": label,
        "split": result.split,
        "seed": seed,
        "protocol": result.protocol,
        "ap": result.ap,
        "auc": result.auc,
        "prec@100%": result.precision_at(1.0),
        "hits@100": result.hits_at(100),
        "mrr": result.mrr,
        "random_ap": result.random_ap,
        "fit_seconds": fit_seconds,
        "evaluate_seconds": result.seconds,
    }
