"""Gelato 2: what it learns, the same bits every way, and odd graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.errors import UnsupportedGraphError
from gelato.graph import Graph
from gelato.kernels.chunks import use_threads
from gelato.models.gelato2 import Gelato2
from gelato.splits import split_edges
from gelato.training.loop import StopTraining
from support.small_graphs import community_graph

QUICK = {"epochs": 4, "batches": 2, "hidden": 8, "units": 4, "validate_every": 1}


@pytest.fixture(scope="module")
def graph():
    return community_graph()


@pytest.fixture(scope="module")
def split(graph):
    return split_edges(graph, valid=0.1, test=0.1)


@pytest.fixture(scope="module")
def model(split):
    return Gelato2(**QUICK).fit(split)


def scores(model, split):
    rows = np.arange(split.graph.num_nodes)
    return model.scorer(split.train_graph).score_rows(rows)


def test_training_lowers_the_loss(split):
    made = Gelato2(**QUICK | {"epochs": 30, "validate_every": 30}).fit(split)
    losses = [entry["loss"] for entry in made.training_.history]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert made.training_.skipped == 0


def test_threads_do_not_change_a_bit(model, split):
    with use_threads(2):
        again = Gelato2(**QUICK).fit(split)
    np.testing.assert_array_equal(scores(again, split), scores(model, split))


def test_a_stopped_training_resumes_to_the_same_bits(model, split, tmp_path):
    def stop(entry, state):
        if entry["epoch"] == 2:
            raise StopTraining

    Gelato2(**QUICK).fit(split, folder=tmp_path, on_epoch=stop)
    resumed = Gelato2(**QUICK).fit(split, folder=tmp_path, resume=True)
    np.testing.assert_array_equal(scores(resumed, split), scores(model, split))


@pytest.mark.parametrize("kind", ["none", "zeros", "constant"])
def test_graphs_whose_attributes_tell_nothing(graph, kind, tmp_path):
    values = {
        "none": None,
        "zeros": sp.csr_array(np.zeros((graph.num_nodes, 3))),
        "constant": np.ones((graph.num_nodes, 2)),
    }[kind]
    bare = Graph.from_indices(graph.num_nodes, graph.edges, attributes=values)
    made = Gelato2(**QUICK).fit(bare)
    assert made.module_.node is None
    found = made.score_rows(np.arange(graph.num_nodes))
    assert np.isfinite(found).all()
    again = gelato.load(made.save(tmp_path / "run"))
    np.testing.assert_array_equal(again.score_rows(np.arange(40)), found[:40])


def test_explanations_tell_score_and_walks(model, graph):
    u, v = graph.node_ids[[0, 2]].tolist()
    why = model.explain(u, v)
    assert why.score == pytest.approx(model.score_pairs([(u, v)], edges="all")[0])
    assert why.walk_score > 0
    total = sum(walk.contribution for walk in why.walks)
    assert total == pytest.approx(why.covered * why.walk_score)
    assert "read out" in why.notes[-1]
    assert "read out" in why.to_text()


def test_weights_are_those_that_walks_run_over(model, graph):
    table = model.enhanced_edges()
    assert table["weight"].min() > 0
    assert table["is_edge"].sum() == graph.num_edges
    assert len(table) > graph.num_edges


def test_graphs_that_it_cannot_take(graph):
    directed = replace(graph, directed=True)
    with pytest.raises(UnsupportedGraphError, match="undirected"):
        Gelato2(**QUICK).fit(directed)
