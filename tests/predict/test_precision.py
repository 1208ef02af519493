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
    pooled,
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
    later = np.array([ranking(rng, 20_000, 0.6) for _ in range(50)])
    for rank in (50, 200, 400, 1000, 5000, 20_000):
        down_to = later[:, :rank].mean()
        assert curve.up_to([rank], 20_000)[0] == pytest.approx(down_to, rel=0.1)
    for rank in (200, 400, 800):
        around = later[:, rank - 50 : rank + 50].mean()
        share, low, high = curve.at([rank], 20_000)[:, 0]
        assert share == pytest.approx(around, rel=0.3)
        assert low < around < high


def test_the_top_is_told_from_what_follows():
    """Ten sure links and then one in a hundred: the best are not worth the average."""
    truth = np.zeros(20_000, dtype=bool)
    truth[:10] = truth[10:10_000:100] = True
    curve = precision_curve(counts_of(truth))
    shares, low, high = curve.at([1, 5, 10, 200, 5000], 20_000)
    assert shares[:2].min() > 0.9
    np.testing.assert_allclose(shares[3:], 0.01, rtol=0.3)
    assert np.all(low <= shares)
    assert np.all(shares <= high)
    assert low[0] > 0.4  # five of five
    assert curve.up_to([200], 20_000)[0] == pytest.approx(12 / 200, rel=0.2)


def test_intervals_hold_what_they_promise():
    """Of lists drawn alike, nearly all intervals hold the share of their step."""
    rng = np.random.default_rng(3)
    chance = 0.6 * np.exp(-np.arange(20_000) / 400)
    held = []
    for _ in range(100):
        curve = precision_curve(counts_of(rng.random(20_000) < chance))
        ends = curve.bounds.astype(int)
        true = np.add.reduceat(chance, np.r_[0, ends[:-1]]) / np.diff(ends, prepend=0)
        held.append((curve.low <= true) & (true <= curve.high))
    assert 0.85 < np.concatenate(held).mean() < 1


def test_hidden_edges_that_were_not_ranked_are_put_right_by_their_share():
    rng = np.random.default_rng(2)
    truth = ranking(rng, 60_000, 0.6)
    ranked = truth & (rng.random(len(truth)) < 1 / 3)
    scaled = precision_curve(counts_of(ranked), hidden=int(truth.sum()))
    plain = precision_curve(counts_of(ranked))
    for rank in (300, 1000, 5000, 60_000):
        true = truth[:rank].mean()
        assert scaled.up_to([rank], 60_000)[0] == pytest.approx(true, rel=0.2)
        assert plain.up_to([rank], 60_000)[0] < 0.6 * true


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
    ranks = np.arange(1, 2 * total + 1)
    expected, low, high = curve.at(ranks, 2 * total)
    for falling in (expected, curve.up_to(ranks, 2 * total)):
        assert np.all(np.diff(falling) <= 1e-12)
        assert falling.min() > 0
        assert falling.max() <= 1 + 1e-12
    assert np.all((low <= expected) & (expected <= high))


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
    fifth = np.flatnonzero(truth)[4] + 1
    assert curve.at([1], 1000)[0, 0] == pytest.approx(5 / fifth, rel=0.05)
    few = precision_curve(counts_of(truth[:200]))
    assert few.at([1], 200)[0, 0] == pytest.approx(3 / 200)


def test_all_that_is_left_is_in_the_last_band():
    truth = np.arange(1000) < 20
    curve = precision_curve(counts_of(truth))
    np.testing.assert_allclose(curve.at([15, 16, 1000], 1000)[0], [1, 5 / 985, 5 / 985])
    assert curve.up_to([1000], 1000)[0] == pytest.approx(0.02)


def test_ranks_take_ties_together():
    counts = counts_of_scores(np.array([3.0, 2.0, 2.0]), np.array([4.0, 2.0, 1.0]))
    ranks = ranks_at_least(counts, np.array([2.0, 3.0]))
    assert ranks.tolist() == [5, 2]


def test_no_positives_are_refused():
    with pytest.raises(InputError, match="no positives"):
        precision_curve(counts_of(np.zeros(5, dtype=bool)))


def test_equal_lists_pooled_tell_the_same_with_less_doubt():
    rng = np.random.default_rng(0)
    one = counts_of_scores(rng.normal(2.0, 1.0, 60), rng.normal(size=4000))
    alone, together = precision_curve(one), precision_curve(pooled([one] * 4))
    assert together.num_candidates == 4 * alone.num_candidates
    ranks = np.array([3, 40, 400, 3000])
    (_, low, high), (share, lower, higher) = (
        curve.at(ranks, 4060) for curve in (alone, together)
    )
    # There are more bands, which are narrower; what they hold together is the same.
    assert together.up_to([4060], 4060) == pytest.approx(alone.up_to([4060], 4060))
    assert ((share >= low) & (share <= high))[:3].all()
    assert (higher - lower < high - low).mean() >= 0.5


@given(st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=6), min_size=2))
def test_pooled_counts_are_those_of_a_plain_loop(lists):
    negatives = np.arange(9) + 0.5
    parts = [counts_of_scores(np.array(x, float), negatives) for x in lists]
    counts = pooled(parts)
    ranks = sorted(
        int((negatives > x).sum()) + sum(y >= x for y in one)
        for one in lists
        for x in one
    )
    distinct = sorted(set(ranks))
    at_least = np.cumsum(counts.positives) + counts.above + counts.tied
    assert counts.positives.tolist() == [ranks.count(rank) for rank in distinct]
    assert at_least.tolist() == [len(lists) * rank for rank in distinct]
    assert counts.num_positives == sum(map(len, lists))
    assert counts.num_negatives == 9 * len(lists)
