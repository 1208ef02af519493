"""Cells are exact, estimated, reduced or missing, and whoever shows one says which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gelato
from gelato import split_edges
from gelato.cli.app import run
from gelato.models.registry import unregister
from gelato.paper import cells as cells_module
from gelato.paper import experiment as paper
from gelato.paper import jobs
from gelato.paper import runner as runs
from gelato.paper.cells import cells, mark_lines, number_text, trained_alike
from gelato.paper.claims import table_scores
from gelato.paper.document import write_page
from gelato.paper.experiment import Experiment, Row, experiment_names, read_experiment
from gelato.paper.plots import draw_curves, draw_protocols
from gelato.paper.runner import RunSpec, find_result, perform, result_path
from support.slow_model import Slow, register
from support.tiny_runs import tiny_graph, use_tiny_graph

SPECS = Path(paper.__file__).parent / "specs"


@pytest.fixture(autouse=True)
def slow(monkeypatch):
    use_tiny_graph(monkeypatch)
    register()
    yield Slow
    Slow.seconds, Slow.on_pairs = 0.0, None
    unregister("slow")


def row(title, dataset="tiny", seeds=(None,), **more):
    return Row("slow", dataset, {}, seeds, {"ap": 5.0}, title=title, **more)


@pytest.fixture
def mixed():
    rows = (
        row("Exact"),
        row("Estimated", estimate=0.3),
        row("Short", label="2 epochs"),
        row("Both", label="2 epochs", estimate=0.3),
        row("Later", seeds=(7,)),
        row("Never", seeds=(), missing="forecast of 90 h"),
        row("Unknown", seeds=(), mark="OOM"),
    )
    return Experiment("mixed", "Mixed", (), rows, figures=("precision",))


@pytest.fixture
def done(mixed, tmp_path):
    place = jobs.Place(tmp_path / "results", tmp_path / "work")
    for job in jobs.missing_jobs([mixed], place):
        if job.spec.seed is None:
            said = job.run(None, None)
            assert ("ESTIMATE" in said) == (job.spec.estimate is not None)
            assert ("ESTIMATE" in job.title) == (job.spec.estimate is not None)
    return place


def test_exact_runs_keep_their_names():
    spec = RunSpec("gelato", "cora", 3, {"eta": 0.5})
    assert spec.key == "047ee827"
    assert "estimate" not in spec.to_dict()
    estimated = RunSpec("gelato", "cora", 3, {"eta": 0.5}, estimate=0.1)
    assert estimated.key != spec.key
    assert estimated.to_dict()["estimate"] == 0.1


def test_every_cell_has_a_state_and_a_reason(mixed, done):
    found = {cell.method: cell for cell in cells(mixed, done.results)}
    assert {name: cell.state for name, cell in found.items()} == {
        "Exact": "exact",
        "Estimated": "estimated",
        "Short": "reduced",
        "Both": "reduced and estimated",
        "Later": "missing",
        "Never": "missing",
        "Unknown": "missing",
    }
    reasons = {name: cell.why for name, cell in found.items()}
    assert reasons["Exact"] == ""
    assert "30 % of the others sampled" in reasons["Estimated"]
    assert reasons["Both"].startswith("2 epochs; near pairs exactly")
    assert reasons["Later"] == "not recorded yet"
    assert reasons["Never"] == "forecast of 90 h"
    assert reasons["Unknown"] == "no run is planned"
    split = split_edges(tiny_graph())
    exact = gelato.evaluate(Slow().fit(split), split)
    low, high = found["Estimated"].interval
    assert low <= 100 * exact.ap <= high
    data = found["Both"].to_dict()
    assert (data["state"], data["estimate"]) == ("reduced and estimated", 0.3)
    assert data["interval"] == list(found["Both"].interval)
    assert found["Exact"].to_dict()["interval"] is None


def test_numbers_carry_their_marks(mixed, done):
    texts = {cell.method: number_text(cell) for cell in cells(mixed, done.results)}
    assert texts["Exact"].replace(".", "").isdecimal()
    assert texts["Estimated"].startswith("≈ ")
    assert " to " in texts["Estimated"]
    assert texts["Short"].endswith(" †")
    assert texts["Both"].startswith("≈ ")
    assert " † (" in texts["Both"]
    assert texts["Later"] == texts["Never"] == "-"
    lines = "\n".join(mark_lines(cells(mixed, done.results)))
    assert "≈ estimated: Estimated on tiny" in lines
    assert "† reduced and ≈ estimated: Both on tiny (2 epochs" in lines
    assert "- missing: Never on tiny (forecast of 90 h)" in lines
    assert "Later" not in lines


def test_pages_tables_and_figures_show_them(mixed, done, monkeypatch, capsys):
    page = write_page(mixed, done.results, {"precision": "images/mixed-precision"})
    assert "≈ estimated: Estimated on tiny" in page
    assert "- missing: Never on tiny (forecast of 90 h)" in page
    assert "| Short |" in page
    caption = next(line for line in page.splitlines() if line.startswith("*Mixed"))
    assert "estimated on tiny: Estimated, Both" in caption
    assert "reduced on tiny: Short, Both" in caption
    figure = draw_curves(mixed, done.results, "precision_at")
    assert "Not exact: estimated on tiny: Estimated, Both" in figure.get_supxlabel()
    panel = draw_protocols(mixed, done.results).axes[0]
    names = [text.get_text() for text in panel.get_yticklabels()]
    assert {"Exact", "≈ Estimated", "Short †", "≈ Both †"} == set(names)
    monkeypatch.setattr(paper, "read_experiment", lambda name: mixed)
    words = ["reproduce", "ap", "--no-run", "--results", str(done.results)]
    assert run(words) == 0
    shown = capsys.readouterr().out
    assert "≈ estimated: Estimated on tiny" in shown
    assert "- missing: Never on tiny (forecast of 90 h)" in shown
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["experiments"][0]["cells"]
    assert {cell["method"]: cell["state"] for cell in told}["Short"] == "reduced"


def test_only_rows_trained_alike_are_compared(monkeypatch, tmp_path):
    full = [row(f"full {k}") for k in range(3)]
    short = [row(f"short {k}", label="few epochs") for k in range(2)]
    known = set()
    monkeypatch.setattr(
        cells_module, "row_records", lambda row, _: [1] if row.name in known else []
    )

    def compared():
        found = trained_alike([*full, *short], tmp_path)
        return [(row.name, bool(records)) for row, records in found]

    known |= {"full 0", "short 0", "short 1"}
    assert compared() == [("short 0", True), ("short 1", True)]
    known.add("full 2")  # as many: those trained in full, with their gap
    assert compared() == [("full 0", True), ("full 1", False), ("full 2", True)]
    assert trained_alike([], tmp_path) == []


def test_claims_rest_on_exact_cells_only(mixed, done, monkeypatch):
    monkeypatch.setattr("gelato.paper.claims.read_experiment", lambda _: mixed)
    assert set(table_scores("ap", done.results)) == {"Exact"}


@pytest.mark.parametrize("estimate", [None, 0.5])
def test_a_struck_ranking_of_a_run_goes_on(tmp_path, slow, estimate):
    spec = RunSpec("slow", "tiny", estimate=estimate)
    every = []
    slow.on_pairs = every.append
    whole = perform(spec, tmp_path / "one", tmp_path / "there")
    results, work = tmp_path / "two", tmp_path / "here"

    def stop(asked):
        if asked > 250:
            raise KeyboardInterrupt

    slow.on_pairs = stop
    with pytest.raises(KeyboardInterrupt):
        perform(spec, results, work)
    assert find_result(results, spec) is None
    seen = []
    slow.on_pairs = seen.append
    record = perform(spec, results, work)
    for one in (whole, record):
        del one["metrics"]["seconds"]
    assert record["metrics"] == whole["metrics"]
    assert max(seen) < max(every)
    stored = json.loads(result_path(results, spec).read_text())
    assert stored["metrics"]["estimated"] == (estimate is not None)


def test_long_rankings_tell_how_far_they_are(tmp_path, slow, monkeypatch):
    monkeypatch.setattr(runs, "_LINE_SECONDS", 0.0)
    lines = []
    perform(RunSpec("slow", "tiny"), tmp_path, tmp_path / "work", report=lines.append)
    assert any(line.startswith("ranked ") for line in lines)


@pytest.mark.parametrize("name", experiment_names())
def test_specs_use_known_words(name):
    """A misspelt word would be ignored, and an estimate pass for exact."""
    known = {"seeds", "parameters", "label", "estimate", "missing"}
    content = paper._content(name)
    entries = [
        (entry["title"], dataset, given)
        for entry in content.get("methods", ())
        for dataset, given in entry.get("runs", {}).items()
    ]
    for title, dataset, given in entries:
        assert set(given) <= known, (title, dataset)
        assert bool(given.get("seeds")) != bool(given.get("missing")), (title, dataset)
    for one in read_experiment(name).rows:
        assert one.estimate is None or 0 < one.estimate <= 1
