"""The best 1,000 links by what one would use instead, at the largest size it manages.

Every tool ranks all pairs that are no edges, exactly: by resource allocation
(scikit-network by the cosine of neighbourhoods, the one such score that it has). Each
runs in a fresh process, on synthetic graphs of the family of ``benchmarks/scale.py``
that grow threefold until a tool takes more than ``--seconds`` or more memory than
``--gigabytes``. gelato then does the same at that size, in the same run, and the scores
are compared. Writes ``results/benchmarks/alternatives.json``.

    pip install sparse_dot_topn scikit-network torch_geometric
    python benchmarks/alternatives.py [--seconds 120] [--gigabytes 12] [TOOL ...]
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scale import RECIPE, compile_kernels, peak_mb

import gelato
from gelato.graph import Graph
from gelato.io import write_text_atomic
from gelato.ranking.best import best_candidates
from gelato.ranking.candidates import all_pairs
from gelato.storage import environment

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "results" / "benchmarks" / "alternatives.json"
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
TOP = 1_000
WAIT = 3  # times the limit, before a process is given up


def by_gelato(graph: Graph, score: str) -> np.ndarray:
    scorer = gelato.make(score).fit(graph).scorer(graph)
    return best_candidates(scorer, all_pairs(graph, graph.edges), TOP).scores


def by_networkx(graph: Graph, score: str) -> np.ndarray:
    import networkx as nx

    given = nx.Graph()
    given.add_nodes_from(range(graph.num_nodes))
    given.add_edges_from(graph.edges.tolist())
    triples = nx.resource_allocation_index(given)
    return np.array(heapq.nlargest(TOP, (found for _, _, found in triples)))


def by_scipy(graph: Graph, score: str) -> np.ndarray:
    adjacency = graph.adjacency
    product = adjacency @ _scaled(graph)
    return _best(sp.triu(product, 1), graph)


def by_sparse_dot_topn(graph: Graph, score: str) -> np.ndarray:
    from sparse_dot_topn import sp_matmul_topn

    # Known edges and the node itself may stand above the links of a row.
    most = TOP + int(graph.degrees.max()) + 1
    two = (sp.csr_matrix(graph.adjacency), sp.csr_matrix(_scaled(graph)))
    found = sp_matmul_topn(*two, top_n=most, n_threads=2)
    return _best(sp.triu(found, 1), graph)


def by_scikit_network(graph: Graph, score: str) -> np.ndarray:
    from sknetwork.linkpred import NNLinker

    most = min(graph.num_nodes - 1, TOP + int(graph.degrees.max()) + 1)
    linker = NNLinker(n_neighbors=most, threshold=1e-12)
    links = linker.fit_predict(sp.csr_matrix(graph.adjacency))
    return _best(sp.triu(sp.csr_array(links), 1), graph)


def by_pyg(graph: Graph, score: str) -> np.ndarray:
    import torch
    from torch_geometric.utils import to_dense_adj

    ends = torch.from_numpy(np.r_[graph.edges, graph.edges[:, ::-1]].T.copy())
    dense = to_dense_adj(ends, max_num_nodes=graph.num_nodes)[0].double()
    scaled = dense / dense.sum(1).clamp(min=1.0)[:, None]
    scores = (dense @ scaled).triu_(1)
    scores[ends[0], ends[1]] = 0.0
    return scores.flatten().topk(TOP).values.numpy()


TOOLS: dict[str, tuple[Callable[[Graph, str], np.ndarray], str]] = {
    "networkx": (by_networkx, "ra"),
    "scikit-network": (by_scikit_network, "salton"),
    "PyG, dense": (by_pyg, "ra"),
    "scipy": (by_scipy, "ra"),
    "sparse_dot_topn": (by_sparse_dot_topn, "ra"),
}


def _scaled(graph: Graph) -> Any:
    return sp.diags_array(1.0 / np.maximum(graph.degrees, 1.0)) @ graph.adjacency


def _best(upper: Any, graph: Graph) -> np.ndarray:
    """Return the best scores of pairs that are no edges."""
    found = sp.coo_array(upper)
    n = graph.num_nodes
    keys = found.row.astype(np.int64) * n + found.col
    new = ~np.isin(keys, graph.edges @ [n, 1])
    scores = found.data[new]
    return np.partition(scores, len(scores) - TOP)[-TOP:]


def measure(tool: str, nodes: int, score: str, gigabytes: float) -> dict[str, Any]:
    """Rank in a fresh process."""
    rank = by_gelato if tool == "gelato" else TOOLS[tool][0]
    # What is loaded or compiled is not timed.
    if tool == "gelato":
        compile_kernels()
    rank(gelato.make_synthetic_graph(SIZES[0], seed=0, **RECIPE), score)
    # Address space, which is what can be limited, is more than what is used.
    limit = int((gigabytes + 4) * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    graph = gelato.make_synthetic_graph(nodes, seed=0, **RECIPE)
    _ = graph.adjacency, graph.degrees
    started = time.perf_counter()
    try:
        scores = rank(graph, score)
    except (MemoryError, RuntimeError) as error:
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    seconds = time.perf_counter() - started
    told = {"nodes": nodes, "seconds": seconds, "mb": peak_mb()}
    return told | {"scores": np.sort(scores)[::-1]}


def alone(*given: Any, wait: float) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply_async(measure, given).get(wait)
        except multiprocessing.TimeoutError:
            return {"failed": f"stopped after {wait:,.0f} s"}


def climb(tool: str, seconds: float, gigabytes: float) -> dict[str, Any]:
    """Return the largest size that a tool manages, and why it ends there."""
    score = TOOLS[tool][1]
    best: dict[str, Any] | None = None
    ended = "the largest size tried"
    for nodes in SIZES:
        found = alone(tool, nodes, score, gigabytes, wait=WAIT * seconds + 60)
        if "failed" in found:
            ended = f"{nodes:,} nodes: {found['failed']}"
            break
        if found["seconds"] > seconds or found["mb"] > 1024 * gigabytes:
            used = f"{found['seconds']:,.0f} s, {found['mb']:,.0f} MB"
            ended = f"{nodes:,} nodes: {used}"
            break
        best = found
    if best is None:
        return {"score": score, "ended": ended}
    ours = alone("gelato", best["nodes"], score, gigabytes, wait=WAIT * seconds + 60)
    np.testing.assert_allclose(ours.pop("scores"), best.pop("scores"), rtol=1e-6)
    faster = best["seconds"] / ours["seconds"]
    told = {"score": score, "theirs": best, "gelato": ours, "times_faster": faster}
    return told | {"ended": ended}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tools", nargs="*", default=list(TOOLS))
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--gigabytes", type=float, default=12.0)
    options = parser.parse_args()
    record: dict[str, Any] = {"tools": {}}
    if TARGET.exists():
        record = json.loads(TARGET.read_text())
    limits = {"seconds": options.seconds, "gigabytes": options.gigabytes}
    for tool in options.tools:
        found = climb(tool, **limits)
        record["tools"][tool] = found | {"limits": limits}
        record["environment"] = environment()
        write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")
        if "theirs" not in found:
            print(f"{tool}: nothing ({found['ended']})", flush=True)
            continue
        theirs, ours = found["theirs"], found["gelato"]
        print(
            f"{tool}: {theirs['nodes']:,} nodes in {theirs['seconds']:.2f} s and "
            f"{theirs['mb']:,.0f} MB; gelato {ours['seconds']:.2f} s and "
            f"{ours['mb']:,.0f} MB ({found['times_faster']:,.1f} times faster). "
            f"It ends at {found['ended']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
