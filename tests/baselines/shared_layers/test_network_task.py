"""Training of the networks: losses, negatives, masking, validation, resuming."""

from __future__ import annotations

import math

import numpy as np
import psutil
import pytest
import torch

import gelato
from gelato.baselines import bscnets
from gelato.baselines.bscnets import Ahead
from gelato.baselines.shared_layers import link_module, network_task
from gelato.baselines.shared_layers.difference_net import dropped
from gelato.baselines.shared_layers.network_task import SAMPLED, NetworkTask, clipped
from gelato.baselines.tlc_gnn import model as tlc_gnn
from gelato.errors import (
    InputError,
    UnknownNameError,
    UnsupportedGraphError,
    UsageError,
)
from gelato.graph import Graph
from gelato.models.registry import entries, facts_of, preset
from gelato.nn import messages as feature_module
from gelato.splits import split_edges
from support.small_graphs import community_graph

NAMES = [
    *("gae", "hgcn", "lgcn", "tlc-gnn", "bscnets", "neo-gnn", "ncn", "refined-gae")
]
QUICK = {
    "gae": {"hidden": 8, "negatives": "redrawn"},
    "hgcn": {"dimensions": 8, "dropout": 0.0},
    "lgcn": {"dimensions": 8, "dropout": 0.0},
    "tlc-gnn": {"hidden": 8, "dimensions": 8, "dropout": 0.0},
    "bscnets": {"hidden": 8, "dimensions": 8, "dropout": 0.0},
    "neo-gnn": {"hidden": 16},
    "ncn": {"hidden": 16, "edge_dropout": 0.0, "feature_dropout": 0.0},
    "refined-gae": {"hidden": 16, "dropout": 0.0, "negatives": 2},
    "nbfnet": {"dimensions": 8, "layers": 3},
}
# Also those that are given nothing about nodes.
EVERY = [*NAMES, "nbfnet"]


def make(name, **parameters):
    return gelato.make(name, **{**QUICK[name], "seed": 1, **parameters})


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(60), valid=0.1, test=0.1)


def task_of(model, split):
    module = model._module(split.train_graph)
    return model._network_task(module, split, model._settings(split))


# Losses and training sets are the task's, not the network's: one goes through all.
@pytest.mark.parametrize(
    ("name", "loss", "training"),
    [
        *((name, "cross-entropy", "biased") for name in EVERY),
        *((name, "n-pair", "unbiased") for name in EVERY),
        ("gae", "n-pair", "biased"),
        ("gae", "cross-entropy", "unbiased"),
    ],
)
def test_every_network_learns_from_every_training_set(name, loss, training, split):
    batches = 2 if training == "unbiased" else 1
    model = make(
        name, loss=loss, training=training, epochs=20, lr=0.02, batches=batches
    ).fit(split)
    losses = [entry["loss"] for entry in model.training_.history]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert model.training_.skipped == 0


@pytest.mark.parametrize("negatives", ["weighted", "fixed"])
def test_gae_learns_from_its_other_negatives(negatives, split):
    model = make("gae", negatives=negatives, epochs=30).fit(split)
    losses = [entry["loss"] for entry in model.training_.history]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


@pytest.mark.parametrize("training", ["biased", "unbiased"])
def test_balanced_loss_averages_positives_and_negatives_apart(training, split):
    positive = torch.tensor([[1.0], [-2.0]])
    negative = torch.tensor([[0.5], [3.0], [-1.0], [0.0]])
    task = task_of(make("lgcn", training=training, loss="balanced", batches=2), split)
    value = task.objective(positive, negative, None)
    by_hand = -np.mean([math.log(1 / (1 + math.exp(-x))) for x in positive])
    by_hand -= np.mean([math.log(1 - 1 / (1 + math.exp(-x))) for x in negative])
    assert value.item() == pytest.approx(by_hand, rel=1e-6)


