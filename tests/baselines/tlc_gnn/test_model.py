"""TLC-GNN: its savings change nothing, long preparations survive, bad input."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from torch.nn import functional

import gelato
from gelato.baselines.tlc_gnn import resumable as by_parts
from gelato.baselines.tlc_gnn.curvature import edge_curvature
from gelato.baselines.tlc_gnn.images import GraphImages, near_pairs
from gelato.baselines.tlc_gnn.model import images_seconds
from gelato.baselines.tlc_gnn.resumable import PartFolder, fill_by_parts
from gelato.errors import InputError, UsageError
from gelato.graph import Graph
from gelato.splits import split_edges
from support.dense_networks import attributes, symmetric
from support.plain_images import network, plain_image
from support.small_graphs import community_graph

SMALL = {"hidden": 8, "dimensions": 4, "pair_units": 6, "seed": 3}


@pytest.fixture(scope="module")
def graph():
    return community_graph(18, seed=4)


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(60), valid=0.1, test=0.1)


def module_of(graph, **parameters):
    """Return a module with parameters away from their initial values."""
    module = gelato.make("tlc-gnn", **SMALL, **parameters)._module(graph).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.rand(parameter.shape, generator=generator)
    return module


def all_pairs(n):
    return np.array(list(itertools.product(range(n), repeat=2)))


def dense_images(graph, hops, hide):
    """Return the image of every ordered pair, 0 on the diagonal."""
    slow = network(graph, 1 + edge_curvature(graph))
    made = np.zeros((graph.num_nodes, graph.num_nodes, 25))
    for u, v in itertools.combinations(range(graph.num_nodes), 2):
        made[u, v] = made[v, u] = plain_image(slow, u, v, hops, hide)
    return torch.tensor(made)


def dense_distances(module, graph, images):
    """Return the published distance of all pairs, every image multiplied."""
    a, x = symmetric(graph), attributes(graph, normalise=True)
    hidden = (a @ x @ module.first.double() + module.first_bias.double()).relu()
    e = (a @ hidden @ module.second.double() + module.second_bias.double()).relu()
    length = e.norm(dim=1, keepdim=True)
    e = torch.where(length > 1, e / length, e)
    inputs = torch.cat([(e[:, None] - e[None]) ** 2, images], dim=2)
    units = inputs @ module.pair.weight.double().T + module.pair.bias.double()
    units = functional.leaky_relu(units, 0.2)
    outputs = units @ module.out.weight.double().T + module.out.bias.double()
    return outputs.abs()[..., 0]


class TestSavings:
    @pytest.mark.parametrize("hops", [1, 2])
    @torch.no_grad()
    def test_ranking_multiplies_every_image_that_is_not_zero(self, graph, hops):
        """Rows, halves, listed pairs and training's path: one and the same score."""
        module = module_of(graph, hops=hops)
        images = dense_images(graph, hops, hide=True)
        expected = -dense_distances(module, graph, images).numpy()
        states = module.encode(module.prepare(graph))
        scorer = module.scorer(states)
        nodes = np.arange(graph.num_nodes)
        rows = scorer.score_rows(nodes)
        np.testing.assert_allclose(rows, expected, rtol=2e-4, atol=2e-4)
        half = scorer.score_rows_above(nodes)
        np.testing.assert_array_equal(half, np.triu(rows, 1))
        pairs = all_pairs(graph.num_nodes)
        listed = scorer.pair_scores(pairs)
        np.testing.assert_array_equal(listed, rows.ravel())
        logits = module.logits(states, torch.from_numpy(pairs))[:, 0].numpy()
        np.testing.assert_allclose(logits, 2 + expected.ravel(), rtol=2e-4, atol=2e-4)
        assert images.any() == (hops == 2)

    @pytest.mark.parametrize("hops", [1, 2])
    @pytest.mark.parametrize("hide", [False, True])
    @torch.no_grad()
    def test_training_multiplies_every_image_that_is_not_zero(self, graph, hops, hide):
        module = module_of(graph, hops=hops, hide_target=hide, dropout=0.0).train()
        images = dense_images(graph, hops, hide)
        expected = dense_distances(module, graph, images).clamp(0, 40).numpy()
        states = module.encode(module.prepare(graph))
        pairs = torch.from_numpy(all_pairs(graph.num_nodes))
        logits = module.logits(states, pairs)[:, 0].numpy()
        np.testing.assert_allclose(logits, 2 - expected.ravel(), rtol=2e-4, atol=2e-4)

    @pytest.mark.parametrize("hops", [1, 2])
    def test_pairs_left_out_have_no_image(self, graph, hops):
        """Only edges with one hop, only pairs within two with two: by computing all."""
        found = dense_images(graph, hops, hide=False).any(dim=2).numpy()
        kept = np.zeros_like(found)
        u, v = near_pairs(graph, hops).T
        kept[u, v] = kept[v, u] = True
        assert not (found & ~kept).any()
        assert found.any()
        if hops == 1:
            assert len(u) == graph.num_edges

    def test_gradients_reach_the_weights_of_images(self, split):
        for hide, expected in ((False, True), (True, False)):
            model = gelato.make("tlc-gnn", **SMALL, hide_target=hide)
            module = model._module(split.train_graph)
            task = model._network_task(module, split, model._settings(split))
            task.loss(1, 0).backward()
            assert bool(module.pair.weight.grad[:, -25:].any()) is expected

    def test_hidden_positives_have_no_image_and_need_no_curvature(
        self, split, monkeypatch
    ):
        def never(*_):
            raise AssertionError("curvature was computed")

        monkeypatch.setattr("gelato.baselines.tlc_gnn.images.edge_curvature", never)
        model = gelato.make(
            "tlc-gnn", **SMALL, training="unbiased", batches=5, epochs=1
        ).fit(split)
        assert np.isfinite(model.score_rows(np.arange(3))).all()
        with pytest.raises(AssertionError, match="curvature was computed"):
            gelato.make("tlc-gnn", **SMALL, epochs=1).fit(split)


