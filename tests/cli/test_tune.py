"""``gelato tune``: trials, budgets, studies, and what is written."""

from __future__ import annotations

import json
import shlex
import sys
from itertools import count
from pathlib import Path

import pytest

import gelato as library
from gelato.cli.options import DataOptions, SplitOptions
from gelato.cli.tune import STUDY, option_words
from gelato.tuning.trial import TrialRunner
from support.refusals import refused


def edges_of(small):
    return ("--edges", small.edges, "--source", "from", "--target", "to")


def data_of(small):
    return (*edges_of(small), "--attributes", small.attributes, "--valid", "0.2")


QUICK = ("--set", "epochs=2", "--set", "batches=2", "--set", "hidden=8")


class TestTrials:
    def test_a_grid_is_printed_with_the_command_to_use_it(self, gelato, small):
        outcome = gelato("tune", *data_of(small), "-m", "ac", "--search", "grid")
        assert outcome.code == 0, outcome.err
        assert "ac tuned on" in outcome.out
        assert "grid search, 6 trials" in outcome.out
        best = [x for x in outcome.out.splitlines() if x.startswith("* ")]
        assert len(best) == 1
        assert "only 16 validation edges" in outcome.err
        assert not list(Path().glob("*/config.toml")), "nothing is written"

    def test_the_command_fits_the_best_model(self, gelato, small):
        search = ("--trials", "3", "--search", "free", "--seed", "4")
        found = gelato("tune", *data_of(small), *QUICK, *search, "--json").json
        words = shlex.split(found["command"])
        assert words[:2] == ["gelato", "fit"]
        fitted = gelato(*words[1:], "-o", "again", "--json").json
        value = fitted["metrics"]["validation"]["precision_at"]["100%"]
        assert value == found["tuning"]["value"]
        assert fitted["model"]["parameters"]["seed"] == 4

    def test_the_same_for_a_model_without_a_seed(self, gelato, small):
        options = ("-m", "cos+ac", "--metric", "ap", "--seed", "3")
        found = gelato("tune", *data_of(small), *options, "--json").json
        words = shlex.split(found["command"])
        fitted = gelato(*words[1:], "--json").json
        assert fitted["metrics"]["validation"]["ap"] == found["tuning"]["value"]
        assert found["tuning"]["seed"] == 3

    def test_fixed_parameters_and_values_to_try(self, gelato, small):
        options = ("-m", "ac", "--set", "self_loops=all", "--try", "t=2,3")
        found = gelato("tune", *data_of(small), *options, "--json").json["tuning"]
        assert [row["parameters"] for row in found["trials"]] == [{"t": 2}, {"t": 3}]
        assert found["parameters"]["self_loops"] == "all"

    def test_a_budget_of_time(self, gelato, small):
        budget = ("--budget", "0.2", "-m", "cos+ac", "--search", "free")
        found = gelato("tune", *data_of(small), *budget, "--json").json["tuning"]
        assert found["seconds"] < 60
        assert len(found["trials"]) >= 1

    def test_dry_run_lists_what_would_be_tried(self, gelato, small):
        outcome = gelato(
            "tune", *data_of(small), "--search", "grid", "--dry-run", *QUICK
        )
        assert "grid of 80 combinations" in outcome.out
        assert "and 60 more" in outcome.out
        for search, known in (("line", 5), ("free", 1), ("grid", 7)):
            options = ("--search", search, "--trials", "7", *QUICK, "--dry-run")
            plan = gelato("tune", *data_of(small), *options, "--json").json
            coming = plan["tuning_forecast"]
            assert coming["trials"] == 7
            assert len(coming["first_trials"]) == known
            assert coming["seconds"] == 7 * coming["trial_seconds"]
        plain = gelato("tune", *data_of(small), "-m", "ac", "--dry-run", "-o", "x")
        assert "in the first round" in plain.out
        assert not Path("x").exists()


