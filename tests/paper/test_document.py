"""Discussions are tied to cells: one that is no longer true is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gelato.paper.cells import Cell, cells, judge
from gelato.paper.document import (
    _matrix,
    differences,
    discussion_lines,
    stale_remarks,
)
from gelato.paper.experiment import (
    Experiment,
    Remark,
    experiment_names,
    read_experiment,
    read_facts,
)
from gelato.paper.records import read_record

RESULTS = Path(__file__).resolve().parents[2] / "results"
REMARK = Remark(("MLP",), ("cora",), "below", "It is so.")
EXPERIMENT = Experiment("x", "X", (), (), remarks=(REMARK,))


def cell(value, method="MLP"):
    values = () if value is None else (value,)
    return Cell(method, "cora", "ap", values, (1,) * len(values), 5.0, 0.1)


@pytest.mark.parametrize("name", experiment_names())
def test_no_recorded_result_contradicts_what_is_said_of_it(name):
    if not RESULTS.is_dir():
        pytest.skip("the repository's results are not at hand")
    experiment = read_experiment(name)
    if experiment.kind == "runs":
        assert stale_remarks(experiment, cells(experiment, RESULTS)) == []


@pytest.mark.parametrize("name", experiment_names())
def test_no_record_breaks_what_is_said_to_hold(name):
    if not RESULTS.is_dir():
        pytest.skip("the repository's results are not at hand")
    experiment = read_experiment(name)
    closed = [one for one in experiment.findings if not one.open]
    said = [text for one in (*experiment.remarks, *closed) for text in one.evidence]
    verdicts = {text: judge(text, RESULTS) for text in said}
    assert [text for text, found in verdicts.items() if found.state == "broken"] == []
    for one in closed:  # a finding is a record's, not a guess
        assert {verdicts[text].state for text in one.evidence} == {"holds"}, one.text


def test_open_questions_name_cells_that_exist():
    for name in experiment_names():
        for one in read_experiment(name).findings:
            assert all(judge(text, Path("nowhere")).about for text in one.evidence)


def test_evidence_is_judged_by_records(monkeypatch):
    found = {"Ours": cell(5.0, "Ours"), "Low": cell(3.0, "Low"), "Not": cell(None)}
    monkeypatch.setattr(
        "gelato.paper.cells._named_cell", lambda name, _: found[name.split(":")[1]]
    )

    def state(text):
        return judge(text, Path("nowhere")).state

    assert state("x:Ours:cora > x:Low:cora") == "holds"
    assert state("x:Low:cora > x:Ours:cora") == "broken"
    assert state("x:Ours:cora > x:Not:cora") == "not recorded yet"
    assert state("x:Ours:cora within") == "holds"
    assert state("x:Low:cora within") == "broken"
    found["Near"] = replace(cell(4.9), values=(4.7, 4.9, 5.1))  # 0.2 apart
    assert state("x:Ours:cora ~ x:Near:cora") == "holds"
    assert state("x:Near:cora ~ x:Low:cora") == "broken"
    assert state("x:Ours:cora ~ x:Low:cora") == "broken"  # one run each: no spread
    assert state("x:Ours:cora ~ x:Not:cora") == "not recorded yet"


def test_evidence_names_the_tables_of_a_row_that_two_have(monkeypatch):
    monkeypatch.setattr(
        "gelato.paper.cells._named_cell", lambda name, _: cell(5.0, name.split(":")[1])
    )
    one, two = (
        judge(text, Path("nowhere"))
        for text in ("x:AC:cora > y:MLP:cora", "x:MLP:cora > y:MLP:cora")
    )
    assert (one.about, one.numbers) == ("AC against MLP", "cora 5.00, 5.00")
    assert two.about == "MLP (x) against MLP (y)"


def test_what_is_said_of_a_training_is_judged_by_its_first_run(monkeypatch):
    history = [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25, "ap": 0.01949}]
    record = {"training": {"best_epoch": 1, "history": history}}
    found = [record]
    monkeypatch.setattr("gelato.paper.cells.row_records", lambda *_: found)

    def state(text):
        return judge(f"ap:Neo-GNN:pubmed {text}", Path("nowhere")).state

    assert state("best 1 of 2") == "holds"
    assert state("best 2 of 2") == "broken"
    assert state("best 1 of 3") == "broken"
    assert state("ap 1.9 at 2") == "holds"  # to the digits that are given
    assert state("ap 1.95 at 2") == "holds"
    assert state("ap 2.0 at 2") == "broken"
    assert state("loss 0.25 at 2") == "holds"
    found.clear()
    assert state("best 1 of 2") == "not recorded yet"


def test_runs_of_two_lengths_share_a_place():
    short = replace(cell(3.0), label="few epochs")
    (line,) = (row for row in _matrix([cell(5.0), short]) if "MLP" in row)
    assert "5.00" in line
    assert "†\u00a0▼\u00a0few\u00a0epochs" in line


def test_a_remark_that_became_wrong_is_stale():
    assert stale_remarks(EXPERIMENT, [cell(3.0)]) == []
    assert stale_remarks(EXPERIMENT, [cell(None)]) == []
    (told,) = stale_remarks(EXPERIMENT, [cell(5.0)])
    assert "within" in told
    assert len(stale_remarks(EXPERIMENT, [cell(3.0, "AC")])) == 1


def test_every_difference_is_told_with_what_is_known_of_it():
    found = [cell(3.0), cell(9.0, "AC"), cell(5.0, "CN"), cell(None, "AA")]
    told = {one.method: text for one, text in differences(EXPERIMENT, found)}
    assert told == {"MLP": "It is so.", "AC": "not discussed yet"}
    other = replace(EXPERIMENT, remarks=(replace(REMARK, metric="auc"),))
    told = {one.method: text for one, text in differences(other, found)}
    assert told["MLP"] == "not discussed yet"


def test_what_is_said_of_several_cells_is_said_once():
    remark = replace(REMARK, methods=("MLP", "AC"))
    experiment = replace(EXPERIMENT, remarks=(remark,))
    lines = discussion_lines(experiment, [cell(3.0), cell(2.0, "AC"), cell(9.0, "CN")])
    assert lines[2:] == [
        "- It is so.",
        "    - MLP on cora: 3.00 against 5.00 ± 0.10, -2.00 with a tolerance of 0.31",
        "    - AC on cora: 2.00 against 5.00 ± 0.10, -3.00 with a tolerance of 0.31",
        "- CN on cora: 9.00 against 5.00 ± 0.10, +4.00 with a tolerance of 0.31. "
        "Not discussed yet.",
        "",
    ]
    assert discussion_lines(experiment, [cell(5.0)]) == []


def test_no_recorded_epoch_of_bscnets_shares_the_best_value():
    """What the first page says of BScNets' rule for equal epochs."""
    if not RESULTS.is_dir():
        pytest.skip("the repository's results are not at hand")
    paths = sorted(RESULTS.glob("runs/*/bscnets-*.json"))
    assert len(paths) >= 9
    for path in paths:
        training = read_record(path, {})["training"]
        values = [entry["sampled-auc"] for entry in training["history"]]
        assert values.count(round(training["best_value"], 6)) == 1, path.name
    known = {row["what"]: row["known"] for row in read_facts("references")["rows"]}
    (said,) = (text for what, text in known.items() if what.startswith("BScNets"))
    assert said.startswith("no difference")
