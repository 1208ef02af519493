"""WalkPool against a slow twin: one dense subgraph after another, all powers."""

from __future__ import annotations

import networkx as nx
import numpy as np
import psutil
import pytest
import torch
from torch.nn import functional

import gelato
import gelato.baselines.gae
from gelato.baselines.walkpool.profiles import HEADS, POWERS
from gelato.errors import InputError
from gelato.graph import Graph
from gelato.splits import split_edges
from support.small_graphs import community_graph

SMALL = {"hidden": 4, "dimensions": 3, "units": 10, "pretraining": 2}


def network(graph, seed=3, **parameters):
    """Return a module with parameters away from their initial values."""
    model = gelato.make("walkpool", seed=seed, **{**SMALL, **parameters})
    module = model._module(graph).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.norm.buffers()):
            if tensor.is_floating_point():
                tensor += 0.3 * torch.rand(tensor.shape, generator=generator)
    return module


def mixed_graph():
    """Return a graph with pairs at every distance, a hub, and isolated nodes."""
    rng = np.random.default_rng(5)
    edges = [(i, i + 1) for i in range(10)] + [(12, i) for i in range(3, 10)]
    edges += [(0, 13), (13, 14), (14, 0), (16, 17)]
    attributes = (rng.random((20, 5)) < 0.4) * 1.0
    return Graph.from_indices(20, edges, attributes=attributes)


def slow_steps(scores, edges, size):
    """Return P by the loop of its definition: softmax over edges entering a node."""
    P = torch.zeros(size, size, dtype=torch.float64)
    for j in range(size):
        entering = [i for i, target in edges if target == j]
        if entering:
            chosen = torch.stack([scores[i, j] for i in entering])
            P[entering, j] = chosen.softmax(dim=0)
    return P


def slow_logit(module, graph, u, v):
    whole = nx.Graph(graph.edges.tolist())
    whole.add_nodes_from(range(graph.num_nodes))
    inside = set()
    for end in (u, v):
        inside |= set(nx.single_source_shortest_path_length(whole, end, module.hops))
    nodes = [u, v, *sorted(inside - {u, v})]
    part = whole.subgraph(nodes).copy()
    part.add_edge(u, v)
    A = torch.tensor(nx.to_numpy_array(part, nodelist=nodes)).float()
    looped = A + torch.eye(len(nodes))
    root = looped.sum(dim=1).rsqrt()
    average = root[:, None] * looped * root[None, :]
    x = module.prepare(graph)[1][nodes]
    one = average @ x @ module.weights[0] + module.biases[0]
    two = average @ one.relu() @ module.weights[1] + module.biases[1]
    H = torch.cat([x, one, two], dim=1)
    query, key = (
        outer(functional.leaky_relu(inner(H), 0.2)).view(-1, HEADS, module.hidden)
        for inner, outer in zip(module.inner, module.outer, strict=True)
    )
    edges = [(i, j) for i, j in A.nonzero().tolist()]
    without = [pair for pair in edges if pair not in ((0, 1), (1, 0))]
    profile = []
    for head in range(HEADS):
        scores = (query[:, head] @ key[:, head].T / module.hidden**0.5).double()
        P = [slow_steps(scores, part, len(nodes)) for part in (edges, without)]
        powers = [[M.matrix_power(t) for t in range(2, POWERS + 2)] for M in P]
        for read in (lambda M: M[0, 0] + M[1, 1], lambda M: M[0, 1] + M[1, 0]):
            for side in powers:
                profile += [read(power) for power in side]
        profile += [a.trace() - b.trace() for a, b in zip(*powers, strict=True)]
        profile.append(scores[0, 1].sigmoid() + scores[1, 0].sigmoid())
    described = torch.stack(profile).float()[None]
    return float(module.classify(described))


@pytest.fixture(scope="module")
def made():
    graph = mixed_graph()
    return network(graph), graph


def states(module, graph):
    return module.encode(module.prepare(graph))


def all_pairs(n):
    return np.stack(np.triu_indices(n, 1), axis=1)


@torch.no_grad()
def test_training_and_ranking_equal_the_slow_twin(made):
    module, graph = made
    pairs = all_pairs(20)
    expected = [slow_logit(module, graph, *pair) for pair in pairs.tolist()]
    ours = module.logits(states(module, graph), torch.from_numpy(pairs))[:, 0]
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-3, atol=2e-5)
    scorer = module.scorer(states(module, graph))
    np.testing.assert_allclose(
        scorer.pair_scores(pairs), expected, rtol=1e-3, atol=2e-5
    )


@torch.no_grad()
def test_a_pair_has_the_same_bits_in_every_list(made):
    module, graph = made
    scorer = module.scorer(states(module, graph))
    rows = scorer.score_rows(np.arange(20))
    np.testing.assert_array_equal(rows, rows.T)
    above = scorer.score_rows_above(np.array([4, 12]))
    np.testing.assert_array_equal(above, np.triu(rows, 1)[[4, 12]])
    pairs = np.random.default_rng(0).permutation(all_pairs(20))[:50]
    alone = [scorer.pair_scores(pair[None, ::-1])[0] for pair in pairs]
    np.testing.assert_array_equal(alone, rows[tuple(pairs.T)])


