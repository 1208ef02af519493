"""Enhanced weights against the formula written with dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from gelato.errors import UsageError
from gelato.graph import Graph
from gelato.nn.enhancement import enhance
from gelato.nn.similarity import similarity_edges
from support.strategies import graphs


def with_attributes(graph, seed, kind=np.asarray):
    rng = np.random.default_rng(seed)
    attributes = rng.integers(-1, 3, (graph.num_nodes, 5)).astype(np.float32)
    return Graph.from_indices(
        graph.num_nodes,
        graph.edges,
        weights=graph.weights,
        attributes=kind(attributes),
        directed=graph.directed,
    )


def dense_weights(graph, eta, alpha, beta, trained):
    """alpha A + (1 - alpha) [edge or similarity pair] (beta w + (1 - beta) s)."""
    x = graph.attributes
    x = np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float64)
    squares = (x * x).sum(1)
    norms = np.sqrt(np.outer(squares, squares))
    cosine = np.divide(x @ x.T, norms, out=np.zeros(norms.shape), where=norms > 0)
    np.fill_diagonal(cosine, 0)
    count = int((1 if graph.directed else 2) * graph.num_edges * eta)
    allowed = graph.adjacency.toarray() > 0
    if count:
        allowed |= cosine > np.sort(cosine.ravel())[::-1][count - 1]
    np.fill_diagonal(allowed, False)
    mixed = beta * trained + (1 - beta) * np.maximum(cosine, 0)
    return alpha * graph.adjacency.toarray() + (1 - alpha) * allowed * mixed, allowed


@given(
    plain=graphs(),
    seed=st.integers(0, 1000),
    eta=st.sampled_from([0.0, 0.5, 1.3]),
    alpha=st.sampled_from([0.0, 0.5, 1.0]),
    beta=st.sampled_from([0.0, 0.25, 1.0]),
    kind=st.sampled_from([np.asarray, sp.csr_array]),
)
def test_equals_the_dense_formula(plain, seed, eta, alpha, beta, kind):
    graph = with_attributes(plain, seed, kind)
    enhanced = enhance(graph, eta=eta, alpha=alpha, beta=beta)
    trained = np.random.default_rng(seed).random((graph.num_nodes,) * 2)
    u, v = enhanced.pairs.T
    weights = enhanced.weights(torch.from_numpy(trained[u, v]))
    expected, allowed = dense_weights(graph, eta, alpha, beta, trained)
    pairs = np.argwhere(allowed if graph.directed else np.triu(allowed))
    assert np.array_equal(enhanced.pairs, pairs)
    np.testing.assert_allclose(weights.numpy(), expected[u, v], atol=1e-12)
    assert np.array_equal(enhanced.is_edge, graph.adjacency.toarray()[u, v] > 0)
    assert enhanced.needs_model == ((1 - alpha) * beta > 0)


def small(**options):
    return Graph.from_indices(4, [(0, 1), (1, 2), (2, 3)], **options)


def test_gradient_flows_to_the_learned_weight_alone():
    graph = small(attributes=np.eye(4), weights=[1.0, 2.0, 3.0])
    enhanced = enhance(graph, alpha=0.25, beta=0.5)
    trained = torch.ones(3, requires_grad=True)
    enhanced.weights(trained).sum().backward()
    assert torch.allclose(trained.grad, torch.full((3,), 0.375))
    assert enhanced.weights(torch.ones(3)).dtype == torch.float32


def test_directed_graph_gets_both_directions_of_a_similar_pair():
    attributes = np.array([[1, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
    enhanced = enhance(small(attributes=attributes, directed=True), eta=1.0)
    similar = similarity_edges(attributes, 3).pairs.tolist()
    assert similar == [[0, 2]]
    found = enhanced.pairs[~enhanced.is_edge].tolist()
    assert found == [[0, 2], [2, 0]]


def test_without_attributes_it_reduces_to_the_plain_graph_and_says_so():
    enhanced = enhance(small(weights=[1.0, 2.0, 3.0]), eta=0.5, alpha=0.0, beta=1.0)
    assert enhanced.weights().tolist() == [1, 2, 3]
    assert not enhanced.needs_model
    assert "no attributes" in enhanced.notes[0]


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("attributes", "note"),
    [(np.zeros((4, 2)), "all attributes are 0"), (np.ones((4, 2)), "the same")],
)
def test_attributes_that_say_nothing_are_told(convert, attributes, note):
    enhanced = enhance(small(attributes=convert(attributes)), eta=0.5)
    assert note in enhanced.notes[0]
    assert bool(enhanced.weights(torch.ones(3)).isfinite().all())


def test_added_pairs_are_told():
    attributes = np.array([[1, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
    assert enhance(small(attributes=attributes), eta=0.5).notes == (
        "added 1 similarity pair to the edges",
    )


def test_an_empty_graph_stays_empty():
    graph = Graph.from_indices(0, np.empty((0, 2)), attributes=np.empty((0, 3)))
    assert enhance(graph, eta=0.5).weights(torch.ones(0)).shape == (0,)


def test_wrong_arguments_are_refused():
    graph = small(attributes=np.eye(4))
    for options in ({"alpha": -0.1}, {"beta": 1.1}, {"eta": -1}, {"alpha": np.nan}):
        with pytest.raises(UsageError, match=next(iter(options))):
            enhance(graph, **options)
    with pytest.raises(UsageError, match="got none"):
        enhance(graph).weights()
    with pytest.raises(UsageError, match="shape"):
        enhance(graph).weights(torch.ones(2))
