"""Write run folders, trainings and studies as the version of today writes them.

It was run once, with gelato 0.1.0 as it was before its modules were rearranged; what it
wrote is kept in ``folders/``, and what came out of it in ``expected.json``. It is here
as documentation: new versions must read the old folders, so they are not written again.
Only public names of gelato are used.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import polars as pl

import gelato
from support import exact_bits as bits

HERE = Path(__file__).parent
FOLDERS, EXPECTED = HERE / "folders", HERE / "expected.json"
NODES, ATTRIBUTES = 40, 6
SHARES = {"valid": 0.1, "test": 0.1}
SHORT = {"epochs": 2, "batches": 2, "hidden": 4}
NET = {"epochs": 2, "validate_exact_every": None}

# Saved by model.save, by name of the folder.
SAVED: dict[str, tuple[str, dict[str, Any]]] = {
    "aa": ("aa", {}),
    "ac": ("ac", {"t": 4, "self_loops": "all"}),
    "cos+ac": ("cos+ac", {"eta": 0.5}),
    "gelato": ("gelato", {**SHORT, "eta": 0.5, "alpha": 0.5, "beta": 0.25}),
    "gelato-mixture": ("gelato", {**SHORT, "heuristic": "mixture"}),
    "mlp": ("mlp", SHORT),
    "mlp+ac": ("mlp+ac", SHORT),
    "gae": ("gae", {**NET, "hidden": 4, "dimensions": 4}),
    "bscnets": ("bscnets", {**NET, "sampled_edges": 30}),
    "neo-gnn": ("neo-gnn", {**NET, "hidden": 4, "pair_units": 4, "batches": 2}),
    "seal": ("seal", {**NET, "hidden": 4, "steps": 2}),
}
# Stopped after the first of three epochs; a folder with a checkpoint only. Where the
# last epoch alone is validated, it is kept, so that scores follow from all three.
UNFINISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "gelato-unfinished": (
        "gelato",
        {**SHORT, "epochs": 3, "eta": 0.5, "alpha": 0.5, "validate_every": 3},
    ),
    "gelato-best-first": ("gelato", {**SHORT, "epochs": 3, "eta": 0.5, "alpha": 0.5}),
    "mlp+ac-unfinished": ("mlp+ac", {**SHORT, "epochs": 3, "validate_every": 3}),
    "gae-unfinished": ("gae", {**NET, "epochs": 3, "hidden": 4, "metric": "last"}),
    "neo-gnn-unfinished": (
        "neo-gnn",
        {**NET, "epochs": 3, "hidden": 4, "pair_units": 4, "batches": 2},
    ),
}
# Studies that were interrupted: model, options of gelato.tune, finished trials.
STUDIES: dict[str, tuple[str, dict[str, Any], int]] = {
    "cos+ac.jsonl": ("cos+ac", {"search": "line", "trials": 6, "metric": "ap"}, 3),
    "gelato.jsonl": (
        "gelato",
        {
            "search": "grid",
            "metric": "ap",
            "seed": 1,
            "parameters": SHORT,
            "space": {"eta": (0.0, 0.5), "alpha": (0.0, 0.5)},
        },
        2,
    ),
}
EVALUATION = "evaluation-unfinished"
DATA = ("--edges", "edges.csv", "--attributes", "attributes.csv")
PARTS = ("--valid", "0.1", "--test", "0.1")


def command_settings(parameters: dict[str, Any]) -> list[str]:
    """Return parameters as options of the command line."""
    return [word for k, v in parameters.items() for word in ("--set", f"{k}={v}")]


# Written by the command line, by name of the folder or file.
COMMANDS: dict[str, list[str]] = {
    "command-fit": ["fit", "-m", "mlp", *command_settings(SHORT), "-o"],
    "command-run": ["run", "-m", "cos+ac", "--top", "5", "-o"],
    "command-tune": ["tune", "-m", "ac", "--try", "t=2,3", "--metric", "ap", "-o"],
    "compared.parquet": ["compare", "-m", "cn,ac", "--splits", "2", "-o"],
}
RUNS = [*SAVED, "command-fit", "command-run", "command-tune"]


def read_data() -> gelato.Graph:
    """Return the graph of the two tables that are kept beside the folders."""
    return gelato.read_graph(FOLDERS / "edges.csv", FOLDERS / "attributes.csv")


def split() -> gelato.EdgeSplit:
    """Return the split that everything was fitted on."""
    return gelato.split_edges(read_data(), seed=0, **SHARES)


def run_facts(model: Any, folder: Path | None = None) -> dict[str, Any]:
    """Return what must come out of a model: numbers everywhere, bits on one machine."""
    parts = model.split_
    known = bits.all_scores(model, model.graph_)
    seen = bits.all_scores(model, parts.train_graph)
    links = model.predict(top=3)
    weights = bits.weights_of(folder) if folder else bits.saved_weights(model)[0]
    training = getattr(model, "training_", None)
    return {
        "parameters": model.get_params(),
        "split": parts.fingerprint,
        "losses": [] if training is None else [x["loss"] for x in training.history],
        "best epoch": None if training is None else training.best_epoch,
        "weights": weights["names"],
        "size": float(np.abs(seen).max()),
        "scores": bits.some(seen),
        "ap": gelato.evaluate(model, parts).ap,
        "bits": {
            "weights": weights["hash"],
            "scores": [bits.digest(seen), bits.digest(known)],
            "links": [list(row) for row in links.rows()],
        },
    }


def trials_of(tuned: Any) -> list[dict[str, Any]]:
    """Return the trials of a tuning without their times."""
    return tuned.trials.drop("seconds").to_dicts()


def summary_of(file: Path) -> list[dict[str, Any]]:
    """Return what a kept comparison tells, without its times."""
    table = gelato.summarise_comparison(pl.read_parquet(file))
    return table.drop([x for x in table.columns if "seconds" in x]).to_dicts()


def _write_data() -> None:
    graph = bits.block_graph(NODES, ATTRIBUTES, inside=0.35)
    names = [f"n{k:02}" for k in range(NODES)]
    with (FOLDERS / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [(names[u], names[v]) for u, v in graph.edges]
        csv.writer(file, lineterminator="\n").writerows([("source", "target"), *rows])
    with (FOLDERS / "attributes.csv").open("w", newline="", encoding="utf-8") as file:
        values = graph.attributes.toarray().astype(int).tolist()
        header = ("node", *(f"word{k}" for k in range(ATTRIBUTES)))
        rows = [(name, *row) for name, row in zip(names, values, strict=True)]
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def _stop_after(epoch: int) -> Callable[..., None]:
    def told(entry: dict[str, Any], progress: Any) -> None:
        if entry["epoch"] == epoch:
            raise KeyboardInterrupt

    return told


def _stop_in_trial(number: int) -> Callable[..., None]:
    def told(what: str, done: int, total: int) -> None:
        # A training is told epoch by epoch: a trial is counted before it is kept.
        if what and done >= number and ("epoch" not in what or done > number):
            raise KeyboardInterrupt

    return told


def _leave_unfinished(name: str) -> dict[str, Any]:
    """Write a folder with a checkpoint; return what the whole training gives."""
    model, parameters = UNFINISHED[name]
    try:
        made = gelato.make(model, **parameters)
        made.fit(split(), folder=FOLDERS / name, on_epoch=_stop_after(1))
    except KeyboardInterrupt:
        return run_facts(gelato.make(model, **parameters).fit(split()))
    raise AssertionError("the training was not stopped")


def _leave_evaluation() -> dict[str, Any]:
    """Leave an evaluation after its first rows; return what the whole of it gives."""
    model = gelato.make("cos").fit(split())
    try:
        gelato.evaluate(model, split(), resume=FOLDERS / EVALUATION, progress=_stop)
    except KeyboardInterrupt:
        result = gelato.evaluate(model, split())
        return {"ap": result.ap, "auc": result.auc, "mrr": result.mrr}
    raise AssertionError("the evaluation was not stopped")


def _stop(done: int, total: int) -> None:
    raise KeyboardInterrupt


def _leave_study(name: str) -> dict[str, Any]:
    """Write a study that was interrupted; return what the whole study gives."""
    model, options, done = STUDIES[name]
    place, stop = FOLDERS / name, _stop_in_trial(done)
    try:
        gelato.tune(model, split(), study=place, progress=stop, **options)
    except KeyboardInterrupt as stopped:
        first = trials_of(stopped.tuned)  # type: ignore[attr-defined]
        whole = gelato.tune(model, split(), **options)
        return {"first": first, "trials": trials_of(whole)}
    raise AssertionError("the study was not stopped")


def _command(name: str) -> None:
    words = [*COMMANDS[name], name, *DATA]
    if name != "compared.parquet":
        words += PARTS
    # One thread of torch, as in what is measured here.
    subprocess.run(
        [sys.executable, "-m", "gelato", *words],
        cwd=FOLDERS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    )


def _write_all() -> dict[str, Any]:
    _write_data()
    split().save(FOLDERS / "split.parquet")
    for name, (model, parameters) in SAVED.items():
        gelato.make(model, **parameters).fit(split()).save(FOLDERS / name)
    for name in COMMANDS:
        _command(name)
    return {
        "gelato": gelato.__version__,
        "machine": bits.machine(),
        "split": split().fingerprint,
        "runs": {n: run_facts(gelato.load(FOLDERS / n), FOLDERS / n) for n in RUNS},
        "unfinished": {name: _leave_unfinished(name) for name in UNFINISHED},
        "evaluation": _leave_evaluation(),
        "studies": {name: _leave_study(name) for name in STUDIES},
        "compared": summary_of(FOLDERS / "compared.parquet"),
    }


if __name__ == "__main__":
    if FOLDERS.exists():
        sys.exit("The old folders exist; a new version must read them as they are.")
    FOLDERS.mkdir()
    try:
        with bits.one_torch_thread():
            bits.write_json(EXPECTED, _write_all())
    except BaseException:
        shutil.rmtree(FOLDERS)
        raise
