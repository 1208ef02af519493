"""Run folders: models as plain data, written whole and checked when read.

A folder holds ``config.toml`` (what the model is, and digests of the files that its
scores depend on), ``graph.npz``, ``split.parquet``, ``weights.safetensors``, tables
such as ``enhanced.parquet``, ``validation.parquet`` (how the validation edges ranked),
``metrics.json``, ``environment.json`` and ``history.jsonl``. This module knows files,
not model classes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
import tomlkit
from tomlkit.exceptions import TOMLKitError

from gelato.errors import InputError, OutputError, StoredFileError
from gelato.graph import Graph
from gelato.io import read_npz, write_bytes_atomic, write_npz, write_text_atomic
from gelato.io.locking import locked_folder
from gelato.splits import EdgeSplit
from gelato.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from gelato.ranking.counts import RankCounts

FORMAT = 1
CONFIG, GRAPH, SPLIT = "config.toml", "graph.npz", "split.parquet"
WEIGHTS, METRICS = "weights.safetensors", "metrics.json"
ENVIRONMENT, HISTORY = "environment.json", "history.jsonl"
VALIDATION = "validation.parquet"
# Seconds to wait for another process that saves into the same folder.
_PATIENCE = 60.0
_AGAIN = "Copy the whole folder again, or fit and save the model again."

Content = TypeVar("Content")


@dataclass
class Run:
    """What a run folder holds.

    Parameters
    ----------
    model : str
        Registered name.
    parameters : dict
        The model's parameters.
    graph : Graph
        All known edges.
    split : EdgeSplit, optional
        The split that the model was fitted on.
    tensors : dict of Tensor
        Learned numbers.
    tables : dict of DataFrame
        What people may want to read; written as ``<name>.parquet``, not read back.
    texts : dict of str
        Long texts that the model is restored from; written as ``<name>.txt``.
    facts : dict
        What else the model needs to be restored: numbers and short texts.
    metrics : dict
        Results measured so far.
    history : list of dict
        One entry per epoch.
    validation : RankCounts, optional
        How the validation edges of the split rank among all pairs that are not
        training edges.
    """

    model: str
    parameters: dict[str, Any]
    graph: Graph
    split: EdgeSplit | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    validation: RankCounts | None = None


def save_run(folder: str | os.PathLike[str], run: Run) -> Path:
    """Write a run folder, in place of the run that it may hold.

    Everything is written beside the old run first, so that a failure leaves that one
    as it was. ``config.toml`` is taken away first and put back last: a folder whose
    exchange was interrupted has none, and is not taken for a run. Of two processes
    that save into one folder, the second waits.
    """
    config = _config(run)
    existed = Path(folder).exists()
    target = make_folder(folder)
    with locked_folder(target, wait=_PATIENCE):
        _save_files(target, run, config, existed=existed)
    return target


def _save_files(
    target: Path, run: Run, config: tomlkit.TOMLDocument, *, existed: bool
) -> None:
    for left in target.glob(".writing-*"):  # of a save that was killed
        shutil.rmtree(left, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=target) as name:
            fresh = Path(name)
            _write_files(fresh, run)
            config["files"] = {
                path.name: _digest(path)
                for path in sorted(fresh.iterdir())
                if path.name != METRICS  # results are added later
            }
            write_text_atomic(fresh / CONFIG, tomlkit.dumps(config))
            _exchange(fresh, target)
    except OSError as error:  # OutputError among them
        if not existed:
            shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OutputError):
            problem = error.problem.replace(str(fresh), str(target))
            raise OutputError(problem, hint=error.hint) from error
        raise OutputError(
            f"The run folder {target} cannot be written: {error.strerror or error}.",
            hint="Make room, or name another folder.",
        ) from error


def _config(run: Run) -> tomlkit.TOMLDocument:
    document = tomlkit.document()
    document.add(tomlkit.comment("A run of gelato. Data, not code; see the docs."))
    document["format"] = FORMAT
    document["gelato"] = __version__
    document["model"] = run.model
    if run.split is not None:
        document["split"] = run.split.fingerprint
    document["parameters"] = _plain(run.parameters)
    document["facts"] = _plain(run.facts)
    return document


def _write_files(folder: Path, run: Run) -> None:
    write_npz(run.graph, folder / GRAPH)
    if run.split is not None:
        run.split.save(folder / SPLIT)
        if run.validation is not None:
            from gelato.ranking.counts import write_counts

            write_counts(folder / VALIDATION, run.validation, run.split.fingerprint)
    if run.tensors:
        from safetensors.torch import save

        kept = {name: value.contiguous() for name, value in run.tensors.items()}
        write_bytes_atomic(folder / WEIGHTS, save(kept))
    for name, table in run.tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    for name, text in run.texts.items():
        write_text_atomic(folder / f"{name}.txt", text)
    write_text_atomic(folder / METRICS, _json(run.metrics, indent=1))
    write_text_atomic(folder / ENVIRONMENT, _json(environment(), indent=1))
    lines = "".join(_json(entry) for entry in run.history)
    write_text_atomic(folder / HISTORY, lines)


def _exchange(fresh: Path, target: Path) -> None:
    """Put fresh files in the place of a run's, config.toml last."""
    old = target / CONFIG
    stale: set[str] = set()
    if old.exists():
        try:
            stale = set(_parse(old).get("files", {}))
        except StoredFileError:  # it is being replaced anyway
            stale = set()
        old.unlink()
    names = {path.name for path in fresh.iterdir()} - {CONFIG}
    for name in stale - names:
        # Names come from a file: only those of this folder are ours to remove.
        if Path(name).name == name:
            (target / name).unlink(missing_ok=True)
    for name in (*sorted(names), CONFIG):
        (fresh / name).replace(target / name)


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read a run folder, or say which of its files is wrong and how."""
    path = Path(folder)
    config = _read_config(path)
    files = config["files"]
    for name, digest in files.items():
        if _digest(_existing(path / name)) != digest:
            raise StoredFileError(
                f"{path / name} is not the file that was saved with this run: it is "
                "damaged, or from elsewhere.",
                hint=_AGAIN,
            )
    graph = _read(path / GRAPH, read_npz)
    split = None
    if "split" in config:
        split = _read(path / SPLIT, lambda file: EdgeSplit.load(file, graph))
    return Run(
        model=config["model"],
        parameters=config["parameters"],
        graph=graph,
        split=split,
        tensors=_read(path / WEIGHTS, _tensors) if WEIGHTS in files else {},
        texts={
            name.removesuffix(".txt"): _read(path / name, _text)
            for name in files
            if name.endswith(".txt")
        },
        facts=config["facts"],
        metrics=_read(path / METRICS, _json_object),
        history=_read(path / HISTORY, _json_lines),
        validation=_counts(path / VALIDATION, split) if VALIDATION in files else None,
    )


def _counts(path: Path, split: EdgeSplit | None) -> RankCounts | None:
    from gelato.ranking.counts import read_counts

    return None if split is None else read_counts(path, split.fingerprint)


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """Create a folder for a run, or say why that is impossible."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OutputError(
            f"Cannot write into the folder {path}: {error.strerror or error}.",
            hint="Name a folder that you may write to.",
        ) from error
    return path


