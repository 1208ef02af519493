"""Exact evaluation of ac: near and far pairs against the straightforward way.

Straightforward: the scipy float64 CSR product made dense, masked, ranked by
scikit-learn. Each way runs in a process of its own (peak memory is a process's);
both are timed in one run of this script, the faster one as the best of three after
kernels are compiled. Prints ratios and writes ``results/benchmarks/evaluate.json``.

    python benchmarks/evaluate.py [photo pubmed computers]
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import gelato
from gelato.storage import environment, peak_bytes

ROOT = Path(__file__).resolve().parent.parent
# The dense way needs about 40 bytes per pair of nodes: computers would take 8 GB.
DENSE = ("photo", "pubmed")


def ours(name: str) -> dict[str, Any]:
    split = gelato.split_edges(gelato.load_dataset(name))
    model = gelato.make("ac")
    gelato.evaluate(model, gelato.split_edges(gelato.load_dataset("citeseer")))
    before = peak_mb()
    times = []
    for _ in range(3):
        started = time.perf_counter()
        result = gelato.evaluate(model, split)
        times.append(time.perf_counter() - started)
    return {
        "seconds": min(times),
        "extra_mb": peak_mb() - before,
        "peak_mb": peak_mb(),
        "ap": result.ap,
        "near_pairs": result.counts.near_pairs,
        "candidates": result.counts.num_positives + result.counts.num_negatives,
    }


def straightforward(name: str) -> dict[str, Any]:
    import scipy.sparse as sp
    from sklearn.metrics import average_precision_score

    split = gelato.split_edges(gelato.load_dataset(name))
    before = peak_mb()
    started = time.perf_counter()
    matrix = split.train_graph.adjacency
    degrees = np.asarray(matrix.sum(axis=1)).ravel()
    matrix = sp.csr_array(matrix + sp.diags_array((degrees == 0).astype(float)))
    degrees = np.asarray(matrix.sum(axis=1)).ravel()
    volume = degrees.sum()
    step = sp.csr_array(sp.diags_array(1 / degrees) @ matrix)
    scores = (matrix @ step @ step).toarray()
    scores /= volume
    scores -= np.outer(degrees, degrees) / volume**2
    wanted = np.triu(np.ones(scores.shape, dtype=bool), 1)
    for known in (split.train, split.valid):
        wanted[known[:, 0], known[:, 1]] = False
    truth = np.zeros(scores.shape, dtype=bool)
    truth[split.test[:, 0], split.test[:, 1]] = True
    ap = average_precision_score(truth[wanted], scores[wanted])
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "extra_mb": peak_mb() - before, "ap": float(ap)}


def peak_mb() -> float:
    return peak_bytes() / 2**20


def alone(function: Any, name: str) -> dict[str, Any]:
    """Run in a fresh process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, (name,))


def main() -> None:
    names = sys.argv[1:] or ["photo", "pubmed", "computers"]
    record: dict[str, Any] = {"environment": environment(), "graphs": {}}
    for name in names:
        entry: dict[str, Any] = {"near_and_far": alone(ours, name)}
        fast = entry["near_and_far"]
        print(
            f"{name}: {fast['seconds']:.3f} s, AP {100 * fast['ap']:.2f}, "
            f"{fast['near_pairs']:,} near of {fast['candidates']:,} candidates, "
            f"{fast['extra_mb']:.0f} MB extra, {fast['peak_mb']:.0f} MB peak",
            flush=True,
        )
        if name in DENSE:
            slow = alone(straightforward, name)
            entry["straightforward"] = slow
            entry["times_faster"] = slow["seconds"] / fast["seconds"]
            entry["share_of_memory"] = fast["extra_mb"] / slow["extra_mb"]
            print(
                f"  straightforward: {slow['seconds']:.1f} s, AP "
                f"{100 * slow['ap']:.2f}, {slow['extra_mb']:.0f} MB extra: "
                f"{entry['times_faster']:.1f} times slower, our memory is "
                f"{entry['share_of_memory']:.3f} of it",
                flush=True,
            )
        record["graphs"][name] = entry
    target = ROOT / "results" / "benchmarks" / "evaluate.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
