"""Cells: arithmetic of means, tolerances and verdicts; specs against the paper."""

from __future__ import annotations

import math

import pytest

from gelato.errors import UnknownNameError
from gelato.models.gelato import Gelato
from gelato.paper.cells import Cell
from gelato.paper.document import seed_text, spread
from gelato.paper.experiment import Row, experiment_names, read_experiment
from gelato.paper.plots import FIGURES
from gelato.paper.sections import KINDS

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers")
# The paper's tables of average precision and of AUC, mean and deviation.
GELATO_AP = ((3.90, 0.03), (4.55, 0.02), (2.88, 0.09), (25.68, 0.53), (18.77, 0.19))
GELATO_AUC = ((83.12, 0.06), (88.38, 0.02), (64.93, 0.06), (98.01, 0.03), (96.72, 0.04))


def cell(values, published=4.0, sd=0.1):
    seeds = tuple(range(1, len(values) + 1))
    return Cell("gelato", "cora", "ap", tuple(values), seeds, published, sd)


def test_mean_deviation_and_difference():
    found = cell([3.0, 5.0])
    assert found.mean == 4.0
    assert found.deviation == pytest.approx(math.sqrt(2))
    assert cell([4.5]).difference == 0.5
    assert cell([4.5]).deviation is None


@pytest.mark.parametrize("count", [1, 3, 10])
def test_tolerance(count):
    assert cell([4.0] * count).tolerance == pytest.approx(
        3 * 0.1 * math.sqrt(1 / 10 + 1 / count)
    )


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (4.0, "within"),
        (4.31, "within"),
        (3.69, "within"),
        (4.32, "above"),
        (3.68, "below"),
    ],
)
def test_verdict_of_one_run(value, verdict):
    # 3 x 0.1 x sqrt(1.1) is 0.3146.
    assert cell([value]).verdict == verdict


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(2.654, "within"), (2.646, "within"), (2.656, "above"), (2.644, "below")],
)
def test_without_a_deviation_the_printed_digits_decide(value, verdict):
    assert cell([value], 2.65, 0.0).verdict == verdict
    assert cell([value], 2.65, None).verdict == verdict


@pytest.mark.parametrize(
    ("metric", "published", "sd", "mark", "method", "tolerance"),
    [
        ("ap", 0.82, 0.03, "", "HGCN", 0.25 * 0.82),
        ("ap", 2.05, 0.61, "", "Neo-GNN", 3 * 0.61),
        ("ap", 6.75, None, "*", "Neo-GNN", 0.35 * 6.75),
        ("auc", 92.6, 0.29, "", "HGCN", 2.0),
        ("auc", 90.43, 1.37, "", "Neo-GNN", 3.0),
    ],
)
def test_networks_have_tolerances_of_their_own(
    metric, published, sd, mark, method, tolerance
):
    cell = Cell(
        method, "cora", metric, (1.0,), (1,), published, sd, mark=mark, group="GNN"
    )
    assert cell.tolerance == pytest.approx(tolerance)


def test_nothing_to_compare():
    assert cell([]).verdict == "missing"
    assert cell([]).tolerance is None
    assert cell([1.0], None, None).verdict == "no figure"
    assert cell([]).to_dict()["difference"] is None


def test_published_numbers_are_the_paper_s():
    rows = read_experiment("gelato").rows
    assert [row.dataset for row in rows] == list(DATASETS)
    for row, ap, auc in zip(rows, GELATO_AP, GELATO_AUC, strict=True):
        assert (row.published["ap"], row.published["ap_sd"]) == ap
        assert (row.published["auc"], row.published["auc_sd"]) == auc
        assert row.parameters == Gelato.presets[row.dataset]
        assert row.metrics == ("ap", "auc")


def test_every_spec_is_readable():
    for name in experiment_names():
        experiment = read_experiment(name)
        assert experiment.title
        assert experiment.rows or experiment.kind in KINDS
        assert experiment.kind == "runs" or experiment.kind in KINDS
        assert set(experiment.figures) <= set(FIGURES)
        keys = [spec.key for row in experiment.rows for spec in row.runs()]
        assert len(set(keys)) == len(keys)


def test_parts_of_an_experiment():
    part = read_experiment("gelato").on(["photo", "cora"])
    assert part.datasets == ("cora", "photo")


def test_seeds_of_rows_without_one():
    assert [s.seed for s in Row("ac", "cora", {}, (None,), {}).runs((1, 2))] == [None]
    assert [s.seed for s in Row("x", "cora", {}, (1, 2), {}).runs((7,))] == [7]
    assert Row("ac", "cora", {}, (None,), {}).metrics == ("ap",)


def test_unknown_experiment():
    with pytest.raises(UnknownNameError, match="Did you mean gelato"):
        read_experiment("gellato")


def test_words():
    assert seed_text([3, 1, 2, 7, None]) == "1-3, 7"
    assert seed_text([None]) == ""
    assert spread(None, None) == "-"
    assert spread(1.0, None) == "1.00"
    assert spread(1.234, 0.5) == "1.23 ± 0.50"
