"""Measures of plain arrays against scikit-learn and loops."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import gelato
from gelato import metrics
from gelato.errors import InputError

RNG = np.random.default_rng(3)
LABELS = RNG.random(200) < 0.2
SCORES = RNG.integers(0, 30, 200) / 7  # with ties


def test_labels_beside_scores_are_measured_as_by_scikit_learn():
    counts = gelato.metrics.from_labels(LABELS.astype(int), SCORES)
    ap, auc = metrics.average_precision(counts), metrics.area_under_roc(counts)
    assert ap == pytest.approx(average_precision_score(LABELS, SCORES))
    assert auc == pytest.approx(roc_auc_score(LABELS, SCORES))
    again = metrics.from_scores(SCORES[LABELS], SCORES[~LABELS])
    assert metrics.measures(again)["ap"] == ap


@pytest.mark.parametrize("k", [1, 5, 40])
def test_hits_are_above_the_kth_best_negative(k):
    counts = metrics.from_scores(SCORES[LABELS], SCORES[~LABELS])
    bar = np.sort(SCORES[~LABELS])[-k]
    assert metrics.hits_at(counts, k) == np.mean(SCORES[LABELS] > bar)


def test_lists_of_ones_own_are_ranked_one_by_one():
    positives, negatives = SCORES[:20], SCORES[20:180].reshape(20, 8)
    ranks = [
        1 + sum(x > p for x in row) + sum(x == p for x in row) / 2
        for p, row in zip(positives, negatives, strict=True)
    ]
    found = metrics.own_list_measures(positives, negatives)
    assert found["mrr"] == pytest.approx(np.mean([1 / rank for rank in ranks]))
    assert found["hits@3"] == np.mean([rank <= 3 for rank in ranks])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: metrics.from_labels([1, 0], [0.5]), "2 labels"),
        (lambda: metrics.from_labels([1, 2], [0.5, 1]), "place 1 is"),
        (lambda: metrics.from_labels([0, 0], [0.5, 1]), "no positives"),
        (lambda: metrics.from_scores([np.nan], [0.5]), "positives is not a number"),
        (lambda: metrics.from_scores([[1.0]], [0.5]), "1 dimension"),
        (lambda: metrics.own_list_measures([1.0], [[1.0], [2.0]]), "1 positives"),
    ],
)
def test_what_cannot_be_ranked_is_named(call, said):
    with pytest.raises(InputError, match=said):
        call()
