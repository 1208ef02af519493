"""The training step of Gelato against its dense twin; leakage; losses and samplers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import gelato
from gelato.errors import InputError, UnsupportedGraphError, UsageError
from gelato.graph import Graph
from gelato.models.gelato import Gelato
from gelato.nn.enhancement import enhance
from gelato.nn.pair_mlp import PairMLP
from gelato.splits import split_edges
from gelato.training.dense_task import DenseTask
from gelato.training.gelato_task import GelatoTask, Step, StepSettings, hide_edges
from support.small_graphs import community_graph


def make_task(
    kind,
    graph,
    *,
    eta=0.5,
    alpha=0.5,
    beta=0.5,
    masking=None,
    validation=None,
    **settings,
):
    enhanced = enhance(graph, eta=eta, alpha=alpha, beta=beta)
    model = PairMLP(
        2 * graph.num_attributes, hidden=8, dropout=0.0, dtype=torch.float64, seed=3
    )
    given = StepSettings(**{"batches": 3, **settings})
    options = {} if masking is None else {"masking": masking}
    held = graph.edges[:3] if validation is None else validation
    return kind(graph, enhanced, held, model, given, **options)


def outside(task, lists):
    ends = np.stack([lists.rows(), lists.listed_columns()], axis=1)
    return task.structure.outside[ends]


def dense_loss(task, twin, epoch, batch):
    """The loss of the task's own step, from the twin's n x n scores."""
    positives = task.positives.batch(epoch, batch)
    negatives = task.sampler.draw(epoch, batch, len(positives), None)
    z = twin.standardised_dense(twin.trained(), positives)
    edges, others = twin.edges[positives], outside(task, negatives.lists)
    at = [z[pairs[:, 0], pairs[:, 1]] for pairs in (edges, others)]
    return twin.module.loss(*at, negatives.groups)


@pytest.mark.parametrize("t", [2, 3])
@pytest.mark.parametrize("self_loops", ["all", "isolated"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("training", ["unbiased", "biased"])
def test_a_step_equals_its_dense_twin(t, self_loops, weighted, training):
    graph = community_graph(weighted=weighted)
    options = {"t": t, "self_loops": self_loops, "training": training}
    task = make_task(GelatoTask, graph, **options)
    twin = make_task(DenseTask, graph, **options)
    both = task.enhanced.is_similar & task.enhanced.is_edge
    hidden = task.pairs.edge[task.positives.batch(2, 1)]
    assert both[hidden].any()  # else the similarity share is not tested
    assert (~both[hidden]).any()
    loss = task.loss(2, 1)
    loss.backward()
    expected = dense_loss(task, twin, 2, 1)
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-12)
    for ours, theirs in zip(
        task.module.parameters(), twin.module.parameters(), strict=True
    ):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-10)


def test_hidden_edges_keep_their_similarity_and_lose_their_own_weight():
    graph = community_graph(weighted=True)
    enhanced = enhance(graph, eta=0.5, alpha=0.5, beta=0.25)
    trained = torch.full((len(enhanced.pairs),), 0.3, dtype=torch.float64)
    edges = np.flatnonzero(enhanced.is_edge)
    removed, weights = hide_edges(enhanced, trained, edges)
    similar = enhanced.is_edge & enhanced.is_similar
    assert sorted(removed) == np.flatnonzero(enhanced.is_edge & ~similar).tolist()
    rest = 0.5 * (0.25 * 0.3 + 0.75 * enhanced.similarity[similar])
    np.testing.assert_allclose(weights[similar].numpy(), rest, rtol=1e-12)
    _, plain = hide_edges(enhanced, trained, edges[:0])
    torch.testing.assert_close(plain, enhanced.weights(trained))


class TestLeakage:
    """What a step hides cannot be seen in any of its scores."""

    def scores(self, graph, positives, *, kind=DenseTask, masking=None):
        task = make_task(kind, graph, masking=masking)
        task.module.eval()
        if kind is DenseTask:
            with torch.no_grad():
                return task.standardised_dense(task.trained(), positives).numpy()
        hidden, weights = task.hide(task.trained(), positives)
        everything = task.structure.all_pairs()
        step = Step((1, 0), weights, hidden, positives)
        return task.scores.score(step, everything)

    def reweighed(self, graph, positives, factor):
        weights = np.ones(graph.num_edges) if graph.weights is None else graph.weights
        weights = weights.copy()
        weights[positives] *= factor
        return replace(graph, weights=weights)

    @pytest.mark.parametrize("kind", [GelatoTask, DenseTask])
    def test_of_the_weight_of_a_masked_positive(self, kind):
        graph = community_graph(weighted=True)
        positives = np.arange(0, graph.num_edges, 3)
        before = self.scores(graph, positives, kind=kind)
        changed = self.reweighed(graph, positives, 7.3)
        np.testing.assert_array_equal(
            before, self.scores(changed, positives, kind=kind)
        )
        visible = self.reweighed(graph, positives + 1, 7.3)
        assert not np.array_equal(before, self.scores(visible, positives, kind=kind))

    def test_one_sided_masking_does_leak(self):
        graph = community_graph(weighted=True)
        positives = np.arange(0, graph.num_edges, 3)
        before = self.scores(graph, positives, masking="one-sided")
        changed = self.reweighed(graph, positives, 7.3)
        after = self.scores(changed, positives, masking="one-sided")
        assert not np.allclose(before, after)

    @pytest.mark.parametrize("eta", [0.0, 0.5])
    def test_of_the_presence_of_a_masked_positive(self, eta):
        """Hidden and absent edges give the same scores."""
        graph = community_graph(weighted=True)
        positives = np.arange(0, graph.num_edges, 3)
        task = make_task(DenseTask, graph, eta=eta)
        task.module.eval()
        fewer = graph.with_edges(np.delete(graph.edges, positives, axis=0))
        absent = enhance(
            fewer, alpha=0.5, beta=0.5, similar=task.enhanced.similar, eta=eta
        )
        other = DenseTask(
            fewer, absent, fewer.edges[:3], task.module.pair_model, task.settings
        )
        other.module.eval()
        with torch.no_grad():
            hidden = task.standardised_dense(task.trained(), positives)
            gone = other.standardised_dense(other.trained(), positives[:0])
        torch.testing.assert_close(hidden, gone, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("directed", [False, True])
    def test_of_held_out_edges(self, directed):
        """Other weights of held-out edges train to the same model."""
        graph = community_graph(weighted=True, directed=directed)
        split = split_edges(graph, valid=0.1, test=0.2)
        options = {"epochs": 2, "batches": 2, "hidden": 8, "eta": 0.5, "alpha": 0.5}
        model = Gelato(**options).fit(split)
        weights = graph.weights.copy()
        known = {tuple(edge) for edge in split.train.tolist()}
        held = [tuple(edge) not in known for edge in graph.edges.tolist()]
        weights[held] *= 9.0
        heavier = replace(graph, weights=weights)
        again = Gelato(**options).fit(replace(split, graph=heavier))
        for one, two in zip(
            model.module_.state_dict().values(),
            again.module_.state_dict().values(),
            strict=True,
        ):
            assert torch.equal(one, two)
        rows = np.arange(graph.num_nodes)
        np.testing.assert_array_equal(
            model.scorer(split.train_graph).score_rows(rows),
            again.scorer(split.train_graph).score_rows(rows),
        )


@pytest.mark.parametrize("loss", ["n-pair", "cross-entropy", "listnet"])
@pytest.mark.parametrize(
    "training", ["unbiased", "biased", "partitioned", "adversarial"]
)
def test_every_loss_learns_from_every_training_set(loss, training):
    model = Gelato(
        loss=loss,
        training=training,
        epochs=8,
        batches=2,
        hidden=16,
        dropout=0.0,
        lr=0.02,
    ).fit(split_edges(community_graph(60), valid=0.1, test=0.1))
    losses = [entry["loss"] for entry in model.training_.history]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    assert model.training_.skipped == 0


@pytest.mark.parametrize("heuristic", ["cn", "aa", "ra", "mixture"])
@pytest.mark.parametrize("training", ["unbiased", "adversarial"])
def test_other_heuristics_learn_too(heuristic, training):
    split = split_edges(community_graph(60), valid=0.1, test=0.1)
    model = Gelato(
        heuristic=heuristic,
        training=training,
        epochs=8,
        batches=2,
        hidden=16,
        dropout=0.0,
        lr=0.02,
    ).fit(split)
    losses = [entry["loss"] for entry in model.training_.history]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


@pytest.mark.parametrize("heuristic", ["cn", "aa", "ra", "mixture"])
def test_scorers_of_other_heuristics_equal_the_scores_of_training(heuristic):
    """The scorer gives what the module gives in evaluation mode, up to scale."""
    graph = community_graph(weighted=True)
    task = make_task(GelatoTask, graph, heuristic=heuristic)
    for batch in range(3):
        task.loss(1, batch)  # running statistics
    task.module.eval()
    pairs = np.argwhere(np.triu(np.ones((graph.num_nodes,) * 2), 1))
    with torch.no_grad():
        weights = task.enhanced.weights(task.trained()).double()
        z = task.module.mixture(weights.float(), task.structure, pairs).numpy()
    rows = task.scorer(task.weights()).score_rows(np.arange(graph.num_nodes))
    scores = rows[pairs[:, 0], pairs[:, 1]]
    if heuristic != "mixture":
        norm = task.module.mixture.norm
        scores = (scores - float(norm.running_mean)) / float(norm.running_var) ** 0.5
    np.testing.assert_allclose(z, scores, rtol=1e-4, atol=1e-4)


def test_n_pair_with_biased_negatives_is_the_pairwise_logistic_loss():
    graph = community_graph()
    task = make_task(GelatoTask, graph, training="biased")
    twin = make_task(DenseTask, graph, training="biased")
    positives = task.positives.batch(1, 0)
    negatives = task.sampler.draw(1, 0, len(positives), None)
    assert sorted(negatives.groups) == list(range(len(positives)))
    z = twin.standardised_dense(twin.trained(), positives)
    others = outside(task, negatives.lists)[np.argsort(negatives.groups)]
    edges = graph.edges[positives]
    margin = z[edges[:, 0], edges[:, 1]] - z[others[:, 0], others[:, 1]]
    expected = torch.nn.functional.softplus(-margin).sum() / (2 * len(positives))
    torch.testing.assert_close(task.loss(1, 0), expected)


class TestDense:
    options = {"epochs": 3, "batches": 2, "hidden": 8}  # noqa: RUF012

    def test_directed_graphs_train_and_say_how(self):
        split = split_edges(community_graph(directed=True), valid=0.1, test=0.1)
        model = Gelato(**self.options).fit(split)
        assert "trained with dense 40 x 40 matrices (directed graph)" in model.notes_
        scores = model.score_rows(np.arange(40))
        assert not np.allclose(scores, scores.T)

    def test_one_sided_masking_trains_differently(self):
        split = split_edges(community_graph(), valid=0.1, test=0.1)
        model = Gelato(masking="one-sided", **self.options).fit(split)
        assert any("one-sided masking" in note for note in model.notes_)
        other = Gelato(**self.options).fit(split)
        assert other.notes_ == ()
        one, two = (m.module_.output.weight for m in (model, other))
        assert not torch.equal(one, two)

    def test_large_or_unsuited_graphs_are_refused_before_any_work(self):
        edges = [(i, i + 1) for i in range(3_000)]
        large = Graph.from_indices(
            3_001, edges, attributes=np.ones((3_001, 2)), directed=True
        )
        with pytest.raises(UnsupportedGraphError, match=r"3,000 nodes.*symmetrised"):
            Gelato(**self.options).fit(large)
        with pytest.raises(UnsupportedGraphError, match=r'3,000 nodes.*masking="both"'):
            Gelato(masking="one-sided", **self.options).fit(large.symmetrised())
        small = community_graph(directed=True)
        with pytest.raises(UsageError, match="unbiased"):
            Gelato(training="adversarial", **self.options).fit(small)
        with pytest.raises(UsageError, match="One-sided"):
            Gelato(masking="one-sided", **self.options).fit(small)
        with pytest.raises(UnsupportedGraphError, match="cn"):
            Gelato(heuristic="cn", **self.options).fit(small)
        with pytest.raises(UsageError, match='heuristic="ac"'):
            Gelato(heuristic="cn", masking="one-sided", **self.options).fit(
                community_graph()
            )


def test_masking_that_isolates_every_node_trains_on():
    """A perfect matching in one batch: all nodes are alone, and nothing fails."""
    n = 40
    graph = Graph.from_indices(
        n, [(i, i + 1) for i in range(0, n, 2)], attributes=np.eye(n, dtype=np.float32)
    )
    for batches in (1, 2):
        model = Gelato(epochs=2, batches=batches, hidden=4, valid=0.2).fit(graph)
        assert model.training_.skipped == 0
        assert np.isfinite(model.score_rows(np.arange(n))).all()


def test_fewer_negatives_than_positives_are_refused():
    n = 8
    pairs = [(u, v) for u in range(n) for v in range(u)]
    graph = Graph.from_indices(n, pairs, attributes=np.eye(n))
    with pytest.raises(InputError, match="pairs that are not edges"):
        Gelato(batches=2, valid=0.2).fit(graph)


# ------------------------------------------------------------------ validation loss
@pytest.mark.parametrize("loss", ["n-pair", "cross-entropy"])
def test_validation_loss_equals_its_dense_twin(loss):
    split = split_edges(community_graph())
    options = {"loss": loss, "validation": split.valid}
    task = make_task(GelatoTask, split.train_graph, **options)
    twin = make_task(DenseTask, split.train_graph, **options)
    told = task.validate()["valid_loss"]
    with torch.no_grad():
        nothing = np.empty(0, np.int64)
        z = twin.standardised_dense(twin.module.eval() and twin.trained(), nothing)
        pairs = outside(task, task.valid_loss.lists)
        scores = z[pairs[:, 0], pairs[:, 1]]
        positive = scores[task.valid_loss.positives]
        negative = scores[task.valid_loss.negatives]
        expected = twin.module.loss(positive, negative, task.valid_loss.groups)
    assert told == pytest.approx(float(expected), rel=1e-6)


def test_validation_loss_is_of_unknown_pairs_and_every_epoch_the_same():
    split = split_edges(community_graph())
    task = make_task(GelatoTask, split.train_graph, validation=split.valid)
    pairs = outside(task, task.valid_loss.lists)
    pairs = np.sort(pairs, axis=1)
    held = {tuple(pair) for pair in pairs[task.valid_loss.positives].tolist()}
    others = {tuple(pair) for pair in pairs[task.valid_loss.negatives].tolist()}
    assert held == {tuple(pair) for pair in split.valid.tolist()}
    assert others
    assert not others & held
    assert not others & {tuple(pair) for pair in split.train.tolist()}
    assert task.validate() == task.validate()


def test_near_training_has_no_validation_loss():
    graph = gelato.make_synthetic_graph(400, seed=0, average_degree=4.0, max_degree=20)
    split = split_edges(graph)
    options = {"eta": 0.0, "negatives": "near", "validation": split.valid}
    task = make_task(GelatoTask, split.train_graph, **options)
    assert "near" in task.notes[0]
    assert "valid_loss" not in task.validate()
