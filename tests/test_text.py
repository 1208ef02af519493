"""Numbers and names as people read them."""

from __future__ import annotations

import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gelato
from gelato.text import (
    degree,
    duration,
    notebook_progress,
    percent,
    percent_difference,
    percent_margin,
    plural,
    printable,
    shortened,
    size,
    times,
)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0265, "2.65"),
        (0.0000823, "0.0082"),
        (1.0, "100.00"),
        (0.0, "0.00"),
        (0.00099, "0.10"),
        (float("nan"), "-"),
    ],
)
def test_percent(share, text):
    assert percent(share) == text


@given(st.floats(1e-12, 1.0))
def test_percent_keeps_two_digits(share):
    assert float(percent(share)) == pytest.approx(100 * share, rel=0.06)


def test_margins_have_the_decimals_of_their_number():
    assert percent_margin(0.02, {"low": 0.01877, "high": 0.02123}) == "2.00 ± 0.12"
    assert (
        percent_margin(0.0000823, {"low": 0.0000723, "high": 0.0000923})
        == "0.0082 ± 0.0010"
    )
    assert percent_margin(0.5, None) == "50.00"


def test_differences_have_their_sign():
    assert percent_difference(0.0031, 0.0012) == "+0.31 ± 0.12"
    assert percent_difference(-0.00002, 0.0012) == "-0.00 ± 0.12"
    assert percent_difference(-0.000082, 0.00001) == "-0.0082 ± 0.0010"
    assert percent_difference(0.0, 0.0) == "+0.00 ± 0.00"


def test_units():
    spans = [duration(s) for s in (0.01, 3.21, 42.4, 600, 7200)]
    assert spans == ["< 0.1 s", "3.2 s", "42 s", "10 min", "2.0 h"]
    assert [size(b) for b in (2.4e8, 3.14e9)] == ["240 MB", "3.1 GB"]
    assert times(322.2) == "322"
    assert plural(1, "edge") == "1 edge"
    assert plural(2000, "edge") == "2,000 edges"
    assert [degree(d) for d in (3.0, 2.55)] == ["3", "2.55"]


@given(st.text())
def test_safe_text_cannot_move_the_cursor(text):
    assert printable(text).isprintable()


def test_safe_text_keeps_what_can_be_shown():
    assert printable("Zoë [bold] 東京") == "Zoë [bold] 東京"
    assert printable("a\x1b[2Jb\nc") == r"a\x1b[2Jb\nc"
    assert len(shortened("x" * 99)) == 40


class TestNotebookProgress:
    @pytest.fixture
    def pages(self, monkeypatch):
        """Stand in for IPython, and keep what a notebook would show."""
        shown = []
        handle = types.SimpleNamespace(update=shown.append)
        shell = type("ZMQInteractiveShell", (), {})()
        outside = types.ModuleType("IPython")
        outside.get_ipython = lambda: shell
        display = types.ModuleType("IPython.display")
        display.HTML = str
        display.display = lambda page, display_id: shown.append(page) or handle
        monkeypatch.setitem(sys.modules, "IPython", outside)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        return shown

    def test_a_bar_comes_and_goes(self, pages):
        with notebook_progress("choosing <a model>") as tell:
            tell("<b>", 1, 4)
            tell("", 2, 4)  # too soon after the first
            tell("", 4, 4)
        first, second, last, end = pages
        assert first == "choosing &lt;a model&gt;"
        assert "value='1' max='4'" in second
        assert "&lt;b&gt;" in second
        assert "value='4' max='4'" in last
        assert end == ""

    def test_choosing_and_training_show_one(self, pages):
        from support.attributed_graphs import homophilous

        graph = homophilous(0, n=60, topics=4)
        split = gelato.split_edges(graph, valid=0.2)
        gelato.choose_model(split, seconds=5, train=False)
        assert any("<progress" in page for page in pages)
        pages.clear()
        gelato.make("gelato", epochs=2, batches=2, hidden=4).fit(split)
        assert any("epoch 2" in page for page in pages)
        pages.clear()
        told = []
        choice = {"seconds": 5, "train": False}
        gelato.choose_model(split, **choice, progress=lambda *x: told.append(x))
        assert told
        assert not any("<progress" in page for page in pages)

    def test_there_is_none_elsewhere(self, monkeypatch):
        monkeypatch.delitem(sys.modules, "IPython", raising=False)
        with notebook_progress("x") as tell:
            assert tell is None


@pytest.mark.parametrize("most", [2, 3, 14, 40])
def test_long_names_keep_their_end(most):
    one, two = (
        shortened("https://example.org/" + "x" * 200 + end, most) for end in "ab"
    )
    assert len(one) == most
    assert "…" in one
    assert (one != two) == (most > 3)
    assert shortened("x" * most, most) == "x" * most
