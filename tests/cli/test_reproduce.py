"""``gelato reproduce`` on a small experiment that is made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gelato as library
from gelato.cli.forecasts import TrainingForecast
from gelato.graph import Graph
from gelato.paper import experiment as paper
from gelato.paper.experiment import Experiment, Row
from gelato.paper.records import read_record
from support.refusals import refused

PUBLISHED = {"ap": 5.0, "ap_sd": 100.0, "auc": 99.99, "auc_sd": 0.0}
TOY = Experiment(
    "toy",
    "A toy",
    ("Nothing of this is in the paper.",),
    (
        Row("gelato", "tiny", {"epochs": 2}, (1, 2), PUBLISHED),
        Row("ac", "tiny", {}, (None,), {"ap": 0.0, "ap_sd": 0.0}),
        Row("ac", "other", {"t": 2}, (None,), {"ap": 5.0, "ap_sd": 100.0}),
    ),
)


def tiny_graph(*_, **__) -> Graph:
    rng = np.random.default_rng(5)
    edges = rng.integers(0, 40, (160, 2))
    return Graph.from_indices(40, edges, attributes=rng.random((40, 4)))


@pytest.fixture
def toy(monkeypatch):
    """One experiment called toy, on a graph that needs no file."""
    real = paper.read_experiment
    monkeypatch.setattr(paper, "experiment_names", lambda: ("toy",))
    monkeypatch.setattr(
        paper, "read_experiment", lambda name: TOY if name == "toy" else real(name)
    )
    monkeypatch.setattr("gelato.paper.runner.load_dataset", tiny_graph)


@pytest.fixture
def done(gelato, toy):
    outcome = gelato("reproduce", "toy")
    assert outcome.code == 0, outcome.err
    return outcome


def cell(result, method, dataset, metric="ap"):
    (experiment,) = result["experiments"]
    return next(
        item
        for item in experiment["cells"]
        if (item["method"], item["dataset"], item["metric"])
        == (method, dataset, metric)
    )


class TestRunning:
    def test_runs_what_is_missing_and_records_it(self, gelato, done):
        files = sorted(path.name for path in Path("results").rglob("*.json"))
        assert len(files) == 4
        assert "run 1 of 4: gelato on tiny, seed 1" in done.err
        assert "epoch 1 of 2: loss" in done.err
        again = gelato("reproduce", "toy")
        assert again.out == done.out
        assert again.err == ""

    def test_numbers_and_verdicts(self, gelato, done):
        result = gelato("reproduce", "--json").json
        trained = cell(result, "gelato", "tiny")
        split = library.split_edges(tiny_graph())
        for seed, value in zip((1, 2), trained["values"], strict=True):
            model = library.make("gelato", epochs=2, seed=seed).fit(split)
            assert value == pytest.approx(100 * library.evaluate(model, split).ap)
        assert trained["verdict"] == "within"
        assert cell(result, "gelato", "tiny", "auc")["verdict"] == "below"
        assert cell(result, "ac", "tiny")["verdict"] == "above"
        assert "BELOW" in done.out
        assert "ABOVE" in done.out
        assert max(map(len, done.out.splitlines())) <= 80

    def test_parts_of_it(self, gelato, toy):
        options = ("reproduce", "toy", "--datasets", "tiny", "--seeds", "2", "--json")
        result = gelato(*options).json
        assert cell(result, "gelato", "tiny")["seeds"] == [2]
        names = [path.name for path in Path("results").rglob("*.json")]
        assert len(names) == 2
        rest = gelato("reproduce", "toy", "--no-run")
        assert (
            "gelato reproduce toy --datasets tiny\n    gelato on tiny, seed 1\n"
            in rest.out
        )
        assert "gelato reproduce toy --datasets other\n" in rest.out
        assert "missing" in rest.out

    def test_one_method_of_it(self, gelato, toy):
        options = ("reproduce", "toy", "--datasets", "tiny", "--methods", "ac")
        result = gelato(*options, "--json").json
        assert cell(result, "ac", "tiny")["seeds"]
        (name,) = [path.name for path in Path("results").rglob("*.json")]
        assert name.startswith("ac-tiny")

    def test_an_interrupted_run_goes_on(self, gelato, toy, monkeypatch):
        from gelato.cli.progress import Watch

        told = Watch.on_epoch

        def stop(self, entry, state):
            told(self, entry, state)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Watch, "on_epoch", stop)
            outcome = gelato("reproduce", "toy", "--datasets", "tiny")
        assert outcome.code == 130
        assert "goes on" in outcome.err
        assert not list(Path("results").rglob("*.json"))
        assert "resumes" in gelato("reproduce", "toy", "--dry-run").out
        outcome = gelato("reproduce", "toy", "--datasets", "tiny", "--seeds", "1")
        assert outcome.code == 0
        assert "epoch 1 of 2" not in outcome.err


class TestLooking:
    def test_list(self, gelato, toy):
        assert "0 of 4" in gelato("reproduce", "--list").out
        (entry,) = gelato("reproduce", "--list", "--json").json["experiments"]
        assert (entry["name"], entry["runs"], entry["recorded"]) == ("toy", 4, 0)
        assert {cell["state"] for cell in entry["cells"]} == {"missing"}
        assert all(cell["forecast_seconds"] is None for cell in entry["cells"])

    def test_list_forecasts_what_is_missing_by_what_is_recorded(self, gelato, toy):
        gelato("reproduce", "toy", "--datasets", "tiny", "--seeds", "1")
        (entry,) = gelato("reproduce", "--list", "--json").json["experiments"]
        cells = {(one["row"], one["dataset"]): one for one in entry["cells"]}
        known = cells["gelato", "tiny"]
        assert (known["recorded"], known["missing_seeds"]) == (1, [2])
        assert known["forecast_seconds"] > 0

    def test_migrate_writes_old_layouts_anew(self, gelato, done):
        path = sorted(Path("results").rglob("gelato*.json"))[0]
        record = read_record(path, {})
        path.write_text(json.dumps(record, indent=1))
        assert gelato("reproduce", "--migrate", "--json").json["written"] == [str(path)]
        assert read_record(path, {}) == record

    def test_real_experiments_are_listed(self, gelato):
        listed = gelato("reproduce", "--list", "--json").json["experiments"]
        assert [entry["name"] for entry in listed] == list(paper.experiment_names())

    def test_no_run_and_dry_run_write_nothing(self, gelato, toy):
        assert gelato("reproduce", "--no-run").code == 0
        outcome = gelato("reproduce", "--dry-run")
        assert "0 of 4 runs" in outcome.out
        assert outcome.out.count("unknown") == 4
        assert not list(Path().iterdir())

    def test_forecast_of_other_settings_is_not_that_of_recorded_ones(
        self, gelato, toy, monkeypatch
    ):
        gelato("reproduce", "toy", "--datasets", "tiny", "--seeds", "1")
        longer = replace(TOY.rows[0], parameters={"epochs": 9}, label="longer")
        more = replace(TOY, rows=(*TOY.rows, longer))
        monkeypatch.setattr(paper, "read_experiment", lambda name: more)
        plan = gelato("reproduce", "--dry-run", "--json").json
        times = {row["run"]: row["seconds"] for row in plan["missing"]}
        assert times["gelato on tiny, seed 2"] > 0
        assert times["gelato on tiny, seed 1, longer"] is None

    def test_a_plan_says_what_may_stop_early(self, gelato, toy, monkeypatch):
        rows = tuple(Row(name, "citeseer", {}, (1,), {}) for name in ("gae", "hgcn"))
        networks = replace(TOY, rows=rows)
        monkeypatch.setattr(paper, "read_experiment", lambda name: networks)
        coming = TrainingForecast(1, 1, 1, 1, None, 0.0, 1.0, 1.0, 1.0, 60.0, 1)
        monkeypatch.setattr(
            "gelato.cli.reproduce.forecast_training",
            lambda console, model, split: replace(
                coming, patience=getattr(model, "patience", None)
            ),
        )
        told = " ".join(gelato("reproduce", "--dry-run").out.split())
        assert "gae on citeseer, seed 1 about 60 s" in told
        assert "hgcn on citeseer, seed 1 at most about 60 s" in told
        assert "to fit in all at most about 2 min" in told

    def test_a_shared_training_counts_once(self, gelato, toy, monkeypatch):
        stages = tuple(
            Row(name, "tiny", {"epochs": 2}, (1,), {}) for name in ("mlp", "mlp+ac")
        )
        shared = replace(TOY, rows=stages)
        monkeypatch.setattr(paper, "read_experiment", lambda name: shared)
        plan = gelato("reproduce", "--dry-run", "--json").json
        assert [row["seconds"] for row in plan["missing"]] == [None, 0.0]

    def test_the_paper_s_marks_are_shown(self, gelato, toy, monkeypatch):
        marked = replace(TOY.rows[1], published={"ap": 6.84}, mark="*")
        monkeypatch.setattr(
            paper, "read_experiment", lambda name: replace(TOY, rows=(marked,))
        )
        assert "6.84*" in gelato("reproduce", "--no-run").out
        assert gelato("reproduce", "--write-docs", "page.md").code == 0
        assert "6.84\\*" in Path("page/toy.md").read_text()

    def test_forecast_from_equal_runs(self, gelato, toy):
        gelato("reproduce", "toy", "--datasets", "tiny", "--seeds", "1")
        plan = gelato("reproduce", "--dry-run", "--json").json
        times = {row["run"]: row["seconds"] for row in plan["missing"]}
        assert times["gelato on tiny, seed 2"] > 0
        assert times["ac on other"] is None

    def test_page(self, gelato, done):
        outcome = gelato("reproduce", "--write-docs", "page.md")
        assert outcome.out == "page.md\n"
        files = [Path(name) for name in ("page.md", "page/toy.md", "page/runs.md")]
        before = [file.read_bytes() for file in files]
        gelato("reproduce", "--write-docs", "page.md")
        assert [file.read_bytes() for file in files] == before
        front, text, runs = (part.decode() for part in before)
        assert "[A toy](page/toy.md)" in front
        assert "# A toy" in text
        assert "| AP, % | tiny | other |" in text
        assert "(2)<br>paper\u00a05.00\u00a0±\u00a0100.00 |" in text
        assert "▼\u00a0(2)<br>paper\u00a099.99\u00a0±\u00a00.00" in text
        assert "| gelato | tiny | 1-2 |" in runs
        assert "Differences:" in text
        assert "Not discussed yet." in text
        assert "Missing" not in text

    def test_page_names_what_is_missing(self, gelato, toy):
        assert gelato("reproduce", "--write-docs", "page.md").code == 0
        text = Path("page/toy.md").read_text()
        assert (
            "`gelato reproduce toy --datasets tiny`: gelato on tiny, seeds 1-2" in text
        )
        assert "| gelato | -<br>paper\u00a05.00\u00a0±\u00a0100.00 |" in text
        assert "Differences" not in text


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (("gelatto",), "Did you mean gelato?"),
            (("gelato", "--datasets", "citeser"), "Did you mean citeseer?"),
            (("ap", "--methods", "neo-gn"), "Did you mean neo-gnn?"),
            (("gelato", "--seeds", "first"), "whole numbers"),
            (("gelato", "--write-docs", "page.html"), ".md"),
        ],
    )
    def test_misuse(self, gelato, options, says):
        refused(gelato("reproduce", *options), code=2, says=[says])

    def test_edited_records_are_refused_and_named(self, gelato, done):
        path = sorted(Path("results").rglob("*.json"))[0]
        record = json.loads(path.read_text())
        record["metrics"]["ap"] = 0.99
        path.write_text(json.dumps(record))
        for options in ((), ("--no-run",), ("--list",), ("--dry-run",)):
            refused(gelato("reproduce", "toy", *options), says=[path.name])
        refused(gelato("reproduce", "--write-docs", "page.md"), says=[path.name])
        assert not Path("page.md").exists()

    def test_places_that_cannot_be_made(self, gelato, toy, write):
        file = write("file", "here is a file")
        refused(gelato("reproduce", "toy", "--results", file / "x"))
