"""mlp, mlp+ac, mlp+cos+ac and Gelato's ablations: learning, resuming, refusing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import gelato
from gelato.errors import GelatoError, InputError, UsageError
from gelato.heuristics.walks import autocovariance_of
from gelato.models.gelato import Gelato
from gelato.models.mlp import MLP
from gelato.models.two_stage import MLPAutocovariance, MLPCosineAutocovariance
from gelato.nn.first_layer import PairFeatures
from gelato.paper import runner as runs
from gelato.paper.runner import RunSpec, perform
from gelato.splits import split_edges
from support.small_graphs import community_graph

QUICK = {"epochs": 3, "batches": 2, "hidden": 8, "validate_every": 1}
ROWS = np.arange(40)


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(), valid=0.1, test=0.1)


@pytest.fixture(scope="module")
def mlp(split):
    return MLP(**QUICK).fit(split)


def interrupted(model, split, folder, after=1):
    def stop(entry, progress):
        if entry["epoch"] == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(split, folder=folder, on_epoch=stop)


class TestMLP:
    @pytest.mark.parametrize("training", ["biased", "unbiased"])
    @pytest.mark.parametrize("loss", ["cross-entropy", "n-pair"])
    def test_it_learns_what_attributes_tell(self, split, training, loss):
        # Communities show in the attributes: a pair inside one is a likelier link.
        options = QUICK | {"epochs": 40, "lr": 0.01, "dropout": 0.0, "hidden": 16}
        model = MLP(loss=loss, training=training, **options).fit(split)
        losses = [entry["loss"] for entry in model.training_.history]
        assert np.mean(losses[-5:]) < losses[0]
        scores = model.score_rows(ROWS)
        same = ROWS[:, None] % 2 == ROWS % 2
        above = np.triu(np.ones_like(same), 1)
        assert scores[same & above].mean() > scores[~same & above].mean()

    @pytest.mark.parametrize("training", ["biased", "unbiased"])
    def test_a_resumed_training_ends_with_the_same_bits(
        self, split, training, tmp_path
    ):
        options = QUICK | {"training": training}
        interrupted(MLP(**options), split, tmp_path)
        resumed = MLP(**options).fit(split, folder=tmp_path, resume=True)
        straight = MLP(**options).fit(split)
        np.testing.assert_array_equal(
            resumed.score_rows(ROWS), straight.score_rows(ROWS)
        )
        assert len(resumed.training_.history) == 3

    def test_threads_change_nothing(self, split, mlp):
        with gelato.use_threads(2):
            other = MLP(**QUICK).fit(split)
        np.testing.assert_array_equal(other.score_rows(ROWS), mlp.score_rows(ROWS))

    def test_seeds_do(self, split, mlp):
        other = MLP(seed=4, **QUICK).fit(split)
        assert not np.array_equal(other.score_rows(ROWS), mlp.score_rows(ROWS))

    def test_scores_are_logits_of_the_weight(self, split, mlp):
        pairs = np.array([(0, 1), (4, 9), (38, 39)])
        features = PairFeatures(split.graph.attributes, pairs)
        with torch.no_grad():
            weight = mlp.module_(features).numpy()
        scores = mlp.score_pairs(pairs)
        np.testing.assert_allclose(1 / (1 + np.exp(-scores)), weight, rtol=1e-5)

    def test_edges_play_no_part_in_scores(self, split, mlp):
        fewer = replace(split.graph, edges=split.graph.edges[:5])
        np.testing.assert_array_equal(
            mlp.scorer(fewer).score_rows(ROWS), mlp.score_rows(ROWS)
        )

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("loss", ["npair", None]),
            ("training", ["all", "adversarial"]),
            ("hidden", [0]),
            ("chunk", [1]),
            ("epochs", [0, None, 1.5]),
            ("dropout", [1]),
            ("metric", ["precision"]),
            ("seed", [-1]),
        ],
    )
    @pytest.mark.parametrize("kind", [MLP, MLPAutocovariance])
    def test_parameters_are_checked_before_any_work(self, kind, name, values):
        for value in values:
            with pytest.raises(GelatoError, match=name) as caught:
                kind(**{name: value}).fit(None)
            assert caught.value.exit_code == 2

    @pytest.mark.parametrize("kind", [MLP, MLPAutocovariance])
    def test_graphs_it_cannot_learn_from(self, kind, split):
        plain = replace(split, graph=replace(split.graph, attributes=None))
        with pytest.raises(UsageError, match="attributes"):
            kind(**QUICK).fit(plain)
        with pytest.raises(GelatoError, match="directed"):
            kind(**QUICK).fit(community_graph(directed=True))
        with pytest.raises(InputError, match="fewer batches"):
            kind(**QUICK | {"batches": 1000}).fit(split)

    def test_other_attributes_are_refused(self, split, mlp):
        wide = replace(split.graph, attributes=np.ones((40, 13), dtype=np.float32))
        with pytest.raises(InputError, match="12 attributes per node"):
            mlp.with_graph(wide)


class TestTwoStages:
    def weights(self, mlp, graph, pairs):
        with torch.no_grad():
            return mlp.module_(PairFeatures(graph.attributes, pairs)).numpy()

    @pytest.mark.parametrize("alpha", [0.0, 0.5])
    def test_mlp_ac_is_autocovariance_on_the_mlp_s_weights(self, split, mlp, alpha):
        model = MLPAutocovariance(alpha=alpha, **QUICK).fit(split)
        graph = split.train_graph
        weights = alpha + (1 - alpha) * self.weights(mlp, graph, graph.edges)
        A = sp.coo_array((weights, graph.edges.T), shape=(40, 40)).tocsr()
        expected = autocovariance_of(sp.csr_array(A + A.T))
        np.testing.assert_allclose(
            model.scorer(graph).score_rows(ROWS), expected.score_rows(ROWS), atol=1e-7
        )

    def test_mlp_cos_ac_mixes_both_on_edges_and_similar_pairs(self, split, mlp):
        model = MLPCosineAutocovariance(**QUICK).fit(split, mlp=mlp)
        table = model.with_graph(split.train_graph).enhanced_edges()
        assert not table["is_edge"].all()
        pairs = table.select("source", "target").to_numpy()
        learned = self.weights(mlp, split.graph, pairs)
        similar = np.maximum(table["similarity"].to_numpy(), 0)
        own = 0.5 * table["is_edge"].to_numpy()
        expected = own + 0.5 * (0.5 * learned + 0.5 * similar)
        np.testing.assert_allclose(table["weight"].to_numpy(), expected, rtol=1e-5)

    def test_validation_chooses_alpha(self, split, mlp):
        model = MLPAutocovariance(**QUICK).fit(split, mlp=mlp)
        found = {}
        for alpha in (0.0, 0.5):
            fixed = MLPAutocovariance(alpha=alpha, **QUICK).fit(split, mlp=mlp)
            ranked = gelato.evaluate(fixed, split, part="valid")
            found[alpha] = ranked.precision_at(1.0)
        assert model.alpha_ == max(found, key=found.get)
        assert model.alpha is None
        assert any(f"alpha {model.alpha_}" in note for note in model.notes_)

    def test_a_given_mlp_must_be_the_one_it_would_train(self, split, mlp):
        shared = MLPAutocovariance(**QUICK).fit(split, mlp=mlp)
        alone = MLPAutocovariance(**QUICK).fit(split)
        np.testing.assert_array_equal(shared.score_rows(ROWS), alone.score_rows(ROWS))
        with pytest.raises(UsageError, match="seed=0"):
            MLPAutocovariance(seed=3, **QUICK).fit(split, mlp=mlp)
        other = split_edges(split.graph, valid=0.1, test=0.1, seed=9)
        with pytest.raises(UsageError, match="another split"):
            MLPAutocovariance(**QUICK).fit(other, mlp=mlp)

    def test_recorded_runs_share_one_training(self, split, tmp_path, monkeypatch):
        monkeypatch.setattr(runs, "load_dataset", lambda name: community_graph(60))
        epochs = []
        for method in ("mlp", "mlp+ac", "mlp+cos+ac"):
            spec = RunSpec(method, "tiny", 1, {"epochs": 2, "hidden": 8})
            record = perform(
                spec, tmp_path / "results", tmp_path / "work", report=epochs.append
            )
            assert len(record["training"]["history"]) == 2
            if method == "mlp+ac":
                assert any("chosen" in note for note in record["notes"])
        assert len(epochs) == 2  # told by the first run alone


class TestAblations:
    @pytest.mark.parametrize("training", ["biased", "unbiased"])
    def test_cross_entropy_s_unit_is_learned_and_resumed(
        self, split, training, tmp_path
    ):
        options = QUICK | {"loss": "cross-entropy", "training": training, "lr": 0.01}
        units = []

        def keep(folder):
            state = gelato_checkpoint(folder)
            units.append([float(state[f"loss.{name}"]) for name in ("weight", "bias")])

        interrupted(Gelato(**options), split, tmp_path / "part", after=2)
        keep(tmp_path / "part")
        resumed = Gelato(**options).fit(split, folder=tmp_path / "part", resume=True)
        keep(tmp_path / "part")
        straight = Gelato(**options).fit(split, folder=tmp_path / "whole")
        keep(tmp_path / "whole")
        assert units[0] != [1.0, 0.0]
        assert units[1] != units[0]
        assert units[1] == units[2]
        np.testing.assert_array_equal(
            resumed.score_rows(ROWS), straight.score_rows(ROWS)
        )

    @pytest.mark.parametrize("loss", ["cross-entropy", "n-pair"])
    @pytest.mark.parametrize("training", ["biased", "unbiased"])
    def test_every_one_runs(self, split, loss, training):
        model = Gelato(loss=loss, training=training, **QUICK).fit(split)
        assert model.training_.skipped == 0
        assert gelato.evaluate(model, split).ap > 0

    def test_gelato_without_the_mlp_is_ac(self, split):
        model = Gelato(alpha=1.0, **QUICK).fit(split)
        plain = gelato.make("ac").fit(split)
        np.testing.assert_array_equal(model.score_rows(ROWS), plain.score_rows(ROWS))


def gelato_checkpoint(folder):
    """Return the learned tensors of the last complete epoch in a checkpoint."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "checkpoint.safetensors")
    return {k.removeprefix("module."): v for k, v in tensors.items()}
