"""Worker processes that all tests of a module share: starting them takes a while."""

from __future__ import annotations

import pytest

from gelato.engines.processes import ProcessEngine


@pytest.fixture(scope="package")
def processes():
    """Two worker processes."""
    with ProcessEngine(2) as engine:
        yield engine


@pytest.fixture
def many_spans(monkeypatch):
    """Cut even small graphs into several spans."""
    monkeypatch.setattr("gelato.ranking.scorers._BLOCK_ROWS", 5)
