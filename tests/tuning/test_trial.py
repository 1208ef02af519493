"""Tuning on small graphs: values, budgets, pruning, and no look at test edges."""

from __future__ import annotations

import json
import sys
from typing import ClassVar

import numpy as np
import pytest

import gelato
from gelato.errors import GelatoError, InputError, MissingExtraError, UsageError
from gelato.graph import pair_keys
from gelato.models import trained
from gelato.models.heuristic import Autocovariance
from gelato.models.registry import unregister
from gelato.splits import EdgeSplit, split_edges
from gelato.training.loop import train
from gelato.tuning import Dimension, tune
from gelato.tuning.trial import blind
from support.small_graphs import community_graph

SHORT = {"epochs": 3, "batches": 2, "hidden": 8}


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(50), valid=0.2, test=0.2)


def trials_of(tuned):
    """Return all that must be equal in two tunings alike."""
    return tuned.trials.drop("seconds").to_dicts()


def validation_value(model, split, metric="prec@100%"):
    result = gelato.evaluate(model, split, part="valid", threads=1)
    return result.ap if metric == "ap" else result.precision_at(1.0)


class TestValues:
    @pytest.mark.parametrize("metric", ["prec@100%", "ap"])
    def test_grid_of_a_heuristic_against_plain_evaluation(self, split, metric):
        tuned = tune("ac", split, search="grid", metric=metric)
        assert tuned.trials.height == 6
        for row in tuned.trials.to_dicts():
            made = gelato.make("ac", t=row["t"], self_loops=row["self_loops"])
            assert row["value"] == validation_value(made.fit(split), split, metric)
            assert (row["state"], row["epochs"]) == ("complete", None)
        assert tuned.value == tuned.trials["value"].max()
        assert validation_value(tuned.model, split, metric) == tuned.value

    def test_the_best_training_again(self, split):
        tuned = tune("gelato", split, trials=4, seed=2, parameters=SHORT)
        assert tuned.parameters["seed"] == 2
        again = tuned.make().fit(split)
        assert tuned.is_fitted
        assert validation_value(again, split) == tuned.value
        np.testing.assert_array_equal(
            tuned.model.score_rows(np.arange(5)), again.score_rows(np.arange(5))
        )
        assert tuned.model.split_ is split, "predictions start from all known edges"
        assert tuned.model.training_.best_value == pytest.approx(tuned.value)

    @pytest.mark.parametrize(
        ("name", "given"),
        [
            ("cos+ac", {}),
            ("mlp", SHORT),
            ("mlp+cos+ac", SHORT),
            ("gae", {"epochs": 3}),
            ("neo-gnn", {"epochs": 2, "hidden": 8}),
        ],
    )
    @pytest.mark.parametrize("search", ["line", "free"])
    def test_every_kind_of_model(self, split, name, given, search):
        tuned = tune(name, split, search=search, trials=2, parameters=given)
        assert tuned.trials.height == 2
        assert validation_value(tuned.make().fit(split), split) == tuned.value

    def test_same_seed_same_trials_for_any_number_of_threads(self, split):
        options = {"search": "free", "trials": 7, "parameters": SHORT, "seed": 3}
        one = tune("gelato", split, threads=1, **options)
        two = tune("gelato", split, threads=2, **options)
        assert trials_of(one) == trials_of(two)
        other = tune("gelato", split, **(options | {"seed": 4}))
        assert trials_of(other) != trials_of(one)

    def test_values_of_one_s_own(self, split):
        tuned = tune("ac", split, search="free", trials=9, space={"t": (2, 3)})
        assert set(tuned.trials["t"]) == {2, 3}
        assert tuned.trials.columns[1:3] == ["t", "value"]
        repeated = tuned.trials["reason"].drop_nulls().to_list()
        assert all(text.startswith("as trial") for text in repeated)
        whole = Dimension((2, 3), 2, 4)
        drawn = tune("ac", split, search="free", trials=5, space={"t": whole})
        assert set(drawn.trials["t"]) <= {2, 3, 4}

    def test_plain_data(self, split):
        tuned = tune("ac", split, trials=2)
        found = json.loads(json.dumps(tuned.to_dict()))
        assert found["parameters"] == tuned.parameters
        assert [row["number"] for row in found["trials"]] == [0, 1]
        assert "Tuned(" in repr(tuned)


