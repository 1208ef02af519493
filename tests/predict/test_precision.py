"""Expected precision against rankings where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from gelato.errors import InputError
from gelato.predict.precision import (
    _non_increasing,
    precision_curve,
    ranks_at_least,
)
from gelato.ranking.counts import counts_of_scores


def ranking(rng, size, rate):
    """A list of candidates, best first, each true with a chance that falls by rank."""
    chance = rate * np.exp(-np.arange(size) / (0.02 * size))
    return rng.random(size) < chance


def counts_of(truth):
    scores = -np.arange(len(truth), dtype=float)
    return counts_of_scores(scores[truth], scores[~truth])


def test_it_foretells_the_precision_of_another_list_of_the_same_kind():
    rng = np.random.default_rng(1)
    curve = precision_curve(counts_of(ranking(rng, 60_000, 0.6)))
    # A third as many candidates, so that the same shares are other ranks.
    later = [ranking(rng, 20_000, 0.6) for _ in range(20)]
    for rank in (50, 200, 400, 1000, 5000, 20_000):
        true = np.mean([truth[:rank].mean() for truth in later])
        assert curve.at([rank], 20_000)[0] == pytest.approx(true, rel=0.1)


def test_hidden_edges_that_were_not_ranked_are_put_right_by_their_share():
    rng = np.random.default_rng(2)
    truth = ranking(rng, 60_000, 0.6)
    ranked = truth & (rng.random(len(truth)) < 1 / 3)
    scaled = precision_curve(counts_of(ranked), hidden=int(truth.sum()))
    plain = precision_curve(counts_of(ranked))
    for rank in (300, 1000, 5000, 60_000):
        true = truth[:rank].mean()
        assert scaled.at([rank], 60_000)[0] == pytest.approx(true, rel=0.2)
        assert plain.at([rank], 60_000)[0] < 0.6 * true


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=40),
    st.lists(st.integers(0, 6), max_size=60),
    st.floats(1, 5),
)
def test_it_never_rises_and_stays_a_share(positives, negatives, scale):
    counts = counts_of_scores(np.array(positives, float), np.array(negatives, float))
    curve = precision_curve(counts, hidden=round(scale * len(positives)))
    total = len(positives) + len(negatives)
    assert curve.num_candidates == total
    expected = curve.at(np.arange(1, 3 * total), 2 * total)
    assert np.all(np.diff(expected) <= 1e-12)
    assert expected.min() > 0
    assert expected.max() <= 1


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 9)), min_size=1, max_size=30))
def test_pooling_is_isotonic_regression(points):
    values, weights = np.array(points, dtype=float).T
    fit = IsotonicRegression(increasing=False)
    theirs = fit.fit(np.arange(len(values)), values, weights).predict(
        np.arange(len(values))
    )
    np.testing.assert_allclose(_non_increasing(values, weights), theirs, atol=1e-9)


def test_a_lucky_first_place_promises_nothing():
    truth = np.zeros(1000, dtype=bool)
    truth[[0, *range(100, 1000, 50)]] = True
    curve = precision_curve(counts_of(truth))
    tenth = np.flatnonzero(truth)[9] + 1
    assert curve.at([1], 1000)[0] == pytest.approx(10 / tenth, rel=0.01)
    few = precision_curve(counts_of(truth[:200]))
    assert few.at([1], 200)[0] == pytest.approx(3 / 151)


def test_behind_the_last_edge_the_share_goes_on_falling():
    truth = np.arange(1000) < 20
    curve = precision_curve(counts_of(truth))
    np.testing.assert_allclose(curve.at([20, 40, 1000], 1000), [1, 0.5, 0.02])


def test_ranks_take_ties_together():
    counts = counts_of_scores(np.array([3.0, 2.0, 2.0]), np.array([4.0, 2.0, 1.0]))
    ranks = ranks_at_least(counts, np.array([2.0, 3.0]))
    assert ranks.tolist() == [5, 2]


def test_no_positives_are_refused():
    with pytest.raises(InputError, match="no positives"):
        precision_curve(counts_of(np.zeros(5, dtype=bool)))
