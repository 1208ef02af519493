"""Edge and attribute tables into graphs: the ordinary ways in."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gelato import io as gio
from gelato.errors import InputError, UsageError
from gelato.graph import Graph
from gelato.io import read_graph, read_graph_with_report
from gelato.io.delimited import _parse_carefully, _parse_plain, parse_delimited


@pytest.fixture
def write(tmp_path):
    def _write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


def edges_of(graph: Graph) -> set[tuple]:
    return {tuple(row) for row in gio.to_frame(graph).rows()}


def test_import_is_cheap():
    heavy = "{'torch', 'sklearn', 'numba', 'polars', 'networkx', 'pandas'}"
    code = f"import sys, gelato.io; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", "source,target\nx,y\ny,z\n"),
        ("e.csv", "x,y\ny,z\n"),
        ("e.csv", "x;y\r\ny;z\r\n"),
        ("e.tsv", "x\ty\ny\tz"),
        ("e.txt", "# a comment\n# source target\nx   y\ny z\n"),
        ("e.edges", "x y\n\ny\tz\n"),
        ("e.csv", '"x","y"\n"y",z\n'),
        ("e.csv", "\n\nx,y\n\n\ny,z\n\n"),
        ("e.csv", b"\xef\xbb\xbfx,y\ny,z\n"),
        ("e.csv", "x,y\ny,z\n".encode("utf-16")),
        ("e.csv", "x,y\ry,z\r"),
        ("e.csv", " x,y \ny ,\tz\n"),
    ],
)
def test_text_files(write, name, text):
    assert edges_of(read_graph(write(name, text))) == {("x", "y"), ("y", "z")}


def test_gzip_and_parquet(write, tmp_path):
    packed = write("e.csv.gz", gzip.compress(b"source,target\nx,y\n"))
    assert edges_of(read_graph(packed)) == {("x", "y")}
    pl.DataFrame({"u": [3, 1], "v": [1, 2]}).write_parquet(tmp_path / "e.parquet")
    assert edges_of(read_graph(tmp_path / "e.parquet")) == {(1, 3), (1, 2)}


@pytest.mark.parametrize(
    "edges",
    [
        [("x", "y"), ("y", "z")],
        np.array([["x", "y"], ["y", "z"]]),
        np.array([["x", "y"], ["y", "z"]], dtype=object),
        {"source": ["x", "y"], "target": ["y", "z"]},
        pl.DataFrame({"s": ["x", "y"], "t": ["y", "z"]}),
        pl.LazyFrame({"s": ["x", "y"], "t": ["y", "z"]}),
        pl.DataFrame({"s": ["x", "y"], "t": ["y", "z"]}).cast(pl.Categorical),
        pd.DataFrame({"s": ["x", "y"], "t": ["y", "z"]}),
        pd.DataFrame({"s": ["x", "y"], "t": ["y", "z"]}, dtype="category"),
        (row for row in [["x", "y"], ["y", "z"]]),
    ],
)
def test_tables_in_memory(edges):
    assert edges_of(read_graph(edges)) == {("x", "y"), ("y", "z")}


def test_ids_keep_their_types(write):
    integers = read_graph(write("e.csv", "source,target\n10,20\n-3,10\n"))
    assert integers.node_ids.tolist() == [-3, 10, 20]
    leading_zero = read_graph(write("e.csv", "source,target\n01,2\n2,3\n"))
    assert leading_zero.node_ids.tolist() == ["01", "2", "3"]
    long = read_graph(write("e.csv", "source,target\n99999999999999999999,2\n"))
    assert long.node_ids.tolist() == ["2", "99999999999999999999"]
    assert read_graph([("1", "2")]).node_ids.tolist() == ["1", "2"]
    assert read_graph([(2**70, 2)]).node_ids.tolist() == [2, 2**70]
    assert read_graph([((0, 1), (0, 2))]).node_ids.tolist() == [(0, 1), (0, 2)]
    assert read_graph(np.array([[1.0, 2.0]])).node_ids.tolist() == [1, 2]
    assert set(read_graph([(1, "a"), (2, "b")]).node_ids) == {1, 2, "a", "b"}
    assert read_graph([(1, "1"), (2, "1")]).node_ids.tolist() == [1, 2]
    assert read_graph([("a", 1), ("1", 2)]).node_ids.tolist() == ["1", "2", "a"]


def test_one_text_id_among_the_attributes_decides_for_all(write):
    edges = write("e.csv", "source,target\n1,2\n")
    attributes = write("a.csv", "id,x\n1,0.5\n2,1\nlonely,3\n")
    graph, report = read_graph_with_report(edges, attributes)
    assert graph.node_ids.tolist() == ["1", "2", "lonely"]
    assert report.id_type == "text"
    assert report.nodes_without_edges == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("person,friend\np1,p2\np2,p3\n", True),
        ("alpha,beta\np1,p2\np2,p3\n", True),  # words above ids with digits
        ("alpha,beta\nanna,bert\nbert,carl\n", True),  # in doubt; told
        ("alpha,beta\nanna,bert\ncarl,dora\n", False),  # others stand alone, too
        ("anna,bert\np1,p2\nanna,p3\n", False),  # anna is a node
        ("person,x9\nanna,bert\nbert,carl\n", True),
        ("a1,b1\np1,p2\np2,p3\n", False),
    ],
)
def test_words_above_ids_are_column_names(write, text, named):
    _, report = read_graph_with_report(write("e.csv", text))
    assert report.edges_header is named


def test_header_is_detected_and_told(write):
    graph, report = read_graph_with_report(write("e.csv", "p,q,w\n1,2,0.5\n2,3,1\n"))
    assert report.edges_header is True
    assert any("column names (p, q, w)" in note for note in graph.notes)
    assert any("columns not used: w" in note for note in graph.notes)
    graph, report = read_graph_with_report(write("e.csv", "anna,bert\nbert,carl\n"))
    assert report.edges_header is False
    assert graph.num_nodes == 3
    assert any("read as data" in note for note in graph.notes)
    bipartite = read_graph(write("e.csv", "user,item\nanna,book\n"))
    assert bipartite.node_ids.tolist() == ["anna", "book"]
    assert read_graph(write("e.csv", "anna,bert\nbert,carl\n"), header=True).num_edges
    assert (
        read_graph(write("e.csv", "source,target\nx,y\n"), header=False).num_edges == 2
    )
    named = read_graph(write("e.csv", "k,l\nm,n\n"), source="l", target="k")
    assert edges_of(named) == {("m", "n")}


def test_columns_by_name_and_position(write):
    path = write("e.csv", "when,b,how,a\n2020-01-02,y,2,x\n2020-01-01T12:00:00,z,3,x\n")
    graph = read_graph(path, source="a", target=1, weight="how", time="when")
    assert edges_of(graph) == {
        ("x", "y", 2.0, 1577923200.0),
        ("x", "z", 3.0, 1577880000.0),
    }
    plain = write("p.txt", "x y 2\nx z 3\n")
    assert read_graph(plain, weight=2).weights.tolist() == [2.0, 3.0]
    assert read_graph(plain, weight="column_3").weights.tolist() == [2.0, 3.0]
    assert read_graph(plain).weights is None
    dated = pl.DataFrame({"s": ["x"], "t": ["y"], "time": ["1970-01-02"]})
    assert read_graph(dated).times.tolist() == [86400.0]
    stamped = dated.with_columns(pl.col("time").str.to_date())
    assert read_graph(stamped).times.tolist() == [86400.0]


def test_directed_and_reported_counts(write):
    path = write("e.csv", "source,target,weight\na,b,1\nb,a,1\nc,c,1\na,c,0\n")
    graph, report = read_graph_with_report(path, directed=True)
    assert graph.num_edges == 2
    assert (report.self_loops, report.zero_weights, report.repeated_edges) == (1, 1, 0)
    assert report.nodes_without_edges == 1
    assert read_graph_with_report(path)[1].repeated_edges == 1
    assert json.loads(json.dumps(report.to_dict()))["edge_rows"] == 4


def test_attributes_follow_the_ids_not_the_rows(write):
    edges = write("e.csv", "source,target\nb,a\nc,b\n")
    attributes = write("a.csv", "x,node,flag\n3,c,true\n1,a,false\n2,b,true\n")
    raw = {"*": "numeric-raw"}
    graph, report = read_graph_with_report(edges, attributes, id="node", encode=raw)
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert graph.attributes.tolist() == [[1, 0], [2, 1], [3, 1]]
    assert graph.attribute_names == ("x", "flag")
    assert report.columns["id"] == "node"
    assert report.num_attributes == 2


def test_nodes_without_rows(write):
    edges = [("a", "b"), ("b", "c")]
    table = {"id": ["a", "b"], "x": [1, 2]}
    raw = {"x": "numeric-raw"}
    graph, report = read_graph_with_report(edges, table, encode=raw)
    assert graph.attributes.ravel().tolist() == [1, 2, 0]
    assert report.nodes_without_attributes == 1
    assert any("for example c; their attributes are 0" in n for n in graph.notes)
    dropped = read_graph(edges, table, missing="drop")
    assert edges_of(dropped) == {("a", "b")}
    with pytest.raises(InputError, match="for example c"):
        read_graph(edges, table, missing="error")
    with pytest.raises(UsageError, match="missing='mean'"):
        read_graph(edges, table, missing="mean")


def test_ids_that_differ_in_type_are_matched_and_told():
    raw = {"x": "numeric-raw"}
    table = {"id": ["1", " 2", "3"], "x": [5, 6, 7]}
    graph = read_graph([(1, 2)], table, encode=raw)
    assert graph.node_ids.tolist() == [1, 2, 3]
    assert graph.attributes.ravel().tolist() == [5, 6, 7]
    assert any("matched 3 ids" in note for note in graph.notes)
    back = read_graph([("1", "2")], {"id": [1.0, 2.0], "x": [5, 6]})
    assert back.node_ids.tolist() == ["1", "2"]
    same = read_graph([("a", "a ")])
    assert same.num_nodes == 1
    assert any("removed white space around 1 id" in note for note in same.notes)
    table = {"id": ["a ", "b"], "x": [5, 6]}
    padded = read_graph([("a", "b")], table, encode=raw)
    assert padded.attributes.ravel().tolist() == [5, 6]
    with pytest.raises(InputError, match="row 2: the id 'q' is not an integer"):
        read_graph([(1, 2)], {"id": ["1", "q"], "x": [5, 6]})
    with pytest.raises(InputError, match="none of its 2 ids"):
        read_graph([("a", "b")], {"id": ["p", "q"], "x": [5, 6]})


def test_repeated_attribute_rows(write):
    edges = write("e.csv", "source,target\na,b\n")
    same = write("a.csv", "id,x\na,1\nb,2\na, 1\n")
    graph = read_graph(edges, same, encode={"x": "numeric-raw"})
    assert graph.attributes.ravel().tolist() == [1, 2]
    assert any("merged 1 repeated" in note for note in graph.notes)
    other = write("b.csv", "x,id\n1,a\n2,b\n3,a\n")
    with pytest.raises(InputError, match=r"b.csv, line 4: .*'a' differ .* line 2"):
        read_graph(edges, other, id="id")


def test_matrices_as_attributes():
    dense = np.arange(6.0).reshape(3, 2)
    graph = read_graph([(0, 2)], dense)
    assert np.array_equal(graph.attributes, dense)
    assert graph.num_nodes == 3
    sparse = read_graph([(0, 2)], sp.csr_array(np.diag([7, 0, 0])))
    assert sparse.attributes.toarray().tolist() == np.diag([7, 0, 0]).tolist()
    named = read_graph([("b", "a")], dense[:2], id=["b", "a"])
    assert named.attributes.tolist() == [[2, 3], [0, 1]]
    with pytest.raises(InputError, match="nodes 0 to 2, but the edges name 3"):
        read_graph([(0, 3)], dense)
    with pytest.raises(InputError, match="names a node twice"):
        read_graph([("b", "a")], dense[:2], id=["b", "b"])
    with pytest.raises(InputError, match="2 ids for 3 rows"):
        read_graph([("b", "a")], dense, id=["b", "a"])


@pytest.mark.parametrize("names", [["", None], [0.0, None]])
def test_every_row_of_a_matrix_has_an_id(names):
    with pytest.raises(InputError, match="no node for row 1"):
        read_graph([(0, 1)], np.zeros((2, 2)), id=names)


def test_labels_and_only_ids():
    table = {"id": ["a", "b", "c"], "kind": ["red", None, "blue"], "n": [3, 1, 2]}
    graph = read_graph([("a", "d")], table, labels="kind")
    assert graph.labels.tolist() == [1, -1, 0, -1]
    assert graph.attribute_names == ("n",)
    assert (
        read_graph([("a", "b")], table, labels=2, encode={"kind": "drop"}).labels[0]
        == 3
    )
    bare = read_graph([("a", "b")], {"id": ["a", "lonely"]})
    assert bare.attributes is None
    assert bare.num_nodes == 3


def test_no_edges_is_a_notice():
    graph = read_graph([("a", "a")])
    assert graph.num_edges == 0
    assert "the graph has no edges" in graph.notes
    assert read_graph(pl.DataFrame({"s": [], "t": []})).num_nodes == 0
    assert read_graph([]).num_nodes == 0


plain_cells = st.text(
    st.characters(codec="utf-8", exclude_characters='"\r\n,\0'), max_size=4
)


@settings(deadline=None)
@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(
            st.lists(plain_cells, min_size=width, max_size=width),
            min_size=1,
            max_size=6,
        )
    )
)
def test_fast_and_careful_parsers_agree(rows):
    text = "\n".join(",".join(row) for row in rows)
    fast = _parse_plain(text, ",")
    careful, lines = _parse_carefully(text, ",", "t", 0)
    assert fast is not None
    assert fast.rows() == careful.rows()
    assert lines == list(range(1, len(rows) + 1))


def test_columns_are_counted_from_one_by_either_parser():
    names = ["column_1", "column_2"]
    assert parse_delimited("x,y", "t", ".csv").frame.columns == names
    assert parse_delimited('x,"y"', "t", ".csv").frame.columns == names


def test_lines_are_those_of_the_file():
    text = '# c\n\nx,"two\nlines"\n\ny,z\n'
    assert list(parse_delimited(text, "t", ".csv").lines) == [3, 6]
    assert list(parse_delimited("# c\nx,y\ny,z\n", "t", ".csv").lines) == [2, 3]


@pytest.mark.slow
def test_a_million_edges_take_seconds(tmp_path):
    import time

    ends = np.random.default_rng(0).integers(0, 50_000, (1_000_000, 2))
    pl.DataFrame(ends).write_csv(tmp_path / "e.csv")
    start = time.perf_counter()
    graph = read_graph(tmp_path / "e.csv")
    assert time.perf_counter() - start < 60
    assert graph.num_nodes == 50_000
