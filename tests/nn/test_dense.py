from __future__ import annotations

import numpy as np
import pytest
import torch

from gelato.errors import UnsupportedGraphError, UsageError
from gelato.graph import Graph
from gelato.nn.dense import dense_adjacency, dense_autocovariance, dense_standardise
from support import oracles


def random_graph(seed: int, n: int = 12, *, directed: bool) -> Graph:
    random = np.random.default_rng(seed)
    pairs = random.integers(0, n - 1, (20, 2))  # node n - 1 stays alone
    return Graph.from_indices(
        n, pairs, weights=random.uniform(0.1, 2, 20), directed=directed
    )


def matrix_of(graph: Graph, **options) -> torch.Tensor:
    return dense_adjacency(
        torch.from_numpy(graph.weights),
        torch.from_numpy(graph.edges),
        graph.num_nodes,
        directed=graph.directed,
        **options,
    )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("loops", ["isolated", "all"])
@pytest.mark.parametrize("t", [1, 2, 3, 5])
def test_equals_an_explicit_matrix_power(t: int, loops: str, directed: bool) -> None:
    graph = random_graph(t, directed=directed)
    ours = dense_autocovariance(
        matrix_of(graph, self_loops=loops), t=t, directed=directed
    )
    theirs = oracles.dense_autocovariance(graph, t, loops)
    np.testing.assert_allclose(ours, theirs, atol=1e-14)
    assert abs(float(ours.sum())) < 1e-12


def test_standardised_scores_have_mean_0_and_deviation_1() -> None:
    z = dense_standardise(dense_autocovariance(matrix_of(random_graph(1, directed=0))))
    assert float(z.mean()) == pytest.approx(0, abs=1e-12)
    assert float(z.square().sum()) == pytest.approx(12 * 12 - 1)


def test_one_sided_masking_keeps_the_way_back() -> None:
    graph = random_graph(2, directed=False)
    mask = torch.tensor([0, 3])
    both = matrix_of(graph, mask=mask)
    one = matrix_of(graph, mask=mask, masking="one-sided")
    for u, v in graph.edges[mask]:
        assert both[u, v] == both[v, u] == one[u, v] == 0
        assert one[v, u] > 0
    assert not torch.equal(one, one.T)
    assert torch.equal(both, both.T)


def test_gradient_flows_to_the_weights() -> None:
    graph = random_graph(3, n=7, directed=True)
    weights = torch.from_numpy(graph.weights).requires_grad_()
    edges = torch.from_numpy(graph.edges)

    def scores(w: torch.Tensor) -> torch.Tensor:
        matrix = dense_adjacency(w, edges, 7, directed=True)
        return dense_standardise(dense_autocovariance(matrix, directed=True))

    assert torch.autograd.gradcheck(scores, (weights,), atol=1e-6)


def test_refusals() -> None:
    with pytest.raises(UnsupportedGraphError, match="3,000"):
        dense_autocovariance(torch.empty(3001, 3001), directed=True)
    with pytest.raises(UsageError, match="at least 1"):
        dense_autocovariance(torch.eye(2), t=0)
    graph = random_graph(3, directed=False)
    with pytest.raises(UsageError, match="masking"):
        matrix_of(graph, masking="left")
    with pytest.raises(UsageError, match="self_loops"):
        matrix_of(graph, self_loops="none")
