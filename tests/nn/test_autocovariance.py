from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from gelato.errors import UsageError
from gelato.kernels.walk_structure import WalkStructure
from gelato.nn.autocovariance import Walk, autocovariance, sum_of_squares
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
