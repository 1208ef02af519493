"""The stack with a score of Gelato 2 as a further column, beside the stack without.

Gelato 2 is trained on the same known edges (those that a fold leaves, for its rows; all
training edges, for the candidates) for a fixed number of epochs: it never sees what is
held out. Both stacks rank the validation edges among the candidates; test edges are not
looked at. Every graph is kept in ``results/benchmarks/stack_column.json`` as soon as it
is done.

    python benchmarks/stack_column.py [cora citeseer photo] [--folds 2] [--epochs 24]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import gelato
from gelato.graph import Graph, IntArray
from gelato.io import write_text_atomic
from gelato.splits import EdgeSplit
from gelato.stacking.features import FeatureTable
from gelato.stacking.folds import Fold, hidden_edges, make_fold
from gelato.stacking.gate import choose
from gelato.stacking.node_attributes import node_attributes
from gelato.stacking.pair_measures import Measures
from gelato.stacking.ranker import RankerFit, TreeSettings, fit_rankers
from gelato.storage import environment

TARGET = (
    Path(__file__).resolve().parent.parent
    / "results"
    / "benchmarks"
    / "stack_column.json"
)
GRAPHS = ("cora", "citeseer", "photo")
COLUMN = "gelato2"
# As `gelato reproduce gelato2` has them, chosen on validation edges.
SETTINGS = {"photo": {"eta": 0.0, "dropout": 0.0, "hidden": 64}}


def scores(graph: Graph, pairs: IntArray, settings: dict[str, Any]) -> Any:
    """Train on the edges of a graph, and score pairs as one column."""
    every = {"validate_every": settings["epochs"], "valid": 0.01, "seed": 1}
    model = gelato.make("gelato2", **settings, **every).fit(graph)
    return model.scorer(graph).pair_scores(pairs).astype(np.float32)[:, None]


def with_column(fold: Fold, column: Any) -> Fold:
    return replace(fold, features=np.hstack([fold.features, column]))


def measure(split: EdgeSplit, folds: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Return average precision on the validation edges, without and with the column."""
    began, train = time.perf_counter(), split.train_graph
    attributes = node_attributes(train)
    plain, more = [], []
    for at in range(folds):
        plain.append(make_fold(train, attributes, at, folds=folds, seed=1))
        known = train.with_edges(train.edges[~hidden_edges(train, at, 1)])
        more.append(with_column(plain[-1], scores(known, plain[-1].pairs, settings)))
    table = FeatureTable.of(Measures(train, attributes))
    pairs, n = table.candidates, train.num_nodes
    features, column = table.of_pairs(pairs), scores(train, pairs, settings)
    answers = np.isin(pairs @ [n, 1], split.valid @ [n, 1])
    found: dict[str, Any] = {"folds": folds, "settings": settings}
    for name, rows, values, names in (
        ("without", plain, features, table.names),
        ("with", more, np.hstack([features, column]), (*table.names, COLUMN)),
    ):
        fit = RankerFit(rows, names, TreeSettings(), seed=1)
        trees = fit_rankers(fit)[0].scores(values)
        found[name] = choose(trees, {}, answers, len(split.valid)).precision[0][1]
    alone = choose(column[:, 0].astype(float), {}, answers, len(split.valid))
    found["column_alone"] = alone.precision[0][1]
    return found | {"split": split.fingerprint, "seconds": time.perf_counter() - began}


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=24)
    options = parser.parse_args()
    record: dict[str, Any] = {"graphs": {}}
    if TARGET.exists():
        record = json.loads(TARGET.read_text())
    for name in options.graphs:
        split = gelato.split_edges(gelato.load_dataset(name))
        settings = SETTINGS.get(name, {}) | {"epochs": options.epochs}
        found = measure(split, options.folds, settings)
        record["graphs"][name] = found
        record["environment"] = environment()
        write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")
        print(
            f"{name}: AP on validation edges {found['without']:.2%} without, "
            f"{found['with']:.2%} with the column ({found['column_alone']:.2%} alone)",
            flush=True,
        )


if __name__ == "__main__":
    main()
