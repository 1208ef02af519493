"""Numbers, tables and text as they are printed."""

from __future__ import annotations

import io
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console as Terminal

from gelato import text as numbers
from gelato.cli.console import Console, safe, shortened
from gelato.cli.forecasts import tell_compilation, tell_long_run
from gelato.cli.options import OutputOptions
from gelato.cli.rankings import random_hits, random_mrr


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
    assert numbers.percent(share) == text


@given(st.floats(1e-12, 1.0))
def test_percent_keeps_two_digits(share):
    assert float(numbers.percent(share)) == pytest.approx(100 * share, rel=0.06)


def test_margins_have_the_decimals_of_their_number():
    assert numbers.percent_margin(0.02, 0.00123) == "2.00 ± 0.12"
    assert numbers.percent_margin(0.0000823, 0.00001) == "0.0082 ± 0.0010"
    assert numbers.percent_margin(0.5, None) == "50.00"


def test_differences_have_their_sign():
    assert numbers.percent_difference(0.0031, 0.0012) == "+0.31 ± 0.12"
    assert numbers.percent_difference(-0.00002, 0.0012) == "-0.00 ± 0.12"
    assert numbers.percent_difference(-0.000082, 0.00001) == "-0.0082 ± 0.0010"
    assert numbers.percent_difference(0.0, 0.0) == "+0.00 ± 0.00"


def test_units():
    spans = [numbers.duration(s) for s in (0.01, 3.21, 42.4, 600, 7200)]
    assert spans == ["< 0.1 s", "3.2 s", "42 s", "10 min", "2.0 h"]
    assert [numbers.size(b) for b in (2.4e8, 3.14e9)] == ["240 MB", "3.1 GB"]
    assert numbers.times(322.2) == "322x"
    assert numbers.plural(1, "edge") == "1 edge"
    assert numbers.plural(2000, "edge") == "2,000 edges"
    assert [numbers.degree(d) for d in (3.0, 2.55)] == ["3", "2.55"]


@given(st.text())
def test_safe_text_cannot_move_the_cursor(text):
    assert safe(text).isprintable()


def test_safe_text_keeps_what_can_be_shown():
    assert safe("Zoë [bold] 東京") == "Zoë [bold] 東京"
    assert safe("a\x1b[2Jb\nc") == r"a\x1b[2Jb\nc"
    assert len(shortened("x" * 99)) == 40


def test_ids_are_not_markup(gelato, write):
    rows = "source,target\n[bold]x[/bold],b\nb,c\nc,[red]\n"
    edges = write("edges.csv", rows)
    shown = gelato("predict", "--edges", edges).out
    assert "[bold]x[/bold]" in shown
    assert "[red]" in shown


def test_control_characters_in_ids_are_escaped(gelato, write):
    edges = write("edges.csv", 'source,target\n"a\x1b[2J",b\nb,"c\nd"\nb,e\n')
    result = gelato("predict", "--edges", edges)
    assert "\x1b" not in result.out + result.err
    assert r"a\x1b[2J" in result.out
    assert r"c\nd" in result.out


@pytest.mark.parametrize("negatives", [1, 5, 40])
def test_random_baselines_are_means_over_all_places(negatives):
    places = range(negatives + 1)  # how many negatives stand above
    for k in (1, 3, 100):
        hits = statistics.fmean(above < k for above in places)
        assert random_hits(negatives, k) == pytest.approx(hits)
    mrr = statistics.fmean(1 / (1 + above) for above in places)
    assert random_mrr(negatives) == pytest.approx(mrr)


def test_random_mrr_of_many():
    exact = statistics.fmean(1 / rank for rank in range(1, 5002))
    assert random_mrr(5000) == pytest.approx(exact, rel=1e-6)


class TestNotes:
    @pytest.fixture
    def console(self, capsys):
        return Console(OutputOptions())

    def test_compilation_is_told_only_where_nothing_is_cached(
        self, console, capsys, monkeypatch
    ):
        monkeypatch.setattr("gelato.cli.forecasts._is_compiled", lambda _: False)
        tell_compilation(console, ["walks"])
        assert "compiling kernels, once per installation" in capsys.readouterr().err
        monkeypatch.setattr("gelato.cli.forecasts._is_compiled", lambda _: True)
        tell_compilation(console, ["walks"])
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize(("seconds", "told"), [(30.0, False), (100.0, True)])
    def test_long_runs_are_told(self, console, capsys, monkeypatch, seconds, told):
        from gelato.ranking import forecast as module

        coming = module.Forecast(10**9, None, seconds, 10**9, 2)
        monkeypatch.setattr(module, "forecast", lambda *_, **__: coming)
        rule = type("Rule", (), {"count": 10**9})
        tell_long_run(console, None, None, rule)
        assert ("1,000,000,000 candidate pairs" in capsys.readouterr().err) == told

    def test_progress_appears_late_and_only_on_terminals(self, console, monkeypatch):
        with console.progress("ranking") as report:
            assert report is None
        written = io.StringIO()
        console._error = Terminal(file=written, force_terminal=True, width=80)
        with console.progress("[red]ranking") as report:
            report(1, 10)
            assert written.getvalue() == ""
            monkeypatch.setattr("gelato.cli.console._PATIENCE", -1.0)
            report(2, 10)
            report(3, 10)
        assert "[red]ranking" in written.getvalue()
        assert "3/10" in written.getvalue()
