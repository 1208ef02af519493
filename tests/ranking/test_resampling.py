"""Errors of average precision: the fast form against one that lists every pair."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from gelato.graph import Graph
from gelato.heuristics import common_neighbours
from gelato.ranking import metrics
from gelato.ranking.candidates import all_pairs
from gelato.ranking.counts import counts_of_scores
from gelato.ranking.resampling import (
    RankedPositives,
    paired_gain,
    rank_positives,
    resampled_precision,
)


def ranked(positive, negative):
    counts = counts_of_scores(positive, negative)
    group = [np.flatnonzero(counts.scores == score)[0] for score in positive]
    return RankedPositives(counts, np.array(group))


def drawn(seed, positives=12, negatives=60):
    rng = np.random.default_rng(seed)
    # Rounded, so that there are ties.
    return rng.normal(1, 1, positives).round(1), rng.normal(0, 1, negatives).round(1)


@pytest.mark.parametrize("seed", range(5))
def test_repeated_positives_count_as_often_as_they_are_drawn(seed):
    positive, negative = drawn(seed)
    times = np.random.default_rng(seed).integers(0, 4, len(positive))
    repeated = np.repeat(positive, times)
    labels = np.r_[np.ones(len(repeated)), np.zeros(len(negative))]
    expected = average_precision_score(labels, np.r_[repeated, negative])
    found = ranked(positive, negative).average_precision(times.astype(float))
    assert found == pytest.approx(expected, abs=1e-12)


def test_gain_is_the_difference_and_its_error_shrinks_with_more_edges():
    gains, errors = [], []
    for size in (30, 480):
        one = ranked(*drawn(1, size, 500))
        other = ranked(drawn(2, size)[0] - 0.5, drawn(2, size, 500)[1])
        gain, error = paired_gain(one, other)
        whole = np.ones(size)
        expected = one.average_precision(whole) - other.average_precision(whole)
        assert gain == expected
        gains.append(gain)
        errors.append(error)
    assert 0 < errors[1] < errors[0] / 2
    assert gains[1] > 2 * errors[1]


def test_a_pairing_cancels_what_both_share():
    positive, negative = drawn(3, 40, 300)
    one, other = ranked(positive, negative), ranked(positive * 2, negative * 2)
    assert paired_gain(one, other) == (0.0, 0.0)
    again = resampled_precision(one, seed=4)
    assert again.std() > 0
    assert np.array_equal(again, resampled_precision(one, seed=4))


def test_ranks_of_a_scorer_are_those_of_its_counts():
    rng = np.random.default_rng(0)
    edges = np.argwhere(np.triu(rng.random((40, 40)) < 0.15, 1))
    held, known = edges[::5], np.delete(edges, np.s_[::5], axis=0)
    graph = Graph.from_indices(40, known)
    found = rank_positives(common_neighbours(graph), held, all_pairs(graph, known))
    ap = found.average_precision(np.ones(len(held)))
    assert ap == pytest.approx(metrics.average_precision(found.counts))
    sizes = np.bincount(found.group, minlength=len(found.counts.scores))
    np.testing.assert_array_equal(sizes, found.counts.positives)
