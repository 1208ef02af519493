"""The stack as a model: no leakage, same bits, honest words."""

from __future__ import annotations

import builtins
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.errors import GelatoError, UnsupportedGraphError, UsageError
from gelato.graph import Graph
from gelato.splits import EdgeSplit, split_edges
from gelato.stacking import folds, ranker
from gelato.stacking.scorer import StackScorer

QUICK = {"rounds": 15, "folds": 2}


def make_graph(seed=7, n=90, attributes=True):
    """Four communities with attributes that follow them, and an isolated node."""
    rng = np.random.default_rng(seed)
    block = np.arange(n) % 4
    chance = np.where(block[:, None] == block[None, :], 0.3, 0.01)
    pairs = np.argwhere(np.triu(rng.random((n, n)) < chance, 1))
    pairs = pairs[(pairs != n - 1).all(axis=1)]
    X = (rng.random((n, 16)) < 0.1 + 0.4 * (np.arange(16) % 4 == block[:, None])) * 1.0
    return Graph.from_indices(
        n,
        pairs,
        attributes=sp.csr_array(X) if attributes else None,
        ids=[f"n{i}" for i in range(n)],
    )


@pytest.fixture(scope="module")
def split():
    return split_edges(make_graph(), valid=0.1, test=0.1)


@pytest.fixture(scope="module")
def model(split):
    return gelato.make("stack", gate=False, **QUICK).fit(split)


def all_scores(model, graph):
    return model.scorer(graph).score_rows(np.arange(graph.num_nodes))


def test_candidates_stand_above_all_other_pairs(model, split):
    scorer = model.scorer(split.train_graph)
    assert isinstance(scorer, StackScorer)
    scores = all_scores(model, split.train_graph)
    np.testing.assert_array_equal(scores, scores.T)
    listed = np.zeros(scores.shape, dtype=bool)
    listed[tuple(scorer.pairs.T)] = True
    listed |= listed.T
    assert scores[listed].min() > scores[~listed].max()
    rest = gelato.make("ac").fit(split).scorer(split.train_graph)
    plain = rest.score_rows(np.arange(split.graph.num_nodes))
    np.testing.assert_array_equal(scores[~listed], plain[~listed])
    # Ranked as a near scorer, or as a matrix: the same.
    exact = gelato.evaluate(model, split).ap
    assert exact == pytest.approx(gelato.evaluate(scores, split).ap, rel=1e-12)


def test_threads_and_runs_give_the_same_bits(model, split):
    with gelato.use_threads(3):
        again = gelato.make("stack", gate=False, **QUICK).fit(split)
    graph = split.train_graph
    np.testing.assert_array_equal(all_scores(model, graph), all_scores(again, graph))
    other = gelato.make("stack", gate=False, seed=5, **QUICK).fit(split)
    assert np.any(all_scores(model, graph) != all_scores(other, graph))


def test_test_edges_change_nothing(model, split):
    n, known = split.graph.num_nodes, split.graph.edges
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    free = pairs[~np.isin(pairs @ [n, 1], known @ [n, 1])]
    test = np.random.default_rng(0).permutation(free)[: len(split.test)]
    edges = np.concatenate([split.train, split.valid, test])
    graph = Graph.from_indices(n, edges, attributes=split.graph.attributes)
    other = EdgeSplit(graph, split.train, split.valid, test)
    again = gelato.make("stack", gate=False, **QUICK).fit(other)
    scores = all_scores(again, other.train_graph)
    np.testing.assert_array_equal(all_scores(model, split.train_graph), scores)


def test_hidden_edges_enter_no_feature():
    """Features of a fold are those of a graph that never had the hidden edges."""
    graph = make_graph()
    attributes = folds_attributes(graph)
    made = folds.make_fold(graph, attributes, 0, folds=2)
    hidden = folds.hidden_edges(graph, 0, 0)
    bare = graph.with_edges(graph.edges[~hidden])
    table = gelato.pair_features(bare, made.pairs)
    values = table.drop("source", "target").to_numpy()
    np.testing.assert_array_equal(values, made.features)
    assert made.labels.sum() > 0
    answers = set(map(tuple, graph.edges[hidden].tolist()))
    assert {tuple(p) for p in made.pairs[made.labels].tolist()} <= answers


def folds_attributes(graph):
    from gelato.stacking.attributes import node_attributes

    return node_attributes(graph)


def planted(split, monkeypatch, labels_of):
    """Return the model that folds with other labels give."""
    real = folds.make_fold

    def changed(graph, attributes, fold, **options):
        made = real(graph, attributes, fold, **options)
        return replace(made, labels=labels_of(made))

    monkeypatch.setattr(folds, "make_fold", changed)
    return gelato.make("stack", gate=False, **QUICK).fit(split)


def test_shuffled_labels_teach_nothing(split, model, monkeypatch):
    def shuffled(made):
        return np.random.default_rng(len(made.labels)).permutation(made.labels)

    aps = []
    for seed in range(3):
        blind = planted(
            split, monkeypatch, lambda made, s=seed: np.roll(shuffled(made), s)
        )
        monkeypatch.undo()
        aps.append(gelato.evaluate(blind, split).ap)
    scorer = model.scorer(split.train_graph)
    rng = np.random.default_rng(0)
    order = [
        gelato.evaluate(
            replace(scorer, scores=10 + rng.permutation(len(scorer.scores)) / 1e6),
            split,
        ).ap
        for _ in range(20)
    ]
    assert np.mean(aps) < np.mean(order) + 3 * np.std(order)


