"""``gelato fit --model stack``: forecast, parts that are kept, and going on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gelato as library
from gelato.cli import run_folders
from gelato.stacking import folds

QUICK = ("-m", "stack", "--seed", "1", "--set", "folds=3", "--set", "rounds=3")


@pytest.fixture
def command(small):
    files = ("--edges", small.edges, "--source", "from", "--target", "to")
    return ("fit", *files, *QUICK)


def test_names_are_those_of_the_library():
    assert {folds.MARK, folds.FOLDS} < set(run_folders.PARTS)


def test_a_dry_run_says_how_long(gelato, command):
    told = gelato(*command, "--dry-run")
    assert "about" in told.out
    assert "learns nothing" not in told.out
    forecast = gelato(*command, "--dry-run", "--json").json["training_forecast"]
    assert forecast["seconds"] > 0
    assert not Path("run").exists()


def test_an_interrupted_fit_goes_on_with_what_it_has(gelato, command, monkeypatch):
    monkeypatch.setenv("GELATO_THREADS", "1")
    whole = gelato(*command, "-o", "whole")
    assert whole.code == 0, whole.err
    real, made = folds.make_fold, []

    def struck(graph, attributes, fold, **options):
        if fold == 2 and fold not in made:
            made.append(fold)
            raise KeyboardInterrupt
        made.append(fold)
        return real(graph, attributes, fold, **options)

    monkeypatch.setattr(folds, "make_fold", struck)
    stopped = gelato(*command)
    assert stopped.code != 0
    assert "--resume" in stopped.err
    assert "has not been finished" in gelato(*command).err
    assert gelato(*command, "--resume").code == 0
    assert made == [0, 1, 2, 2]
    kept = {path.name for path in Path("run").iterdir()}
    assert not any(name.startswith("fold") for name in kept)
    first, second = library.load("whole"), library.load("run")
    rows = np.arange(first.graph_.num_nodes)
    np.testing.assert_array_equal(first.score_rows(rows), second.score_rows(rows))
