"""What people try first works, or says what to do instead."""

from __future__ import annotations

import polars as pl
import pytest

import gelato
from gelato.errors import UsageError

EDGES = "".join(f"n{i},n{(i + k) % 20}\n" for i in range(20) for k in (1, 2, 5))


@pytest.fixture
def edges(tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("one,two\n" + EDGES)
    return file


def test_links_of_one_node_by_name(command, edges):
    words = ("predict", "--edges", edges, "-m", "aa", "--json", "-q")
    found = command(*words, "--node", "n3", "--node", "n7", "--per-node", 2).json
    ends = [{link["source"], link["target"]} for link in found["links"]]
    assert len(ends) == 4
    assert all("n3" in pair for pair in ends[:2])
    assert all("n7" in pair for pair in ends[2:])
    assert len(command(*words, "--node", "n3").json["links"]) == 10
    wrong = command(*words, "--node", "n33")
    assert wrong.code == 1
    assert "n3" in wrong.err
    assert command(*words, "--node", "n3", "--top", 3).code == 2


@pytest.mark.parametrize(
    "header", ["Person A,Person B", "u,v", "Von,Nach", "employee,manager", "x1,x2"]
)
def test_a_file_of_pairs_may_have_any_header(command, edges, tmp_path, header):
    (tmp_path / "pairs.csv").write_text(f"{header}\nn0,n3\nn4,n9\n")
    words = ("predict", "--edges", edges, "-m", "aa", "--json", "-q")
    assert len(command(*words, "--pairs", "pairs.csv").json["links"]) == 2


def test_tables_and_figures_are_known_by_their_numbers():
    from gelato.cli.reproduce import experiments_called

    assert experiments_called(["table", "2"]) == ["ap"]
    assert experiments_called(["Figure-7", "fig8"]) == ["sensitivity"]
    assert experiments_called(["Table 3", "heuristics"]) == ["ablation", "heuristics"]
    with pytest.raises(UsageError, match="table 5"):
        experiments_called(["table5"])


def test_one_model_twice_and_run_folders_are_compared(command, edges, tmp_path):
    split = gelato.split_edges(gelato.read_graph(edges), test=0.2)
    gelato.make("ac", t=4).fit(split).save(tmp_path / "kept")
    found = command(
        *("compare", "--edges", edges, "--models", "ac,short=ac,kept,other=kept"),
        *("--set", "short.t=2", "--set", "other.t=2", "--test", 0.2, "--json", "-q"),
    ).json
    values = {row["model"]: row["ap"] for row in found["runs"]}
    assert list(values) == ["ac", "short", "kept", "other"]
    assert values["short"] == values["other"]
    long = gelato.make("ac", t=4).fit(split)
    assert values["kept"] == pytest.approx(gelato.evaluate(long, split).ap)
    twice = command("compare", "--edges", edges, "--models", "a=ac,a=cn", "-q")
    assert twice.code == 2
    assert "called a" in twice.err


def test_a_synthetic_graph_is_called_so():
    graph = gelato.make_synthetic_graph(30, seed=1)
    with pytest.warns(DeprecationWarning, match="make_synthetic_graph"):
        assert gelato.make_graph(30, seed=1).edges.tolist() == graph.edges.tolist()
    with pytest.raises(UsageError, match="reads no DataFrame") as refused:
        gelato.make_graph(pl.DataFrame({"a": [1], "b": [2]}))
    assert "read_graph" in refused.value.hint
