"""Exact evaluation and top-1000 of ac on synthetic graphs up to ten million nodes.

Average degree 6, exponent 2.5, maximum degree 1,000, as ``gelato data make`` draws
them. Each size runs in a process of its own (peak memory is a process's, the graph and
the kernels included) after the kernels are compiled, and is kept in
``results/benchmarks/scale.json`` as soon as it is done: run again to go on, or with
``--again`` to start afresh. A line through the sizes gives the largest graph that a
budget of 30 minutes would take.

The largest size takes most of an hour twice over, on two idle cores.

    python benchmarks/scale.py [10000 100000 300000 1000000 3000000 10000000] [--again]
"""

from __future__ import annotations

import json
import math
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import gelato
from gelato.drawing import GREY, PALETTE, save_figure
from gelato.engines import default_threads
from gelato.io import write_text_atomic
from gelato.ranking import all_pairs, best_candidates
from gelato.storage import environment, peak_bytes

TARGET = (
    Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "scale.json"
)
SIZES = (10_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
RECIPE = {"average_degree": 6.0, "exponent": 2.5, "max_degree": 1000, "attributes": 0}
TOP = 1000
BUDGET = 30 * 60
# What is asked for on two idle cores: seconds for evaluation and for the best links,
# memory, time per near pair from 10^5 nodes on, and growth in near pairs.
MOST_SECONDS = {100_000: 30.0, 1_000_000: 60.0, 10_000_000: 3600.0}
MOST_MB = {100_000: 2000, 1_000_000: 2000, 10_000_000: 8192}
MOST_NS, MOST_NS_FROM = 25.0, 100_000
MOST_SLOPE = 1.1


def measure(nodes: int) -> dict[str, Any]:
    """Draw, split, evaluate and predict; meant for a fresh process."""
    compile_kernels()
    steps: dict[str, float] = {}
    graph = timed(steps, "draw", gelato.make_synthetic_graph, nodes, seed=0, **RECIPE)
    split = timed(steps, "split", gelato.split_edges, graph)
    model = gelato.make("ac").fit(split)
    before = peak_mb()
    result = timed(steps, "evaluate", gelato.evaluate, model, split)
    del split, model  # who asks for links has no split in memory
    rule = all_pairs(graph, graph.edges)
    scorer = gelato.make("ac").fit(graph).scorer(graph)
    best = timed(steps, "top", best_candidates, scorer, rule, TOP)
    near = result.counts.near_pairs
    candidates = result.counts.num_positives + result.counts.num_negatives
    degrees = np.bincount(graph.edges.ravel(), minlength=nodes)
    return {
        "nodes": nodes,
        "edges": graph.num_edges,
        "max_degree": int(degrees.max()),
        "candidates": candidates,
        "near_pairs": near,
        "near_share": near / candidates,
        "positives": result.counts.num_positives,
        "seconds": steps,
        "ns_per_near_pair": 1e9 * steps["evaluate"] / near,
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
        "threads": default_threads(),
        "ap": result.ap,
        "random_ap": result.random_ap,
        "best_score": float(best.scores[0]),
        "last_score": float(best.scores[-1]),
    }


def compile_kernels() -> None:
    """Compile or load every kernel, on a graph that takes no time."""
    # Large enough for the order of memory that large graphs have.
    small = gelato.make_synthetic_graph(
        40_000, seed=0, **(RECIPE | {"max_degree": 100})
    )
    split = gelato.split_edges(small)
    model = gelato.make("ac").fit(split)
    gelato.evaluate(model, split)
    best_candidates(model.scorer(small), all_pairs(small, small.edges), 10)


def timed(steps: dict[str, float], name: str, function: Any, *given: Any, **more: Any):
    started = time.perf_counter()
    result = function(*given, **more)
    steps[name] = time.perf_counter() - started
    return result


def peak_mb() -> float:
    return peak_bytes() / 2**20


def alone(nodes: int) -> dict[str, Any]:
    """Run in a fresh process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (nodes,))


def growth(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how time grows with near pairs and nodes, and what 30 minutes would take.

    Fitted on logarithmic axes to the larger sizes, where nothing is start-up.
    """
    large = [point for point in points if point["nodes"] >= 100_000] or points
    if len(large) < 2:
        return {}
    nodes = np.log([point["nodes"] for point in large])
    near = np.log([point["near_pairs"] for point in large])
    seconds = np.log([point["seconds"]["evaluate"] for point in large])
    by_nodes, constant = np.polyfit(nodes, seconds, 1)
    return {
        "slope_near_pairs": float(np.polyfit(near, seconds, 1)[0]),
        "slope_nodes": float(by_nodes),
        "nodes_in_30_minutes": int(math.exp((math.log(BUDGET) - constant) / by_nodes)),
    }


def draw(points: list[dict[str, Any]], grown: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    near = [point["near_pairs"] for point in points]
    for (name, label), colour, marker in zip(
        (("evaluate", "exact evaluation"), ("top", f"top {TOP:,}")),
        PALETTE,
        "os",
        strict=False,
    ):
        values = [point["seconds"][name] for point in points]
        left.loglog(near, values, color=colour, marker=marker, label=label)
    first = points[0]["seconds"]["evaluate"] / near[0]
    left.loglog(near, [first * x for x in near], color=GREY, ls=":", label="linear")
    slope = grown.get("slope_near_pairs")
    title = "Time by near pairs" + ("" if slope is None else f", slope {slope:.2f}")
    left.set(xlabel="near pairs", ylabel="seconds", title=title)
    left.legend(frameon=False)
    nodes = [point["nodes"] for point in points]
    peaks = [point["peak_mb"] for point in points]
    right.loglog(nodes, peaks, color=PALETTE[2], marker="^", label="peak memory")
    dense = [8e-6 * n * n for n in nodes]
    right.loglog(nodes, dense, color=GREY, ls="--", label="an n x n matrix")
    right.set(xlabel="nodes", ylabel="MB", title="Resident memory of the process")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.grid(alpha=0.3)
    return figure


def keep(points: dict[int, dict[str, Any]]) -> None:
    ordered = [points[nodes] for nodes in sorted(points)]
    grown = growth(ordered)
    record = {
        "environment": environment(),
        "recipe": RECIPE,
        "sizes": ordered,
        "growth": grown,
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")
    save_figure(draw(ordered, grown), TARGET.with_suffix(""))


def verdict(point: dict[str, Any]) -> str:
    """Return which targets a size has, and which it missed."""
    nodes, seconds = point["nodes"], point["seconds"]
    slowest = max(seconds["evaluate"], seconds["top"])
    asked = {"s": (slowest, MOST_SECONDS.get(nodes))}
    asked["MB"] = (point["peak_mb"], MOST_MB.get(nodes))
    most_ns = MOST_NS if nodes >= MOST_NS_FROM else None
    asked["ns per near pair"] = (point["ns_per_near_pair"], most_ns)
    said = [
        f"{limit:,.0f} {unit} {'met' if value < limit else 'MISSED'}"
        for unit, (value, limit) in asked.items()
        if limit is not None
    ]
    return "; targets: " + ", ".join(said) if said else ""


def main() -> None:
    again = "--again" in sys.argv
    sizes = [int(text) for text in sys.argv[1:] if not text.startswith("-")] or SIZES
    points: dict[int, dict[str, Any]] = {}
    if TARGET.exists() and not again:
        stored = json.loads(TARGET.read_text())["sizes"]
        points = {point["nodes"]: point for point in stored}
    for nodes in sizes:
        if nodes not in points:
            points[nodes] = alone(nodes)
            keep(points)
        point = points[nodes]
        seconds = point["seconds"]
        print(
            f"{nodes:,} nodes: {point['near_pairs']:,} near of "
            f"{point['candidates']:,} candidates, evaluated in "
            f"{seconds['evaluate']:.1f} s ({point['ns_per_near_pair']:.1f} ns per near "
            f"pair), top {TOP:,} in {seconds['top']:.1f} s, "
            f"{point['peak_mb']:,.0f} MB peak, {point['threads']} threads"
            f"{verdict(point)}",
            flush=True,
        )
    grown = growth([points[nodes] for nodes in sorted(points)])
    if grown:
        slope = grown["slope_near_pairs"]
        met = "met" if slope <= MOST_SLOPE else "MISSED"
        print(
            f"time grows with near pairs to the power {slope:.2f} (target "
            f"{MOST_SLOPE}: {met}); "
            f"30 minutes take about {grown['nodes_in_30_minutes']:,} nodes"
        )


if __name__ == "__main__":
    main()
