"""Files out: complete or not at all, and readable again."""

import json
import os

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gelato.errors import OutputError, UsageError
from gelato.graph import Graph
from gelato.io import (
    read_graph,
    read_nodes,
    read_pairs,
    to_frame,
    write_bytes_atomic,
    write_graph,
    write_table,
    write_text_atomic,
)

QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
TABLE = {"source": ["a", "=b"], "score": [0.5, float("nan")]}


def test_formats(tmp_path):
    csv = write_table(TABLE, tmp_path / "t.csv").read_text()
    assert csv == "source,score\na,0.5\n'=b,NaN\n"
    assert (
        write_table(TABLE, tmp_path / "t.tsv").read_text().startswith("source\tscore")
    )
    assert pl.read_parquet(write_table(TABLE, tmp_path / "t.parquet")).height == 2
    records = json.loads(write_table(TABLE, tmp_path / "t.json").read_text())
    assert records == [{"source": "a", "score": 0.5}, {"source": "=b", "score": None}]
    lines = write_table(TABLE, tmp_path / "t.jsonl").read_text().splitlines()
    assert json.loads(lines[1])["source"] == "=b"
    write_table(pd.DataFrame({"x": [1]}), tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "x\n1\n"
    mixed = write_table({"id": [1, "a", (2, 3)]}, tmp_path / "m.csv").read_text()
    assert mixed == 'id\n1\na\n"(2, 3)"\n'
    listed = write_table({"l": [["a", "b"], []]}, tmp_path / "l.csv").read_text()
    assert listed == 'l\na;b\n""\n'


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_formulas_are_made_harmless(tmp_path, start):
    path = write_table({"x": [start + "1"], f"{start}n": [-5]}, tmp_path / "t.csv")
    header, row = path.read_bytes().decode().split("\n")[:2]
    assert row.lstrip('"').startswith("'")
    assert header.split(",")[1].lstrip('"').startswith("'")
    assert row.endswith(",-5")  # a number is no formula


def test_unknown_suffix_and_unwritable_paths(tmp_path):
    with pytest.raises(UsageError, match=r"'.xlsx' is not known"):
        write_table(TABLE, tmp_path / "t.xlsx")
    with pytest.raises(OutputError, match="no folder"):
        write_table(TABLE, tmp_path / "none" / "t.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(OutputError, match="is a directory"):
        write_table(TABLE, tmp_path / "d.csv")
    with pytest.raises(OutputError, match="cannot be written"):
        write_text_atomic("bad\0name", "x")
    with pytest.raises(OutputError, match="no character"):
        write_text_atomic(tmp_path / "t.txt", "\ud800")
    with pytest.raises(OutputError, match="is not a file"):
        write_text_atomic(os.devnull, "x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["d.csv"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, failing):
    path = write_text_atomic(tmp_path / "t.txt", "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    if failing == "fsync":
        monkeypatch.setattr("gelato.io.write.os.fsync", fail)
    else:
        monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        write_bytes_atomic(path, b"new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.txt"]


def test_links_and_modes_are_kept(tmp_path):
    real = write_text_atomic(tmp_path / "real.txt", "old")
    real.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    write_text_atomic(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640


names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5
).filter(lambda name: name == name.strip() and name.strip())
awkward = st.sampled_from(
    ["'=a", "''-1", "-", "+1", "@x", "'", '"', "a,b", "a\nb", "#"]
)


@QUICK
@given(
    st.lists(st.tuples(names | awkward, names | awkward), min_size=1, max_size=6),
    st.sampled_from(["csv", "tsv", "parquet"]),
)
def test_text_ids_survive_the_round_trip(tmp_path, edges, suffix):
    # One id that is no number: otherwise csv gives integers back, as documented.
    graph = read_graph([*edges, ("never", "a number")])
    write_graph(graph, tmp_path / f"e.{suffix}", tmp_path / f"a.{suffix}")
    back = read_graph(tmp_path / f"e.{suffix}", tmp_path / f"a.{suffix}")
    assert sorted(back.node_ids.tolist()) == sorted(graph.node_ids.tolist())
    assert set(to_frame(back).rows()) == set(to_frame(graph).rows())
    pairs = read_pairs(tmp_path / f"e.{suffix}", graph)
    assert np.array_equal(pairs, graph.edges)


@QUICK
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)), max_size=12
    ),
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=10, max_size=10),
    st.booleans(),
    st.sampled_from(["csv", "tsv", "parquet"]),
)
def test_graphs_survive_the_round_trip(tmp_path, rows, values, directed, suffix):
    graph = Graph.from_indices(
        10,
        [row[:2] for row in rows],
        weights=[row[2] / 8 for row in rows],
        times=[row[2] for row in rows],
        attributes=np.column_stack([values, np.arange(10)]),
        directed=directed,
        labels=np.arange(10) % 3,
        attribute_names=["label", "y"],
    )
    files = tmp_path / f"e.{suffix}", tmp_path / f"a.{suffix}"
    write_graph(graph, *files)
    raw = {"*": "numeric-raw"}
    back = read_graph(*files, labels="label", directed=directed, encode=raw)
    assert np.array_equal(back.edges, graph.edges)
    if graph.num_edges:
        assert np.array_equal(back.weights, graph.weights)
        assert np.array_equal(back.times, graph.times)
    assert np.array_equal(np.asarray(back.attributes), graph.attributes)
    assert np.array_equal(back.labels, graph.labels)
    assert back.attribute_names == ("label_", "y")


def test_pairs_and_nodes_in_many_forms(tmp_path):
    graph = read_graph([("anna", "bert"), ("bert", "carl")])
    links = tmp_path / "links.csv"
    write_table(
        {"rank": [1, 2], "target": ["carl", "bert"], "source": ["anna", "anna"]}, links
    )
    assert read_pairs(links, graph).tolist() == [[0, 2], [0, 1]]
    links.write_text("one,two\nanna,carl\n")
    named = read_pairs(links, graph, source_column="two", target_column="one")
    assert named.tolist() == [[2, 0]]
    links.write_text("anna ,carl\n")
    assert read_pairs(links, graph).tolist() == [[0, 2]]
    numbered = read_graph([(10, 20), (20, 30)])
    links.write_text("p,q\n10,30\n")
    assert read_pairs(links, numbered).tolist() == [[0, 2]]
    assert read_pairs([("10", 30.0)], numbered).tolist() == [[0, 2]]
    assert read_pairs(pl.DataFrame({"a": [], "b": []}), numbered).shape == (0, 2)
    text = read_graph([("10", "20")])
    assert read_pairs([(10, 20)], text).tolist() == [[0, 1]]
    nodes = tmp_path / "nodes.txt"
    nodes.write_text("id\nbert\nanna\nbert\n")
    assert read_nodes(nodes, graph).tolist() == [1, 0]
    assert read_nodes(["carl"], graph).tolist() == [2]
    assert read_nodes(np.array([30, 10]), numbered).tolist() == [2, 0]
    blanks = read_graph([("New York", "St. John, NB")])
    nodes.write_text("New York\nSt. John, NB\n")
    assert read_nodes(nodes, blanks).tolist() == [0, 1]
