from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from gelato.errors import UnknownNameError, UsageError
from gelato.nn.losses import LOSSES, NPairLoss, make_loss, n_pair_terms


def batch(seed: int, positives: int, negatives: int, scale: float = 1.0):
    random = np.random.default_rng(seed)
    return (
        torch.from_numpy(random.standard_normal(positives) * scale),
        torch.from_numpy(random.standard_normal(negatives) * scale),
        random.integers(0, positives, negatives).astype(np.int32),
    )


def slow_n_pair(positives, negatives, groups) -> float:
    total = 0.0
    for i, positive in enumerate(positives.tolist()):
        own = negatives[groups == i].tolist()
        total += math.log(1 + sum(math.exp(z - positive) for z in own))
    return total / (len(positives) + len(negatives))


@given(st.integers(0, 1000), st.integers(1, 9), st.integers(0, 60))
def test_n_pair_equals_the_obvious_sum(seed: int, p: int, k: int) -> None:
    positives, negatives, groups = batch(seed, p, k)
    loss = NPairLoss()(positives, negatives, groups)
    expected = slow_n_pair(positives, negatives, groups)
    assert float(loss) == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 1000), st.integers(1, 50))
def test_n_pair_with_one_negative_each_is_the_pairwise_logistic_loss(
    seed: int, p: int
) -> None:
    positives, negatives, _ = batch(seed, p, p, scale=5.0)
    groups = np.arange(p).astype(np.int32)
    ours = NPairLoss()(positives, negatives, groups) * 2  # over pairs of pairs
    theirs = np.logaddexp(0, (negatives - positives).numpy()).mean()
    assert float(ours) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_gradcheck(name: str) -> None:
    positives, negatives, groups = batch(3, 5, 30)
    loss = make_loss(name).double()
    inputs = (positives.requires_grad_(), negatives.requires_grad_())
    assert torch.autograd.gradcheck(lambda p, n: loss(p, n, groups), inputs)


@pytest.mark.parametrize("name", sorted(LOSSES))
@given(
    scores=st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=12),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_finite_for_extreme_scores(name: str, scores: list, dtype) -> None:
    values = torch.tensor(scores, dtype=dtype, requires_grad=True)
    groups = (np.arange(len(scores) - 2) % 2).astype(np.int32)
    loss = make_loss(name)(values[:2], values[2:], groups)
    (gradient,) = torch.autograd.grad(loss, values)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    assert float(loss.detach()) >= -1e-6 * 1e6


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_better_rankings_cost_less(name: str) -> None:
    positives, negatives, groups = batch(0, 5, 40)
    loss = make_loss(name)
    assert loss(positives + 2, negatives, groups) < loss(positives, negatives, groups)


def test_scale_and_dot_of_the_terms() -> None:
    positives, negatives, groups = batch(1, 4, 30)
    plain = n_pair_terms(positives.numpy() / 3, negatives.numpy() / 3, groups)
    scaled = n_pair_terms(positives.numpy(), negatives.numpy(), groups, scale=1 / 3)
    assert scaled[0] == pytest.approx(plain[0])
    np.testing.assert_allclose(scaled[1], plain[1])
    np.testing.assert_allclose(scaled[2], plain[2])
    dot = scaled[1] @ positives.numpy() + scaled[2] @ negatives.numpy()
    assert scaled[3] == pytest.approx(dot)


def test_a_score_that_is_not_a_number_is_not_hidden() -> None:
    positives, negatives, groups = batch(1, 4, 30)
    negatives[3] = float("nan")
    assert torch.isnan(NPairLoss()(positives, negatives, groups))


def test_cross_entropy_is_the_mean_over_all_pairs_and_learns_its_unit() -> None:
    positives, negatives, groups = batch(2, 6, 20)
    loss = make_loss("cross-entropy").double()
    labels = torch.cat([torch.ones(6), torch.zeros(20)]).double()
    scores = torch.cat([positives, negatives])
    expected = functional.binary_cross_entropy_with_logits(scores, labels)
    value = loss(positives, negatives, groups)
    torch.testing.assert_close(value, expected)
    value.backward()
    assert [float(p.detach()) for p in loss.parameters()] == [1.0, 0.0]
    assert all(float(p.grad) != 0 for p in loss.parameters())


def test_listnet_is_the_cross_entropy_of_top_one_probabilities() -> None:
    positives, negatives, groups = batch(2, 6, 20)
    target = torch.cat([torch.full((6,), 1 / 6), torch.zeros(20)]).double()
    logs = torch.log_softmax(torch.cat([positives, negatives]), dim=0)
    ours = make_loss("listnet")(positives, negatives, groups)
    torch.testing.assert_close(ours, -(target * logs).sum())


def test_bad_batches_and_names() -> None:
    positives, negatives, groups = batch(0, 3, 5)
    with pytest.raises(UsageError, match="groups for"):
        NPairLoss()(positives, negatives, groups[:2])
    with pytest.raises(UsageError, match="without positives"):
        NPairLoss()(positives[:0], negatives, groups)
    with pytest.raises(UsageError, match="3 positives"):
        NPairLoss()(positives, negatives, np.full(5, 3, np.int32))
    with pytest.raises(UnknownNameError, match="n-pair"):
        make_loss("hinge")
