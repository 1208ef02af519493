"""Extended persistence against gudhi and against counts of components and cycles."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from gelato.baselines.tlc_gnn.images import diagram_image
from support.plain_images import component_points, image, loop_points


def ours(network, values):
    matrix = nx.to_scipy_sparse_array(network, nodelist=sorted(network), format="csr")
    matrix.sort_indices()
    bounds = matrix.indptr.astype(np.int64)
    edges = (bounds[:-1].copy(), bounds[1:].copy(), matrix.indices.astype(np.int64))
    made = np.full(25, np.nan)
    diagram_image(np.array([values[w] for w in sorted(network)]), edges, made)
    return made


def drawn(seed):
    """Return a connected graph and values of nodes, some of them equal."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 14))
    made = nx.gnp_random_graph(n, random.uniform(0.2, 0.8), seed=seed)
    made = nx.convert_node_labels_to_integers(
        made.subgraph(max(nx.connected_components(made), key=len))
    )
    values = random.random(len(made))
    if seed % 2:
        values = np.round(values * 4) / 4
    return made, dict(enumerate(values.tolist()))


def gudhi_points(network, values):
    gudhi = pytest.importorskip(
        "gudhi", reason="gudhi, an oracle of tests, is not installed"
    )
    tree = gudhi.SimplexTree()
    for w in network:
        tree.insert([w], filtration=values[w])
    for a, b in network.edges:
        tree.insert([a, b], filtration=max(values[a], values[b]))
    tree.extend_filtration()
    ordinary, _, essential, loops = tree.extended_persistence(min_persistence=1e-12)
    points = [point for _, point in (*ordinary, *essential)]
    return points + [(min(point), max(point)) for _, point in loops]


@pytest.mark.parametrize("seed", range(24))
def test_is_that_of_gudhi(seed):
    network, values = drawn(seed)
    expected = image(gudhi_points(network, values))
    np.testing.assert_allclose(ours(network, values), expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_is_that_of_counting(seed):
    network, values = drawn(seed)
    points = component_points(network, values) + loop_points(network, values)
    np.testing.assert_allclose(ours(network, values), image(points), atol=1e-12)


def test_points_of_a_square():
    """One loop from its lowest to its highest node; nothing else but the whole."""
    network = nx.cycle_graph(4)
    values = {0: 0.0, 1: 0.5, 2: 1.0, 3: 0.25}
    found = ours(network, values)
    np.testing.assert_allclose(found, image([(0.0, 1.0), (0.0, 1.0)]), atol=1e-12)
    # Two minima meet at 0.75: the later one dies there.
    values = {0: 0.0, 1: 0.75, 2: 0.5, 3: 1.0}
    expected = image([(0.0, 1.0), (0.5, 0.75), (0.0, 1.0)])
    np.testing.assert_allclose(ours(network, values), expected, atol=1e-12)


def test_equal_values_have_no_image():
    assert not ours(nx.complete_graph(5), dict.fromkeys(range(5), 0.3)).any()
