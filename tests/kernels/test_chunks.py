"""Tests of chunks and of the number of threads."""

from __future__ import annotations

import threading

import pytest

from gelato.engines import default_threads as engine_threads
from gelato.errors import UsageError
from gelato.kernels.chunks import default_threads, run_chunks, use_threads


def test_one_setting_limits_kernels_and_engines(monkeypatch):
    monkeypatch.setenv("GELATO_THREADS", "1")
    assert default_threads() == engine_threads() == 1
    names = []
    run_chunks(lambda _: names.append(threading.current_thread().name), 3)
    assert names == [threading.current_thread().name] * 3


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_wrong_setting_is_refused(monkeypatch, text):
    monkeypatch.setenv("GELATO_THREADS", text)
    with pytest.raises(UsageError, match="GELATO_THREADS"):
        default_threads()


def test_every_chunk_runs_once_on_several_threads():
    done = []
    with use_threads(3):
        run_chunks(done.append, 20)
    assert sorted(done) == list(range(20))
