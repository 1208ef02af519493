"""Evaluations that are estimated, limited, interrupted and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from gelato.cli.long_runs import parse_time
from gelato.errors import UsageError
from gelato.models.registry import unregister
from support import TESTS
from support.slow_model import Slow, register

INTERRUPTED = 130


@pytest.fixture
def slow():
    register()
    Slow.seconds, Slow.on_pairs = 0.0, None
    yield Slow
    Slow.seconds, Slow.on_pairs = 0.0, None
    unregister("slow")


@pytest.fixture
def command(small):
    ends = ("--source", "from", "--target", "to")
    return ["evaluate", "--edges", small.edges, *ends, "-m", "slow"]


def test_an_estimate_is_labelled_in_tables_and_json(gelato, slow, command):
    shown = gelato(*command, "--estimate", 0.4)
    assert shown.code == 0, shown.err
    assert "ESTIMATE, rate 0.4" in shown.out
    assert "95 % interval" in shown.out
    assert "near pairs (at most two edges apart) were scored exactly" in shown.out
    assert "all pairs" not in shown.out.partition("ESTIMATE:")[0].partition("\n\n")[2]
    data = gelato(*command, "--estimate", 0.4, "--json").json
    (result,) = data["results"]
    assert (result["estimated"], result["protocol"]) == (True, "estimated")
    low, high = result["estimate"]["intervals"]["ap"]
    exact = gelato(*command, "--json").json["results"][0]
    assert exact["estimated"] is False
    assert low <= exact["ap"] <= high
    both = gelato(*command, "--estimate", 0.4, "--protocol", "both").out
    assert "ESTIMATE, rate 0.4" in both
    assert "BIASED, sampled" in both


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        (("--estimate", 0), "rate above 0 and at most 1", "0.01"),
        (("--estimate", 1.5), "rate above 0 and at most 1", "0.01"),
        (("--estimate", 1e-12), "draws none of", "larger rate"),
        (("--estimate", 0.1, "--protocol", "sampled"), "--estimate is about", "both"),
        (("--time-limit", "1h", "--protocol", "sampled"), "--time-limit is", "both"),
        (("--time-limit", "soon"), "is not a time", "30min"),
        (("--time-limit", "0"), "is not a time", "30min"),
        (("--resume", "edges.csv"), "is not a folder", "made if missing"),
    ],
)
def test_bad_options(gelato, slow, command, options, problem, hint):
    outcome = gelato(*command, *options)
    assert outcome.code == 2
    assert problem in outcome.err
    assert hint in outcome.err
    assert not outcome.out


def test_times(gelato):
    assert parse_time("2 h") == 7200
    assert parse_time("0.5d") == 43200
    with pytest.raises(UsageError):
        parse_time("-1h")


def test_what_takes_too_long_is_refused_with_an_estimate_named(gelato, slow, command):
    slow.seconds = 0.002  # 435 pairs: about a second
    outcome = gelato(*command, "--time-limit", "0.7s")
    assert outcome.code == 2
    assert "would take about" in outcome.err
    assert "--time-limit allows 0.7 s" in outcome.err
    assert "--estimate" in outcome.err
    assert "--resume FOLDER" in outcome.err
    assert gelato(*command, "--time-limit", "1min").code == 0


def test_a_forecast_knows_of_the_estimate(gelato, slow, command):
    slow.seconds = 0.003
    told = [*command, "--dry-run", "--json", "--threads", 1]
    whole = gelato(*told).json["forecast"][0]
    part = gelato(*told, "--estimate", 0.01).json["forecast"][0]
    assert part["near_pairs"] < whole["pairs"]
    # 435 pairs less the known ones, three milliseconds each and what starting takes.
    assert 0.9 < whole["seconds"] < 60
    assert part["seconds"] < whole["seconds"]


def test_interrupted_it_says_how_to_go_on_and_does(gelato, slow, command, tmp_path):
    def stop(asked):
        if asked > 150:
            raise KeyboardInterrupt

    whole = gelato(*command, "--json").json["results"][0]
    slow.on_pairs = stop
    plain = gelato(*command)
    assert plain.code == INTERRUPTED
    assert "With --resume FOLDER" in plain.err
    kept = tmp_path / "kept"
    struck = gelato(*command, "--resume", kept)
    assert struck.code == INTERRUPTED
    assert f"What is done is in {kept}" in struck.err
    seen = []
    slow.on_pairs = seen.append
    result = gelato(*command, "--resume", kept, "--json").json["results"][0]
    for one in (whole, result):
        del one["seconds"]
    assert result == whole
    assert max(seen) < 400
    (file,) = kept.glob("evaluation-*")
    file.write_bytes(b"damaged")
    broken = gelato(*command, "--resume", kept)
    assert broken.code == 1
    assert "Delete it to count again" in broken.err


@pytest.mark.slow
def test_a_trained_model_keeps_its_training_there_too(gelato, small, tmp_path):
    command = [
        *("evaluate", "--edges", small.edges, "--source", "from", "--target", "to"),
        *("--attributes", small.attributes, "-m", "gae", "--set", "epochs=2", "--json"),
    ]
    whole = gelato(*command).json["results"][0]
    kept = tmp_path / "kept"
    first = gelato(*command, "--resume", kept).json["results"][0]
    again = gelato(*command, "--resume", kept).json["results"][0]
    for one in (whole, first, again):
        del one["seconds"]
    assert whole == first == again
    assert any("checkpoint" in file.name for file in kept.iterdir())


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
from gelato.cli import app
from gelato.ranking import journal
from support.slow_model import Slow, register

register()
journal.Journal.__init__.__kwdefaults__["seconds"] = 0.0
if os.environ.get("STRIKE"):
    def kill(asked):
        if asked > 200:
            os.kill(os.getpid(), signal.SIGKILL)
    Slow.on_pairs = kill
sys.exit(app.run(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("estimate", [(), ("--estimate", "0.6")])
def test_a_killed_command_goes_on_to_the_same_bits(command, tmp_path, estimate):
    words = [str(word) for word in [*command, *estimate, "--json"]]

    def start(*more, strike=""):
        return subprocess.run(
            [sys.executable, "-c", KILLED, str(TESTS), *words, *more],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            check=False,
            env={**os.environ, "STRIKE": strike},
        )

    whole = start()
    assert whole.returncode == 0, whole.stderr
    struck = start("--resume", "kept", strike="yes")
    assert struck.returncode == -signal.SIGKILL
    assert list((tmp_path / "kept").glob("evaluation-*.npz"))
    last = start("--resume", "kept")
    assert last.returncode == 0, last.stderr
    wanted, found = json.loads(whole.stdout), json.loads(last.stdout)
    for one in (wanted, found):
        del one["results"][0]["seconds"]
    assert found["results"] == wanted["results"]


class TestFit:
    def options(self, small, *more):
        return [
            *("fit", "--edges", small.edges, "--source", "from", "--target", "to"),
            *("--attributes", small.attributes, "-m", "gae", "--set", "epochs=1"),
            *("-o", "run", *more),
        ]

    def test_estimates_are_labelled_and_kept_so(self, gelato, small, tmp_path):
        outcome = gelato(*self.options(small, "--estimate", 0.5))
        assert outcome.code == 0, outcome.err
        assert "test, ESTIMATE" in outcome.out
        assert "all pairs" not in outcome.out
        stored = json.loads((tmp_path / "run" / "metrics.json").read_text())
        assert stored["metrics"]["test"]["estimated"] is True
        assert stored["metrics"]["validation"]["estimate"]["rate"] == 0.5
        assert not list((tmp_path / "run").glob("evaluation-*"))
        assert gelato(*self.options(small, "--estimate", 3)).code == 2

    def test_a_ranking_that_is_interrupted_goes_on(
        self, gelato, small, tmp_path, monkeypatch
    ):
        from gelato.ranking import journal

        whole = gelato(*self.options(small)[:-1], "whole", "--json").json["metrics"]
        real, written = journal.Journal.keep, []

        def keep(self, done, counts, *, now=False):
            real(self, done, counts, now=True)
            written.append(done)
            if len(written) == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(journal.Journal, "keep", keep)
        struck = gelato(*self.options(small))
        assert struck.code == INTERRUPTED
        assert "--resume" in struck.err
        assert list((tmp_path / "run").glob("evaluation-*.npz"))
        monkeypatch.setattr(journal.Journal, "keep", real)
        rest = gelato(*self.options(small, "--resume", "--json"))
        found = rest.json["metrics"]
        for part in (*whole.values(), *found.values()):
            del part["seconds"]
        assert found == whole
        assert not list((tmp_path / "run").glob("evaluation-*"))
