"""Study files: interrupted at any moment they go on to the same trials."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import gelato
from gelato.errors import OutputError, StoredFileError
from gelato.splits import split_edges
from gelato.tuning import TuningInterrupted, tune
from gelato.tuning.study import hold_study_file
from support import TESTS
from support.small_graphs import community_graph

SHORT = {"epochs": 3, "batches": 2, "hidden": 8}
SEARCHES = ["line", "grid", "free"]


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(40), valid=0.2, test=0.2)


def trials_of(tuned):
    return tuned.trials.drop("seconds").to_dicts()


def interrupt_after(count):
    """Return a progress callback that is struck in trial ``count``, or before it."""

    def told(what, done, total):
        if what and done >= count and ("epoch" not in what or done > count):
            raise KeyboardInterrupt

    return told


@pytest.mark.parametrize(
    ("search", "name", "given"),
    [
        *((search, "cos+ac", {}) for search in SEARCHES),
        ("line", "gelato", SHORT),
        ("free", "gae", {"epochs": 2}),
    ],
)
def test_an_interrupted_study_goes_on_to_the_same_trials(
    split, tmp_path, search, name, given
):
    options = {"search": search, "trials": 9, "parameters": given, "seed": 1}
    whole = tune(name, split, **options)
    file = tmp_path / "study.jsonl"
    for count in (3, 5):
        with pytest.raises(TuningInterrupted) as caught:
            tune(name, split, study=file, progress=interrupt_after(count), **options)
        assert trials_of(caught.value.tuned) == trials_of(whole)[:count]
    resumed = tune(name, split, study=file, **options)
    assert trials_of(resumed) == trials_of(whole)
    assert resumed.parameters == whole.parameters
    finished = tune(name, split, study=file, **options)
    assert not finished.is_fitted
    assert trials_of(finished) == trials_of(whole)
    result = gelato.evaluate(finished.model, split, part="valid")
    assert result.precision_at(1.0) == whole.value


def test_interrupted_before_the_first_trial(split):
    with pytest.raises(TuningInterrupted) as caught:
        tune("ac", split, progress=interrupt_after(0))
    assert caught.value.tuned is None


@pytest.mark.parametrize("search", SEARCHES)
def test_a_file_that_ends_anywhere(split, tmp_path, search):
    """What a kill may leave: the file up to any byte."""
    options = {"search": search, "trials": 5, "seed": 1}
    whole = tune("ac", split, study=tmp_path / "whole.jsonl", **options)
    content = (tmp_path / "whole.jsonl").read_bytes()
    lines = [k + 1 for k, byte in enumerate(content) if byte == 10]
    cuts = [*lines[::5], *(end - 7 for end in lines[1::5]), 1, 5, 40]
    for cut in cuts:
        file = tmp_path / f"{cut}.jsonl"
        file.write_bytes(content[:cut])
        assert trials_of(tune("ac", split, study=file, **options)) == trials_of(whole)


def test_more_trials_later(split, tmp_path):
    file = tmp_path / "study.jsonl"
    tune("cos+ac", split, study=file, trials=3, search="grid")
    more = tune("cos+ac", split, study=file, trials=8, search="grid")
    whole = tune("cos+ac", split, trials=8, search="grid")
    assert trials_of(more) == trials_of(whole)


def test_what_the_clock_ended_is_run_again(split, tmp_path):
    file = tmp_path / "study.jsonl"
    given = SHORT | {"epochs": 100_000}
    first = tune("gelato", split, study=file, seconds=0.7, parameters=given)
    second = tune("gelato", split, study=file, seconds=0.7, parameters=given)
    for tuned in (first, second):
        assert tuned.trials["number"].to_list() == [0]
        assert tuned.trials["epochs"][0] < 100_000


class TestRefused:
    @pytest.fixture
    def file(self, split, tmp_path):
        path = tmp_path / "study.jsonl"
        tune("ac", split, study=path, trials=2)
        return path

    @pytest.mark.parametrize(
        ("name", "options", "what"),
        [
            ("cos+ac", {}, "model"),
            ("ac", {"search": "grid"}, "search"),
            ("ac", {"metric": "ap"}, "metric"),
            ("ac", {"seed": 5}, "seed"),
            ("ac", {"space": {"t": (2, 3)}}, "space"),
            ("ac", {"parameters": {"t": 2}}, "space"),
            ("ac", {"prune": False}, "pruning"),
        ],
    )
    def test_another_study(self, split, file, name, options, what):
        before = file.read_bytes()
        with pytest.raises(StoredFileError, match=f"its {what} differs"):
            tune(name, split, study=file, **options)
        assert file.read_bytes() == before

    def test_another_graph_or_split(self, split, file):
        graph = split.graph
        with pytest.raises(StoredFileError, match="its split differs"):
            tune("ac", split_edges(graph, valid=0.2, test=0.2, seed=1), study=file)
        other = split_edges(community_graph(40, seed=3), valid=0.2, test=0.2)
        with pytest.raises(StoredFileError, match="differs"):
            tune("ac", other, study=file)

    def test_another_process(self, split, file):
        # Another thread is refused as well, and is sooner started.
        with hold_study_file(file), ThreadPoolExecutor(1) as other:
            refused = other.submit(tune, "ac", split, study=file)
            with pytest.raises(StoredFileError, match="Another"):
                refused.result()
        assert tune("ac", split, study=file, trials=2).trials.height == 2

    @pytest.mark.parametrize("content", ["hello", "a,b\n1,2\n", "{}\n", "[1]\n[2"])
    def test_no_study_at_all(self, split, tmp_path, content):
        file = tmp_path / "notes.txt"
        file.write_text(content)
        with pytest.raises(StoredFileError, match="no study"):
            tune("ac", split, study=file)
        assert file.read_text() == content

    def test_events_that_make_no_sense(self, split, file):
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[3:]))
        with pytest.raises(StoredFileError):
            tune("ac", split, study=file)
        file.write_text('{"op_code":99}\n')
        with pytest.raises(StoredFileError):
            tune("ac", split, study=file)

    def test_a_study_of_another_program(self, split, tmp_path):
        import optuna
        from optuna.storages.journal import JournalFileBackend

        file = tmp_path / "other.jsonl"
        storage = optuna.storages.JournalStorage(JournalFileBackend(str(file)))
        made = optuna.create_study(storage=storage, study_name="gelato")
        made.tell(made.ask(), 1.0)
        with pytest.raises(StoredFileError, match="another program"):
            tune("ac", split, study=file)

    def test_places_that_cannot_be_written(self, split, tmp_path):
        for place in (tmp_path, tmp_path / "nowhere" / "study.jsonl"):
            with pytest.raises(OutputError):
                tune("ac", split, study=place)

    def test_a_refused_place_is_left_empty(self, split, tmp_path):
        file = tmp_path / "study.jsonl"
        with pytest.raises(RuntimeError), hold_study_file(file):
            raise RuntimeError
        assert not file.exists()


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import gelato
from support.small_graphs import community_graph
split = gelato.split_edges(community_graph(40), valid=0.2, test=0.2)
def told(what, done, total):
    if done >= 2.5:
        os.kill(os.getpid(), signal.SIGKILL)
gelato.tune("gelato", split, trials=5, parameters={given!r}, study="study.jsonl",
            progress=told)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_killed_in_the_middle_of_a_training(split, tmp_path):
    code = KILLED.format(tests=str(TESTS), given=SHORT)
    struck = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert struck.returncode == -signal.SIGKILL
    file = tmp_path / "study.jsonl"
    assert json.loads(file.read_text().splitlines()[0])["op_code"] == 0
    resumed = tune("gelato", split, trials=5, parameters=SHORT, study=file)
    whole = tune("gelato", split, trials=5, parameters=SHORT)
    assert trials_of(resumed) == trials_of(whole)
