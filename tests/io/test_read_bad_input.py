"""Bad files: one message with the file, the line and the remedy."""

import gzip

import numpy as np
import polars as pl
import pytest

from gelato.errors import InputError, UsageError
from gelato.graph import Graph
from gelato.io import (
    read_graph,
    read_graph_with_report,
    read_nodes,
    read_npz,
    read_pairs,
)

GRAPH = Graph.from_edges([("anna", "bert"), ("bert", "carl")])


@pytest.fixture
def write(tmp_path):
    def _write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("e.csv", "", "e.csv is empty"),
        ("e.csv", "\n \n", "e.csv has no rows"),
        ("e.csv", '""\n', "e.csv has no rows"),
        ("e.csv", "# only\n# comments\n", "e.csv has no rows"),
        ("e.csv", "source,target\n", "column names but no rows"),
        ("e.csv", b"a,b\nc\0,d\n", "line 2: a zero byte"),
        ("e.csv", "a,ä\né,ö\n".encode() + b"c,caf\xe9\n", "line 3: the byte 0xe9 is"),
        ("e.csv", b"\xff\xfea\0,", "starts like UTF-16"),
        ("e.csv", b"\xff\xfea\0\0\0", "line 1: a zero character"),
        ("e.csv", "a,b\nc,d,e\n", "line 2: 3 cells, but line 1 has 2"),
        ("e.csv", "a,b,c\nd,e\n", "line 2: 2 cells, but line 1 has 3"),
        ("e.csv", '"a",b\n"c",d\n\ne\n', "line 4: 1 cell, but line 1 has 2"),
        ("e.csv", 'a,b\n"c,d\n', "line 2: unexpected end of data"),
        ("e.csv", "a b\nc d\n", "one column only.*delimiter="),
        ("e.csv", "source,target,source\na,b,c\n", "line 1: two columns .*'source'"),
        ("e.csv", "source,target,weight\na,b,1\nc,d,x\n", "line 3: the weight .*'x'"),
        ("e.csv", "source,target,weight\na,b,1\nc,d,nan\n", "line 3.*not a finite"),
        ("e.csv", "source,target,weight\na,b,1\nc,d,-inf\n", "line 3.*not a finite"),
        ("e.csv", "source,target,weight\na,b,1\nc,d,\n", "line 3.*is missing"),
        (
            "e.csv",
            "source,target,weight\na,b,-2\n",
            "line 2: the weight -2 is negative",
        ),
        ("e.csv", "source,target,time\na,b,noon\n", "line 2: the time .*'noon'"),
        ("e.csv", "source,target,time\na,b,2020-01-01\nc,d,x\n", "line 3: 'x'.*date"),
        ("e.csv.gz", b"\x1f\x8b\x08", "not a complete gzip"),
        ("e.csv.gz", gzip.compress(b"a,b\n" * 99, mtime=0)[:-9], "not a complete gzip"),
        ("e.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("e.parquet", b"PAR1 nothing", "not a complete Parquet"),
        ("e.parquet", b"PAR1" + bytes(64) + b"PAR1", "damaged Parquet"),
        ("e.parquet", "a,b\n", "not a complete Parquet"),
    ],
)
def test_bad_edge_files(write, name, content, match):
    with pytest.raises(InputError, match=match) as caught:
        read_graph(write(name, content))
    assert name in caught.value.problem
    assert caught.value.hint


def test_paths_that_are_no_files(write, tmp_path):
    write("edges.csv", "a,b\n")
    with pytest.raises(
        InputError, match=r"no file .*edgse.csv.*Did you mean .*edges.csv"
    ):
        read_graph(tmp_path / "edgse.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_graph(tmp_path)
    with pytest.raises(InputError, match="does not exist either"):
        read_graph(tmp_path / "nowhere" / "e.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_graph("bad\0name.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_graph(tmp_path / "edges.csv" / "inside")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"source": "sauce"}, "no column 'sauce' for source.*Did you mean 'source'"),
        ({"weight": 9}, "no column at position 9 for weight.*columns, counted from 0"),
        ({"weight": "target"}, "'target' is used twice"),
        ({"source": "target", "target": 1}, "both source and target"),
    ],
)
def test_columns_that_are_not_there(write, options, match):
    path = write("e.csv", "source,target\na,b\n")
    with pytest.raises(InputError, match=match):
        read_graph(path, **options)


