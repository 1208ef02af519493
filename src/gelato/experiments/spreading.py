"""Runs side by side on an engine: one task each, recorded by the driver.

A worker needs the benchmark graph and nothing else: it trains in a folder that is
removed afterwards, and sends the record back. What a lost worker had done of a run is
lost with it, and the run is done again; recorded runs are never lost.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gelato.engines import Engine
from gelato.experiments.records import write_record
from gelato.experiments.runs import RunSpec, perform, result_path


def perform_together(
    engine: Engine, specs: Sequence[RunSpec], results: Path
) -> Iterator[tuple[RunSpec, dict[str, Any]]]:
    """Do runs on an engine and yield each with its record, which is then written.

    Parameters
    ----------
    engine : Engine
        Where they run.
    specs : sequence of RunSpec
        Runs that are not recorded yet.
    results : Path
        Folder of recorded runs.
    """
    records = engine.map(_perform_apart, None, specs)
    for spec, record in zip(specs, records, strict=True):
        yield spec, write_record(result_path(results, spec), record)


def _perform_apart(_: None, spec: RunSpec) -> dict[str, Any]:
    """Do a run in a folder of its own and return its record."""
    with tempfile.TemporaryDirectory(prefix="gelato-run-") as folder:
        return perform(spec, Path(folder, "results"), Path(folder, "work"))
