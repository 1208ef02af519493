"""Examples and the README's code run as they stand."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import gelato

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(*command):
    done = subprocess.run(
        [sys.executable, "-W", "error", *command], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_tour_shows_every_step():
    code = (ROOT / "examples" / "tour.py").read_text("utf-8")
    assert code.count("# %%\n") >= 9
    for step in (
        *("Graph.from_edges(", "split_edges(", "make(", ".fit(", "evaluate("),
        *("compare(", ".to_pandas()", ".predict(", ".explain(", ".save(", "load("),
        *("score_rows", "choose_model("),
    ):
        assert step in code, step


def test_a_graph_prints_what_it_is():
    edges = [("a", "b"), ("b", "c")]
    assert repr(gelato.Graph.from_edges(edges)) == (
        "Graph(3 nodes, 2 undirected edges, no attributes)"
    )
    assert "3,703 attributes" in str(gelato.load_dataset("citeseer"))


def test_tables_turn_into_pandas():
    graph = gelato.load_dataset("citeseer")
    links = gelato.make("cn").fit(graph).predict(top=3)
    table = links.to_pandas()
    assert type(table).__module__.startswith("pandas")
    assert table["source"].tolist() == links["source"].to_list()


@pytest.mark.slow
def test_code_of_the_readme_runs():
    text = (ROOT / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    quick = code.replace('"stack", seed=1', '"stack", seed=1, folds=1, rounds=5')
    assert quick != code
    assert "BIASED" in run("-c", quick)
