"""All pairs by a pair MLP: equal to plain torch, symmetric, the same bits anywhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from gelato.errors import GelatoError, UsageError
from gelato.graph import Graph
from gelato.kernels.chunks import use_threads
from gelato.nn.first_layer import AttributeRows, PairFeatures
from gelato.nn.pair_mlp import PairMLP
from gelato.nn.pair_scorer import PairMLPScorer
from gelato.ranking import all_pairs, rank_counts
from gelato.ranking.best import best_candidates

KINDS = ("binary", "mostly ones", "values", "signed", "dense")


def attributes_of(kind, n=23, r=9, seed=0):
    random = np.random.default_rng(seed)
    share = {"mostly ones": 0.8, "dense": 1.0}.get(kind, 0.3)
    matrix = (random.random((n, r)) < share).astype(np.float32)
    if kind not in ("binary", "mostly ones"):
        matrix *= random.uniform(0.1, 2.0, (n, r)).astype(np.float32)
    if kind in ("signed", "dense"):
        matrix *= random.choice([-1, 1], (n, r)).astype(np.float32)
    matrix[0] = 0  # a node without attributes
    return matrix


def trained(r, hidden=10, seed=0):
    """Return an MLP in evaluation mode whose statistics are not the initial ones."""
    mlp = PairMLP(2 * r, hidden=hidden, seed=seed)
    random = torch.Generator().manual_seed(seed)
    for norm in (mlp.norm1, mlp.norm2):
        norm.running_mean.uniform_(-1, 1, generator=random)
        norm.running_var.uniform_(0.5, 2, generator=random)
        nn.init.uniform_(norm.weight, -1, 1, generator=random)
        nn.init.uniform_(norm.bias, -1, 1, generator=random)
    return mlp.eval()


def twin_dense(mlp, X):
    """Return the logits of all pairs by plain layers."""
    u, v = (X[:, None, :], X[None, :, :])
    features = torch.from_numpy(
        np.concatenate([u + v, np.abs(u - v)], axis=2).reshape(-1, 2 * X.shape[1])
    )
    with torch.no_grad():
        hidden = mlp.norm1(torch.relu(mlp.hidden1(features)))
        hidden = mlp.norm2(torch.relu(mlp.hidden2(hidden)))
        out = mlp.output(hidden)
    return (out[:, 1] - out[:, 0]).reshape(len(X), len(X)).numpy()


@pytest.mark.parametrize("hidden", [3, 16, 70])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_plain_layers(kind, hidden):
    X = attributes_of(kind)
    mlp = trained(9, hidden)
    scores = PairMLPScorer(mlp, sp.csr_array(X)).score_rows(np.arange(len(X)))
    expected = twin_dense(mlp, X)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(scores, scores.T)


@given(kind=st.sampled_from(KINDS), data=st.data())
def test_a_pair_has_one_score_wherever_it_is_scored(kind, data):
    X = attributes_of(kind)
    scorer = PairMLPScorer(trained(9), X)
    whole = scorer.score_rows(np.arange(len(X)))
    rows = np.array(data.draw(st.lists(st.integers(0, 22), min_size=1, max_size=5)))
    np.testing.assert_array_equal(scorer.score_rows(rows), whole[rows])
    above = np.where(np.arange(23) > rows[:, None], whole[rows], 0)
    np.testing.assert_array_equal(scorer.score_rows_above(rows), above)
    ends = st.tuples(st.integers(0, 22), st.integers(0, 22))
    drawn = data.draw(st.lists(ends.filter(lambda p: p[0] != p[1]), max_size=60))
    pairs = np.array(drawn, dtype=np.int64).reshape(-1, 2)
    np.testing.assert_array_equal(
        scorer.pair_scores(pairs), whole[pairs[:, 0], pairs[:, 1]]
    )


def test_more_columns_than_a_block_of_the_kernel():
    X = attributes_of("binary", n=131)
    mlp = trained(9)
    scores = PairMLPScorer(mlp, X).score_rows(np.array([7, 130]))
    expected = twin_dense(mlp, X)[[7, 130]]
    expected[[0, 1], [7, 130]] = 0
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_ranking_uses_the_half_and_counts_the_same():
    X = attributes_of("binary", n=40)
    scorer = PairMLPScorer(trained(9), X)
    edges = np.array([(0, 1), (3, 9), (5, 30)])
    graph = Graph.from_indices(40, [(1, 2), (4, 39)])
    candidates = all_pairs(graph, graph.edges)
    whole = scorer.score_rows(np.arange(40))
    for threads in (1, 2):
        with use_threads(threads):
            half = rank_counts(scorer, edges, candidates)
        full = rank_counts(lambda_scorer(whole), edges, candidates)
        for name in ("scores", "positives", "above", "tied"):
            np.testing.assert_array_equal(getattr(half, name), getattr(full, name))
    best = best_candidates(scorer, candidates, 7)
    other = best_candidates(lambda_scorer(whole), candidates, 7)
    np.testing.assert_array_equal(best.pairs, other.pairs)
    np.testing.assert_array_equal(best.scores, other.scores)


def lambda_scorer(whole):
    class Rows:
        def score_rows(self, rows):
            return whole[rows]

    return Rows()


def test_wrong_attributes_and_scores_that_are_not_finite():
    mlp = trained(9)
    with pytest.raises(UsageError, match="made for 9"):
        PairMLPScorer(mlp, np.ones((4, 3), np.float32))
    with pytest.raises(UsageError, match="0 attributes"):
        PairMLPScorer(mlp, None)
    with torch.no_grad():
        mlp.hidden1.bias[0] = torch.inf
    with pytest.raises(GelatoError, match=r"\(1, 0\) is not finite"):
        PairMLPScorer(mlp, attributes_of("binary")).score_rows(np.array([1]))


@pytest.mark.parametrize("kind", KINDS)
def test_logits_of_blocks_learn_as_plain_layers_do(kind, monkeypatch):
    """Blocks are chunks of normalisation; gradients add up, kept or recomputed."""
    X = attributes_of(kind)
    random = np.random.default_rng(1)
    pairs = random.integers(0, 23, (40, 2))
    upstream = torch.from_numpy(random.normal(size=40))
    parts = [pairs[:25], pairs[25:]]
    for kept in (0, 1 << 30):
        monkeypatch.setattr("gelato.nn.pair_mlp.KEPT_BYTES", kept)
        fused = PairMLP(18, hidden=6, dropout=0.0, seed=2, dtype=torch.float64)
        plain = PairMLP(18, hidden=6, dropout=0.0, seed=2, dtype=torch.float64)
        rows = AttributeRows(X)
        blocks = [PairFeatures(rows, part) for part in parts]
        logits = fused.logits(blocks)
        expected = torch.cat([_layers(plain, X, part) for part in parts])
        torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-7)
        (logits * upstream).sum().backward()
        (expected * upstream).sum().backward()
        for one, two in zip(fused.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-6)
        for name, buffer in plain.named_buffers():
            if name != "steps":
                own = dict(fused.named_buffers())[name]
                torch.testing.assert_close(own, buffer, rtol=1e-5, atol=1e-7)


def _layers(mlp, X, pairs):
    u, v = X[pairs[:, 0]], X[pairs[:, 1]]
    features = torch.from_numpy(np.concatenate([u + v, np.abs(u - v)], 1)).double()
    hidden = mlp.norm1(torch.relu(mlp.hidden1(features)))
    out = mlp.output(mlp.norm2(torch.relu(mlp.hidden2(hidden))))
    return out[:, 1] - out[:, 0]


def test_dropout_differs_between_blocks_and_is_drawn_again():
    X = attributes_of("binary")
    pairs = np.array([(1, 2), (3, 4), (5, 6), (7, 8)])
    mlp = PairMLP(18, hidden=64, seed=0)
    blocks = [PairFeatures(X, pairs), PairFeatures(X, pairs)]
    one, two = mlp.logits(blocks).detach().split(4)
    assert not torch.equal(one, two)
    again = PairMLP(18, hidden=64, seed=0)
    torch.testing.assert_close(again.logits(blocks).detach()[:4], one, rtol=0, atol=0)
