"""Settings side by side: what is shown is of the selected epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from gelato.models.registry import make
from gelato.paper import sections as open_settings
from gelato.paper.experiment import read_experiment
from gelato.paper.sections import section_tables


def record(best, history):
    return {
        "metrics": {"ap": 0.0123, "auc": 0.9},
        "training": {"best_epoch": best, "history": history},
    }


HISTORY = [
    {"epoch": 10, "sampled-mean": 0.8},
    {"epoch": 20, "sampled-mean": 0.9, "ap": 0.01},
    {"epoch": 30, "sampled-mean": 0.7},
    {"epoch": 40, "sampled-mean": 0.6, "ap": 0.02},
]


@pytest.mark.parametrize(
    ("best", "balanced", "ranked"),
    [(20, "90.00", "1.00"), (30, "70.00", "1.00"), (40, "60.00", "2.00")],
)
def test_values_are_of_the_selected_epoch(monkeypatch, best, balanced, ranked):
    experiment = read_experiment("gnn-settings").on(["photo"])
    monkeypatch.setattr(
        open_settings, "row_records", lambda row, results: [record(best, HISTORY)]
    )
    (table,) = section_tables(experiment, Path("nowhere"))
    assert not table.missing
    assert {row[2:6] for row in table.rows} == {(balanced, ranked, "1.23", "90.00")}


def test_what_is_not_recorded_is_named_with_its_command(tmp_path):
    (table,) = section_tables(read_experiment("gnn-settings").on(["photo"]), tmp_path)
    assert table.rows == ()
    assert set(table.missing.values()) == {
        "gelato reproduce gnn-settings --datasets photo"
    }


def test_first_settings_are_those_of_the_other_tables():
    known, plain = {}, {}

    def place_of(row):
        return row.method, row.dataset, row.parameters.get("training", "biased")

    for name in ("ap", "ap-unbiased"):
        rows = read_experiment(name).rows
        known |= {place_of(row): row.parameters for row in rows}
    for row in read_experiment("gnn-settings").rows:
        make(row.method, **row.parameters)  # refuses parameters that do not exist
        plain.setdefault(place_of(row), row.parameters)
    assert {place[2] for place in plain} == {"biased", "unbiased"}
    assert all(known[place] == parameters for place, parameters in plain.items())


def test_splits_stand_beside_each_other_on_equal_splits(monkeypatch):
    experiment = read_experiment("stack-splits").on(["cora"]).of(["stack", "ac"])

    def recorded(row, results):
        ap = 0.05 if row.method == "stack" else 0.03
        return [
            {
                "spec": {"split": split},
                "metrics": {
                    "ap": ap + split / 1000,
                    **{f"prec@{k}": ap - 0.04 + split**2 / 1000 for k in (10, 25, 100)},
                },
            }
            for split in row.splits[: 5 if row.method == "stack" else 3]
        ]

    monkeypatch.setattr(open_settings, "row_records", recorded)
    graph, beside = section_tables(experiment, Path("nowhere"))
    stack, walks = graph.rows
    assert stack[:5] == ("Stack", "5.20", "5.00 to 5.40", "", "")
    # On the three splits that both have the difference is always the same.
    assert walks[:5] == ("AC", "3.10", "2.85 to 3.35", "+2.00", "2.00 to 2.00")
    assert (stack[-1], walks[-1]) == ("5", "3")
    assert list(graph.missing) == ["AC on cora"]
    assert beside.rows[0] == ("cora", "10", "1.2", "-0.8", "+2.0", "0.0", "not below")
    assert [row[1] for row in beside.rows] == ["10", "25", "100"]


def test_a_precision_that_is_clearly_lower_is_called_below():
    worse = open_settings._difference([(1.0, 5.0), (2.0, 5.5), (1.5, 5.2)])
    assert worse[-1] == "BELOW"
    assert open_settings._difference([(1.0, 5.0), (9.0, 5.5)])[-1] == "not below"


def test_orders_stand_beside_each_other_with_their_correlation(monkeypatch):
    experiment = read_experiment("orders").on(["cora"]).of(["cn", "pa", "cos"])
    values = {"cn": 0.03, "pa": 0.01, "cos": 0.02}

    def recorded(row, results):
        one = {"ap": values[row.method], "auc": 0.9 - values[row.method], "mrr": 0.5}
        protocols = dict.fromkeys(row.protocols, one)
        return [{"metrics": one, "biased_metrics": one, "protocols": protocols}]

    monkeypatch.setattr(open_settings, "row_records", recorded)
    (table,) = section_tables(experiment, Path("nowhere"))
    assert table.header[1:] == (
        *("AP, all pairs", "AP, BIASED, sampled"),
        *("AUC, DEGREE-CORRECTED", "MRR, HEART"),
    )
    assert table.rows[0] == ("cn", "3.00 (1)", "3.00 (1)", "87.00 (3)", "50.00 (2)")
    assert [row[0] for row in table.rows[:3]] == ["cn", "cos", "pa"]
    assert table.rows[3][1:] == ("", "1.00", "-1.00", "")
    assert not table.missing


def test_orders_that_are_not_recorded_have_their_command(tmp_path):
    (table,) = section_tables(read_experiment("orders").on(["photo"]), tmp_path)
    assert table.rows == ()
    assert list(table.missing.values()) == ["gelato reproduce orders --datasets photo"]


def test_a_grid_has_a_table_for_each_graph(tmp_path):
    tables = section_tables(read_experiment("sensitivity"), tmp_path / "nothing")
    assert [table.title for table in tables[:2]] == ["cora", "photo"]
    cora, photo = tables[:2]
    assert cora.header[:4] == ("eta", "alpha", "beta", "the paper's")
    assert len(cora.rows) == 20
    (chosen,) = (row for row in cora.rows if row[3])
    assert chosen == ("0.5", "0.5", "0.25", "selected", "-", "-")
    # Runs of two lengths stand side by side.
    assert photo.header[-1] == "AP, 25 epochs †"
    assert all(len(row) == len(photo.header) for row in photo.rows)
    assert len(photo.missing) == 5 + 8
    assert set(photo.missing.values()) == {
        "gelato reproduce sensitivity --datasets photo"
    }
