"""The graph network that weighs pairs, against plain matrices."""

import numpy as np
import pytest
import torch

from gelato.errors import UnsupportedGraphError
from gelato.graph import Graph
from gelato.nn.first_layer import PairFeatures
from gelato.nn.pair_gcn import PairGCN

PAIRS = [(0, 1), (2, 5), (4, 5), (0, 5)]


def small(edges=((0, 1), (1, 2), (2, 3), (3, 4)), **given):
    attributes = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    return Graph.from_indices(6, list(edges), attributes=attributes, **given)


def weights(model, graph):
    with torch.no_grad():
        return model(PairFeatures(graph.attributes, PAIRS)).numpy()


def twin(model, graph):
    """The same with dense matrices of numpy."""

    def normed(x, norm):
        x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(
            x.var(axis=1, keepdims=True) + norm.eps
        )
        return x * norm.weight.numpy() + norm.bias.numpy()

    looped = np.eye(6)
    for u, v in graph.edges:
        looped[u, v] = looped[v, u] = 1
    root = np.diag(looped.sum(axis=1) ** -0.5)
    average = root @ looped @ root
    with torch.no_grad():
        first, second, last = model.first, model.second, model.output
        hidden = average @ graph.attributes @ first.weight.numpy().T
        hidden = np.maximum(normed(hidden + first.bias.numpy(), model.norm1), 0)
        states = average @ (hidden @ second.weight.numpy().T + second.bias.numpy())
        states = normed(states, model.norm2)
        u, v = np.array(PAIRS).T
        logits = (states[u] * states[v]) @ last.weight.numpy()[0] + last.bias.numpy()
    return 1 / (1 + np.exp(-logits))


def test_weights_are_those_of_dense_matrices():
    graph = small()
    model = PairGCN(graph, hidden=5, seed=3).eval()
    found = weights(model, graph)
    np.testing.assert_allclose(found, twin(model, graph), rtol=1e-5)
    assert len(set(found.tolist())) == len(PAIRS)


def test_only_edges_that_were_read_count():
    graph, fewer = small(), small([(0, 1), (1, 2)])
    model = PairGCN(graph, hidden=5, seed=3).eval()
    before = weights(model, graph)
    model.read(fewer)
    after = weights(model, fewer)
    np.testing.assert_allclose(after, twin(model, fewer), rtol=1e-5)
    assert before[2] != after[2]
    assert PairGCN(fewer, hidden=5, seed=3).eval()(
        PairFeatures(fewer.attributes, PAIRS)
    ).tolist() == pytest.approx(after.tolist())


def test_every_parameter_has_a_gradient():
    graph = small()
    model = PairGCN(graph, hidden=5, seed=3)
    model.train()
    model(PairFeatures(graph.attributes, PAIRS))[0].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_directed_graphs_are_refused():
    with pytest.raises(UnsupportedGraphError, match="gcn"):
        PairGCN(small(directed=True))
