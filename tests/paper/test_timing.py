"""Times: measured method by method, carried over, comparable or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gelato import split_edges
from gelato.errors import StoredFileError
from gelato.models.registry import preset, unregister
from gelato.paper import timing
from gelato.paper.claims import claims
from gelato.paper.experiment import Row, read_experiment
from gelato.paper.sections import _time_row, section_tables
from gelato.paper.timing import (
    find_times,
    missing_times,
    record_time,
    time_path,
    training_seconds,
    training_settings,
)
from support.slow_model import Slow, register
from support.tiny_runs import tiny_graph, toy_results, use_tiny_graph


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    use_tiny_graph(monkeypatch)


def test_carried_over():
    found = {
        "epochs": 10,
        "steps": 4,
        "step_seconds": 0.5,
        "validate_every": 3,
        "validation_seconds": 2.0,
        "ranking_every": None,
        "preparation_seconds": 0.0,
    }
    assert training_seconds(found, 100.0) == 10 * 4 * 0.5 + 4 * 2.0
    assert training_seconds(found, 100.0, epochs=3) == 3 * 4 * 0.5 + 2.0
    unreached = found | {"validation_seconds": None}
    assert training_seconds(unreached, 7.0) == 10 * 4 * 0.5 + 4 * 7.0
    more = found | {"ranking_every": 4, "preparation_seconds": 30.0}
    assert training_seconds(more, 7.0) == 30 + 10 * 4 * 0.5 + 4 * 2.0 + 2 * 7.0


def test_a_long_inference_is_forecast_and_says_so():
    register()
    try:
        Slow.seconds = 0.003  # two seconds for all pairs
        split = split_edges(tiny_graph())
        row = Row("slow", "tiny", {}, (None,), {})
        found = timing.measure(row, split, 0.01)
        assert found["inference_forecast"] is True
        assert 1.0 < found["inference_seconds"] < 60
        assert "≈" in _time_row(row, found, {}, Path())[-2]
        Slow.seconds = 0.0
        found = timing.measure(row, split, 1.0)
        assert "inference_forecast" not in found
        assert "≈" not in _time_row(row, found, {}, Path())[-2]
    finally:
        Slow.seconds = 0.0
        unregister("slow")


def test_settings_of_both_trainings():
    row = Row("gae", "photo", preset("photo", "gae"), (None,), {})
    found = training_settings(row)
    assert found["biased"]["training"] == "biased"
    assert found["unbiased"]["training"] == "unbiased"
    assert found["unbiased"]["batches"] == 10
    # Cut short on every graph of its table.
    row = Row("bscnets", "photo", preset("photo", "bscnets"), (None,), {})
    assert training_settings(row)["unbiased"]["batches"] == 10
    gelato = training_settings(Row("gelato", "photo", preset("photo"), (None,), {}))
    assert "batches" not in gelato["unbiased"]


def test_times_are_recorded_one_by_one_and_not_again(tmp_path, monkeypatch):
    few = ("ac", "gelato", "neo-gnn")
    experiment, place = toy_results(
        "time", tmp_path, keep=lambda row: row.method in few
    )
    left = [row.method for row in missing_times(experiment, place.results)]
    assert not set(few) & set(left)
    assert "lgcn" in left
    record = find_times(place.results, "toy")
    assert record["methods"]["ac"]["training"] == {}
    for kind in ("biased", "unbiased"):
        assert record["methods"]["gelato"]["training"][kind]["step_seconds"] > 0
    (table,) = section_tables(experiment, place.results)
    assert [row[0] for row in table.rows] == ["ac", "neo-gnn", "gelato"]
    assert "up to 2 epochs" in " ".join(table.rows[-1])
    assert "times of gae" in next(iter(table.missing))
    monkeypatch.setattr(timing, "measure", lambda *_: pytest.fail("timed again"))
    toy_results("time", tmp_path, keep=lambda row: row.method in few)


def test_speed_ups_follow_from_times(tmp_path):
    row = Row("ac", "photo", {}, (None,), {})
    record_time(row, tmp_path, tmp_path / "work", seconds=0.01)
    path = time_path(tmp_path, "photo")
    record = json.loads(path.read_text())
    part = {
        "epochs": 1,
        "steps": 1,
        "validate_every": 1,
        "validation_seconds": 0.0,
        "ranking_every": None,
        "preparation_seconds": 0.0,
    }
    for name, seconds in (("gelato", 2.0), ("neo-gnn", 30.0)):
        kinds = dict.fromkeys(timing.KINDS, part | {"step_seconds": seconds})
        record["methods"][name] = {"training": kinds, "inference_seconds": seconds / 2}
    timing.write_record(path, record)
    told = {claim.name: claim.ours for claim in claims(tmp_path)}
    assert told["training speed-up over Neo-GNN, photo"] == 15.0
    assert told["inference speed-up over Neo-GNN, photo"] == 15.0


def test_times_of_another_machine_are_refused(tmp_path):
    row = read_experiment("time").rows[0]
    assert row.method == "ac"
    record_time(row, tmp_path, tmp_path / "work", seconds=0.01)
    path = time_path(tmp_path, row.dataset)
    record = json.loads(path.read_text())
    record["threads"] += 1
    timing.write_record(path, record)
    with pytest.raises(StoredFileError, match=f"{path.name}.*another machine"):
        record_time(row, tmp_path, tmp_path / "work", seconds=0.01)


def test_whoever_comes_second_does_not_time_again(tmp_path, monkeypatch):
    row = Row("ac", "photo", {}, (None,), {})
    first = record_time(row, tmp_path, tmp_path / "work", seconds=0.01)
    monkeypatch.setattr(timing, "measure", lambda *_: pytest.fail("timed again"))
    assert record_time(row, tmp_path, tmp_path / "work", seconds=0.01) == first