@pytest.mark.parametrize(
    ("edges", "match"),
    [
        (7, "cannot be read from int"),
        ([("a", "b"), ("c",)], "row 2: 1 values, but row 1 has 2"),
        ([("a", "b"), "cd"], "row 2: 'cd' is not a row"),
        (np.zeros(3), "two-dimensional"),
        ([("a", [1])], "list in column 'column_2' cannot be an id"),
        ({"s": [1], "t": [1, 2]}, "different lengths"),
        (pl.DataFrame({"s": [1]}), "one column only"),
        (pl.DataFrame(), "has no columns"),
        ([()], "has no columns"),
    ],
)
def test_bad_tables_in_memory(edges, match):
    with pytest.raises(InputError, match=match):
        read_graph(edges)


@pytest.mark.parametrize(
    ("edges", "place"),
    [
        ([("a", "b"), ("a", None)], "row 2"),
        ([("a", "b"), ("a", " ")], "row 2"),
        (pl.DataFrame({"s": [1.0, None], "t": [1, 2]}), "row 2"),
        (pl.DataFrame({"s": [1.0, float("nan")], "t": [1, 2]}), "row 2"),
    ],
)
def test_rows_without_an_id_are_dropped_or_refused(edges, place):
    graph, report = read_graph_with_report(edges)
    assert report.rows_without_id == 1
    assert any(
        f"dropped 1 row without an id, the first at {place}" in n for n in graph.notes
    )
    with pytest.raises(InputError, match=f"{place}: no id in column"):
        read_graph(edges, missing_ids="error")


def test_bad_attribute_cells_name_their_line(write):
    edges = [(k, k + 1) for k in range(12)]
    rows = [f"{k},{k / 2}" for k in range(12)]
    rows[7] = "7,seven"
    path = write("a.csv", "\n".join(["id,x", *rows]))
    with pytest.raises(InputError, match=r"a.csv, line 9: 'seven' in column 'x'"):
        read_graph(edges, path)
    rows[7] = "7,inf"
    path = write("a.csv", "\n".join(["id,x", *rows]))
    with pytest.raises(InputError, match="line 9: 'inf' in column 'x' is not a finite"):
        read_graph(edges, path)
    with pytest.raises(InputError, match="no column 'y' for encode"):
        read_graph(edges, path, encode={"y": "text"})
    with pytest.raises(UsageError, match="cannot be encoded as 'words'"):
        read_graph(edges, path, encode={"x": "words"})
    words = {"id": [0, 1], "x": [["p"], ["q"]]}
    with pytest.raises(InputError, match="row 1: column 'x' needs 1 finite numbers"):
        read_graph([(0, 1)], words, encode={"x": "numeric"})
    huge = {"id": [0, 1], "x": [[1.0], [1e300]]}
    with pytest.raises(InputError, match="row 2: column 'x' needs 1 finite numbers"):
        read_graph([(0, 1)], huge)
    with pytest.raises(UsageError, match="attribute table"):
        read_graph(edges, encode={"x": "text"})
    with pytest.raises(InputError, match="has no rows"):
        read_graph(edges, write("b.csv", "id,x\n"))
    with pytest.raises(InputError, match="cannot be a delimiter"):
        read_graph(write("e.csv", "a,b\n"), delimiter="::")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("anna,bert\nanna,karl\n", "p.csv, line 2: .*'karl'.*Did you mean 'carl'"),
        ("ana,bert\n", "line 1: .*'anna'.*If line 1 holds column names"),
        ("anna,bert\ncarl,carl\n", "line 2: pairs 'carl' with itself"),
        ("anna,bert\ncarl,\n", "line 2: an id is missing"),
        ("source,target\n", "no rows"),
        ("anna\nbert\n", "one column only"),
    ],
)
def test_bad_pairs(write, content, match):
    with pytest.raises(InputError, match=match):
        read_pairs(write("p.csv", content), GRAPH)


