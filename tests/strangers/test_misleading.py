"""Results that would mislead are refused, or say what they are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.errors import InputError, UsageError
from support.small_graphs import community_graph


@pytest.fixture(scope="module")
def graph():
    return community_graph(40)


@pytest.fixture(scope="module")
def split(graph):
    return gelato.split_edges(graph, valid=0.1, test=0.2)


@pytest.mark.parametrize("kind", ["matrix", "callable"])
def test_a_fixed_scorer_is_not_compared_on_several_splits(graph, kind):
    scores = np.ones((40, 40))
    fixed = scores if kind == "matrix" else (lambda rows: scores[rows])
    with pytest.raises(UsageError, match="'mine' cannot be fitted") as refused:
        gelato.compare(graph, {"cn": "cn", "mine": fixed}, splits=3)
    assert "fit(split)" in refused.value.hint
    table = gelato.compare(graph, {"cn": "cn", "mine": fixed})
    assert table["model"].to_list() == ["cn", "mine"]


@pytest.mark.parametrize("shape", [np.asarray, sp.csr_array, lambda m: lambda r: m[r]])
def test_scores_that_depend_on_the_order_of_a_pair_are_refused(split, shape):
    scores = np.random.default_rng(0).random((40, 40))
    with pytest.raises(InputError, match=r"not symmetric.*undirected") as refused:
        gelato.evaluate(shape(scores), split)
    assert "+ scores.T" in refused.value.hint
    both = gelato.evaluate(shape(scores + scores.T), split)
    assert 0 < both.ap < 1
    with pytest.raises(InputError, match="not symmetric"):
        gelato.evaluate(shape(np.triu(scores)), split)
    # Rounding is no direction.
    assert gelato.evaluate(shape((scores + scores.T) * (1 + 1e-9 * scores)), split)


def test_a_directed_graph_takes_any_matrix():
    edges = [(i, (i + k) % 20) for i in range(20) for k in (1, 3, 4)]
    graph = gelato.Graph.from_indices(20, edges, directed=True)
    split = gelato.split_edges(graph, test=0.2)
    scores = np.random.default_rng(0).random((20, 20))
    assert gelato.evaluate(scores, split).ap > 0


def test_runs_of_other_graphs_and_splits_are_no_rivals(graph, split, tmp_path):
    from gelato.report.rivals import summarise_runs

    def kept(name, model, data):
        return gelato.make(model).fit(data).save(tmp_path / name)

    one, two = kept("one", "cn", split), kept("two", "aa", split)
    other = gelato.split_edges(graph, valid=0.1, test=0.2, seed=1)
    moved = kept("moved", "aa", other)
    with pytest.raises(InputError, match="different splits") as refused:
        summarise_runs([one, moved])
    assert split.fingerprint in str(refused.value)
    assert other.fingerprint in str(refused.value)
    far = gelato.split_edges(community_graph(41), valid=0.1, test=0.2)
    with pytest.raises(InputError, match="different graphs") as refused:
        summarise_runs([one, kept("far", "aa", far)])
    assert far.fingerprint in str(refused.value)
    # Two splits are fine where every model ran on both.
    made = summarise_runs([one, two, moved, kept("third", "cn", other)])
    assert [entry["splits"] for entry in made["ranking"] if not entry["biased"]] == [
        2
    ] * 2


def test_one_model_with_other_parameters_is_a_rival(split, tmp_path):
    from gelato.report.rivals import summarise_runs

    runs = [gelato.make("ac", t=t).fit(split).save(tmp_path / str(t)) for t in (2, 3)]
    made = summarise_runs(runs)
    names = {entry["model"] for entry in made["ranking"]}
    assert names == {"ac (t = 2)", "ac (t = 3)"}
