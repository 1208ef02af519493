"""Largest flows against scipy's, on random networks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import maximum_flow

from gelato.baselines.tlc_gnn.curvature import (
    SINK,
    SOURCE,
    UNLIMITED,
    add_arc,
    empty_network,
    flow_workspace,
    max_flow,
)


def build(nodes, arcs):
    network = empty_network(nodes, 2 * len(arcs) + 2)
    network[0][:] = -1
    count = 0
    for tail, tip, room in arcs:
        count = add_arc(network, count, tail, tip, room)
    return network


@st.composite
def networks(draw):
    nodes = draw(st.integers(2, 9))
    places = [(a, b) for a in range(nodes) for b in range(nodes) if a != b]
    chosen = draw(st.lists(st.sampled_from(places), unique=True, max_size=30))
    rooms = draw(
        st.lists(st.integers(0, 12), min_size=len(chosen), max_size=len(chosen))
    )
    return nodes, [(a, b, room) for (a, b), room in zip(chosen, rooms, strict=True)]


@settings(max_examples=60, deadline=None)
@given(networks())
def test_is_that_of_scipy_and_ends_at_a_smallest_cut(given_network):
    nodes, arcs = given_network
    matrix = np.zeros((nodes, nodes), np.int32)
    for tail, tip, room in arcs:
        matrix[tail, tip] = room
    expected = maximum_flow(sp.csr_array(matrix), SOURCE, SINK).flow_value
    work = flow_workspace(nodes)
    assert max_flow(build(nodes, arcs), nodes, UNLIMITED, work) == expected
    inside = work[0][:nodes] >= 0
    assert inside[SOURCE]
    assert not inside[SINK]
    assert matrix[np.ix_(inside, ~inside)].sum() == expected


@pytest.mark.parametrize("wanted", [0, 3, 5])
def test_stops_at_what_is_wanted_or_possible(wanted):
    network = build(3, [(SOURCE, 2, 5), (2, SINK, UNLIMITED)])
    assert max_flow(network, 3, wanted, flow_workspace(3)) == (5 if wanted else 0)