class TestNegatives:
    def test_unbiased_epochs_hold_every_negative_once(self, split):
        task = task_of(make("gae", training="unbiased", batches=10), split)
        for epoch in (1, 2):
            parts = [task._negatives(epoch, batch, 5)[0] for batch in range(10)]
            everything = np.sort(np.concatenate(parts), axis=1)
            keys = {tuple(pair) for pair in everything.tolist()}
            assert len(keys) == len(everything)
            known = {tuple(pair) for pair in split.train.tolist()}
            pairs = {(u, v) for u in range(60) for v in range(u + 1, 60)}
            assert keys == pairs - known

    def test_biased_ones_are_as_many_as_positives_and_redrawn(self, split):
        task = task_of(make("hgcn"), split)
        one, groups = task._negatives(1, 0, len(split.train))
        assert len(one) == len(groups) == len(split.train)
        assert not np.array_equal(one, task._negatives(2, 0, len(split.train))[0])
        fixed = task_of(make("gae", negatives="fixed"), split)
        first, later = (fixed._negatives(epoch, 0, 9)[0] for epoch in (1, 2))
        np.testing.assert_array_equal(first, later)

    def test_neo_gnn_visits_some_batches_of_a_fixed_size(self, split):
        model = make("neo-gnn", batch_size=10, batches=3)
        assert model._batching(100)[1] == 3
        assert model._batching(15)[1] == 2
        task = task_of(model, split)
        assert task.batches == 3
        assert len(task.positives.batch(1, 0)) in (9, 10)


class TestMasking:
    def test_is_on_for_unbiased_training_only(self, split):
        for training, expected in (("biased", False), ("unbiased", True)):
            settings = make("lgcn", training=training, batches=5)._settings(split)
            assert settings.masking is expected
        settings = make("lgcn", training="unbiased", masking=False)._settings(split)
        assert settings.masking is False
        for wrong in ({"masking": True}, {"training": "unbiased"}):
            with pytest.raises(UsageError, match=r"hides every edge.*batches=10"):
                make("lgcn", **wrong).fit(split)

    @pytest.mark.parametrize("name", EVERY)
    def test_hidden_positives_cannot_be_seen_in_scores(self, name, split):
        """Hidden edges give the scores of a graph that never had them."""
        task = task_of(make(name, training="unbiased", batches=10), split)
        task.module.eval()
        positions = task.positives.batch(1, 0)
        visible, positives = task.hide(positions)
        np.testing.assert_array_equal(positives, split.train[positions])
        rest = np.delete(split.train, positions, axis=0)
        absent = task.module.prepare(split.graph.with_edges(rest))
        pairs = torch.from_numpy(positives)
        with torch.no_grad():
            ours, gone, plain = (
                task.module.logits(task.module.encode(inputs), pairs)
                for inputs in (visible, absent, task.inputs)
            )
        assert torch.equal(ours, gone)
        assert not torch.allclose(ours, plain)


class TestValidation:
    @pytest.mark.parametrize("name", EVERY)
    def test_sampled_values_are_those_of_the_sampled_protocol(self, name, split):
        model = make(name, epochs=3, validate_every=1, metric="sampled-mean").fit(split)
        entry = model.training_.history[model.training_.best_epoch - 1]
        result = gelato.evaluate(model, split, part="valid", protocol="sampled", seed=0)
        assert entry["sampled-auc"] == pytest.approx(result.auc, abs=1e-6)
        assert entry["sampled-ap"] == pytest.approx(result.ap, abs=1e-6)
        assert entry["sampled-mean"] == pytest.approx((result.auc + result.ap) / 2)
        assert model.training_.best_value == entry["sampled-mean"]

    def test_all_pairs_are_ranked_when_it_is_due_or_selects(self, split):
        model = make("hgcn", epochs=4, validate_exact_every=2).fit(split)
        assert ["prec@100%" in entry for entry in model.training_.history] == [
            False,
            True,
            False,
            True,
        ]
        model = make("hgcn", epochs=3, metric="prec@100%").fit(split)
        best = model.training_
        result = gelato.evaluate(model, split, part="valid")
        assert best.best_value == result.precision_at(1.0)
        assert all("ap" in entry for entry in best.history)

    def test_the_last_epoch_can_be_kept(self, split):
        model = make("gae", epochs=7, validate_every=3).fit(split)
        assert model.training_.best_epoch == 7
        assert model.training_.best_value == 1.0
        seen = [set(SAMPLED) <= set(entry) for entry in model.training_.history]
        assert seen == [False, False, True, False, False, True, True]

    def test_hits_among_sampled_negatives_can_select(self):
        large = split_edges(community_graph(160), valid=0.2, test=0.1)
        assert len(large.valid) > 60
        model = make("gae", metric="sampled-hits@50", epochs=4, validate_every=2)
        model.fit(large)
        values = [entry.get("sampled-hits@50") for entry in model.training_.history]
        assert [value is None for value in values] == [True, False, True, False]
        assert model.training_.best_value == max(values[1], values[3])
        task = task_of(model, large)
        pairs = task._sample.numpy()
        task.module.eval().load_state_dict(model.module_.state_dict())
        found = task.validate()["sampled-hits@50"]
        scores = model.score_pairs(pairs)
        edges, others = np.split(scores, [len(large.valid)])
        assert found == np.mean(edges > np.sort(others)[-50])
        assert "sampled-hits@50" not in task_of(make("gae"), large).validate()

    def test_patience_ends_a_training(self, split):
        model = make("lgcn", epochs=500, patience=5, lr=0.05).fit(split)
        history = model.training_.history
        assert len(history) == model.training_.best_epoch + 5

    def test_states_that_are_not_finite_select_nothing(self, split):
        task = task_of(make("gae", validate_exact_every=None), split)
        with torch.no_grad():
            task.module.first.fill_(torch.nan)
        task.module.eval()
        assert all(np.isnan(task.validate()[name]) for name in SAMPLED)


