"""Numbers are scaled, so that no column drowns the others; new nodes alike."""

import numpy as np
import pytest

import gelato
from gelato.io import read_npz, write_npz
from gelato.io.attributes import find_scale, rescale, scaled, unscaled

EDGES = [(f"n{k}", f"n{k + 1}") for k in range(29)]
YEARS = {
    "id": [f"n{k}" for k in range(30)],
    "year": [1990 + k for k in range(30)],
    "income": [1000.0 * (k + 1) ** 3 for k in range(30)],
    "team": ["red", "blue", "green"] * 10,
}


def test_no_column_has_most_of_the_squared_length():
    graph = gelato.read_graph(EDGES, YEARS)
    squares = np.square(np.asarray(graph.attributes, dtype=float)).sum(axis=0)
    of = dict(zip(graph.attribute_names, squares / squares.sum(), strict=True))
    assert of["year"] < 0.3
    assert of["income"] < 0.5
    assert not any("squared length" in note for note in graph.notes)
    kept = gelato.read_graph(EDGES, YEARS, encode={"year": "numeric-raw"})
    place = kept.attribute_names.index("year")
    assert kept.attributes[:3, place].tolist() == [1990, 1991, 2000]  # n0, n1, n10


def test_zeros_and_ones_and_counts_stay_sparse():
    assert find_scale(np.array([0.0, 1.0, 1.0])) is None
    counts = np.array([0.0] * 8 + [3.0, 5.0])
    assert scaled(counts, find_scale(counts))[:8].tolist() == [0] * 8


@pytest.mark.parametrize("values", [[5.0, 7, 9, 1000], [-2.0, 0, 0, 0, 4], [3.0, 3]])
def test_scaling_is_bounded_and_can_be_undone(values):
    values = np.array(values)
    scale = find_scale(values)
    assert np.abs(scaled(values, scale)).max() < 3
    assert unscaled(scaled(values, scale), scale) == pytest.approx(values, rel=1e-4)


def test_scales_are_stored_and_used_again(tmp_path):
    known = gelato.read_graph(EDGES, YEARS)
    back = read_npz(write_npz(known, tmp_path / "graph.npz"))
    assert back.reading["scales"]["year"] == [2004.5, 14.5]
    newer = {name: values[5:] for name, values in YEARS.items()}
    later = gelato.read_graph(EDGES[5:], newer)
    assert later.reading["scales"]["year"] != [2004.5, 14.5]
    alike = rescale(later, like=back)
    column = known.attribute_names.index("year")
    old = dict(zip(known.node_ids, known.attributes[:, column], strict=True))
    new = dict(zip(alike.node_ids, alike.attributes[:, column], strict=True))
    assert all(new[node] == pytest.approx(old[node], abs=1e-5) for node in new)
    assert any("scaled as in the first graph: year" in note for note in alike.notes)


def test_a_model_sees_new_nodes_as_it_saw_the_old_ones():
    known = gelato.read_graph(EDGES, YEARS)
    model = gelato.make("cos").fit(known)
    more = {
        name: [*values, extra]
        for (name, values), extra in zip(
            YEARS.items(), ["n30", 2300, 1e9, "red"], strict=True
        )
    }
    newer = model.with_graph(gelato.read_graph([*EDGES, ("n29", "n30")], more))
    column = known.attribute_names.index("year")
    place = known.index_of("n3"), newer.graph_.index_of("n3")
    before, after = known.attributes[place[0]], newer.graph_.attributes[place[1]]
    assert after[column] == pytest.approx(before[column], abs=1e-5)


def test_benchmark_graphs_and_matrices_are_not_scaled():
    citeseer = gelato.load_dataset("citeseer")
    assert citeseer.reading is None
    assert set(np.unique(citeseer.attributes.data)) == {1.0}
    matrix = np.array([[1990.0, 3], [2000, 4]])
    assert gelato.read_graph([(0, 1)], matrix).attributes.tolist() == matrix.tolist()
