"""TLC-GNN by the command line alone, none of which knows it."""

from __future__ import annotations

import pytest

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
