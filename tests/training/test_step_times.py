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
    with pytest.raises(_EnoughError):
        trial.on_epoch({"epoch": 2, "phases": {"validation": 5.0}}, None)
    assert trial.validation == 5.0


def test_the_least_number_of_steps_is_taken_though_it_is_late():
    trial = _Trial(seconds=0.0, least=3)
    trial.steps = [0.0, 0.0]  # the first step that took no time is not too long
    entry = {"epoch": 1, "phases": {}}
    trial.on_epoch(entry, None)
    trial.steps.append(0.0)
    with pytest.raises(_EnoughError):
        trial.on_epoch(entry, None)


def test_nothing_to_train(split):
    assert time_steps(gelato.make("gelato", beta=0.0), split) is None


@pytest.mark.parametrize("name", TRAINED)
def test_untrained_models_rank(split, name):
    fresh = gelato.make(name, seed=3).untrained(split)
    found = gelato.evaluate(fresh, split)
    assert 0 < found.ap < 1
    again = gelato.evaluate(gelato.make(name, seed=3).untrained(split), split)
    assert again.ap == found.ap