def test_bad_nodes(write):
    with pytest.raises(InputError, match=r"n.txt, line 2: .*'dora'"):
        read_nodes(write("n.txt", "anna\ndora\n"), GRAPH)
    with pytest.raises(InputError, match="no rows"):
        read_nodes(write("n.txt", "id\n"), GRAPH)


def good_arrays():
    return {
        "edge_index": np.array([[0, 1], [1, 2]]),
        "num_nodes": np.array(3),
        "attr_data": np.ones(3, dtype=np.float32),
        "attr_indices": np.array([0, 1, 0]),
        "attr_indptr": np.array([0, 1, 2, 3]),
        "attr_shape": np.array([3, 2]),
        "labels": np.array([0, 1, 1]),
    }


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"edge_index": None}, "no array 'edge_index'"),
        ({"edge_index": np.array([[0], [3]])}, "names node 3"),
        ({"num_nodes": np.array(-1)}, "num_nodes is -1"),
        ({"num_nodes": np.array([3, 3])}, "one whole number"),
        ({"edge_index": np.zeros((3, 3), int)}, r"not \(2, m\)"),
        ({"edge_index": np.zeros((2, 3))}, "not integers"),
        ({"edge_index": np.full((2, 1), 2**63, np.uint64)}, "too large"),
        ({"attr_shape": None}, "no attr_shape"),
        ({"attr_shape": np.array([4, 2])}, "for 3 nodes"),
        ({"attr_data": np.array([1, np.nan, 1])}, "missing or infinite"),
        ({"attr_data": np.ones((1, 3))}, "list of numbers"),
        ({"attr_indices": np.array([0, 1])}, "differ in length"),
        ({"attr_indices": np.array([0, 1, 2])}, r"leave 0\.\.1"),
        ({"attr_indptr": np.array([0, 2, 1, 3])}, "decreases"),
        ({"attr_indptr": np.array([0, 1, 2, 4])}, "does not fit"),
        ({"labels": np.array([1])}, "labels has shape"),
        ({"ids": np.array(["a", "b", "a"])}, "unique"),
        ({"ids": np.array([0.5, 1, 2])}, "integers or texts"),
        ({"weights": np.array([1.0, -1.0])}, "negative"),
        ({"weights": np.array([1.0])}, "must hold 2 numbers"),
        ({"times": np.array([1.0, np.inf])}, "inf"),
        ({"attribute_names": np.array(["a"])}, "names for 2"),
        ({"attribute_names": np.array([1, 2])}, "list of texts"),
        ({"labels": np.array([{}, 1, 2], dtype=object)}, "damaged"),
    ],
)
def test_npz_arrays_are_checked(tmp_path, change, match):
    arrays = {k: v for k, v in (good_arrays() | change).items() if v is not None}
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(InputError, match=match) as caught:
        read_npz(tmp_path / "g.npz")
    assert "g.npz" in caught.value.problem


def test_npz_files_that_are_none(write, tmp_path):
    np.savez(tmp_path / "g.npz", **good_arrays())
    assert read_npz(tmp_path / "g.npz").num_edges == 2
    whole = (tmp_path / "g.npz").read_bytes()
    with pytest.raises(InputError, match="damaged"):
        read_npz(write("h.npz", whole[: len(whole) // 2]))
    with pytest.raises(InputError, match="not an npz file"):
        read_npz(write("h.npz", b"text"))
    with pytest.raises(InputError, match="no file"):
        read_npz(tmp_path / "none.npz")
