"""Short walks, their gradient and the readout, against dense twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gelato.graph import Graph
from gelato.kernels.chunks import use_threads
from gelato.nn.enhancement import enhance
from gelato.nn.readout import (
    ReadoutGraph,
    ReadoutModule,
    ReadoutScorer,
    short_walk_sums,
)
from gelato.ranking.scorers import HalfScorer

N = 24


@pytest.fixture(scope="module")
def graph():
    """A random graph with similar pairs, some of them edges, and an isolated node."""
    rng = np.random.default_rng(3)
    block = np.arange(N) % 3
    chance = np.where(block[:, None] == block[None, :], 0.4, 0.08)
    pairs = np.argwhere(np.triu(rng.random((N, N)) < chance, 1))
    pairs = pairs[(pairs != N - 1).all(axis=1)]
    X = (rng.random((N, 12)) < 0.1 + 0.5 * (np.arange(12) % 3 == block[:, None])) * 1.0
    weights = rng.uniform(0.5, 2.0, len(pairs))
    return Graph.from_indices(N, pairs, attributes=X, weights=weights)


def readout_graph(enhanced, factors):
    u, v = enhanced.pairs.T
    return ReadoutGraph(enhanced, factors, (factors[u] * factors[v]).sum(axis=1))


@pytest.fixture(scope="module")
def seen(graph):
    factors = np.random.default_rng(4).standard_normal((N, 8)).astype(np.float32)
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    enhanced = enhance(graph, eta=0.6, alpha=0.0, beta=1.0)
    assert (enhanced.is_edge & enhanced.is_similar).any()
    return readout_graph(enhanced, factors)


@pytest.fixture(scope="module")
def module():
    """A module whose every part does something."""
    none = torch.zeros(12)
    made = ReadoutModule(none, none, torch.zeros(12, 8), hidden=6, units=4, seed=1)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        with torch.no_grad():
            for value in made.parameters():
                value += 0.3 * torch.randn_like(value)
    return made


def dense(weights, seen):
    u, v = seen.ends.T
    W = weights.new_zeros(N, N).index_put((u, v), weights)
    return W + W.T


def every_pair(seen):
    pairs = np.stack(np.triu_indices(N, 1), axis=1)
    lists, order = seen.structure.sort_pairs(pairs)
    return lists, pairs[order]


def test_walks_and_gradients_are_those_of_dense_matrices(seen):
    rng = np.random.default_rng(0)
    lists, pairs = every_pair(seen)
    weights = torch.tensor(rng.random(len(seen.ends)), requires_grad=True)
    factors = torch.tensor(rng.random(N), requires_grad=True)
    by = torch.tensor(rng.standard_normal((len(pairs), 3)))
    found = short_walk_sums(weights, factors, seen.structure, lists)
    ours = torch.autograd.grad((found * by).sum(), (weights, factors))
    W = dense(weights, seen)
    two = (W * factors) @ W
    three = (two * factors) @ W
    u, v = torch.from_numpy(pairs).T
    expected = torch.stack([W[u, v], two[u, v], three[u, v]], dim=1)
    torch.testing.assert_close(found, expected)
    theirs = torch.autograd.grad((expected * by).sum(), (weights, factors))
    torch.testing.assert_close(ours, theirs)


def test_threads_do_not_change_a_bit(seen, module):
    lists, pairs = every_pair(seen)

    def gradients(threads):
        with use_threads(threads):
            scores = module.scores(seen, seen.view(), lists, pairs)
            return torch.autograd.grad(scores.square().sum(), module.edge.weight)[0]

    assert torch.equal(gradients(1), gradients(3))


def test_the_scorer_is_the_module_in_double_precision(seen, module):
    lists, pairs = every_pair(seen)
    with torch.no_grad():
        scores = module.scores(seen, seen.view(), lists, pairs).numpy()
    scorer = ReadoutScorer(module, seen)
    assert isinstance(scorer, HalfScorer)
    rows = scorer.score_rows(np.arange(N))
    np.testing.assert_allclose(rows[tuple(pairs.T)], scores, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rows, rows.T, rtol=1e-12)
    above = scorer.score_rows_above(np.arange(N))
    np.testing.assert_array_equal(above, np.triu(rows, 1))
    shuffled = np.random.default_rng(1).permutation(pairs)
    np.testing.assert_array_equal(scorer.pair_scores(shuffled), rows[tuple(shuffled.T)])


def test_gradients_of_the_scores_are_finite_differences(seen, module):
    lists, pairs = every_pair(seen)
    some = slice(None, None, 7)

    def total():
        with torch.no_grad():
            found = module.scores(seen, seen.view(), lists, pairs)
        return float(found[some].double().sum())

    found = module.scores(seen, seen.view(), lists, pairs)[some].sum()
    parameters = {
        name: value for name, value in module.named_parameters() if value.numel()
    }
    ours = torch.autograd.grad(found, list(parameters.values()))
    for (name, value), gradient in zip(parameters.items(), ours, strict=True):
        at = int(gradient.abs().argmax())
        flat = value.data.view(-1)
        before, step = flat[at].item(), 1e-2
        ends = []
        for sign in (1, -1):
            flat[at] = before + sign * step
            ends.append(total())
        flat[at] = before
        slope = (ends[0] - ends[1]) / (2 * step)
        assert gradient.view(-1)[at].item() == pytest.approx(slope, rel=0.05), name


def test_hidden_edges_leave_unless_they_are_similar(seen, module):
    enhanced = seen.enhanced
    similar = np.flatnonzero(enhanced.is_edge & enhanced.is_similar)[:1]
    plain = np.flatnonzero(enhanced.is_edge & ~enhanced.is_similar)[:1]
    view = seen.view(np.concatenate([similar, plain]))
    weights = module.weights(seen, view)
    assert view.own[similar].item() == 1.0
    assert weights[similar].item() > 0
    assert weights[plain].item() == 0
    assert (view.inputs[[*similar, *plain], 0] == 0).all()


def test_nothing_of_a_hidden_edge_shows(graph, seen, module):
    """Hiding an edge scores as a graph that never had it."""
    enhanced = seen.enhanced
    gone = np.flatnonzero(enhanced.is_edge)[::5]
    keep = ~np.isin(graph.edges @ [N, 1], enhanced.pairs[gone] @ [N, 1])
    without = replace(graph, edges=graph.edges[keep], weights=graph.weights[keep])
    other = readout_graph(
        enhance(without, eta=0.6, alpha=0.0, beta=1.0, similar=enhanced.similar),
        seen.factors,
    )
    lists, pairs = every_pair(seen)
    theirs, their_pairs = every_pair(other)
    with torch.no_grad():
        hidden = module.scores(seen, seen.view(gone), lists, pairs)
        absent = module.scores(other, other.view(), theirs, their_pairs)
    place = {tuple(sorted(p)): i for i, p in enumerate(their_pairs.tolist())}
    order = [place[tuple(sorted(p))] for p in pairs.tolist()]
    torch.testing.assert_close(hidden, absent[order])
