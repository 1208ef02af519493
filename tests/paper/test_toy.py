"""Toy experiments: every row once, small, labelled, and apart from the paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from gelato.models.registry import make
from gelato.paper.claims import (
    GNNS,
    _runs,
    _verdict,
    count_parameters,
    orderings,
)
from gelato.paper.experiment import experiment_names, read_experiment
from gelato.paper.jobs import run_specs
from gelato.paper.sections import selections
from gelato.paper.toy import toy_experiment

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.parametrize("name", experiment_names())
def test_toy_size(name):
    experiment = read_experiment(name)
    toy = toy_experiment(experiment)
    assert toy.kind == experiment.kind
    assert toy.figures == experiment.figures
    for row in toy.rows:
        assert row.dataset == "toy"
        assert row.label == "toy"
        assert len(row.seeds) <= 1
        assert row.published == {}
        if row.seeds:
            model = make(row.method, **row.parameters)
            assert getattr(model, "epochs", 1) <= 5
    names = [row.name for row in toy.rows]
    assert len(set(names)) == len(names)
    if experiment.name != "sensitivity":
        assert set(names) == {row.name for row in experiment.rows}


def test_toy_runs_are_no_runs_of_the_paper():
    paper = [read_experiment(name) for name in experiment_names()]
    real = {spec.name for spec in run_specs(paper)}
    toys = {spec.name for spec in run_specs([toy_experiment(one) for one in paper])}
    assert len(toys) > 25
    assert not real & toys


def test_every_method_that_can_run_has_a_toy_run():
    for name in ("ap", "ap-unbiased", "ablation"):
        experiment = read_experiment(name)
        runs = {row.name for row in experiment.rows if row.seeds}
        assert {r.name for r in toy_experiment(experiment).rows if r.seeds} == runs


def test_settings_that_make_a_row_stay():
    rows = {row.name: row for row in toy_experiment(read_experiment("losses")).rows}
    assert rows["cross entropy, biased"].parameters["loss"] == "cross-entropy"
    assert rows["cross entropy, biased"].parameters["training"] == "biased"
    assert "training" not in rows["N-pair, unbiased"].parameters


def test_parameter_counts_of_the_paper():
    assert count_parameters("gelato", "photo") == 208_130
    assert count_parameters("neo-gnn", "photo") == 455_200


def test_selection_names_what_it_lacks(tmp_path):
    found = {one.cells[0]: one for one in selections(tmp_path)}
    assert list(found) == ["cora", "citeseer", "pubmed", "photo", "computers"]
    assert found["cora"].command == "gelato reproduce sensitivity --datasets cora"
    assert "20 combinations" in found["cora"].lacking
    assert "6 combinations" in found["pubmed"].lacking


def test_orderings_hold_in_the_paper_s_own_numbers(tmp_path):
    found = orderings(tmp_path)
    assert len(found) > 15
    assert all(one.published.startswith("holds") for one in found)
    assert all(
        one.ours.startswith("no full run") for one in found
    )  # nothing is recorded
    assert all(one.command for one in found if one.dataset == "cora")


def test_what_is_only_recorded_in_part_is_not_said_to_be_run_by_a_command():
    """SEAL on photo is reduced and recorded: the command would run nothing."""
    if not RESULTS.is_dir():
        pytest.skip("the repository's results are not at hand")
    assert _runs("ap", "photo", ["SEAL"], Path("nowhere"))
    assert not _runs("ap", "photo", ["SEAL"], RESULTS)
    assert not _runs("ap", "photo", ["WalkPool"], Path("nowhere"))  # never planned


def test_orderings_of_networks_are_of_all_networks(tmp_path):
    (every,) = {one.ours for one in orderings(tmp_path) if "every network" in one.text}
    assert all(name in every for name in GNNS)


def test_a_broken_ordering_is_named():
    found = _verdict([{"A": 2.0}, {"B": 3.0, "C": None}])
    assert found == "broken: A 2.00, B 3.00; without C"
    assert _verdict([{"A": 2.0}, {"B": 1.0, "C": None}]) == "holds; without C"
    assert _verdict([{"A": 2.0}, {"B": None}]) == "no full run of B"
    assert _verdict([{"A": 2.0}, {"B": 1.0}]) == "holds"
