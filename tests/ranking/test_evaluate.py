from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.errors import InputError, UsageError
from gelato.graph import Graph
from gelato.ranking import all_pairs, between, listed, metrics
from gelato.ranking.example import curves, worked_example
from gelato.ranking.forecast import forecast
from gelato.splits import split_edges
from support import oracles


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    ends = (60 * rng.random((240, 2)) ** 1.5).astype(int)
    return split_edges(Graph.from_indices(60, ends), valid=0.1, test=0.2)


def test_positives_rank_among_what_the_protocol_says(split):
    scores = np.random.default_rng(1).random((60, 60))
    scores += scores.T
    for part, known in (
        ("test", np.concatenate([split.train, split.valid])),
        ("valid", split.train),
    ):
        result = gelato.evaluate(scores, split, part=part)
        pairs = oracles.candidate_list(split.graph, known)
        expected = oracles.ranking_numbers(scores, pairs, split.positives(part))
        assert result.ap == pytest.approx(expected["ap"])
        assert result.counts.num_negatives == len(pairs) - len(split.positives(part))
        count = len(split.positives(part))
        assert result.random_ap == pytest.approx(count / len(pairs))
        assert result.precision_at(1.0) == pytest.approx(expected["precision"](count))


def test_matrices_callables_and_scorers_are_one(split):
    scores = np.random.default_rng(2).integers(0, 5, (60, 60)).astype(float)
    scores += scores.T

    class Mine:
        def score_rows(self, rows):
            return scores[rows]

    results = [
        gelato.evaluate(source, split).to_dict()
        for source in (scores, sp.csr_array(scores), lambda rows: scores[rows], Mine())
    ]
    for result in results:
        result.pop("seconds")
    assert all(result == results[0] for result in results)


def test_evaluation_uses_the_training_edges_only(split):
    """A model that sees held-out edges would find them all."""
    seen = []

    class Nosy:
        def scorer(self, graph):
            seen.append(graph)
            return gelato.make("cn").scorer(graph)

    gelato.evaluate(Nosy(), split)
    assert [len(graph.edges) for graph in seen] == [len(split.train)]


def test_sampled_protocol_is_labelled_balanced_and_inflated(split):
    exact = gelato.evaluate(gelato.make("aa"), split)
    biased = gelato.evaluate(gelato.make("aa"), split, protocol="sampled")
    again = gelato.evaluate(gelato.make("aa"), split, protocol="sampled")
    assert (biased.biased, exact.biased) == (True, False)
    assert "BIASED" in repr(biased)
    assert "BIASED" not in repr(exact)
    assert biased.counts.num_negatives == biased.counts.num_positives
    assert biased.ap > exact.ap
    assert biased.ap == again.ap
    assert biased.to_dict()["biased"] is True


@pytest.mark.parametrize("rule", ["all", "listed", "between"])
def test_sampled_negatives_are_distinct_negatives(split, rule):
    from gelato.ranking.protocols import sample_negatives

    known = split.known("test")
    candidates = {
        "all": all_pairs(split.graph, known),
        "listed": listed(
            split.graph,
            np.array(oracles.candidate_list(split.graph, known)[:500]),
        ),
        "between": between(split.graph, range(40), range(20, 60), known),
    }[rule]
    positives = split.test[candidates.contains(split.test)]
    drawn = sample_negatives(candidates, positives, seed=3)
    keys = {tuple(pair) for pair in drawn.tolist()}
    assert len(keys) == len(positives)
    assert candidates.contains(drawn).all()
    assert not keys & {tuple(pair) for pair in positives.tolist()}


def test_nan_and_wrong_shapes_are_named(split):
    bad = np.zeros((60, 60))
    bad[4, 9] = np.nan
    with pytest.raises(InputError, match=r"\(4, 9\)"):
        gelato.evaluate(bad, split)
    with pytest.raises(UsageError, match="60 nodes"):
        gelato.evaluate(np.zeros((3, 3)), split)
    with pytest.raises(InputError, match="shape"):
        gelato.evaluate(lambda rows: np.zeros((len(rows), 2)), split)
    with pytest.raises(UsageError, match="protocol"):
        gelato.evaluate(bad, split, protocol="balanced")


