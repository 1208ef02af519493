"""Run folders on the command line: what may be written into, and what is in one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gelato.cli.options import DataOptions, ModelOptions, SplitOptions
from gelato.cli.outputs import new_folder
from gelato.errors import InputError, OutputError, StoredFileError, UsageError

if TYPE_CHECKING:
    from gelato.cli.inputs import LoadedGraph
    from gelato.splits import EdgeSplit
    from gelato.storage import Run

# Written by the training loop (gelato.training.loop.CHECKPOINT); named here as well so
# that help needs no torch. A test compares the two.
CHECKPOINT = "checkpoint.safetensors"
# Likewise of gelato.baselines.tlc_gnn.resumable and gelato.stacking.folds: what was
# prepared before training, and edges hidden in turn.
PARTS = ("*.parts.npz", "fold-*.npz", "folds.json")
# What other verbs put beside a run.
LINKS, PAGE = "links.csv", "report.html"


def _refuse_file(run: Path) -> None:
    """Say what is wrong where a list of edges stands in the place of a run folder."""
    if run.is_file():
        raise UsageError(
            f"{run} is a file; what is named here is a run folder.",
            hint=f"A list of edges has its option: --edges {run} (fit, evaluate, "
            "predict, run).",
        )


def refuse_beside_run(
    run: Path, *groups: DataOptions | SplitOptions | ModelOptions
) -> None:
    """Refuse options that say what a run folder says itself."""
    _refuse_file(run)
    for group in groups:
        for field in fields(group):
            if getattr(group, field.name) != field.default:
                name = "set" if field.name == "settings" else field.name
                option = f"--{name.replace('_', '-')}"
                raise UsageError(
                    f"{option} and the run folder {run} exclude each other: the "
                    "folder holds its graph, its split and its model.",
                    hint=f"Leave out {option}, or the folder.",
                )


def load_run_model(folder: Path) -> Any:
    """Return the model of a run folder, ready to score."""
    from gelato.models.registry import load

    _refuse_file(folder)
    return load(folder)


def split_of_run(model: Any, folder: Path, part: str) -> EdgeSplit:
    """Return the split that a stored model was fitted on, if it has such a part."""
    split: EdgeSplit | None = model.split_
    if split is None:
        raise StoredFileError(
            f"The model in {folder} was fitted on all edges: none is held out.",
            hint="Measure a model of its own split: gelato evaluate --edges FILE.",
        )
    if not len(split.positives(part)):  # type: ignore[arg-type]
        other = "valid" if part == "test" else "test"
        raise StoredFileError(
            f"The split in {folder} has no {part} edges, so there is nothing to rank.",
            hint=f"Rank the others with --part {other}, or fit with --{part} SHARE.",
        )
    return split


def look_into_folder(folder: Path, *, resume: bool, overwrite: bool) -> Run | None:
    """Refuse a folder that is no place for a training; return the run it holds.

    A run comes back only with ``resume``: whoever asks to go on with a finished
    training gets what it gave.
    """
    from gelato.storage import CONFIG, read_run

    if resume and overwrite:
        raise UsageError(
            "--resume and --overwrite exclude each other.",
            hint="Go on with a training, or start it anew.",
        )
    if overwrite or not folder.is_dir():
        return None
    if (folder / CONFIG).exists():
        if resume:
            return read_run(folder)
        raise OutputError(
            f"{folder} holds a finished run.",
            hint="Name another folder with -o, or replace the run with --overwrite.",
        )
    if has_checkpoint(folder):
        if resume:
            return None
        raise OutputError(
            f"{folder} holds a training that has not been finished.",
            hint="Go on with it by adding --resume, or start anew with --overwrite.",
        )
    if not resume and any(folder.iterdir()):
        raise OutputError(
            f"The folder {folder} is not empty and holds no run.",
            hint="Name a new folder with -o.",
        )
    return None


@contextmanager
def claimed_folder(
    folder: Path, *, resume: bool = False, overwrite: bool = False
) -> Iterator[None]:
    """Hold a folder while a run is made in it; what it replaces is cleared away."""
    with new_folder(folder):
        # Another process may have been faster since the first look.
        if look_into_folder(folder, resume=resume, overwrite=overwrite) is not None:
            raise OutputError(
                f"Another process has finished the run in {folder}.",
                hint="Give the same command again to see its numbers.",
            )
        if overwrite:
            clear_run(folder)
        yield


def has_checkpoint(folder: Path) -> bool:
    """Tell whether a training in a folder can go on."""
    return (folder / CHECKPOINT).exists() or bool(_parts(folder))


def _parts(folder: Path) -> list[Path]:
    """Return the files from which an unfinished fit goes on."""
    return [path for pattern in PARTS for path in folder.glob(pattern)]


def clear_progress(folder: Path) -> None:
    """Remove what only an unfinished run needs."""
    for path in ((folder / CHECKPOINT), *_parts(folder)):
        path.unlink(missing_ok=True)
    clear_journals(folder)


def clear_run(folder: Path) -> None:
    """Remove a run and what was made of it, and nothing else, from a folder."""
    from gelato import storage

    names = [storage.GRAPH, storage.SPLIT, storage.WEIGHTS, storage.METRICS]
    names += [storage.ENVIRONMENT, storage.HISTORY, LINKS, PAGE]
    listed = _listed_files(folder / storage.CONFIG)
    # The configuration first: without it, what is left is no run.
    for name in dict.fromkeys((storage.CONFIG, *names, *listed)):
        (folder / name).unlink(missing_ok=True)
    clear_progress(folder)


def clear_journals(folder: Path) -> None:
    """Remove the counts so far of rankings that are finished or given up."""
    from gelato.ranking.journal import journal_files

    for file in journal_files(folder):
        file.unlink(missing_ok=True)


def _listed_files(config: Path) -> list[str]:
    """Return the plain file names that a configuration lists, if it can be read."""
    try:
        files = tomllib.loads(config.read_text("utf-8")).get("files", {})
    except (OSError, ValueError):
        return []
    return [name for name in files if Path(name).name == name]


def check_same_run(run: Run, folder: Path, model: Any) -> None:
    """Refuse a stored run of another model than the options ask for."""
    asked = {
        name: value
        for name, value in model.get_params().items()
        if value is not None and name != "threads"
    }
    # A run of an earlier version lacks parameters that came later.
    stored = model.parameter_defaults() | run.parameters
    stored = {k: v for k, v in stored.items() if v is not None and k != "threads"}
    found = {"model": run.model, **stored}
    expected = {"model": model.name, **asked}
    differing = sorted(
        name for name in {*found, *expected} if found.get(name) != expected.get(name)
    )
    if differing:
        _refuse_other(folder, differing[0])


def check_same_split(run: Run, folder: Path, split: EdgeSplit) -> None:
    """Refuse a stored run of another graph or split."""
    if run.split is None or run.split.fingerprint != split.fingerprint:
        _refuse_other(folder, "split")


def _refuse_other(folder: Path, what: str) -> NoReturn:
    raise StoredFileError(
        f"{folder} holds another run: its {what} differs.",
        hint="Name another folder with -o, or replace the run with --overwrite.",
    )


def with_newer_graph(model: Any, folder: Path, newer: LoadedGraph) -> Any:
    """Return a stored model over a newer version of its graph, nothing learned again.

    A graph that lacks most nodes of the run is another graph, and refused; so are
    other attributes, where the model uses them.
    """
    known = model.graph_
    here = set(map(str, newer.graph.node_ids.tolist()))
    shared = sum(str(node) in here for node in known.node_ids.tolist())
    if 2 * shared < known.num_nodes:
        raise InputError(
            f"{newer.name} is another graph than that of {folder}: it has "
            f"{shared:,} of its {known.num_nodes:,} nodes.",
            hint="Give a newer version of the same graph, or fit again.",
        )
    return model.with_graph(newer.graph)
