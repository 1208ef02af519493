"""Numbers, tables and text as they are printed."""

from __future__ import annotations

import io
import statistics
from types import SimpleNamespace

import polars as pl
import pytest
from rich.console import Console as Terminal

from gelato.cli.console import Console
from gelato.cli.forecasts import tell_compilation, tell_long_run
from gelato.cli.options import OutputOptions
from gelato.cli.rankings import links_table, random_hits, random_mrr


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


def test_a_reason_takes_the_place_of_numbers_where_it_fits():
    links = pl.DataFrame(
        {
            **{"source": ["a"], "target": ["b"], "score": [65.2], "rank": [1]},
            **{"expected_precision": [0.42], "expected_low": [0.31]},
            "expected_high": [0.54],
            **{"common_neighbours": [3], "attribute_similarity": [0.5]},
            **{"source_degree": [4.0], "target_degree": [14.0]},
            "reason": ["3 shared neighbours, 2 of them rare; similar attributes"],
        }
    )

    def titles(table_links, width):
        terminal = Terminal(width=1000, file=io.StringIO())
        fits = SimpleNamespace(fits=lambda t: terminal.measure(t).maximum <= width)
        return [str(column.header) for column in links_table(fits, table_links).columns]

    beside = ["rank", "source", "target"]
    sure = "exp. prec."
    assert titles(links, 92) == [*beside, sure, "why"]
    numbers = ["score", sure, "common", "similarity"]
    assert titles(links, 80) == [*beside, *numbers, "degrees"]
    silent = links.with_columns(reason=pl.lit(None, pl.String))
    assert titles(silent, 1000) == [*beside, *numbers, "degrees"]


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

    def test_progress_appears_late_and_only_on_terminals(
        self, console, capsys, monkeypatch
    ):
        with console.progress("ranking") as report:
            report(1, 10)
        assert capsys.readouterr().err == ""
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
