"""Near pairs against powers of the adjacency matrix; how they are dealt."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gelato.errors import UsageError
from gelato.kernels import deal as near_negatives
from gelato.kernels.chunks import use_threads
from gelato.kernels.deal import HashDealer, NearDealer, near_rate, node_keys
from gelato.kernels.near_pairs import NearPairs, near_bits
from gelato.kernels.walk_structure import WalkStructure


def draw(n, share, seed, loops):
    """Return a structure and its training edges; the rest are similarity pairs."""
    random = np.random.default_rng(seed)
    everything = np.stack(np.triu_indices(n, 1), axis=1)
    edges = everything[random.random(len(everything)) < share]
    structure = WalkStructure(n, edges, self_loops=loops)
    return structure, edges[random.random(len(edges)) < 0.7]


def joined_dense(structure, t):
    """Tell by a matrix power which pairs a walk of t edges joins."""
    n = structure.num_nodes
    matrix = np.eye(n, dtype=np.int64) * (structure.self_loops == "all")
    u, v = structure.edges.T
    matrix[u, v] = matrix[v, u] = 1
    power = np.eye(n, dtype=np.int64)
    for _ in range(t):
        power = ((power @ matrix) > 0).astype(np.int64)
    return power > 0


def near_negatives_of(structure, training, t):
    joined = joined_dense(structure, t)
    known = {tuple(edge) for edge in training.tolist()}
    everything = itertools.combinations(range(structure.num_nodes), 2)
    return {pair for pair in everything if joined[pair] and pair not in known}


def outside(structure, lists):
    ends = np.stack([lists.rows(), lists.listed_columns()], axis=1)
    return [tuple(p) for p in np.sort(structure.outside[ends], axis=1).tolist()]


structures = st.builds(
    draw,
    st.integers(2, 25),
    st.sampled_from([0.0, 0.05, 0.15, 0.5]),
    st.integers(0, 10_000),
    st.sampled_from(["isolated", "all"]),
)


@given(graph=structures, t=st.integers(1, 5), threads=st.sampled_from([1, 3]))
def test_near_pairs_are_those_of_the_matrix_power(graph, t, threads):
    structure, training = graph
    n = structure.num_nodes
    with use_threads(threads):
        near = NearPairs(structure, training, t=t)
    expected = near_negatives_of(structure, training, t)
    assert near.count == near.row_counts.sum() == len(expected)
    assert near.num_far == n * (n - 1) // 2 - len(training) - len(expected)
    everything = np.stack(np.triu_indices(n, 1), axis=1)
    joined = joined_dense(structure, t)[tuple(everything.T)]
    np.testing.assert_array_equal(near.contains(everything), joined)
    np.testing.assert_array_equal(near.contains(everything[:, ::-1]), joined)


@given(graph=structures, t=st.integers(1, 5), threads=st.sampled_from([1, 3]))
def test_bits_are_those_of_the_matrix_power(graph, t, threads):
    structure, _ = graph
    n = structure.num_nodes
    with use_threads(threads):
        bits = near_bits(structure, t)
    as_bytes = bits.astype("<u8").view(np.uint8)
    found = np.unpackbits(as_bytes, axis=1, bitorder="little")[:, :n].astype(bool)
    joined = joined_dense(structure, t)[np.ix_(structure.outside, structure.outside)]
    np.fill_diagonal(joined, True)
    np.testing.assert_array_equal(found, np.triu(joined))


def test_bits_of_many_nodes_are_not_kept(monkeypatch):
    structure = WalkStructure(100, np.array([[0, 1]]))
    monkeypatch.setattr("gelato.kernels.near_pairs._MOST_BYTES", 1599)
    assert near_bits(structure, 3) is None
    monkeypatch.setattr("gelato.kernels.near_pairs._MOST_BYTES", 1600)
    assert near_bits(structure, 3) is not None


@given(graph=structures, t=st.integers(1, 4), batches=st.integers(1, 5))
def test_near_negatives_are_dealt_as_the_plain_dealer_does(graph, t, batches):
    """Same batch and same positive for each, and every one exactly once an epoch."""
    structure, training = graph
    near = NearPairs(structure, training, t=t)
    ours = NearDealer(near, batches=batches, seed=4)
    plain = HashDealer(structure, training, batches=batches, seed=4)
    expected = near_negatives_of(structure, training, t)
    assert ours.rate == 1
    assert ours.listed == len(expected)
    seen = []
    for epoch, batch in itertools.product((1, 2), range(batches)):
        lists, every = ours.batch(epoch, batch), plain.batch(epoch, batch)
        groups = ours.groups(epoch, lists, 3)
        theirs = plain.groups(epoch, every, 3)
        fates = dict(zip(outside(structure, every), theirs.tolist(), strict=True))
        pairs = outside(structure, lists)
        assert {p: g for p, g in fates.items() if p in expected} == dict(
            zip(pairs, groups.tolist(), strict=True)
        )
        seen += pairs
    assert sorted(seen) == sorted([*expected, *expected])


def test_a_share_of_the_near_pairs_is_uniform_and_fixed_for_the_run():
    structure, training = draw(150, 0.02, 1, "isolated")
    near = NearPairs(structure, training, t=3)
    dealer = NearDealer(near, batches=2, seed=7, rate=0.3)
    first, second = (
        sorted(p for b in (0, 1) for p in outside(structure, dealer.batch(e, b)))
        for e in (1, 2)
    )
    assert first == second
    assert len(set(first)) == dealer.listed
    spread = np.sqrt(near.count * 0.3 * 0.7)
    assert abs(dealer.listed - 0.3 * near.count) < 5 * spread
    other = NearDealer(near, batches=2, seed=8, rate=0.3)
    assert outside(structure, other.batch(1, 0)) != outside(
        structure, dealer.batch(1, 0)
    )


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_neither_threads_nor_earlier_epochs_change_a_list(rate):
    structure, training = draw(120, 0.03, 2, "all")
    lists = []
    for threads, before in ((1, ()), (4, (1, 5))):
        with use_threads(threads):
            near = NearPairs(structure, training, t=3)
        dealer = NearDealer(near, batches=3, seed=0, rate=rate)
        for epoch in before:
            dealer.batch(epoch, 0)
        found = dealer.batch(3, 1)
        lists.append((found.rows(), found.listed_columns(), dealer.groups(3, found, 5)))
    for one, two in zip(*lists, strict=True):
        np.testing.assert_array_equal(one, two)


def test_room_is_made_where_more_pairs_than_expected_are_listed():
    """Equal keys list nothing or everything, far from the share that was expected."""
    structure, training = draw(60, 0.05, 3, "isolated")
    near = NearPairs(structure, training, t=3)
    same = np.zeros(60, np.int64)
    listed = {
        int(near.keep(0.2, node_keys(0, epoch, same))[1].sum()) for epoch in range(20)
    }
    assert listed == {0, near.count}


def test_the_rate_fits_the_memory(monkeypatch):
    assert near_rate(1000, 2, None) == 1
    assert near_rate(4 * near_negatives.MOST_LISTED, 4, None) == 0.25
    assert near_rate(0, 2, None) == 1
    assert near_rate(1000, 2, 0.5) == 0.5
    monkeypatch.setattr(near_negatives, "BYTE_BUDGET", 3000)
    with pytest.raises(UsageError, match=r"near_rate=0.75") as caught:
        near_rate(1000, 2, 1.0)
    assert "near_rate 1 of 1,000" in str(caught.value)


def test_bad_batches_and_seeds_are_refused():
    structure, training = draw(20, 0.1, 0, "isolated")
    near = NearPairs(structure, training, t=3)
    for bad in ({"batches": 0, "seed": 0}, {"batches": 2, "seed": -1}):
        with pytest.raises(UsageError):
            NearDealer(near, **bad)
    with pytest.raises(UsageError, match="batch 2"):
        NearDealer(near, batches=2, seed=0).batch(1, 2)
