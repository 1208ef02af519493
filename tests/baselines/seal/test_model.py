"""SEAL against a slow twin: dense matrices, and the layers as they are drawn."""

from __future__ import annotations

import networkx as nx
import numpy as np
import psutil
import pytest
import torch
from torch.nn import functional

import gelato
from gelato.baselines.seal.scorer import SEALScorer, tanh
from gelato.errors import InputError, UnknownNameError, UsageError
from gelato.graph import Graph
from gelato.splits import split_edges
from support.small_graphs import community_graph

SMALL = {"hidden": 6, "hops": 2}


def network(graph, seed=3, **parameters):
    """Return a module with parameters away from their initial values."""
    model = gelato.make("seal", seed=seed, **{**SMALL, **parameters})
    module = model._module(graph).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.rand(parameter.shape, generator=generator) - 0.1
    return module


def far_graph():
    """Return a graph with pairs at every distance, and nodes that reach no other."""
    rng = np.random.default_rng(5)
    edges = [(i, i + 1) for i in range(17)]
    edges += [(i, 18 + i) for i in range(6)] + [(0, 2), (19, 20), (30, 31)]
    attributes = (rng.random((33, 5)) < 0.4) * 1.0
    return Graph.from_indices(33, edges, attributes=attributes)


def slow_logit(module, graph, u, v):
    """Return a pair's logit by the layers as the paper draws them."""
    whole = nx.Graph(graph.edges.tolist())
    whole.add_nodes_from(range(graph.num_nodes))
    inside = set()
    for end in (u, v):
        inside |= set(nx.single_source_shortest_path_length(whole, end, module.hops))
    nodes = [u, v, *sorted(inside - {u, v})]
    part = whole.subgraph(nodes).copy()
    part.remove_edges_from([(u, v)])
    labels = [slow_label(part, u, v, w) for w in nodes]
    x = module.labels(torch.tensor(labels))
    if module.num_features:
        own = torch.tensor(graph.attributes[nodes], dtype=torch.float32)
        x = torch.cat([x, own], dim=1)
    A = torch.tensor(nx.to_numpy_array(part, nodelist=nodes)).float()
    A += torch.eye(len(nodes))
    root = A.sum(dim=1).rsqrt()
    layers = []
    for weights, bias in zip(module.weights, module.biases, strict=True):
        x = torch.tanh(root[:, None] * A * root[None, :] @ x @ weights + bias)
        layers.append(x)
    k, width = module.kept, 3 * module.hidden + 1
    found = torch.cat(layers, dim=1)
    order = sorted(range(len(nodes)), key=lambda i: -float(found[i, -1]))
    pooled = torch.zeros(k, width)
    for place, i in enumerate(order[:k]):
        pooled[place] = found[i]
    pooled = pooled.reshape(1, -1)
    first = module.per_node.weight[:, None, :]
    x = functional.conv1d(pooled[:, None, :], first, module.per_node.bias, width)
    x = functional.max_pool1d(x.relu(), 2, 2)
    x = module.second(x).relu().flatten(1)
    return float(module.outer(module.inner(x).relu()))


def slow_label(part, u, v, w):
    if w in (u, v):
        return 1
    d = []
    for end, other in ((u, v), (v, u)):
        rest = part.subgraph(set(part) - {other})
        d.append(nx.single_source_shortest_path_length(rest, end).get(w, torch.inf))
    half = sum(d) // 2
    z = 1 + min(d) + half * (half + sum(d) % 2 - 1)
    return 0 if np.isnan(z) else int(z)


@pytest.fixture(scope="module", params=["none", "attributes"])
def made(request):
    graph = far_graph()
    return network(graph, features=request.param), graph


def states(module, graph):
    return module.encode(module.prepare(graph))


def all_pairs(n):
    return np.stack(np.triu_indices(n, 1), axis=1)


