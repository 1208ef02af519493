"""Drawn graphs keep what their recipe promises, and follow from the seed alone."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato.datasets import GraphRecipe, make_synthetic_graph
from gelato.errors import UsageError


def assert_same(one, other):
    np.testing.assert_array_equal(one.edges, other.edges)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert (one.attributes != other.attributes).nnz == 0


def test_same_seed_same_graph(monkeypatch):
    one = make_synthetic_graph(400, seed=3)
    monkeypatch.setenv("GELATO_THREADS", "4")
    assert_same(one, make_synthetic_graph(400, seed=3))
    other = make_synthetic_graph(400, seed=4)
    assert not np.array_equal(one.edges, other.edges)


@pytest.mark.parametrize("exponent", [1.5, 2.0, 2.5, 4.0, float("inf")])
@pytest.mark.parametrize(("average", "largest"), [(1.0, 40), (6.0, 100), (9.5, 30)])
def test_degrees(exponent, average, largest):
    graph = make_synthetic_graph(
        1200,
        average_degree=average,
        exponent=exponent,
        max_degree=largest,
        attributes=0,
    )
    neighbours = np.bincount(graph.edges.ravel(), minlength=1200)
    assert graph.num_edges == round(1200 * average / 2)
    assert neighbours.max() <= largest
    assert graph.attributes is None
    assert not graph.notes


def test_the_power_law_has_its_mean_and_its_tail():
    recipe = GraphRecipe(nodes=10**6)
    degrees = recipe.degree_at((np.arange(200_000) + 0.5) / 200_000)
    assert degrees.mean() == pytest.approx(6.0, rel=0.01)
    assert np.all(np.diff(degrees) > 0)
    assert degrees[-1] <= 1000
    # Twice the degree, 2^(1 - exponent) of the nodes: far from the truncation.
    tail = [np.mean(degrees > bound) for bound in (10, 20)]
    assert tail[1] / tail[0] == pytest.approx(2**-1.5, rel=0.05)


def test_full_graphs_and_pairs():
    assert make_synthetic_graph(2, average_degree=1, attributes=0).num_edges == 1
    full = make_synthetic_graph(12, average_degree=11)
    assert full.num_edges == 66
    starved = make_synthetic_graph(
        40, average_degree=3, max_degree=3, exponent=9.0, seed=1
    )
    assert starved.num_edges == 60 or "do not fit" in starved.notes[0]


def test_communities_hold_edges_and_words():
    graph = make_synthetic_graph(
        2000, communities=20, inside=0.9, closure=0.2, signal=0.9
    )
    assert np.array_equal(np.unique(graph.labels), np.arange(20))
    u, v = graph.edges.T
    assert np.mean(graph.labels[u] == graph.labels[v]) > 0.5
    words = graph.attributes.toarray()
    assert set(np.unique(words)) == {0.0, 1.0}
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2000, size=(2, 4000))
    shared = (words[a] * words[b]).sum(axis=1)
    same = graph.labels[a] == graph.labels[b]
    assert shared[same].mean() > 3 * shared[~same].mean()


def test_no_signal_tells_nothing():
    graph = make_synthetic_graph(2000, communities=10, signal=0.0)
    words = graph.attributes.toarray()
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2000, size=(2, 20_000))
    shared = (words[a] * words[b]).sum(axis=1)
    same = (graph.labels[a] == graph.labels[b]) & (a != b)
    assert shared[same].mean() == pytest.approx(shared[~same].mean(), rel=0.2)


def test_walks_and_words_predict_links():
    split = gelato.split_edges(make_synthetic_graph(1500, seed=2))
    results = {
        name: gelato.evaluate(gelato.make(name), split) for name in ("ac", "cos")
    }
    assert results["ac"].ap > 15 * results["ac"].random_ap
    assert results["cos"].ap > 3 * results["cos"].random_ap
    assert results["cos"].auc > 0.6


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 1}, "number of nodes"),
        ({"nodes": 10**10}, "number of nodes"),
        ({"exponent": 1.0}, "exponent"),
        ({"exponent": float("nan")}, "exponent"),
        ({"average_degree": 0}, "average degree"),
        ({"average_degree": float("inf")}, "average degree"),
        ({"max_degree": 3}, "below the average"),
        ({"nodes": 5}, "below the average"),
        ({"communities": 101}, "communities"),
        ({"communities": 0}, "communities"),
        ({"inside": 1.5}, "inside"),
        ({"closure": -0.1}, "closure"),
        ({"signal": float("nan")}, "signal"),
        ({"words": 0}, "words"),
        ({"words": 501}, "words"),
        ({"attributes": -1}, "attributes"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_numbers_are_refused(wrong, message):
    with pytest.raises(UsageError, match=message):
        make_synthetic_graph(**{"nodes": 100} | wrong)


@pytest.mark.slow
def test_a_large_graph():
    graph = make_synthetic_graph(200_000)
    assert graph.num_edges == 600_000
    assert np.bincount(graph.edges.ravel()).max() <= 1000
