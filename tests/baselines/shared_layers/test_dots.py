"""Products of node states against dense formulas, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.nn import functional

from gelato.baselines import neo_gnn as overlap_kernels
from gelato.baselines.neo_gnn import pair_overlaps
from gelato.baselines.shared_layers import products as kernels
from gelato.baselines.shared_layers.difference_net import net_of_pairs, net_of_units
from gelato.baselines.shared_layers.dots import (
    mix_edges,
    pair_dots,
    softplus_of_products,
)
from gelato.nn.messages import SparseMatrix


@pytest.fixture
def random():
    return np.random.default_rng(3)


def states(random, n=9, d=4):
    return torch.tensor(random.normal(size=(n, d)), requires_grad=True)


def some_pairs(random, n=9, count=30):
    return torch.from_numpy(random.integers(0, n, (count, 2)))


def test_pair_dots(random):
    left, right, pairs = states(random), states(random), some_pairs(random)
    expected = (left[pairs[:, 0]] * right[pairs[:, 1]]).sum(1)
    torch.testing.assert_close(pair_dots(left, right, pairs), expected)
    assert gradcheck(lambda a, b: pair_dots(a, b, pairs), (left, right))
    assert gradcheck(lambda a: pair_dots(a, a, pairs), (left,))


def test_dots_of_training_are_those_of_scores_up_to_rounding(random):
    table, pairs = random.normal(size=(9, 65)), random.integers(0, 9, (50, 2))
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-13)):
        one, two = np.empty(50, dtype), np.empty(50, dtype)
        given = (table.astype(dtype), table.astype(dtype), pairs[:, 0], pairs[:, 1])
        kernels.pair_dots(*given, one)
        kernels.training_dots(*given, two)
        np.testing.assert_allclose(two, one, rtol=tolerance, atol=tolerance)


def test_mix_edges(random):
    x = states(random)
    edges = torch.tensor([[0, 1], [0, 5], [2, 8], [7, 8]])
    weights = torch.rand(4, dtype=torch.float64, requires_grad=True)
    dense = torch.zeros(9, 9, dtype=torch.float64)
    dense[edges[:, 0], edges[:, 1]] = weights.detach()
    expected = (dense + dense.T) @ x
    torch.testing.assert_close(mix_edges(x, weights, edges), expected)
    assert gradcheck(lambda a, w: mix_edges(a, w, edges), (x, weights))


@pytest.mark.parametrize("n", [1, 7, 1500])
def test_softplus_of_products(random, n):
    """Also where several blocks are needed."""
    x = torch.tensor(random.normal(size=(n, 3)), requires_grad=True)
    twin = x.detach().clone().requires_grad_()
    value = softplus_of_products(x)
    expected = functional.softplus(twin @ twin.T).sum()
    torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()
    torch.testing.assert_close(x.grad, twin.grad)
    if n < 10:
        assert gradcheck(softplus_of_products, (x,))


def test_overlaps(random):
    dense = random.integers(0, 3, (9, 9)) * 0.5
    dense = dense + dense.T
    matrix = sp.csr_array(dense)
    weights = torch.tensor(random.normal(size=9), requires_grad=True)
    pairs = some_pairs(random)
    u, v = dense[pairs[:, 0]], dense[pairs[:, 1]]
    expected = (u * v * weights.detach().numpy() ** 2).sum(1)
    ours = pair_overlaps(weights, matrix, pairs)
    np.testing.assert_allclose(ours.detach().numpy(), expected)
    assert gradcheck(lambda w: pair_overlaps(w, matrix, pairs), (weights,))
    rows = np.arange(9)
    out = np.empty((9, 9))
    csr = (matrix.indptr, matrix.indices, matrix.data)
    overlap_kernels.overlap_rows(rows, *csr, weights.detach().numpy(), out)
    np.testing.assert_array_equal(out, out.T)
    picked = out[pairs[:, 0], pairs[:, 1]]
    np.testing.assert_array_equal(picked, ours.detach().numpy())


def test_scalar_net(random):
    inner, outer = torch.nn.Linear(1, 6).double(), torch.nn.Linear(6, 1).double()
    x = torch.tensor(random.normal(size=(20, 1)))
    with torch.no_grad():
        expected = outer(inner(x).relu())[:, 0].numpy()
        out = np.empty(20)
        overlap_kernels.scalar_net(
            x[:, 0].numpy(),
            inner.weight[:, 0].numpy(),
            inner.bias.numpy(),
            outer.weight[0].numpy(),
            float(outer.bias),
            out,
        )
    np.testing.assert_allclose(out, expected)


def test_rows_and_pairs_have_the_same_bits_in_any_block(random):
    n = 1300  # several tiles
    x = random.normal(size=(n, 5))
    columns = np.ascontiguousarray(x.T)
    everything = np.empty((n, n))
    kernels.row_products(np.arange(n), x, columns, False, everything)
    np.testing.assert_allclose(everything, x @ x.T)
    np.testing.assert_array_equal(everything, everything.T)
    one = np.empty((1, n))
    kernels.row_products(np.array([1100]), x, columns, False, one)
    np.testing.assert_array_equal(one[0], everything[1100])
    kernels.row_products(np.array([40]), x, columns, True, one)
    np.testing.assert_array_equal(one[0, 41:], everything[40, 41:])
    assert not one[0, :41].any()
    listed = np.empty(n)
    kernels.pair_dots(x, x, np.full(n, 1100), np.arange(n), listed)
    np.testing.assert_array_equal(listed, everything[1100])


def test_difference_net_rows(random):
    n, slope = 150, 0.2
    y, mix = random.normal(size=(n, 5)), random.normal(size=(5, 7))
    bias, weights = random.normal(size=7), random.normal(size=7)
    out = np.empty((n, n))
    net = (y, mix, bias, weights, slope)
    kernels.difference_net_rows(np.arange(n), *net, False, out)
    squares = (y[:, None] - y[None]) ** 2
    hidden = squares @ mix + bias
    expected = np.maximum(hidden, slope * hidden) @ weights
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(out, out.T)
    half, listed = np.empty((n, n)), np.empty(n)
    kernels.difference_net_rows(np.arange(n), *net, True, half)
    np.testing.assert_array_equal(half, np.triu(out, 1))
    kernels.difference_net_pairs(np.full(n, 7), np.arange(n), *net, listed)
    np.testing.assert_array_equal(listed, out[7])


@pytest.mark.parametrize("count", [1, 63, 64, 200])
def test_net_of_pairs(random, count):
    y, pairs = states(random, 30, 5), some_pairs(random, 30, count)
    mix, bias = states(random, 7, 5), states(random, 1, 7).detach()[0]
    bias.requires_grad_()
    out = torch.nn.Linear(7, 1, dtype=torch.float64)
    u, v = y[pairs[:, 0]], y[pairs[:, 1]]
    expected = net_of_units(functional.linear((u - v) ** 2, mix, bias), out)
    torch.testing.assert_close(net_of_pairs(y, (mix, bias), out, pairs), expected)
    given = (y, mix, bias, out.weight)

    def run(y, mix, bias, weight):
        return net_of_pairs(y, (mix, bias), out, pairs)

    assert gradcheck(run, given)


def test_sparse_matrix_both_ways(random):
    dense = random.normal(size=(8, 5)) * (random.random((8, 5)) < 0.4)
    matrix = SparseMatrix(sp.csr_array(dense), np.float64)
    table = torch.tensor(random.normal(size=(5, 3)), requires_grad=True)
    torch.testing.assert_close(matrix.times(table), torch.tensor(dense) @ table)
    assert gradcheck(matrix.times, (table,))
    doubled = matrix.times(table, 2 * matrix.values)
    torch.testing.assert_close(doubled, 2 * torch.tensor(dense) @ table)
    assert gradcheck(lambda t: matrix.times(t, 2 * matrix.values), (table,))
