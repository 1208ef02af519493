"""Attribute tables: which kind a column is taken for, and what it becomes."""

import datetime
import itertools

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from gelato.io import read_graph_with_report

NODES = [f"n{k:02d}" for k in range(40)]
EDGES = list(itertools.pairwise(NODES))


def read_column(values, kind=None):
    frame = pl.DataFrame({"id": NODES, "c": pl.Series(values, strict=False)})
    encode = None if kind is None else {"c": kind}
    graph, report = read_graph_with_report(EDGES, frame, encode=encode)
    (choice,) = report.column_choices
    matrix = graph.attributes
    if matrix is not None and sp.issparse(matrix):
        matrix = matrix.toarray()
    return choice, graph, matrix


def repeat(*values):
    return [values[k % len(values)] for k in range(len(NODES))]


TITLES = [f"a study of thing {k} in graphs" for k in range(len(NODES))]


@pytest.mark.parametrize(
    ("values", "kind", "width"),
    [
        (list(range(40)), "numeric", 1),
        (repeat("1", "2.5", "NA"), "numeric", 2),
        (repeat(True, False, None), "numeric", 2),
        (repeat("true", "False", None), "numeric", 2),
        (repeat("red", "blue"), "category", 2),
        (repeat("New York City", "San Jose del Cabo"), "category", 2),
        (TITLES, "text", 35),
        (repeat("a;b", "b|c", "a"), "list", 3),
        (repeat(["p", "q"], [], ["q"]), "list", 2),
        (repeat([0.5, 1.0], [2.0, 3.0]), "numeric", 2),
        ([f"name{k}" for k in range(40)], "drop", 0),
        (repeat(None), "drop", 0),
        (repeat("", " "), "drop", 0),
        (repeat(datetime.date(2020, 1, 1)), "date", 1),
    ],
)
def test_kinds_are_found(values, kind, width):
    choice, graph, _ = read_column(values)
    assert (choice.kind, choice.width) == (kind, width), choice.reason
    assert graph.num_attributes == width
    assert choice.reason
    assert any("column 'c'" in note for note in graph.notes)


def test_numbers_and_missing_ones():
    values = repeat("1", "2.5", "NA", "")
    _, graph, matrix = read_column(values, "numeric-raw")
    assert graph.attribute_names == ("c", "c=missing")
    assert matrix[:4].tolist() == [[1, 0], [2.5, 0], [1.75, 1], [1.75, 1]]
    told = "20 missing numbers read as the median, 1.75"
    assert any(told in note for note in graph.notes)
    _, _, matrix = read_column(values)
    assert matrix[2:4].tolist() == [[0, 1], [0, 1]]
    _, _, matrix = read_column(repeat("true", "False", None))
    assert matrix[:2].tolist() == [[1, 0], [0, 0]]


def test_categories_lists_and_words():
    _, graph, matrix = read_column(repeat("red", "blue", None))
    assert graph.attribute_names == ("c=blue", "c=red")
    assert matrix[:3].tolist() == [[0, 1], [1, 0], [0, 0]]
    _, graph, matrix = read_column(repeat("a;b", "b| c", "a;a;"))
    assert graph.attribute_names == ("c=a", "c=b", "c=c")
    assert matrix[:3].tolist() == [[1, 1, 0], [0, 1, 1], [1, 0, 0]]
    _, graph, matrix = read_column(TITLES)
    assert "c:study" in graph.attribute_names
    assert set(np.unique(matrix)) == {0, 1}
    _, graph, matrix = read_column(repeat([0.5, 1.0], None))
    assert graph.attribute_names == ("c[0]", "c[1]")
    assert matrix[:2].tolist() == [[0.5, 1.0], [0, 0]]


def test_constant_columns_are_kept_and_told():
    choice, _, matrix = read_column(repeat(3))
    assert "constant" in choice.reason
    assert matrix.tolist() == [[0]] * 40
    assert "constant" in read_column(repeat("same"))[0].reason
    assert "constant" not in read_column(repeat(1, 2))[0].reason


def test_many_columns_treated_alike_share_a_note():
    numbers = {f"x{k}": repeat(k + 1, k + 2) for k in range(7)}
    frame = pl.DataFrame({"id": NODES, **numbers, "y": repeat("red", "blue")})
    graph, report = read_graph_with_report(EDGES, frame)
    told = [note for note in graph.notes if "column" in note]
    assert len(told) == 2
    assert told[0].startswith("7 columns, 'x0' to 'x6', read as numeric, 1 attribute")
    assert told[1].startswith("column 'y' read as category, 2 attributes")
    assert len(report.column_choices) == 8  # the data still say each of them


def test_the_user_decides():
    assert read_column(repeat(1, 2), "category")[1].attribute_names == ("c=1", "c=2")
    assert read_column(repeat(1, 2), "drop")[1].attributes is None
    assert read_column(repeat("a b", "b c d"), "text")[0].kind == "text"
    assert read_column([f"name{k}" for k in range(40)], "category")[0].width == 40
    assert read_column(repeat("?", "!"), "text")[0].width == 0
    assert read_column(repeat("x"), "list")[0].reason.startswith("as asked")


def test_sparse_or_dense_by_the_share_filled():
    names = [f"name{k}" for k in range(40)]
    assert sp.issparse(read_column(names, "category")[1].attributes)
    assert isinstance(read_column(repeat(1, 2))[1].attributes, np.ndarray)
    assert read_column(repeat(1, 2))[1].attributes.dtype == np.float32


def test_a_column_that_drowns_the_others_is_told():
    columns = {"id": NODES, "year": [1990 + k % 30 for k in range(40)]}
    frame = pl.DataFrame(columns | {"group": repeat("a", "b")})
    raw = {"year": "numeric-raw"}
    _, report = read_graph_with_report(EDGES, frame, encode=raw)
    (told,) = [note for note in report.notes if "squared length" in note]
    assert "'year'" in told
    assert "encode year=drop" in told
    alike = frame.with_columns(pl.col("year") / 2020)
    _, report = read_graph_with_report(EDGES, alike)
    assert not [note for note in report.notes if "squared length" in note]
    _, report = read_graph_with_report(EDGES, frame)
    assert not [note for note in report.notes if "squared length" in note]
    _, report = read_graph_with_report(EDGES, frame.drop("group"), encode=raw)
    assert not [note for note in report.notes if "squared length" in note]
