"""One recorded run: a model, a dataset and a seed, kept as one JSON file.

A run is identified by what defines it; a finished one is never repeated, an
interrupted one resumes from its checkpoint. A file lock keeps two processes from
doing the same run.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csgraph

from gelato.datasets import load_dataset
from gelato.engines import Engine
from gelato.errors import StoredFileError
from gelato.graph import Graph
from gelato.kernels.chunks import default_threads
from gelato.models.mlp import MLP
from gelato.models.registry import facts_of, make, preset
from gelato.models.stack import Stack
from gelato.models.two_stage import MLPAutocovariance
from gelato.paper.records import (
    Report,
    code_commit,
    lock,
    make_folders,
    read_record,
    write_record,
)
from gelato.ranking import Evaluation, evaluate
from gelato.ranking.metrics import precision_at
from gelato.splits import EdgeSplit, split_edges
from gelato.storage import environment, peak_bytes

FORMAT = 1
FIRST = (10, 25, 100)
"""Numbers of first pairs whose precision is recorded."""
_LINE_SECONDS = 120.0  # between words on a ranking
# Given a model, it returns a context of callbacks: on_epoch and on_step of a training.
Watch = Callable[[Any], AbstractContextManager[Any]]

# Fingerprints of the paper's splits (seed 0). A record of another split is refused
# even where the graph itself is not at hand.
SPLITS = {
    "cora": "6c4497eb90c25aa3",
    "citeseer": "d1ad5ad9cd123b8f",
    "pubmed": "e9653ace0234f471",
    "photo": "bb301f5255fddbde",
    "computers": "a41e8d12b0a384bf",
}
TOY = "toy"
"""A small part of the embedded graph, for runs that only try the code."""
_TOY_NODES = 400
_TOY_OF = "citeseer"  # of which it is a part, and whose settings it has


def paper_graph(dataset: str) -> Graph:
    """Return a graph of the paper, or the toy."""
    if dataset != TOY:
        return load_dataset(dataset)
    whole = load_dataset(_TOY_OF)
    assert whole.attributes is not None
    assert whole.labels is not None
    # Around the node with most neighbours: a part as well linked as the whole.
    hub = int(np.argmax(whole.degrees))
    near = csgraph.breadth_first_order(
        whole.adjacency, hub, directed=False, return_predecessors=False
    )
    kept = np.sort(near[:_TOY_NODES]).astype(np.int64)
    place = np.full(whole.num_nodes, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    edges = place[whole.edges]
    return Graph.from_indices(
        len(kept),
        edges[(edges >= 0).all(axis=1)],
        attributes=whole.attributes[kept],
        labels=whole.labels[kept],
    )


def paper_preset(dataset: str, method: str = "gelato") -> dict[str, Any]:
    """Return the parameters of a method on a graph of the paper, or on the toy."""
    return preset(_TOY_OF if dataset == TOY else dataset, method)


@dataclass(frozen=True)
class RunSpec:
    """What defines a run.

    Parameters
    ----------
    method : str
        Registered model.
    dataset : str
        Registered dataset.
    seed : int, optional
        Seed of the model, where it has one.
    parameters : dict
        The model's parameters, without the seed.
    label : str
        Why a run differs from the paper's setting ("reduced epochs"); else empty.
    estimate : float, optional
        The rate, where the ranking is an estimate; None where it is exact.
    split : int, optional
        Seed of the split, where an experiment varies it; None is the paper's, 0.
    protocols : sequence of str
        What it is evaluated by beside all pairs and a balanced sample.
    """

    method: str
    dataset: str
    seed: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    estimate: float | None = None
    split: int | None = None
    protocols: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain data; what is as usual is not said."""
        data = asdict(self)
        for name in ("estimate", "split"):
            if data[name] is None:
                del data[name]
        protocols = list(data.pop("protocols"))
        return data | ({"protocols": protocols} if protocols else {})

    @property
    def number(self) -> int | None:
        """What tells it from the other runs of its row: its split, or its seed."""
        return self.seed if self.split is None else self.split

    def read_split(self) -> EdgeSplit:
        """Return the split of its graph."""
        return _read_split(load_dataset, self.dataset, self.split or 0)

    @property
    def key(self) -> str:
        """A short digest of what defines the run."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """A file name that people can read, unique by its digest."""
        method = self.method.replace("+", "-")
        seed = "" if self.seed is None else f"-seed{self.seed}"
        split = "" if self.split is None else f"-split{self.split}"
        return f"{method}-{self.dataset}{split}{seed}-{self.key}"


# Runs on one graph follow each other, and a split keeps its hard negatives.
@lru_cache(maxsize=1)
def _read_split(load: Callable[[str], Graph], dataset: str, seed: int) -> EdgeSplit:
    """Split a graph that ``load`` loads."""
    return split_edges(paper_graph(dataset), seed=seed)


def result_path(results: Path, spec: RunSpec) -> Path:
    """Return where a run is recorded."""
    return results / "runs" / spec.dataset / f"{spec.name}.json"


def read_result(path: Path, spec: RunSpec) -> dict[str, Any]:
    """Read a recorded run and refuse one that is not what its name says."""
    record = read_record(path, {"format": FORMAT, "spec": spec.to_dict()})
    if not spec.split:
        refuse_other_split(path, record, spec.dataset)
    return record


def find_record(path: Path, version: int, dataset: str) -> dict[str, Any] | None:
    """Return what is recorded of a dataset in a file, or ``None``."""
    if not path.exists():
        return None
    record = read_record(path, {"format": version, "dataset": dataset})
    refuse_other_split(path, record, dataset)
    return record


def refuse_other_split(path: Path, record: dict[str, Any], dataset: str) -> None:
    """Raise if a record was measured on another split than the paper's."""
    if dataset in SPLITS and record["split"] != SPLITS[dataset]:
        raise StoredFileError(
            f"{path} was measured on the split {record['split']} of {dataset}, "
            f"not on the paper's, {SPLITS[dataset]}.",
            hint="Delete it to run it again.",
        )