@torch.no_grad()
def test_training_and_ranking_equal_the_slow_twin(made):
    module, graph = made
    pairs = all_pairs(33)[::3]
    expected = [slow_logit(module, graph, *pair) for pair in pairs.tolist()]
    ours = module.logits(states(module, graph), torch.from_numpy(pairs))[:, 0]
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-3, atol=2e-5)
    scorer = module.scorer(states(module, graph))
    np.testing.assert_allclose(
        scorer.pair_scores(pairs), expected, rtol=1e-3, atol=2e-5
    )


@torch.no_grad()
def test_merged_balls_change_no_score(made):
    module, graph = made
    pairs = all_pairs(33)
    merged, plain = (
        SEALScorer.of(module, *states(module, graph), merged=merged)
        for merged in (True, False)
    )
    assert len(merged.balls[2]) > 0
    assert len(plain.balls[2]) == 0
    np.testing.assert_allclose(
        merged.pair_scores(pairs), plain.pair_scores(pairs), rtol=1e-5, atol=1e-6
    )


@torch.no_grad()
def test_cached_first_layer_changes_nothing():
    """Looked-up rows equal the product of whole inputs."""
    graph = far_graph()
    module = network(graph, features="attributes")
    rows = module.label_rows(7)
    nodes = states(module, graph)[1]
    whole = torch.cat(
        [module.labels.weight[3], torch.tensor(graph.attributes[4]).float()]
    )
    torch.testing.assert_close(rows[3] + nodes[4], whole @ module.weights[0])


@torch.no_grad()
def test_a_pair_has_the_same_bits_in_every_list(made):
    module, graph = made
    scorer = module.scorer(states(module, graph))
    rows = scorer.score_rows(np.arange(33))
    np.testing.assert_array_equal(rows, rows.T)
    above = scorer.score_rows_above(np.array([4, 20]))
    np.testing.assert_array_equal(above, np.triu(rows, 1)[[4, 20]])
    pairs = np.random.default_rng(0).permutation(all_pairs(33))[:50]
    np.testing.assert_array_equal(scorer.pair_scores(pairs), rows[tuple(pairs.T)])
    alone = [scorer.pair_scores(pair[None, ::-1])[0] for pair in pairs]
    np.testing.assert_array_equal(alone, rows[tuple(pairs.T)])


@torch.no_grad()
def test_relabelled_nodes_have_the_same_scores(made):
    module, graph = made
    order = np.random.default_rng(1).permutation(33)
    place = np.argsort(order)
    other = Graph.from_indices(
        33, place[graph.edges], attributes=graph.attributes[order]
    )
    ours, theirs = (
        module.scorer(states(module, each)).score_rows(np.arange(33))
        for each in (graph, other)
    )
    np.testing.assert_allclose(theirs, ours[np.ix_(order, order)], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_cut_subgraphs_are_cut_alike_in_training_and_ranking():
    hub = Graph.from_indices(40, [(0, v) for v in range(1, 35)] + [(34, 35), (36, 37)])
    module = network(hub, max_nodes=12)
    pairs = all_pairs(40)[::7]
    ours = module.logits(states(module, hub), torch.from_numpy(pairs))[:, 0]
    scorer = module.scorer(states(module, hub))
    np.testing.assert_allclose(
        scorer.pair_scores(pairs), ours.numpy(), rtol=1e-3, atol=2e-5
    )


def test_hyperbolic_tangent():
    x = np.concatenate([np.linspace(-12, 12, 4001), [1e-6, 0.0, -1e-6]]).astype("f4")
    ours = np.array([tanh(value) for value in x])
    np.testing.assert_allclose(ours, np.tanh(x.astype(float)), rtol=2e-6, atol=1e-9)


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(40), valid=0.1, test=0.1)


