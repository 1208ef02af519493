"""Tiny folders as OGB lays its link prediction datasets out."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import torch

import gelato
from gelato.datasets.ogb import read_ogb
from gelato.errors import InputError

TRAIN = [(0, 1), (1, 2), (2, 3), (1, 0)]  # the last one repeats the first
VALID = [(3, 4), (2, 1)]  # the last one is a training edge
TEST = [(4, 5), (0, 5)]
NEGATIVES = [(0, 3), (0, 4), (1, 5)]


def write(root, parts, *, nodes=6, edges=TRAIN, features=True, kind="time"):
    raw, split = root / "raw", root / "split" / kind
    raw.mkdir()
    split.mkdir(parents=True)
    tables = {"num-node-list": [[nodes]], "num-edge-list": [[len(edges)]]}
    tables["edge"] = edges
    if features:
        tables["node-feat"] = np.eye(nodes) / 2
    for name, rows in tables.items():
        with gzip.open(raw / f"{name}.csv.gz", "wt") as file:
            file.writelines(",".join(f"{x:g}" for x in row) + "\n" for row in rows)
    for part, held in parts.items():
        torch.save(held, split / f"{part}.pt")
    return root


def shared_lists(of=np.array):
    """Return parts as ogbl-collab has them, arrays of numpy or of torch."""
    years = np.array([2001.0, 2002.0])
    return {
        "train": {"edge": of(TRAIN), "weight": np.ones(4)},
        "valid": {"edge": of(VALID), "edge_neg": of(NEGATIVES), "year": years},
        "test": {"edge": of(TEST), "edge_neg": of(NEGATIVES)},
    }


@pytest.mark.parametrize("of", [np.array, torch.tensor])
def test_parts_and_shared_negatives(tmp_path, of):
    found = read_ogb(write(tmp_path, shared_lists(of)))
    split = found.split
    assert split.train.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert split.valid.tolist() == [[3, 4]]
    assert split.test.tolist() == [[0, 5], [4, 5]]
    assert split.graph.num_attributes == 6
    assert found.positives["test"].tolist() == [list(pair) for pair in TEST]
    assert found.negatives["test"].tolist() == [list(pair) for pair in NEGATIVES]
    assert "train" not in found.negatives
    assert any(note.startswith("valid: 1 pairs") for note in split.graph.notes)
    assert gelato.evaluate(gelato.make("cn").fit(split), split).ap > 0


def test_negatives_of_every_positive_and_a_direction(tmp_path):
    def part(pairs, negatives=None):
        ends = dict(zip(("source_node", "target_node"), np.array(pairs).T, strict=True))
        return ends if negatives is None else {**ends, "target_node_neg": negatives}

    parts = {
        "train": part(TRAIN),
        "valid": part([(3, 4)], np.array([[0, 1]])),
        "test": part(TEST, np.array([[0, 1], [2, 3]])),
    }
    found = read_ogb(write(tmp_path, parts, features=False), directed=True)
    assert found.split.graph.directed
    assert len(found.split.train) == 4
    lists = found.negatives["test"]
    assert lists.tolist() == [[[4, 0], [4, 1]], [[0, 2], [0, 3]]]
    scores = np.arange(36.0).reshape(6, 6)
    own = [
        scores[tuple(found.positives["test"].T)],
        scores[lists[..., 0], lists[..., 1]],
    ]
    assert gelato.metrics.own_list_measures(*own)["mrr"] == 1.0


def test_negatives_that_are_edges_are_told(tmp_path):
    parts = shared_lists()
    parts["test"]["edge_neg"] = np.array([(0, 3), (2, 1)])
    notes = read_ogb(write(tmp_path, parts)).split.graph.notes
    assert any("test: 1 given negatives are edges" in note for note in notes)
    assert any("place 1: [2, 1]" in note for note in notes)


@pytest.mark.parametrize(
    ("part", "key", "value", "said"),
    [
        ("valid", "edge_neg", np.array([(0, 3), (0, 9)]), "row 1 names node 9"),
        ("valid", "edge_neg", np.empty((0, 2), int), "'edge_neg' is empty"),
        ("test", "edge", np.array([0, 1]), r"not \(k, 2\)"),
    ],
)
def test_wrong_lists_are_named_with_their_row(tmp_path, part, key, value, said):
    parts = shared_lists()
    parts[part][key] = value
    with pytest.raises(InputError, match=said):
        read_ogb(write(tmp_path, parts))


def test_lists_without_a_row_for_a_positive_are_refused(tmp_path):
    parts = shared_lists()
    parts["test"] = {
        "source_node": np.array([4, 0]),
        "target_node": np.array([5, 5]),
        "target_node_neg": np.array([[1, 2]]),
    }
    with pytest.raises(InputError, match="each of 2 positives"):
        read_ogb(write(tmp_path, parts))


def test_folders_that_are_none_and_files_that_run_code_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_ogb(tmp_path / "nowhere")
    root = write(tmp_path, shared_lists())
    with pytest.raises(InputError, match="no split called 'space'"):
        read_ogb(root, split="space")
    torch.save({"edge": print}, root / "split" / "time" / "test.pt")
    with pytest.raises(InputError, match=r"test\.pt cannot be read"):
        read_ogb(root)
    (root / "split" / "more").mkdir()
    with pytest.raises(InputError, match="2 splits"):
        read_ogb(root)


def test_edges_out_of_range_are_named_with_their_line(tmp_path):
    root = write(tmp_path, shared_lists(), edges=[(0, 1), (2, 7)])
    with pytest.raises(InputError, match="line 2 names node 7"):
        read_ogb(root)