@pytest.mark.parametrize("name", EVERY)
def test_an_interrupted_training_ends_where_it_would_have(name, split, tmp_path):
    options = {"epochs": 4, "training": "unbiased", "batches": 2}
    whole = make(name, **options).fit(split)

    def stop(entry, state):
        if entry["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(name, **options).fit(split, folder=tmp_path, on_epoch=stop)
    resumed = make(name, **options).fit(split, folder=tmp_path, resume=True)
    rows = np.arange(60)
    np.testing.assert_array_equal(resumed.score_rows(rows), whole.score_rows(rows))


@pytest.mark.parametrize("name", ["tlc-gnn", "bscnets", "neo-gnn"])
def test_chunks_of_pairs_change_no_gradient(name, split, monkeypatch):
    def gradients():
        task = task_of(make(name, training="unbiased", batches=10), split)
        value = NetworkTask.step_loss(task, 1, 0)
        value.backward()
        return value.detach(), [p.grad for p in task.module.parameters()]

    whole, expected = gradients()
    for module in (link_module, bscnets, tlc_gnn):
        monkeypatch.setattr(module, "CHUNK", 17)
    value, ours = gradients()
    torch.testing.assert_close(value, whole)
    for one, two in zip(ours, expected, strict=True):
        if two is not None:
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["hgcn", "lgcn"])
def test_large_steps_are_taken_in_parts_with_the_same_gradients(
    name, split, monkeypatch
):
    decoded = []

    def gradients():
        model = make(name, training="unbiased", batches=2)
        torch.manual_seed(1)
        task = task_of(model, split)
        decode = task.module.decode
        monkeypatch.setattr(
            task.module,
            "decode",
            lambda states, pairs: decoded.append(len(pairs)) or decode(states, pairs),
        )
        task.module.train()
        value = task.step_loss(1, 0)
        value.backward()
        found = [p.grad.clone() for p in task.module.parameters()]
        return value.item(), found

    whole = gradients()
    assert len(decoded) == 1
    monkeypatch.setattr(network_task, "LARGE", decoded[0])
    monkeypatch.setattr(network_task, "PART", 37)
    parts = gradients()
    assert sum(decoded[1:]) == decoded[0]
    assert max(decoded[1:]) == 37
    assert parts[0] == pytest.approx(whole[0], rel=1e-6)
    for one, two in zip(whole[1], parts[1], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-7)
    assert sum(float(one.abs().sum()) for one in whole[1]) > 0


def test_clipping_by_group():
    one = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    two = torch.nn.Parameter(torch.tensor([0.1]))
    unused = torch.nn.Parameter(torch.zeros(1))
    value = (one**2).sum() / 2 + (two**2).sum() / 2
    ours = clipped(value, [[one, unused], [two]])
    assert float(ours.detach()) == pytest.approx(12.505)
    ours.backward()
    torch.testing.assert_close(one.grad, torch.tensor([0.6, 0.8]))
    torch.testing.assert_close(two.grad, torch.tensor([0.1]))
    assert unused.grad is None