def peak_bytes() -> int:
    """Return the largest resident memory of this process so far."""
    try:
        import resource
    except ImportError:  # Windows, which tells it in another way
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def environment() -> dict[str, Any]:
    """Return versions and hardware, for reading results later."""
    import psutil

    packages = ("numpy", "scipy", "numba", "torch", "scikit-learn", "polars")
    versions = {name: metadata.version(name) for name in packages}
    return {
        "gelato": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "packages": versions,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return what TOML can hold, refusing what is not data by its name.

    None stands for a default and is left out.
    """
    kept: dict[str, Any] = {}
    for name, given in values.items():
        value = given.item() if isinstance(given, np.generic) else given
        listed = list(value) if isinstance(value, list | tuple) else [value]
        if value is None:
            continue
        if not all(isinstance(item, str | int | float | bool) for item in listed):
            raise OutputError(
                f"The parameter {name} is {value!r}, which is not plain data, so the "
                "model cannot be saved.",
                hint="Save its parts yourself, or use named options only.",
            )
        kept[name] = listed if isinstance(value, list | tuple) else value
    return kept


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, default=_python_number) + "\n"


def _python_number(value: Any) -> Any:
    """Turn the numbers of numpy into Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise OutputError(f"{value!r} is not plain data, so it cannot be saved.")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise StoredFileError(
            f"{path.name} is missing from the run folder {path.parent}.", hint=_AGAIN
        )
    return path


def _read_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise StoredFileError(
            f"There is no run folder {folder}.", hint="Make one with gelato fit."
        )
    path = _existing(folder / CONFIG)
    config = _parse(path)
    version = config.get("format")
    foreign = StoredFileError(f"{path} does not describe a run of gelato.", hint=_AGAIN)
    if type(version) is not int:
        raise foreign
    if version > FORMAT:
        raise StoredFileError(
            f"{path} has format {version}, newer than the {FORMAT} that this version "
            f"reads; gelato {config.get('gelato')} wrote it.",
            hint="Install a newer gelato.",
        )
    tables = [config.get(name) for name in ("parameters", "facts", "files")]
    whole = isinstance(config.get("model"), str)
    if not whole or not all(isinstance(table, dict) for table in tables):
        raise foreign
    if any(Path(name).name != name for name in config["files"]):
        raise foreign
    return config


def _parse(path: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = tomlkit.parse(path.read_text("utf-8")).unwrap()
    except (TOMLKitError, UnicodeDecodeError, OSError) as error:
        raise StoredFileError(
            f"{path} cannot be read: {error}.", hint=_AGAIN
        ) from error
    return config


def _read(path: Path, reader: Callable[[Path], Content]) -> Content:
    """Read one file of a folder, or say that it is missing or damaged."""
    _existing(path)
    try:
        return reader(path)
    except (InputError, StoredFileError) as error:
        raise StoredFileError(error.problem, hint=_AGAIN) from error
    except (ValueError, OSError) as error:
        raise StoredFileError(f"{path} is damaged: {error}.", hint=_AGAIN) from error


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(error) from error


def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _json_object(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text("utf-8"))
    if not isinstance(value, dict):
        raise ValueError("it is not what gelato writes")
    return value


def _json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
