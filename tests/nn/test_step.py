"""The step on near and far negatives against its dense twin and the plain step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gelato.errors import UsageError
from gelato.kernels.chunks import use_threads
from gelato.kernels.near_pairs import NearPairs
from gelato.nn.autocovariance import TrainingPairs
from gelato.nn.losses import n_pair_terms
from gelato.nn.step import FarSample, NearBatch, n_pair_step, near_step
from support.walk_graphs import Case, make_case


def complete_batch(case: Case, training, positives, seed, *, per_positive=7.5):
    """All near negatives in random groups, all far ones listed."""
    random = np.random.default_rng(seed)
    structure, n = case.structure, case.structure.num_nodes
    everything = np.stack(np.triu_indices(n, 1), axis=1)
    known = {tuple(edge) for edge in training.tolist()}
    others = np.array([p for p in everything.tolist() if tuple(p) not in known])
    others = others.reshape(-1, 2)
    near = NearPairs(structure, training, t=case.t)
    is_near = near.contains(others)
    lists, _ = structure.sort_pairs(others[is_near])
    groups = random.integers(0, len(positives), len(lists)).astype(np.int32)
    far = structure.inside[others[~is_near]]
    sample = FarSample(far, len(far), per_positive if len(far) else 0.0, complete=True)
    return NearBatch(positives, lists, groups, near.count, sample)


def dense_loss(case: Case, weights, training, batch, squares=None):
    """The loss from the n x n matrix; ``squares`` replaces the sum of R^2."""
    scores = case.dense(weights)
    n = case.structure.num_nodes
    total = scores.square().sum() if squares is None else squares(scores)
    z = scores / torch.sqrt(total / (n * n - 1.0))
    outside = case.structure.outside
    ends = np.stack([batch.near.rows(), batch.near.listed_columns()], axis=1)
    near, far = outside[ends], outside[batch.far.pairs]
    p = z[training[batch.positives, 0], training[batch.positives, 1]]
    sums = torch.zeros(len(p), dtype=z.dtype)
    at = torch.from_numpy(batch.groups).long()
    sums = sums.index_add(0, at, torch.exp(z[near[:, 0], near[:, 1]] - p[at]))
    sums = batch.weight * sums
    if len(far):
        mean = torch.exp(z[far[:, 0], far[:, 1]]).mean()
        sums = sums + batch.far.per_positive * mean * torch.exp(-p)
    size = len(p) * (1 + batch.far.per_positive) + len(near) * batch.weight
    return torch.log1p(sums).sum() / size


def draw_case(n, share, seed, loops, t):
    """A graph with more than one training edge, some similarity pairs, hidden edges."""
    case = make_case(n, share, seed, loops=loops, masked=0, t=t)
    edges = case.structure.edges
    if len(edges) < 3:
        return None
    training = edges[: max(2, 3 * len(edges) // 4)]
    random = np.random.default_rng(seed)
    positives = np.sort(random.permutation(len(training))[:2])
    pairs = TrainingPairs(case.structure, training)
    return replace(case, mask=pairs.edge[positives]), training, positives, pairs


graphs = st.builds(
    draw_case,
    st.integers(5, 22),
    st.sampled_from([0.08, 0.15, 0.3]),
    st.integers(0, 10_000),
    st.sampled_from(["isolated", "all"]),
    st.integers(1, 4),
)


def both_ways(loss, weights):
    (gradient,) = torch.autograd.grad(loss, weights)
    return loss.detach(), gradient


@given(graph=graphs, sigma=st.sampled_from(["estimate", "exact"]), seed=st.integers(0))
def test_all_near_and_far_pairs_give_the_dense_loss_and_gradient(graph, sigma, seed):
    if graph is None:
        return
    case, training, positives, pairs = graph
    batch = complete_batch(case, training, positives, seed % 1000)
    if not len(batch.near) + len(batch.far.pairs):
        return
    batch = replace(batch, weight=1.5)
    weights = case.weights.clone().requires_grad_()
    loss, error = near_step(weights, pairs, batch, t=case.t, sigma=sigma)
    ours, theirs = (
        both_ways(value, weights)
        for value in (loss, dense_loss(case, weights, training, batch))
    )
    assert error == 0
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-6, atol=1e-10)


@given(graph=graphs)
def test_one_positive_and_every_negative_is_the_plain_step(graph):
    """With a single group there is nothing to deal: both paths see the same pairs."""
    if graph is None:
        return
    case, training, positives, pairs = graph
    one = positives[:1]
    batch = complete_batch(case, training, one, 0)
    count = len(batch.far.pairs)
    if not len(batch.near) + count:
        return
    batch = replace(batch, far=replace(batch.far, per_positive=float(count)))
    ends = np.stack([batch.near.rows(), batch.near.listed_columns()], axis=1)
    inside = np.concatenate([ends, batch.far.pairs])
    lists, _ = case.structure.sort_pairs(case.structure.outside[inside])
    groups = np.zeros(len(lists), np.int32)
    weights = case.weights.clone().requires_grad_()
    ours = both_ways(near_step(weights, pairs, batch, t=case.t)[0], weights)
    plain = both_ways(
        n_pair_step(weights, pairs, one, lists, groups, t=case.t), weights
    )
    torch.testing.assert_close(ours[0], plain[0], rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(ours[1], plain[1], rtol=1e-7, atol=1e-11)


def fixed_case(t=3, loops="isolated"):
    case, training, positives, pairs = draw_case(24, 0.08, 5, loops, t)
    batch = complete_batch(case, training, positives, 1)
    assert len(batch.near) > 10
    assert len(batch.far.pairs) > 50
    return case, training, positives, pairs, batch


def test_a_sample_of_the_negatives_gives_the_dense_gradient_of_its_own_estimate():
    """Weights of sampled pairs enter the deviation and its gradient."""
    case, training, _, pairs, batch = fixed_case()
    random = np.random.default_rng(0)
    outside = case.structure.outside
    ends = np.stack([batch.near.rows(), batch.near.listed_columns()], axis=1)
    some = outside[ends[random.permutation(len(ends))[:8]]]
    near, _ = case.structure.sort_pairs(some)
    far = batch.far.pairs[random.integers(0, len(batch.far.pairs), 20)]
    count = len(batch.far.pairs)
    sampled = replace(
        batch,
        near=near,
        groups=(np.arange(8) % 2).astype(np.int32),
        far=FarSample(far, count, 9.0),
        weight=0.7,
    )

    def squares(scores):
        known = scores.diagonal().square().sum()
        known = known + 2 * scores[training[:, 0], training[:, 1]].square().sum()
        near_sum = scores[some[:, 0], some[:, 1]].square().sum()
        there = outside[far]
        far_mean = scores[there[:, 0], there[:, 1]].square().mean()
        return known + 2 * batch.num_near / 8 * near_sum + 2 * count * far_mean

    weights = case.weights.clone().requires_grad_()
    loss, error = near_step(weights, pairs, sampled, t=case.t)
    expected = dense_loss(case, weights, training, sampled, squares)
    ours, theirs = both_ways(loss, weights), both_ways(expected, weights)
    assert 0 < error < 1
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("sigma", ["estimate", "exact"])
def test_gradcheck(sigma):
    case, _, _, pairs, batch = fixed_case(t=2)
    weights = case.weights.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: near_step(w, pairs, batch, t=2, sigma=sigma)[0], (weights,)
    )


def test_the_far_part_is_unbiased_and_its_error_is_told():
    """Over many draws the mean far sum is the exact one, its spread the error told."""
    case, _, _, pairs, batch = fixed_case()
    random = np.random.default_rng(3)
    scores = case.dense(case.weights)
    n = case.structure.num_nodes
    sigma = torch.sqrt(scores.square().sum() / (n * n - 1.0))
    far = case.structure.outside[batch.far.pairs]
    terms = torch.exp(scores[far[:, 0], far[:, 1]] / sigma).numpy()
    drawn, told = [], []
    for _ in range(400):
        chosen = random.integers(0, len(far), 25)
        sample = FarSample(batch.far.pairs[chosen], len(far), 30.0)
        drawn.append(terms[chosen].mean())
        told.append(
            near_step(
                case.weights,
                pairs,
                replace(batch, far=sample),
                t=case.t,
                sigma="exact",
            )[1]
        )
    spread = np.std(drawn) / terms.mean()
    assert np.mean(drawn) == pytest.approx(terms.mean(), rel=4 * spread / 20)
    assert np.mean(told) == pytest.approx(spread, rel=0.15)


def test_threads_do_not_change_a_bit():
    case, _, _, pairs, batch = fixed_case()
    results = []
    for threads in (1, 3):
        weights = case.weights.float().requires_grad_()
        with use_threads(threads):
            loss, _ = near_step(weights, pairs, batch, t=case.t)
        results.append(both_ways(loss, weights))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_weight_and_common_part_of_a_group():
    random = np.random.default_rng(0)
    positives, negatives = random.normal(size=3), random.normal(size=12)
    groups = np.repeat(np.arange(3), 4).astype(np.int32)
    terms = n_pair_terms(positives, negatives, groups, scale=2.0, weight=3.0, common=1)
    sums = 3.0 * np.exp(2.0 * negatives).reshape(3, 4).sum(axis=1) + np.e
    total = np.log1p(sums * np.exp(-2.0 * positives)).sum()
    assert terms.total == pytest.approx(total)
    shares = np.e / (np.exp(2.0 * positives) + sums)
    assert terms.by_common == pytest.approx(shares.sum())
    high = n_pair_terms(positives, negatives, groups, common=2000.0)
    assert high.total == pytest.approx(6000.0 - positives.sum())


def test_a_step_without_negatives_is_refused():
    case, _, positives, pairs, _ = fixed_case()
    none, _ = case.structure.sort_pairs(np.empty((0, 2), np.int64))
    empty = FarSample(np.empty((0, 2), np.int64), 0, 0.0)
    nothing = NearBatch(positives, none, np.empty(0, np.int32), 0, empty)
    with pytest.raises(UsageError, match="negatives"):
        near_step(case.weights, pairs, nothing)
