"""Fit a model for good: train or choose it, measure it, keep it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato.cli import numbers
from gelato.cli.rankings import ESTIMATE, random_hits, random_mrr
from gelato.cli.run_folders import CHECKPOINT, clear_journals, has_checkpoint
from gelato.cli.screen import Screen, make_table
from gelato.cli.training import Interrupted, fit_model, training_facts

if TYPE_CHECKING:
    from gelato.splits import EdgeSplit

_PARTS = {"validation": "valid", "test": "test"}
_ROWS = ("ap", "prec@100%", "hits@100", "mrr", "auc")
_TITLES = {"ap": "AP", "mrr": "MRR", "auc": "AUC"}


def train(
    screen: Screen,
    name: str,
    model: Any,
    split: EdgeSplit,
    folder: Path | None,
    *,
    resume: bool = False,
    threads: int | None = None,
) -> None:
    """Fit a model; an interruption says how to go on."""
    # Threads decide nothing, so they are no part of what is kept.
    own = getattr(model, "threads", None)
    if threads is not None and hasattr(model, "threads"):
        model.threads = threads
    try:
        fit_model(screen, name, model, split, folder=folder, resume=resume)
    except KeyboardInterrupt as stop:
        raise Interrupted(_how_to_go_on(folder)) from stop
    if hasattr(model, "threads"):
        model.threads = own


def _how_to_go_on(folder: Path | None) -> str:
    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    if folder is None or not has_checkpoint(folder):
        return "There is no checkpoint yet: run the same command again."
    return f"Go on with: gelato {shlex.join(words)} --resume"


def measure(
    screen: Screen,
    model: Any,
    split: EdgeSplit,
    threads: int | None,
    *,
    estimate: float | None = None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return what a finished run records: the training, and metrics.

    They are exact unless a rate is given for an estimate. With a folder that holds a
    checkpoint an interruption loses nothing.
    """
    try:
        kept = folder if folder is not None and has_checkpoint(folder) else None
        return _measure(screen, model, split, threads, estimate, kept)
    except KeyboardInterrupt as stop:
        raise Interrupted(_how_to_go_on(folder)) from stop


def _measure(
    screen: Screen,
    model: Any,
    split: EdgeSplit,
    threads: int | None,
    estimate: float | None,
    kept: Path | None,
) -> dict[str, Any]:
    from gelato.ranking import evaluate

    measured: dict[str, Any] = {"training": training_facts(model), "metrics": {}}
    for title, part in _PARTS.items():
        if not len(split.positives(part)):  # type: ignore[arg-type]
            continue
        with screen.progress(f"ranking the {title} edges") as progress:
            result = evaluate(
                model,
                split,
                part=part,  # type: ignore[arg-type]
                estimate=estimate,
                resume=kept,
                threads=threads,
                progress=progress,
            )
        measured["metrics"][title] = result.to_dict()
        exact = not result.estimated
        if part == "valid" and exact and hasattr(model, "validation_counts_"):
            # The same ranking tells later which precision to expect.
            model.validation_counts_ = result.counts
    return measured


def keep(model: Any, folder: Path, measured: dict[str, Any]) -> None:
    """Write a run folder."""
    model.save(folder, metrics=measured)
    # Only a finished run makes them superfluous.
    (folder / CHECKPOINT).unlink(missing_ok=True)
    clear_journals(folder)


def metrics_table(metrics: dict[str, dict[str, Any]]) -> Any:
    """Return stored results side by side, a random order beside each."""
    exact = not any(result.get("estimated") for result in metrics.values())
    columns = ["in percent, all pairs" if exact else "in percent"]
    for part, result in metrics.items():
        label = f", {ESTIMATE}" if result.get("estimated") else ""
        columns += [f"{part}{label}", "random order"]
    table = make_table(*columns)
    for row in _ROWS:
        cells = [_TITLES.get(row, row)]
        for result in metrics.values():
            cells += [numbers.percent(_value(result, row)), _chance(result, row)]
        table.add_row(*cells)
    return table


def _value(result: dict[str, Any], row: str) -> float:
    kind, _, argument = row.partition("@")
    nested = {"prec": "precision_at", "hits": "hits_at"}
    return float(result[nested[kind]][argument] if argument else result[row])


def _chance(result: dict[str, Any], row: str) -> str:
    negatives = result["negatives"]
    chances = {
        "hits@100": random_hits(negatives, 100),
        "mrr": random_mrr(negatives),
        "auc": 0.5,
    }
    return numbers.percent(chances.get(row, result["random_ap"]))
