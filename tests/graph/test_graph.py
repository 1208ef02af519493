"""Graph: what its constructors drop, merge and refuse."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gelato.errors import InputError, UnsupportedGraphError
from gelato.graph import Graph, as_id_array, find_pairs


def test_edges_are_sorted_and_merged_and_told():
    graph = Graph.from_indices(
        4, [(3, 1), (1, 3), (2, 2), (0, 1)], weights=[1, 2, 5, 0], times=[7, 5, 1, 1]
    )
    assert graph.edges.tolist() == [[1, 3]]
    assert graph.weights.tolist() == [3.0]
    assert graph.times.tolist() == [5.0]
    assert graph.notes == (
        "dropped 1 self-loop",
        "dropped 1 edge of weight 0",
        "merged 1 repeated edge, weights added",
    )


def slow_canonical(pairs, weights, directed):
    """Return a dictionary from pair to weight, one edge at a time."""
    total = {}
    for (u, v), weight in zip(pairs, weights, strict=True):
        if u == v or weight == 0:
            continue
        key = (u, v) if directed else (min(u, v), max(u, v))
        total[key] = total.get(key, 0) + weight
    return total


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 3)), max_size=30
    ),
    st.booleans(),
)
def test_canonical_edges_equal_the_slow_way(rows, directed):
    pairs, weights = [row[:2] for row in rows], [row[2] for row in rows]
    graph = Graph.from_indices(7, pairs, weights=weights, directed=directed)
    slow = slow_canonical(pairs, weights, directed)
    assert [tuple(edge) for edge in graph.edges.tolist()] == sorted(slow)
    assert graph.weights.tolist() == [slow[key] for key in sorted(slow)]
    dense = graph.adjacency.toarray()
    assert np.array_equal(dense, dense.T) or directed
    assert np.array_equal(graph.degrees, dense.sum(axis=1))


@pytest.mark.parametrize(
    ("edges", "match"),
    [
        ([(0, 3)], "names node 3"),
        ([(-1, 0)], "names node -1"),
        ([(0, 0.5)], "whole numbers"),
        ([("a", "b")], "whole numbers"),
        ([[0, 1, 2], [1, 2, 0]], r"shape \(m, 2\)"),
        ([0, 1], r"shape \(m, 2\)"),
        ([(0, np.nan)], "whole numbers"),
    ],
)
def test_wrong_edges_are_refused(edges, match):
    with pytest.raises(InputError, match=match):
        Graph.from_indices(3, edges)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"weights": [1, -1]}, "Edge 2 has the negative weight"),
        ({"weights": [1, np.inf]}, "Edge 2 has inf"),
        ({"weights": [1]}, "1 weights for 2 edges"),
        ({"weights": ["x", "y"]}, "must be numbers"),
        ({"times": [1, np.nan]}, "Edge 2 has nan"),
        ({"attributes": np.ones((2, 1))}, "shape"),
        ({"attributes": [["a"]] * 3}, "not a matrix of numbers"),
        ({"attributes": np.full((3, 1), 1e300)}, "infinite"),
        ({"ids": ["a", "b", "a"]}, "unique"),
        ({"ids": ["a", "b"]}, "2 ids for 3 nodes"),
        ({"ids": [[1], [2], [3]]}, "hashable"),
        ({"labels": [1, 2]}, "2 labels for 3 nodes"),
        ({"labels": [1, 2, 0.5]}, "whole numbers"),
        ({"attributes": np.ones((3, 1)), "attribute_names": ["a", "b"]}, "names"),
    ],
)
def test_wrong_data_is_refused(options, match):
    with pytest.raises(InputError, match=match):
        Graph.from_indices(3, [(0, 1), (1, 2)], **options)


@given(
    st.lists(
        st.one_of(
            st.integers(),
            st.text(max_size=3),
            st.floats(allow_nan=False),
            st.tuples(st.integers(), st.text(max_size=1)),
            st.just("x" * 100),
        ),
        max_size=6,
    )
)
def test_id_arrays_keep_values_and_types(ids):
    kept = as_id_array(ids).tolist()
    assert kept == ids
    assert [type(node) for node in kept] == [type(node) for node in ids]


def test_find_pairs_does_not_confuse_nodes_outside_the_graph():
    edges = np.array([[1, 2]])
    wanted = np.array([[1, 2], [0, 5], [2, -1]])  # all three have the key 5 if n = 3
    assert find_pairs(edges, wanted, 3).tolist() == [0, -1, -1]


def test_unknown_ids_name_the_nearest():
    graph = Graph.from_indices(3, [(0, 1)], ids=["anna", "bert", "7"])
    assert graph.index_of("bert") == 1
    assert graph.find("bart") is None
    assert graph.find([]) is None
    with pytest.raises(InputError, match="Did you mean 'anna'"):
        graph.index_of("ana")
    with pytest.raises(InputError, match="differ in type"):
        graph.index_of(7)
    assert graph.indices_of(["7", "anna"]).tolist() == [2, 0]


def test_directed_graphs_keep_both_directions_until_symmetrised():
    graph = Graph.from_indices(
        3, [(1, 0), (0, 1), (1, 2)], weights=[1, 2, 3], directed=True
    )
    assert graph.num_edges == 3
    assert graph.num_pairs == 6
    with pytest.raises(UnsupportedGraphError, match="symmetrised"):
        graph.require_undirected("cn")
    plain = graph.symmetrised()
    assert plain.edges.tolist() == [[0, 1], [1, 2]]
    assert plain.weights.tolist() == [3.0, 3.0]
    plain.require_undirected("cn")
    assert plain.symmetrised() is plain


def test_with_edges_keeps_weights_and_times():
    graph = Graph.from_indices(
        3, [(0, 1), (0, 2), (1, 2)], weights=[1, 2, 3], times=[4, 5, 6]
    )
    part = graph.with_edges(np.array([[1, 2], [0, 1]]))
    assert part.weights.tolist() == [1.0, 3.0]
    assert part.times.tolist() == [4.0, 6.0]
    with pytest.raises(InputError, match="not an edge"):
        part.with_edges(np.array([[0, 2]]))


def test_repr_and_sizes():
    attributes = sp.csr_array(np.eye(3))
    graph = Graph.from_indices(3, [(0, 1)], weights=[2], attributes=attributes)
    assert repr(graph) == "Graph(3 nodes, 1 weighted undirected edges, 3 attributes)"
    assert graph.attributes.dtype == np.float32
    assert Graph.from_indices(0, []).num_pairs == 0
    assert not Graph.from_indices(2, [(0, 1)], weights=[1]).is_weighted
