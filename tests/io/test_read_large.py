"""Large edge tables: read in pieces, with the same graph and notes as in one."""

import json
import os
import subprocess
import sys

import networkx as nx
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gelato.graph.graph
import gelato.io.ids
import gelato.io.read
from gelato.graph import Graph
from gelato.io import read_graph, read_graph_with_report, with_sides
from gelato.io.ids import Ids, number_ids

MESSY = ["b", " a", "a", "nan", None, "b ", "", "c", "NaN", "a", "d" * 70]
OTHER = ["a", "b", "c", "b", "a", "x", "y", "?", "c", " b", "a"]

# Prints the bytes that reading a file added to the peak of the process.
MEASURED = """
import json, resource, sys
import scipy.sparse.csgraph, polars
from gelato.io import read_graph
peak = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
graph = read_graph(sys.argv[1])
print(json.dumps([peak() - before, graph.num_edges]))
"""


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Let four rows be a block, so that small tables have several."""
    monkeypatch.setattr(gelato.graph.graph, "_BLOCK", 4)
    monkeypatch.setattr(gelato.io.ids, "_BLOCK", 4)
    monkeypatch.setattr(gelato.io.read, "_SOME", 4)


@pytest.mark.parametrize("kind", ["int", "text"])
def test_reading_takes_less_than_80_bytes_per_row(tmp_path, kind):
    # 5 * 10^7 rows within 4 GB; what the libraries themselves need is not counted.
    rows, rng = 2_000_000, np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "source": rng.integers(0, rows // 5, rows),
            "target": rng.integers(0, rows // 5, rows),
            "unused": rng.random(rows),
        }
    )
    if kind == "text":
        table = table.with_columns(pl.col("source", "target").cast(pl.String) + "-node")
    table.write_parquet(tmp_path / "e.parquet")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path / "e.parquet")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"POLARS_MAX_THREADS": "1"},
    )
    added, edges = json.loads(done.stdout)
    assert edges > 0.99 * rows
    assert added < 80 * rows


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_parquet_and_categories_give_what_plain_text_gives(tmp_path, kind):
    frame = pl.DataFrame({"s": MESSY, "unused": range(11), "t": OTHER, "time": OTHER})
    options = {"source": "s", "target": "t", "time": "unused"}
    plain, told = read_graph_with_report(frame, **options)
    frame.with_columns(pl.col("s", "t").cast(kind)).write_parquet(tmp_path / "e.pq")
    coded, also = read_graph_with_report(tmp_path / "e.pq", **options)
    name = str(tmp_path / "e.pq")
    assert [n.replace(name, "the edge table") for n in coded.notes] == [*plain.notes]
    assert coded.node_ids.tolist() == plain.node_ids.tolist()
    assert coded.edges.tolist() == plain.edges.tolist()
    assert coded.times.tolist() == plain.times.tolist()
    assert also.columns == told.columns
    assert (also.edge_rows, also.rows_without_id) == (11, 2)


def test_columns_that_are_not_used_are_named_but_not_read(tmp_path):
    path = tmp_path / "e.parquet"
    pl.DataFrame({"a": [1, 2], "b": [2, 3], "c": [["x"], ["y"]]}).write_parquet(path)
    graph = read_graph(path)
    assert graph.node_ids.tolist() == [1, 2, 3]
    assert f"{path}: columns not used: c" in graph.notes


def test_a_column_that_counts_rows_is_found_in_parquet_too(tmp_path):
    path = tmp_path / "e.parquet"
    table = {"column_1": [0, 1], "a": ["x", "y"], "b": ["y", "z"]}
    pl.DataFrame(table).write_parquet(path)
    assert read_graph(path).node_ids.tolist() == ["x", "y", "z"]


def test_names_with_signs_of_a_pattern_are_plain_names(tmp_path):
    path = tmp_path / "e[1]*.parquet"
    pl.DataFrame({"a": [1], "b": [2]}).write_parquet(path)
    assert read_graph(path).num_edges == 1


@given(
    st.lists(
        st.lists(st.one_of(st.integers(-5, 20), st.integers(-(2**63), 2**63 - 1))),
        min_size=1,
        max_size=3,
    )
)
def test_integers_are_numbered_as_by_unique(columns):
    ids = [Ids("int", pl.Series(part, dtype=pl.Int64)) for part in columns]
    codes, distinct = number_ids(ids)
    joined = np.array([x for part in columns for x in part], dtype=np.int64)
    expected, inverse = np.unique(joined, return_inverse=True)
    assert np.concatenate(codes).tolist() == inverse.tolist()
    if distinct is None:
        distinct = np.arange(len(expected))
    assert distinct.tolist() == expected.tolist()


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("columns", [(), ("weight",), ("time",), ("weight", "time")])
@pytest.mark.parametrize("kind", ["int", "far", "text"])
def test_blocks_do_not_show(columns, directed, kind):
    rng = np.random.default_rng(1)
    u, v = rng.integers(0, 12, (2, 50))
    values = {"weight": rng.choice([0.1, 0.2, 0.7], 50), "time": rng.random(50)}
    ids = {
        "int": np.arange(12) - 3,
        "far": np.arange(12) * 10**15,
        "text": np.array([f"n{k:02}" for k in range(12)]),
    }[kind]
    table = {"source": ids[u], "target": ids[v]} | {x: values[x] for x in columns}
    graph = read_graph(pl.DataFrame(table), directed=directed)
    assert graph.node_ids.tolist() == ids.tolist()
    weight, time = {}, {}
    for row in range(50):
        if u[row] != v[row]:
            pair = (int(u[row]), int(v[row]))
            pair = pair if directed else tuple(sorted(pair))
            weight[pair] = weight.get(pair, 0.0) + values["weight"][row]
            time[pair] = min(time.get(pair, np.inf), values["time"][row])
    assert graph.edges.tolist() == [list(pair) for pair in sorted(weight)]
    if "weight" in columns:  # the same bits: summed in the order of the rows
        assert graph.weights.tolist() == [weight[pair] for pair in sorted(weight)]
    if "time" in columns:
        assert graph.times.tolist() == [time[pair] for pair in sorted(time)]


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("seed", range(20))
def test_two_sides_are_found_as_networkx_finds_them(seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 10, (200, 2)) + 10 * rng.integers(0, 2, (200, 1))
    pairs = pairs[pairs.sum(axis=1) % 2 == 1]  # two parts, even with odd numbers
    if seed % 4 == 0:
        pairs = np.r_[pairs, [[3, 5]]]
    graph = Graph.from_indices(22, pairs)
    twin = nx.Graph(graph.edges.tolist())
    sides = with_sides(graph).sides
    if not nx.is_bipartite(twin):
        assert sides is None
        return
    expected = np.full(22, -1)
    for part in nx.connected_components(twin):
        colours = nx.bipartite.color(twin.subgraph(part))
        for node in part:  # the first node of a part is on side 0
            expected[node] = colours[node] != colours[min(part)]
    assert sides.tolist() == expected.tolist()
