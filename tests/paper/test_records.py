"""Records: the layout of files may change, what they say and their digests may not."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gelato.errors import StoredFileError
from gelato.paper.records import (
    code_commit,
    migrate,
    read_record,
    seal,
    write_record,
)

RESULTS = Path(__file__).resolve().parents[2] / "results"
HISTORY = [
    {"epoch": 1, "loss": None, "skipped": 0, "phases": {"mlp": 0.5}, "odd": True},
    {"epoch": 2, "loss": 0.25, "skipped": 0, "phases": {}, "ap": 0.1},
    {"epoch": 3, "loss": 0.125, "skipped": 0, "phases": {"mlp": 1.0, "walks": 2.0}},
    {"epoch": 4, "loss": 1, "skipped": 0, "phases": {}, "ap": 0.2, "odd": 1},
]
RECORD = {"format": 1, "training": {"best_epoch": 4, "history": HISTORY}}


def written_before(path, record):
    """Write a record as the first version did."""
    path.write_text(json.dumps(seal(record), indent=1) + "\n", "utf-8")
    return path


def test_a_record_of_the_first_layout_is_read_as_it_is(tmp_path):
    path = written_before(tmp_path / "old.json", RECORD)
    assert read_record(path, {"format": 1}) == seal(RECORD)


def test_migration_keeps_content_and_digest(tmp_path):
    old = written_before(tmp_path / "old.json", RECORD)
    other = tmp_path / "benchmark.json"
    other.write_text("{}")
    before, size = read_record(old, {}), len(old.read_text().splitlines())
    assert migrate(tmp_path) == [old]
    after = read_record(old, {})
    assert json.dumps(after, sort_keys=True) == json.dumps(before, sort_keys=True)
    assert f'"digest": "{before["digest"]}"' in old.read_text()
    assert len(old.read_text().splitlines()) < size
    assert migrate(tmp_path) == []
    assert other.read_text() == "{}"
    # The digest is that of the rows, as the first version took it.
    text = json.dumps(RECORD, sort_keys=True)
    assert before["digest"] == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_a_changed_curve_is_noticed_in_either_layout(tmp_path):
    path = tmp_path / "new.json"
    write_record(path, RECORD)
    path.write_text(path.read_text().replace("0.125", "0.126"))
    with pytest.raises(StoredFileError, match="edited"):
        migrate(tmp_path)


@pytest.mark.parametrize("broken", ['{"rows": 4}', "7", '{"rows": 1, "columns": {}}'])
def test_a_damaged_curve_is_refused(tmp_path, broken):
    path = tmp_path / "bad.json"
    path.write_text(f'{{"training": {{"history": {broken}}}, "digest": "0"}}')
    with pytest.raises(StoredFileError):
        read_record(path, {})


plain = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False)
rows = st.dictionaries(st.sampled_from("abc"), plain) | st.fixed_dictionaries(
    {"a": st.just(1), "phases": st.dictionaries(st.sampled_from("xy"), plain)}
)


@given(st.lists(rows, max_size=8))
def test_any_history_comes_back(tmp_path_factory, history):
    path = tmp_path_factory.mktemp("record") / "any.json"
    sealed = write_record(path, {"training": {"history": history}})
    assert json.dumps(read_record(path, {}), sort_keys=True) == json.dumps(
        sealed, sort_keys=True
    )


def test_the_repository_s_records_are_small():
    if not RESULTS.is_dir():
        pytest.skip("the repository's results are not at hand")
    sizes = [path.stat().st_size for path in RESULTS.rglob("runs/*/*.json")]
    assert sum(sizes) / len(sizes) < 40_000


def test_a_record_names_the_commit_of_its_code(tmp_path):
    package, results = tmp_path / "src" / "package", tmp_path / "results"
    for folder in (package, results):
        folder.mkdir(parents=True)
        (folder / "file").write_text("one")

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)

    assert code_commit(package) is None  # no repository
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    commit = code_commit(package)
    assert re.fullmatch("[0-9a-f]{12}", commit)
    (results / "file").unlink()
    (results / "another").write_text("a record")
    assert code_commit(package) == commit
    (package / "file").write_text("two")
    assert code_commit(package) == f"{commit}-dirty"
    (package / "file").write_text("one")
    (package / "another").write_text("code that git does not know")
    assert code_commit(package) == f"{commit}-dirty"
