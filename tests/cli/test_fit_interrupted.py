"""Trainings, interrupted or killed in real processes, go on to the same end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gelato.training.loop import CHECKPOINT

# Slow: every process loads torch anew. The short twin is in test_fit.py.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="signals of POSIX"),
]

EPOCHS = 6
# Checkpoints after every epoch, and a signal to itself after one of them: what happens
# at an arbitrary moment, at a chosen one.
STRUCK = """
import os, sys
import gelato.training.loop as loop
from gelato.cli import app, progress

keep = loop._Store.__init__
loop._Store.__init__ = lambda self, folder, identity, seconds: keep(
    self, folder, identity, 0.0
)
told = progress.Watch.on_epoch
def on_epoch(self, entry, state):
    told(self, entry, state)
    if entry["epoch"] == {epoch}:
        os.kill(os.getpid(), {signal})
progress.Watch.on_epoch = on_epoch
sys.exit(app.run(sys.argv[1:]))
"""


def arguments(small, folder):
    return [
        *("fit", "--edges", str(small.edges), "--source", "from", "--target", "to"),
        *("--attributes", str(small.attributes), "--set", f"epochs={EPOCHS}"),
        *("--output", folder, "--set", "eta=0.5"),
    ]


def start(*command, cwd):
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=cwd, timeout=120
    )


def content(folder: Path):
    history = [
        {k: v for k, v in json.loads(line).items() if k not in ("seconds", "phases")}
        for line in (folder / "history.jsonl").read_text().splitlines()
    ]
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["training"]["seconds"]
    for part in metrics["metrics"].values():
        del part["seconds"]
    return (folder / "weights.safetensors").read_bytes(), history, metrics


@pytest.fixture
def whole(small, tmp_path):
    """The content of a run that nothing disturbed."""
    result = start("-m", "gelato", *arguments(small, "whole"), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return content(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_struck_training_resumes_to_the_same_result(small, tmp_path, whole, number):
    command = arguments(small, "struck")
    code = STRUCK.format(epoch=3, signal=int(number))
    struck = start("-c", code, *command, cwd=tmp_path)
    assert [path.name for path in (tmp_path / "struck").iterdir()] == [CHECKPOINT]
    if number == signal.SIGINT:
        assert struck.returncode == 130
        assert struck.stderr.splitlines()[-2] == "error: interrupted."
        hint = struck.stderr.splitlines()[-1]
        assert hint.startswith("Go on with: gelato fit --edges")
        assert hint.endswith("--resume")
    else:
        assert struck.returncode == -number
    refused = start("-m", "gelato", *command, cwd=tmp_path)
    assert refused.returncode == 1
    assert "--resume" in refused.stderr
    resumed = start("-m", "gelato", *command, "--resume", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "epoch 1 of" not in resumed.stderr
    assert content(tmp_path / "struck") == whole


def test_a_checkpoint_of_other_settings_is_refused(small, tmp_path):
    command = arguments(small, "struck")
    code = STRUCK.format(epoch=2, signal=int(signal.SIGKILL))
    start("-c", code, *command, cwd=tmp_path)
    other = start("-m", "gelato", *command, "--seed", "9", "--resume", cwd=tmp_path)
    assert other.returncode == 1
    assert "seed" in other.stderr
    assert [path.name for path in (tmp_path / "struck").iterdir()] == [CHECKPOINT]


def test_control_c_from_outside(small, tmp_path):
    command = [*arguments(small, "run"), "--set", "epochs=100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gelato", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("epoch 1 of"):
            break
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in errors
    assert "error: interrupted." in errors
    assert not (tmp_path / "run" / "config.toml").exists()
