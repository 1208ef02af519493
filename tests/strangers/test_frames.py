"""The same rows give the same graph, from a file and from any frame."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import gelato
from gelato.io import read_graph_with_report

EDGES = (
    "who,whom,weight,time\n 1 ,2,1.5,2020-01-01\n2,3,2,2020-01-02\n3,10,1,2020-02-01\n"
)
PEOPLE = (
    "id,age,team,joined,tags,member\n"
    "1,31,red ,2019-01-01,a;b,true\n2,,blue,2019-06-01,b;c,false\n"
    "3,27,red,2020-01-01,a;c,true\n10,44,blue,2021-01-01,c;d,true\n"
)


def same(one, other):
    assert one.node_ids.tolist() == other.node_ids.tolist()
    assert np.array_equal(one.edges, other.edges)
    assert one.weights.tolist() == other.weights.tolist()
    assert one.times.tolist() == other.times.tolist()
    assert one.attribute_names == other.attribute_names
    left, right = (sp.csr_array(g.attributes).toarray() for g in (one, other))
    assert np.array_equal(left, right)


@pytest.fixture
def files(tmp_path):
    paths = tmp_path / "edges.csv", tmp_path / "people.csv"
    for path, text in zip(paths, (EDGES, PEOPLE), strict=True):
        path.write_text(text)
    return paths


@pytest.mark.parametrize(
    "read",
    [
        pl.read_csv,
        lambda path: pl.read_csv(path, try_parse_dates=True),
        lambda path: pl.read_csv(path).lazy(),
        pd.read_csv,
        lambda path: pd.read_csv(path, dtype_backend="numpy_nullable"),
        lambda path: pd.read_csv(path, dtype_backend="pyarrow"),
        lambda path: pd.read_csv(path, parse_dates=[3]),
        lambda path: pa.Table.from_pandas(pd.read_csv(path)),
        lambda path: pl.read_csv(path).to_dict(as_series=False),
    ],
)
def test_a_frame_and_its_file_are_the_same_graph(files, read):
    from_files = gelato.read_graph(*files)
    same(from_files, gelato.read_graph(*map(read, files)))


def test_white_space_and_categories_of_ids():
    padded = pd.DataFrame({"a": [" x", "y"], "b": ["y ", "z"]})
    for frame in (padded, padded.astype("category"), pl.from_pandas(padded)):
        graph = gelato.read_graph(frame)
        assert graph.node_ids.tolist() == ["x", "y", "z"]
        assert any("removed white space around" in note for note in graph.notes)


@pytest.mark.parametrize(
    "ids",
    [
        pd.array([1, 2, None], dtype="Int64"),
        pd.array([1, 2, None], dtype="Float64"),
        pd.array([1, 2, None], dtype="int64[pyarrow]"),
        [1.0, 2.0, float("nan")],
    ],
)
def test_nullable_integers(ids):
    frame = pd.DataFrame({"a": ids, "b": [2, 3, 4]})
    graph, report = read_graph_with_report(frame)
    assert graph.node_ids.tolist() == [1, 2, 3]
    assert report.rows_without_id == 1


def test_cells_that_are_arrays():
    vectors = [np.array([0.5, 1.0]), np.array([2.0, 3.0]), None]
    people = pd.DataFrame({"id": list("abc"), "x": vectors})
    graph = gelato.read_graph([("a", "b"), ("b", "c")], people)
    assert graph.attribute_names == ("x[0]", "x[1]")
    assert np.asarray(graph.attributes)[:2].tolist() == [[0.5, 1.0], [2.0, 3.0]]
    words = [np.array(["p", "q"]), np.array(["q"]), np.array([], dtype=object)]
    graph = gelato.read_graph([("a", "b"), ("b", "c")], people.assign(x=words))
    assert graph.attribute_names == ("x=p", "x=q")
    uneven = [np.array([1, 2]), np.array([[1, 2], [3, 4]]), "no"]
    graph = gelato.read_graph([("a", "b")], people.assign(x=uneven))
    assert graph.num_nodes == 3  # whatever it made of them, no panic


def test_categories_booleans_and_decimals_of_pandas():
    people = pd.DataFrame(
        {
            "id": list("abc"),
            "team": pd.Categorical(["red", None, "blue"]),
            "yes": pd.array([True, None, False], dtype="boolean"),
            "price": pd.array([1, 2, 3], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        }
    )
    graph, report = read_graph_with_report([("a", "b"), ("b", "c")], people)
    kinds = {choice.name: choice.kind for choice in report.column_choices}
    assert kinds == {"team": "category", "yes": "numeric", "price": "numeric"}
    assert graph.attribute_names == (
        "team=blue",
        "team=red",
        "yes",
        "yes=missing",
        "price",
    )
