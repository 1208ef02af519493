"""A folder has one writer at a time."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from gelato.errors import OutputError
from gelato.io.locking import locked_folder

HOLD = """
import sys
from gelato.io.locking import locked_folder
with locked_folder(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder until it is told to let go."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def let_go(holder):
    holder.stdin.write("\n")
    holder.stdin.flush()


def test_a_second_process_is_refused_or_waits(holder, tmp_path):
    refused = pytest.raises(OutputError, match="Another process is writing")
    with refused as caught, locked_folder(tmp_path):
        pass
    assert str(tmp_path) in caught.value.problem
    assert caught.value.hint
    threading.Timer(0.2, let_go, [holder]).start()
    with locked_folder(tmp_path, wait=30):
        assert list(tmp_path.iterdir()) == []
    assert not list(tmp_path.parent.glob(".*.lock"))  # nothing is left behind


def test_a_process_that_was_killed_holds_nothing(holder, tmp_path):
    holder.kill()
    holder.wait()
    with locked_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    assert not list(tmp_path.parent.glob(".*.lock"))


def test_the_holder_may_lock_again_and_other_threads_may_not(tmp_path):
    seen = []

    def other():
        try:
            with locked_folder(tmp_path):
                seen.append("in")
        except OutputError:
            seen.append("refused")

    def ask():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with locked_folder(tmp_path):
        with locked_folder(tmp_path):
            ask()
        ask()  # the inner one did not give it back
    ask()
    assert seen == ["refused", "refused", "in"]


def test_where_no_lock_can_be_made_writers_are_trusted(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with locked_folder(tmp_path / "new"):
        assert (tmp_path / "new").is_dir()


def test_a_folder_made_anew_in_the_meantime_is_locked_itself(holder, tmp_path):
    moved = tmp_path.with_name(tmp_path.name + "-moved")

    def replace():
        tmp_path.rename(moved)
        tmp_path.mkdir()
        let_go(holder)

    threading.Timer(0.2, replace).start()
    with locked_folder(tmp_path, wait=30):
        assert tmp_path.is_dir()
    assert moved.is_dir()
