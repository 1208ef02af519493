"""Two workers against one, in the same run: identical results, and the efficiency.

Exact evaluation of ac on a synthetic graph of the family of ``benchmarks/scale.py``,
and two epochs of Gelato on an attributed one, on threads and on local Ray
workers. Engines are started and their kernels loaded before the clock starts; one
worker is timed before and after two. Writes ``results/benchmarks/workers.json``.

    python benchmarks/workers.py [NODES] [NODES_OF_TRAINING]
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gelato
from gelato.engines import ENGINES, make_engine, use_engine
from gelato.io import write_text_atomic
from gelato.storage import environment

TARGET = (
    Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "workers.json"
)
RECIPE = {"average_degree": 6.0, "exponent": 2.5, "max_degree": 1000}
# Rows enough for several spans, so that every worker is started.
WARM_UP = {"nodes": 1500, "max_degree": 100}
EPOCHS = 2
ORDER = (1, 2, 1)

Work = Callable[[], str]


def evaluation(**recipe: Any) -> Work:
    graph = gelato.make_synthetic_graph(seed=0, attributes=0, **(RECIPE | recipe))
    split = gelato.split_edges(graph)
    model = gelato.make("ac").fit(split)

    def work() -> str:
        counts = gelato.evaluate(model, split).counts
        return digest(counts.scores, counts.above, counts.tied)

    return work


def training(**recipe: Any) -> Work:
    graph = gelato.make_synthetic_graph(seed=0, attributes=64, **(RECIPE | recipe))
    split = gelato.split_edges(graph)

    def work() -> str:
        model = gelato.Gelato(epochs=EPOCHS, seed=1).fit(split)
        return digest(*(part.detach().numpy() for part in model.module_.parameters()))

    return work


def digest(*arrays: Any) -> str:
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(array.tobytes())
    return whole.hexdigest()[:16]


def timed(name: str, workers: int, warm_up: Work, work: Work) -> dict[str, Any]:
    started = time.perf_counter()
    with make_engine(name, workers=workers) as engine, use_engine(engine):
        warm_up()
        ready = time.perf_counter()
        result = work()
        done = time.perf_counter()
    return {
        "engine": name,
        "workers": workers,
        "start_seconds": ready - started,
        "seconds": done - ready,
        "result": result,
    }


def compare(what: str, warm_up: Work, work: Work) -> dict[str, Any]:
    engines = {}
    for name in ENGINES:
        runs = [timed(name, workers, warm_up, work) for workers in ORDER]
        one = min(run["seconds"] for run in runs if run["workers"] == 1)
        two = min(run["seconds"] for run in runs if run["workers"] == 2)
        engines[name] = {"runs": runs, "efficiency": one / (2 * two)}
        print(
            f"{what} on {name}: one worker {one:.1f} s, two {two:.1f} s, "
            f"efficiency {one / (2 * two):.2f}",
            flush=True,
        )
    results = {run["result"] for part in engines.values() for run in part["runs"]}
    print(f"{what}: results {'identical' if len(results) == 1 else 'DIFFER'}")
    return {"identical": len(results) == 1, "engines": engines}


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]]
    nodes, trained = (sizes + [100_000, 10_000][len(sizes) :])[:2]
    record = {
        "environment": environment(),
        "recipe": RECIPE,
        "evaluation": {"nodes": nodes}
        | compare("evaluation", evaluation(**WARM_UP), evaluation(nodes=nodes)),
        "training": {"nodes": trained, "epochs": EPOCHS}
        | compare("training", training(**WARM_UP), training(nodes=trained)),
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
