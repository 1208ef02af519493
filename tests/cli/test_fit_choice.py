"""No model named: ``fit`` and ``run`` choose one, say which, and keep the record."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import gelato as library
from gelato.cli.fit import named_model, seconds_of
from gelato.cli.options import ChoiceOptions, ModelOptions
from gelato.errors import UsageError
from support.refusals import refused


def edges_of(small):
    return ("--edges", small.edges, "--source", "from", "--target", "to")


def data_of(small):
    return (*edges_of(small), "--attributes", small.attributes)


SHORT = ("--budget", "0.5", "--valid", "0.2")


class TestFit:
    def test_the_choice_is_printed_recorded_and_loads(self, gelato, small):
        outcome = gelato("fit", *data_of(small), *SHORT)
        assert outcome.code == 0, outcome.err
        stored = json.loads(Path("run/metrics.json").read_text())
        choice = stored["choice"]
        assert choice["reason"] in outcome.out
        assert choice["budget"] == 0.5
        assert library.load("run").name == choice["model"]
        assert sum(row["chosen"] for row in choice["candidates"]) == 1
        lines = [x for x in outcome.out.splitlines()[1:] if "chosen in" not in x]
        assert max(map(len, lines)) <= 80

    def test_the_winner_can_be_fitted_by_name(self, gelato, small):
        chosen = gelato("fit", *edges_of(small), *SHORT, "-o", "a", "--json").json
        parameters = chosen["model"]["parameters"]
        given = [f"--set={name}={value}" for name, value in parameters.items()]
        name = chosen["model"]["name"]
        again = gelato(
            *("fit", *edges_of(small), "--valid", "0.2", "-o", "b", "--json"),
            *("-m", name, *given),
        ).json
        assert again["metrics"]["test"]["ap"] == chosen["metrics"]["test"]["ap"]

    def test_resuming_a_finished_choice_shows_it(self, gelato, small):
        first = gelato("fit", *edges_of(small), *SHORT)
        again = gelato("fit", *edges_of(small), *SHORT, "--resume")
        assert again.out == first.out
        assert "finished already" in again.err
        other = gelato("fit", *edges_of(small), "--valid", "0.3", "--resume")
        refused(other, says=["another run", "split"])

    def test_few_validation_edges_are_told(self, gelato, small):
        assert (
            "only 4 validation edges"
            in gelato("fit", *edges_of(small), "--budget", "0.5").err
        )
        none = gelato("fit", *edges_of(small), "--valid", "0", "-o", "none")
        refused(none, says=["--valid"])
        assert not Path("none").exists()

    def test_dry_run_lists_what_would_compete(self, gelato, small):
        outcome = gelato("fit", *data_of(small), "--dry-run")
        assert "compete on 4 validation edges within 2 min" in outcome.out
        plan = gelato("run", *data_of(small), "--dry-run", "--quick", "--json").json
        assert plan["choice_forecast"]["trained"] == ["stack", "gelato"]
        assert "), stack and gelato compete" in " ".join(outcome.out.split())
        assert not Path("run").exists()

    def test_a_budget_beside_a_model_is_misuse(self, gelato, small):
        for more in (("-m", "ac"), ("--preset", "cora"), ("--set", "epochs=1")):
            outcome = gelato("fit", *data_of(small), "--budget", "3", *more)
            refused(outcome, code=2, says=["--budget"])
        outcome = gelato("fit", *data_of(small), "--budget", "3", "--quick")
        refused(outcome, code=2, says=["--quick"])
        refused(gelato("fit", *data_of(small), "--budget", "0"), code=2)

    def test_parameters_without_a_name_are_gelato_s(self):
        nothing = ChoiceOptions()
        assert named_model(ModelOptions(seed=3), nothing) is None
        assert named_model(ModelOptions(preset="cora"), nothing) is not None
        assert named_model(ModelOptions(settings=["eta=1"]), nothing) is not None
        with pytest.raises(UsageError, match="--quick"):
            named_model(ModelOptions(model="ac"), ChoiceOptions(quick=True))
        assert seconds_of(ChoiceOptions(quick=True)) < seconds_of(nothing) == 120


class TestRun:
    def test_from_files_to_links(self, gelato, small):
        outcome = gelato("run", *data_of(small), *SHORT, "--top", "30")
        assert outcome.code == 0, outcome.err
        assert "30 nodes, 80 edges" in outcome.out
        assert "in a random order" in outcome.out
        assert "10 more" in outcome.out
        assert "expected_precision" in outcome.err
        assert not Path("run").exists()

    def test_folder_links_and_json_agree_with_the_library(self, gelato, small):
        options = (*SHORT, "-o", "mine", "--top", "12", "--json")
        result = gelato("run", *edges_of(small), *options).json
        model = library.load("mine")
        expected = model.predict(top=12)
        assert result["links"] == expected.to_dicts()
        assert pl.read_csv("mine/links.csv")["rank"].to_list() == list(range(1, 13))
        found = library.evaluate(model, model.split_)
        assert result["metrics"]["test"]["ap"] == found.ap
        refused(gelato("run", *edges_of(small), *options), says=["--overwrite"])
        again = gelato("run", *edges_of(small), *options, "--overwrite")
        assert again.json["links"] == result["links"]

    def test_a_named_model_and_a_file_of_links(self, gelato, small):
        outcome = gelato(
            *("run", *edges_of(small), "-m", "ra", "--links", "l.parquet"),
            *("--max-per-node", "1", "--top", "5"),
        )
        assert outcome.code == 0, outcome.err
        links = pl.read_parquet("l.parquet")
        ends = links["source"].to_list() + links["target"].to_list()
        assert len(set(ends)) == len(ends) == 10
        assert "model         ra" in outcome.out

    def test_nothing_is_fitted_for_a_place_that_cannot_be_written(self, gelato, small):
        refused(gelato("run", *edges_of(small), "--links", "no/l.csv"))
        refused(gelato("run", *edges_of(small), "--links", "l.exe"), code=2)
