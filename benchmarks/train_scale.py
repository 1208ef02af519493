"""Gelato trained and exactly evaluated on large attributed synthetic graphs, beside AC.

The graphs are of the family of ``benchmarks/scale.py``, with the attributes that
``gelato data make`` gives them. Each seed runs in a process of its own (peak memory is
a process's: graph, kernels and evaluation included) and is kept in
``results/benchmarks/train_scale.json`` as soon as it is done: run again to go on.
Settings were chosen on the validation edges of a graph of 10,000 nodes
(``--choose``, kept in the record as ``chosen``).

    python benchmarks/train_scale.py [NODES] [SEEDS] [EPOCHS] | --choose
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from scale import RECIPE, peak_mb

import gelato
from gelato.engines import default_threads
from gelato.io import write_text_atomic
from gelato.splits import EdgeSplit
from gelato.storage import environment

TARGET = (
    Path(__file__).resolve().parent.parent
    / "results"
    / "benchmarks"
    / "train_scale.json"
)
FAMILY = {name: value for name, value in RECIPE.items() if name != "attributes"}
SETTINGS = {"eta": 0.5, "alpha": 0.5, "beta": 0.5}
# Beyond this size few epochs fit into the time: they start from even weights, so that
# none of them is spent on learning what autocovariance knows.
FEW_EPOCHS = 300_000
EVEN = {"start": "even", "metric": "ap"}
LARGE = SETTINGS | EVEN
CANDIDATES = ({}, SETTINGS, {"lr": 0.003}, EVEN, LARGE, LARGE | {"lr": 0.003})
EVERY = 4


def drawn_split(nodes: int) -> EdgeSplit:
    return gelato.split_edges(gelato.make_synthetic_graph(nodes, seed=0, **FAMILY))


def measure(nodes: int, seed: int, epochs: int) -> dict[str, Any]:
    """Draw, split, train and evaluate; meant for a fresh process."""
    started = time.perf_counter()
    split = drawn_split(nodes)
    drawn = time.perf_counter()
    settings: dict[str, Any] = SETTINGS if nodes <= FEW_EPOCHS else LARGE
    model = gelato.Gelato(
        **settings, epochs=epochs, validate_every=EVERY, negatives="near", seed=seed
    ).fit(split, on_epoch=say)
    fitted = time.perf_counter()
    ours = gelato.evaluate(model, split)
    done = time.perf_counter()
    plain = gelato.evaluate(gelato.make("ac").fit(split), split)
    assert model.training_ is not None
    return {
        "nodes": nodes,
        "edges": split.graph.num_edges,
        "seed": seed,
        "split": split.fingerprint,
        "settings": settings,
        "epochs": epochs,
        "best_epoch": model.training_.best_epoch,
        "notes": list(model.notes_),
        "seconds": {
            "draw": drawn - started,
            "fit": fitted - drawn,
            "evaluate": done - fitted,
            "all": done - started,
        },
        "phases": summed(model.training_.history),
        "peak_mb": peak_mb(),
        "threads": default_threads(),
        "gelato": {"ap": ours.ap, "auc": ours.auc, "prec": ours.precision_at(1.0)},
        "ac": {"ap": plain.ap, "auc": plain.auc, "prec": plain.precision_at(1.0)},
    }


def say(entry: dict[str, Any], state: Any) -> None:
    shown = f"{entry['ap']:.2%}" if "ap" in entry else "-"
    print(
        f"  epoch {entry['epoch']}: loss {entry['loss']:.4f}, validation AP "
        f"{shown}, {entry['seconds']:.1f} s, {peak_mb():,.0f} MB",
        flush=True,
    )


def summed(history: list[dict[str, Any]]) -> dict[str, float]:
    names = dict.fromkeys(name for entry in history for name in entry["phases"])
    return {
        name: sum(entry["phases"].get(name, 0.0) for entry in history) for name in names
    }


def alone(*given: Any) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, given)


def choose() -> list[dict[str, Any]]:
    """Return the validation AP of every candidate, and of AC."""
    split = drawn_split(10_000)
    models = {"ac": gelato.make("ac").fit(split)}
    for settings in CANDIDATES:
        made = gelato.Gelato(**settings, epochs=20, negatives="near", seed=1)
        models[json.dumps(settings)] = made.fit(split)
    return [
        {
            "settings": name,
            "validation ap": gelato.evaluate(one, split, part="valid").ap,
        }
        for name, one in models.items()
    ]


def keep(record: dict[str, Any]) -> None:
    for size in {run["nodes"] for run in record["runs"]}:
        ap = [run["gelato"]["ap"] for run in record["runs"] if run["nodes"] == size]
        record["summary"][str(size)] = {
            "gelato_ap": statistics.fmean(ap),
            "gelato_ap_sd": statistics.stdev(ap) if len(ap) > 1 else None,
            "ac_ap": next(r["ac"]["ap"] for r in record["runs"] if r["nodes"] == size),
            "most_seconds": max(
                r["seconds"]["all"] for r in record["runs"] if r["nodes"] == size
            ),
            "peak_mb": max(r["peak_mb"] for r in record["runs"] if r["nodes"] == size),
        }
    record["environment"] = environment()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")


def main() -> None:
    record: dict[str, Any] = {"recipe": FAMILY, "runs": [], "summary": {}}
    if TARGET.exists():
        record = json.loads(TARGET.read_text())
    given = sys.argv[1:]
    if given == ["--choose"]:
        record["chosen"] = choose()
        keep(record)
        return
    nodes, seeds, epochs = (int(a) for a in (*given, *(100_000, 3, 12)[len(given) :]))
    for seed in range(1, seeds + 1):
        known = {(run["nodes"], run["seed"]) for run in record["runs"]}
        if (nodes, seed) not in known:
            record["runs"].append(alone(nodes, seed, epochs))
            keep(record)
    print(json.dumps(record["summary"][str(nodes)], indent=1))


if __name__ == "__main__":
    main()
