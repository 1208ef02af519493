"""The backend against networkx itself: the same triples in the same order."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from gelato.errors import UnknownNameError
from gelato.networkx_backend import get_info, indices
from gelato.networkx_backend.indices import convert_from_nx, index_arrays
from support import TESTS

nx = pytest.importorskip("networkx")

NAMES = list(get_info()["functions"])


def graphs():
    words = nx.relabel_nodes(nx.karate_club_graph(), lambda i: f"member {i}")
    loops = nx.gnp_random_graph(25, 0.2, seed=1)
    loops.add_edges_from([(0, 0), (3, 3)])
    apart = nx.disjoint_union(nx.path_graph(4), nx.empty_graph(3))
    return {"words": words, "loops": loops, "apart": apart, "nobody": nx.Graph()}


GRAPHS = graphs()


def ours(name, graph, *pairs, **options):
    return getattr(indices, name)(convert_from_nx(graph), *pairs, **options)


def same(found, expected):
    found, expected = list(found), list(expected)
    assert [pair[:2] for pair in found] == [pair[:2] for pair in expected]
    scores = [[pair[2] for pair in triples] for triples in (found, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-12)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("name", NAMES)
def test_all_candidates_come_as_networkx_gives_them(name, graph):
    function = getattr(nx, name)
    same(ours(name, graph), function(graph))


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("name", NAMES)
def test_given_pairs_come_as_networkx_gives_them(name, graph):
    function, nodes = getattr(nx, name), list(graph)
    pairs = [(u, v) for u in nodes[:5] for v in nodes if u != v]
    same(ours(name, graph, pairs), function(graph, pairs))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1])
def test_centrality_mixes_as_networkx_does(alpha):
    graph, name = GRAPHS["words"], "common_neighbor_centrality"
    same(ours(name, graph, alpha=alpha), getattr(nx, name)(graph, alpha=alpha))


@pytest.mark.parametrize("name", NAMES)
def test_arrays_hold_the_same_scores(name):
    graph = GRAPHS["words"]
    found = index_arrays(graph, name)
    expected = {frozenset(pair[:2]): pair[2] for pair in getattr(nx, name)(graph)}
    pairs = zip(found.source, found.target, strict=True)
    keys = [frozenset((found.nodes[u], found.nodes[v])) for u, v in pairs]
    assert set(keys) == set(expected)
    assert len(keys) == len(expected)
    np.testing.assert_allclose(found.score, [expected[k] for k in keys], rtol=1e-12)
    assert (found.source < found.target).all()


def test_blocks_of_rows_give_what_one_block_gives(monkeypatch):
    graph = GRAPHS["loops"]
    whole = index_arrays(graph, "jaccard_coefficient")
    monkeypatch.setattr("gelato.networkx_backend.indices._CELLS", 60)
    parts = index_arrays(convert_from_nx(graph), "jaccard_coefficient")
    for name in ("source", "target", "score"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_what_networkx_refuses_is_refused():
    graph = GRAPHS["words"]
    with pytest.raises(nx.NodeNotFound, match="stranger"):
        ours("jaccard_coefficient", graph, [("member 1", "stranger")])
    with pytest.raises(nx.NetworkXAlgorithmError, match="Self loops"):
        ours("common_neighbor_centrality", graph, [("member 1", "member 1")])
    with pytest.raises(UnknownNameError, match="no index called"):
        index_arrays(graph, "jaccard")


def test_pairs_of_a_generator_are_all_scored():
    found = ours("jaccard_coefficient", nx.path_graph(4), iter([(0, 2)]))
    assert list(found) == [(0, 2, 0.5)]


_CALLS = """
import networkx as nx
graph = nx.karate_club_graph()
for name in sorted(nx.utils.backends.backend_info["gelato"]["functions"]):
    function = getattr(nx, name)
    found = list(function(graph, backend="gelato"))
    print(len(found), found == [(u, v, found[i][2]) for i, (u, v, _) in
          enumerate(function(graph))])
try:
    nx.jaccard_coefficient(nx.DiGraph([(0, 1)]), backend="gelato")
except nx.NetworkXNotImplemented:
    print("refused")
"""


def test_networkx_finds_the_backend_by_its_entry_points(tmp_path):
    """An installed package is a folder of metadata: networkx reads it at import."""
    folder = tmp_path / "gelato_here-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: gelato-here\n")
    points = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())
    groups = points["project"]["entry-points"]
    text = [f"[{group}]\ngelato = {groups[group]['gelato']}" for group in groups]
    (folder / "entry_points.txt").write_text("\n".join(text))
    paths = [str(tmp_path), str(TESTS.parent / "src")]
    done = subprocess.run(
        [sys.executable, "-c", _CALLS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n") == ["483 True"] * 5 + ["refused", ""], done.stderr
