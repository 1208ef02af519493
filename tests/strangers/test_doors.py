"""Whatever is a graph is taken where a graph is asked for; anything else is told."""

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import gelato
from gelato.errors import InputError, UsageError

KARATE = nx.karate_club_graph()
PAIRS = list(KARATE.edges)


def pyg():
    data = pytest.importorskip("torch_geometric.utils")
    return data.from_networkx(nx.Graph(PAIRS))


SOURCES = {
    "networkx": lambda: nx.Graph(PAIRS),
    "pyg": pyg,
    "scipy": lambda: sp.csr_array(nx.to_numpy_array(nx.Graph(PAIRS))),
    "matrix": lambda: nx.to_numpy_array(nx.Graph(PAIRS)),
    "pandas": lambda: pd.DataFrame(PAIRS, columns=["u", "v"]),
    "polars": lambda: pl.DataFrame(PAIRS, schema=["u", "v"], orient="row"),
    "pairs": lambda: PAIRS,
    "array": lambda: np.array(PAIRS),
    "graph": lambda: gelato.Graph.from_indices(34, PAIRS),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_door_takes_every_graph(kind):
    source = SOURCES[kind]()
    graph = gelato.read_graph(source)
    assert (graph.num_nodes, graph.num_edges) == (34, 78)
    split = gelato.split_edges(source)
    assert len(split.test) == 7
    assert gelato.make("aa").fit(source).graph_.num_edges == 78
    found = gelato.evaluate(gelato.make("aa"), source)
    assert 0 < found.ap < 1
    assert gelato.compare(source, ["aa"]).height == 1


@pytest.mark.parametrize("wrong", [7, None, object(), lambda: 0])
def test_a_wrong_type_is_told_what_is_taken(wrong):
    for door in (gelato.read_graph, gelato.split_edges, gelato.make("aa").fit):
        with pytest.raises(InputError, match=r"networkx, PyG or scipy"):
            door(wrong)


def test_options_of_another_kind_of_graph_are_told():
    with pytest.raises(UsageError, match="from_networkx"):
        gelato.read_graph(nx.Graph(PAIRS), header=True)
