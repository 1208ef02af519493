"""The command line run in this process, in a folder of messy files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gelato.cli.app import run
from strangers.messy_files import TABLES


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Outcome]:
    """Run a command line in the test's folder; no output may hold a traceback."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def messy(tmp_path: Path) -> Callable[[str], Path]:
    """Write one of the messy tables, by name."""
    content = {name: text.encode(encoding) for name, text, encoding in TABLES}

    def put(name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(content[name])
        return path

    return put