def test_two_hops_learn_and_load_to_equal_scores(split, tmp_path):
    model = gelato.make("tlc-gnn", **SMALL, hops=2, epochs=3, validate_exact_every=2)
    model.fit(split)
    assert "prec@100%" in model.training_.history[1]
    # What validation sees is what is ranked, up to single precision.
    module, graph = model.module_, split.train_graph
    with torch.no_grad():
        states = module.encode(module.prepare(graph))
        logits = module.logits(states, torch.from_numpy(split.valid))[:, 0].numpy()
    ranked = model.scorer(graph).pair_scores(split.valid)
    np.testing.assert_allclose(logits, 2 + ranked, atol=2e-6)
    again = gelato.load(model.save(tmp_path / "run"))
    rows = np.arange(60)
    np.testing.assert_array_equal(again.score_rows(rows), model.score_rows(rows))


def test_a_known_edge_is_scored_as_a_candidate_is(split):
    """Without images of its own edge, a pair's score depends on states alone."""
    model = gelato.make("tlc-gnn", **SMALL, epochs=3).fit(split)
    graph = split.train_graph
    images = GraphImages(graph, 1)
    at, found = images.of_pairs(graph.edges[:, ::-1], training=True)
    assert len(at)
    assert found.any(axis=1).all()
    assert not len(images.of_pairs(graph.edges, training=False)[0])
    scores = model.scorer(graph).pair_scores(graph.edges[at])
    assert np.isfinite(scores).all()


class TestParts:
    @pytest.fixture
    def small_parts(self, monkeypatch):
        monkeypatch.setattr(by_parts, "_PART", 5.0)

    def filled(self, place, stop=None):
        out, asked = np.zeros(20), []

        def work(first, last):
            if stop is not None and first >= stop:
                raise KeyboardInterrupt
            asked.extend(range(first, last))
            out[first:last] = np.arange(first, last)

        fill_by_parts(out, np.ones(20), work, name="numbers", place=place)
        return out, asked

    def test_go_on_where_they_were_interrupted(self, small_parts, tmp_path, graph):
        place = PartFolder.of(tmp_path, graph)
        with pytest.raises(KeyboardInterrupt):
            self.filled(place, stop=11)
        out, asked = self.filled(place)
        np.testing.assert_array_equal(out, np.arange(20))
        assert min(asked) == 10
        assert [path.name for path in tmp_path.iterdir()] == ["numbers.parts.npz"]
        PartFolder.clear(tmp_path)
        assert not list(tmp_path.iterdir())

    def test_are_written_now_and_then(self, small_parts, tmp_path, graph, monkeypatch):
        monkeypatch.setattr(by_parts, "_SECONDS", 0.0)
        place = PartFolder.of(tmp_path, graph)
        self.filled(place)
        assert self.filled(place)[1] == []

    def test_of_another_graph_or_damaged_are_made_anew(
        self, small_parts, tmp_path, graph, monkeypatch, caplog
    ):
        monkeypatch.setattr(by_parts, "_SECONDS", 0.0)
        other = PartFolder.of(tmp_path, community_graph(19))
        self.filled(other)
        place = PartFolder.of(tmp_path, graph)
        assert len(self.filled(place)[1]) == 20
        path = place.path("numbers")
        path.write_bytes(path.read_bytes()[:50])
        assert len(self.filled(place)[1]) == 20
        assert "cannot be read" in caplog.text

    def test_long_ones_are_announced(self, small_parts, monkeypatch, caplog):
        now = iter(range(0, 10_000, 100))
        clock = SimpleNamespace(monotonic=lambda: next(now))
        monkeypatch.setattr(by_parts, "time", clock)
        self.filled(None)
        assert caplog.text.count("numbers takes about") == 1

    def test_an_interrupted_preparation_is_resumed_by_fit(
        self, split, tmp_path, monkeypatch
    ):
        """Stopped within the curvature, trained later: the same, nothing is left."""
        from gelato.baselines.tlc_gnn import curvature

        monkeypatch.setattr(by_parts, "_PART", 200.0)
        real, calls, limit = curvature.edge_curvatures, [], 20

        def stopping(first, last, *rest):
            if len(calls) == limit:
                raise KeyboardInterrupt
            calls.append((first, last))
            real(first, last, *rest)

        monkeypatch.setattr(curvature, "edge_curvatures", stopping)
        settings = {**SMALL, "epochs": 2}
        with pytest.raises(KeyboardInterrupt):
            gelato.make("tlc-gnn", **settings).fit(split, folder=tmp_path)
        assert (tmp_path / "curvature.parts.npz").exists()
        before, limit = len(calls), 10_000
        later = gelato.make("tlc-gnn", **settings).fit(
            split, folder=tmp_path, resume=True
        )
        assert calls[before][0] > 0
        assert not list(tmp_path.glob("*.parts.npz"))
        whole = gelato.make("tlc-gnn", **settings).fit(split)
        rows = np.arange(60)
        np.testing.assert_array_equal(later.score_rows(rows), whole.score_rows(rows))


