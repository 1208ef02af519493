"""Matrices of the visual analysis: chosen nodes, packed values, models one by one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gelato import evaluate, make, split_edges
from gelato.errors import StoredFileError
from gelato.paper.experiment import Row
from gelato.paper.plots import draw_figures
from gelato.paper.sections import section_tables
from gelato.paper.visual import (
    attribute_distance,
    chosen_nodes,
    find_visual,
    missing_panels,
    nearest_spec,
    pack,
    unpack,
    visual_path,
)
from support.tiny_runs import tiny_graph, toy_results, use_tiny_graph


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    use_tiny_graph(monkeypatch)


def test_nodes_of_the_first_class_by_degree_within_it():
    graph = tiny_graph()
    found = chosen_nodes(graph, 7)
    inside = [v for v in range(40) if graph.labels[v] == 0]
    degree = {
        v: sum(v in edge and set(edge) <= set(inside) for edge in graph.edges.tolist())
        for v in inside
    }
    assert found.tolist() == sorted(inside, key=lambda v: (-degree[v], v))[:7]


def test_distances_are_euclidean():
    graph = tiny_graph()
    nodes = np.array([3, 8, 1])
    found = attribute_distance(graph, nodes)
    x = np.asarray(
        graph.attributes.todense()
        if hasattr(graph.attributes, "todense")
        else graph.attributes
    )
    for i, u in enumerate(nodes):
        for j, v in enumerate(nodes):
            assert found[i, j] == pytest.approx(np.linalg.norm(x[u] - x[v]), abs=1e-6)


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_packing_keeps_three_digits(size, seed):
    matrix = np.random.default_rng(seed).random((size, size))
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
    back = unpack(json.loads(json.dumps(pack(matrix))))
    assert back.shape == matrix.shape
    assert np.abs(back - matrix).max() <= 0.5 / 999 * max(matrix.max(), 1e-9) + 1e-12


def test_models_join_one_by_one_and_are_drawn(tmp_path):
    first = lambda row: row.name == "AC"  # noqa: E731
    experiment, place = toy_results("visual", tmp_path, keep=first)
    assert [row.name for row in missing_panels(experiment, place.results)] == [
        "Gelato",
        "Neo-GNN",
    ]
    toy_results("visual", tmp_path, keep=lambda row: row.name == "Gelato")
    record = find_visual(place.results, "toy")
    assert set(record["models"]) == {"AC", "Gelato"}
    assert "enhanced" in record["models"]["Gelato"]
    (table,) = section_tables(experiment, place.results)
    assert [row[0] for row in table.rows] == ["AC", "Gelato"]
    assert list(table.missing) == ["Neo-GNN on toy"]
    (files,) = draw_figures(experiment, place.results, tmp_path / "f").values()
    assert "Neo-GNN: not recorded" in files[1].read_text()


def test_predicted_edges_are_the_best_of_all_candidates(tmp_path):
    _, place = toy_results("visual", tmp_path, keep=lambda row: row.name == "AC")
    record = find_visual(place.results, "toy")
    split = split_edges(tiny_graph())
    model = make("ac").fit(split)
    counts = evaluate(model, split).counts
    hits = {tuple(sorted(p)) for p in record["models"]["AC"]["predicted"]}
    hits &= {tuple(sorted(p)) for p in record["test_edges"]}
    # Positives with fewer than k pairs above them; the first class has some of them.
    k = counts.num_positives
    ahead = np.cumsum(counts.positives) - counts.positives + counts.above
    assert len(hits) <= int(counts.positives[ahead < k].sum())


def test_an_edited_record_is_refused(tmp_path):
    toy_results("visual", tmp_path, keep=lambda row: row.name == "AC")
    path = visual_path(tmp_path / "results", "toy")
    record = json.loads(path.read_text())
    record["models"]["AC"]["predicted"] = []
    path.write_text(json.dumps(record))
    with pytest.raises(StoredFileError, match="edited"):
        find_visual(tmp_path / "results", "toy")


def test_a_run_whose_checkpoint_is_kept_is_taken(tmp_path):
    row = Row("gelato", "tiny", {"epochs": 2}, (1, 2, 3), {})
    assert nearest_spec(row, tmp_path).seed == 1
    third = row.runs()[2]
    (tmp_path / third.name).mkdir()
    (tmp_path / third.name / "checkpoint.safetensors").touch()
    assert nearest_spec(row, tmp_path) == third
    assert nearest_spec(replace(row, seeds=()), tmp_path / "none").seed == 1
