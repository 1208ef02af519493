"""Every network against its slow twin, on a small graph with isolated nodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gelato
from gelato.baselines.bscnets import edge_laplacians, sample_edges
from gelato.baselines.gae import weighted_loss
from gelato.baselines.shared_layers.difference_net import convolve_twice
from gelato.graph import Graph
from gelato.training.loop import TrainSettings, _adam
from support.dense_networks import (
    bscnets_distances,
    bscnets_laplacians,
    gae_loss,
    gae_scores,
    hgcn_distances,
    lgcn_distances,
    ncn_scores,
    neo_gnn_probabilities,
    refined_gae_scores,
)
from support.small_graphs import community_graph

NAMES = ["gae", "hgcn", "lgcn", "bscnets", "neo-gnn", "ncn", "refined-gae"]
# Small, and with every option that the twins know.
SMALL = {
    "gae": {"hidden": 6, "dimensions": 4},
    "hgcn": {"dimensions": 4},
    "lgcn": {"dimensions": 4},
    "bscnets": {"hidden": 6, "dimensions": 4, "sampled_edges": 60},
    "neo-gnn": {"hidden": 6, "edge_units": 3, "pair_units": 5},
    "ncn": {"hidden": 6, "layers": 2, "head_layers": 2},
    "refined-gae": {"hidden": 6, "net_layers": 3, "residual": True},
}


def network(name, graph, seed=3, **given):
    """Return a module with parameters away from their initial values."""
    module = gelato.make(name, seed=seed, **SMALL[name], **given)._module(graph).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            noise = torch.rand(parameter.shape, generator=generator)
            parameter += (noise * 0.3).to(parameter.dtype)
            if "curvature" in key:
                parameter.fill_(0.7 + float(noise))
    return module


def logits(module, graph):
    """Return the logits of all pairs, ``(n, n, heads)``, by the training path."""
    n = graph.num_nodes
    pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n))
    with torch.no_grad():
        found = module.logits(module.encode(module.prepare(graph)), pairs)
    return found.reshape(n, n, -1).double()


def ranked(module, graph):
    with torch.no_grad():
        scorer = module.scorer(module.encode(module.prepare(graph)))
    return torch.tensor(scorer.score_rows(np.arange(graph.num_nodes)))


@pytest.fixture(scope="module")
def graph():
    return community_graph(24)


def close(ours, expected, tolerance=2e-4):
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def test_gae(graph):
    module = network("gae", graph)
    expected = gae_scores(module, graph)
    close(logits(module, graph)[..., 0], expected)
    close(ranked(module, graph), expected)


@torch.no_grad()
def test_hgcn(graph):
    module = network("hgcn", graph)
    distances = hgcn_distances(module, graph)
    off = ~torch.eye(24, dtype=torch.bool)
    close(logits(module, graph)[..., 0][off], 2 - distances[off], 2e-3)
    c = float(module.curvatures[-1])
    gap = torch.sinh(c**0.5 * distances.sqrt() / 2) ** 2 / c
    close(ranked(module, graph)[off], -gap[off], 2e-3)


@torch.no_grad()
def test_lgcn(graph):
    module = network("lgcn", graph)
    distances = lgcn_distances(module, graph)
    close(logits(module, graph)[..., 0], 2 - distances, 1e-3)
    c = float(module.curvatures[-1])
    close(ranked(module, graph), distances / -2 - c, 1e-3)


@torch.no_grad()
def test_bscnets(graph):
    module = network("bscnets", graph)
    distances = bscnets_distances(module, graph)
    close(logits(module, graph)[..., 0], 2 - distances)
    close(ranked(module, graph), -distances)


@torch.no_grad()
def test_neo_gnn(graph):
    module = network("neo-gnn", graph)
    expected = torch.stack(neo_gnn_probabilities(module, graph), dim=2)
    close(logits(module, graph).sigmoid(), expected)
    close(ranked(module, graph).sigmoid(), expected[..., 2])


@torch.no_grad()
def test_ncn(graph):
    module = network("ncn", graph)
    expected = ncn_scores(module, graph)
    close(logits(module, graph)[..., 0], expected)
    close(ranked(module, graph), expected)


@torch.no_grad()
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_refined_gae(graph, activation):
    module = network("refined-gae", graph, activation=activation)
    expected = refined_gae_scores(module, graph)
    close(logits(module, graph)[..., 0], expected)
    close(ranked(module, graph), expected)


def test_refined_gae_starts_from_orthogonal_vectors_of_nodes(graph):
    module = gelato.make("refined-gae", features="one-hot", hidden=8)._module(graph)
    weights = module.first.detach()
    torch.testing.assert_close(weights.T @ weights, torch.eye(8), atol=1e-5, rtol=0)


def test_ncn_drops_entries_of_common_neighbours_in_training_only(graph):
    module = network("ncn", graph, edge_dropout=0.5)
    inputs = module.prepare(graph)
    assert module.encode(inputs)[0].nnz == 2 * graph.num_edges
    module.train()
    assert 0 < module.encode(inputs)[0].nnz < 1.5 * graph.num_edges


def test_parts_of_ncn_learn_at_their_own_rates(graph):
    module = gelato.make("ncn", lr=0.5, encoder_lr=0.25)._module(graph)
    groups = _adam(module, TrainSettings(lr=0.5)).param_groups
    assert [group["lr"] for group in groups] == [0.25, 0.5]
    counted = sum(len(group["params"]) for group in groups)
    assert counted == len(list(module.parameters()))


@pytest.mark.parametrize("nodes", [4, 24])  # few, and all
def test_neo_gnn_at_the_ends_of_pairs_as_everywhere(graph, nodes):
    module = network("neo-gnn", graph)
    inputs = module.prepare(graph)
    pairs = torch.combinations(torch.arange(nodes))
    found = []
    for states in (module.encode_ends(inputs, pairs), module.encode(inputs)):
        module.zero_grad()
        logits = module.logits(states, pairs)
        logits.sum().backward()
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        found.append([logits.detach(), *gradients])
    close(*found)
    assert len(found[0]) > 10


def test_gae_weighted_loss_and_its_gradient(graph):
    z = torch.randn(24, 3, dtype=torch.float64, requires_grad=True)
    twin = z.detach().clone().requires_grad_()
    value, expected = (
        weighted_loss(z, torch.from_numpy(graph.edges)),
        gae_loss(twin, graph),
    )
    torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()
    torch.testing.assert_close(z.grad, twin.grad)


def test_gae_penalty_is_the_divergence_over_n_squared(graph):
    module = network("gae", graph).train()
    states = module.encode(module.prepare(graph))
    mean, spread = states[0], states[1]
    normal = torch.distributions.Normal(torch.zeros(()), torch.ones(()))
    drawn = torch.distributions.Normal(mean, spread.exp())
    divergence = torch.distributions.kl_divergence(drawn, normal).sum() / 24**2
    torch.testing.assert_close(module.penalty(states), divergence)


def test_bscnets_laplacians_with_triangles_and_hidden_edges(graph):
    edges = sample_edges(graph, 80, seed=1)
    present = np.ones(len(edges), bool)
    l0, l1, faces = bscnets_laplacians(edges, 24)
    assert faces > 0
    ours = edge_laplacians(edges, present, 24)
    np.testing.assert_allclose(ours[0].toarray(), l0, atol=1e-12)
    np.testing.assert_allclose(ours[1].toarray(), l1, atol=1e-12)
    present[::3] = False
    fewer = bscnets_laplacians(edges[present], 24)
    hidden = edge_laplacians(edges, present, 24)
    for one, two in zip(hidden, fewer[:2], strict=True):
        dense = one.toarray()
        np.testing.assert_allclose(dense[np.ix_(present, present)], two, atol=1e-12)
        assert not dense[~present].any()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "bscnets"])
def test_relabelled_nodes_get_the_same_scores(name, graph):
    n = graph.num_nodes
    order = np.random.default_rng(5).permutation(n)  # new label -> old label
    edges = np.argsort(order)[graph.edges]
    other = Graph.from_indices(n, edges, attributes=graph.attributes[order])
    module = network(name, graph)
    before = ranked(module, graph)
    close(ranked(module, other), before[order][:, order], 1e-4)


def test_relabelled_nodes_get_the_same_scores_bscnets(graph):
    """The published model orients edges by label: labels move, their order stays."""
    n = graph.num_nodes
    labels = np.cumsum(1 + np.arange(n) % 3)
    X = np.zeros((labels[-1] + 1, graph.num_attributes))
    X[labels] = graph.attributes.toarray()
    other = Graph.from_indices(len(X), labels[graph.edges], attributes=X)
    module = network("bscnets", graph)
    before = ranked(module, graph)
    module.sample.copy_(torch.from_numpy(labels[module.sample.numpy()]))
    close(ranked(module, other)[labels][:, labels], before, 1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_symmetric_to_the_last_bit(name, graph):
    scores = ranked(network(name, graph), graph)
    assert torch.equal(scores, scores.T)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [24, 300])
def test_a_pair_has_the_same_bits_in_every_block_list_and_half(name, n):
    """300 nodes need several tiles of columns."""
    graph = community_graph(n)
    module = network(name, graph)
    whole = ranked(module, graph).numpy()
    with torch.no_grad():
        scorer = module.scorer(module.encode(module.prepare(graph)))
    rows = np.array([17, 4, n - 1])
    np.testing.assert_array_equal(scorer.score_rows(rows), whole[rows])
    half = np.where(np.arange(n)[None, :] > rows[:, None], whole[rows], 0.0)
    np.testing.assert_array_equal(scorer.score_rows_above(rows), half)
    pairs = np.random.default_rng(0).integers(0, n, (200, 2))
    listed = scorer.pair_scores(pairs)
    np.testing.assert_array_equal(listed, whole[pairs[:, 0], pairs[:, 1]])


def test_neo_gnn_has_the_published_number_of_parameters_on_photo():
    """The number depends on the attributes of photo (745), not on its edges."""
    graph = Graph.from_indices(3, [(0, 1)], attributes=np.ones((3, 745)))
    module = gelato.make("neo-gnn")._module(graph)
    assert sum(parameter.numel() for parameter in module.parameters()) == 455_200


def test_graph_convolutions_are_those_of_torch_geometric(graph):
    geometric = pytest.importorskip("torch_geometric.nn")
    module = network("bscnets", graph)
    edges = torch.from_numpy(
        np.concatenate([graph.edges, graph.edges[:, ::-1]]).T.copy()
    )
    x = torch.tensor(graph.attributes.toarray(), dtype=torch.float32)
    x = x / x.sum(1, keepdim=True).clamp_min(1)
    first = geometric.GCNConv(x.shape[1], 6)
    second = geometric.GCNConv(6, 4)
    with torch.no_grad():
        first.lin.weight.copy_(module.first.T)
        second.lin.weight.copy_(module.second.T)
        first.bias.copy_(module.first_bias)
        second.bias.copy_(module.second_bias)
        expected = second(first(x, edges).relu(), edges).relu()
        inputs = module.prepare(graph)
        ours = convolve_twice(
            inputs.average,
            inputs.features,
            (module.first, module.first_bias),
            (module.second, module.second_bias),
            dropout=0.0,
        )
    close(ours, expected, 1e-5)
