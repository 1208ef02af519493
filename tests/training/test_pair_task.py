"""The pair MLP trained alone: negatives, chunks, losses, validation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gelato.nn import pair_mlp
from gelato.nn.losses import CrossEntropyLoss
from gelato.nn.pair_mlp import PairMLP
from gelato.splits import split_edges
from gelato.training.negatives import listed_negatives
from gelato.training.pair_task import PairMLPTask, mixed_chunks
from support.small_graphs import community_graph


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(), valid=0.1, test=0.1)


def all_negatives(graph):
    known = {tuple(edge) for edge in graph.edges.tolist()}
    n = graph.num_nodes
    return {(u, v) for u in range(n) for v in range(u + 1, n)} - known


def test_unbiased_negatives_are_every_one_once_an_epoch(split):
    graph = split.train_graph
    draw = listed_negatives("unbiased", 40, graph.edges, batches=3, seed=5)
    for epoch in (1, 2):
        drawn = [draw(epoch, batch, 11) for batch in range(3)]
        listed = [tuple(pair) for pairs, _ in drawn for pair in pairs.tolist()]
        assert len(listed) == len(set(listed))
        assert set(listed) == all_negatives(graph)
        assert all(groups.max() < 11 for _, groups in drawn)
    assert not np.array_equal(draw(1, 0, 11)[0], draw(2, 0, 11)[0])


def test_biased_negatives_are_as_many_as_positives_and_redrawn(split):
    graph = split.train_graph
    draw = listed_negatives("biased", 40, graph.edges, batches=3, seed=5)
    pairs, groups = draw(1, 0, 20)
    assert groups.tolist() == list(range(20))
    assert {tuple(pair) for pair in pairs.tolist()} <= all_negatives(graph)
    np.testing.assert_array_equal(pairs, draw(1, 0, 20)[0])
    assert not np.array_equal(pairs, draw(2, 0, 20)[0])
    assert not np.array_equal(pairs, draw(1, 1, 20)[0])


def test_biased_negatives_are_uniform(split):
    graph = split.train_graph
    draw = listed_negatives("biased", 40, graph.edges, batches=1, seed=0)
    keys = np.concatenate([draw(e, 0, 100)[0] @ [40, 1] for e in range(600)])
    counts = np.unique(keys, return_counts=True)[1]
    expected = 60_000 / len(all_negatives(graph))
    assert len(counts) == len(all_negatives(graph))
    assert np.sum((counts - expected) ** 2 / expected) < 1.2 * len(counts)


@pytest.mark.parametrize(("pairs", "chunk"), [(1, 5), (5, 5), (11, 5), (3, 2), (97, 9)])
def test_chunks_are_equal_shares_of_the_sorted_batch(pairs, chunk):
    keys = np.random.default_rng(0).permutation(pairs)
    parts = mixed_chunks(keys, PairMLP(2, hidden=2, chunk=chunk))
    assert sorted(np.concatenate(parts).tolist()) == list(range(pairs))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= max(chunk, 3)
    assert pairs == 1 or min(sizes) >= 2  # one pair has no variance
    for part in parts:  # every chunk runs through the whole order
        assert keys[part].tolist() == sorted(keys[part].tolist())
        assert keys[part][0] < len(parts)


@pytest.mark.parametrize("training", ["biased", "unbiased"])
@pytest.mark.parametrize("loss", ["cross-entropy", "n-pair"])
def test_the_loss_is_that_of_the_logits(split, training, loss):
    """Without dropout, a single chunk: the loss of a step by plain torch."""
    mlp = PairMLP(24, hidden=5, dropout=0.0, seed=3)
    task = PairMLPTask(
        split.train_graph, split.valid, mlp, batches=2, loss=loss, training=training
    )
    mlp.train()
    value = float(task.loss(1, 1).detach())
    graph = split.train_graph
    positives = graph.edges[task.positives.batch(1, 1)]
    negatives, groups = task.draw(1, 1, len(positives))
    pairs = np.concatenate([positives, negatives])
    X = graph.attributes.toarray()
    u, v = X[pairs[:, 0]], X[pairs[:, 1]]
    features = torch.from_numpy(np.concatenate([u + v, np.abs(u - v)], 1))
    twin = PairMLP(24, hidden=5, dropout=0.0, seed=3).train()
    hidden = twin.norm1(torch.relu(twin.hidden1(features)))
    out = twin.output(twin.norm2(torch.relu(twin.hidden2(hidden)))).double()
    z = (out[:, 1] - out[:, 0]).detach().numpy()
    count = len(positives)
    if loss == "cross-entropy":
        p = torch.softmax(out, dim=1)[:, 1].detach().numpy()
        expected = -(np.log(p[:count]).sum() + np.log(1 - p[count:]).sum()) / len(p)
    else:
        terms = [
            np.log1p(np.exp(z[count:][groups == g] - z[g]).sum()) for g in range(count)
        ]
        expected = np.sum(terms) / len(z)
    assert value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("loss", ["cross-entropy", "n-pair"])
def test_cross_entropy_goes_back_block_by_block(split, loss, monkeypatch):
    """With the same gradients, and nothing computed twice or kept."""
    forward = pair_mlp.forward_hidden
    blocks = []

    def counted(plan, *layers):
        blocks.append(plan.key)
        return forward(plan, *layers)

    monkeypatch.setattr(pair_mlp, "forward_hidden", counted)
    monkeypatch.setattr(pair_mlp, "KEPT_BYTES", 0)

    def step():
        mlp = PairMLP(24, hidden=5, chunk=40, seed=3)
        given = {"batches": 2, "loss": loss, "training": "unbiased"}
        task = PairMLPTask(split.train_graph, split.valid, mlp, **given)
        mlp.train()
        blocks.clear()
        value = task.loss(1, 1)
        value.backward()
        return value.item(), [parameter.grad for parameter in mlp.parameters()]

    value, gradients = step()
    assert len(set(blocks)) > 5
    again = len(blocks) / len(set(blocks))
    assert again == (1 if loss == "cross-entropy" else 2)
    monkeypatch.setattr(
        CrossEntropyLoss, "slopes", lambda self, scores, *_: torch.zeros_like(scores)
    )
    plain, expected = step()  # what was foretold is wrong, and not used
    assert len(blocks) == 2 * len(set(blocks))
    assert value == plain
    for one, two in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-8)
    monkeypatch.setattr(pair_mlp, "KEPT_BYTES", 1 << 30)  # all blocks fit
    step()
    assert len(blocks) == len(set(blocks))


def test_validation_ranks_all_pairs(split):
    mlp = PairMLP(24, hidden=5, seed=3).eval()
    task = PairMLPTask(split.train_graph, split.valid, mlp, metric="hits@5")
    found = task.validate()
    assert set(found) == {"prec@100%", "ap", "auc", "mrr", "hits@5"}
    assert 0 < found["ap"] < 1


def test_cross_entropy_of_logits_has_nothing_to_learn():
    loss = CrossEntropyLoss(learned=False)
    assert not list(loss.parameters())
    assert not loss.state_dict()
    z = torch.tensor([2.0, -1.0])
    learned = CrossEntropyLoss()
    groups = np.zeros(2, np.int32)
    assert float(loss(z, z, groups)) == float(learned(z, z, groups).detach())
