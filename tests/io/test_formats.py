"""scipy, networkx, PyG and npz: in and out."""

import mmap
import os
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gelato.errors import InputError, OutputError
from gelato.graph import Graph
from gelato.io import (
    from_networkx,
    from_pyg,
    from_scipy,
    npz,
    read_npz,
    to_networkx,
    to_pyg,
    to_scipy,
    write_npz,
)

QUICK = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module", autouse=True)
def pyg():
    """Import PyG, which calls what torch deprecates; that is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch_geometric.data  # noqa: F401


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 7))
    node = st.integers(0, n - 1)
    rows = draw(st.lists(st.tuples(node, node, st.integers(1, 4)), max_size=12))
    weighted = draw(st.booleans())
    attributes = draw(
        st.sampled_from([None, np.eye(n, 3), sp.csr_array(np.eye(n, 3) * 2)])
    )
    ids = draw(st.sampled_from([None, list(range(5, 5 + n)), list("abcdefg")[:n]]))
    return Graph.from_indices(
        n,
        [row[:2] for row in rows],
        weights=[row[2] / 2 for row in rows] if weighted else None,
        attributes=attributes,
        ids=ids,
        directed=draw(st.booleans()),
        labels=draw(st.sampled_from([None, np.arange(n)])),
    )


def dense(attributes):
    return attributes.toarray() if sp.issparse(attributes) else attributes


def assert_same(one: Graph, two: Graph, *, labels: bool = True) -> None:
    assert one.num_nodes == two.num_nodes
    assert one.directed == two.directed
    assert np.array_equal(one.edges, two.edges)
    assert np.array_equal(one.adjacency.toarray(), two.adjacency.toarray())
    assert (one.attributes is None) == (two.attributes is None)
    if one.attributes is not None:
        assert np.array_equal(dense(one.attributes), dense(two.attributes))
    if labels:
        assert (one.labels is None) == (two.labels is None)
        assert one.labels is None or np.array_equal(one.labels, two.labels)


@QUICK
@given(graphs())
def test_scipy_round_trip(graph):
    back = from_scipy(
        to_scipy(graph), graph.attributes, graph.ids, directed=graph.directed
    )
    assert_same(graph, back, labels=False)
    assert back.node_ids.tolist() == graph.node_ids.tolist()


@QUICK
@given(graphs())
def test_npz_round_trip(tmp_path, graph):
    write_npz(graph, tmp_path / "g.npz")
    back = read_npz(tmp_path / "g.npz")
    assert_same(graph, back)
    assert back.node_ids.tolist() == graph.node_ids.tolist()
    assert sp.issparse(back.attributes) == sp.issparse(graph.attributes)


@QUICK
@given(graphs())
def test_networkx_round_trip(graph):
    converted = to_networkx(graph, attributes=True)
    expected = nx.to_numpy_array(converted, nodelist=graph.node_ids.tolist())
    assert np.array_equal(expected, graph.adjacency.toarray())
    back = from_networkx(converted)
    assert back.node_ids.tolist() == graph.node_ids.tolist()
    assert np.array_equal(back.adjacency.toarray(), expected)


@QUICK
@given(graphs())
def test_pyg_round_trip(graph):
    data = to_pyg(graph)
    back = from_pyg(data, directed=graph.directed)
    assert_same(graph, back)
    guessed = from_pyg(data)
    assert guessed.directed == (not data.is_undirected())


def test_asymmetric_matrices_are_symmetrised_with_a_note():
    matrix = sp.csr_array([[1, 2, 0], [3, 0, 1], [0, 0, 0]])
    graph = from_scipy(matrix)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.weights.tolist() == [3, 1]
    assert any("not symmetric" in note for note in graph.notes)
    assert "dropped 1 self-loop" in graph.notes
    directed = from_scipy(matrix, directed=True)
    assert directed.edges.tolist() == [[0, 1], [1, 0], [1, 2]]
    plain = from_scipy(np.array([[0, 1], [1, 0]], dtype=bool), ids=["x", "y"])
    assert plain.weights is None
    assert not plain.notes
    assert Graph.from_scipy(matrix).num_edges == 2


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[0, -1], [0, 0]]), r"Entry \(0, 1\).* is -1"),
        (np.array([[0, np.nan], [0, 0]]), "is nan"),
        (np.array([["a"]]), "matrix of numbers"),
        (None, "matrix of numbers"),
    ],
)
def test_bad_matrices(matrix, match):
    with pytest.raises(InputError, match=match):
        from_scipy(matrix)


def test_networkx_weights_attributes_and_multigraphs():
    graph = nx.MultiGraph()
    graph.add_node("x", age=3, kind="red")
    graph.add_edge("y", "x", weight=2)
    graph.add_edge("x", "y")
    built = from_networkx(graph, attributes=["age", "kind"])
    assert built.node_ids.tolist() == ["x", "y"]
    assert built.weights.tolist() == [3.0]
    assert built.attribute_names == ("age", "age=missing", "kind=red")
    assert dense(built.attributes).tolist() == [[0, 0, 1], [0, 1, 0]]
    assert any("weight 1 for 1 edge" in note for note in built.notes)
    grid = Graph.from_networkx(nx.grid_2d_graph(2, 2))
    assert grid.index_of((1, 1)) == grid.node_ids.tolist().index((1, 1))
    assert from_networkx(nx.Graph()).num_nodes == 0
    graph.add_edge("x", "z", weight="heavy")
    with pytest.raises(InputError, match="'x' to 'z' has the weight 'heavy'"):
        from_networkx(graph)
    with pytest.raises(InputError, match="not a networkx graph"):
        from_networkx([1, 2])


def test_pyg_details():
    import torch
    from torch_geometric.data import Data

    index = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 1]])
    weight = torch.tensor([1.0, 1.0, 0.5, 0.5, 2.0])
    data = Data(edge_index=index, edge_weight=weight, num_nodes=4)
    graph = Graph.from_pyg(data, directed=False)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.weights.tolist() == [3.0, 0.5]
    assert graph.num_nodes == 4
    plain = from_pyg(
        Data(edge_index=index[:, :4], num_nodes=3, x=torch.eye(3).to_sparse())
    )
    assert not plain.directed
    assert plain.weights is None
    assert dense(plain.attributes).tolist() == np.eye(3).tolist()
    for wrong in (
        Data(num_nodes=3),
        Data(edge_index=index, num_nodes=2),
        Data(edge_index=index.float(), num_nodes=3),
        Data(edge_index=index, edge_weight=-weight, num_nodes=3),
    ):
        with pytest.raises(InputError):
            from_pyg(wrong)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    "per_edge", [{}, {"weights": [2, 1, 3]}, {"times": [0, -1, 2]}]
)
def test_large_npz_files_are_mapped(tmp_path, monkeypatch, directed, per_edge):
    monkeypatch.setattr(npz, "_MAPPED", 1)
    pairs = [(0, 1), (0, 3), (1, 2)]
    graph = Graph.from_indices(5, pairs, directed=directed, **per_edge)
    path = write_npz(graph, tmp_path / "g.npz", compressed=False)
    back = read_npz(path)
    assert back.edges.tolist() == graph.edges.tolist()
    assert isinstance(mapped_by(back.edges), mmap.mmap)
    assert back.edges.flags.c_contiguous
    for name in per_edge:
        assert getattr(back, name).tolist() == getattr(graph, name).tolist()
        assert isinstance(mapped_by(getattr(back, name)), mmap.mmap)
    before = path.read_bytes()
    back.edges[0] = (3, 4)  # copied on write
    assert path.read_bytes() == before
    small = write_npz(graph, tmp_path / "h.npz")
    assert read_npz(small).edges.tolist() == graph.edges.tolist()


def mapped_by(array):
    """Return what an array's memory belongs to in the end."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_files_of_others_are_merged(tmp_path, monkeypatch, compressed):
    monkeypatch.setattr(npz, "_MAPPED", 1)
    save = np.savez_compressed if compressed else np.savez
    ends = np.array([[3, 1, 2, 0], [1, 3, 2, 1]])
    save(tmp_path / "g.npz", edge_index=ends, num_nodes=4, weights=[1.0, 2, 5, 0])
    graph = read_npz(tmp_path / "g.npz")
    assert (graph.edges.tolist(), graph.weights.tolist()) == ([[1, 3]], [3.0])
    save(tmp_path / "g.npz", edge_index=ends[:, :1], num_nodes=4, weights=[np.nan])
    with pytest.raises(InputError, match="nan among its weights"):
        read_npz(tmp_path / "g.npz")


def test_npz_refuses_ids_it_cannot_keep(tmp_path):
    graph = Graph.from_indices(2, [(0, 1)], ids=[(0, 1), (0, 2)])
    with pytest.raises(OutputError, match="integers or"):
        write_npz(graph, tmp_path / "g.npz")
    graph = Graph.from_indices(2, [(0, 1)], ids=["a\0", "b"])
    with pytest.raises(OutputError, match="zero character"):
        write_npz(graph, tmp_path / "g.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif("GELATO_DATA" not in os.environ, reason="GELATO_DATA is not set")
def test_benchmark_files_are_read_array_for_array():
    path = Path(os.environ["GELATO_DATA"]) / "cora.npz"
    graph = Graph.from_npz(path)
    assert (graph.num_nodes, graph.num_edges, graph.num_attributes) == (
        2708,
        5278,
        1433,
    )
    with np.load(path) as stored:
        assert np.array_equal(graph.edges.T, stored["edge_index"])
        assert np.array_equal(graph.attributes.data, stored["attr_data"])
        assert np.array_equal(graph.attributes.indices, stored["attr_indices"])
        assert np.array_equal(graph.labels, stored["labels"])
