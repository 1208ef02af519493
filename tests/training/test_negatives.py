from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from gelato.errors import InputError, UnknownNameError, UsageError
from gelato.kernels.deal import partition_nodes
from gelato.kernels.walk_structure import WalkStructure
from gelato.training.negatives import (
    SAMPLERS,
    AdversarialNegatives,
    BiasedNegatives,
    NegativePairs,
    PartitionedNegatives,
    PositiveBatches,
    make_sampler,
)


def random_edges(n: int, share: float, seed: int) -> np.ndarray:
    everything = np.stack(np.triu_indices(n, 1), axis=1)
    return everything[np.random.default_rng(seed).random(len(everything)) < share]


def no_scores(lists) -> np.ndarray:
    raise AssertionError("this sampler must not ask for scores")


def zero_scores(lists) -> np.ndarray:
    return np.zeros(len(lists))


def ends(structure: WalkStructure, drawn) -> list[tuple[int, int]]:
    lists = drawn.lists
    inside = np.stack([lists.rows(), lists.listed_columns()], axis=1)
    return [tuple(p) for p in np.sort(structure.outside[inside], axis=1).tolist()]


@given(n=st.integers(2, 20), share=st.floats(0, 0.9), seed=st.integers(0, 1000))
def test_numbering_lists_each_negative_once(n: int, share: float, seed: int) -> None:
    edges = random_edges(n, share, seed)
    known = {tuple(e) for e in edges.tolist()}
    expected = [p for p in itertools.combinations(range(n), 2) if p not in known]
    if not expected:
        with pytest.raises(InputError, match="no negatives"):
            NegativePairs(n, edges)
        return
    shuffled = np.random.default_rng(seed).permutation(edges)
    negatives = NegativePairs(n, shuffled)
    listed = negatives.pairs(np.arange(negatives.count))
    assert [tuple(p) for p in listed.tolist()] == expected
    assert negatives.contains(listed).all()
    assert not negatives.contains(edges).any()


@given(m=st.integers(1, 60), batches=st.integers(1, 12), epoch=st.integers(0, 5))
def test_positive_batches_partition_the_edges(m: int, batches: int, epoch: int) -> None:
    if batches > m:
        with pytest.raises(UsageError, match="batches"):
            PositiveBatches(m, batches=batches, seed=0)
        return
    dealt = PositiveBatches(m, batches=batches, seed=3)
    parts = [dealt.batch(epoch, b) for b in range(batches)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(m))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    again = PositiveBatches(m, batches=batches, seed=3)
    assert np.array_equal(again.batch(epoch, 0), parts[0])


def test_positive_batches_differ_between_epochs_and_seeds() -> None:
    dealt = PositiveBatches(100, batches=4, seed=3)
    other = PositiveBatches(100, batches=4, seed=4)
    assert not np.array_equal(dealt.batch(0, 0), dealt.batch(1, 0))
    assert not np.array_equal(dealt.batch(0, 0), other.batch(0, 0))


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_every_sampler_draws_negatives_reproducibly(name: str) -> None:
    edges = random_edges(60, 0.1, 1)
    structure = WalkStructure(60, edges)
    training = edges[::2]
    known = {tuple(e) for e in training.tolist()}
    draws = []
    for _ in range(2):
        sampler = make_sampler(name, structure, training, batches=4, seed=5)
        drawn = sampler.draw(2, 1, 20, zero_scores)
        pairs = ends(structure, drawn)
        assert not known & set(pairs)
        assert all(u < v for u, v in pairs)
        assert drawn.groups.dtype == np.int32
        assert drawn.groups.min() >= 0
        assert drawn.groups.max() < 20
        draws.append((pairs, drawn.groups.tolist()))
        if name != "unbiased":
            assert sorted(drawn.groups.tolist()) == list(range(20))
    assert draws[0] == draws[1]
    assert ends(structure, sampler.draw(3, 1, 20, zero_scores)) != draws[0][0]


@pytest.mark.parametrize("name", ["unbiased", "biased", "partitioned"])
def test_only_the_adversarial_sampler_asks_for_scores(name: str) -> None:
    edges = random_edges(40, 0.1, 1)
    sampler = make_sampler(name, WalkStructure(40, edges), edges, batches=2, seed=0)
    sampler.draw(0, 0, 5, no_scores)