class TestFeatures:
    def bare(self):
        graph = community_graph(40)
        return Graph.from_indices(40, graph.edges)

    @pytest.mark.parametrize("name", NAMES)
    def test_graphs_without_attributes_are_refused_with_a_remedy(self, name):
        with pytest.raises(InputError, match=r"none.*one-hot"):
            make(name, epochs=2, valid=0.1).fit(self.bare())

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("kind", ["one-hot", "degree"])
    def test_other_features_are_said_aloud(self, name, kind):
        model = make(name, epochs=2, valid=0.1, features=kind).fit(self.bare())
        assert any(kind in note for note in model.notes_)
        assert np.isfinite(model.score_rows(np.arange(40))).all()

    def test_rows_are_divided_by_their_sums(self):
        X = np.array([[1.0, 3.0], [0.0, 0.0], [-1.0, 1.0]])
        graph = Graph.from_indices(3, [(0, 1)], attributes=X)
        ours = feature_module.node_features(graph, "attributes", normalise=True)
        expected = [[0.25, 0.75], [0.0, 0.0], [-0.5, 0.5]]
        np.testing.assert_array_equal(ours.toarray(), expected)

    def test_degrees_by_powers_of_two(self):
        graph = Graph.from_indices(6, [(0, v) for v in range(1, 5)])
        ours = feature_module.node_features(graph, "degree", normalise=False)
        assert ours.toarray().argmax(axis=1).tolist() == [2, 1, 1, 1, 1, 0]

    def test_other_attributes_than_those_of_training_are_refused(self, split):
        model = make("gae", epochs=2).fit(split)
        other = Graph.from_indices(60, split.train, attributes=np.ones((60, 3)))
        with pytest.raises(InputError, match=r"12 features.*gives 3"):
            model.with_graph(other).score_rows(np.arange(2))


class TestRefusals:
    @pytest.mark.parametrize("name", EVERY)
    def test_directed_graphs(self, name):
        with pytest.raises(UnsupportedGraphError, match="symmetrised"):
            make(name).fit(community_graph(directed=True))

    @pytest.mark.parametrize("name", ["bscnets", "neo-gnn"])
    def test_preprocessing_that_does_not_fit(self, name, split, monkeypatch):
        free = psutil.virtual_memory()._replace(available=10_000)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        with pytest.raises(InputError, match=r"would take about .* GB"):
            make(name).fit(split)

    @pytest.mark.parametrize(
        ("parameters", "error", "match"),
        [
            ({"training": "unbias"}, UnknownNameError, "Did you mean 'unbiased'"),
            ({"loss": "hinge"}, UnknownNameError, "cross-entropy"),
            ({"features": "none"}, UnknownNameError, "one-hot"),
            ({"metric": "accuracy"}, UnknownNameError, "sampled-auc"),
            ({"epochs": 0}, UsageError, "epochs is 0"),
            ({"hidden": 2.5}, UsageError, "hidden is 2.5"),
            ({"lr": float("nan")}, UsageError, "lr is nan"),
            ({"masking": "both"}, UsageError, "true or false"),
            ({"normalise": 1}, UsageError, "true or false"),
            (
                {"loss": "n-pair", "negatives": "weighted"},
                UsageError,
                'negatives="redrawn"',
            ),
        ],
    )
    def test_parameters_out_of_range(self, parameters, error, match, split):
        with pytest.raises(error, match=match):
            make("gae", **parameters).fit(split)

    def test_a_model_that_was_not_trained(self):
        with pytest.raises(UsageError, match="not been trained"):
            make("gae").scorer(community_graph())


def test_presets_are_parameters_of_their_models():
    for name in (entry.name for entry in entries() if entry.kind == "gnn"):
        for dataset in facts_of(name).presets:
            gelato.make(name, **preset(dataset, name)).check_parameters()
    assert preset("cora", "hgcn") == {}


def test_what_validation_computes_ahead_changes_no_bit(split, monkeypatch):
    def history():
        model = make("bscnets", epochs=4, validate_every=2, dropout=0.5).fit(split)
        return [
            {key: entry[key] for key in ("epoch", "loss", *SAMPLED) if key in entry}
            for entry in model.training_.history
        ]

    usual = history()
    monkeypatch.setattr(Ahead, "value", lambda self, compute, *_, **__: compute())
    assert history() == usual


def test_dropout_keeps_means_and_drops_its_share():
    torch.manual_seed(0)
    x = torch.full((200, 100), 2.0, requires_grad=True)
    found = dropped(x, 0.25)
    assert set(found.unique().tolist()) == {0.0, torch.tensor(2 / 0.75).item()}
    assert float((found == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    found.sum().backward()
    torch.testing.assert_close(x.grad * 2, found.detach())
    assert dropped(x, 0.0) is x
