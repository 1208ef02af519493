"""Indices of networkx beside this backend's, for all candidate pairs of a graph.

In one run, in seconds of the processor (each has one thread): networkx's iterator
consumed to its end, ours, and ours as arrays, with the conversion of the graph counted;
scores are compared. networkx alone takes minutes per index on photo. Writes
``results/benchmarks/networkx_backend.json``.

    python benchmarks/networkx_backend.py [--graph photo] [INDEX ...]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import gelato
from gelato.io import write_text_atomic
from gelato.networkx_backend import indices
from gelato.storage import environment

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "results" / "benchmarks" / "networkx_backend.json"
NAMES = ("jaccard_coefficient", "adamic_adar_index", "resource_allocation_index")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def scores(triples: Any) -> np.ndarray:
    """Consume an iterator, keeping the scores alone."""
    return np.fromiter((score for _, _, score in triples), np.float64)


def measure(graph: nx.Graph, name: str) -> dict[str, Any]:
    fast, found = timed(lambda: indices.index_arrays(graph, name))
    ours = getattr(indices, name)
    lazy, mine = timed(lambda: scores(ours(indices.convert_from_nx(graph))))
    slow, theirs = timed(lambda: scores(getattr(nx, name)(graph)))
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    np.testing.assert_allclose(np.sort(found.score), np.sort(theirs), rtol=1e-12)
    return {
        "pairs": len(theirs),
        "networkx_seconds": slow,
        "iterator_seconds": lazy,
        "arrays_seconds": fast,
        "iterator_times_faster": slow / lazy,
        "arrays_times_faster": slow / fast,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--graph", default="photo")
    options = parser.parse_args()
    data = gelato.load_dataset(options.graph)
    graph = nx.Graph()
    graph.add_nodes_from(range(data.num_nodes))
    graph.add_edges_from(data.edges.tolist())
    found = {}
    for name in options.names:
        found[name] = measure(graph, name)
        print(options.graph, name, json.dumps(found[name]), flush=True)
    record = {"environment": environment(), "graph": options.graph, "indices": found}
    write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
