"""What it costs to hand out weights and to sum gradients in a step on workers.

Two workers get all edge weights (float32) and give back a gradient of every edge
(float64), which is summed: by the engines, and by torch.distributed (gloo: broadcast
and reduce), in the same run. The engines sum parts in a fixed order, so that a result
does not depend on the number of workers; gloo sums by worker. Writes
``results/benchmarks/reduction.json``.

    python benchmarks/reduction.py [EDGES ...]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed, multiprocessing

from gelato.engines import make_engine
from gelato.io import write_text_atomic
from gelato.storage import environment

TARGET = (
    Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "reduction.json"
)
EDGES = (100_000, 1_000_000, 10_000_000)
WORKERS, STEPS = 2, 10


def part(weights: np.ndarray, item: int) -> np.ndarray:
    """Return a gradient, as a worker does for its share of the rows."""
    return np.full(len(weights), item + float(weights[0]))


def best(step: Callable[[], Any]) -> float:
    """Return the time of the fastest of some steps."""
    seconds = []
    for _ in range(STEPS + 1):
        started = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])


def engine_seconds(name: str, edges: int) -> float:
    weights = np.ones(edges, np.float32)
    expected = sum(range(WORKERS)) + WORKERS
    with make_engine(name, workers=WORKERS) as engine:

        def step() -> None:
            total = sum(engine.map(part, weights, range(WORKERS)))
            assert total[0] == total[-1] == expected

        return best(step)


def gloo_worker(rank: int, folder: str, edges: int) -> None:
    torch.set_num_threads(1)
    address = f"file://{folder}/meet"
    distributed.init_process_group(
        "gloo", init_method=address, rank=rank, world_size=WORKERS
    )
    weights = torch.ones(edges)

    def step() -> None:
        distributed.broadcast(weights, 0)
        gradient = torch.from_numpy(part(weights.numpy(), rank))
        distributed.reduce(gradient, 0)

    seconds = best(step)
    if rank == 0:
        Path(folder, "seconds").write_text(repr(seconds))
    distributed.destroy_process_group()


def gloo_seconds(edges: int) -> float:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(gloo_worker, args=(folder, edges), nprocs=WORKERS)
        return float(Path(folder, "seconds").read_text())


def main() -> None:
    rows = []
    for edges in [int(text) for text in sys.argv[1:]] or EDGES:
        row: dict[str, Any] = {"edges": edges, "gloo": gloo_seconds(edges)}
        for name in ("local", "ray"):
            row[name] = engine_seconds(name, edges)
        rows.append(row)
        told = ", ".join(
            f"{k} {1e3 * v:.1f} ms" for k, v in row.items() if k != "edges"
        )
        print(f"{edges:,} edges: {told}", flush=True)
    record = {"environment": environment(), "workers": WORKERS, "rows": rows}
    write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
