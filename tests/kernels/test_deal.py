from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from gelato.errors import UsageError
from gelato.kernels.chunks import use_threads
from gelato.kernels.deal import HashDealer
from gelato.kernels.walk_structure import WalkStructure


def dealer_of(n: int, share: float, seed: int, **options) -> tuple[HashDealer, set]:
    random = np.random.default_rng(seed)
    everything = np.stack(np.triu_indices(n, 1), axis=1)
    edges = everything[random.random(len(everything)) < share]
    training = edges[: len(edges) - len(edges) // 4]  # the rest: similarity pairs
    structure = WalkStructure(n, edges)
    dealer = HashDealer(structure, training, seed=seed, **options)
    negatives = set(itertools.combinations(range(n), 2))
    return dealer, negatives - {tuple(pair) for pair in training.tolist()}


def listed(dealer: HashDealer, epoch: int, batch: int) -> list[tuple[int, int]]:
    lists = dealer.batch(epoch, batch)
    outside = dealer.structure.outside
    ends = outside[np.stack([lists.rows(), lists.listed_columns()], axis=1)]
    return [tuple(pair) for pair in np.sort(ends, axis=1).tolist()]


@given(
    n=st.integers(2, 30),
    share=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 1000),
    batches=st.integers(1, 7),
    budget=st.sampled_from([0, 1 << 20]),
)
def test_each_epoch_is_a_partition_of_all_negatives(
    n: int, share: float, seed: int, batches: int, budget: int
) -> None:
    dealer, negatives = dealer_of(n, share, seed, batches=batches, byte_budget=budget)
    assert dealer.num_negatives == len(negatives)
    for epoch in (0, 3):
        drawn = [pair for b in range(batches) for pair in listed(dealer, epoch, b)]
        assert len(drawn) == len(set(drawn))
        assert set(drawn) == negatives


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("budget", [0, 1 << 30])
def test_stored_and_rehashed_batches_are_the_same_on_any_threads(
    threads: int, budget: int
) -> None:
    plain, _ = dealer_of(300, 0.05, 1, batches=10)
    other, _ = dealer_of(300, 0.05, 1, batches=10, byte_budget=budget)
    assert other.stores_epochs == (budget > 0)
    for epoch, batch in [(0, 0), (0, 9), (4, 3)]:
        ours = plain.batch(epoch, batch)
        with use_threads(threads):
            theirs = other.batch(epoch, batch)
        assert np.array_equal(ours.offsets, theirs.offsets)
        assert np.array_equal(ours.listed_columns(), theirs.listed_columns())
        ours_groups = plain.groups(epoch, ours, 37)
        assert np.array_equal(ours_groups, other.groups(epoch, theirs, 37))


def test_hash_depends_on_seed_and_epoch_and_not_on_inside_labels() -> None:
    n = 60
    star = np.stack([np.zeros(n - 1, np.int64), np.arange(1, n)], axis=1)
    path = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    training = np.array([[3, 4]])
    fates = []
    for edges in (star, path):
        structure = WalkStructure(n, np.unique(np.r_[edges, training], axis=0))
        dealer = HashDealer(structure, training, batches=4, seed=9)
        fates.append([set(listed(dealer, 2, b)) for b in range(4)])
    assert fates[0] == fates[1]
    other_epoch = set(listed(dealer, 3, 0))
    reseeded = HashDealer(structure, training, batches=4, seed=10)
    assert fates[0][0] != other_epoch
    assert fates[0][0] != set(listed(reseeded, 2, 0))


def chi_square_p(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1))


@pytest.mark.parametrize("seed", range(5))
def test_batches_groups_and_their_combination_are_uniform(seed: int) -> None:
    dealer, _ = dealer_of(700, 0.01, seed, batches=10)
    joint = np.zeros((10, 50))
    for batch in range(10):
        lists = dealer.batch(0, batch)
        joint[batch] = np.bincount(dealer.groups(0, lists, 50), minlength=50)
    # Seeds are fixed: a sound hash passes all of these, a biased one fails.
    assert chi_square_p(joint.sum(axis=1)) > 1e-3
    assert chi_square_p(joint.sum(axis=0)) > 1e-3
    assert chi_square_p(joint.ravel()) > 1e-3


def test_consecutive_epochs_deal_independently() -> None:
    dealer, _ = dealer_of(500, 0.01, 3, batches=5)
    fate = [
        {pair: b for b in range(5) for pair in listed(dealer, epoch, b)}
        for epoch in (7, 8)
    ]
    joint = np.zeros((5, 5))
    for pair, batch in fate[0].items():
        joint[batch, fate[1][pair]] += 1
    assert chi_square_p(joint.ravel()) > 1e-3


def test_nodes_share_no_pattern_across_rows() -> None:
    # Rows u and w must deal the same column v independently.
    dealer, _ = dealer_of(400, 0.0, 1, batches=2)
    batch_of = np.zeros((400, 400), np.int64)
    lists = dealer.batch(0, 1)
    batch_of[lists.rows(), lists.listed_columns()] = 1
    same = [(batch_of[u, 300:] == batch_of[u + 1, 300:]).mean() for u in range(200)]
    assert abs(np.mean(same) - 0.5) < 4 * 0.5 / np.sqrt(200 * 100)


def test_dealer_refuses_bad_settings() -> None:
    structure = WalkStructure(3, np.array([[0, 1]]))
    with pytest.raises(UsageError, match="batches"):
        HashDealer(structure, structure.edges, batches=0, seed=0)
    with pytest.raises(UsageError, match="seed"):
        HashDealer(structure, structure.edges, batches=1, seed=-1)
    with pytest.raises(UsageError, match="batch 5"):
        HashDealer(structure, structure.edges, batches=2, seed=0).batch(0, 5)
