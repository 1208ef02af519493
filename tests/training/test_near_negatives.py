"""Training on near negatives and a sample of the far ones, from sampler to model."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import gelato
from gelato.errors import GelatoError, UnsupportedGraphError, UsageError
from gelato.graph import Graph
from gelato.kernels.chunks import use_threads
from gelato.models.gelato import Gelato
from gelato.models.registry import preset
from gelato.nn.enhancement import enhance
from gelato.nn.pair_mlp import PairMLP
from gelato.splits import split_edges
from gelato.training import near_negatives
from gelato.training.gelato_task import GelatoTask, StepSettings
from gelato.training.near_negatives import NearNegatives, choose_near
from support.small_graphs import community_graph


def sparse_graph(n=90, *, weighted=False, seed=0):
    """A ring of small communities: few pairs are near. The last nodes have no edge."""
    random = np.random.default_rng(seed)
    u, v = np.triu_indices(n - 3, 1)
    apart = np.minimum(v - u, n - 3 - (v - u))
    drawn = random.random(len(u)) < np.where(apart < 5, 0.3, 0.001)
    edges = np.stack([u[drawn], v[drawn]], axis=1)
    place = np.arange(n)[:, None] // 9 == np.arange(12)
    attributes = random.random((n, 12)) < 0.1 + 0.6 * place
    weights = random.choice([0.5, 1.0, 2.0], len(edges)) if weighted else None
    rows = sp.csr_array(attributes.astype(np.float32))
    return Graph.from_indices(n, edges, weights=weights, attributes=rows)


def make_task(graph, *, eta=0.3, **settings):
    enhanced = enhance(graph, eta=eta, alpha=0.5, beta=0.5)
    model = PairMLP(
        2 * graph.num_attributes, hidden=8, dropout=0.0, dtype=torch.float64, seed=3
    )
    given = StepSettings(**{"batches": 3, "negatives": "near", **settings})
    return GelatoTask(graph, enhanced, graph.edges[:3], model, given)


def step(task, epoch=2, batch=1):
    loss = task.loss(epoch, batch)
    loss.backward()
    gradients = [parameter.grad for parameter in task.module.parameters()]
    return loss.detach(), gradients


class TestSampler:
    @pytest.fixture
    def sampler(self):
        return make_task(sparse_graph()).sampler

    def test_near_ones_once_an_epoch_and_far_ones_by_number(self, sampler):
        assert isinstance(sampler, NearNegatives)
        drawn = [sampler.draw(1, batch, 20, None) for batch in range(3)]
        assert sum(len(d.lists) for d in drawn) == sampler.near.count
        per_positive = sampler.near.num_far / (3 * 20)
        for d in drawn:
            assert d.far.complete  # a small graph: all are listed
            assert len(d.far.pairs) == d.far.count == sampler.near.num_far
            assert d.far.per_positive == pytest.approx(per_positive)
            assert d.used.tolist() == list(range(20))
            assert d.weight == 1

    def test_a_far_sample_is_uniform_over_the_far_negatives(self):
        task = make_task(sparse_graph())
        few = NearNegatives(
            task.structure,
            task.pairs.training_edges,
            task.sampler.near,
            batches=3,
            seed=5,
            far_sample=900,
        )
        drawn = [few.draw(e, 0, 20, None).far for e in range(40)]
        everything = task.sampler.draw(1, 0, 20, None).far.pairs
        keys = np.concatenate([np.sort(f.pairs, axis=1) @ [1000, 1] for f in drawn])
        allowed = np.sort(everything, axis=1) @ [1000, 1]
        assert np.isin(keys, allowed).all()
        assert not drawn[0].complete
        counts = np.bincount(np.searchsorted(np.sort(allowed), keys))
        mean = len(keys) / len(allowed)
        # A Poisson count of about 10 has a variance of about 10.
        assert np.var(counts) == pytest.approx(mean, rel=0.15)
        assert np.array_equal(drawn[3].pairs, few.draw(3, 0, 20, None).far.pairs)

    def test_a_rate_keeps_the_groups_as_large_as_they_are(self):
        """Fewer positives, each with as many negatives: nothing is thinned."""
        graph = sparse_graph(400)
        whole, part = (
            make_task(graph, near_rate=rate, batches=1).sampler for rate in (1.0, 0.25)
        )
        positives = graph.num_edges
        every, some = (s.draw(1, 0, positives, None) for s in (whole, part))
        assert len(some.used) == round(0.25 * positives)
        sizes = [len(d.lists) / len(d.used) for d in (every, some)]
        assert sizes[1] == pytest.approx(sizes[0], rel=0.1)
        assert some.weight == pytest.approx(1, rel=0.01)
        assert some.far.per_positive == every.far.per_positive
        assert "25.00% of them in an epoch" in part.note
        assert not np.array_equal(some.used, part.draw(2, 0, positives, None).used)

    def test_bad_sample(self, sampler):
        with pytest.raises(UsageError, match="far_sample"):
            NearNegatives(
                sampler.structure,
                np.array([[0, 1]]),
                sampler.near,
                batches=1,
                seed=0,
                far_sample=0,
            )


class TestTask:
    @pytest.mark.parametrize("t", [1, 2, 3, 4])
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("self_loops", ["all", "isolated"])
    def test_mean_loss_is_close_to_that_of_plain_training(
        self, t, weighted, self_loops
    ):
        """Far negatives by their expected sum: the same loss, less noise."""
        graph = sparse_graph(weighted=weighted)
        options = {"t": t, "self_loops": self_loops}
        near, plain = (
            make_task(graph, negatives=kind, **options) for kind in ("near", "all")
        )
        assert len(near.notes) == 1
        assert not plain.notes
        with torch.no_grad():
            losses = [
                [float(task.loss(e, b)) for e, b in itertools.product((1, 2), range(3))]
                for task in (near, plain)
            ]
        np.testing.assert_allclose(*np.mean(losses, axis=1), rtol=0.01)
        assert near.epoch_values() == {"far_error": 0.0}
        assert plain.epoch_values() == {}

    def test_all_of_a_batch_is_hidden_also_where_some_is_compared(self):
        graph = sparse_graph(weighted=True)
        results = []
        for factor in (1.0, 7.0):
            weights = graph.weights.copy()
            task = make_task(graph, eta=0.0, near_rate=0.3)
            positives = task.positives.batch(2, 1)
            weights[positives] *= factor
            task = make_task(replace(graph, weights=weights), eta=0.0, near_rate=0.3)
            results.append(step(task))
        assert torch.equal(results[0][0], results[1][0])
        for one, two in zip(results[0][1], results[1][1], strict=True):
            assert torch.equal(one, two)

    def test_threads_do_not_change_a_bit(self):
        graph = sparse_graph(300)
        results = []
        for threads in (1, 4):
            with use_threads(threads):
                results.append(step(make_task(graph)))
        assert torch.equal(results[0][0], results[1][0])
        for one, two in zip(results[0][1], results[1][1], strict=True):
            assert torch.equal(one, two)

    def test_other_losses_deal_all_negatives(self):
        for other in ({"loss": "listnet"}, {"training": "biased"}):
            task = make_task(sparse_graph(), negatives="auto", **other)
            assert not isinstance(task.sampler, NearNegatives)


class TestChoice:
    def test_a_graph_whose_pairs_are_nearly_all_near_falls_back(self):
        task = make_task(community_graph())
        assert not isinstance(task.sampler, NearNegatives)
        assert "more than 50%" in task.notes[0]

    def test_auto_minds_nodes_and_share(self, monkeypatch):
        graph = sparse_graph()
        structure = make_task(graph).structure
        assert choose_near("auto", structure, graph.edges, t=3) == (None, "")
        monkeypatch.setattr(near_negatives, "AUTO_NODES", 50)
        near, why = choose_near("auto", structure, graph.edges, t=1)
        assert near is not None
        assert not why
        near, why = choose_near("auto", structure, graph.edges, t=6)
        assert near is None
        assert "more than 20%" in why
        assert choose_near("all", structure, graph.edges, t=3) == (None, "")

    def test_the_paper_s_graphs_are_trained_as_ever(self):
        """The largest has 19,717 nodes."""
        assert near_negatives.AUTO_NODES > 19_717


OPTIONS = {"epochs": 4, "batches": 2, "hidden": 8, "negatives": "near"}


@pytest.fixture(scope="module")
def split():
    return split_edges(sparse_graph(), valid=0.1, test=0.1)


class TestModel:
    def test_it_learns_and_says_how(self, split, tmp_path):
        model = Gelato(**OPTIONS).fit(split)
        assert "trained on near negatives" in model.notes_[-1]
        assert all(entry["far_error"] == 0 for entry in model.training_.history)
        losses = [entry["loss"] for entry in model.training_.history]
        assert losses[-1] < losses[0]
        model.save(tmp_path / "run")
        again = gelato.load(tmp_path / "run")
        assert again.notes_ == model.notes_
        assert again.negatives == "near"

    @pytest.mark.parametrize("near_rate", [None, 0.5])
    def test_a_resumed_training_ends_with_the_same_bits(
        self, split, tmp_path, near_rate
    ):
        options = OPTIONS | {"near_rate": near_rate}
        straight = Gelato(**options).fit(split)

        def interrupt(epoch, batch):
            if epoch == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Gelato(**options).fit(split, folder=tmp_path, on_step=interrupt)
        resumed = Gelato(**options).fit(split, folder=tmp_path, resume=True)
        assert len(resumed.training_.history) == 4
        for one, two in zip(
            straight.module_.state_dict().values(),
            resumed.module_.state_dict().values(),
            strict=True,
        ):
            assert torch.equal(one, two)
        with pytest.raises(GelatoError, match=r"negatives|near_rate"):
            Gelato(**options | {"negatives": "auto", "near_rate": 0.9}).fit(
                split, folder=tmp_path, resume=True
            )

    def test_defaults_do_not_part_checkpoints_from_older_ones(self, split):
        assert "negatives" not in Gelato()._identity(split)
        assert "near_rate" not in Gelato()._identity(split)
        assert Gelato(negatives="all")._identity(split)["negatives"] == "all"

    @pytest.mark.parametrize(
        "bad",
        [
            {"loss": "cross-entropy"},
            {"training": "biased"},
            {"heuristic": "mixture"},
            {"masking": "one-sided"},
        ],
    )
    def test_what_it_cannot_do_is_refused_before_any_work(self, bad):
        with pytest.raises(UsageError, match=next(iter(bad))) as caught:
            Gelato(negatives="near", **bad).fit(None)
        assert 'negatives="all"' in str(caught.value)

    def test_a_rate_of_what_is_not_sampled_is_refused(self):
        with pytest.raises(UsageError, match="near_rate"):
            Gelato(negatives="all", near_rate=0.5).fit(None)

    def test_a_directed_graph_is_refused(self):
        graph = community_graph(directed=True)
        with pytest.raises(UnsupportedGraphError, match="near"):
            Gelato(**OPTIONS).fit(split_edges(graph, valid=0.1, test=0.1))


@pytest.mark.slow
def test_citeseer_is_learned_as_well_as_by_plain_training():
    split = split_edges(gelato.load_dataset("citeseer"), valid=0.05, test=0.1, seed=0)
    values = {}
    for kind in ("all", "near"):
        given = preset("citeseer") | {"epochs": 4, "negatives": kind, "seed": 1}
        history = Gelato(**given).fit(split).training_.history
        values[kind] = history[-1]
    assert 0 < values["near"]["far_error"] < 0.005
    assert values["near"]["loss"] == pytest.approx(values["all"]["loss"], rel=0.05)
    for metric, margin in (("prec@100%", 0.02), ("ap", 0.005), ("auc", 0.01)):
        assert abs(values["near"][metric] - values["all"][metric]) < margin