def test_saved_and_loaded_models_score_alike(model, split, tmp_path):
    model.save(tmp_path / "run")
    again = gelato.load(tmp_path / "run")
    graph = split.graph
    np.testing.assert_array_equal(all_scores(model, graph), all_scores(again, graph))
    assert again.notes_ == model.notes_
    np.testing.assert_array_equal(again.precision_.share, model.precision_.share)
    assert not list((tmp_path / "run").glob("*.pkl"))
    (tmp_path / "run" / "trees-0.txt").write_text("no trees")
    with pytest.raises(GelatoError, match="not the file"):
        gelato.load(tmp_path / "run")


def test_contributions_add_up_to_the_score(model):
    links = model.predict(top=4)
    for source, target, score in links.select("source", "target", "score").iter_rows():
        why = model.explain(source, target)
        parts = sum(part.contribution for part in why.groups)
        assert why.score == score
        assert why.base + parts == pytest.approx(score, abs=1e-9)
        # The constant is the same for every pair: it is not a remainder.
        assert why.base == pytest.approx(model.explain(*links.row(1)[:2]).base)
        assert why.reason in why.to_text()
        assert why.to_dict()["groups"][0]["group"] == why.groups[0].group
    edge = model.graph_.node_ids[model.graph_.edges[0]].tolist()
    assert "not among the candidates" in model.explain(*edge).notes[-1]


def test_links_have_reasons_and_a_precision(model):
    links = model.predict(top=10)
    assert links["reason"].null_count() == 0
    share = links["link_precision"].to_numpy()
    assert np.all(np.diff(share) <= 1e-12)
    assert (links["link_precision_low"] <= links["link_precision"]).all()
    assert (links["link_precision"] <= links["link_precision_high"]).all()
    listed = model.predict(pairs=[("n0", "n1"), tuple(links.row(0)[:2])])
    assert listed.columns[-1] == "reason"


def test_folds_are_kept_and_taken_up_again(split, tmp_path, monkeypatch):
    first = gelato.make("stack", **QUICK).fit(split, folder=tmp_path / "work")
    assert len(list((tmp_path / "work").glob("fold-*.npz"))) == 2
    (tmp_path / "work" / "fold-1.npz").unlink()
    made = []
    real = folds.make_fold

    def counted(graph, attributes, fold, **options):
        made.append(fold)
        return real(graph, attributes, fold, **options)

    monkeypatch.setattr(folds, "make_fold", counted)
    told = []
    second = gelato.make("stack", **QUICK).fit(
        split, folder=tmp_path / "work", resume=True, on_fold=lambda *x: told.append(x)
    )
    assert made == [1]
    assert told == [(1, 2), (2, 2)]
    graph = split.train_graph
    np.testing.assert_array_equal(all_scores(first, graph), all_scores(second, graph))
    gelato.make("stack", seed=3, **QUICK).fit(
        split, folder=tmp_path / "work", resume=True
    )
    assert made == [1, 0, 1]  # folds of another seed are not ours


def test_bare_graphs_without_attributes_and_new_nodes():
    graph = make_graph(attributes=False)
    model = gelato.make("stack", **QUICK).fit(graph)
    assert model.split_ is not None
    assert len(model.predict(top=3)) == 3
    with_attributes = make_graph()
    model = gelato.make("stack", gate=False, **QUICK).fit(with_attributes)
    X = sp.vstack([with_attributes.attributes, with_attributes.attributes[:1]])
    newer = Graph.from_indices(
        91,
        with_attributes.edges,
        attributes=X.tocsr(),
        ids=[*with_attributes.node_ids.tolist(), "new"],
    )
    links = model.with_graph(newer).predict(per_node=3, nodes=["new"])
    # The newcomer has no edge: its attributes alone find its partners.
    assert links["reason"].null_count() == 0
    assert all(int(other[1:]) % 4 == 0 for other in links["target"].to_list()[:1])


def test_few_edges_fall_back_and_say_so():
    graph = Graph.from_indices(20, [(i, i + 1) for i in range(19)])
    model = gelato.make("stack").fit(graph)
    assert "too few" in model.notes_[0]
    assert len(model.predict(top=3)) == 3
    split = split_edges(graph, valid=0.1, test=0.1)
    same = gelato.evaluate(gelato.make("stack").fit(split), split).ap
    assert same == gelato.evaluate(gelato.make("ac").fit(split), split).ap


def test_a_budget_too_small_for_all_folds_is_kept(split):
    model = gelato.make("stack", folds=10, rounds=15, budget=1e-6).fit(split)
    assert any("1 of 10 folds" in note for note in model.notes_)


def test_bad_input_is_refused_with_a_remedy(split, monkeypatch):
    directed = Graph.from_indices(3, [(0, 1), (2, 1)], directed=True)
    with pytest.raises(UnsupportedGraphError, match="symmetrise"):
        gelato.make("stack").fit(directed)
    for wrong in ({"folds": 0}, {"rounds": 0}, {"budget": 0}):
        with pytest.raises(UsageError, match="but must be"):
            gelato.make("stack", **wrong).fit(split)
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "lightgbm":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(GelatoError, match="pip install lightgbm"):
        ranker.tree_library()
