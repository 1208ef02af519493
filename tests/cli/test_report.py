"""``gelato report`` on the command line."""

from __future__ import annotations

import json
import shlex

import pytest

import gelato
from gelato.cli.app import run
from gelato.cli.report import _SUFFIXES
from gelato.report.page import SUFFIXES
from support.small_graphs import community_graph


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    split = gelato.split_edges(community_graph(40), valid=0.1, test=0.2)
    model = gelato.Gelato(epochs=2, batches=2, hidden=8, alpha=0.5, beta=0.5, seed=3)
    return model.fit(split).save(tmp_path_factory.mktemp("cli") / "run")


def test_page_goes_into_the_run_folder(plain_run, capsys):
    assert run(["report", str(plain_run), "--top", "5"]) == 0
    printed = capsys.readouterr()
    text = (plain_run / "report.html").read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "held-out links" in printed.out
    assert str(plain_run / "report.html") in printed.out
    gelato.load(plain_run)  # a run is a run with a report in it


def test_json_is_the_summary_and_writes_no_page(plain_run, capsys, tmp_path):
    (plain_run / "report.html").unlink(missing_ok=True)
    assert run(["report", str(plain_run), "--json", "-q", "--nodes", "1,2,3"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sorted(told["heat_maps"]["nodes"]) == [1, 2, 3]
    listed = tmp_path / "nodes.csv"
    listed.write_text("id\n4\n5\n")
    assert run(["report", str(plain_run), "--json", "-q", "--nodes", str(listed)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sorted(told["heat_maps"]["nodes"]) == [4, 5]
    assert not (plain_run / "report.html").exists()
    file = tmp_path / "report.md"
    assert run(["report", str(plain_run), "-o", str(file), "--top", "3", "-q"]) == 0
    assert file.read_text("utf-8").startswith("# run: gelato")


def test_several_runs_and_tables_are_compared(plain_run, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = gelato.make("ac").fit(gelato.load(plain_run).split_).save(tmp_path / "ac")
    assert run(["report", str(plain_run), str(other), "-q"]) == 0
    assert "Comparison" not in capsys.readouterr().err
    assert "next best" in (tmp_path / "report.html").read_text("utf-8")
    command = ["compare", "--dataset", "citeseer", "--models", "cn,aa", "--json"]
    assert run([*command, "-q"]) == 0
    (tmp_path / "table.json").write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["report", "--comparison", "table.json", "-o", "two.html"]) == 0
    assert "aa is best" in (tmp_path / "two.html").read_text("utf-8")


def test_command_of_the_report_makes_the_run_again(plain_run, capsys, monkeypatch):
    monkeypatch.chdir(plain_run.parent)
    assert run(["report", str(plain_run), "--json", "-q", "--top", "1"]) == 0
    command = json.loads(capsys.readouterr().out)["reproduce"]["command"]
    assert run([*shlex.split(command)[1:], "-q"]) == 0
    old, new = gelato.load(plain_run), gelato.load(plain_run.parent / "run-again")
    assert new.get_params() == old.get_params()
    assert new.split_.fingerprint == old.split_.fingerprint
    one, two = (gelato.evaluate(model, model.split_).ap for model in (old, new))
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "nothing to report"),
        (["missing"], 1, "no run folder missing"),
        (["RUN", "--comparison", "x.json"], 2, "exclude each other"),
        (["RUN", "-o", "report.pdf"], 2, ".html, .md, .json"),
        (["RUN", "RUN", "--top", "3"], 2, "--top is about one run"),
        (["RUN", "--top", "0"], 2, "at least 1"),
        (["RUN", "--nodes", "1,nobody"], 1, "nobody"),
        (["RUN", "--nodes", ", ,"], 1, "names no node"),
        (["--comparison", "missing.json", "-o", "x.html"], 1, "cannot be read"),
    ],
)
def test_misuse_is_told(
    arguments, code, told, plain_run, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    given = [str(plain_run) if word == "RUN" else word for word in arguments]
    assert run(["report", *given]) == code
    printed = capsys.readouterr()
    assert told in " ".join(printed.err.split())
    assert "Traceback" not in printed.err


def test_suffixes_are_those_of_the_library():
    assert _SUFFIXES == SUFFIXES
