"""Run folders: models as plain data, written whole and checked when read.

A folder holds ``config.toml`` (what the model is), ``graph.npz``, ``split.parquet``,
``weights.safetensors``, ``metrics.json``, ``environment.json`` and
``history.jsonl``. This module knows files, not model classes.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import tomlkit
from tomlkit.exceptions import TOMLKitError

from gelato.errors import OutputError, StoredFileError
from gelato.graph import Graph
from gelato.io import read_npz, write_bytes_atomic, write_npz, write_text_atomic
from gelato.splits import EdgeSplit
from gelato.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
CONFIG, GRAPH, SPLIT = "config.toml", "graph.npz", "split.parquet"
WEIGHTS, METRICS, ENVIRONMENT = (
    "weights.safetensors",
    "metrics.json",
    "environment.json",
)
HISTORY = "history.jsonl"


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
    facts : dict
        What else the model needs to be restored: numbers and texts.
    metrics : dict
        Results measured so far.
    history : list of dict
        One entry per epoch.
    """

    model: str
    parameters: dict[str, Any]
    graph: Graph
    split: EdgeSplit | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


def save_run(folder: str | os.PathLike[str], run: Run) -> Path:
    """Write a run folder; ``config.toml`` comes last and makes it complete."""
    target = make_folder(folder)
    document = tomlkit.document()
    document.add(tomlkit.comment("A run of gelato. Data, not code; see the docs."))
    document["format"] = FORMAT
    document["gelato"] = __version__
    document["model"] = run.model
    if run.split is not None:
        document["split"] = run.split.fingerprint
    plain = {k: v for k, v in run.parameters.items() if v is not None}
    document["parameters"] = _plain(plain)
    document["facts"] = _plain(run.facts)
    write_npz(run.graph, target / GRAPH)
    if run.split is not None:
        run.split.save(target / SPLIT)
    if run.tensors:
        from safetensors.torch import save

        kept = {name: value.contiguous() for name, value in run.tensors.items()}
        write_bytes_atomic(target / WEIGHTS, save(kept))
    write_text_atomic(target / METRICS, _json(run.metrics))
    write_text_atomic(target / ENVIRONMENT, _json(environment()))
    lines = "".join(json.dumps(entry) + "\n" for entry in run.history)
    write_text_atomic(target / HISTORY, lines)
    write_text_atomic(target / CONFIG, tomlkit.dumps(document))
    return target


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read a run folder, or say which of its files is wrong and how."""
    path = Path(folder)
    config = _read_config(path)
    graph = _read_part(path / GRAPH, read_npz)
    split = None
    if "split" in config:
        split = EdgeSplit.load(_existing(path / SPLIT), graph)
        if split.fingerprint != config["split"]:
            raise StoredFileError(
                f"{path / SPLIT} has the fingerprint {split.fingerprint}, but "
                f"{CONFIG} names {config['split']}.",
                hint="The files of the folder do not belong together.",
            )
    return Run(
        model=config["model"],
        parameters=dict(config.get("parameters", {})),
        graph=graph,
        split=split,
        tensors=_read_tensors(path / WEIGHTS) if (path / WEIGHTS).exists() else {},
        facts=dict(config.get("facts", {})),
        metrics=_read_json(path / METRICS),
        history=_read_history(path / HISTORY),
    )


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


def environment() -> dict[str, Any]:
    """Return versions and hardware, for reading results later."""
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
    """Refuse what is not data, naming it."""
    for name, value in values.items():
        listed = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(item, str | int | float | bool) for item in listed):
            raise OutputError(
                f"The parameter {name} is {value!r}, which is not plain data, so the "
                "model cannot be saved.",
                hint="Save its parts yourself, or use named options only.",
            )
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=False) + "\n"


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise StoredFileError(
            f"{path.name} is missing from the run folder {path.parent}.",
            hint="Copy the whole folder, or fit the model again.",
        )
    return path


def _read_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise StoredFileError(
            f"There is no run folder {folder}.", hint="Make one with gelato fit."
        )
    path = _existing(folder / CONFIG)
    try:
        config: dict[str, Any] = tomlkit.parse(path.read_text("utf-8")).unwrap()
    except (TOMLKitError, UnicodeDecodeError, OSError) as error:
        raise StoredFileError(f"{path} cannot be read: {error}.") from error
    version = config.get("format")
    if not isinstance(version, int) or not isinstance(config.get("model"), str):
        raise StoredFileError(f"{path} does not describe a run of gelato.")
    if version > FORMAT:
        raise StoredFileError(
            f"{path} has format {version}, newer than the {FORMAT} that this version "
            f"reads; gelato {config.get('gelato')} wrote it.",
            hint="Install a newer gelato.",
        )
    return config


def _read_part(path: Path, reader: Any) -> Any:
    from gelato.errors import InputError

    try:
        return reader(_existing(path))
    except InputError as error:
        raise StoredFileError(error.problem, hint=error.hint) from error


def _read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise StoredFileError(
            f"{path} is damaged: {error}.", hint="Fit the model again."
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_existing(path).read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise StoredFileError(f"{path} is damaged: {error}.") from error
    if not isinstance(value, dict):
        raise StoredFileError(f"{path} is not what gelato writes.")
    return value


def _read_history(path: Path) -> list[dict[str, Any]]:
    try:
        lines = _existing(path).read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except (ValueError, OSError) as error:
        raise StoredFileError(f"{path} is damaged: {error}.") from error
