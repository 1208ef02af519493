"""Walks followed on sparse rows against powers of dense matrices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gelato.baselines.shared_layers.subgraphs import pack_subgraphs
from gelato.baselines.walkpool.model import row_softmax, walk_sums
from gelato.baselines.walkpool.profiles import POWERS, follow


def slow_sums(R):
    """Return returns, crossings and traces of R^2 .. R^8."""
    out = np.empty((3, POWERS))
    for place in range(POWERS):
        power = np.linalg.matrix_power(R, place + 2)
        out[0, place] = power[0, 0] + power[1, 1]
        out[1, place] = power[0, 1] + power[1, 0]
        out[2, place] = np.trace(power)
    return out


def random_rows(n, chance, seed):
    """Return a matrix with few entries, no loops, and rows of sum 1 or 0."""
    rng = np.random.default_rng(seed)
    R = rng.random((n, n)) * (rng.random((n, n)) < chance)
    np.fill_diagonal(R, 0)
    sums = R.sum(axis=1, keepdims=True)
    return np.divide(R, sums, out=np.zeros_like(R), where=sums > 0)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(2, 40), chance=st.floats(0, 0.5), seed=st.integers(0, 1000))
def test_three_products_give_all_that_eight_give(n, chance, seed):
    R = random_rows(n, chance, seed)
    rows = sp.csr_array(R)
    out = np.empty((3, POWERS), np.float32)
    follow(
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data.astype(np.float32),
        np.empty((4, n * n), np.float32),
        out,
    )
    np.testing.assert_allclose(out, slow_sums(R), rtol=1e-4, atol=1e-6)


def test_packed_subgraphs_equal_one_matrix_after_another():
    """Subgraphs of many sizes, two channels, against one matrix after another."""
    rng = np.random.default_rng(3)
    n = 60
    half = np.triu(rng.random((n, n)) < 0.04, 1)
    half[0, 1:50] = True  # a hub: subgraphs of up to 50 nodes
    graph = sp.csr_array((half | half.T).astype(float))
    neighbours = graph.indptr.astype(np.int64), graph.indices.astype(np.int32)
    pairs = np.array([[0, 1], [57, 59], [2, 55], [56, 58], [3, 4], [51, 52]])
    packed = pack_subgraphs(pairs, neighbours, hops=1, joined=True)
    sizes = np.diff(packed.start)
    assert sizes.min() < 10
    assert sizes.max() == 50
    values = torch.rand(len(packed.columns), 2, dtype=torch.float64) / 4
    values.requires_grad_()
    ours = walk_sums(packed, values)
    dense = sp.csr_array(
        (np.arange(1, len(packed.columns) + 1), packed.columns, packed.rows)
    ).toarray()
    for p in range(len(pairs)):
        own = slice(packed.start[p], packed.start[p + 1])
        place = dense[own, own]
        for channel in range(2):
            known = values.detach()[:, channel].numpy()
            R = np.where(place > 0, known[place - 1], 0.0)
            np.testing.assert_allclose(ours[p, channel].detach(), slow_sums(R))
    assert torch.autograd.gradcheck(
        lambda x: walk_sums(packed, x).sum(dim=0), (values,), fast_mode=True
    )


def test_softmax_over_rows_without_masked_entries():
    scores = torch.tensor([[1.0], [3.0], [500.0], [2.0]], dtype=torch.float64)
    scores.requires_grad_()
    rows = torch.tensor([0, 0, 0, 1])
    whole = row_softmax(scores, rows, 3, torch.empty(0, dtype=torch.int64))
    torch.testing.assert_close(whole[:3, 0], scores[:3, 0].softmax(dim=0))
    without = row_softmax(scores, rows, 3, torch.tensor([2, 3]))
    torch.testing.assert_close(without[:2, 0], scores[:2, 0].softmax(dim=0))
    assert without[2:, 0].tolist() == [0.0, 0.0]
    without.sum().backward()
    assert torch.isfinite(scores.grad).all()