class TestTestEdges:
    def test_other_test_edges_same_trials(self, split):
        kept = split.test[: len(split.test) // 2]
        graph = split.graph.with_edges(np.concatenate([split.train, split.valid, kept]))
        fewer = EdgeSplit(graph, split.train, split.valid, kept)
        for name, given in (("cos+ac", {}), ("gelato", SHORT), ("gae", {"epochs": 3})):
            options = {"search": "free", "trials": 4, "parameters": given}
            one = tune(name, split, **options)
            assert trials_of(one) == trials_of(tune(name, fewer, **options))

    def test_models_never_get_them(self, split):
        seen = []

        @gelato.register("spy")
        class Spy(Autocovariance):
            search_space: ClassVar = {"t": (2, 3)}

            def fit(self, data):
                seen.append(data)
                return super().fit(data)

        try:
            tune("spy", split)
        finally:
            unregister("spy")
        hidden = set(pair_keys(split.test, split.graph.num_nodes).tolist())
        for data in seen:
            assert len(data.test) == 0
            edges = pair_keys(data.graph.edges, data.graph.num_nodes)
            assert not hidden & set(edges.tolist())
        assert len(seen) == 2

    def test_a_blind_split_trains_and_validates_alike(self, split):
        seen = blind(split)
        np.testing.assert_array_equal(seen.train, split.train)
        np.testing.assert_array_equal(seen.train_graph.edges, split.train_graph.edges)
        assert seen.num_candidates("valid") == split.num_candidates("valid")


class Scripted(Autocovariance):
    """Ranks as autocovariance does; its epochs report what a parameter says."""

    search_space: ClassVar = {"level": (5, 6, 7, 8, 1, 9)}
    trains_by_epoch = True
    epochs = 10
    batches = 1
    metric = "prec@100%"

    def __init__(self, *, level=5, t=3):
        self.level, self.t, self.self_loops = level, t, "isolated"

    def fit(self, data, *, on_epoch=None, on_step=None):
        for epoch in range(1, self.epochs + 1):
            self.happen(epoch)
            entry = {"epoch": epoch, "seconds": 0.0, self.metric: self.level / 10}
            on_epoch(entry, None)
        return super().fit(data)

    def happen(self, epoch): ...


@pytest.fixture
def scripted():
    gelato.register("scripted")(Scripted)
    yield Scripted
    unregister("scripted")


class TestPruning:
    def test_below_the_median_of_earlier_trials(self, split, scripted):
        tuned = tune("scripted", split)
        states = dict(tuned.trials.select("level", "state").iter_rows())
        assert states == {1: "pruned"} | dict.fromkeys((5, 6, 7, 8, 9), "complete")
        row = tuned.trials.filter(state="pruned").to_dicts()[0]
        assert (row["value"], row["epochs"]) == (0.1, 1)
        assert "median" in row["reason"]
        assert tuned.best.state == "complete"

    def test_can_be_left_out(self, split, scripted):
        tuned = tune("scripted", split, prune=False)
        assert set(tuned.trials["state"]) == {"complete"}

    def test_a_first_stage_is_shared_and_prunes_nothing(self, split, monkeypatch):
        fitted = []
        monkeypatch.setattr(
            trained, "train", lambda *a, **k: fitted.append(1) or train(*a, **k)
        )
        tuned = tune("mlp+ac", split, parameters=SHORT)
        assert tuned.trials.height > 4
        assert set(tuned.trials["state"]) == {"complete"}
        assert len(fitted) == 1
        assert tuned.model.mlp_.split_ is split
        assert validation_value(tuned.make().fit(split), split) == tuned.value


class TestFailures:
    def test_are_kept_with_their_reason(self, split, scripted, monkeypatch):
        def happen(self, epoch):
            if self.level == 6:
                raise InputError("six is no good")
            if self.level == 7:
                raise MemoryError

        monkeypatch.setattr(Scripted, "happen", happen)
        tuned = tune("scripted", split)
        reasons = dict(tuned.trials.select("level", "reason").iter_rows())
        assert reasons[6] == "six is no good"
        assert reasons[7] == "not enough memory"
        assert tuned.trials.filter(level=6)["state"].to_list() == ["failed"]

    def test_nothing_but_failures(self, split, scripted, monkeypatch):
        def happen(self, epoch):
            raise InputError("no good")

        monkeypatch.setattr(Scripted, "happen", happen)
        with pytest.raises(GelatoError, match=r"No trial could be completed.*no good"):
            tune("scripted", split)

    def test_no_validation_edges(self):
        with pytest.raises(InputError, match="valid"):
            tune("ac", split_edges(community_graph(30), valid=0.0, test=0.2))

    def test_faults_of_a_program_are_not_hidden(self, split, scripted, monkeypatch):
        def happen(self, epoch):
            raise ZeroDivisionError

        monkeypatch.setattr(Scripted, "happen", happen)
        with pytest.raises(ZeroDivisionError):
            tune("scripted", split)

    def test_optuna_is_not_installed(self, split, monkeypatch):
        monkeypatch.setitem(sys.modules, "optuna", None)
        with pytest.raises(MissingExtraError, match=r"gelato-lp\[tune\]"):
            tune("ac", split)


class TestBudget:
    def test_trials(self, split):
        assert tune("cos+ac", split, trials=3).trials.height == 3
        assert tune("ac", split, trials=100).trials.height < 10, "it ends by itself"
        free = tune("cos+ac", split, search="free")
        assert free.trials.height == 20

    @pytest.mark.parametrize("wrong", [{"trials": 0}, {"seconds": 0}])
    def test_none(self, split, wrong):
        with pytest.raises(UsageError):
            tune("ac", split, **wrong)

    def test_a_training_that_the_clock_ends_counts_and_can_be_made_again(self, split):
        given = SHORT | {"epochs": 100_000}
        tuned = tune("gelato", split, seconds=1.0, parameters=given)
        assert tuned.trials.height == 1
        assert "clock" in tuned.trials["reason"][0]
        epochs = tuned.parameters["epochs"]
        assert 0 < epochs < 100_000
        assert validation_value(tuned.make().fit(split), split) == tuned.value

    def test_no_time_for_anything(self, split):
        with pytest.raises(GelatoError, match="time was up"):
            tune("gelato", split, seconds=1e-6, parameters=SHORT)

    def test_progress_moves_forward_to_the_end(self, split):
        told = []
        tune(
            "gelato",
            split,
            trials=3,
            parameters=SHORT,
            progress=lambda *x: told.append(x),
        )
        done = [one[1] for one in told]
        assert done == sorted(done)
        assert told[-1][1:] == (3, 3)
        assert any("epoch 2" in one[0] for one in told)
        timed = []
        options = {
            "search": "free",
            "seconds": 0.3,
            "progress": lambda *x: timed.append(x),
        }
        tune("cos+ac", split, **options)
        assert {one[2] for one in timed} == {0.3}
