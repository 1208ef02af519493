"""Rankers grown side by side: the trees that LightGBM grows one after another."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato.stacking.folds import Fold
from gelato.stacking.ranker import RankerFit, TreeSettings, fit_rankers

lightgbm = pytest.importorskip("lightgbm")
ROWS = 210_000  # more than LightGBM looks at for its bins


def trees(text):
    return text.split("\nparameters:")[0]


@pytest.mark.slow
def test_rankers_side_by_side_are_those_grown_one_after_another():
    rng = np.random.default_rng(0)
    features = rng.random((ROWS, 2), dtype=np.float32)
    labels = rng.random(ROWS) < features[:, 0] ** 4
    weights = np.ones(ROWS)
    pairs = np.zeros((ROWS, 2), np.int64)
    fold = Fold(pairs, features, labels, weights, int(labels.sum()))
    # Another ranker grows beside it.
    less = Fold(pairs[:99], features[:99], labels[:99], weights[:99], 9)
    settings = TreeSettings(rounds=3, seeds=2)
    found = {}
    for threads in (1, 2):
        with gelato.use_threads(threads):
            fits = [
                RankerFit([some], ("a", "b"), settings, seed=7) for some in (fold, less)
            ]
            found[threads] = fit_rankers(*fits)[0]
    alone = lightgbm.Dataset(
        features,
        label=labels.astype(np.float32),
        weight=weights,
        init_score=found[1].start.scores(features),
    )
    for number in range(settings.seeds):
        grown = lightgbm.train(settings.parameters(7_000 + number), alone, 3)
        expected = trees(grown.model_to_string())
        assert trees(found[1].texts[number]) == expected
        assert trees(found[2].texts[number]) == expected
