"""What is missing, and what it will take."""

from __future__ import annotations

import pytest

from gelato.paper.jobs import Forecasts
from gelato.paper.records import write_record
from gelato.paper.runner import RunSpec, result_path

LONG = {"epochs": 200, "eta": 0.5}


def record(results, seed, fit, parameters=LONG, method="gelato"):
    spec = RunSpec(method, "cora", seed, parameters)
    path = result_path(results, spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    metrics = {"ap": 0.1, "seconds": 1.0}
    write_record(path, {"spec": spec.to_dict(), "metrics": metrics, "fit_seconds": fit})


def forecast(results, parameters=LONG, method="gelato"):
    return Forecasts(results).seconds(RunSpec(method, "cora", 9, parameters))


def test_nothing_recorded_is_no_forecast(tmp_path):
    assert forecast(tmp_path) is None


def test_the_quickest_of_equal_runs_tells(tmp_path):
    """One may be of older code, or was beside other work."""
    for seed, fit in ((1, 8000.0), (2, 1499.0), (3, 4000.0)):
        record(tmp_path, seed, fit)
    assert forecast(tmp_path) == pytest.approx(1500.0)


def test_a_nearer_run_tells_more_than_a_quicker_one(tmp_path):
    record(tmp_path, 1, 999.0)
    record(tmp_path, 1, 9.0, LONG | {"eta": 0.0})
    assert forecast(tmp_path) == pytest.approx(1000.0)


def test_time_follows_the_epochs(tmp_path):
    record(tmp_path, 1, 999.0)
    assert forecast(tmp_path, LONG | {"epochs": 20}) == pytest.approx(100.0)


def test_other_methods_and_trainings_tell_nothing(tmp_path):
    record(tmp_path, 1, 5.0, method="mlp")
    record(tmp_path, 1, 5.0, LONG | {"training": "biased"})
    assert forecast(tmp_path) is None
