"""Converters, on raw files that are written here in the benchmarks' own formats."""

from __future__ import annotations

import os
import pickle
from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse as sp

from gelato.datasets.catalog import content_digest
from gelato.datasets.convert import convert_amazon, convert_planetoid
from gelato.errors import StoredFileError
from support.raw_files import random_graph, write_amazon, write_planetoid


@pytest.mark.parametrize("seed", range(5))
def test_planetoid_round_trip(tmp_path, seed) -> None:
    graph = random_graph(seed, binary=False)
    write_planetoid(tmp_path, "tiny", graph, seed)
    found = convert_planetoid(tmp_path, "tiny")
    assert content_digest(found) == content_digest(graph)
    assert found.notes == ()
    assert found.ids is None


@pytest.mark.parametrize("seed", range(5))
def test_amazon_round_trip(tmp_path, seed) -> None:
    graph = random_graph(seed, binary=True)
    write_amazon(tmp_path / "tiny.npz", graph, seed)
    found = convert_amazon(tmp_path / "tiny.npz")
    assert content_digest(found) == content_digest(graph)
    assert found.notes == ()


def test_planetoid_gives_unnamed_test_nodes_zeros(tmp_path) -> None:
    graph = random_graph(0, binary=True)
    write_planetoid(tmp_path, "tiny", graph, seed=0, leave_out=[27])
    found = convert_planetoid(tmp_path, "tiny")
    assert found.num_nodes == graph.num_nodes
    expected = graph.attributes.toarray()
    expected[27] = 0
    np.testing.assert_array_equal(found.attributes.toarray(), expected)
    assert found.labels[27] == 0
    np.testing.assert_array_equal(
        np.delete(found.labels, 27), np.delete(graph.labels, 27)
    )


class Command:
    def __reduce__(self):
        return os.system, ("touch fell-for-it",)


@pytest.mark.parametrize("content", [Command(), sp.eye_array(3), {1, 2}, print])
def test_planetoid_unpickles_only_what_it_must(tmp_path, monkeypatch, content) -> None:
    monkeypatch.chdir(tmp_path)
    write_planetoid(tmp_path, "tiny", random_graph(0, binary=True), seed=0)
    file = tmp_path / "ind.tiny.graph"
    file.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(StoredFileError, match=r"ind\.tiny\.graph.*no use for"):
        convert_planetoid(tmp_path, "tiny")
    assert not (tmp_path / "fell-for-it").exists()


@pytest.mark.parametrize("piece", ["allx", "graph", "test.index"])
@pytest.mark.parametrize("content", [b"", b"\x80\x02", b"<html>", b"cposix\nsystem\n."])
def test_planetoid_refuses_damage(tmp_path, piece, content) -> None:
    write_planetoid(tmp_path, "tiny", random_graph(0, binary=True), seed=0)
    (tmp_path / f"ind.tiny.{piece}").write_bytes(content)
    with pytest.raises(StoredFileError, match=rf"ind\.tiny\.({piece}|\*)"):
        convert_planetoid(tmp_path, "tiny")


def test_planetoid_refuses_pieces_that_do_not_fit(tmp_path) -> None:
    write_planetoid(tmp_path, "tiny", random_graph(0, binary=True), seed=0)
    lists = pickle.dumps(defaultdict(list, {0: ["a"]}), protocol=3)
    (tmp_path / "ind.tiny.graph").write_bytes(
        lists.replace(b"builtins", b"__builtin__")
    )
    with pytest.raises(StoredFileError, match="do not fit together"):
        convert_planetoid(tmp_path, "tiny")


@pytest.mark.parametrize("damage", ["cut", "key", "text", "pickle"])
def test_amazon_refuses_damage(tmp_path, damage) -> None:
    path = tmp_path / "tiny.npz"
    write_amazon(path, random_graph(0, binary=True), seed=0)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:700])
    elif damage == "text":
        path.write_text("not here")
    else:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files if key != "node_names"}
        arrays["labels"] = np.array([Command()], dtype=object)
        if damage == "key":
            del arrays["labels"]
        np.savez(path, **arrays)
    with pytest.raises(StoredFileError, match=r"tiny\.npz is not a file"):
        convert_amazon(path)