def find_result(results: Path, spec: RunSpec) -> dict[str, Any] | None:
    """Return the record of a run, or ``None`` where it is missing."""
    path = result_path(results, spec)
    return read_result(path, spec) if path.exists() else None


def perform(
    spec: RunSpec,
    results: Path,
    work: Path,
    *,
    report: Report | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Return the record of a run, doing what is not done yet.

    Parameters
    ----------
    spec : RunSpec
        What to run.
    results : Path
        Folder of recorded runs.
    work : Path
        Folder for checkpoints of unfinished ones.
    report : callable, optional
        Told in a line what happens.
    watch : callable, optional
        Watches a training in place of ``report``: called with the model, it returns
        a context of callbacks (``on_epoch``, ``on_step``).
    """
    found = find_result(results, spec)
    if found is not None:
        return found
    folder = work / spec.name
    path = result_path(results, spec)
    make_folders(folder, path.parent)
    with lock(folder, report):
        found = find_result(results, spec)
        if found is not None:  # another process finished it while we waited
            return found
        record = _run(spec, folder, watch or _reporting(report), report)
        return write_record(path, record)


def fitted(spec: RunSpec, split: EdgeSplit, folder: Path, watch: Watch | None) -> Any:
    """Return the fitted model of a run; a training resumes from its checkpoint."""
    model = make_run_model(spec)
    if isinstance(model, Stack):
        return _fit_stack(model, spec, split, folder.parent)
    if not model.trains_by_epoch:
        return model.fit(split)
    stage = first_stage(spec)
    shared = folder if stage is None else folder.parent / stage.name
    shared.mkdir(exist_ok=True)
    alone = nullcontext() if stage is None else lock(shared)
    with alone, watch(model) if watch is not None else nullcontext() as told:
        calls = {}
        if told is not None:
            calls = {"on_epoch": told.on_epoch, "on_step": told.on_step}
        return model.fit(split, folder=shared, resume=True, **calls)


def _fit_stack(model: Stack, spec: RunSpec, split: EdgeSplit, work: Path) -> Stack:
    """Fit a stack from what others have computed: folds, and features of candidates.

    Runs that differ in what they leave out share their folds; features of the
    candidates are the same for all seeds.
    """
    folds = {k: v for k, v in spec.parameters.items() if k == "folds"}
    shared = replace(spec, parameters=folds, label="", estimate=None)
    tables = work / replace(shared, parameters={}, seed=None).name
    place = work / f"{shared.name}-folds"
    make_folders(place, tables)
    with lock(place):
        return model.fit(split, folder=place, resume=True, tables=tables)


def first_stage(spec: RunSpec) -> RunSpec | None:
    """Return the run whose training a two-stage run shares, or ``None``.

    Both train in the same folder: whichever comes second finds it done.

    Examples
    --------
    >>> stage = first_stage(RunSpec("mlp+ac", "cora", 1, {"epochs": 5, "alpha": 0.5}))
    >>> stage.method, stage.seed, stage.parameters
    ('mlp', 1, {'epochs': 5})
    """
    if not issubclass(facts_of(spec.method), MLPAutocovariance):
        return None
    known = MLP.parameters
    parameters = {k: v for k, v in spec.parameters.items() if k in known}
    label, split = spec.label, spec.split
    return RunSpec("mlp", spec.dataset, spec.seed, parameters, label, split=split)


def make_run_model(spec: RunSpec) -> Any:
    """Return the model of a run, not fitted yet."""
    seed = {} if spec.seed is None else {"seed": spec.seed}
    return make(spec.method, **spec.parameters, **seed)


def _run(
    spec: RunSpec, folder: Path, watch: Watch | None, report: Report | None
) -> dict[str, Any]:
    split = spec.read_split()
    started = time.perf_counter()
    model = fitted(spec, split, folder, watch)
    elapsed = time.perf_counter() - started
    training = model.training_
    # Of a slow scorer hours: what is counted is kept beside the checkpoint.
    told = None if report is None else _RankingLines(report)
    ranked = evaluate(
        model, split, estimate=spec.estimate, resume=folder, progress=told
    )
    biased = evaluate(model, split, protocol="sampled")
    record: dict[str, Any] = {
        "format": FORMAT,
        "spec": spec.to_dict(),
        "split": split.fingerprint,
        "metrics": ranked.to_dict() | _among_first(ranked),
        "biased_metrics": biased.to_dict(),
        "fit_seconds": elapsed if training is None else training.seconds,
        "peak_rss_mb": round(peak_bytes() / 2**20, 1),
        "environment": environment(),
        "threads": default_threads(),
        "commit": code_commit(),
    }
    if spec.protocols:
        record["protocols"] = {
            name: evaluate(model, split, protocol=name).to_dict()  # type: ignore[arg-type]
            for name in spec.protocols
        }
    if model.notes_:
        record["notes"] = list(model.notes_)
    if training is not None:
        record["training"] = {
            "best_epoch": training.best_epoch,
            "best_value": training.best_value,
            "skipped_steps": training.skipped,
            "history": [_short(entry) for entry in training.history],
        }
    return record


def _among_first(ranked: Evaluation) -> dict[str, float]:
    """Return the precision among the first pairs, unless they are estimates."""
    if ranked.estimated:
        return {}
    return {f"prec@{k}": precision_at(ranked.counts, k) for k in FIRST}


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    """Round what is only plotted, to keep records small."""
    short = {k: round(v, 6) if isinstance(v, float) else v for k, v in entry.items()}
    short["phases"] = {k: round(v, 3) for k, v in entry.get("phases", {}).items()}
    return short


def _reporting(report: Report | None) -> Watch | None:
    """Return a watch that tells of every epoch in a line."""
    return None if report is None else lambda _: nullcontext(_EpochLines(report))


class _RankingLines:
    """Tells of a ranking that takes minutes, now and then."""

    def __init__(self, report: Report) -> None:
        self.report, self.told = report, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if done < total and time.monotonic() - self.told >= _LINE_SECONDS:
            self.told = time.monotonic()
            self.report(f"ranked {done / total:.0%}")


class _EpochLines:
    def __init__(self, report: Report) -> None:
        self.report = report

    def on_step(self, epoch: int, batch: int) -> None:
        """Say nothing: a line per epoch is enough."""

    def on_epoch(self, entry: dict[str, Any], state: Any) -> None:
        named = ("prec@100%", "ap")
        values = ", ".join(f"{n} {entry[n]:.4f}" for n in named if n in entry)
        loss = "none" if entry["loss"] is None else f"{entry['loss']:.5f}"
        self.report(
            f"epoch {entry['epoch']}: loss {loss}, {values}, best "
            f"{state.best_value or 0:.4f} at {state.best_epoch}, "
            f"{entry['seconds']:.1f} s"
        )


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
