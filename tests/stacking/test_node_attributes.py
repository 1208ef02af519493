"""Attributes as factors, for the graph they were found on and for later nodes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gelato.graph import Graph
from gelato.stacking.node_attributes import AttributeBasis, node_attributes


def graph_of(attributes):
    return Graph.from_indices(attributes.shape[0], [(0, 1)], attributes=attributes)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_basis_gives_the_factors_of_its_graph_and_of_later_nodes(kind):
    rng = np.random.default_rng(0)
    values = rng.random((60, 21))
    if kind == "sparse":
        values = (values < 0.2) * 1.0
    graph = graph_of(sp.csr_array(values) if kind == "sparse" else values)
    basis = AttributeBasis.of(graph)
    found = basis.factors(graph)
    assert found.shape == (60, 24)  # a multiple of 4
    own = node_attributes(graph).factors
    np.testing.assert_allclose(found @ found.T, own @ own.T, atol=1e-5)
    later = np.concatenate([values, values[:2]])
    np.testing.assert_allclose(
        basis.factors(graph_of(later))[60:], found[:2], atol=1e-6
    )


def test_attributes_that_tell_nothing_have_no_directions():
    assert AttributeBasis.of(graph_of(np.ones((5, 3)))).directions.shape == (3, 0)
    assert AttributeBasis.of(Graph.from_indices(3, [(0, 1)])).directions.shape == (0, 0)
