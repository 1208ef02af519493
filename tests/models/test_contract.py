"""What every registered model promises, checked for all of them alike."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import gelato
from gelato.errors import InputError, UnknownNameError, UsageError
from gelato.graph import Graph
from gelato.models.registry import entries, unregister
from gelato.splits import EdgeSplit, split_edges

NAMES = gelato.model_names()
# Trained models learn for a moment only.
QUICK = {
    "gelato": {"epochs": 2, "batches": 2, "hidden": 8},
    "gelato2": {"epochs": 2, "batches": 2, "hidden": 8},
    "mlp": {"epochs": 2, "batches": 2, "hidden": 8},
    "mlp+ac": {"epochs": 2, "batches": 2, "hidden": 8},
    "mlp+cos+ac": {"epochs": 2, "batches": 2, "hidden": 8},
    "stack": {"rounds": 10, "folds": 1},
    "gae": {"epochs": 2},
    "hgcn": {"epochs": 2},
    "lgcn": {"epochs": 2},
    "tlc-gnn": {"epochs": 2},
    "bscnets": {"epochs": 2},
    "neo-gnn": {"epochs": 2, "hidden": 8},
    "ncn": {"epochs": 2, "hidden": 8},
    "refined-gae": {"epochs": 2, "hidden": 8},
    "nbfnet": {"epochs": 2, "dimensions": 8},
    "seal": {"epochs": 2, "hidden": 8},
    "walkpool": {"epochs": 2, "hidden": 8, "units": 16, "pretraining": 2},
}
TRAINED = list(QUICK)


def make(name, **parameters):
    return gelato.make(name, **QUICK.get(name, {}), **parameters)


@pytest.fixture(scope="module")
def graph():
    """String ids, two communities, an isolated node, attributes that follow them."""
    rng = np.random.default_rng(7)
    n = 30
    block = np.arange(n) % 2
    chance = np.where(block[:, None] == block[None, :], 0.35, 0.05)
    pairs = np.argwhere(np.triu(rng.random((n, n)) < chance, 1))
    pairs = pairs[(pairs != n - 1).all(axis=1)]
    X = (rng.random((n, 16)) < 0.1 + 0.4 * (np.arange(16) % 2 == block[:, None])) * 1.0
    return Graph.from_indices(
        n, pairs, attributes=sp.csr_array(X), ids=[f"node {i}" for i in range(n)]
    )


@pytest.fixture(scope="module")
def split(graph):
    return split_edges(graph, valid=0.1, test=0.1)


@pytest.fixture(scope="module")
def splits(split):
    """Return two splits that differ in their test edges alone."""
    n, known = split.graph.num_nodes, split.graph.edges
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    free = pairs[~np.isin(pairs @ [n, 1], known @ [n, 1])]
    test = np.random.default_rng(0).permutation(free)[: len(split.test)]
    edges = np.concatenate([split.train, split.valid, test])
    graph = Graph.from_indices(n, edges, attributes=split.graph.attributes)
    return split, EdgeSplit(graph, split.train, split.valid, test)


@pytest.fixture(scope="module")
def fitted(split):
    """Return a model by name, fitted once; no test may change it."""
    return functools.cache(lambda name: make(name).fit(split))


@pytest.mark.parametrize("name", NAMES)
def test_fits_repeat_and_do_not_look_at_test_edges(name, fitted, splits):
    rows = np.arange(30)
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    model = make(name)
    assert model.fit(splits[1]) is model
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(
        model.scorer(splits[1].train_graph).score_rows(rows),
        fitted(name).scorer(splits[0].train_graph).score_rows(rows),
    )


@pytest.mark.parametrize("name", TRAINED)
def test_another_seed_trains_another_model(name, fitted, split):
    rows = np.arange(30)
    other = make(name, seed=2).fit(split).score_rows(rows)
    assert not np.allclose(other, fitted(name).score_rows(rows))


@pytest.mark.parametrize("name", NAMES)
def test_evaluate_and_predict(name, graph, split, fitted):
    model = fitted(name)
    result = gelato.evaluate(model, split)
    assert 0 < result.ap <= 1
    links = model.predict(top=5)
    assert links["rank"].to_list() == [1, 2, 3, 4, 5]
    assert links["score"].is_sorted(descending=True)
    ends = set(links["source"].to_list() + links["target"].to_list())
    assert ends <= set(graph.node_ids.tolist())
    known = {tuple(graph.node_ids[pair]) for pair in graph.edges}
    assert not known & set(zip(links["source"], links["target"], strict=True))
    again = model.score_pairs(
        zip(links["source"], links["target"], strict=True), edges="all"
    )
    np.testing.assert_allclose(again, links["score"].to_numpy(), rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_symmetric(name, fitted):
    scores = fitted(name).score_rows(np.arange(30))
    np.testing.assert_allclose(scores, scores.T, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_per_node_and_pairs(name, graph, fitted):
    model = fitted(name)
    lists = model.predict(per_node=2, nodes=["node 3", "node 29"])
    assert lists["source"].to_list() == ["node 3", "node 3", "node 29", "node 29"]
    assert lists["rank"].to_list() == [1, 2, 1, 2]
    edge = tuple(graph.node_ids[graph.edges[0]])
    table = model.predict(pairs=[edge, ("node 0", "node 29")])
    known = dict(zip(zip(table["source"], table["target"]), table["known"]))  # noqa: B905
    assert known[edge] is True
    assert known["node 0", "node 29"] is False


@pytest.mark.parametrize("name", NAMES)
def test_parameters_follow_scikit_learn(name):
    model = gelato.make(name)
    parameters = model.get_params()
    assert type(model)(**parameters).get_params() == parameters
    assert repr(model) == f"{type(model).__name__}()"
    with pytest.raises(UsageError, match="no parameter"):
        gelato.make(name, colour="red")
    with pytest.raises(UsageError, match="no parameter"):
        model.set_params(colour="red")


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_registry_tells_what_the_class_tells(entry):
    assert entry.load().name == entry.name
    assert entry.load().summary == entry.summary


@pytest.mark.parametrize("name", NAMES)
def test_saved_models_load_to_equal_scores(name, split, fitted, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "run", metrics={"ap": 0.5})
    again = gelato.load(tmp_path / "run")
    assert repr(again) == repr(model)
    assert again.split_.fingerprint == split.fingerprint
    rows = np.arange(30)
    np.testing.assert_array_equal(model.score_rows(rows), again.score_rows(rows))
    assert gelato.evaluate(again, split).ap == gelato.evaluate(model, split).ap


@pytest.mark.parametrize("name", NAMES)
def test_later_edges_and_nodes_need_no_training(name, graph, fitted, tmp_path):
    """A newer graph is scored as by a scorer made for it; the old model stays."""
    model = fitted(name)
    before = model.score_rows(np.arange(30))
    attributes = sp.vstack([graph.attributes, graph.attributes[:1]]).tocsr()
    newer = Graph.from_indices(
        31,
        np.concatenate([graph.edges, [(0, 29), (5, 30)]]),
        attributes=attributes,
        ids=[*graph.node_ids.tolist(), "newcomer"],
    )
    later = model.with_graph(newer)
    rows = np.arange(31)
    scores = later.score_rows(rows)
    np.testing.assert_array_equal(scores, model.scorer(newer).score_rows(rows))
    np.testing.assert_array_equal(before, model.score_rows(np.arange(30)))
    links = later.predict(per_node=3, nodes=["newcomer"])
    assert set(links["source"]) == {"newcomer"}
    again = gelato.load(later.save(tmp_path / "later"))
    np.testing.assert_array_equal(again.score_rows(rows), scores)


@pytest.mark.parametrize("name", NAMES)
def test_weighted_graphs_and_dense_attributes(name, graph):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, graph.num_edges)
    other = replace(graph, weights=weights, attributes=graph.attributes.toarray())
    scores = make(name).fit(other).score_rows(np.arange(30))
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores, scores.T, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_is_not_fitted_is_not_saved(name, tmp_path):
    with pytest.raises(UsageError, match="not been fitted"):
        gelato.make(name).save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_names_and_nodes_are_met_with_suggestions(split):
    with pytest.raises(UnknownNameError, match="Did you mean ac"):
        gelato.make("acc")
    model = gelato.make("cn").fit(split)
    with pytest.raises(InputError, match="node 2"):
        model.predict(pairs=[("node 1", "nodes 2")])
    with pytest.raises(InputError, match="two different nodes"):
        model.predict(pairs=[("node 1", "node 1")])
    with pytest.raises(UsageError, match="not been fitted"):
        gelato.make("cn").predict()
    with pytest.raises(UsageError, match="one of"):
        model.predict(top=3, per_node=2)
    with pytest.raises(UsageError, match="at least 1"):
        model.predict(top=0)


def test_more_links_than_candidates_gives_them_all(graph):
    links = gelato.make("cn").fit(graph).predict(top=10_000)
    assert len(links) == 30 * 29 // 2 - graph.num_edges
    complete = Graph.from_indices(4, [(u, v) for u in range(4) for v in range(u)])
    with pytest.raises(InputError, match="nothing to predict"):
        gelato.make("cn").fit(complete).predict()


def test_a_model_of_ones_own_joins_in(split):
    @gelato.register("test-degree", summary="larger degree first")
    class Degree:
        def fit(self, data):
            self.degrees = data.train_graph.degrees
            return self

        def score_rows(self, rows):
            return np.maximum(self.degrees[rows, None], self.degrees[None, :])

    try:
        table = gelato.compare(
            split, ["cn", "test-degree"], protocols=["all", "sampled"]
        )
        assert table["model"].to_list() == ["cn", "cn", "test-degree", "test-degree"]
        assert table["split"].n_unique() == 1
        with pytest.raises(UsageError, match="registered already"):
            gelato.register("test-degree")
    finally:
        unregister("test-degree")


def test_compare_runs_every_split_and_says_what_runs(graph):
    told = []
    table = gelato.compare(
        [split_edges(graph, seed=seed, valid=0.1, test=0.1) for seed in (0, 1)],
        ["cn", gelato.make("ac", t=2)],
        progress=lambda *state: told.append(state),
    )
    assert len(table) == 4
    assert table["split"].n_unique() == 2
    assert told[0] == ("cn", 0, 4)
    assert told[-1][1:] == (4, 4)
    with pytest.raises(UsageError, match="nothing to compare"):
        gelato.compare(graph, [])