class TestTraining:
    def make(self, **parameters):
        return gelato.make("seal", **{**SMALL, "seed": 1, **parameters})

    def test_an_epoch_lists_positives_twice_and_negatives_are_drawn_once(self, split):
        model = self.make(batch_size=20)
        settings = model._settings(split)
        assert settings.batches == -(-2 * len(split.train) // 10)
        task = model._network_task(model._module(split.train_graph), split, settings)
        epochs = []
        for epoch in (1, 2):
            parts = [task.positives.batch(epoch, b) for b in range(task.batches)]
            counts = np.bincount(np.concatenate(parts), minlength=len(split.train))
            assert set(counts.tolist()) == {2}
            drawn = [
                task._negatives(epoch, b, len(parts[b]))[0] for b in range(task.batches)
            ]
            assert [len(x) for x in drawn] == [len(x) for x in parts]
            epochs.append(drawn)
        one, two = (np.concatenate(drawn).tolist() for drawn in epochs)
        assert one != two
        assert sorted(one) == sorted(two)
        known = {tuple(pair) for pair in split.train.tolist()}
        assert not known & {tuple(pair) for pair in one}

    def test_fewer_steps_are_said_aloud(self, split):
        model = self.make(batch_size=20, steps=2, epochs=1).fit(split)
        assert model.steps_ == 2
        assert any("visits 2 of" in note for note in model.notes_)

    def test_learns_and_keeps_what_the_pooling_keeps(self, split, tmp_path):
        model = self.make(epochs=6, lr=0.01, max_nodes=25).fit(split)
        losses = [entry["loss"] for entry in model.training_.history]
        assert losses[-1] < losses[0]
        assert any("cut at 25 nodes" in note for note in model.notes_)
        model.save(tmp_path / "run")
        again = gelato.load(tmp_path / "run")
        assert again.module_.kept == model.module_.kept
        rows = np.arange(40)
        np.testing.assert_array_equal(again.score_rows(rows), model.score_rows(rows))
        entry = model.training_.history[model.training_.best_epoch - 1]
        found = gelato.evaluate(model, split, part="valid", protocol="sampled", seed=0)
        assert entry["sampled-auc"] == pytest.approx(found.auc, abs=1e-6)

    @pytest.mark.parametrize("loss", ["cross-entropy", "n-pair"])
    def test_unbiased_training_hides_a_steps_positives(self, split, loss):
        options = {"training": "unbiased", "batches": 8, "steps": 2, "loss": loss}
        model = self.make(**options, epochs=1, hops=1)
        assert model._settings(split).masking
        assert model.fit(split).training_.skipped == 0
        assert model.steps_ == 2

    def test_chunks_of_pairs_change_no_gradient(self, split, monkeypatch):
        def gradients(chunk):
            monkeypatch.setattr(
                "gelato.baselines.shared_layers.subgraph_model._CHUNK", chunk
            )
            model = self.make(dropout=0.0, hops=1)
            settings = model._settings(split)
            task = model._network_task(
                model._module(split.train_graph), split, settings
            )
            task.step_loss(1, 0).backward()
            return [parameter.grad for parameter in task.module.parameters()]

        for one, two in zip(gradients(64), gradients(5), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)

    def test_interrupted_trainings_end_where_they_would_have(self, split, tmp_path):
        whole = self.make(epochs=3, hops=1).fit(split)

        def stop(entry, state):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.make(epochs=3, hops=1).fit(split, folder=tmp_path, on_epoch=stop)
        resumed = self.make(epochs=3, hops=1).fit(split, folder=tmp_path, resume=True)
        rows = np.arange(40)
        np.testing.assert_array_equal(resumed.score_rows(rows), whole.score_rows(rows))

    def test_subgraphs_that_do_not_fit_are_refused(self, split, monkeypatch):
        free = psutil.virtual_memory()._replace(available=10_000)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        with pytest.raises(InputError, match=r"up to \d+, would take.*max_nodes"):
            self.make().fit(split)

    def test_parameters_out_of_range(self, split):
        for wrong in ({"hops": 0}, {"max_nodes": 1}, {"steps": 0}):
            with pytest.raises(UsageError, match="whole number"):
                self.make(**wrong).fit(split)
        with pytest.raises(UnknownNameError, match="none"):
            self.make(features="words").fit(split)
        bare = Graph.from_indices(40, split.graph.edges)
        with pytest.raises(InputError, match="one-hot"):
            self.make(features="attributes", valid=0.1).fit(bare)
        assert self.make(valid=0.1, epochs=1, steps=1).fit(bare).notes_
