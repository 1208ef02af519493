"""Several runs side by side, as plain data for a report."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gelato.errors import InputError, StoredFileError
from gelato.models.loading import load
from gelato.ranking import evaluate
from gelato.ranking.evaluate import Protocol
from gelato.report.measures import ranking_row
from gelato.report.plain import plain
from gelato.report.summary import FORMAT
from gelato.storage import read_run
from gelato.version import __version__

_METRICS = ("ap", "prec@100%", "hits@100", "auc")
_NEEDED = ("model", "protocol", "random_ap", *_METRICS)


def summarise_runs(
    folders: Sequence[str | os.PathLike[str]], *, threads: int | None = None
) -> dict[str, Any]:
    """Evaluate several run folders and return what a report shows about them.

    Every run is measured on its own split; runs of one model (other seeds or splits)
    are taken together. All of them need test edges.
    """
    rows = []
    for folder in folders:
        run, model = read_run(folder), load(folder)
        if model.split_ is None or not len(model.split_.test):
            raise StoredFileError(
                f"{folder} holds out no test edges, so it cannot be compared.",
                hint="Fit it with --test SHARE.",
            )
        training = run.metrics.get("training") or {}
        protocols: tuple[Protocol, ...] = ("all", "sampled")
        for protocol in protocols:
            result = evaluate(model, model.split_, protocol=protocol, threads=threads)
            row = ranking_row(model.name, result, float(training.get("seconds", 0.0)))
            about = {
                "run": Path(folder).resolve().name,
                "split": model.split_.fingerprint,
                "seed": run.parameters.get("seed"),
            }
            rows.append(row | about)
    return summarise_rows(rows)


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
    rows = told.get("runs") if isinstance(told, dict) else told
    if not isinstance(rows, list) or not rows or not all(map(_is_row, rows)):
        raise InputError(f"{path} holds no comparison.", hint=hint)
    return summarise_rows([_with_seconds(row) for row in rows])


def summarise_rows(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return means and standard deviations by model and protocol, best first."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["protocol"]), []).append(row)
    ranking: list[dict[str, Any]] = [
        {
            "model": model,
            "protocol": protocol,
            "biased": protocol != "all",
            "runs": len(part),
            "mean": {k: statistics.fmean(row[k] for row in part) for k in _METRICS},
            "sd": {
                k: statistics.stdev(row[k] for row in part) if len(part) > 1 else None
                for k in _METRICS
            },
            "random_ap": statistics.fmean(row["random_ap"] for row in part),
            "seconds": statistics.fmean(row["seconds"] for row in part),
        }
        for (model, protocol), part in groups.items()
    ]
    if all(entry["biased"] for entry in ranking):
        raise InputError(
            "The comparison holds biased numbers only.",
            hint="Rank against every non-edge: gelato compare --protocol all",
        )
    ranking.sort(key=lambda entry: (entry["biased"], -entry["mean"]["ap"]))
    made: dict[str, Any] = plain(
        {
            "format": FORMAT,
            "gelato": __version__,
            "kind": "comparison",
            "splits": sorted({str(row.get("split", "")) for row in rows}),
            "ranking": ranking,
            "runs": list(rows),
        }
    )
    return made


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not all(name in row for name in _NEEDED):
        return False
    numbers = all(isinstance(row[k], int | float) for k in ("random_ap", *_METRICS))
    return numbers and isinstance(row["model"], str)


def _with_seconds(row: dict[str, Any]) -> dict[str, Any]:
    spent = [row.get("fit_seconds"), row.get("evaluate_seconds")]
    given = [part for part in spent if isinstance(part, int | float)]
    return {"run": "", "split": "", "seed": None, **row, "seconds": float(sum(given))}
