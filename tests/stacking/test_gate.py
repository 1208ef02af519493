"""What scores are worth, and which score is trusted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from gelato.stacking.calibration import _half, link_precision, reliability
from gelato.stacking.folds import fold_count, hidden_edges
from gelato.stacking.gate import _precisions, choose
from gelato.stacking.scorer import lifted


@given(st.integers(0, 2**16), st.integers(1, 400))
def test_precision_rises_with_the_score_and_keeps_the_total(seed, size):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(size).round(1)
    labels = rng.random(size) < 1 / (1 + np.exp(-scores))
    weights = rng.integers(1, 5, size).astype(float)
    found = link_precision(scores, labels, weights)
    assert np.all(np.diff(found.share) > 0)
    assert np.all((found.low <= found.share) & (found.share <= found.high))
    if len(found.share) == 1:
        total = (labels * weights).sum() / weights.sum()
        assert np.allclose(found.at(scores)[0], total)


def test_a_well_known_precision_is_found():
    rng = np.random.default_rng(0)
    scores = rng.uniform(-4, 4, 40_000)
    chance = 1 / (1 + np.exp(-scores))
    found = link_precision(scores, rng.random(40_000) < chance, np.ones(40_000))
    share, low, high = found.at(scores)
    assert np.abs(share - chance).mean() < 0.02
    assert np.all(low <= high)


def test_edges_that_are_held_out_do_not_count_as_false():
    rng = np.random.default_rng(0)
    chance = np.linspace(0.0, 0.6, 60_000)
    true = rng.random(60_000) < chance
    hidden = rng.random(60_000) < 0.4  # of the true ones; the others are held out
    found = link_precision(chance, true & hidden, np.ones(60_000), held_out=0.6 / 0.4)
    # Held-out edges are known by the time links are predicted, so are no candidates.
    rest = ~true | hidden
    for low in (0.1, 0.3, 0.5):
        here = rest & (chance > low) & (chance < low + 0.1)
        observed = (true & hidden)[here].mean()
        assert abs(found.at(chance[here])[0].mean() - observed) < 0.01


def test_promises_that_hold_and_promises_that_do_not():
    rng = np.random.default_rng(1)
    chance = rng.random(20_000) ** 3
    true = rng.random(20_000) < chance
    held = reliability(chance, true)
    assert len(held) == 8
    assert sum(part.pairs for part in held) == 20_000
    assert sum(part.low <= part.expected <= part.high for part in held) >= 7
    assert np.all(np.diff([part.expected for part in held]) > 0)
    vain = reliability(np.sqrt(chance), true)
    assert not any(part.low <= part.expected <= part.high for part in vain)
    # Pairs of one promise are one part, whatever it is.
    assert len(reliability(np.full(500, 0.5), true[:500])) == 1
    assert reliability(np.zeros(5), true[:5]) == []


@given(st.integers(0, 2**16))
def test_mean_precision_is_average_precision(seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(60).round(1)
    answers = rng.random(60) < 0.3
    answers[0] = True
    mine = _precisions(scores, answers, np.ones(60)).mean()
    assert np.isclose(mine, average_precision_score(answers, scores))


def judged(trees_signal, plain_signal, seed=0):
    rng = np.random.default_rng(seed)
    answers = np.arange(4_000) % 20 == 0
    noise = rng.standard_normal((4, 4_000))
    trees = trees_signal * answers + noise[0]
    plain = {
        name: np.exp(plain_signal * answers + noise[at])
        for at, name in enumerate(("ra", "ac", "ease"), 1)
    }
    return choose(trees, plain, answers, 200)


def test_the_gate_keeps_what_is_better():
    assert judged(4.0, 0.1).kind == "trees"
    assert judged(0.0, 3.0).kind in ("plain", "blend")
    assert judged(2.0, 2.0).kind == "blend"  # each knows what the other does not
    worse = judged(-1.0, 3.0)
    assert "alone" in worse.note or "added" in worse.note
    few = choose(np.zeros(5), {}, np.zeros(5, dtype=bool), 3)
    assert few.kind == "trees"


@given(st.lists(st.floats(-1e6, 600), min_size=2, max_size=30, unique=True))
def test_lifting_keeps_the_order_above_all_others(values):
    scores = np.sort(np.array(values))
    up = lifted(scores)
    assert np.all(np.diff(up) >= 0)
    assert up.min() > 1.0


def test_folds_hide_disjoint_tenths_until_there_are_enough():
    from gelato.graph import Graph

    graph = Graph.from_indices(200, [(i, i + 1) for i in range(199)])
    hidden = np.stack([hidden_edges(graph, fold, 3) for fold in range(10)])
    assert np.all(hidden.sum(axis=0) == 1)
    assert [fold_count(m) for m in (50, 4_486, 20_000, 10**6)] == [10, 9, 2, 1]


def test_halves_are_even_and_fixed():
    pairs = np.stack(np.triu_indices(100, 1), axis=1)
    half = _half(pairs, 100)
    assert 0.45 < half.mean() < 0.55
    np.testing.assert_array_equal(half, _half(pairs, 100))
