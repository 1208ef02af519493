"""Graph InfoClust against a slow twin: loops over nodes, clusters and rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import gelato
from gelato.baselines.walkpool.infoclust import InfoClust
from gelato.graph import Graph
from gelato.splits import split_edges
from support.small_graphs import community_graph


def mixed_graph():
    """Return a graph with an isolated node, and one without attributes."""
    attributes = (np.random.default_rng(2).random((9, 6)) < 0.5) * 1.0
    attributes[4] = 0
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 6), (6, 3), (2, 7)]
    return Graph.from_indices(9, edges, attributes=attributes)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def unit(row):
    return row / (np.linalg.norm(row) + 1e-6)


def slow_states(module, graph, attributes):
    """Return the convolution's states, node by node."""
    adjacency = np.eye(graph.num_nodes)
    for u, v in graph.edges:
        adjacency[u, v] = adjacency[v, u] = 1
    degree = adjacency.sum(axis=1)
    weight, bias = module.weight.detach().numpy(), module.bias.detach().numpy()
    out = np.zeros((graph.num_nodes, weight.shape[1]))
    for u in range(graph.num_nodes):
        for v in range(graph.num_nodes):
            share = adjacency[u, v] / math.sqrt(degree[u] * degree[v])
            out[u] += share * (attributes[v] @ weight)
    out += bias
    return np.where(out > 0, out, module.slope.item() * out)


def slow_summaries(states, seeds, sharpness):
    rows, centres = np.array([unit(row) for row in states]), seeds
    for _ in range(11):
        shares = np.zeros((len(rows), len(centres)))
        for i, row in enumerate(rows):
            terms = [math.exp(sharpness * row @ unit(centre)) for centre in centres]
            shares[i] = np.array(terms) / sum(terms)
        centres = np.array(
            [(shares[:, [k]] * rows).sum(axis=0) / shares[:, k].sum()
             for k in range(len(centres))]
        )  # fmt: skip
    return shares @ centres


def slow_misfit(module, graph, order):
    true = slow_states(module, graph, graph.attributes)
    false = slow_states(module, graph, graph.attributes[order])
    whole = sigmoid(true.mean(axis=0))
    near = sigmoid(slow_summaries(true, module.seeds.numpy(), module.sharpness))
    suits, offset = module.suits.detach().numpy(), module.offset.item()
    losses = {"graph": [], "cluster": []}
    for u in range(graph.num_nodes):
        for states, answer in ((true, 1), (false, 0)):
            logits = {
                "graph": states[u] @ suits @ whole + offset,
                "cluster": states[u] @ near[u],
            }
            for name, logit in logits.items():
                right = sigmoid(logit) if answer else 1 - sigmoid(logit)
                losses[name].append(-math.log(right))
    share = module.graph_share
    return share * np.mean(losses["graph"]) + (1 - share) * np.mean(losses["cluster"])


def network(graph, **parameters):
    """Return a module with parameters away from their initial values."""
    given = {"dimensions": 4, "clusters": 3, "sharpness": 5.0, "graph_share": 0.3}
    module = InfoClust(**{**given, **parameters}, seed=3)._module(graph)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for tensor in module.parameters():
            tensor += 0.3 * torch.rand(tensor.shape, generator=generator)
    return module


def test_the_loss_equals_the_slow_twin():
    graph = mixed_graph()
    module = network(graph)
    order = np.random.default_rng(0).permutation(9)
    ours = module.misfit(module.prepare(graph), torch.from_numpy(order))
    assert ours.item() == pytest.approx(slow_misfit(module, graph, order), rel=1e-5)


def test_gradients_equal_differences():
    """Centres hold still for a gradient, and do in the differences: one far cluster."""
    graph = mixed_graph()
    module = network(graph, clusters=1).double()
    inputs, order = module.prepare(graph), torch.arange(8, -1, -1)

    def value(name, at, by):
        parameter = module.get_parameter(name)
        with torch.no_grad():
            parameter.view(-1)[at] += by
            found = module.misfit(inputs, order).item()
            parameter.view(-1)[at] -= by
        return found

    module.misfit(inputs, order).backward()
    for name in ("suits", "offset", "bias", "slope"):
        found = module.get_parameter(name).grad.view(-1)
        for at in range(0, len(found), 3):
            slope = (value(name, at, 1e-5) - value(name, at, -1e-5)) / 2e-5
            assert found[at].item() == pytest.approx(slope, rel=1e-3, abs=1e-7), name


@torch.no_grad()
def test_states_have_length_one_and_score_by_their_cosines():
    graph = mixed_graph()
    module = network(graph)
    (states,) = module.encode(module.prepare(graph))
    np.testing.assert_allclose(states.norm(dim=1).numpy(), 1, atol=1e-4)
    raw = slow_states(module, graph, graph.attributes)
    expected = np.array([[unit(a) @ unit(b) for b in raw] for a in raw])
    rows = module.scorer((states,)).score_rows(np.arange(9))
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    pairs = torch.tensor([[0, 1], [7, 3]])
    np.testing.assert_allclose(
        module.decode((states,), pairs)[:, 0].numpy(),
        expected[[0, 7], [1, 3]],
        atol=1e-5,
    )


def test_a_cluster_that_nothing_is_near_stays_a_number():
    module = network(mixed_graph(), sharpness=1e4)
    graph = mixed_graph()
    value = module.misfit(module.prepare(graph), torch.arange(9))
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


class TestTraining:
    @pytest.fixture
    def split(self):
        return split_edges(community_graph(60), valid=0.1, test=0.1)

    def test_learns_states_that_tell_links_from_others(self, split):
        first, last = (
            InfoClust(dimensions=8, clusters=4, lr=0.01, epochs=epochs, seed=1).fit(
                split
            )
            for epochs in (20, 200)
        )
        losses = [entry["loss"] for entry in last.training_.history]
        assert losses[-1] < 0.95 * losses[0]
        assert last.training_.best_value >= first.training_.best_value

    def test_no_held_out_edge_moves_the_weights(self, split):
        other = gelato.EdgeSplit(split.graph, split.train, split.valid, split.test[:0])
        ours, theirs = (
            InfoClust(dimensions=4, clusters=3, epochs=20, seed=1).fit(one).module_
            for one in (split, other)
        )
        for name, tensor in ours.state_dict().items():
            assert torch.equal(tensor, theirs.state_dict()[name]), name

    def test_walkpool_stands_on_them(self, split, tmp_path):
        small = {"hidden": 4, "dimensions": 3, "units": 10, "hops": 1, "seed": 1}
        model = gelato.make(
            "walkpool", **small, states="infoclust", pretraining=20, epochs=1
        ).fit(split)
        coder = model.coder().fit(split).module_
        (expected,) = coder.encode(coder.prepare(split.train_graph))
        found = model.module_.prepare(split.train_graph)[1]
        np.testing.assert_array_equal(found.numpy(), expected.detach().numpy())
        model.save(tmp_path / "run")
        again = gelato.load(tmp_path / "run")
        rows = np.arange(60)
        np.testing.assert_array_equal(again.score_rows(rows), model.score_rows(rows))
