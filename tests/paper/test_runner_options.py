"""Options that came after the first records: old runs keep their keys, new differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gelato.errors import UsageError
from gelato.models.registry import make, preset
from gelato.nn.losses import CrossEntropyLoss
from gelato.paper.experiment import read_experiment
from gelato.paper.runner import RunSpec, first_stage, result_path
from gelato.splits import split_edges
from gelato.training.negatives import listed_negatives
from support.small_graphs import community_graph

NETWORKS = ("hgcn", "lgcn", "tlc-gnn", "bscnets", "neo-gnn", "nbfnet")


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(), valid=0.1, test=0.1)


def rows(experiment, dataset):
    found = read_experiment(experiment).rows
    return {row.name: row for row in found if row.dataset == dataset}


class TestKeys:
    def test_a_start_that_is_named_is_another_run(self, tmp_path):
        found = rows("ablation", "photo")
        (zero,), (odds,) = (
            found[name].runs((1,)) for name in ("Gelato-NP, bias 0", "Gelato-NP")
        )
        assert odds.parameters == zero.parameters | {"bias": "log-odds"}
        assert odds.key != zero.key
        # The first record of photo: what it is called does not change.
        assert result_path(tmp_path, zero).name.startswith("gelato-photo-seed1-")
        assert zero.parameters == preset("photo", "gelato") | {"loss": "cross-entropy"}

    def test_negatives_drawn_once_are_another_run_and_another_first_stage(self):
        once = RunSpec("mlp+ac", "cora", 1, {"epochs": 5, "redraw": False})
        anew = RunSpec("mlp+ac", "cora", 1, {"epochs": 5})
        assert once.key != anew.key
        assert first_stage(once).parameters == {"epochs": 5, "redraw": False}
        assert first_stage(once).key != first_stage(anew).key

    @pytest.mark.parametrize("name", ["gelato", "mlp", *NETWORKS, "seal", "walkpool"])
    def test_checkpoints_of_old_trainings_still_belong_to_their_model(
        self, name, split
    ):
        usual = make(name)
        assert not {"redraw", "bias"} & set(usual._identity(split))
        other = make(name, redraw=not usual.redraw)
        assert other._identity(split)["redraw"] is not usual.redraw


class TestBias:
    def settings(self, **given):
        return make("gelato", loss="cross-entropy", batches=2, hidden=4, **given)

    def start(self, split, **given):
        return self.settings(**given)._task(split).module.loss.bias.item()

    def test_it_starts_where_the_share_of_links_ends(self, split):
        graph = split.train_graph
        odds = graph.num_edges / (graph.num_pairs - graph.num_edges)
        assert self.start(split) == 0
        assert self.start(split, bias="log-odds") == pytest.approx(math.log(odds))

    def test_biased_training_has_as_many_negatives_so_it_starts_at_0(self, split):
        assert self.start(split, bias="log-odds", training="biased") == 0

    def test_a_loss_without_a_unit_refuses_it(self, split):
        with pytest.raises(UsageError, match="no unit"):
            make("gelato", bias="log-odds").fit(split)

    def test_only_the_start_differs(self):
        one, two = CrossEntropyLoss(), CrossEntropyLoss(bias=-2.0)
        assert [name for name, _ in one.named_parameters()] == ["weight", "bias"]
        assert one.weight.item() == two.weight.item() == 1


class TestDrawnOnce:
    def test_of_pairs(self):
        edges = np.array([[0, 1], [1, 2]])
        for redraw in (True, False):
            draw = listed_negatives(
                "biased", 30, edges, batches=2, seed=1, redraw=redraw
            )
            first, later = (draw(epoch, 0, 9)[0] for epoch in (1, 2))
            assert np.array_equal(first, later) is not redraw

    @pytest.mark.parametrize("training", ["unbiased", "partitioned"])
    def test_other_trainings_refuse_it(self, split, training):
        with pytest.raises(UsageError, match="does not draw once"):
            make("gelato", redraw=False, training=training).fit(split)

    @pytest.mark.parametrize("redraw", [True, False])
    @pytest.mark.parametrize("name", ["gelato", "hgcn", "seal"])
    def test_of_models(self, split, name, redraw):
        model = make(name, redraw=redraw, training="biased", batches=2)
        task = model._task(split)
        found = []
        for epoch in (1, 2):
            if name == "gelato":
                lists = task.sampler.draw(epoch, 0, 9, None).lists
                found.append({*zip(lists.rows(), lists.listed_columns(), strict=True)})
            else:
                every = (task._negatives(epoch, b, 8)[0] for b in range(task.batches))
                found.append({tuple(pair) for pairs in every for pair in pairs})
        assert (found[0] == found[1]) is not redraw


class TestConstantWeights:
    def test_they_are_gelato_whose_weights_are_all_1(self, split):
        chosen = {"eta": 0.5, "alpha": 0.5, "beta": 0.25}
        model = make("cos+ac", **chosen).fit(split)
        graph = split.train_graph
        enhanced = model.enhanced(graph)
        expected = 0.5 * enhanced.base + 0.5 * (0.25 + 0.75 * enhanced.similarity)
        np.testing.assert_allclose(model.weights(graph, enhanced), expected)

    def test_where_everything_is_learned_they_are_autocovariance(self, split):
        constant = make("cos+ac", eta=0.0, alpha=0.0, beta=1.0).fit(split)
        plain = make("ac").fit(split)
        np.testing.assert_allclose(
            constant.score_rows(np.arange(9)), plain.score_rows(np.arange(9))
        )
