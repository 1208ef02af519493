"""Confidence intervals: against scipy, by hand, and in how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gelato.comparison.paired import link_margin, split_margin
from gelato.ranking.counts import counts_of_scores
from gelato.ranking.resampling import (
    locate_positives,
    paired_gain,
    resampled_precision,
)

VALUES = st.lists(st.floats(0, 1), min_size=2, max_size=9)


@given(VALUES)
def test_without_overlap_it_is_the_t_interval(values):
    low, high = stats.t.interval(
        0.95, len(values) - 1, np.mean(values), stats.sem(values) or 1e-300
    )
    expected = (high - low) / 2
    assert split_margin(values, 0.0) == pytest.approx(expected, abs=1e-12)


def test_overlap_widens_by_what_nadeau_and_bengio_say():
    values = [0.1, 0.13, 0.09, 0.12]
    plain, corrected = split_margin(values, 0.0), split_margin(values, 0.2)
    assert corrected / plain == pytest.approx(math.sqrt((1 / 4 + 0.2) / (1 / 4)))
    assert split_margin(values, 0.2, 0.99) > corrected
    assert split_margin([0.3], 0.2) is None
    assert split_margin([0.3, 0.3], 0.2) == 0.0


def test_intervals_over_splits_hold_their_mean_as_often_as_they_say():
    # Splits whose numbers share what their training edges share: the correlation that
    # the correction assumes.
    rng = np.random.default_rng(0)
    test, train, k, rounds = 0.1, 0.85, 5, 4000
    shared = test / (test + train)
    both = rng.normal(size=(rounds, 1)) * math.sqrt(shared)
    drawn = both + rng.normal(size=(rounds, k)) * math.sqrt(1 - shared)
    margins = [split_margin(row, test / train) for row in drawn]
    held = np.mean(np.abs(drawn.mean(axis=1)) <= margins)
    assert held == pytest.approx(0.95, abs=0.012)
    plain = [split_margin(row, 0.0) for row in drawn]
    assert np.mean(np.abs(drawn.mean(axis=1)) <= plain) < 0.92


def test_variances_of_links_and_seeds_are_added():
    rng = np.random.default_rng(1)
    draws, seeds = rng.normal(0.2, 0.02, 200), [0.18, 0.22, 0.21]
    links = 50
    parts = {
        links - 1: np.var(draws, ddof=1) * links / (links - 1),
        len(seeds) - 1: np.var(seeds, ddof=1) / len(seeds),
    }
    total = sum(parts.values())
    freedom = total**2 / sum(v**2 / df for df, v in parts.items())
    expected = stats.t.ppf(0.975, freedom) * math.sqrt(total)
    assert link_margin(draws, links, [seeds]) == pytest.approx(expected, rel=1e-9)
    alone = link_margin(draws, links)
    assert alone == link_margin(draws, links, [[0.2]]) < expected
    assert link_margin(np.zeros(200), links) == 0.0
    assert link_margin(draws, 1) is None


def ranked(positive, negative):
    return locate_positives(counts_of_scores(positive, negative), positive)


def test_intervals_over_test_links_hold_what_other_test_links_give():
    rng = np.random.default_rng(2)
    negative = rng.normal(0, 1, 400)
    found, margins = [], []
    for _ in range(160):
        one = ranked(rng.normal(1, 1, 60), negative)
        found.append(one.average_precision(np.ones(60)))
        margins.append(link_margin(resampled_precision(one), 60))
    # What the numbers of all test sets scatter around.
    held = np.mean(np.abs(np.array(found) - np.mean(found)) <= margins)
    assert held == pytest.approx(0.95, abs=0.05)


def test_equal_draws_for_all_make_differences_paired():
    rng = np.random.default_rng(3)
    positive, negative = rng.normal(1, 1, 40), rng.normal(0, 1, 200)
    one = ranked(positive, negative)
    other = ranked(positive + rng.normal(0, 0.3, 40), negative)
    draws = resampled_precision(one) - resampled_precision(other)
    gain, error = paired_gain(one, other)
    assert np.std(draws, ddof=1) == pytest.approx(error, rel=1e-12)
    alone = [np.std(resampled_precision(each), ddof=1) for each in (one, other)]
    assert error < math.hypot(*alone)
    assert gain == pytest.approx(
        one.average_precision(np.ones(40)) - other.average_precision(np.ones(40))
    )
