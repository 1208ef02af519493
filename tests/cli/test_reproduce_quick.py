"""``gelato reproduce --quick``: everything at toy size, kept apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.tiny_runs import use_tiny_graph

FIGURES = 10  # of the paper's tables and figures together


def figures(folder):
    return {path.stem for path in Path(folder).rglob("*.svg")}


@pytest.fixture
def tiny(monkeypatch):
    use_tiny_graph(monkeypatch)


@pytest.mark.usefixtures("tiny")
def test_toy_runs_have_a_place_of_their_own(gelato):
    outcome = gelato("reproduce", "losses", "--quick", "--json")
    assert outcome.code == 0, outcome.err
    (experiment,) = outcome.json["experiments"]
    assert {cell["label"] for cell in experiment["cells"]} == {"toy"}
    assert {cell["published"] for cell in experiment["cells"]} == {None}
    assert not Path("results").exists()
    assert len(list(Path("runs/quick/results/runs/toy").iterdir())) == 5
    assert figures("runs/quick/figures") == {"losses-losses"}
    assert "TOY RUNS" in Path("runs/quick/figures/losses-losses.svg").read_text()
    assert gelato("reproduce", "losses", "--quick").err == ""  # nothing twice


@pytest.mark.usefixtures("tiny")
def test_a_toy_page(gelato):
    gelato("reproduce", "heuristics", "--quick")
    outcome = gelato("reproduce", "heuristics", "--quick", "--write-docs", "toy.md")
    assert outcome.code == 0
    assert " toy |" in Path("toy/heuristics.md").read_text()


@pytest.mark.usefixtures("tiny")
def test_unknown_names(gelato):
    assert "Did you mean losses?" in gelato("reproduce", "loses", "--quick").err
    outcome = gelato("reproduce", "losses", "--quick", "--datasets", "photo")
    assert outcome.code == 2
    assert "toy" in outcome.err


@pytest.mark.slow
def test_every_experiment_for_real(gelato):
    outcome = gelato("reproduce", "--quick", "--json")
    assert outcome.code == 0, outcome.err
    experiments = outcome.json["experiments"]
    for experiment in experiments:
        for cell in experiment.get("cells", ()):
            assert cell["missing_seeds"] == []
        drawn = experiment["figures"]
        assert all(files for files in drawn.values()), experiment["name"]
    assert len(figures("runs/quick/figures")) == FIGURES
    for path in Path("runs/quick/results").rglob("*.json"):
        record = json.loads(path.read_text())
        assert record.get("spec", {"label": "toy"})["label"] == "toy"
    page = gelato("reproduce", "--quick", "--write-docs", "page.md")
    assert page.code == 0, page.err
    for path in Path("page").iterdir():
        assert "Figure missing" not in path.read_text()
