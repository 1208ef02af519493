"""The stack from split to exact average precision, beside Gelato's training.

The five benchmark graphs, and synthetic graphs of the family of
``benchmarks/scale.py`` with 100 attributes. Stack and Gelato each run in a fresh
process (peak memory is a process's, graph and kernels included) after the kernels are
compiled. Gelato trains for a few epochs only: what one takes, times the epochs of its
setting, is its time (``forecast``). Every run is kept in
``results/benchmarks/stack.json`` as soon as it is done: run again to go on, or with
``--again`` to start afresh.

    python benchmarks/stack.py [cora citeseer ... 10000 100000 1000000] [--again]
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

from scale import RECIPE, peak_mb

import gelato
from gelato.engines import default_threads
from gelato.io import write_text_atomic
from gelato.models.registry import preset
from gelato.splits import EdgeSplit
from gelato.storage import environment

TARGET = (
    Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "stack.json"
)
GRAPHS = ("cora", "citeseer", "pubmed", "photo", "computers")
SIZES = ("10000", "100000", "1000000")
FAMILY = RECIPE | {"attributes": 100}
# Seconds and megabytes on two idle cores that were asked for.
LIMITS = {
    "cora": (30, 3_000),
    "citeseer": (30, 3_000),
    "photo": (90, 3_000),
    "pubmed": (180, 3_000),
    "computers": (180, 3_000),
    "100000": (600, 4_000),
    "1000000": (5_400, 10_000),
}
EPOCHS = 2  # of Gelato, timed
SYNTHETIC_EPOCHS = 12  # what benchmarks/train_scale.py trains for


def drawn_split(name: str) -> EdgeSplit:
    """Load or draw a graph, and split it."""
    if name.isdigit():
        graph = gelato.make_synthetic_graph(int(name), seed=0, **FAMILY)
    else:
        graph = gelato.load_dataset(name)
    return gelato.split_edges(graph, seed=0)


def compile_kernels() -> None:
    """Run both on small graphs, so that no compiler is timed."""
    from gelato.stacking import pair_measures

    most = pair_measures.MOST_WHOLE, pair_measures.MOST_DIRECT
    split = drawn_split("400")
    for whole in (True, False):
        if not whole:
            pair_measures.MOST_WHOLE = pair_measures.MOST_DIRECT = 100
        model = gelato.make("stack", folds=1, rounds=2).fit(split)
        gelato.evaluate(model, split)
    pair_measures.MOST_WHOLE, pair_measures.MOST_DIRECT = most
    gelato.make("gelato", epochs=1).fit(split)


def measure(name: str, method: str) -> dict[str, Any]:
    """Fit and evaluate; meant for a fresh process."""
    compile_kernels()
    split = drawn_split(name)
    found: dict[str, Any] = {"nodes": split.graph.num_nodes}
    started = time.perf_counter()
    if method == "stack":
        model = gelato.make("stack", seed=1).fit(split)
    else:
        settings = preset(name) if name in GRAPHS else {}
        wanted = settings.get("epochs", SYNTHETIC_EPOCHS)
        model = gelato.Gelato(**settings | {"epochs": EPOCHS, "seed": 1}).fit(split)
        assert model.training_ is not None
        epoch = min(entry["seconds"] for entry in model.training_.history)
        rest = time.perf_counter() - started - EPOCHS * epoch
        found |= {"epoch": epoch, "epochs": wanted, "forecast": rest + wanted * epoch}
    fitted = time.perf_counter()
    ap = gelato.evaluate(model, split).ap
    done = time.perf_counter()
    return found | {
        "fit": fitted - started,
        "evaluate": done - fitted,
        "seconds": done - started,
        "peak_mb": peak_mb(),
        "ap": ap,
        "notes": list(model.notes_),
        "threads": default_threads(),
    }


def alone(*given: str) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, given)


def say(name: str, run: dict[str, Any]) -> None:
    stack, other = run["stack"], run["gelato"]
    seconds, memory = LIMITS.get(name, (float("inf"), float("inf")))
    kept = stack["seconds"] <= seconds and stack["peak_mb"] <= memory
    print(
        f"{name}: stack {stack['seconds']:,.0f} s, {stack['peak_mb']:,.0f} MB, AP "
        f"{stack['ap']:.2%} ({'within' if kept else 'MISSES'} {seconds:,} s and "
        f"{memory:,} MB); Gelato {other['forecast']:,.0f} s (forecast), "
        f"{other['peak_mb']:,.0f} MB: {other['forecast'] / stack['seconds']:.1f} times",
        flush=True,
    )


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--again"]
    record: dict[str, Any] = {"recipe": FAMILY, "runs": {}}
    if TARGET.exists() and "--again" not in sys.argv:
        record = json.loads(TARGET.read_text())
    for name in names or (*GRAPHS, *SIZES):
        run = record["runs"].setdefault(name, {})
        for method in ("stack", "gelato"):
            if method not in run:
                run[method] = alone(name, method)
                record["environment"] = environment()
                write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")
        say(name, run)


if __name__ == "__main__":
    main()