def test_biased_negatives_are_uniform_and_redrawn() -> None:
    edges = random_edges(12, 0.3, 0)
    structure = WalkStructure(12, edges)
    sampler = BiasedNegatives(structure, edges, seed=0, per_positive=2)
    counts: dict = {}
    for epoch in range(800):
        drawn = sampler.draw(epoch, 0, 5, no_scores)
        pairs = ends(structure, drawn)
        assert len(set(pairs)) == 10
        assert np.bincount(drawn.groups).tolist() == [2] * 5
        for pair in pairs:
            counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == sampler.all.count
    seen = np.array(list(counts.values()))
    expected = 8000 / sampler.all.count
    statistic = ((seen - expected) ** 2 / expected).sum()
    assert chi2.sf(statistic, len(seen) - 1) > 1e-3


def test_fewer_negatives_than_positives_repeat() -> None:
    edges = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3]])
    structure = WalkStructure(4, edges)
    drawn = BiasedNegatives(structure, edges, seed=0).draw(0, 0, 5, no_scores)
    assert ends(structure, drawn) == [(2, 3)] * 5


def test_partitioned_negatives_stay_inside_communities() -> None:
    edges = random_edges(50, 0.1, 2)
    structure = WalkStructure(50, edges)
    communities = np.arange(50) % 5
    sampler = PartitionedNegatives(structure, edges, seed=0, communities=communities)
    pairs = ends(structure, sampler.draw(0, 0, 40, no_scores))
    assert len(pairs) == 40
    assert all(communities[u] == communities[v] for u, v in pairs)


@pytest.mark.parametrize("communities", [np.arange(6), np.array([0, 0, 0, 1, 2, 3])])
def test_communities_without_negatives_fall_back_to_uniform(communities) -> None:
    edges = np.array([[0, 1], [0, 2], [1, 2]])  # a clique, and single nodes
    structure = WalkStructure(6, edges)
    sampler = PartitionedNegatives(structure, edges, seed=0, communities=communities)
    pairs = ends(structure, sampler.draw(0, 0, 4, no_scores))
    assert len(pairs) == 4
    assert not set(pairs) & {(0, 1), (0, 2), (1, 2)}


def test_adversarial_negatives_follow_the_scores() -> None:
    edges = random_edges(50, 0.1, 2)
    structure = WalkStructure(50, edges)

    def score(lists) -> np.ndarray:  # high where the ends are close in number
        rows, columns = structure.outside[lists.rows()], lists.listed_columns()
        return -np.abs(rows - structure.outside[columns]) / 2.0

    def gaps(**options) -> float:
        sampler = AdversarialNegatives(structure, edges, seed=0, **options)
        pairs = ends(structure, sampler.draw(0, 0, 60, score))
        return float(np.mean([v - u for u, v in pairs]))

    uniform, hard, hardest = gaps(proposals=1), gaps(), gaps(temperature=0.01)
    assert hardest <= hard < uniform
    assert hard < 6


def test_adversarial_choice_has_the_probabilities_of_a_softmax() -> None:
    edges = np.array([[0, 1]])
    structure = WalkStructure(3, edges)  # two negatives: (0, 2) and (1, 2)

    def score(lists) -> np.ndarray:
        first = (
            structure.outside[lists.rows()],
            structure.outside[lists.listed_columns()],
        )
        return np.where(np.minimum(*first) == 0, np.log(3.0), 0.0)

    sampler = AdversarialNegatives(structure, edges, seed=0, proposals=2)
    picked = [
        ends(structure, sampler.draw(epoch, 0, 1, score))[0] for epoch in range(2000)
    ]
    share = np.mean([pair == (0, 2) for pair in picked])
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 2000)


def test_partition_finds_planted_communities_and_respects_its_bound() -> None:
    random = np.random.default_rng(0)
    planted = np.repeat(np.arange(4), 25)
    everything = np.stack(np.triu_indices(100, 1), axis=1)
    same = planted[everything[:, 0]] == planted[everything[:, 1]]
    edges = everything[random.random(len(everything)) < np.where(same, 0.5, 0.01)]
    structure = WalkStructure(100, edges)
    found = partition_nodes(structure, parts=4, seed=0)
    assert np.bincount(found).max() <= 25
    joined = found[edges[:, 0]] == found[edges[:, 1]]
    assert joined.mean() > 0.6
    assert np.array_equal(found, partition_nodes(structure, parts=4, seed=0))


def test_bad_settings() -> None:
    edges = random_edges(10, 0.3, 0)
    structure = WalkStructure(10, edges)
    with pytest.raises(UnknownNameError, match="biased"):
        make_sampler("hard", structure, edges, batches=1, seed=0)
    with pytest.raises(UsageError, match="per_positive"):
        BiasedNegatives(structure, edges, seed=0, per_positive=0)
    with pytest.raises(UsageError, match="communities"):
        PartitionedNegatives(structure, edges, seed=0, communities=np.zeros(3))
    with pytest.raises(UsageError, match="temperature"):
        AdversarialNegatives(structure, edges, seed=0, temperature=0)
