"""Protocols other than all pairs: what they draw, what they refuse."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import gelato
from gelato.errors import InputError, UsageError
from gelato.ranking import evaluate
from gelato.ranking.candidates import all_pairs
from gelato.ranking.protocols import PROTOCOLS, draw_negatives, hard_negatives
from support.small_graphs import community_graph


@pytest.fixture(scope="module")
def split():
    return gelato.split_edges(community_graph(), test=0.2)


@pytest.fixture(scope="module")
def model(split):
    return gelato.make("ra").fit(split)


@pytest.mark.parametrize("protocol", ["sampled", "degree-corrected", "heart"])
def test_negatives_are_candidates_that_are_no_positives(split, protocol):
    drawn = draw_negatives(protocol, split, "test", seed=0)
    rule = all_pairs(split.graph, split.known("test"))
    assert rule.contains(drawn.pairs).all()
    edges = {tuple(pair) for pair in split.graph.edges.tolist()}
    assert not edges & {tuple(pair) for pair in drawn.pairs.tolist()}
    again = draw_negatives(protocol, split, "test", seed=0)
    np.testing.assert_array_equal(drawn.pairs, again.pairs)
    other = draw_negatives(protocol, split, "test", seed=1)
    assert not np.array_equal(drawn.pairs, other.pairs) or protocol == "heart"


def test_degree_corrected_negatives_are_drawn_by_both_degrees():
    split = gelato.split_edges(gelato.make_synthetic_graph(600, seed=1), test=0.5)
    degrees = split.train_graph.degrees
    chances = np.outer(degrees, degrees)
    np.fill_diagonal(chances, 0.0)
    u, v = split.graph.edges.T
    chances[u, v] = chances[v, u] = 0.0
    drawn = [
        draw_negatives("degree-corrected", split, "test", seed=seed).pairs
        for seed in range(5)
    ]
    assert {len(one) for one in drawn} == {len(split.test)}
    expected = (chances.sum(axis=1) @ degrees) / chances.sum()
    assert expected > 1.5 * degrees.mean()
    assert degrees[np.concatenate(drawn)].mean() == pytest.approx(expected, rel=0.05)


def test_hard_negatives_are_the_best_ranked_of_either_end(split):
    graph, rule = split.train_graph, all_pairs(split.graph, split.known("test"))
    drawn = hard_negatives(graph, rule, split.test, seed=0, count=6)
    scores = gelato.make("ra").fit(split).scorer(graph).score_rows(np.arange(40))
    a, b = split.test[0].tolist()
    own = drawn.pairs[drawn.owners == 0]
    assert len(own) == 6
    assert all(a in pair or b in pair for pair in own.tolist())
    # Three of each end; the best by resource allocation is one of them.
    true = {tuple(p) for p in split.test.tolist()}
    mine = [(min(a, x), max(a, x)) for x in range(40) if x != a]
    mine = [p for p in mine if rule.contains(np.array([p]))[0] and p not in true]
    best = max(scores[p] for p in mine)
    assert best in [scores[tuple(p)] for p in own.tolist()]


def test_ranks_are_among_a_positive_s_own_negatives(split, model):
    result = evaluate(model, split, protocol="heart")
    drawn = draw_negatives("heart", split, "test", seed=0)
    scores = model.scorer(split.train_graph).score_rows(np.arange(40))
    ranks = []
    for at, pair in enumerate(split.test.tolist()):
        own = np.array([scores[tuple(p)] for p in drawn.pairs[drawn.owners == at]])
        score = scores[tuple(pair)]
        ranks.append(1 + (own > score).sum() + (own == score).sum() / 2)
    assert result.mrr == pytest.approx(np.mean(1 / np.array(ranks)))
    assert result.biased
    assert "HEART" in repr(result)
    assert result.interval("mrr") == (result.mrr, result.mrr)


def listed(tmp_path, rows, header="source,target"):
    file = tmp_path / "negatives.csv"
    file.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    return file


def free_pairs(split):
    known = {tuple(pair) for pair in split.graph.edges.tolist()}
    every = [(u, v) for u in range(40) for v in range(u + 1, 40)]
    return [pair for pair in every if pair not in known]


def test_given_negatives_for_all_positives(split, model, tmp_path):
    rows = free_pairs(split)
    file = listed(tmp_path, rows)
    result = evaluate(model, split, protocol="given", negatives=file)
    assert result.counts.num_negatives == len(rows)
    # All non-edges are all pairs, but for those that are validation edges: none.
    assert result.ap == pytest.approx(evaluate(model, split).ap)
    assert result.label == "GIVEN"


def test_given_negatives_of_each_positive(split, model):
    rows = [
        {"source": u, "target": v, "negative": x}
        for u, v in split.test.tolist()
        for x in range(40)
        if (min(u, x), max(u, x)) in set(free_pairs(split))
    ]
    result = evaluate(model, split, protocol="given", negatives=pl.DataFrame(rows))
    assert 0 < result.mrr <= 1
    assert result.own.num_positives == len(split.test)


def test_bad_lists_are_named_with_their_line(split, model, tmp_path):
    good = free_pairs(split)[:3]
    edge, test = split.train[0].tolist(), split.test[0].tolist()
    header = "source,target,negative"
    for rows, head, message in (
        ([*good, edge], "source,target", r"line 5: \(\d+, \d+\) is an edge"),
        ([*good, test], "source,target", "line 5: .* is an edge"),
        ([*good, good[1]], "source,target", "line 5: .* listed a second time"),
        ([*good, (1, "nobody")], "source,target", "line 5: .*nobody"),
        ([*good, (1, 1)], "source,target", "line 5: pairs a node with itself"),
        ([(*good[0], 5)], header, "line 2: .* no test edge"),
    ):
        file = listed(tmp_path, rows, head)
        with pytest.raises(InputError, match=message) as told:
            evaluate(model, split, protocol="given", negatives=file)
        assert "negatives.csv" in str(told.value)
    free = set(free_pairs(split))
    x = next(x for x in range(40) if (min(test[0], x), max(test[0], x)) in free)
    file = listed(tmp_path, [(*test, x)], header)
    with pytest.raises(InputError, match="no negative for the test edge"):
        evaluate(model, split, protocol="given", negatives=file)


def test_protocols_that_lack_something_are_refused(split, model):
    with pytest.raises(UsageError, match="Did you mean heart"):
        evaluate(model, split, protocol="hearts")
    with pytest.raises(UsageError, match="goes with negatives"):
        evaluate(model, split, protocol="given")
    with pytest.raises(UsageError, match="goes with negatives"):
        evaluate(model, split, negatives=[(0, 1)])
    rule = all_pairs(split.graph, split.known("test"))
    with pytest.raises(UsageError, match="no candidate rule"):
        evaluate(model, split, protocol="heart", candidates=rule)
    assert PROTOCOLS[0] == "all"
