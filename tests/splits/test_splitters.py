"""Splits: the paper's permutation, disjoint and complete parts, files, leakage."""

from __future__ import annotations

import os

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gelato.datasets import load_dataset
from gelato.errors import (
    InputError,
    OutputError,
    StoredFileError,
    UsageError,
)
from gelato.graph import Graph
from gelato.splits import (
    PARTS,
    EdgeSplit,
    split_by_time,
    split_edges,
    split_given,
    split_many,
)
from gelato.splits.splitters import _torch_permutation


def torch_randperm(m: int, seed: int) -> np.ndarray:
    return torch.randperm(m, generator=torch.Generator().manual_seed(seed)).numpy()


def ring(n: int, **options) -> Graph:
    return Graph.from_indices(n, [(i, (i + 1) % n) for i in range(n)], **options)


def pair_set(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(int(u), int(v)) for u, v in pairs}


@st.composite
def graphs(draw) -> Graph:
    n = draw(st.integers(2, 12))
    node = st.integers(0, n - 1)
    pairs = draw(
        st.lists(st.tuples(node, node).filter(lambda p: p[0] != p[1]), min_size=1)
    )
    times = draw(st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)))
    directed = draw(st.booleans())
    ids = [f"node {i}" for i in range(n)] if draw(st.booleans()) else None
    return Graph.from_indices(n, pairs, times=times, directed=directed, ids=ids)


# ------------------------------------------------------------- the permutation
@pytest.mark.parametrize("m", [0, 1, 2, 3, 623, 624, 625, 4552, 245_861])
@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**32 - 1])
def test_permutation_is_that_of_torch(m: int, seed: int) -> None:
    np.testing.assert_array_equal(_torch_permutation(m, seed), torch_randperm(m, seed))


@given(st.integers(0, 3000), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_permutation_is_that_of_torch_anywhere(m: int, seed: int) -> None:
    np.testing.assert_array_equal(_torch_permutation(m, seed), torch_randperm(m, seed))


def test_permutation_leaves_global_generators_alone() -> None:
    numpy_state = np.random.get_state
    before = numpy_state()[1].copy(), torch.get_rng_state()
    split_edges(ring(50), seed=3)
    assert np.array_equal(numpy_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_split_is_the_paper_s() -> None:
    graph = ring(200)
    split = split_edges(graph, seed=4)
    order = torch_randperm(200, 4)
    assert pair_set(split.valid) == pair_set(graph.edges[order[:10]])
    assert pair_set(split.test) == pair_set(graph.edges[order[10:30]])
    assert pair_set(split.train) == pair_set(graph.edges[order[30:]])
    assert (split.kind, split.seed) == ("random", 4)


# --------------------------------------------------------------- what holds always
@given(graphs(), st.floats(0, 0.49), st.floats(0, 0.49), st.integers(0, 9))
@settings(deadline=None)
def test_parts_are_disjoint_complete_sorted(graph, valid, test, seed) -> None:
    for split in (
        split_edges(graph, valid=valid, test=test, seed=seed),
        split_by_time(graph, valid=valid, test=test),
    ):
        sets = [pair_set(split.positives(part)) for part in PARTS]
        assert set.union(*sets) == pair_set(graph.edges)
        assert sum(map(len, sets)) == graph.num_edges
        assert len(split.valid) == int(valid * graph.num_edges)
        assert len(split.test) == int(test * graph.num_edges)
        for part in PARTS:
            rows = split.positives(part).tolist()
            assert rows == sorted(rows)
            assert split.positives(part).dtype == np.int64


@given(graphs(), st.integers(0, 9))
@settings(deadline=None)
def test_candidates_are_counted_as_listed(graph: Graph, seed: int) -> None:
    split = split_edges(graph, valid=0.3, test=0.3, seed=seed)
    every = {
        (u, v)
        for u in range(graph.num_nodes)
        for v in range(graph.num_nodes)
        if (u != v if graph.directed else u < v)
    }
    train, valid = pair_set(split.train), pair_set(split.valid)
    assert split.num_candidates("train") == len(every)
    assert split.num_candidates("valid") == len(every - train)
    assert split.num_candidates("test") == len(every - train - valid)
    assert pair_set(split.known("test")) == train | valid
    assert split.known("test").tolist() == sorted(split.known("test").tolist())
    assert pair_set(split.positives("valid")).isdisjoint(pair_set(split.known("valid")))


def test_train_graph_has_the_nodes_and_only_the_training_edges() -> None:
    graph = ring(
        40, attributes=np.eye(40), weights=np.arange(1, 41), ids=range(100, 140)
    )
    split = split_edges(graph, valid=0.2, test=0.2)
    small = split.train_graph
    assert pair_set(small.edges) == pair_set(split.train)
    assert small.attributes is graph.attributes
    assert small.node_ids.tolist() == list(range(100, 140))
    weight = {
        tuple(e): w for e, w in zip(graph.edges.tolist(), graph.weights, strict=True)
    }
    assert [weight[tuple(e)] for e in small.edges.tolist()] == small.weights.tolist()


def test_directed_edges_are_split_by_direction() -> None:
    both_ways = [(u, v) for u in range(6) for v in range(6) if u != v]
    graph = Graph.from_indices(6, both_ways, directed=True)
    split = split_edges(graph, valid=0.2, test=0.3)
    held_out = pair_set(split.test)
    assert any((v, u) in pair_set(split.train) for u, v in held_out)
    assert split.num_candidates("test") == 30 - len(split.train) - len(split.valid)


def test_time_puts_the_latest_last_and_breaks_ties_by_pair() -> None:
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
    graph = Graph.from_indices(4, edges, times=[5, 1, 3, 3, 3])
    split = split_by_time(graph, valid=0.2, test=0.4)
    assert split.train.tolist() == [[0, 2], [1, 2]]
    assert split.valid.tolist() == [[1, 3]]
    assert split.test.tolist() == [[0, 1], [2, 3]]
    assert split.kind == "temporal"


def test_time_needs_times() -> None:
    with pytest.raises(InputError, match="time="):
        split_by_time(ring(10))


def test_many_splits_have_seeds_from_zero() -> None:
    splits = split_many(ring(60), 3, test=0.2)
    assert [split.seed for split in splits] == [0, 1, 2]
    assert len({split.fingerprint for split in splits}) == 3
    assert splits[2].fingerprint == split_edges(ring(60), test=0.2, seed=2).fingerprint
    with pytest.raises(UsageError, match="count"):
        split_many(ring(60), 0)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"valid": -0.1}, "valid"),
        ({"test": 1.0}, "test"),
        ({"test": float("nan")}, "test"),
        ({"valid": 0.5, "test": 0.5}, "none for training"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, word) -> None:
    with pytest.raises(UsageError, match=word):
        split_edges(ring(10), **arguments)


