"""Figures show the numbers that they were given."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from gelato import compare, evaluate, make, split_edges, worked_example
from gelato.comparison.paired import SAME
from gelato.comparison.summary import rank_models
from gelato.drawing import save_figure
from gelato.graph import Graph
from gelato.ranking import metrics
from gelato.report.figures import draw_comparison, draw_example, draw_intervals


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    split = split_edges(Graph.from_indices(40, rng.integers(0, 40, (150, 2))), test=0.2)
    models = {name: make(name).fit(split) for name in ("cn", "ac")}
    return tuple(
        {name: evaluate(m, split, protocol=protocol) for name, m in models.items()}
        for protocol in ("all", "sampled")
    )


def test_comparison_draws_precision_and_both_protocols(results):
    exact, biased = results
    curves, bars = draw_comparison(exact, biased, "title").axes
    for line in curves.get_lines()[:2]:
        ks, values = line.get_data()
        counts = exact[line.get_label()].counts
        expected = [100 * metrics.precision_at(counts, int(k)) for k in ks]
        np.testing.assert_allclose(values, expected)
    names = [label.get_text() for label in bars.get_yticklabels()]
    assert names == sorted(exact, key=lambda name: -exact[name].ap)
    for drawn, source in zip(bars.containers, results, strict=True):
        widths = [bar.get_width() for bar in drawn]
        np.testing.assert_allclose(widths, [100 * source[name].ap for name in names])
    assert "BIASED" in bars.containers[1].get_label()


def test_nine_models_leave_room_for_both_pictures(results):
    exact, biased = ({f"model {k}": one["ac"] for k in range(9)} for one in results)
    figure = draw_comparison(exact, biased, "title")
    FigureCanvasAgg(figure).draw()
    curves, bars = figure.axes
    assert min(axes.get_position().width for axes in (curves, bars)) > 0.35
    colours = [line.get_color() for line in curves.get_lines()[:-1]]
    assert len(colours) == len(set(colours))
    assert len(bars.get_yticklabels()) == 9


def test_example_draws_both_curves():
    example = worked_example()
    roc, precision_recall = draw_example(example).axes
    labels = [line.get_label() for line in precision_recall.get_lines()]
    assert [label.rpartition(", ")[2] for label in labels] == ["AP 0.05", "AP 0.95"]
    for line in roc.get_lines():
        x, y = line.get_data()
        assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
        assert np.trapezoid(y, x) == pytest.approx(0.99, abs=0.002)
        assert len(x) <= 400
    unbiased = precision_recall.get_lines()[0].get_data()[1]
    assert unbiased[-1] == pytest.approx(100_000 / 1_100_000)


def test_files_are_whole_and_the_same_every_time(tmp_path):
    example = worked_example(10, 100, 1000)
    first = save_figure(draw_example(example), tmp_path / "a.b")
    second = save_figure(draw_example(example), tmp_path / "c")
    assert [path.name for path in first] == ["a.b.png", "a.b.svg"]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert first[1].read_text().rstrip().endswith("</svg>")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_intervals_are_drawn_where_they_are():
    rng = np.random.default_rng(1)
    graph = Graph.from_indices(40, rng.integers(0, 40, (150, 2)))
    table = compare(graph, {"$a$": "cn", "ac": "ac", "pa": "pa"}, splits=3)
    entries = rank_models(table.to_dicts())
    means, gains = draw_intervals(entries, "title").axes
    names = [label.get_text() for label in means.get_yticklabels()]
    assert names == [entry["model"].replace("$", r"\$") for entry in entries]
    for axes, key in ((means, "interval"), (gains, "difference")):
        expected = [entry[key]["ap"] for entry in entries if entry[key]["ap"]]
        lines = [x.get_xdata() for x in axes.get_lines() if len(x.get_xdata()) == 2]
        drawn = [x for x in lines if list(x) != [0, 0]]  # the line of no difference
        ends = [[100 * part["low"], 100 * part["high"]] for part in expected]
        np.testing.assert_allclose(drawn, ends)
    hollow = [x.get_markerfacecolor() == "white" for x in gains.get_lines()]
    unseen = [e["difference"]["ap"]["verdict"] == SAME for e in entries[1:]]
    assert sum(hollow) == sum(unseen)
    assert len(draw_intervals(entries[:1], "alone").axes) == 1
