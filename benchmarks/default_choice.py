"""The default choice on generated graphs of many kinds, beside plain heuristics.

On every graph the model that ``gelato.choose_model`` takes, and the best of the plain
heuristics by the test edges themselves, rank the same test edges among all pairs. The
choice may lose by at most two bootstrap standard errors of the difference. Writes
``results/benchmarks/default_choice.json`` after every graph; graphs that are in it
are not run again.

    python benchmarks/default_choice.py [--seconds 120] [--seed 0] [KIND ...]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import gelato
from gelato.choosing import choose_model
from gelato.graph import Graph
from gelato.io import write_text_atomic
from gelato.ranking.evaluate import candidates_of
from gelato.ranking.resampling import paired_gain, rank_positives
from gelato.splits import EdgeSplit, split_edges
from gelato.storage import environment

TARGET = (
    Path(__file__).resolve().parent.parent
    / "results"
    / "benchmarks"
    / "default_choice.json"
)
PLAIN = ("cn", "aa", "ra", "pa", "ac")
ERRORS = 2.0
"""Standard errors by which the choice may be below the best plain heuristic."""


def words(topic: Any, rng: Any, *, count: int = 120, own: float = 0.1) -> sp.csr_array:
    """Return binary attributes: words of a topic, and rarely any others."""
    topics = int(topic.max()) + 1
    mine = (np.arange(count) % topics)[None, :] == topic[:, None]
    drawn = rng.random(mine.shape) < np.where(mine, max(own, 3 * topics / count), 0.02)
    return sp.csr_array(drawn.astype(np.float32))


def draw_pairs(rng: Any, left: Any, right: Any, count: int) -> np.ndarray:
    """Return random pairs of two lists of nodes."""
    return np.stack([rng.choice(left, count), rng.choice(right, count)], axis=1)


def blocks(
    seed: int,
    n: int,
    topics: int,
    *,
    degree: float = 8.0,
    noise: float = 0.2,
    shift: int = 0,
    attributes: str = "topic",
) -> Graph:
    """Links inside topics, or between topics k and k + shift; some anywhere."""
    rng = np.random.default_rng(seed)
    topic = rng.permutation(np.arange(n) % topics)
    members = [np.flatnonzero(topic == k) for k in range(topics)]
    each = int(n * degree / 2 * (1 - noise) / topics)
    found = [
        draw_pairs(rng, members[k], members[(k + shift) % topics], each)
        for k in range(topics)
    ]
    found.append(draw_pairs(rng, n, n, int(n * degree / 2 * noise)))
    told = {
        "topic": lambda: words(topic, rng),
        "noise": lambda: words(rng.integers(0, topics, n), rng),
        "half": lambda: words(topic, rng) * (np.arange(n) % 2)[:, None],
        "none": lambda: None,
    }[attributes]()
    return made(n, np.concatenate(found), told)


def made(n: int, edges: np.ndarray, attributes: Any = None) -> Graph:
    """Return a graph of edges without loops; double ones count once."""
    edges = np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1)
    if attributes is not None and sp.issparse(attributes):
        attributes = sp.csr_array(attributes)
    return Graph.from_indices(n, np.unique(edges, axis=0), attributes=attributes)


def communities(seed: int, n: int, **options: Any) -> Graph:
    """Communities with power-law degrees and closed triangles."""
    return gelato.make_synthetic_graph(n, seed=seed, **options)


def hubs(seed: int, n: int, links: int = 3, attributes: bool = False) -> Graph:
    """Newcomers join nodes in proportion to their degree."""
    rng = np.random.default_rng(seed)
    ends = list(range(links))
    edges = []
    for node in range(links, n):
        chosen = {ends[i] for i in rng.integers(0, len(ends), links)}
        edges += [(other, node) for other in chosen]
        ends += [*chosen, *[node] * len(chosen)]
    noise = words(rng.integers(0, 8, n), rng) if attributes else None
    return made(n, np.array(edges), noise)


def bipartite(seed: int, n: int, topics: int, attributes: bool) -> Graph:
    """Links only between two sides, mostly of the same topic."""
    rng = np.random.default_rng(seed)
    topic, side = rng.integers(0, topics, n), np.arange(n) % 2
    parts = [
        draw_pairs(
            rng,
            np.flatnonzero((topic == k) & (side == 0)),
            np.flatnonzero((topic == k) & (side == 1)),
            int(2.5 * n / topics),
        )
        for k in range(topics)
    ]
    across = draw_pairs(
        rng, np.flatnonzero(side == 0), np.flatnonzero(side == 1), n // 2
    )
    told = words(topic + topics * side, rng) if attributes else None
    return made(n, np.concatenate([*parts, across]), told)


def tree(seed: int, n: int, attributes: bool = False) -> Graph:
    """Every node joins an earlier one."""
    rng = np.random.default_rng(seed)
    parent = (rng.random(n - 1) * np.arange(1, n)).astype(np.int64)
    branch = np.zeros(n, dtype=np.int64)
    for node in range(1, n):
        up = parent[node - 1]
        branch[node] = branch[up] if up else node % 12
    told = words(branch, rng) if attributes else None
    return made(n, np.stack([parent, np.arange(1, n)], axis=1), told)


def grid(seed: int, side: int, kept: float = 0.9) -> Graph:
    """Draw a square grid in which some links are missing."""
    rng = np.random.default_rng(seed)
    at = np.arange(side * side).reshape(side, side)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    edges = np.concatenate([across, down])
    return made(side * side, edges[rng.random(len(edges)) < kept])


def ring(seed: int, n: int, reach: int = 4, moved: float = 0.1) -> Graph:
    """Link near nodes on a ring, and move some links elsewhere: a small world."""
    rng = np.random.default_rng(seed)
    edges = np.concatenate(
        [
            np.stack([np.arange(n), (np.arange(n) + k) % n], axis=1)
            for k in range(1, reach + 1)
        ]
    )
    some = rng.random(len(edges)) < moved
    edges[some, 1] = rng.integers(0, n, int(some.sum()))
    return made(n, edges)


def space(seed: int, n: int, degree: float = 8.0, attributes: bool = True) -> Graph:
    """Near points of a square are linked, nine of ten; places are attributes."""
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(seed)
    places = rng.random((n, 2))
    radius = np.sqrt(degree / 0.9 / n / np.pi)
    edges = cKDTree(places).query_pairs(radius, output_type="ndarray")
    kept = edges[rng.random(len(edges)) < 0.9].astype(np.int64)
    turn = 2 * np.pi * places
    told = np.concatenate([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    return made(n, kept, told if attributes else None)


def keywords(seed: int, n: int, count: int, own: int = 4) -> Graph:
    """Nodes have a few keywords; many of those that share two are linked."""
    rng = np.random.default_rng(seed)
    columns = np.argsort(rng.random((n, count)), axis=1)[:, :own]
    rows = np.repeat(np.arange(n), own)
    X = sp.csr_array(
        (np.ones(n * own, np.float32), (rows, columns.ravel())), (n, count)
    )
    shared = sp.triu(X @ X.T, 1).tocoo()
    close = shared.data >= 2
    pairs = np.stack([shared.row[close], shared.col[close]], axis=1).astype(np.int64)
    noise = draw_pairs(rng, n, n, n // 2)
    kept = pairs[rng.random(len(pairs)) < 0.6]
    return made(n, np.concatenate([kept, noise]), X)


def papers(seed: int, n: int, size: int = 4) -> Graph:
    """Collaboration: groups of authors of a circle sign together, all with all."""
    rng = np.random.default_rng(seed)
    circle = rng.integers(0, max(2, n // 40), n)
    edges = []
    for _ in range(n // 2):
        near = np.flatnonzero(circle == rng.integers(0, circle.max() + 1))
        if len(near) < 2:
            continue
        team = rng.choice(
            near, min(len(near), rng.integers(2, size + 2)), replace=False
        )
        edges += [(a, b) for i, a in enumerate(team) for b in team[i + 1 :]]
    return made(n, np.array(edges))


Draw = Callable[[int], Graph]
KINDS: dict[str, Draw] = {
    "communities, 300": lambda s: blocks(s, 300, 15),
    "communities, 2,000": lambda s: communities(s, 2_000),
    "communities without attributes, 10,000": lambda s: communities(
        s, 10_000, attributes=0
    ),
    "communities, 20,000": lambda s: communities(s, 20_000),
    "hubs, 300": lambda s: hubs(s, 300),
    "hubs with useless attributes, 5,000": lambda s: hubs(s, 5_000, attributes=True),
    "bipartite, 600": lambda s: bipartite(s, 600, 10, False),
    "bipartite with attributes, 3,000": lambda s: bipartite(s, 3_000, 25, True),
    "tree, 500": lambda s: tree(s, 500),
    "tree with attributes, 5,000": lambda s: tree(s, 5_000, attributes=True),
    "grid, 900": lambda s: grid(s, 30),
    "grid, 10,000": lambda s: grid(s, 100),
    "noise, 1,000": lambda s: blocks(s, 1_000, 2, noise=1.0, attributes="none"),
    "noise with attributes, 1,000": lambda s: blocks(s, 1_000, 10, noise=1.0),
    "noisy communities, 2,000": lambda s: blocks(s, 2_000, 40, noise=0.6),
    "useless attributes, 1,500": lambda s: blocks(s, 1_500, 60, attributes="noise"),
    "half of the attributes, 800": lambda s: blocks(s, 800, 30, attributes="half"),
    "heterophilous, 400": lambda s: blocks(s, 400, 20, shift=1),
    "heterophilous, 3,000": lambda s: blocks(s, 3_000, 60, shift=1),
    "heterophilous without attributes, 1,000": lambda s: blocks(
        s, 1_000, 40, shift=1, attributes="none"
    ),
    "small world, 1,000": lambda s: ring(s, 1_000),
    "small world, 8,000": lambda s: ring(s, 8_000),
    "places, 1,000": lambda s: space(s, 1_000),
    "places without attributes, 6,000": lambda s: space(s, 6_000, attributes=False),
    "keywords, 500": lambda s: keywords(s, 500, 60),
    "keywords, 4,000": lambda s: keywords(s, 4_000, 200),
    "collaboration, 400": lambda s: papers(s, 400),
    "collaboration, 3,000": lambda s: papers(s, 3_000),
}


def gain_on_test(model: Any, split: EdgeSplit) -> dict[str, Any]:
    """Return the test AP of a model and of the best plain heuristic, and the gain."""
    rule = candidates_of(split, "test")

    def ranked(one: Any) -> Any:
        return rank_positives(one.scorer(split.train_graph), split.test, rule)

    def ap(found: Any) -> float:
        return float(found.average_precision(np.ones(len(split.test))))

    plain = {name: ranked(gelato.make(name).fit(split)) for name in PLAIN}
    best = max(plain, key=lambda name: ap(plain[name]))
    own = ranked(model)
    gain, error = paired_gain(own, plain[best])
    return {
        "ap": ap(own),
        "plain": best,
        "plain_ap": ap(plain[best]),
        "gain": gain,
        "error": error,
        "not_below": bool(gain >= -ERRORS * error),
    }


def judge(kind: str, *, seconds: float, seed: int) -> dict[str, Any]:
    """Return what the default choice reaches on a generated graph."""
    graph = KINDS[kind](seed)
    split = split_edges(graph, seed=seed)
    choice = choose_model(split, seconds=seconds, seed=seed)
    return {
        "kind": kind,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "attributes": graph.num_attributes,
        "test_edges": len(split.test),
        "chosen": choice.name,
        "reason": choice.reason,
        "took": choice.seconds,
        **gain_on_test(choice.model, split),
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many graphs there were, on how many it holds, and the median gain."""
    relative = [one["ap"] / one["plain_ap"] - 1 for one in found if one["plain_ap"] > 0]
    return {
        "graphs": len(found),
        "not_below": sum(one["not_below"] for one in found),
        "below": [one["kind"] for one in found if not one["not_below"]],
        "median_relative_gain": statistics.median(relative) if relative else None,
    }


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="only these; default all")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=TARGET)
    given = parser.parse_args()
    asked = {"seconds": given.seconds, "seed": given.seed}
    found: list[dict[str, Any]] = []
    if given.output.exists():
        kept = json.loads(given.output.read_text("utf-8"))
        found = kept["found"] if kept["asked"] == asked else []
    for kind in given.kinds or KINDS:
        if any(one["kind"] == kind for one in found):
            continue
        one = judge(kind, **asked)
        found.append(one)
        print(
            f"{kind}: {one['chosen']} {100 * one['ap']:.2f}, {one['plain']} "
            f"{100 * one['plain_ap']:.2f}, gain {100 * one['gain']:+.2f} "
            f"(error {100 * one['error']:.2f}){'' if one['not_below'] else ' BELOW'}",
            flush=True,
        )
        document = {
            "asked": asked,
            "summary": summary(found),
            "found": found,
            "environment": environment(),
        }
        given.output.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(given.output, json.dumps(document, indent=1) + "\n")
    print(json.dumps(summary(found), indent=1))


if __name__ == "__main__":
    main()