def test_no_edges_nothing_to_split() -> None:
    with pytest.raises(InputError, match="no edges"):
        split_edges(Graph.from_indices(3, []))


def test_empty_parts_may_exist() -> None:
    split = split_edges(ring(5), valid=0, test=0)
    assert split.valid.shape == split.test.shape == (0, 2)
    assert split.num_candidates("test") == 5


# ------------------------------------------------------------------- refusals
NAMED = Graph.from_indices(4, [(0, 1), (1, 2), (2, 3)], ids=["a", "b", "c", "d"])
NONE = np.empty((0, 2), dtype=np.int64)


@pytest.mark.parametrize(
    ("train", "valid", "test", "message"),
    [
        ([[0, 1]], [[0, 1]], NONE, r"\('a', 'b'\).*train and the valid"),
        ([[0, 1]], NONE, [[1, 0]], r"leaks.*\('a', 'b'\).*train and the test"),
        ([[1, 2]], [[2, 3]], [[3, 2]], r"\('c', 'd'\).*valid and the test"),
        ([[0, 1], [1, 0]], NONE, NONE, r"\('a', 'b'\) more than once"),
        ([[0, 0]], NONE, NONE, "node a to itself"),
        ([[0, 3]], NONE, NONE, r"\('a', 'd'\).*not an edge"),
        ([[0, 4]], NONE, NONE, "numbered 0 to 3"),
        ([[-1, 0]], NONE, NONE, "numbered 0 to 3"),
        ([[0.5, 1.0]], NONE, NONE, "node indices"),
        ([0, 1], NONE, NONE, "node indices"),
    ],
)
def test_wrong_parts_are_refused(train, valid, test, message) -> None:
    with pytest.raises(InputError, match=message):
        EdgeSplit(NAMED, train, valid, test)


def test_reciprocal_edges_leak_only_without_direction() -> None:
    edges = [(0, 1), (1, 0)]
    directed = Graph.from_indices(2, edges, directed=True)
    split = EdgeSplit(directed, [[0, 1]], NONE, [[1, 0]])
    assert split.num_candidates("test") == 1
    with pytest.raises(InputError, match="leaks"):
        EdgeSplit(Graph.from_indices(2, edges), [[0, 1]], NONE, [[1, 0]])


def test_unknown_kind_and_part_are_refused() -> None:
    with pytest.raises(UsageError, match="kind 'magic'"):
        EdgeSplit(NAMED, NONE, NONE, NONE, kind="magic")
    split = EdgeSplit(NAMED, NAMED.edges, NONE, NONE)
    for ask in (split.positives, split.known, split.num_candidates):
        with pytest.raises(UsageError, match="no part 'tset'"):
            ask("tset")


