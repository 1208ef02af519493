"""Evaluations that are interrupted go on, and end with the same bits."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gelato
from gelato.errors import OutputError, StoredFileError
from gelato.graph import Graph
from gelato.ranking import journal as journals
from gelato.ranking import listed, within_hops
from gelato.splits import split_edges
from support import TESTS
from support.slow_scorers import CountingPairs, noisy_scores


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(1)
    ends = (80 * rng.random((200, 2)) ** 1.2).astype(int)
    return split_edges(Graph.from_indices(80, ends), valid=0.1, test=0.2)


def numbers(result):
    data = result.to_dict()
    data.pop("seconds")
    counts = result.counts
    return data, counts.above.tolist(), counts.tied.tolist(), counts.scores.tolist()


@pytest.mark.parametrize("options", [{}, {"estimate": 0.3}, {"hops": 4}])
@pytest.mark.parametrize("threads", [1, 3])
def test_interrupted_three_times_it_ends_the_same(
    split, tmp_path, options, threads, monkeypatch
):
    monkeypatch.setattr("gelato.ranking.counts._LISTED_SPAN", 50)
    options = dict(options)
    hops = options.pop("hops", None)
    if hops:
        known = split.known("test")
        near = within_hops(split.train_graph, hops, known).pairs
        pairs = np.concatenate([near, split.test])
        options["candidates"] = listed(split.graph, pairs, known)
    scores = noisy_scores(split.train_graph, levels=8)
    whole_scorer = CountingPairs(scores)
    whole = gelato.evaluate(whole_scorer, split, **options)
    asked = 0
    share = whole_scorer.asked // 3
    for _ in range(3):
        struck = CountingPairs(scores, stop_after=share)
        with pytest.raises(KeyboardInterrupt):
            gelato.evaluate(struck, split, resume=tmp_path, threads=threads, **options)
        asked += struck.asked
    last = CountingPairs(scores)
    result = gelato.evaluate(last, split, resume=tmp_path, **options)
    assert numbers(result) == numbers(whole)
    assert last.asked < whole_scorer.asked / 2
    # A finished one is read, positives apart.
    again = CountingPairs(scores)
    known = gelato.evaluate(again, split, resume=tmp_path, **options)
    assert numbers(known) == numbers(whole)
    assert again.asked == len(split.test)


def test_models_that_walk_resume_too(split, tmp_path, monkeypatch):
    monkeypatch.setattr("gelato.ranking.scorers._SPANS", 20)
    monkeypatch.setattr("gelato.ranking.scorers._BLOCK_ROWS", 4)
    model = gelato.make("ac")
    whole = gelato.evaluate(model, split)

    def stop(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gelato.evaluate(model, split, resume=tmp_path, progress=stop)
    seen = []
    result = gelato.evaluate(
        model, split, resume=tmp_path, progress=lambda done, total: seen.append(done)
    )
    assert numbers(result) == numbers(whole)
    assert seen[0] > 40


def test_other_models_parts_and_rates_do_not_meet(split, tmp_path):
    scores = noisy_scores(split.train_graph)
    kinds = [
        (scores, {}),
        (scores + 1.0, {}),
        (scores, {"part": "valid"}),
        (scores, {"estimate": 0.3}),
        (scores, {"estimate": 0.4}),
        (scores, {"estimate": 0.3, "seed": 1}),
    ]
    kept = [
        numbers(gelato.evaluate(CountingPairs(s), split, resume=tmp_path, **kind))
        for s, kind in kinds
    ]
    assert kept == [
        numbers(gelato.evaluate(CountingPairs(s), split, **kind)) for s, kind in kinds
    ]
    assert len(list(tmp_path.glob("evaluation-*.npz"))) == len(kinds)


def test_time_of_earlier_sittings_counts(split, tmp_path, monkeypatch):
    scores = noisy_scores(split.train_graph)
    hours = SimpleNamespace(monotonic=itertools.count(0, 3600).__next__)
    with monkeypatch.context() as patched:
        patched.setattr("gelato.ranking.journal.time", hours)
        stopping = CountingPairs(scores, stop_after=1500)
        with pytest.raises(KeyboardInterrupt):
            gelato.evaluate(stopping, split, resume=tmp_path)
    result = gelato.evaluate(CountingPairs(scores), split, resume=tmp_path)
    assert result.seconds >= 3600


def test_bad_folders_and_files_are_refused(split, tmp_path):
    model = gelato.make("cn")
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with pytest.raises(OutputError, match="cannot be made"):
        gelato.evaluate(model, split, resume=blocked)
    gelato.evaluate(model, split, resume=tmp_path / "kept")
    (file,) = (tmp_path / "kept").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoredFileError, match="is damaged") as caught:
        gelato.evaluate(model, split, resume=tmp_path / "kept")
    assert "Delete it" in caught.value.hint
    np.savez(
        file, header=np.array('{"format": "x", "done": 1, "seconds": 0}'), counts=0
    )
    with pytest.raises(StoredFileError, match="does not hold the counts"):
        gelato.evaluate(model, split, resume=tmp_path / "kept")


def test_writes_are_seldom_and_at_the_end(split, tmp_path, monkeypatch):
    written = []
    real = journals.write_bytes_atomic
    monkeypatch.setattr(
        journals, "write_bytes_atomic", lambda *a: written.append(real(*a))
    )
    gelato.evaluate(noisy_scores(split.train_graph), split, resume=tmp_path)
    assert len(written) == 1


KILLED = """
import os, signal, sys
import numpy as np
import gelato
from gelato.ranking import journal
from gelato.graph import Graph
sys.path.insert(0, sys.argv[2])
from support.slow_scorers import CountingPairs, noisy_scores

journal.Journal.__init__.__kwdefaults__["seconds"] = 0.0
rng = np.random.default_rng(1)
ends = (80 * rng.random((200, 2)) ** 1.2).astype(int)
split = gelato.split_edges(Graph.from_indices(80, ends), valid=0.1, test=0.2)

def kill(done, total):
    if 2 * done > total:
        os.kill(os.getpid(), signal.SIGKILL)

scorer = CountingPairs(noisy_scores(split.train_graph, levels=8))
gelato.evaluate(scorer, split, resume=sys.argv[1], progress=kill)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_killed_process_goes_on(split, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(TESTS)],
        timeout=120,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    scores = noisy_scores(split.train_graph, levels=8)
    whole, rest = CountingPairs(scores), CountingPairs(scores)
    wanted = gelato.evaluate(whole, split)
    result = gelato.evaluate(rest, split, resume=tmp_path)
    assert numbers(result) == numbers(wanted)
    assert rest.asked < 0.6 * whole.asked
