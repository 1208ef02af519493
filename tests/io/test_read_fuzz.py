"""Any table and any bytes give a graph or a GelatoError, and nothing else."""

import gzip
import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gelato.errors import GelatoError
from gelato.graph import Graph
from gelato.io import (
    from_scipy,
    read_graph,
    read_nodes,
    read_npz,
    read_pairs,
    write_graph,
    write_npz,
)

KNOWN = Graph.from_edges([("a", "b"), ("b", "c")])
QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

cells = st.one_of(
    st.sampled_from(
        ["a", "b", "c", "1", "2", "0", "-1", "1.5", "nan", "", " a", "x y"]
    ),
    st.sampled_from(['"', '"a"', "'=1", "#", "a;b", "true", "inf", "1e400", "source"]),
    st.text(max_size=4),
)
texts = st.builds(
    lambda rows, delimiter, end: end.join(delimiter.join(row) for row in rows),
    st.lists(st.lists(cells, min_size=1, max_size=4), max_size=6),
    st.sampled_from([",", "\t", ";", " ", "|"]),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
)


def attempt(reader, *arguments, **options):
    """Return what was read, or None if it was refused in our own words."""
    try:
        return reader(*arguments, **options)
    except GelatoError:
        return None


def every_reader(path: Path) -> None:
    attempt(read_graph, path)
    attempt(read_graph, path, path)
    attempt(read_graph, [("a", "b")], path)
    attempt(read_graph, path, weight=2, directed=True, header=False)
    attempt(read_pairs, path, KNOWN)
    attempt(read_nodes, path, KNOWN)
    attempt(read_npz, path)


@QUICK
@given(texts, st.sampled_from([".csv", ".tsv", ".txt", ""]))
def test_random_text_is_read_or_refused(tmp_path, text, suffix):
    path = tmp_path / f"table{suffix}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    every_reader(path)


@QUICK
@given(st.binary(max_size=60), st.sampled_from(["", "PAR1", "gz", "PK\x03\x04"]))
def test_random_bytes_are_read_or_refused(tmp_path, data, start):
    if start == "gz":
        data = gzip.compress(data)
    elif start == "PAR1":
        data = b"PAR1" + data + b"PAR1"
    elif start:
        data = start.encode() + data
    for suffix in (".csv", ".parquet", ".npz", ".csv.gz"):
        path = tmp_path / f"table{suffix}"
        path.write_bytes(data)
        every_reader(path)


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("stored")
    graph = Graph.from_indices(3, [(0, 1), (1, 2)], attributes=np.eye(3))
    write_npz(graph, folder / "g.npz")
    write_graph(graph, folder / "g.parquet")
    write_graph(graph, folder / "g.csv")
    packed = gzip.compress((folder / "g.csv").read_bytes())
    return {
        "g.npz": (folder / "g.npz").read_bytes(),
        "g.parquet": (folder / "g.parquet").read_bytes(),
        "g.csv.gz": packed,
    }


@QUICK
@given(
    st.sampled_from(["g.npz", "g.parquet", "g.csv.gz"]),
    st.floats(0, 1),
    st.integers(0, 255),
    st.booleans(),
)
def test_damaged_files_are_read_or_refused(tmp_path, stored, name, at, byte, cut):
    data = bytearray(stored[name])
    position = int(at * (len(data) - 1))
    if cut:
        del data[position:]
    else:
        data[position] = byte
    path = tmp_path / name
    path.write_bytes(bytes(data))
    every_reader(path)


@QUICK
@given(
    st.lists(
        st.sampled_from(["edge_index", "num_nodes", "attr_data", "attr_indptr", "ids"]),
        max_size=3,
    ),
    st.sampled_from(
        [
            np.array(-1),
            np.array(2**62),
            np.array([[0, 1], [1, 9]]),
            np.array([np.nan]),
            np.array(["a", "b", "c"]),
            np.array([], dtype=np.int64),
            np.array([2**64 - 1], dtype=np.uint64),
            np.array([0, 5, 1, 3]),
        ]
    ),
)
def test_foreign_arrays_are_read_or_refused(tmp_path, stored, names, array):
    with np.load(io.BytesIO(stored["g.npz"])) as original:
        arrays = dict(original)
    arrays |= dict.fromkeys(names, array)
    path = tmp_path / "g.npz"
    np.savez(path, **arrays)
    attempt(read_npz, path)


ids = st.one_of(
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.none(),
    st.booleans(),
    st.tuples(st.integers(0, 3)),
    st.lists(st.integers(), max_size=1),
)


@QUICK
@given(st.lists(st.tuples(ids, ids), max_size=5), st.lists(st.tuples(ids, ids)))
def test_random_rows_are_read_or_refused(edges, attributes):
    graph = attempt(read_graph, edges)
    if graph is not None:
        attempt(read_pairs, edges, graph)
    attempt(read_graph, edges, attributes)
    attempt(read_graph, edges, attributes, labels=1)
    attempt(read_nodes, [row[0] for row in edges], KNOWN)


columns = st.one_of(
    st.lists(st.integers(-(2**40), 2**40) | st.none(), min_size=4, max_size=4),
    st.lists(st.floats() | st.none(), min_size=4, max_size=4),
    st.lists(st.text(max_size=5) | st.none(), min_size=4, max_size=4),
    st.lists(st.dates() | st.none(), min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.lists(st.binary(max_size=3), min_size=4, max_size=4),
    st.lists(st.lists(st.floats(), max_size=2), min_size=4, max_size=4),
    st.lists(st.lists(st.text(max_size=2), max_size=2), min_size=4, max_size=4),
)


@QUICK
@given(
    columns,
    columns,
    columns,
    st.sampled_from([None, "numeric", "category", "text", "list", "drop"]),
)
def test_random_frames_are_read_or_refused(first, second, third, kind):
    frame = pl.DataFrame({"p": first, "q": second, "r": third}, strict=False)
    edges = [("a", "b"), ("c", "d")]
    encode = None if kind is None else {"q": kind, "r": kind}
    attempt(read_graph, frame, weight="r")
    attempt(read_graph, frame, time="r", directed=True)
    attempt(read_graph, edges, frame, encode=encode)
    described = frame.with_columns(id=pl.Series(["a", "b", "c", "d"]))
    attempt(read_graph, edges, described, id="id", encode=encode)
    attempt(read_graph, edges, described, id="id", labels="p", missing="error")


@QUICK
@given(
    st.lists(st.floats(), min_size=4, max_size=4),
    st.booleans(),
    st.lists(ids, max_size=3),
)
def test_random_matrices_are_read_or_refused(values, directed, names):
    matrix = np.array(values).reshape(2, 2)
    attempt(from_scipy, matrix, directed=directed)
    attempt(from_scipy, np.ones((2, 2)), ids=names)
    attempt(read_graph, [(0, 1)], matrix, id=names)
