"""A few steps are timed, and the model is left as it was."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato.graph import Graph
from gelato.training import step_times
from gelato.training.step_times import _EnoughError, _Trial, time_steps

# Networks that stop a training early all share one trainer: one of them is enough.
TRAINED = ("mlp", "mlp+ac", "gelato", "gae", "neo-gnn")


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(5)
    edges = rng.integers(0, 60, (240, 2))
    graph = Graph.from_indices(60, edges, attributes=rng.random((60, 6)))
    return gelato.split_edges(graph, valid=0.1, test=0.1)


@pytest.mark.parametrize("name", TRAINED)
def test_steps_of_a_training(split, name):
    model = gelato.make(name)
    times = time_steps(model, split, seconds=5, least=3)
    assert times is not None
    assert 0 < times.step_seconds < 60
    assert times.timed >= 2
    assert model.steps_ >= 1


def test_the_time_of_a_validation_is_no_step(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(step_times, "perf_counter", lambda: now[0])
    trial = _Trial(seconds=60.0, least=3)
    for at in (3.0, 4.0):  # the first step takes 3 seconds, the second one
        now[0] = at
        trial.on_step(1, 0)
    now[0] = 24.0
    trial.on_epoch({"epoch": 1, "phases": {"validation": 20.0}}, None)
    now[0] = 25.0
    trial.on_step(2, 0)
    assert trial.steps == [3.0, 1.0, 1.0]
    assert trial.validation == 20.0
    trial.on_epoch({"epoch": 2, "phases": {"validation": 5.0}}, None)
    assert trial.validation == 5.0
    now[0] = 61.0  # late
    with pytest.raises(_EnoughError):
        trial.on_epoch({"epoch": 3, "phases": {}}, None)


def test_plenty_of_steps_and_two_validations_end_a_trial():
    trial = _Trial(seconds=60.0, least=3)
    trial.steps = [0.01] * 20
    trial.on_epoch({"epoch": 1, "phases": {"validation": 1.0}}, None)
    with pytest.raises(_EnoughError):
        trial.on_epoch({"epoch": 2, "phases": {"validation": 0.5}}, None)
    assert trial.validation == 0.5


def test_the_least_number_of_steps_is_taken_though_it_is_late():
    trial = _Trial(seconds=0.0, least=3)
    trial.steps = [0.0, 0.0]  # the first step that took no time is not too long
    entry = {"epoch": 1, "phases": {}}
    trial.on_epoch(entry, None)
    trial.steps.append(0.0)
    with pytest.raises(_EnoughError):
        trial.on_epoch(entry, None)


@pytest.mark.parametrize("name", ["gae", "neo-gnn", "nbfnet", "seal", "walkpool"])
def test_a_sampled_validation_that_was_not_reached(split, name, monkeypatch):
    model = gelato.make(name, validate_every=10)
    times = time_steps(model, split, seconds=0, least=2)
    assert times.validation_seconds > 0
    # What it stands for ranks no pairs.
    monkeypatch.setattr(type(model), "scorer", lambda *_: pytest.fail("ranked"))
    assert model.validation_seconds(split, times.step_seconds) > 0


def test_a_ranking_that_was_not_reached_is_not_guessed(split):
    for name in ("gelato", "mlp"):
        model = gelato.make(name, validate_every=10, epochs=10)
        assert time_steps(model, split, seconds=0, least=2).validation_seconds is None
    gae = gelato.make("gae", metric="prec@100%", validate_every=10)
    assert time_steps(gae, split, seconds=0, least=2).validation_seconds is None


def test_rankings_beside_sampled_validations():
    gae = gelato.make("gae", validate_every=6, validate_exact_every=4)
    assert gae.ranking_every == 12
    assert gelato.make("gae", validate_exact_every=None).ranking_every is None
    assert gelato.make("gae", metric="prec@100%").ranking_every is None


def test_nothing_to_train(split):
    assert time_steps(gelato.make("gelato", beta=0.0), split) is None


@pytest.mark.parametrize("name", TRAINED)
def test_untrained_models_rank(split, name):
    fresh = gelato.make(name, seed=3).untrained(split)
    found = gelato.evaluate(fresh, split)
    assert 0 < found.ap < 1
    again = gelato.evaluate(gelato.make(name, seed=3).untrained(split), split)
    assert again.ap == found.ap
