"""Sparse products against dense ones."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from gelato.nn.messages import SparseMatrix


@given(
    shape=st.tuples(st.integers(0, 12), st.integers(1, 12), st.integers(0, 9)),
    fill=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_products_are_those_of_the_dense_matrix(shape, fill, seed):
    rows, columns, width = shape
    random = np.random.default_rng(seed)
    dense = random.normal(size=(rows, columns)) * (
        random.random((rows, columns)) < fill
    )
    matrix = SparseMatrix(sp.csr_array(dense), np.float64)
    table = torch.tensor(random.normal(size=(columns, width)), requires_grad=True)
    product = matrix.times(table)
    np.testing.assert_allclose(product.detach(), dense @ table.detach().numpy())
    upstream = random.normal(size=(rows, width))
    product.backward(torch.tensor(upstream))
    np.testing.assert_allclose(table.grad, dense.T @ upstream, atol=1e-12)


@pytest.mark.parametrize("turned", [False, True])
def test_any_layout_of_the_table_and_any_threads_give_the_same_bits(
    turned, monkeypatch
):
    random = np.random.default_rng(0)
    values = sp.random_array((40, 30), density=0.3, rng=random)
    matrix = SparseMatrix(values)
    table = torch.randn(30, 17)
    given = table.T.contiguous().T if turned else table
    monkeypatch.setenv("GELATO_THREADS", "1")
    expected = matrix.times(table)
    monkeypatch.setenv("GELATO_THREADS", "3")
    assert torch.equal(matrix.times(given), expected)
    assert expected.dtype == torch.float32
