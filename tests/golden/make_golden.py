"""Record what every model gives on small graphs.

Run it with ``python tests/golden/make_golden.py``.
``golden.json`` pins the behaviour of today, to the last bit on the machine that it was
recorded on. Record it again only where a change of results is meant, and say so in the
change log. For another kind of processor, record a file of its own beside it, by the
commit that recorded ``golden.json``: ``make_golden.py golden-NAME.json``. Only public
names of gelato are used, so that modules may move.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import gelato
from support import exact_bits as bits

PLACE = Path(__file__).with_name("golden.json")
PLACES = (PLACE, *sorted(PLACE.parent.glob("golden-*.json")))
NODES, SMALLER = 72, 42

STEP = {"epochs": 1, "batches": 1}
# Validated only at the end, so that the last weights are kept, not the best ones.
SHORT = {"epochs": 2, "batches": 3, "validate_every": 2}
SMALL = {"hidden": 8}
ONE, TWO = {**STEP, **SMALL}, {**SHORT, **SMALL}
MIX = {"eta": 0.5, "alpha": 0.5, "beta": 0.25, "self_loops": "all"}
# Networks rank all pairs only where that is the point: it takes longer than training.
NET = {"validate_exact_every": None}
NET_ONE, NET_TWO = {**NET, **STEP}, {**NET, **SHORT, "batches": 1}
UNBIASED = {**NET, **SHORT, "training": "unbiased", "loss": "balanced"}
PARTS_ONE = {**NET, "epochs": 1, "batch_size": 16, "steps": 1}
PARTS_TWO = {**NET, "epochs": 2, "validate_every": 2, "batch_size": 24, "steps": 3}
WALKPOOL = {"hidden": 8, "units": 12, "pretraining": 3, "dimensions": 8}

# Title: model, kind of graph, parameters.
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{
        f"{name}, {kind}": (name, kind, {})
        for name in ("cn", "aa", "ra", "pa", "ac", "cos", "cos+ac")
        for kind in ("plain", "weighted", "directed")
        if kind != "directed" or name in ("pa", "ac", "cos", "cos+ac")
    },
    "ac, t 2, all loops": ("ac", "plain", {"t": 2, "self_loops": "all"}),
    "ac, t 5, directed": ("ac", "directed", {"t": 5}),
    "ac, no attributes": ("ac", "bare", {}),
    "cos, dense": ("cos", "dense", {}),
    "cos+ac, few pairs": ("cos+ac", "plain", {"eta": 0.3, "alpha": 0.8, "t": 2}),
    "cos+ac, dense": ("cos+ac", "dense", {}),
    "mlp, one step": ("mlp", "plain", ONE),
    "mlp": ("mlp", "plain", TWO),
    "mlp, defaults": ("mlp", "plain", SHORT),
    "mlp, seed 3, by ap": ("mlp", "plain", {**TWO, "seed": 3, "metric": "ap"}),
    "mlp, n-pair": ("mlp", "plain", {**TWO, "loss": "n-pair", "training": "unbiased"}),
    "mlp, listnet": ("mlp", "plain", {**TWO, "loss": "listnet"}),
    "mlp, dense": ("mlp", "dense", TWO),
    "mlp, small chunks": ("mlp", "plain", {**TWO, "chunk": 50}),
    "mlp+ac, one step": ("mlp+ac", "plain", ONE),
    "mlp+ac": ("mlp+ac", "plain", TWO),
    "mlp+ac, weighted": ("mlp+ac", "weighted", {**TWO, "alpha": 0.3}),
    "mlp+cos+ac, one step": ("mlp+cos+ac", "plain", ONE),
    "mlp+cos+ac": ("mlp+cos+ac", "plain", TWO),
    "gelato, one step": ("gelato", "plain", ONE),
    "gelato": ("gelato", "plain", TWO),
    "gelato, defaults": ("gelato", "plain", SHORT),
    "gelato, best epoch": ("gelato", "plain", {**TWO, "validate_every": 1}),
    "gelato, mix, one step": ("gelato", "plain", {**ONE, **MIX}),
    "gelato, mix": ("gelato", "plain", {**TWO, **MIX}),
    "gelato, mix, dense attributes": ("gelato", "dense", {**TWO, **MIX}),
    "gelato, mix, weighted": ("gelato", "weighted", {**TWO, **MIX}),
    "gelato, directed": ("gelato", "directed", {**TWO, **MIX}),
    "gelato, no attributes": ("gelato", "bare", TWO),
    "gelato, nothing learned": ("gelato", "plain", {**MIX, "beta": 0.0}),
    "gelato, t 2": ("gelato", "plain", {**TWO, "t": 2}),
    "gelato, t 4": ("gelato", "plain", {**TWO, "t": 4}),
    "gelato, no dropout": ("gelato", "plain", {**TWO, "dropout": 0.0}),
    "gelato, small chunks": ("gelato", "plain", {**TWO, **MIX, "chunk": 50}),
    **{
        f"gelato, {value}": ("gelato", "plain", {**TWO, **MIX, name: value})
        for name, value in (
            ("loss", "cross-entropy"),
            ("loss", "listnet"),
            ("training", "biased"),
            ("training", "partitioned"),
            ("training", "adversarial"),
            ("negatives", "near"),
            ("heuristic", "cn"),
            ("heuristic", "aa"),
            ("heuristic", "ra"),
            ("heuristic", "mixture"),
            ("masking", "one-sided"),
        )
    },
    "gelato, cross-entropy, biased": (
        "gelato",
        "plain",
        {**TWO, "loss": "cross-entropy", "training": "biased"},
    ),
    "gelato, half of the near": (
        "gelato",
        "plain",
        {**TWO, "negatives": "near", "near_rate": 0.5},
    ),
    "gelato, mixture, no attributes": (
        "gelato",
        "bare",
        {**TWO, "heuristic": "mixture"},
    ),
    **{
        f"{name}, one step": (name, "plain", NET_ONE)
        for name in ("gae", "hgcn", "lgcn", "tlc-gnn", "bscnets", "neo-gnn")
    },
    **{
        name: (name, "plain", NET_TWO)
        for name in ("hgcn", "lgcn", "tlc-gnn", "bscnets")
    },
    "gae": ("gae", "plain", {**SHORT, "batches": 1, "validate_exact_every": 1}),
    "gae, plain coder": ("gae", "plain", {**NET_TWO, "variational": False}),
    "gae, one-hot": ("gae", "plain", {**NET_TWO, "features": "one-hot"}),
    "gae, degree": ("gae", "plain", {**NET_TWO, "features": "degree"}),
    "gae, no attributes": ("gae", "bare", {**NET_TWO, "features": "one-hot"}),
    "gae, dense attributes": ("gae", "dense", NET_TWO),
    "gae, weighted": ("gae", "weighted", NET_TWO),
    "gae, unbiased": ("gae", "plain", UNBIASED),
    "gae, n-pair": ("gae", "plain", {**UNBIASED, "loss": "n-pair"}),
    "hgcn, by ap": ("hgcn", "plain", {**NET_TWO, "metric": "ap"}),
    "hgcn, unbiased": ("hgcn", "plain", UNBIASED),
    "lgcn, unbiased": ("lgcn", "plain", UNBIASED),
    "tlc-gnn, unbiased": ("tlc-gnn", "plain", UNBIASED),
    "bscnets, unbiased": ("bscnets", "plain", UNBIASED),
    "bscnets, few edges": ("bscnets", "plain", {**NET_TWO, "sampled_edges": 40}),
    "neo-gnn": ("neo-gnn", "plain", {**NET_TWO, **SMALL, "batches": 2}),
    "neo-gnn, small batches": (
        "neo-gnn",
        "plain",
        {**NET_TWO, **SMALL, "batches": 4, "batch_size": 16},
    ),
    "neo-gnn, unbiased": ("neo-gnn", "plain", {**UNBIASED, **SMALL}),
    "nbfnet, one step": ("nbfnet", "plain", {**PARTS_ONE, "dimensions": 8}),
    "nbfnet": ("nbfnet", "plain", {**PARTS_TWO, "dimensions": 8}),
    "nbfnet, unbiased": ("nbfnet", "plain", {**UNBIASED, "dimensions": 8, "layers": 3}),
    "seal, one step": ("seal", "plain", {**PARTS_ONE, **SMALL}),
    "seal": ("seal", "plain", {**PARTS_TWO, **SMALL}),
    "seal, attributes": (
        "seal",
        "plain",
        {**PARTS_TWO, **SMALL, "features": "attributes", "max_nodes": 20},
    ),
    "seal, unbiased": ("seal", "plain", {**UNBIASED, **SMALL, "epochs": 1}),
    "walkpool, one step": ("walkpool", "small", {**PARTS_ONE, **WALKPOOL}),
    "walkpool": ("walkpool", "small", {**PARTS_TWO, **WALKPOOL}),
}


@cache
def split_of(kind: str) -> gelato.EdgeSplit:
    """Return the split of a kind of graph that all cases use."""
    if kind == "small":  # WalkPool takes a second per thousand pairs
        return gelato.split_edges(bits.block_graph(SMALLER), seed=0)
    return gelato.split_edges(bits.block_graph(NODES, kind=kind), seed=0)


def fitted(title: str) -> Any:
    """Return the model of a case, trained."""
    name, kind, parameters = CASES[title]
    return gelato.make(name, **parameters).fit(split_of(kind))


def measure(title: str) -> dict[str, Any]:
    """Return the numbers and the hashes of a case, as ``golden.json`` has them."""
    with bits.one_torch_thread():
        return _measure(title)


def _measure(title: str) -> dict[str, Any]:
    model, split = fitted(title), split_of(CASES[title][1])
    scores = bits.all_scores(model, split.train_graph)
    weights, again = bits.saved_weights(model)
    result = gelato.evaluate(model, split)
    sampled = gelato.evaluate(model, split, protocol="sampled")
    links = model.predict(top=5)
    pairs = model.score_pairs(split.graph.node_ids[split.test], edges="all")
    reloaded = bits.all_scores(again, split.train_graph)
    training = getattr(model, "training_", None)
    history = [] if training is None else training.history
    return {
        "numbers": {
            "scores": bits.some(scores),
            "pairs": bits.some(pairs, 4),
            "size": float(np.abs(scores).max()),
            "spread": [float(scores.mean()), float(scores.std())],
            "losses": [entry["loss"] for entry in history],
            "top": links["score"].to_list(),
        },
        "ranks": {
            "ap": result.ap,
            "auc": result.auc,
            "mrr": result.mrr,
            "valid ap": gelato.evaluate(model, split, part="valid").ap,
            "sampled ap": sampled.ap,
            "sampled auc": sampled.auc,
        },
        "weights": weights["names"],
        "bits": {
            "scores": bits.digest(scores),
            "reloaded": bits.digest(reloaded),
            "pairs": bits.digest(pairs),
            "weights": weights["hash"],
            "counts": [result.counts.num_positives, result.counts.num_negatives],
            "links": [list(row) for row in links.select("source", "target").rows()],
            "validation": [
                {k: v for k, v in entry.items() if k not in ("phases", "seconds")}
                for entry in history
            ],
        },
    }


def defaults() -> dict[str, Any]:
    """Return every model's parameters with their defaults."""
    return {name: gelato.make(name).get_params() for name in gelato.model_names()}


def split_facts(kind: str) -> dict[str, Any]:
    """Return what says that a split is the same."""
    split = split_of(kind)
    parts = (split.train, split.valid, split.test)
    return {
        "fingerprint": split.fingerprint,
        "sizes": [len(part) for part in parts],
        "parts": [bits.digest(part) for part in parts],
    }


def kinds() -> list[str]:
    """Return the kinds of graph that the cases use."""
    return sorted({kind for _, kind, _ in CASES.values()})


def record() -> dict[str, Any]:
    """Return all that is pinned."""
    cases = {}
    for title in CASES:
        began = time.perf_counter()
        cases[title] = measure(title)
        sys.stdout.write(f"{time.perf_counter() - began:6.2f} s  {title}\n")
    return {
        "gelato": gelato.__version__,
        "machine": bits.machine(),
        "defaults": defaults(),
        "splits": {kind: split_facts(kind) for kind in kinds()},
        "cases": cases,
    }


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    bits.write_json(place, record())
