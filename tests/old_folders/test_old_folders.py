"""Folders that an earlier version wrote are read, and go on, to the same results.

``make_old_folders.py`` tells how they were made. Numbers are compared everywhere, bits
only on a machine like the one that they were written on.
"""

from __future__ import annotations

import json
import runpy
import shutil
import sys

import pytest

import gelato
from old_folders.make_old_folders import (
    COMMANDS,
    DATA,
    EVALUATION,
    EXPECTED,
    FOLDERS,
    PARTS,
    RUNS,
    STUDIES,
    UNFINISHED,
    command_settings,
    read_data,
    run_facts,
    split,
    summary_of,
    trials_of,
)
from support import exact_bits as bits

KNOWN = json.loads(EXPECTED.read_text("utf-8"))
OTHER = bits.other_machine(KNOWN["machine"])
# Two more epochs of training enlarge what machines differ in.
TRAINED = bits.CLOSE if not OTHER else 1e-3


def plain(value):
    """As JSON has it: no tuples."""
    return json.loads(json.dumps(value))


@pytest.fixture(autouse=True)
def one_thread():
    with bits.one_torch_thread():
        yield


@pytest.fixture
def folders(tmp_path):
    """Return a copy that may be written into."""
    return shutil.copytree(FOLDERS, tmp_path / "folders")


@pytest.fixture
def command(folders, monkeypatch, capsys):
    """Run a command line beside the folders; return what it gives as JSON."""
    monkeypatch.chdir(folders)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["gelato", *words, "--json"])
        with pytest.raises(SystemExit) as left:
            runpy.run_module("gelato", run_name="__main__", alter_sys=True)
        told = capsys.readouterr()
        assert left.value.code == 0, told.err
        return json.loads(told.out)

    return call


def without_precision(known):
    """Leave out what links are expected to be worth, which is reckoned anew."""
    return known | {"links": [row[:4] for row in known["links"]]}


def assert_facts(model, known, *, close=bits.CLOSE, folder=None):
    ours = plain(run_facts(model, folder))
    # Models had a parameter of this name when the folders were written.
    kept = {k: v for k, v in known["parameters"].items() if k != "threads"}
    # Parameters that came later have their defaults.
    kept = plain(model.parameter_defaults()) | kept
    known = known | {"parameters": kept, "bits": without_precision(known["bits"])}
    ours["bits"] = without_precision(ours["bits"])
    for name in ("parameters", "split", "weights"):
        assert ours[name] == known[name], name
    bits.assert_close(ours["losses"], known["losses"], close=close)
    size = known["size"]
    bits.assert_close(ours["scores"], known["scores"], scale=size, close=close)
    assert ours["ap"] == pytest.approx(known["ap"], rel=0.02)
    if not OTHER:
        assert ours == known


def test_the_split_is_read_and_drawn_as_before():
    stored = gelato.EdgeSplit.load(FOLDERS / "split.parquet", read_data())
    assert stored.fingerprint == split().fingerprint == KNOWN["split"]
    for part in ("train", "valid", "test"):
        assert getattr(stored, part).tolist() == getattr(split(), part).tolist()


def test_everything_is_expected():
    assert list(KNOWN["runs"]) == RUNS
    assert list(KNOWN["unfinished"]) == list(UNFINISHED)
    assert list(KNOWN["studies"]) == list(STUDIES)


@pytest.mark.parametrize("name", RUNS)
def test_runs_load_and_score(name):
    folder = FOLDERS / name
    assert_facts(gelato.load(folder), KNOWN["runs"][name], folder=folder)


@pytest.mark.parametrize("name", RUNS)
def test_runs_are_saved_again_to_the_same(name, tmp_path):
    again = gelato.load(gelato.load(FOLDERS / name).save(tmp_path / "run"))
    assert_facts(again, KNOWN["runs"][name], folder=tmp_path / "run")


@pytest.mark.parametrize("name", UNFINISHED)
def test_trainings_go_on_to_the_same_result(name, folders):
    model, parameters = UNFINISHED[name]
    seen = []
    made = gelato.make(model, **parameters).fit(
        split(),
        folder=folders / name,
        resume=True,
        on_epoch=lambda entry, _: seen.append(entry["epoch"]),
    )
    assert seen == [2, 3]
    assert_facts(made, KNOWN["unfinished"][name], close=TRAINED)


def test_a_training_goes_on_by_command(folders, command):
    name = "gelato-unfinished"
    model, parameters = UNFINISHED[name]
    told = command(
        *("fit", "-m", model, *command_settings(parameters), "-o", name),
        *("--seed", "0", "--resume", *DATA, *PARTS),
    )
    assert told["training"]["epochs"] == 3
    made = gelato.load(folders / name)
    assert_facts(made, KNOWN["unfinished"][name], close=TRAINED)
    assert not (folders / name / "checkpoint.safetensors").exists()


def test_another_training_is_refused(folders):
    name = "gelato-unfinished"
    model, parameters = UNFINISHED[name]
    other = gelato.make(model, **parameters | {"lr": 0.1})
    with pytest.raises(gelato.GelatoError):
        other.fit(split(), folder=folders / name, resume=True)


def test_an_evaluation_goes_on(folders):
    model, told = gelato.make("cos").fit(split()), []
    result = gelato.evaluate(
        model,
        split(),
        resume=folders / EVALUATION,
        progress=lambda done, total: told.append((done, total)),
    )
    for name, value in KNOWN["evaluation"].items():
        assert getattr(result, name) == pytest.approx(value, rel=1e-9)
    if not OTHER:  # what is kept is of certain bits of scores
        assert told[0] == (2, 40)


@pytest.mark.parametrize("name", STUDIES)
def test_studies_go_on_to_the_same_trials(name, folders):
    pytest.importorskip("optuna")
    model, options, done = STUDIES[name]
    known = KNOWN["studies"][name]
    assert known["first"] == known["trials"][:done]
    kept = (folders / name).stat().st_size
    found = gelato.tune(model, split(), study=folders / name, **options)
    assert (folders / name).stat().st_size > kept
    ours = plain(trials_of(found))
    # Trials of the first sitting are read, not run: exact on every machine.
    assert ours[:done] == known["trials"][:done]
    for one, other in zip(ours, known["trials"], strict=True):
        assert one | {"value": None} == other | {"value": None}
        assert one["value"] == pytest.approx(other["value"], abs=0 if not OTHER else 1)


@pytest.mark.parametrize("name", ["gelato", "command-fit"])
def test_commands_read_runs(name, command):
    known = KNOWN["runs"][name]
    (found,) = command("evaluate", name)["results"]
    assert found["ap"] == pytest.approx(known["ap"], rel=0.02)
    links = command("predict", name, "--top", "3")["links"]
    assert [x["score"] for x in links] == pytest.approx(
        [row[2] for row in known["bits"]["links"]], rel=TRAINED
    )


def test_a_finished_run_gives_its_numbers_again(folders, command):
    """The very command that was interrupted may come again when all is done."""
    words = [*COMMANDS["command-fit"], "command-fit", *DATA, *PARTS, "--resume"]
    told = command(*words)
    stored = json.loads((folders / "command-fit" / "metrics.json").read_text("utf-8"))
    assert told["metrics"] == stored["metrics"]


def test_a_kept_comparison_tells_the_same():
    ours = plain(summary_of(FOLDERS / "compared.parquet"))
    for one, other in zip(ours, KNOWN["compared"], strict=True):
        assert list(one) == list(other)
        for name, value in other.items():
            expected = pytest.approx(value) if isinstance(value, float) else value
            assert one[name] == expected, name