class TestFolder:
    def test_holds_the_best_model_and_the_study(self, gelato, small):
        options = ("-m", "cos+ac", "--trials", "3", "-o", "tuned")
        found = gelato("tune", *data_of(small), *options, "--json").json
        assert found["run"] == "tuned"
        assert set(found["metrics"]) == {"validation"}, "test edges were not ranked"
        model = library.load("tuned")
        parameters = found["tuning"]["parameters"]
        assert {k: model.get_params()[k] for k in parameters} == parameters
        assert len(model.split_.test) > 0
        stored = json.loads(Path("tuned/metrics.json").read_text())
        assert stored["tuning"]["trials"] == found["tuning"]["trials"]
        measured = gelato("evaluate", "tuned", "--json")
        assert measured.code == 0, measured.err
        assert gelato("predict", "tuned", "--top", "3").code == 0

    def test_more_trials_later(self, gelato, small):
        options = ("-m", "cos+ac", "-o", "tuned")
        gelato("tune", *data_of(small), *options, "--trials", "2")
        refused(
            gelato("tune", *data_of(small), *options), says=["--resume", "--overwrite"]
        )
        more = gelato(
            "tune", *data_of(small), *options, "--trials", "5", "--resume", "--json"
        ).json["tuning"]
        whole = gelato(
            "tune", *data_of(small), "-m", "cos+ac", "--trials", "5", "--json"
        ).json["tuning"]
        assert [x["value"] for x in more["trials"]] == [
            x["value"] for x in whole["trials"]
        ]
        stored = json.loads(Path("tuned/metrics.json").read_text())
        assert len(stored["tuning"]["trials"]) == 5

    def test_resuming_something_else_is_refused(self, gelato, small):
        gelato("tune", *data_of(small), "-m", "ac", "-o", "tuned")
        before = Path("tuned", STUDY).read_bytes()
        other = gelato(
            "tune", *data_of(small), "-m", "cos+ac", "-o", "tuned", "--resume"
        )
        refused(other, says=["another study", "model"])
        assert Path("tuned", STUDY).read_bytes() == before
        anew = ("-m", "cos+ac", "-o", "tuned", "--overwrite", "--trials", "1")
        assert gelato("tune", *data_of(small), *anew).code == 0
        assert library.load("tuned").name == "cos+ac"

    def test_a_study_of_its_own_place(self, gelato, small):
        options = ("-m", "ac", "--study", "here.jsonl", "--trials", "2")
        assert gelato("tune", *data_of(small), *options).code == 0
        assert Path("here.jsonl").exists()
        refused(gelato("tune", *data_of(small), *options), says=["--resume"])
        again = gelato("tune", *data_of(small), *options, "--resume", "--json")
        assert len(again.json["tuning"]["trials"]) == 2


class TestInterrupted:
    @pytest.fixture
    def struck(self, monkeypatch):
        """Strike when the third trial begins."""
        run, trials = TrialRunner.run, count()

        def strike(*arguments):
            if next(trials) == 2:
                raise KeyboardInterrupt
            return run(*arguments)

        monkeypatch.setattr(TrialRunner, "run", strike)
        monkeypatch.setattr(sys, "argv", ["gelato", "tune", "-o", "tuned"])

    def test_keeps_what_was_finished(self, gelato, small, struck, monkeypatch):
        command = ("tune", *data_of(small), "-m", "cos+ac", "-o", "tuned")
        outcome = gelato(*command)
        assert outcome.code == 130
        assert "2 trials" in outcome.out
        assert outcome.err.splitlines()[-1].endswith("--resume")
        assert [path.name for path in Path("tuned").iterdir()] == [STUDY]
        monkeypatch.undo()
        monkeypatch.chdir(small.edges.parent)
        resumed = gelato(*command, "--resume", "--json").json["tuning"]
        whole = gelato("tune", *data_of(small), "-m", "cos+ac", "--json").json["tuning"]
        assert [x["parameters"] for x in resumed["trials"]] == [
            x["parameters"] for x in whole["trials"]
        ]

    def test_without_a_study_shows_it(self, gelato, small, struck):
        outcome = gelato("tune", *data_of(small), "-m", "cos+ac")
        assert outcome.code == 130
        assert "2 trials" in outcome.out
        assert "--study" in outcome.err


class TestMisuse:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (("-m", "cn"), "no parameters"),
            (("-m", "gelatto"), "Did you mean gelato"),
            (("-m", "ac", "--search", "random"), "no search"),
            (("-m", "ac", "--metric", "accuracy"), "validation metric"),
            (("-m", "ac", "--trials", "0"), "at least 1"),
            (("-m", "ac", "--budget", "-1"), "positive"),
            (("-m", "ac", "--set", "eta=1"), "no parameter 'eta'"),
            (("-m", "ac", "--try", "t=2,many"), "whole number"),
            (("-m", "ac", "--try", "t"), "--try"),
            (("--preset", "cora"), "--preset"),
            (("-m", "ac", "--resume"), "--resume"),
            (("-m", "ac", "--overwrite"), "--overwrite"),
            (("-m", "ac", "-o", "x", "--resume", "--overwrite"), "exclude"),
        ],
    )
    def test_is_refused(self, gelato, small, options, says):
        outcome = gelato("tune", *data_of(small), *options)
        assert outcome.code == 2, outcome.err
        assert says in outcome.err
        assert outcome.out == ""

    def test_no_validation_edges(self, gelato, small):
        outcome = gelato("tune", *edges_of(small), "--valid", "0", "-m", "ac")
        refused(outcome, says=["--valid"])

    def test_nothing_is_left_of_a_failure(self, gelato, small):
        outcome = gelato(
            "tune", *edges_of(small), "--valid", "0.2", "-m", "mlp", "-o", "tuned"
        )
        refused(outcome, says=["No trial could be completed", "attributes"])
        assert not Path("tuned", "config.toml").exists()

    def test_optuna_is_not_installed(self, gelato, small, monkeypatch):
        monkeypatch.setitem(sys.modules, "optuna", None)
        outcome = gelato("tune", *data_of(small), "-m", "ac")
        refused(outcome, says=["pip install 'gelato-lp[tune]'"])


def test_options_as_words():
    data = DataOptions(edges=Path("a b.csv"), header=False, encode=["x=text", "y=drop"])
    assert option_words(data) == [
        *("--edges", "a b.csv", "--encode", "x=text", "--encode", "y=drop"),
        "--no-header",
    ]
    assert option_words(SplitOptions(valid=0.2, temporal=True)) == [
        *("--valid", "0.2", "--temporal")
    ]
