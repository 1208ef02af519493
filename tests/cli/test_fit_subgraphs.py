"""SEAL and WalkPool by the command line alone, none of which knows them."""

from __future__ import annotations

import pytest

NAMES = ("seal", "walkpool")
QUICK = {
    "seal": ("--set", "epochs=1", "--set", "hidden=4", "--set", "steps=2"),
    "walkpool": (
        *("--set", "epochs=1", "--set", "hidden=4", "--set", "steps=2"),
        *("--set", "units=8", "--set", "pretraining=2"),
    ),
}


@pytest.fixture
def given(small):
    return ("--edges", small.edges, "--attributes", small.attributes)


@pytest.mark.parametrize("name", NAMES)
def test_fit_evaluate_predict(gelato, given, small, name):
    fitted = gelato("fit", *given, "-m", name, *QUICK[name], "-o", "run")
    assert fitted.code == 0, fitted.err
    assert "an epoch visits 2 of" in fitted.out + fitted.err
    told = gelato("evaluate", "run", "--dry-run", "--json")
    assert told.code == 0, told.err
    assert told.json["forecast"][0]["seconds"] > 0
    assert gelato("evaluate", "run", "--json").code == 0
    found = gelato("predict", "run", "--top", "3", "--json")
    assert found.code == 0, found.err
    assert small.names[0][0] in found.out


def test_a_forecast_counts_the_auto_encoder_and_small_validations(gelato, given):
    options = (*given, "-m", "walkpool", *QUICK["walkpool"], "-o", "run")
    told = gelato("fit", *options, "--dry-run", "--json")
    assert told.code == 0, told.err
    data = told.json["training_forecast"]
    assert data["steps"] == 2
    assert 0 < data["preparation_seconds"] < data["seconds"]


def test_bad_parameters_are_told_with_what_is_known(gelato, given):
    for setting, words in (("hops=0", "at least 1"), ("features=words", "one-hot")):
        done = gelato("fit", *given, "-m", "seal", "--set", setting, "-o", "run")
        assert done.code == 2
        assert words in done.err
