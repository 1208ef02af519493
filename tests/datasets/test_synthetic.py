"""Drawn graphs keep what their recipe promises, and follow from the seed alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.datasets import GraphRecipe, make_synthetic_graph, synthetic
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


class SlowDrawn:
    """Edges added to all edges before them, in one table: the twin of ``_Drawn``."""

    def __init__(self, recipe, told):
        self.n, self.limit = recipe.nodes, recipe.largest_degree
        self.most = recipe.num_edges
        self.edges = np.empty((0, 2), dtype=np.int64)

    def add(self, u, v, target=None):
        pairs = np.sort(np.stack([u, v], axis=1)[u != v], axis=1)
        both = np.concatenate([self.edges, pairs])
        _, first = np.unique(both[:, 0] * self.n + both[:, 1], return_index=True)
        both = both[np.sort(first)]
        seen = [0] * self.n
        kept = []
        for row, (one, other) in enumerate(both.tolist()):
            if seen[one] < self.limit and seen[other] < self.limit:
                kept.append(row)
            seen[one] += 1
            seen[other] += 1
        self.edges = both[kept][: self.most if target is None else target]


def slow_words(recipe, community, seed, told):
    """Draw all words of all nodes at once: the twin of ``_draw_words``."""
    rng = np.random.default_rng(seed)
    n, r, size = recipe.nodes, recipe.attributes, recipe.topic_size
    topics = rng.integers(0, r, size=(recipe.num_communities, size))
    nodes = np.repeat(np.arange(n), np.maximum(1, rng.poisson(recipe.words, size=n)))
    popularity = np.cumsum(1.0 / (np.arange(r) + 10.0))
    drawn = rng.random(len(nodes)) * popularity[-1]
    words = np.minimum(np.searchsorted(popularity, drawn, side="right"), r - 1)
    own = np.flatnonzero(rng.random(len(nodes)) < recipe.signal)
    place = rng.integers(0, size, size=len(own))
    words[own] = topics[community[nodes[own]], place]
    matrix = np.zeros((n, r), dtype=np.float32)
    matrix[nodes, words] = 1
    return sp.csr_array(matrix)


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": 50, "average_degree": 49},  # does not fit
        {"nodes": 300, "average_degree": 20, "max_degree": 25},
        {"nodes": 700, "closure": 0.0, "exponent": 9.0},
        {"nodes": 700, "closure": 1.0, "max_degree": 9, "seed": 3},
        {"nodes": 997, "communities": 7, "words": 1.3, "attributes": 101, "seed": 9},
    ],
)
def test_blocks_do_not_show(monkeypatch, options):
    monkeypatch.setattr(synthetic, "_BLOCK", 64)
    found = make_synthetic_graph(**options)
    monkeypatch.setattr(synthetic, "_Drawn", SlowDrawn)
    monkeypatch.setattr(synthetic, "_draw_words", slow_words)
    monkeypatch.setattr(synthetic, "_BLOCK", 1 << 30)
    assert_same(found, make_synthetic_graph(**options))


def test_progress_ends_where_it_should():
    told = []
    make_synthetic_graph(2000, seed=1, progress=lambda *step: told.append(step))
    done = [step[0] for step in told]
    assert done == sorted(done)
    assert {total for _, total in told} == {6000 + 24_000}
    assert 0.8 * 30_000 < done[-1] <= 30_000  # words that repeat count once


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
