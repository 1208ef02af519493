"""Recorded runs: never repeated, never believed blindly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gelato import evaluate, make, split_edges
from gelato.errors import StoredFileError
from gelato.graph import Graph
from gelato.io.locking import locked
from gelato.paper import records
from gelato.paper import runner as runs
from gelato.paper.runner import (
    SPLITS,
    RunSpec,
    find_result,
    perform,
    read_result,
    result_path,
)
from gelato.ranking.metrics import precision_at
from gelato.stacking import folds
from support import TESTS

TRAINED = RunSpec("gelato", "tiny", 1, {"epochs": 2})
PLAIN = RunSpec("ac", "tiny")


def tiny_graph(*_):
    rng = np.random.default_rng(5)
    edges = rng.integers(0, 40, (160, 2))
    return Graph.from_indices(40, edges, attributes=rng.random((40, 4)))


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(runs, "load_dataset", tiny_graph)


@pytest.fixture
def places(tmp_path):
    return tmp_path / "results", tmp_path / "work"


def test_names_are_stable():
    # Recorded files are found by these names: they must never change.
    spec = RunSpec("gelato", "cora", 3, {"eta": 0.5})
    assert spec.name == "gelato-cora-seed3-" + spec.key
    assert spec.key == "047ee827"
    assert RunSpec("cos+ac", "cora").name.startswith("cos-ac-cora-")
    others = [
        RunSpec("gelato", "cora", 4, {"eta": 0.5}),
        RunSpec("gelato", "cora", 3, {"eta": 0.25}),
        RunSpec("gelato", "cora", 3, {"eta": 0.5}, "reduced epochs"),
    ]
    assert len({spec.key, *(other.key for other in others)}) == 4


@pytest.mark.parametrize("spec", [TRAINED, PLAIN])
def test_a_record_holds_what_is_needed_to_believe_it(places, spec):
    record = perform(spec, *places)
    assert read_result(result_path(places[0], spec), spec) == json.loads(
        json.dumps(record)
    )
    assert record["split"] == split_edges(tiny_graph()).fingerprint
    assert {"packages", "processor", "python"} <= set(record["environment"])
    assert record["metrics"]["biased"] is False
    assert record["biased_metrics"]["biased"] is True
    assert record["fit_seconds"] >= 0
    assert record["peak_rss_mb"] > 10
    if spec is TRAINED:
        assert len(record["training"]["history"]) == 2
        assert 1 <= record["training"]["best_epoch"] <= 2


def test_what_has_a_seed_and_no_epochs_is_recorded(places):
    spec = RunSpec("stack", "tiny", 1, {"folds": 1, "rounds": 5})
    record = perform(spec, *places)
    assert record["metrics"]["ap"] > 0
    assert find_result(places[0], spec) is not None


def test_stacks_without_a_part_share_what_they_are_made_of(places, monkeypatch):
    first = perform(RunSpec("stack", "tiny", 1, {"folds": 1, "rounds": 5}), *places)
    monkeypatch.setattr(folds, "make_fold", None)
    monkeypatch.setattr(folds.FeatureTable, "of", None)
    parameters = {"folds": 1, "rounds": 5, "without": "longer walks", "gate": False}
    other = perform(RunSpec("stack", "tiny", 1, parameters), *places)
    assert other["metrics"]["ap"] != first["metrics"]["ap"]
    assert set(other["metrics"]) >= {"prec@10", "prec@25", "prec@100"}


def test_a_run_on_another_split(places):
    spec = RunSpec("ac", "tiny", split=3)
    assert spec.name.startswith("ac-tiny-split3-")
    record = perform(spec, *places)
    assert record["split"] == split_edges(tiny_graph(), seed=3).fingerprint
    assert record["spec"]["split"] == 3
    model = make("ac").fit(split_edges(tiny_graph(), seed=3))
    found = evaluate(model, model.split_)
    assert record["metrics"]["prec@10"] == precision_at(found.counts, 10)
    assert "split" not in PLAIN.to_dict()
    assert find_result(places[0], RunSpec("ac", "tiny", split=0)) is None


def test_a_run_under_other_protocols_is_another_run(places):
    spec = RunSpec("ac", "tiny", protocols=("degree-corrected", "heart"))
    assert spec.key != PLAIN.key
    assert "protocols" not in PLAIN.to_dict()
    record = perform(spec, *places)
    assert read_result(result_path(places[0], spec), spec) == record
    assert RunSpec(**record["spec"]).key == spec.key
    model = make("ac").fit(split_edges(tiny_graph()))
    for name, measured in record["protocols"].items():
        found = evaluate(model, model.split_, protocol=name)
        assert measured["mrr"] == found.to_dict()["mrr"]
        assert measured["protocol"] == name
    assert set(record["protocols"]) == {"degree-corrected", "heart"}


def test_a_record_tells_the_threads_that_were_used(places, monkeypatch):
    monkeypatch.setenv("GELATO_THREADS", "3")
    assert perform(PLAIN, *places)["threads"] == 3


def test_nothing_is_run_twice(places, monkeypatch):
    first = perform(TRAINED, *places)
    monkeypatch.setattr(runs, "load_dataset", lambda *_: pytest.fail("run again"))
    assert perform(TRAINED, *places)["digest"] == first["digest"]
    assert find_result(places[0], PLAIN) is None


def test_epochs_are_told(places):
    lines = []
    perform(TRAINED, *places, report=lines.append)
    assert [line.partition(":")[0] for line in lines] == ["epoch 1", "epoch 2"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record["metrics"].update(ap=0.9),
        lambda record: record["spec"].update(seed=7),
        lambda record: record.update(format=2),
        lambda record: record.pop("digest"),
        lambda record: record.update(commit="another"),
    ],
)
def test_edited_records_are_refused(places, damage):
    perform(PLAIN, *places)
    path = result_path(places[0], PLAIN)
    record = json.loads(path.read_text())
    damage(record)
    path.write_text(json.dumps(record))
    with pytest.raises(StoredFileError, match=path.name):
        perform(PLAIN, *places)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"format": 1}'])
def test_foreign_files_are_refused(places, text):
    path = result_path(places[0], PLAIN)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(StoredFileError, match=path.name):
        read_result(path, PLAIN)


def test_a_record_of_another_split_is_refused(places, monkeypatch):
    spec = RunSpec("ac", "citeseer")  # under this name the tiny graph was split
    path = result_path(places[0], spec)
    perform(spec, *places)
    with pytest.raises(StoredFileError, match=f"{path.name}.*split"):
        read_result(path, spec)


@pytest.mark.parametrize("name", sorted(SPLITS))
def test_fingerprints_are_those_of_the_paper_s_splits(benchmark, name):
    assert split_edges(benchmark(name)).fingerprint == SPLITS[name]


@pytest.mark.slow
def test_a_second_process_waits_and_does_not_repeat(places, tmp_path):
    results, work = places
    done = perform(PLAIN, tmp_path / "elsewhere", tmp_path / "other")
    folder = work / PLAIN.name
    folder.mkdir(parents=True)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from gelato.paper import runner as runs\n"
        "def fail(*_):\n"
        "    raise AssertionError('it was run again')\n"
        "runs.load_dataset = fail\n"
        "spec = runs.RunSpec('ac', 'tiny')\n"
        "report = lambda text: print(text, flush=True)\n"
        "results, work = map(Path, sys.argv[1:])\n"
        "print(runs.perform(spec, results, work, report=report)['digest'])\n"
    )
    with locked(folder):
        process = subprocess.Popen(
            [sys.executable, "-c", code, results, work],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert process.stdout is not None
        assert "waiting" in process.stdout.readline()
        target = result_path(results, PLAIN)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(result_path(tmp_path / "elsewhere", PLAIN), target)
        assert process.poll() is None
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert out.strip() == done["digest"]


def test_a_failed_run_leaves_no_record(places, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records, "write_text_atomic", full)
    with pytest.raises(OSError, match="No space"):
        perform(PLAIN, *places)
    assert not [path for path in Path(places[0]).rglob("*") if path.is_file()]


@pytest.mark.slow
def test_a_killed_run_leaves_no_record_and_ends_as_if_nothing_had_been(
    places, tmp_path, monkeypatch
):
    from support import tiny_runs

    monkeypatch.setattr(runs, "load_dataset", tiny_runs.tiny_graph)
    spec = RunSpec("gelato", "tiny", 1, {"epochs": 3})
    results, work = places
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[3])\n"
        "from support import tiny_runs\n"
        "from gelato.paper import runner as runs\n"
        "runs.load_dataset = tiny_runs.tiny_graph\n"
        "def report(text):\n"
        "    if text.startswith('epoch 2'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "spec = runs.RunSpec('gelato', 'tiny', 1, {'epochs': 3})\n"
        "runs.perform(spec, Path(sys.argv[1]), Path(sys.argv[2]), report=report)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, results, work, TESTS],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert killed.returncode == -9
    assert not list(results.rglob("*.json"))
    assert (work / f".{spec.name}.lock").exists()  # a lock that nobody holds
    record = perform(spec, *places)
    fresh = perform(spec, tmp_path / "other", tmp_path / "elsewhere")
    assert record["metrics"]["ap"] == fresh["metrics"]["ap"]
    assert [e["loss"] for e in record["training"]["history"]] == [
        e["loss"] for e in fresh["training"]["history"]
    ]
