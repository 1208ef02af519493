"""``gelato data make``: files that the other verbs read, or none at all."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from gelato.cli import data as verb
from gelato.graph import Graph

resource = pytest.importorskip("resource")  # not on Windows


def test_npz_is_read_again(gelato, tmp_path):
    made = gelato("data", "make", "g.npz", "--nodes", 200, "--seed", 5, "--json")
    assert made.code == 0
    assert made.json["edges"] == 600
    graph = Graph.from_npz(tmp_path / "g.npz")
    assert (graph.num_nodes, graph.num_edges, graph.num_attributes) == (200, 600, 500)
    ranked = gelato("evaluate", "--edges", "g.npz", "--model", "cn", "--json")
    assert ranked.code == 0
    assert ranked.json["results"][0]["ap"] > 0


def test_tables_hold_the_same_graph(gelato, tmp_path):
    options = ("--nodes", 150, "--seed", 2, "--num-attributes", 60)
    assert gelato("data", "make", "g.npz", *options).code == 0
    both = ("edges.csv", "--attributes", "words.csv")
    said = gelato("data", "make", *both, *options)
    assert said.code == 0
    assert "gelato run --edges edges.csv --attributes words.csv" in said.out
    graph = Graph.from_npz(tmp_path / "g.npz")
    read = Graph.from_edges(tmp_path / "edges.csv", tmp_path / "words.csv")
    ids = read.node_ids
    edges = np.sort(ids[read.edges], axis=1)
    assert set(map(tuple, edges.tolist())) == set(map(tuple, graph.edges.tolist()))
    dense, order = graph.attributes.toarray(), np.argsort(ids)
    columns = [int(name.rpartition("w")[2]) for name in read.attribute_names]
    np.testing.assert_array_equal(
        read.attributes.toarray()[order], dense[:, columns][np.sort(ids)]
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("g.npz", "--exponent", 1), 2, "must exceed 1"),
        (("g.npz", "--max-degree", 2), 2, "below the average"),
        (("g.npz", "--nodes", 10, "--communities", 11), 2, "communities"),
        (("g.npz", "--attributes", "a.csv"), 2, "holds the attributes too"),
        (("e.csv", "--attributes", "e.csv"), 2, "cannot hold"),
        (("e.csv", "--attributes", "a.csv", "--num-attributes", 0), 2, "draws none"),
        (("g.xyz",), 2, "suffix"),
        (("there/g.npz",), 1, "no folder"),
    ],
)
def test_bad_input_writes_nothing(gelato, tmp_path, arguments, code, message):
    said = gelato("data", "make", *arguments)
    assert said.code == code
    assert message in said.err
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_kept(gelato, tmp_path):
    kept = tmp_path / "g.npz"
    kept.write_text("mine")
    refused = gelato("data", "make", "g.npz", "--nodes", 50)
    assert refused.code == 1
    assert "--overwrite" in refused.err
    assert kept.read_text() == "mine"
    assert gelato("data", "make", "g.npz", "--nodes", 50, "--overwrite").code == 0
    assert Graph.from_npz(kept).num_nodes == 50


def test_words_in_pieces_are_the_same(gelato, tmp_path, monkeypatch):
    options = ("--nodes", 100, "--attributes", "w.csv")
    assert gelato("data", "make", "e.csv", *options).code == 0
    whole = (tmp_path / "w.csv").read_bytes()
    monkeypatch.setattr(verb, "_NODES", 7)
    assert gelato("data", "make", "e.csv", *options, "--overwrite").code == 0
    assert (tmp_path / "w.csv").read_bytes() == whole


def test_what_a_graph_takes_is_told_or_refused(gelato, tmp_path, monkeypatch):
    monkeypatch.setattr(verb, "_LARGE", 10**5)
    said = gelato("data", "make", "e.csv", "--nodes", 1000)
    assert "3,000 edges and 12,000 words take about 0 MB of memory" in said.err
    refused = gelato("data", "make", "f.csv", "--nodes", 10**8, "--average-degree", 999)
    assert refused.code == 2
    assert "GB of memory" in refused.err
    assert "--num-attributes 0" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


@pytest.mark.parametrize("name", ["e.parquet", "e.csv", "e.npz"])
def test_a_full_disk_leaves_what_was_there(gelato, tmp_path, name):
    kept = tmp_path / name
    kept.write_text("mine")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:  # a limit of a file's size stops writing in the middle, as a full disk does
        said = gelato("data", "make", name, "--nodes", 5000, "--overwrite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert said.code == 1
    assert f"{name} cannot be written: File too large." in said.err
    assert kept.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [kept]
