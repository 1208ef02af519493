"""No model looks at test edges: others in their place change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato.graph import Graph
from gelato.models.registry import model_names
from gelato.splits import EdgeSplit, split_edges
from small_graphs import community_graph

SHORT = {
    "gelato": {"epochs": 2},
    "mlp": {"epochs": 2},
    "mlp+ac": {"epochs": 2},
    "mlp+cos+ac": {"epochs": 2},
    "gae": {"epochs": 4},
    "hgcn": {"epochs": 4},
    "lgcn": {"epochs": 4},
    "tlc-gnn": {"epochs": 4},
    "bscnets": {"epochs": 4},
    "neo-gnn": {"epochs": 2},
    "nbfnet": {"epochs": 2, "dimensions": 8},
    "walkpool": {"epochs": 2, "pretraining": 4, "units": 8},
    "seal": {"epochs": 2},
}


@pytest.fixture(scope="module")
def splits():
    """Return two splits that differ in their test edges alone."""
    split = split_edges(community_graph(60), valid=0.1, test=0.1)
    rng = np.random.default_rng(0)
    known = {tuple(edge) for edge in split.graph.edges.tolist()}
    pairs = [(u, v) for u in range(60) for v in range(u + 1, 60)]
    free = np.array([pair for pair in pairs if pair not in known])
    test = rng.permutation(free)[: len(split.test)]
    edges = np.concatenate([split.train, split.valid, test])
    graph = Graph.from_indices(60, edges, attributes=split.graph.attributes)
    return split, EdgeSplit(graph, split.train, split.valid, test)


def test_every_model_that_is_trained_is_here():
    trained = {name for name in model_names() if hasattr(gelato.make(name), "epochs")}
    assert set(SHORT) == trained


@pytest.mark.parametrize("name", SHORT)
def test_other_test_edges_give_the_same_scores(name, splits):
    scores = []
    for split in splits:
        model = gelato.make(name, seed=1, **SHORT[name]).fit(split)
        scorer = model.scorer(split.train_graph)
        scores.append(scorer.score_rows(np.arange(60)))
    np.testing.assert_array_equal(*scores)
