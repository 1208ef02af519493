from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gelato.errors import InputError, UsageError
from gelato.kernels.chunks import use_threads
from gelato.kernels.deal import HashDealer
from gelato.kernels.walk_structure import PairLists, WalkStructure
from gelato.nn.autocovariance import (
    TrainingPairs,
    Walk,
    autocovariance,
    choose_sigma,
    standardised_scores,
    sum_of_squares,
)
from gelato.nn.dense import dense_adjacency, dense_autocovariance, dense_standardise
from gelato.nn.losses import NPairLoss
from gelato.nn.step import n_pair_step
from support.walk_graphs import Case, cases, make_case


def all_ordered_pairs(n: int) -> np.ndarray:
    return np.stack(np.meshgrid(range(n), range(n), indexing="ij"), axis=-1).reshape(
        -1, 2
    )


@given(case=cases)
def test_every_pair_equals_the_dense_twin_in_the_given_order(case: Case) -> None:
    n = case.structure.num_nodes
    pairs = np.random.default_rng(0).permutation(all_ordered_pairs(n))
    ours = autocovariance(case.weights, case.structure, pairs, t=case.t, mask=case.mask)
    theirs = case.dense(case.weights)[pairs[:, 0], pairs[:, 1]]
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-13)
    assert abs(float(ours.mean())) < 1e-12


@pytest.mark.parametrize("loops", ["isolated", "all"])
@pytest.mark.parametrize("t", [1, 2, 3, 4])
def test_gradcheck(t: int, loops: str) -> None:
    case = make_case(9, 0.35, t, loops=loops, masked=2, t=t)
    pairs = np.random.default_rng(t).integers(0, 9, (15, 2))
    weights = case.weights.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: autocovariance(w, case.structure, pairs, t=t, mask=case.mask),
        (weights,),
        atol=1e-8,
    )


@pytest.mark.parametrize("t", [1, 2, 3, 4])
def test_gradcheck_of_the_exact_sum_of_squares(t: int) -> None:
    case = make_case(9, 0.35, t, loops="isolated", masked=2, t=t)
    walk = Walk(case.structure, t, case.mask)
    weights = case.weights.requires_grad_()
    assert torch.autograd.gradcheck(lambda w: sum_of_squares(w, walk), (weights,))


@settings(max_examples=15)
@given(case=cases)
def test_blocks_of_rows_add_up(case: Case) -> None:
    import gelato.nn.autocovariance as module

    walk = Walk(case.structure, case.t, case.mask)
    whole = sum_of_squares(case.weights, walk)
    before, module._BLOCK_PAIRS = module._BLOCK_PAIRS, 7
    try:
        blocks = sum_of_squares(case.weights, walk)
    finally:
        module._BLOCK_PAIRS = before
    torch.testing.assert_close(blocks, whole, rtol=1e-12, atol=1e-18)


def test_single_precision_keeps_its_type_and_nearly_its_value() -> None:
    case = make_case(120, 0.1, 0, loops="isolated", masked=10, t=3)
    pairs = np.random.default_rng(0).integers(0, 120, (500, 2))
    results = []
    for dtype in (torch.float32, torch.float64):
        weights = case.weights.to(dtype).requires_grad_()
        scores = autocovariance(weights, case.structure, pairs, mask=case.mask)
        scores.sum().backward()
        assert scores.dtype == weights.grad.dtype == dtype
        results.append((scores.detach().double(), weights.grad.double()))
    for single, double in zip(*results, strict=True):
        assert float((single - double).norm() / double.norm()) < 1e-5


def test_type_and_walk_length_are_checked() -> None:
    structure = WalkStructure(3, np.array([[0, 1]]))
    with pytest.raises(UsageError, match="float32 and float64"):
        autocovariance(torch.ones(1).half(), structure, [[0, 1]])
    with pytest.raises(UsageError, match="at least 1"):
        autocovariance(torch.ones(1), structure, [[0, 1]], t=0)