def test_nothing_to_rank_is_said(split):
    nothing = split_edges(split.graph, valid=0.1, test=0.0)
    with pytest.raises(InputError, match="nothing to rank"):
        gelato.evaluate(gelato.make("cn"), nothing)
    complete = Graph.from_indices(5, [(u, v) for u in range(5) for v in range(u)])
    with pytest.raises(InputError, match="no negatives"):
        gelato.evaluate(gelato.make("cn"), split_edges(complete, valid=0.2, test=0.2))
    outside = between(split.graph, [0], [1], split.known("test"))
    with pytest.raises(InputError, match="not candidates"):
        gelato.evaluate(gelato.make("cn"), split, candidates=outside)


def test_precision_where_ten_percent_is_a_whole_number():
    # 0.1 * 30 is a hair above 3 in floating point; k must still be 3.
    scores = np.concatenate([np.full(3, 9.0), np.arange(27) / 100])
    from gelato.ranking.counts import counts_of_scores

    counts = counts_of_scores(scores, np.full(50, 5.0))
    assert metrics.precision_at_ratio(counts, 0.1) == 1.0


def test_worked_example_of_the_paper():
    numbers = worked_example().to_dict()
    assert round(numbers["biased"]["auc"], 2) == 0.99
    assert round(numbers["biased"]["ap"], 2) == 0.95
    assert round(numbers["unbiased"]["ap"], 2) == 0.05
    # With the 49.9 M unordered pairs of 10 k nodes the same model looks worse.
    unordered = worked_example(negatives=49_900_000).to_dict()
    assert round(unordered["biased"]["auc"], 2) == 0.98
    assert round(unordered["biased"]["ap"], 2) == 0.92


def test_worked_example_equals_a_ranking_by_hand():
    example = worked_example(positives=20, false_first=30, negatives=200)
    values = np.concatenate([np.full(30, 3.0), np.linspace(1, 2, 20), np.zeros(170)])
    truth = np.zeros(220, dtype=bool)
    truth[30:50] = True
    from sklearn.metrics import average_precision_score, roc_auc_score

    assert metrics.average_precision(example.unbiased) == pytest.approx(
        average_precision_score(truth, values)
    )
    assert metrics.area_under_roc(example.unbiased) == pytest.approx(
        roc_auc_score(truth, values)
    )
    drawn = curves(example.unbiased)
    assert drawn["true_positive_rate"][-1] == drawn["recall"][-1] == 1.0
    with pytest.raises(UsageError):
        worked_example(positives=10, negatives=5)


def test_forecast_counts_pairs_and_scales(split):
    told = forecast(gelato.make("ac"), split.train_graph)
    assert told.pairs == 60 * 59 // 2 - len(split.train)
    # All rows fit into the sample here, so the near pairs are exact.
    exact = gelato.evaluate(
        gelato.make("ac"),
        split,
        part="valid",
    )
    assert told.near_pairs == exact.counts.near_pairs
    assert told.seconds > 0
    assert told.peak_bytes > 1_000_000
    dense = forecast(
        gelato.make("ac").scorer(split.train_graph).score_rows, split.graph
    )
    assert dense.near_pairs is None


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["photo", "pubmed"])
def test_forecast_of_near_pairs_is_within_a_factor_of_two(benchmark, dataset):
    split = split_edges(benchmark(dataset))
    told = forecast(gelato.make("ac"), split.train_graph, positives=len(split.test))
    near = gelato.evaluate(gelato.make("ac"), split).counts.near_pairs
    assert near / 2 < told.near_pairs < near * 2


def test_validation_edges_known_at_test_time_are_labelled():
    from support.small_graphs import community_graph

    split = gelato.split_edges(community_graph(), valid=0.2, test=0.2)
    model = gelato.make("ra").fit(split)
    plain = gelato.evaluate(model, split)
    more = gelato.evaluate(model, split, known_edges="train+valid")
    graph = split.graph.with_edges(split.known("test"))
    scores = model.scorer(graph).score_rows(np.arange(split.graph.num_nodes))
    assert more.ap == gelato.evaluate(scores, split).ap != plain.ap
    assert more.to_dict()["known_edges"] == "train+valid"
    assert more.label in repr(more)
    assert "VALIDATION EDGES KNOWN" in more.label
    assert not plain.label
    for given, options in (
        (scores, {}),
        (model, {"part": "valid"}),
        (model, {"known_edges": "all"}),
    ):
        with pytest.raises(UsageError):
            gelato.evaluate(given, split, **{"known_edges": "train+valid"} | options)
