"""Figures show what is recorded, name what is not, and are drawn from nothing never."""

from __future__ import annotations

import re

import pytest

from gelato.drawing import PALETTE
from gelato.paper.experiment import experiment_names, read_experiment
from gelato.paper.plots import FIGURES, draw_figures, method_looks
from support.tiny_runs import toy_results, use_tiny_graph

HEURISTICS = ("CN", "AA", "AC")


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    use_tiny_graph(monkeypatch)


def texts(path):
    """Return the words of an SVG: they are text, not outlines."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


def test_every_figure_has_an_experiment():
    drawn = {name for e in experiment_names() for name in read_experiment(e).figures}
    assert drawn == set(FIGURES)


@pytest.mark.parametrize("name", experiment_names())
def test_without_records_nothing_is_drawn(name, tmp_path):
    experiment = read_experiment(name)
    folder = tmp_path / "figures"
    written = draw_figures(experiment, tmp_path / "results", folder)
    assert set(written) == set(experiment.figures)
    for figure, files in written.items():
        assert bool(files) == (figure == "example")  # which needs no record
    assert folder.exists() == ("example" in written)


def test_curves_and_protocols_name_what_is_missing(tmp_path):
    kept = lambda row: row.name in HEURISTICS  # noqa: E731
    experiment, place = toy_results("ap", tmp_path, keep=kept)
    written = draw_figures(experiment, place.results, tmp_path / "figures")
    for files in written.values():
        assert [file.suffix for file in files] == [".png", ".svg"]
        words = texts(files[1])
        assert set(HEURISTICS) < set(words)
        assert "TOY RUNS" in words
        missing = " ".join(word for word in words if "Recorded on no graph" in word)
        assert "Neo-GNN" in missing
        assert "AC," not in missing.split("MLP")[0]
    both = read_experiment("biased-testing")
    experiment = type(both)(**{**vars(both), "rows": experiment.rows})
    (files,) = draw_figures(experiment, place.results, tmp_path / "figures").values()
    words = texts(files[1])
    assert {"BIASED testing, AP", "all pairs, AP", "AA, all pairs"} < set(words)


def test_the_same_records_give_the_same_bytes(tmp_path):
    kept = lambda row: row.name in HEURISTICS  # noqa: E731
    experiment, place = toy_results("ap", tmp_path, keep=kept)
    one = draw_figures(experiment, place.results, tmp_path / "one")["hits"]
    two = draw_figures(experiment, place.results, tmp_path / "two")["hits"]
    assert [f.read_bytes() for f in one] == [f.read_bytes() for f in two]


def test_losses_say_which_column_is_missing(tmp_path):
    kept = lambda row: row.name == "N-pair, unbiased"  # noqa: E731
    experiment, place = toy_results("losses", tmp_path, keep=kept)
    (files,) = draw_figures(experiment, place.results, tmp_path / "figures").values()
    words = texts(files[1])
    assert words.count("not recorded") == 2 * 4
    assert "training" in words
    assert any(word.startswith("toy, test AP") for word in words)


def test_sensitivity_over_a_grid_with_gaps(tmp_path):
    kept = lambda row: row.parameters["beta"] == 0.5  # noqa: E731
    experiment, place = toy_results("sensitivity", tmp_path, keep=kept)
    drawn = draw_figures(experiment, place.results, tmp_path / "figures")
    assert {"eta", "AP", "prec@100%"} <= set(texts(drawn["eta"][1]))
    words = texts(drawn["alpha-beta"][1])
    assert words.count("-") == 2 * 2  # beta 1 is not recorded, twice in both maps
    assert {"alpha", "beta", "0.5"} <= set(words)


def test_methods_look_different_by_more_than_colour():
    looks = method_looks(read_experiment("ap"))
    assert len(looks) == 19
    seen = {
        (look["color"], str(look["linestyle"]), look["marker"])
        for look in looks.values()
    }
    assert len(seen) == 19
    without_colour = {(str(k["linestyle"]), k["marker"]) for k in looks.values()}
    assert len(without_colour) == 19
    assert looks["Gelato"]["color"] == PALETTE[-1]