# ----------------------------------------------------------------- fingerprints
def test_fingerprint_tells_splits_apart_and_knows_equals() -> None:
    graph = ring(30)
    split = split_edges(graph, test=0.2)
    shuffled = EdgeSplit(
        graph, split.train[::-1], split.valid[:, ::-1], split.test, kind="given"
    )
    assert shuffled.fingerprint == split.fingerprint
    assert len(split.fingerprint) == 16
    swapped = EdgeSplit(graph, split.train, split.test, split.valid)
    bigger = EdgeSplit(
        Graph.from_indices(31, graph.edges), split.train, split.valid, split.test
    )
    directed = EdgeSplit(
        Graph.from_indices(30, graph.edges, directed=True),
        split.train,
        split.valid,
        split.test,
    )
    prints = {s.fingerprint for s in (split, swapped, bigger, directed)}
    assert len(prints) == 4


def test_fingerprint_does_not_change_between_versions() -> None:
    assert split_edges(ring(20), test=0.2).fingerprint == "d0cc3fe017b5c88a"


# ------------------------------------------------------------------------ files
@given(graphs(), st.integers(0, 9), st.booleans())
@settings(deadline=None, max_examples=25)
def test_files_round_trip(tmp_path_factory, graph, seed, by_time) -> None:
    path = tmp_path_factory.mktemp("splits") / "split.parquet"
    if by_time:
        split = split_by_time(graph, valid=0.2, test=0.3)
    else:
        split = split_edges(graph, valid=0.2, test=0.3, seed=seed)
    split.save(path)
    again = EdgeSplit.load(path, graph)
    assert again.fingerprint == split.fingerprint
    assert (again.kind, again.seed) == (split.kind, split.seed)
    for part in PARTS:
        np.testing.assert_array_equal(again.positives(part), split.positives(part))
    assert [file.name for file in path.parent.iterdir()] == ["split.parquet"]


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "split.parquet"
    split_edges(NAMED, valid=0.34, test=0.34).save(path)
    return path


def rewrite(path, *, metadata=(), **columns) -> None:
    kept = {k: v for k, v in pl.read_parquet_metadata(path).items() if ":" not in k}
    frame = pl.read_parquet(path).with_columns(**columns)
    kept.update(metadata)
    frame.write_parquet(path, metadata={k: v for k, v in kept.items() if v is not None})


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"format": None}, "not written by EdgeSplit.save"),
        ({"version": "2"}, "format version 2; this program reads version 1"),
        ({"version": None}, "format version unknown"),
        ({"seed": None, "kind": None}, "lacks the metadata kind, seed"),
        ({"fingerprint": "0" * 16}, "was changed after it was written"),
        ({"kind": "magic"}, "kind 'magic'"),
        ({"seed": "seven"}, "seven"),
    ],
)
def test_foreign_metadata_are_refused(stored, metadata, reason) -> None:
    rewrite(stored, metadata=metadata)
    with pytest.raises(StoredFileError, match=reason) as caught:
        EdgeSplit.load(stored, NAMED)
    assert str(stored) in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"target": pl.lit(3)}, "other columns"),
        ({"source": pl.lit(None, dtype=pl.Int64)}, "other columns"),
        ({"weight": pl.lit(1.0)}, "other columns"),
        ({"part": pl.lit("rest")}, "unknown part 'rest'"),
        ({"target": pl.col("target") + 1}, "does not fit"),
        ({"part": pl.lit("train")}, "was changed"),
    ],
)
def test_changed_rows_are_refused(stored, columns, reason) -> None:
    rewrite(stored, **columns)
    with pytest.raises(StoredFileError, match=reason):
        EdgeSplit.load(stored, NAMED)


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_damaged_files_are_refused(stored, keep) -> None:
    stored.write_bytes(stored.read_bytes()[:keep])
    with pytest.raises(StoredFileError, match="cannot be read as Parquet"):
        EdgeSplit.load(stored, NAMED)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (Graph.from_indices(5, NAMED.edges), "with 4 nodes; this one has 5 nodes"),
        (Graph.from_indices(4, NAMED.edges, directed=True), "directed = false"),
        (Graph.from_indices(4, NAMED.edges), "node ids"),
        (Graph.from_indices(4, [(0, 1)], ids=NAMED.ids), "with 3 edges"),
        (
            Graph.from_indices(4, [(0, 1), (1, 2), (1, 3)], ids=NAMED.ids),
            "does not fit",
        ),
    ],
)
def test_other_graphs_are_refused(stored, graph, reason) -> None:
    with pytest.raises(StoredFileError, match=reason):
        EdgeSplit.load(stored, graph)


