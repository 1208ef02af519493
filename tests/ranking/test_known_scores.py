"""Scores carry the edges that they come from, and evaluations refuse leaks."""

from functools import partial

import numpy as np
import pytest

import gelato
from gelato.errors import UsageError
from gelato.ranking.known_scores import KnownScores


@pytest.fixture(scope="module")
def split():
    return gelato.split_edges(gelato.load_dataset("citeseer"))


@pytest.fixture(scope="module")
def model(split):
    return gelato.make("aa").fit(split)


@pytest.fixture(scope="module")
def every(split):
    return np.arange(split.graph.num_nodes)


def test_rows_of_a_model_fitted_on_a_split_know_its_training_edges(model, split, every):
    scores = model.score_rows(every)
    expected = model.scorer(split.train_graph).score_rows(every)
    np.testing.assert_array_equal(scores, expected)
    assert scores.walked == {split.fingerprint}
    ap = gelato.evaluate(scores, split).ap
    assert ap == gelato.evaluate(model, split).ap
    assert round(100 * ap, 2) == 1.24


def test_all_edges_are_one_word_away_and_not_evaluated(model, split, every):
    scores = model.score_rows(every, edges="all")
    whole = gelato.make("aa").fit(split.graph).score_rows(every)
    np.testing.assert_array_equal(scores, whole)
    for leaky in (scores, whole, scores + 1, np.log1p(scores) + np.eye(len(every))):
        with pytest.raises(UsageError, match="all known edges"):
            gelato.evaluate(leaky, split)


def test_an_ensemble_with_one_leaky_part_is_refused(model, split, every):
    honest, leaky = model.score_rows(every), model.score_rows(every, edges="all")
    assert gelato.evaluate(2 * honest + honest.T, split).ap > 0.01
    for mixed in (honest + leaky, np.maximum(honest, leaky), np.vstack([leaky])):
        with pytest.raises(UsageError, match="would leak"):
            gelato.evaluate(mixed, split)


def test_callables_are_checked_block_by_block(model, split):
    assert gelato.evaluate(model.score_rows, split).ap == pytest.approx(
        gelato.evaluate(model, split).ap
    )
    for leaky in (
        partial(model.score_rows, edges="all"),
        lambda rows: 3 * model.score_rows(rows, edges="all"),
    ):
        with pytest.raises(UsageError, match="all known edges"):
            gelato.evaluate(leaky, split)


def test_scores_of_another_split_are_refused(model, split, every):
    other = gelato.split_edges(split.graph, seed=1)
    with pytest.raises(UsageError, match=f"another split .{split.fingerprint}."):
        gelato.evaluate(model.score_rows(every), other)


def test_pairs_and_a_newer_graph(model, split):
    pairs = split.graph.node_ids[split.test[:20]]
    assert model.score_pairs(pairs).walked == {split.fingerprint}
    assert model.score_pairs(pairs, edges="all").walked == {"all"}
    newer = model.with_graph(split.graph)
    assert newer.score_pairs(pairs).walked == {"all"}
    np.testing.assert_array_equal(
        newer.score_pairs(pairs), model.score_pairs(pairs, edges="all")
    )


def test_a_model_without_a_split_has_no_training_edges(split):
    model = gelato.make("cn").fit(split.graph)
    with pytest.raises(UsageError, match="fitted on a graph"):
        model.score_rows(np.arange(2), edges="train")
    with pytest.raises(UsageError, match="not a part"):
        model.score_rows(np.arange(2), edges="test")


def test_predictions_and_explanations_take_all_edges(model, split):
    graph = split.graph
    u, v = graph.node_ids[split.test[0]].tolist()
    why = model.explain(u, v)
    assert why.known_edges == graph.num_edges
    assert why.score == model.score_pairs([(u, v)], edges="all")[0]
    links = model.predict(top=5)
    again = model.score_pairs(links.select("source", "target"), edges="all")
    np.testing.assert_allclose(links["score"].to_numpy(), again)


def test_marks_survive_what_arrays_do():
    scores = KnownScores.of(np.arange(4.0).reshape(2, 2), "all")
    for derived in (scores[0], scores.T, scores * 2, -scores, scores.copy()):
        assert derived.walked == {"all"}
    assert np.concatenate([scores, np.zeros((1, 2))]).walked == {"all"}
    assert isinstance(scores.sum(), float)
    assert not isinstance(np.asarray(scores), KnownScores)
    out = np.empty((2, 2))
    np.add(scores, 1, out=out)
    assert out[0, 0] == 1
