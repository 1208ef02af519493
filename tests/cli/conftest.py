"""A command line run in this process, and a small graph in files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gelato.cli.app import run


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Gelato = Callable[..., Outcome]


@pytest.fixture
def gelato(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Gelato:
    """Run a command line in an empty folder; no output may hold a traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*arguments: object) -> Outcome:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file of the test's folder."""

    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(data)
        return path

    return put


@dataclass(frozen=True)
class SmallGraph:
    names: list[str]
    pairs: list[tuple[str, str]]
    edges: Path
    attributes: Path


@pytest.fixture
def small(write: Callable[[str, str], Path]) -> SmallGraph:
    """Thirty nodes, 80 edges between near ones, weights, years, attributes."""
    names = [f"n{k:02d}" for k in range(30)]
    rng = random.Random(3)
    chosen: set[tuple[int, int]] = set()
    while len(chosen) < 80:
        a = rng.randrange(30)
        b = (a + rng.randrange(1, 6)) % 30
        chosen.add((min(a, b), max(a, b)))
    pairs = [(names[a], names[b]) for a, b in sorted(chosen)]
    rows = [f"{a},{b},{1 + k % 3},{1990 + k}" for k, (a, b) in enumerate(pairs)]
    edges = write("edges.csv", "\n".join(["from,to,weight,year", *rows]) + "\n")
    people = [f"{name},{20 + k},{'xyz'[k % 3]}" for k, name in enumerate(names)]
    attributes = write("people.csv", "\n".join(["id,age,group", *people]) + "\n")
    return SmallGraph(names, pairs, edges, attributes)
