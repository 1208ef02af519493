"""Several runs side by side, as plain data for a report."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gelato.comparison.runs import RESAMPLED, measure_fitted
from gelato.comparison.summary import (
    covered,
    rank_models,
    told_apart,
    unadjusted,
)
from gelato.errors import InputError, StoredFileError
from gelato.graph import Graph
from gelato.models.registry import restore
from gelato.report.contents import FORMAT
from gelato.report.verdicts import LONGEST
from gelato.splits import EdgeSplit
from gelato.storage import Run, read_run
from gelato.text import plain, shortened
from gelato.version import __version__

_METRICS = ("ap", "prec@100%", "hits@100", "auc")
_NUMBERS = ("random_ap", *_METRICS)
_TEXTS = ("model", "protocol")


def summarise_runs(folders: Sequence[str | os.PathLike[str]]) -> dict[str, Any]:
    """Evaluate several run folders and return what a report shows about them.

    Every run is measured on its own split; runs of one model with the same parameters
    (other seeds or splits) are taken together. All of them need test edges of one
    graph, and every model the same splits: numbers of others say nothing about who is
    better.
    """
    runs = {str(folder): read_run(folder) for folder in folders}
    labels = rival_names(runs)
    refuse_strangers(runs, labels)
    rows = []
    for folder, run in runs.items():
        model = restore(run, folder)
        training = run.metrics.get("training") or {}
        about = {
            "model": labels[folder],
            "run": Path(folder).resolve().name,
            "seed": run.parameters.get("seed"),
        }
        measured = measure_fitted(
            model,
            model.split_,
            protocols=("all", "sampled"),
            fit_seconds=float(training.get("seconds", 0.0)),
            resample=True,
        )
        rows += [_completed(about | row) for row in measured]
    return summarise_rows(rows, reading=next(iter(runs.values())).graph.reading)


def rival_names(runs: Mapping[str, Run]) -> dict[str, str]:
    """Return what each run is called: its model, with parameters that tell it apart."""
    told = {}
    for folder, run in runs.items():
        others = [x.parameters for x in runs.values() if x.model == run.model]
        apart = [
            name
            for name in run.parameters
            if name != "seed"
            and any(x.get(name) != run.parameters[name] for x in others)
        ]
        inside = ", ".join(f"{name} = {run.parameters[name]}" for name in apart)
        told[folder] = f"{run.model} ({inside})" if inside else run.model
    return told


def refuse_strangers(runs: Mapping[str, Run], labels: Mapping[str, str]) -> None:
    """Raise unless all runs are of one graph, and every model of the same splits."""
    splits: dict[str, EdgeSplit] = {}
    for folder, run in runs.items():
        if run.split is None or not len(run.split.test):
            raise StoredFileError(
                f"{folder} holds out no test edges, so it cannot be compared.",
                hint="Fit it with --test SHARE.",
            )
        splits[folder] = run.split
    first, *others = runs
    for other in others:
        if not _same_graph(runs[first].graph, runs[other].graph):
            _refuse_pair("graphs", splits, first, other)
    seen: dict[str, set[str]] = {}
    for folder, split in splits.items():
        seen.setdefault(labels[folder], set()).add(split.fingerprint)
    for folder, split in splits.items():
        for other, name in labels.items():
            if split.fingerprint not in seen[name]:
                _refuse_pair("splits", splits, folder, other)


def _same_graph(one: Graph, other: Graph) -> bool:
    return (
        one.directed == other.directed
        and np.array_equal(one.edges, other.edges)
        # Among fewer pairs that can be links, every number is larger.
        and _ends(one) == _ends(other)
        and one.node_ids.tolist() == other.node_ids.tolist()
    )


def _ends(graph: Graph) -> Any:
    return None if graph.ends is None else graph.ends.tolist()


def _refuse_pair(
    what: str, splits: Mapping[str, EdgeSplit], one: str, other: str
) -> NoReturn:
    names = " and ".join(f"{x} ({splits[x].fingerprint})" for x in (one, other))
    raise InputError(
        f"{names} are runs on different {what}, so that their numbers cannot be "
        "compared.",
        hint="Fit every model on the same split: --split-file RUN/split.parquet",
    )


def read_comparison(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what ``gelato compare --json`` printed, and summarise it."""
    hint = "Make one with: gelato compare ... --json > comparison.json"
    try:
        told = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}.", hint=hint
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is no JSON document: {error}.", hint=hint) from error
    document = told if isinstance(told, dict) else {"runs": told}
    rows = document.get("runs")
    if not isinstance(rows, list) or not rows or not all(map(_is_row, rows)):
        raise InputError(f"{path} holds no comparison.", hint=hint)
    against = document.get("against")
    reference = against if isinstance(against, str) else None
    data = document.get("data")
    reading = data.get("reading") if isinstance(data, dict) else None
    return summarise_rows(
        [_completed(row) for row in rows],
        against=reference,
        reading=reading if isinstance(reading, dict) else None,
    )


def summarise_rows(
    rows: list[dict[str, Any]],
    *,
    against: str | None = None,
    reading: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return means, intervals and paired differences by model, best first."""
    if all(row["protocol"] != "all" for row in rows):
        raise InputError(
            "The comparison holds biased numbers only.",
            hint="Rank against every non-edge: gelato compare --protocol all",
        )
    ranking = rank_models(rows, against=against, metrics=_METRICS)
    fair = [entry for entry in ranking if not entry["biased"]]
    meaning = [covered(fair), unadjusted(fair)]
    made: dict[str, Any] = plain(
        {
            "format": FORMAT,
            "gelato": __version__,
            "kind": "comparison",
            "reading": None if reading is None else {**reading},
            "splits": sorted({row["split"] for row in rows}),
            "against": fair[0]["against"],
            "budget": next((e["budget"] for e in fair if e["budget"]), None),
            "verdicts": told_apart(fair, partial(shortened, most=LONGEST)),
            "meaning": [text for text in meaning if text],
            "ranking": ranking,
            "runs": [
                {key: value for key, value in row.items() if key != RESAMPLED}
                for row in rows
            ],
        }
    )
    return made


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not all(name in row for name in _NUMBERS):
        return False
    return all(_is_number(row[name]) for name in _NUMBERS) and all(
        isinstance(row.get(name), str) for name in _TEXTS
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with all that a page shows; what is not as expected is left out."""
    made: dict[str, Any] = {"run": "", **row}
    made["split"] = str(row.get("split", ""))
    for name in ("seed", "train_edges", "test_edges"):
        made[name] = row[name] if type(row.get(name)) is int else None
    for name in ("fit_seconds", "evaluate_seconds"):
        made[name] = row[name] if _is_number(row.get(name)) else 0.0
    for name in ("budget", "parameters"):
        made[name] = row[name] if isinstance(row.get(name), str) else None
    made[RESAMPLED] = _draws(row.get(RESAMPLED))
    made["seconds"] = made["fit_seconds"] + made["evaluate_seconds"]
    return made


def _draws(found: Any) -> list[float] | None:
    usable = isinstance(found, list) and len(found) > 1 and all(map(_is_number, found))
    return found if usable else None
