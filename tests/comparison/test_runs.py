"""The table of runs: order, names, budgets, and what an interruption leaves."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gelato
from gelato.comparison.budgets import Budget, is_tunable
from gelato.comparison.runs import Contender, draw_splits, measure
from gelato.errors import UsageError
from gelato.ranking.evaluate import candidates_of as candidates_of
from gelato.ranking.resampling import rank_positives, resampled_precision
from support.small_graphs import community_graph


@pytest.fixture(scope="module")
def graph():
    return community_graph(40)


def test_rows_go_split_by_split_and_names_may_be_given(graph):
    models = {"short": gelato.make("ac", t=2), "cn": "cn"}
    table = gelato.compare(graph, models, splits=2)
    assert table["model"].to_list() == ["short", "cn"] * 2
    assert table["split"].n_unique() == 2
    assert "ap_resampled" not in table.columns
    again = gelato.compare(draw_splits(graph, 2), models)
    timeless = [name for name in table.columns if "seconds" not in name]
    assert table.select(timeless).equals(again.select(timeless))
    model = models["short"].fit(gelato.split_edges(graph, seed=1))
    assert table["ap"][2] == gelato.evaluate(model, model.split_).ap


def test_one_split_keeps_the_draws_of_its_test_links(graph):
    split = gelato.split_edges(graph)
    table = gelato.compare(split, ["cn"], protocols=["all", "sampled"])
    scorer = gelato.make("cn").fit(split).scorer(split.train_graph)
    ranked = rank_positives(scorer, split.test, candidates_of(split, "test"))
    np.testing.assert_array_equal(
        table["ap_resampled"][0].to_list(), resampled_precision(ranked)
    )
    assert table["ap_resampled"][1] is None
    assert table["test_edges"][0] == len(split.test)
    assert table["train_edges"][0] == len(split.train)


def test_finished_rows_survive_whatever_stops_the_rest(graph):
    class Struck:
        def fit(self, split):
            raise KeyboardInterrupt

    contenders = [
        Contender("cn", {None: gelato.make("cn")}),
        Contender("x", {None: Struck()}),
    ]
    kept = []
    rows = measure(contenders, draw_splits(graph, 2))
    kept.append(next(rows))
    with pytest.raises(KeyboardInterrupt):
        kept.append(next(rows))
    assert [row["model"] for row in kept] == ["cn"]


def test_misuse(graph):
    ac = gelato.make("ac")
    with pytest.raises(UsageError, match="Two of the models"):
        gelato.compare(graph, [ac, gelato.make("ac")])
    with pytest.raises(UsageError, match="at least 1"):
        gelato.compare(graph, [ac], splits=0)
    with pytest.raises(UsageError, match="cannot be drawn"):
        gelato.compare(gelato.split_edges(graph), [ac], splits=2)
    for trials, seconds in ((0, None), (None, 0.0), (None, float("nan"))):
        with pytest.raises(UsageError, match="no budget"):
            gelato.compare(graph, [ac], tune_trials=trials, tune_seconds=seconds)


def test_budgets_in_words():
    assert Budget.given(None, None) is None
    assert str(Budget.given(1, None)) == "1 trial"
    assert str(Budget.given(20, 30)) == "20 trials or 30 s"


def test_only_models_with_something_to_choose_are_tuned():
    assert is_tunable(gelato.make("ac"))
    assert not is_tunable(gelato.make("cn"))
    assert not is_tunable(gelato.make("ac", t=2, self_loops="all"))
    assert not is_tunable(np.zeros((3, 3)))


def test_every_model_gets_the_same_budget_on_every_split():
    pytest.importorskip("optuna")
    graph = community_graph(60)
    models = {"cn": "cn", "ac": "ac", "ac at 2": gelato.make("ac", t=2)}
    table = gelato.compare(graph, models, splits=2, tune_trials=4)
    rows = {(r["model"], r["split"]): r for r in table.to_dicts()}
    assert len(rows) == 6
    for (name, fingerprint), found in rows.items():
        split = next(s for s in draw_splits(graph, 2) if s.fingerprint == fingerprint)
        if name == "cn":
            assert (found["budget"], found["parameters"]) == (None, None)
            continue
        assert found["budget"] == "4 trials"
        fixed = {"t": 2} if name == "ac at 2" else {}
        tuned = gelato.tune(
            "ac", split, search="free", trials=4, seed=1, parameters=fixed
        )
        chosen = json.loads(found["parameters"])
        assert fixed | chosen == tuned.parameters
        assert ("t" in chosen) == (name == "ac")
        best = gelato.make("ac", **tuned.parameters)
        assert found["ap"] == gelato.evaluate(best.fit(split), split).ap