def test_threads_do_not_matter(split, monkeypatch):
    graph = split.train_graph
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("GELATO_THREADS", threads)
        found.append(GraphImages(graph, 2).near[1])
    np.testing.assert_array_equal(*found)


class TestForecast:
    def test_is_near_what_it_takes(self, split):
        found = images_seconds(split.train_graph, 2)
        assert 0 < found < 60
        assert images_seconds(split.train_graph, 1, edges=False) == 0.0

    def test_steps_are_timed_without_preparing(self, split, monkeypatch):
        from gelato.training.step_times import time_steps

        def never(*_):
            raise AssertionError("curvature was computed")

        monkeypatch.setattr("gelato.baselines.tlc_gnn.images.edge_curvature", never)
        for hops in (1, 2):
            model = gelato.make("tlc-gnn", **SMALL, hops=hops)
            times = time_steps(model, split, seconds=1.0)
            assert times.preparation_seconds > 0
            gelato.evaluate(model.untrained(split), split)
        assert gelato.make("tlc-gnn", **SMALL)._rehearsing is False


class TestBadInput:
    def test_no_attributes(self):
        bare = Graph.from_indices(40, community_graph(40).edges)
        with pytest.raises(InputError, match=r"none.*one-hot"):
            gelato.make("tlc-gnn", **SMALL, valid=0.1).fit(bare)
        model = gelato.make("tlc-gnn", **SMALL, valid=0.1, epochs=2, features="degree")
        assert any("degree" in note for note in model.fit(bare).notes_)

    def test_isolated_nodes_and_graphs_without_triangles(self):
        path = [(v, v + 1) for v in range(20)]
        X = np.random.default_rng(0).random((25, 5))
        graph = Graph.from_indices(25, path, attributes=X)
        for hops in (1, 2):
            model = gelato.make("tlc-gnn", **SMALL, valid=0.2, epochs=2, hops=hops)
            assert np.isfinite(model.fit(graph).score_rows(np.arange(25))).all()

    @pytest.mark.parametrize("hops", [1, 2])
    def test_images_that_do_not_fit_are_refused_before_they_are_made(
        self, split, hops, monkeypatch
    ):
        free = psutil.virtual_memory()._replace(available=10_000)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        with pytest.raises(InputError, match=r"would take about .* GB"):
            gelato.make("tlc-gnn", **SMALL, hops=hops).fit(split)
        with pytest.raises(InputError, match=r"within 2 edges .*hops=1"):
            near_pairs(split.train_graph, 2)

    @pytest.mark.parametrize(
        ("parameters", "match"),
        [
            ({"hops": 0}, "hops is 0"),
            ({"hops": 1.5}, "hops is 1.5"),
            ({"hide_target": "yes"}, "true or false"),
            ({"pair_units": 0}, "pair_units is 0"),
        ],
    )
    def test_parameters_out_of_range(self, parameters, match, split):
        with pytest.raises(UsageError, match=match):
            gelato.make("tlc-gnn", **parameters).fit(split)
