"""``gelato compare`` for real: intervals, differences, files, budgets, failures."""

from __future__ import annotations

import json
from itertools import count

import polars as pl
import pytest

import gelato as library
from gelato.cli.progress import fit_model
from gelato.comparison.summary import rank_models

MODELS = "cn,ac,pa"


def data_of(small):
    return ("--edges", small.edges, "--source", "from", "--target", "to")


def command(small, *more):
    return ("compare", *data_of(small), "-m", MODELS, "--test", "0.2", *more)


def split_of(small, **options):
    graph = library.read_graph(small.edges, source="from", target="to")
    return library.split_edges(graph, **options)


class TestRanking:
    def test_best_first_with_intervals_and_biased_rows(self, gelato, small):
        options = command(small, "--splits", "3", "--protocol", "both")
        shown = gelato(*options)
        assert shown.code == 0
        table = gelato(*options, "--json").json
        exact = [entry for entry in table["ranking"] if not entry["biased"]]
        aps = [entry["mean"]["ap"] for entry in exact]
        assert aps == sorted(aps, reverse=True)
        lines = [line for line in shown.out.splitlines() if " ± " in line]
        names = [entry["model"] for entry in exact]
        assert [line.split()[0] for line in lines[:3]] == names
        shown_names = [f"{entry['model']}," for entry in table["ranking"][3:]]
        assert [line.split()[0] for line in lines[3:6]] == shown_names
        assert shown.out.count(", BIASED") == 4
        assert f"against {names[0]}" in shown.out
        assert "over 3 splits, widened" in shown.out
        assert len(table["runs"]) == 3 * 3 * 2
        assert [split["seed"] for split in table["splits"]] == [0, 1, 2]
        assert table["complete"] is True

    def test_numbers_are_the_library_s(self, gelato, small):
        found = gelato(*command(small, "--json")).json
        expected = library.compare(split_of(small, test=0.2), MODELS.split(","))
        for row in found["runs"]:
            twin = expected.filter(pl.col("model") == row["model"]).to_dicts()[0]
            timeless = [key for key in row if "seconds" not in key]
            assert {k: row[k] for k in timeless} == {k: twin[k] for k in timeless}
        ranking = rank_models(expected.to_dicts())
        for entry, twin in zip(found["ranking"], ranking, strict=True):
            assert entry["interval"] == twin["interval"]
            assert entry["difference"] == twin["difference"]

    def test_one_split_says_what_its_intervals_cover(self, gelato, small):
        shown = gelato(*command(small)).out
        assert "drawn again 200 times" in shown
        assert "not other splits" in shown
        assert "--splits 5" in shown

    def test_differences_to_a_chosen_model(self, gelato, small):
        options = command(small, "--splits", "2", "--against", "cn")
        assert "against cn" in gelato(*options).out
        document = gelato(*options, "--json").json
        assert document["against"] == "cn"
        for entry in document["ranking"]:
            assert (entry["difference"]["ap"] is None) == (entry["model"] == "cn")

    def test_fits_80_columns(self, gelato, small):
        options = (*command(small), "--protocol", "both")
        for more in ((), ("--splits", "2"), ("-m", "cn,cos+ac", "--splits", "2")):
            attributes = ("--attributes", small.attributes, "--id", "id")
            lines = gelato(*options, *more, *attributes).out.splitlines()
            start = next(i for i, x in enumerate(lines) if x.startswith("in percent"))
            table = lines[start : lines.index("", start)]
            assert max(map(len, table)) <= 80

    def test_dry_run(self, gelato, small):
        result = gelato("compare", *data_of(small), "--dry-run", "--json").json
        names = [line["model"] for line in result["forecast"]]
        assert names == ["cn", "aa", "ra", "ac"]

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (("--models", "cn,nope"), "nope"),
            (("--seeds", "1,x"), "--seeds"),
            (("--splits", "0"), "--splits"),
            (("--splits", "2", "--split-seed", "1"), "--splits"),
            (("--protocol", "fair"), "fair"),
            (("--against", "gelato"), "--against gelato"),
            (("-o", "runs.xlsx"), ".xlsx"),
            (("--plot", "picture.gif"), ".gif"),
            (("--tune-trials", "0"), "0 trials"),
            (("--tune-time", "-1"), "seconds"),
        ],
    )
    def test_misuse(self, gelato, small, options, said):
        result = gelato("compare", *data_of(small), *options)
        assert result.code == 2
        assert said in result.err


