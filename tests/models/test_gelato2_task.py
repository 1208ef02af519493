"""Gelato 2's steps: which negatives they see, and what their loss is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gelato.graph import Graph
from gelato.models import gelato2
from gelato.models.gelato2 import HardAndOtherNegatives, ReadoutTask
from gelato.nn.enhancement import enhance
from gelato.nn.readout import ReadoutGraph, ReadoutModule, ReadoutScorer

N = 30


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(2)
    pairs = np.argwhere(np.triu(rng.random((N, N)) < 0.15, 1))
    return Graph.from_indices(N, pairs)


@pytest.fixture
def task(graph):
    none = torch.zeros(0)
    module = ReadoutModule(none, none, torch.zeros(0, 0), hidden=4, units=3)
    enhanced = enhance(graph, eta=1.0, alpha=0.0, beta=1.0)
    nothing = np.zeros((N, 0), np.float32), np.zeros(len(enhanced.pairs))
    seen = ReadoutGraph(enhanced, *nothing)
    return ReadoutTask(graph, graph.edges[:2], module, seen, batches=3, seed=4)


def test_drawn_negatives_stand_for_all(graph, monkeypatch):
    monkeypatch.setattr(gelato2, "DRAWN_HARD", 20)
    monkeypatch.setattr(gelato2, "DRAWN_REST", 50)
    free = np.stack(np.triu_indices(N, 1), axis=1)
    free = free[~np.isin(free @ [N, 1], graph.edges @ [N, 1])]
    hard = free[::4]
    negatives = HardAndOtherNegatives(N, graph.edges, hard, seed=1)
    pairs, stands = negatives.draw(1, 0)
    assert np.isin(pairs @ [N, 1], free @ [N, 1]).all()
    assert len(np.unique(pairs @ [N, 1])) == len(pairs)
    is_hard = np.isin(pairs @ [N, 1], hard @ [N, 1])
    counts = np.exp(stands.double().numpy())
    assert is_hard.sum() == 20
    assert counts[is_hard].sum() == pytest.approx(len(hard))
    assert counts.sum() == pytest.approx(len(free))
    again, other = negatives.draw(1, 0)[0], negatives.draw(1, 1)[0]
    np.testing.assert_array_equal(again, pairs)
    assert not np.array_equal(other, pairs)


def test_the_loss_compares_with_every_negative(graph, task):
    """Here all negatives are drawn: the loss is that over all pairs."""
    chosen = task.positives.batch(1, 0)
    scores = _dense_scores(task, chosen)
    known = np.zeros((N, N), dtype=bool)
    known[tuple(graph.edges.T)] = True
    negative = scores[np.triu(~known, 1)]
    positive = scores[tuple(graph.edges[chosen].T)]
    sums = np.exp(negative[None, :] - positive[:, None]).sum(axis=1)
    expected = np.log1p(sums).mean()
    assert task.loss(1, 0).item() == pytest.approx(expected, rel=1e-3)


def test_a_step_gives_every_parameter_a_gradient(task):
    task.module.weight.weight.data += 0.1
    task.module.outer.data += 0.1
    task.loss(1, 0).backward()
    for name, parameter in task.module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def _dense_scores(task, hidden):
    """Return the scores of all pairs without some edges, by the scorer."""

    class Hidden(ReadoutGraph):
        def view(self, _=None):
            return super().view(task.place[hidden])

    known = task.graph
    seen = Hidden(known.enhanced, known.factors, known.similarity)
    return ReadoutScorer(task.module, seen).score_rows(np.arange(N))