class Step:
    """A small step: some enhanced edges are similarity pairs, so negatives."""

    def __init__(self, n=14, seed=0, loops="isolated", batches=3, share=0.3) -> None:
        case = make_case(n, share, seed, loops=loops, masked=0, t=3)
        self.structure, self.weights = case.structure, case.weights
        edges = self.structure.edges
        keep = np.random.default_rng(seed).random(len(edges)) < 0.8
        keep[:3] = True
        self.training = edges[keep]
        self.pairs = TrainingPairs(self.structure, self.training)
        self.positives = np.arange(0, len(self.training), batches)
        dealer = HashDealer(self.structure, self.training, batches=batches, seed=seed)
        self.negatives = dealer.batch(0, 0)
        self.groups = dealer.groups(0, self.negatives, len(self.positives))

    def scores(self, weights, **options):
        return standardised_scores(
            weights, self.pairs, self.positives, self.negatives, **options
        )

    def dense(self, weights, t=3, masked=True) -> torch.Tensor:
        mask = torch.from_numpy(self.pairs.edge[self.positives]) if masked else None
        matrix = dense_adjacency(
            weights,
            torch.from_numpy(self.structure.edges),
            self.structure.num_nodes,
            self_loops=self.structure.self_loops,
            mask=mask,
        )
        return dense_autocovariance(matrix, t=t)

    def ends(self, lists: PairLists) -> tuple[np.ndarray, np.ndarray]:
        outside = self.structure.outside
        return outside[lists.rows()], outside[lists.listed_columns()]

    def pick(self, matrix) -> tuple[torch.Tensor, torch.Tensor]:
        u, v = self.training[self.positives].T
        return matrix[u, v], matrix[self.ends(self.negatives)]


@pytest.mark.parametrize("loops", ["isolated", "all"])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("t", [1, 2, 3, 4])
def test_exact_scores_and_gradient_equal_the_dense_twin(t, masked, loops) -> None:
    step = Step(loops=loops, seed=t)
    weights = step.weights.clone().requires_grad_()
    hidden = None if masked else np.empty(0, np.int64)
    ours = step.scores(weights, sigma="exact", t=t, hidden=hidden)
    theirs = step.pick(dense_standardise(step.dense(weights, t, masked)))
    by = [torch.randn(len(part), dtype=torch.float64) for part in ours]
    gradients = []
    for parts in (ours, theirs):
        total = sum(part @ b for part, b in zip(parts, by, strict=True))
        gradients.append(torch.autograd.grad(total, weights)[0])
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("t", [1, 2, 3, 4])
@pytest.mark.parametrize("sigma", ["estimate", "exact"])
@pytest.mark.parametrize("loops", ["isolated", "all"])
def test_gradcheck_of_both_deviations(t: int, sigma: str, loops: str) -> None:
    step = Step(n=8, seed=t, loops=loops)
    weights = step.weights.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: step.scores(w, sigma=sigma, t=t), (weights,), atol=1e-6
    )


def test_estimate_with_all_negatives_is_exact() -> None:
    step = Step(batches=1)
    exact = step.scores(step.weights, sigma="exact")
    estimate = step.scores(step.weights, sigma="estimate")
    torch.testing.assert_close(estimate, exact, rtol=1e-12, atol=1e-14)


def test_estimate_from_a_separate_sample() -> None:
    step = Step()
    dealer = HashDealer(step.structure, step.training, batches=1, seed=0)
    everything = dealer.batch(0, 0)
    weights = step.weights.clone().requires_grad_()
    sampled = step.scores(weights, sigma="estimate", sample=everything)
    exact = step.scores(weights, sigma="exact")
    torch.testing.assert_close(sampled, exact, rtol=1e-12, atol=1e-14)
    ours, theirs = (
        torch.autograd.grad(positive.sum() - 2 * negative.sum(), weights)[0]
        for positive, negative in (sampled, exact)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@given(seed=st.integers(0, 1000), sizes=st.tuples(*[st.integers(0, 30)] * 2))
def test_joined_lists_hold_the_pairs_of_both(seed: int, sizes: tuple[int, int]) -> None:
    structure = Step().structure
    random = np.random.default_rng(seed)
    lists = [
        structure.sort_pairs(random.integers(0, structure.num_nodes, (size, 2)))[0]
        for size in sizes
    ]
    joined, position = lists[0].joined(lists[1])
    assert np.all(np.diff(joined.rows()) >= 0)
    for method in (PairLists.rows, PairLists.listed_columns):
        parts = np.concatenate([method(one) for one in lists])
        np.testing.assert_array_equal(method(joined)[position], parts)


def test_estimates_of_the_squares_average_to_the_exact_value() -> None:
    step = Step(n=40, share=0.15)
    raw, _ = step.scores(step.weights, sigma="exact")
    squares = []
    for epoch in range(300):
        dealer = HashDealer(step.structure, step.training, batches=10, seed=epoch)
        z, _ = standardised_scores(
            step.weights, step.pairs, step.positives, dealer.batch(0, 0)
        )
        squares.append(float(raw[0] / z[0]) ** 2)  # (estimated / exact sigma)^2
    error = np.std(squares) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - 1) < 4 * error
    assert error < 0.02


