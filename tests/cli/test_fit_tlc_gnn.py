"""TLC-GNN by the command line alone, none of which knows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gelato.baselines.tlc_gnn import curvature
from gelato.baselines.tlc_gnn import resumable as by_parts
from gelato.cli import run_folders

QUICK = ("--set", "epochs=2", "--set", "hidden=8")


@pytest.fixture
def given(small):
    return ("--edges", small.edges, "--attributes", small.attributes)


def test_fit_evaluate_predict(gelato, given, small):
    options = (*given, "-m", "tlc-gnn", *QUICK, "--json")
    fitted = gelato("fit", *options, "-o", "run")
    assert fitted.code == 0, fitted.err
    assert gelato("evaluate", "run", "--json").code == 0
    found = gelato("predict", "run", "--top", "3", "--json")
    assert found.code == 0, found.err
    assert small.names[0][0] in found.out


@pytest.mark.parametrize("hops", [1, 2])
def test_a_forecast_names_the_preparation(gelato, given, hops):
    options = (*given, "-m", "tlc-gnn", *QUICK, "--set", f"hops={hops}", "--dry-run")
    told = gelato("fit", *options, "-o", "run")
    assert told.code == 0, told.err
    assert "preparation" in told.out
    data = gelato("fit", *options, "-o", "run", "--json").json["training_forecast"]
    assert 0 < data["preparation_seconds"] < data["seconds"]


def test_no_attributes_is_an_error_with_a_remedy(gelato, small):
    done = gelato("fit", "--edges", small.edges, "-m", "tlc-gnn", *QUICK, "-o", "run")
    assert done.code == 1
    assert "one-hot" in done.err


def test_compare_beside_a_heuristic(gelato, given):
    done = gelato(
        *("compare", *given, "--models", "cn,tlc-gnn", "--seeds", "1"),
        *("--set", "tlc-gnn.epochs=2", "--json"),
    )
    assert done.code == 0, done.err
    assert "tlc-gnn" in done.out


def test_an_interrupted_preparation_goes_on_with_resume(gelato, given, monkeypatch):
    """Parts in a folder are an unfinished training; resuming takes them up."""
    assert by_parts.PARTS in run_folders.PARTS
    monkeypatch.setattr(by_parts, "_PART", 100.0)
    real, begun, stop = curvature.edge_curvatures, [], [True]

    def stopping(first, last, *rest):
        if stop and first > 20:
            raise KeyboardInterrupt
        begun.append(first)
        real(first, last, *rest)

    monkeypatch.setattr(curvature, "edge_curvatures", stopping)
    command = ("fit", *given, "-m", "tlc-gnn", *QUICK, "-o", "run")
    stopped = gelato(*command)
    assert stopped.code != 0
    assert "--resume" in stopped.err
    assert Path("run/curvature.parts.npz").exists()
    refused = gelato(*command)
    assert refused.code == 1
    assert "--resume" in refused.err
    stop.clear()
    begun.clear()
    done = gelato(*command, "--resume")
    assert done.code == 0, done.err
    assert min(begun) > 0
    assert not list(Path("run").glob("*.parts.npz"))