def test_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no split file .*absent\.parquet"):
        EdgeSplit.load(tmp_path / "absent.parquet", NAMED)


def test_a_split_that_cannot_be_written_leaves_nothing(tmp_path) -> None:
    split = split_edges(NAMED, valid=0.34, test=0.34)
    with pytest.raises(OutputError, match="cannot be written"):
        split.save(tmp_path / "no such folder" / "split.parquet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="is a directory"):
        split.save(tmp_path / "folder")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


# ----------------------------------------------------------------- given parts
def test_given_pairs_are_read_in_user_ids_and_added() -> None:
    graph = Graph.from_indices(
        4, NAMED.edges, ids=NAMED.ids, weights=[2, 3, 4], times=[1, 2, 3]
    )
    split = split_given(
        graph, [("b", "a"), ("a", "b"), ("c", "b")], [("d", "a")], [("c", "d")]
    )
    assert split.train.tolist() == [[0, 1], [1, 2]]
    assert split.valid.tolist() == [[0, 3]]
    assert split.test.tolist() == [[2, 3]]
    assert split.graph.edges.tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert split.graph.weights.tolist() == [2, 1, 3, 4]
    assert split.graph.times is None
    assert split.graph.notes[0] == "added 1 edge of the given split"
    assert (split.kind, split.seed) == ("given", None)


def test_given_training_may_be_the_rest() -> None:
    split = split_given(NAMED, None, None, [("c", "b"), ("d", "a")])
    assert split.train.tolist() == [[0, 1], [2, 3]]
    assert split.valid.shape == (0, 2)
    assert split.test.tolist() == [[0, 3], [1, 2]]


def test_edges_in_no_part_are_told() -> None:
    split = split_given(NAMED, [("a", "b")], None, [("b", "c")])
    assert "1 edge is in no part" in split.graph.notes[-1]
    assert split.num_candidates("test") == 5


def test_given_files_make_a_graph(tmp_path) -> None:
    parts = {"train": "x,y\ny,z\n", "valid": "x,w\n", "test": "w,z\n"}
    paths = []
    for part, text in parts.items():
        paths.append(tmp_path / f"{part}.csv")
        paths[-1].write_text("source,target\n" + text)
    split = split_given(None, *paths)
    assert split.graph.node_ids.tolist() == ["w", "x", "y", "z"]
    assert split.train.tolist() == [[1, 2], [2, 3]]
    assert split.valid.tolist() == [[0, 1]]
    assert split.test.tolist() == [[0, 3]]
    directed = split_given(None, *paths, directed=True)
    assert directed.valid.tolist() == [[1, 0]]


def test_given_parts_without_a_graph_must_agree_on_ids() -> None:
    with pytest.raises(InputError, match="different types"):
        split_given(None, [(1, 2)], None, [("a", "b")])
    with pytest.raises(UsageError, match="training edges"):
        split_given(None, None, None, [("a", "b")])


def test_given_leak_in_either_direction_is_refused() -> None:
    with pytest.raises(InputError, match=r"leaks.*\('a', 'b'\)"):
        split_given(NAMED, [("a", "b")], None, [("b", "a")])
    with pytest.raises(InputError, match="leaks"):
        split_given(None, [("a", "b")], None, [("b", "a")])


def test_given_unknown_node_is_named() -> None:
    with pytest.raises(InputError, match="'e'"):
        split_given(NAMED, [("a", "e")], None, [("b", "a")])


def test_given_split_loads_with_the_graph_it_was_made_of(tmp_path) -> None:
    split = split_given(NAMED, None, None, [("d", "a")])
    split.save(tmp_path / "split.parquet")
    again = EdgeSplit.load(tmp_path / "split.parquet", NAMED)
    assert again.fingerprint == split.fingerprint
    np.testing.assert_array_equal(again.graph.edges, split.graph.edges)


# ----------------------------------------------------------------- the paper's sizes
@pytest.mark.skipif(
    "GELATO_DATA" not in os.environ,
    reason="GELATO_DATA does not name the benchmark graphs",
)
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("cora", (4_488, 263, 527)),
        ("citeseer", (3_870, 227, 455)),
        ("pubmed", (37_676, 2_216, 4_432)),
        ("photo", (101_219, 5_954, 11_908)),
        ("computers", (208_982, 12_293, 24_586)),
    ],
)
def test_benchmark_splits_have_the_paper_s_sizes(name, sizes) -> None:
    split = split_edges(load_dataset(name))
    assert tuple(len(split.positives(part)) for part in PARTS) == sizes