class TestFiles:
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
    def test_runs_are_written(self, gelato, small, tmp_path, suffix):
        path = tmp_path / f"runs.{suffix}"
        result = gelato(*command(small, "-o", path))
        assert "wrote 3 rows" in result.err
        readers = {
            "csv": pl.read_csv,
            "parquet": pl.read_parquet,
            "json": pl.read_json,
        }
        table = readers[suffix](path)
        assert table["model"].to_list() == MODELS.split(",")
        assert ("ap_resampled" in table.columns) == (suffix != "csv")
        if suffix == "parquet":
            again = library.summarise_comparison(table)
            assert again["low"].null_count() == 0

    def test_picture_names_every_model(self, gelato, small, tmp_path):
        path = tmp_path / "picture.svg"
        assert gelato(*command(small, "--plot", path)).code == 0
        text = path.read_text()
        assert all(f">{name}</text>" in text for name in MODELS.split(","))
        assert "difference to" in text
        assert "confidence intervals" in text
        png = tmp_path / "picture.png"
        assert gelato(*command(small, "--plot", png, "-m", "cn")).code == 0
        assert png.read_bytes().startswith(b"\x89PNG")

    def test_places_are_tried_before_the_work(self, gelato, small):
        result = gelato(*command(small, "-o", "nowhere/runs.csv"))
        assert result.code == 1
        assert "nowhere" in result.err
        assert result.out == ""

    def test_report_reads_what_was_printed(self, gelato, small, tmp_path):
        printed = gelato(*command(small, "--json", "--against", "pa", "-q")).out
        (tmp_path / "comparison.json").write_text(printed)
        page = tmp_path / "page.html"
        result = gelato("report", "--comparison", "comparison.json", "-o", page)
        assert result.code == 0
        text = page.read_text()
        assert "against pa" in text
        assert "drawn again 200 times" in text
        assert all(line in text for line in json.loads(printed)["verdicts"])


class TestBudgets:
    def test_same_budget_for_all(self, gelato, small):
        pytest.importorskip("optuna")
        options = command(
            small, "--splits", "2", "--tune-trials", "3", "--valid", "0.1"
        )
        shown = gelato(*options)
        assert shown.code == 0
        assert "3 trials for each of 2 tunings" in shown.err
        assert "Budget of each model and split: 3 trials." in shown.out
        assert shown.out.count("nothing to choose") == 4
        document = gelato(*options, "--json").json
        assert document["budget"] == "3 trials"
        budgets = {run["model"]: run["budget"] for run in document["runs"]}
        assert budgets == {"cn": None, "ac": "3 trials", "pa": None}
        tuned = [run for run in document["runs"] if run["model"] == "ac"]
        assert all("t" in json.loads(run["parameters"]) for run in tuned)

    def test_time_is_forecast(self, gelato, small):
        pytest.importorskip("optuna")
        options = command(small, "-m", "ac", "--valid", "0.1")
        shown = gelato(*options, "--tune-time", "0.5", "--tune-trials", "2")
        assert "2 trials or 0.5 s for each of 1 tuning: up to 0.5 s" in shown.err

    def test_tuning_needs_validation_edges(self, gelato, small):
        result = gelato(*command(small, "--valid", "0", "--tune-trials", "2"))
        assert result.code == 1
        assert "--valid" in result.err


class TestInterruption:
    @pytest.fixture
    def strike(self, monkeypatch):
        """Let Ctrl-C arrive when the model of a certain run is about to be fitted."""

        def at(place):
            runs = count()

            def struck(*arguments):
                if next(runs) == place:
                    raise KeyboardInterrupt
                return fit_model(*arguments)

            monkeypatch.setattr("gelato.cli.compare.fit_model", struck)

        return at

    def test_what_was_finished_is_shown_and_kept(self, gelato, small, strike, tmp_path):
        strike(4)
        options = command(small, "--splits", "3", "--protocol", "both")
        result = gelato(*options, "--json", "-o", "runs.csv")
        assert result.code == 130
        assert "4 of 9 runs" in result.err
        assert result.json["complete"] is False
        kept = pl.read_csv(tmp_path / "runs.csv")
        assert len(result.json["runs"]) == kept.height == 8
        strike(4)
        shown = gelato(*options)
        assert shown.code == 130
        assert "in percent" in shown.out

    def test_with_nothing_finished_nothing_is_written(
        self, gelato, small, strike, tmp_path
    ):
        strike(0)
        result = gelato(*command(small, "-o", "runs.csv"))
        assert (result.code, result.out) == (130, "")
        assert not (tmp_path / "runs.csv").exists()

    def test_the_reference_may_be_missing(self, gelato, small, strike):
        strike(2)
        result = gelato(*command(small, "--against", "pa", "--json"))
        assert result.code == 130
        references = {entry["against"] for entry in result.json["ranking"]}
        assert references <= {"cn", "ac"}


def test_a_failure_keeps_what_was_finished(gelato, small, tmp_path):
    # cos needs attributes, which only shows when it is fitted.
    result = gelato(*command(small, "-m", "cn,cos", "-o", "runs.csv"))
    assert result.code == 1
    assert "attributes" in result.err
    assert pl.read_csv(tmp_path / "runs.csv")["model"].to_list() == ["cn"]
    assert "cn" in result.out
