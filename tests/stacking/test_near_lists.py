"""Lists and candidates of large graphs against the whole rows of small ones."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato.graph import Graph
from gelato.stacking import folds, near_lists, pair_measures
from gelato.stacking.features import FeatureTable
from gelato.stacking.lists import lists_and_candidates
from gelato.stacking.near_lists import Cells, near_lists_and_candidates
from gelato.stacking.node_attributes import node_attributes
from gelato.stacking.pair_measures import Measures


@pytest.fixture(scope="module")
def graph():
    return gelato.make_synthetic_graph(400, attributes=40, seed=3)


@pytest.fixture
def large(monkeypatch):
    """Treat every graph as a large one, with a nearly exact ridge walk."""
    monkeypatch.setattr(pair_measures, "MOST_WHOLE", 10)
    monkeypatch.setattr(pair_measures, "MOST_DIRECT", 10)
    monkeypatch.setattr(pair_measures, "_LARGE_TOLERANCE", 1e-7)


def measures_of(graph):
    return Measures(graph, node_attributes(graph))


def test_lists_are_those_of_whole_rows(graph, large, monkeypatch):
    """All nodes are compared with all: the same lists, where scores are positive."""
    near, found = near_lists_and_candidates(measures_of(graph))
    monkeypatch.undo()
    whole, _ = lists_and_candidates(measures_of(graph))
    for at, name in enumerate(whole.names):
        expected = np.where(whole.best[at] > 1e-5, whole.best[at], -np.inf)
        mine = np.where(near.best[at] > 1e-5, near.best[at], -np.inf)
        np.testing.assert_allclose(mine, expected, atol=2e-4, rtol=1e-3, err_msg=name)
    assert (found[:, 0] < found[:, 1]).all()
    keys = found @ [graph.num_nodes, 1]
    assert (np.diff(keys) > 0).all()
    assert not np.isin(keys, graph.edges @ [graph.num_nodes, 1]).any()


def test_the_best_of_every_node_are_candidates(graph, large):
    measures = measures_of(graph)
    lists, found = near_lists_and_candidates(measures)
    degree = np.bincount(found.ravel(), minlength=graph.num_nodes)
    has_some = np.isfinite(lists.best[0, :, near_lists.PER_NODE - 1])
    assert (degree[has_some] >= near_lists.PER_NODE).all()
    assert has_some.any()


def test_features_of_pairs_are_the_same_with_hubs_left_out_of_long_walks(
    graph, large, monkeypatch
):
    pairs = FeatureTable.of(measures_of(graph)).candidates[::9]
    exact = gelato.pair_features(graph, pairs)
    monkeypatch.setattr(pair_measures, "_HUB", 6)
    assert graph.degrees.max() > 6
    capped = gelato.pair_features(graph, pairs)
    for name in ("cn", "aa", "ra", "rarest", "cosine"):
        np.testing.assert_allclose(capped[name], exact[name], rtol=1e-6)
    assert (capped["walk3"] <= exact["walk3"] + 1e-6).all()
    assert (capped["walk3"] < exact["walk3"]).any()


def test_threads_do_not_change_the_table(graph, large):
    tables = []
    for threads in (1, 3):
        with gelato.use_threads(threads):
            table = FeatureTable.of(measures_of(graph))
            tables.append((table.candidates, table.of_pairs(table.candidates[::7])))
    np.testing.assert_array_equal(tables[0][0], tables[1][0])
    np.testing.assert_array_equal(tables[0][1], tables[1][1])


def test_cells_find_most_of_the_nearest(monkeypatch):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((30, 8))
    factors = centres[rng.integers(30, size=3_000)] + 0.3 * rng.standard_normal(
        (3_000, 8)
    )
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    factors = factors.astype(np.float32)
    factors[5] = 0.0  # without attributes: in no cell
    monkeypatch.setattr(near_lists, "_COMPARED", 600)
    cells = Cells.of(factors)
    assert sorted(cells.order.tolist()) == [u for u in range(3_000) if u != 5]
    hits = 0
    for at in range(0, len(cells.order), 100):
        best = np.argsort(-(factors @ factors[cells.order[at]]))[:10]
        hits += np.isin(best, cells.compared(int(cells.cell_of[at]))).sum()
    assert hits > 0.8 * 10 * len(range(0, len(cells.order), 100))


def test_nodes_that_are_all_alike_are_not_all_compared(monkeypatch):
    monkeypatch.setattr(near_lists, "_COMPARED", 50)
    cells = Cells.of(np.tile(np.float32([[0.6, 0.8]]), (1_000, 1)))
    assert max(len(cells.compared(cell)) for cell in range(len(cells))) <= 110
    empty = Cells.of(np.zeros((5, 2), dtype=np.float32))
    assert len(empty) == 0


def test_candidates_of_a_fold_are_thinned_evenly(graph, large, monkeypatch):
    whole = folds.make_fold(graph, node_attributes(graph), 0, seed=1)
    total = whole.weights.sum()
    monkeypatch.setattr(folds, "MOST_CANDIDATES", int(total / 2))
    half = folds.make_fold(graph, node_attributes(graph), 0, seed=1)
    assert half.weights.sum() == pytest.approx(int(total / 2))
    assert half.hidden == round(whole.hidden * int(total / 2) / total)
    assert 0 < half.labels.sum() < whole.labels.sum()


def test_the_stack_works_on_large_graphs(graph, large):
    split = gelato.split_edges(graph)
    model = gelato.make("stack", folds=2, rounds=15, seed=1).fit(split)
    ours = gelato.evaluate(model, split).ap
    assert ours > gelato.evaluate(gelato.make("pa").fit(split), split).ap
    bare = Graph.from_indices(graph.num_nodes, graph.edges)
    again = gelato.make("stack", folds=1, rounds=5).fit(bare)
    assert len(again.predict(top=5)) == 5
