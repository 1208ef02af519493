"""What a report gathers about a run, and what it costs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from gelato import make, split_edges
from gelato.graph import Graph
from gelato.report.contents import summarise_run
from gelato.report.rivals import summarise_runs

_OPENED: Counter[str] = Counter()


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | Path):
        _OPENED[str(arguments[0])] += 1


@pytest.fixture(scope="module", autouse=True)
def audit():
    sys.addaudithook(_note)  # stays for good, and only counts


@pytest.fixture
def run(tmp_path):
    edges = [(i, (i + k) % 20) for i in range(20) for k in (1, 2, 5)]
    split = split_edges(Graph.from_indices(20, edges), valid=0.1, test=0.2)
    return make("aa").fit(split).save(tmp_path / "run")


def openings_of(folder: Path, work) -> Counter[str]:
    """Count how often every file of a folder is opened."""
    _OPENED.clear()
    work()
    return Counter(
        {Path(name).name: n for name, n in _OPENED.items() if str(folder) in name}
    )


@pytest.mark.parametrize("nodes", [None, lambda graph: graph.node_ids[:5].tolist()])
def test_a_run_folder_is_read_once(run, nodes):
    from gelato.storage import read_run

    once = openings_of(run, lambda: read_run(run))
    assert once["metrics.json"] >= 1
    found = openings_of(run, lambda: summarise_run(run, top=5, nodes=nodes))
    assert found - once == Counter({"environment.json": 1})  # read for its words


def test_several_run_folders_are_read_once_each(run):
    from gelato.storage import read_run

    once = openings_of(run, lambda: read_run(run))
    assert openings_of(run, lambda: summarise_runs([run])) == once