@given(seed=st.integers(0, 200), loops=st.sampled_from(["isolated", "all"]))
def test_fused_step_equals_its_pieces(seed: int, loops: str) -> None:
    step = Step(seed=seed, loops=loops, n=10 + seed % 10)
    weights = step.weights.clone().requires_grad_()
    fused = n_pair_step(
        weights, step.pairs, step.positives, step.negatives, step.groups
    )
    pieces = NPairLoss()(*step.scores(weights), step.groups)
    assert fused.item() == pytest.approx(pieces.item(), rel=1e-10)
    ours = torch.autograd.grad(3 * fused, weights)[0]
    theirs = torch.autograd.grad(3 * pieces, weights)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-11)


def test_fused_step_is_the_same_on_any_threads() -> None:
    step = Step(n=150, share=0.1)
    results = set()
    for threads in (1, 2, 4):
        weights = step.weights.float().requires_grad_()
        batch = (step.positives, step.negatives, step.groups)
        with use_threads(threads):
            loss = n_pair_step(weights, step.pairs, *batch)
            loss.backward()
        results.add((loss.item(), weights.grad.numpy().tobytes()))
    assert len(results) == 1


def test_masked_positives_do_not_leak() -> None:
    step = Step()
    before = step.scores(step.weights)
    changed = step.weights.clone()
    changed[step.pairs.edge[step.positives]] *= 50
    torch.testing.assert_close(step.scores(changed), before, rtol=0, atol=0)


def test_choice_of_the_deviation() -> None:
    assert choose_sigma(7650, 2_900_000, uniform=True) == "estimate"
    assert choose_sigma(2708, 450, uniform=True) == "exact"
    assert choose_sigma(2708, 450, uniform=False) == "exact"
    assert choose_sigma(20_000, 4_000, uniform=True) is None
    assert choose_sigma(20_000, 2_000_000, uniform=False) is None


def test_bad_requests() -> None:
    step = Step()
    with pytest.raises(UsageError, match="sigma"):
        step.scores(step.weights, sigma="guess")
    none = PairLists.empty(14, np.uint16)
    with pytest.raises(UsageError, match="uniform negative"):
        standardised_scores(step.weights, step.pairs, step.positives, none)
    with pytest.raises(UsageError, match="fewer batches"):
        n_pair_step(
            step.weights, step.pairs, step.positives, none, np.empty(0, np.int32)
        )
    absent = [
        p
        for p in [[0, 1], [0, 2], [0, 3], [1, 2]]
        if p not in step.structure.edges.tolist()
    ]
    with pytest.raises(InputError, match="training edge"):
        TrainingPairs(step.structure, np.array(absent[:1]))


@pytest.mark.slow
def test_cora_gradient_equals_the_dense_twin(benchmark) -> None:
    import gelato

    training = gelato.split_edges(benchmark("cora"), seed=0).train
    step = object.__new__(Step)
    step.structure = WalkStructure(2708, training, self_loops="all")
    step.training, step.pairs = training, TrainingPairs(step.structure, training)
    step.positives = np.arange(0, len(training), 10)
    dealer = HashDealer(step.structure, training, batches=10, seed=0)
    step.negatives = dealer.batch(0, 0)
    groups = dealer.groups(0, step.negatives, len(step.positives))
    random = torch.Generator().manual_seed(0)
    values = torch.rand(len(training), generator=random, dtype=torch.float64)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        weights = values.to(dtype).requires_grad_()
        loss = NPairLoss()(*step.scores(weights, sigma="exact"), groups)
        gradients.append(torch.autograd.grad(loss, weights)[0].double())
    weights = values.clone().requires_grad_()
    loss = NPairLoss()(*step.pick(dense_standardise(step.dense(weights))), groups)
    dense = torch.autograd.grad(loss, weights)[0]
    for ours in gradients:
        assert float((ours - dense).norm() / dense.norm()) < 1e-5
