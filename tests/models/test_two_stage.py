"""cos+ac: the paper's row, and what it is made of."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.heuristics.walks import autocovariance_of
from gelato.splits import split_edges
from support.small_graphs import community_graph

CELLS = [
    ("cora", "all", 3.60),
    ("citeseer", "all", 4.46),
    # Those of pubmed and computers are among the recorded runs.
    pytest.param("photo", "isolated", 10.01, marks=pytest.mark.slow),
]


@pytest.mark.paper
@pytest.mark.parametrize(("dataset", "self_loops", "ap"), CELLS)
def test_published_ap(benchmark, dataset, self_loops, ap):
    split = gelato.split_edges(benchmark(dataset))
    model = gelato.make("cos+ac", self_loops=self_loops).fit(split)
    assert f"{100 * gelato.evaluate(model, split).ap:.2f}" == f"{ap:.2f}"


def test_it_is_autocovariance_on_half_edges_half_cosine():
    split = split_edges(community_graph(weighted=True), valid=0.1, test=0.1)
    graph = split.train_graph
    X = graph.attributes.toarray()
    norms = np.linalg.norm(X, axis=1)
    cosine = X @ X.T / np.maximum(np.outer(norms, norms), 1e-12)
    np.fill_diagonal(cosine, 0)
    threshold = np.sort(cosine.ravel())[::-1][2 * graph.num_edges - 1]
    A = graph.adjacency.toarray()
    near = (cosine > threshold + 1e-6) | (A > 0)
    expected = autocovariance_of(sp.csr_array(0.5 * A + 0.5 * near * cosine))
    model = gelato.make("cos+ac").fit(split)
    rows = np.arange(graph.num_nodes)
    np.testing.assert_allclose(
        model.scorer(graph).score_rows(rows), expected.score_rows(rows), atol=1e-9
    )
