from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gelato.errors import UnknownNameError, UsageError
from gelato.nn.dense import dense_adjacency
from gelato.nn.two_steps import DIFFERENTIABLE, HeuristicMixture, neighbour_scores
from support.walk_graphs import Case, cases, make_case

KINDS = ["cn", "aa", "ra"]


def dense_neighbours(case: Case, weights: torch.Tensor, kind: str) -> torch.Tensor:
    n = case.structure.num_nodes
    mask = None if case.mask is None else torch.from_numpy(case.mask)
    edges = torch.from_numpy(case.structure.edges)
    matrix = dense_adjacency(weights, edges, n, self_loops="all", mask=mask)
    matrix = matrix - torch.eye(n, dtype=weights.dtype)
    degrees = matrix.sum(dim=1)
    safe = torch.where(degrees > 0, degrees, 1.0)
    factor = {
        "cn": torch.ones_like(safe),
        "aa": 1 / torch.log(1 + safe),
        "ra": 1 / safe,
    }[kind]
    return matrix @ torch.diag(factor) @ matrix


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases, seed=st.integers(0, 100))
def test_scores_and_gradients_equal_dense_products(kind, case, seed) -> None:
    n = case.structure.num_nodes
    random = np.random.default_rng(seed)
    pairs = random.integers(0, n, (30, 2))
    by = torch.from_numpy(random.standard_normal(30))
    weights = case.weights.clone().requires_grad_()
    ours = neighbour_scores(weights, case.structure, pairs, kind=kind, mask=case.mask)
    theirs = dense_neighbours(case, weights, kind)[pairs[:, 0], pairs[:, 1]]
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    if len(weights):
        mine = torch.autograd.grad(ours @ by, weights)[0]
        other = torch.autograd.grad(theirs @ by, weights)[0]
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck(kind: str) -> None:
    case = make_case(10, 0.5, 1, loops="isolated", masked=3, t=3)
    pairs = np.random.default_rng(0).integers(0, 10, (12, 2))
    weights = case.weights.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: neighbour_scores(w, case.structure, pairs, kind=kind, mask=case.mask),
        (weights,),
    )


@pytest.mark.parametrize("coefficients", ["softmax", "linear"])
def test_mixture_learns_which_heuristic_matters(coefficients: str) -> None:
    case = make_case(40, 0.2, 1, loops="isolated", masked=0, t=3)
    pairs = np.stack(np.triu_indices(40, 1), axis=1)
    mixture = HeuristicMixture(coefficients=coefficients).double()
    start = mixture.coefficients().detach()
    assert start.tolist() == [0.25] * 4
    weights = case.weights.requires_grad_()
    target = DIFFERENTIABLE["ra"](weights.detach(), case.structure, pairs)
    target = (target - target.mean()) / target.std()
    optimiser = torch.optim.Adam(mixture.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        error = (mixture(weights, case.structure, pairs) - target).square().mean()
        error.backward()
        optimiser.step()
    learned = mixture.coefficients().detach()
    assert int(learned.argmax()) == 3
    assert float(error.detach()) < 0.05
    assert weights.grad is not None
    mixture.eval()
    alone = mixture(weights.detach(), case.structure, pairs[:1])
    assert torch.isfinite(alone).all()


def test_unknown_names() -> None:
    case = make_case(5, 0.5, 1, loops="isolated", masked=0, t=3)
    with pytest.raises(UsageError, match="kind"):
        neighbour_scores(case.weights, case.structure, [[0, 1]], kind="katz")
    with pytest.raises(UnknownNameError, match="katz"):
        HeuristicMixture(("ac", "katz"))
    with pytest.raises(UsageError, match="coefficients"):
        HeuristicMixture(coefficients="other")