@torch.no_grad()
def test_relabelled_nodes_have_the_same_scores(made):
    module, graph = made
    order = np.random.default_rng(1).permutation(20)
    place = np.argsort(order)
    other = Graph.from_indices(
        20, place[graph.edges], attributes=graph.attributes[order]
    )
    ours, theirs = (
        module.scorer(states(module, each)).score_rows(np.arange(20))
        for each in (graph, other)
    )
    np.testing.assert_allclose(theirs, ours[np.ix_(order, order)], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_known_edge_makes_no_difference(made):
    """Whether the graph has the pair's edge or not, both graphs of it are the same.

    Representations are held fixed: the auto-encoder does see the edge.
    """
    module, graph = made
    with_edge = states(module, graph)
    edge = graph.edges[3]
    rest = graph.with_edges(np.delete(graph.edges, 3, axis=0))
    without = (module.prepare(rest)[0], *with_edge[1:])
    one, two = (
        module.scorer(each).pair_scores(edge[None]) for each in (with_edge, without)
    )
    np.testing.assert_allclose(one, two, rtol=1e-5)


@torch.no_grad()
def test_cut_subgraphs_are_cut_alike_in_training_and_ranking():
    hub = Graph.from_indices(
        40,
        [(0, v) for v in range(1, 35)] + [(34, 35), (36, 37)],
        attributes=np.eye(40),
    )
    module = network(hub, max_nodes=12)
    pairs = all_pairs(40)[::7]
    ours = module.logits(states(module, hub), torch.from_numpy(pairs))[:, 0]
    scorer = module.scorer(states(module, hub))
    np.testing.assert_allclose(
        scorer.pair_scores(pairs), ours.numpy(), rtol=1e-3, atol=2e-5
    )


class TestTraining:
    @pytest.fixture
    def split(self):
        return split_edges(community_graph(30), valid=0.1, test=0.1)

    def make(self, **parameters):
        return gelato.make("walkpool", **{**SMALL, "seed": 1, "hops": 1, **parameters})

    def test_learns_on_states_of_a_pretrained_coder(self, split, tmp_path):
        model = self.make(epochs=6, lr=0.01, max_nodes=12).fit(split)
        losses = [entry["loss"] for entry in model.training_.history]
        assert losses[-1] < losses[0]
        assert any("cut at 12 nodes" in note for note in model.notes_)
        first = self.make()._module(split.train_graph)
        assert not torch.equal(first.coder.first, model.module_.coder.first)
        assert all(p.grad is None for p in model.module_.coder.parameters())
        model.save(tmp_path / "run")
        again = gelato.load(tmp_path / "run")
        rows = np.arange(30)
        np.testing.assert_array_equal(again.score_rows(rows), model.score_rows(rows))
        entry = model.training_.history[model.training_.best_epoch - 1]
        found = gelato.evaluate(model, split, part="valid", protocol="sampled", seed=0)
        assert entry["sampled-auc"] == pytest.approx(found.auc, abs=1e-6)

    def test_interrupted_trainings_end_where_they_would_have(self, split, tmp_path):
        whole = self.make(epochs=2).fit(split)

        def stop(entry, state):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.make(epochs=2).fit(split, folder=tmp_path, on_epoch=stop)
        resumed = self.make(epochs=2).fit(split, folder=tmp_path, resume=True)
        rows = np.arange(30)
        np.testing.assert_array_equal(resumed.score_rows(rows), whole.score_rows(rows))

    def test_forecasts_time_the_coder_and_train_without_it(self, split, monkeypatch):
        fitted = []
        fit = gelato.baselines.gae.GAE.fit
        monkeypatch.setattr(
            gelato.baselines.gae.GAE,
            "fit",
            lambda self, *args, **more: fitted.append(self) or fit(self, *args, **more),
        )
        model = self.make(epochs=1, pretraining=3)
        with model.rehearsal():
            model.fit(split)
        assert not fitted
        assert 0 < model.preparation_seconds(split) < 60
        assert len(fitted) == 1
        assert model.fit(split).training_.history
        assert len(fitted) == 2

    def test_unbiased_training_on_a_slice(self, split):
        model = self.make(training="unbiased", batches=8, steps=1, epochs=1)
        assert model.fit(split).training_.skipped == 0
        assert any("visits 1 of 8" in note for note in model.notes_)

    def test_subgraphs_that_do_not_fit_are_refused(self, split, monkeypatch):
        model = self.make(epochs=1, steps=1).fit(split)
        free = psutil.virtual_memory()._replace(available=1_000)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        with pytest.raises(InputError, match=r"up to \d+, would take.*max_nodes"):
            self.make().fit(split)
        with pytest.raises(InputError, match=r"up to \d+ nodes would take.*max_nodes"):
            model.score_rows(np.arange(2))

    def test_graphs_without_attributes_are_refused_with_a_remedy(self, split):
        bare = Graph.from_indices(30, split.graph.edges)
        with pytest.raises(InputError, match="one-hot"):
            self.make(valid=0.1).fit(bare)
        model = self.make(valid=0.1, epochs=1, features="degree").fit(bare)
        assert any("degree" in note for note in model.notes_)
