"""The stack as a model: no leakage, same bits, honest words."""

from __future__ import annotations

import builtins
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import gelato
from gelato.engines.ray_cluster import pack, unpack
from gelato.errors import GelatoError, UnsupportedGraphError, UsageError
from gelato.graph import Graph
from gelato.models import stack
from gelato.splits import EdgeSplit, split_edges
from gelato.stacking import features, folds, ranker
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


def test_threads_and_runs_give_the_same_bits(model, split, monkeypatch):
    monkeypatch.setattr(ranker, "_PART", 500)  # or one thread would score all rows
    with gelato.use_threads(3):
        again = gelato.make("stack", gate=False, **QUICK).fit(split)
    graph = split.train_graph
    np.testing.assert_array_equal(all_scores(model, graph), all_scores(again, graph))
    other = gelato.make("stack", gate=False, seed=5, **QUICK).fit(split)
    assert np.any(all_scores(model, graph) != all_scores(other, graph))


def with_other_test_edges(split):
    """Return a split that differs in its test edges alone."""
    n, known = split.graph.num_nodes, split.graph.edges
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    free = pairs[~np.isin(pairs @ [n, 1], known @ [n, 1])]
    test = np.random.default_rng(0).permutation(free)[: len(split.test)]
    edges = np.concatenate([split.train, split.valid, test])
    graph = Graph.from_indices(n, edges, attributes=split.graph.attributes)
    return EdgeSplit(graph, split.train, split.valid, test)


def test_test_edges_change_nothing(split):
    one, two = (
        gelato.make("stack", **QUICK).fit(part)
        for part in (split, with_other_test_edges(split))
    )
    # The trees as well, whatever the gate makes of them.
    assert one.ranker_.texts == two.ranker_.texts
    assert one.choice_ == two.choice_
    np.testing.assert_array_equal(
        *(all_scores(m, split.train_graph) for m in (one, two))
    )


def test_few_validation_edges_decide_nothing(split, monkeypatch):
    other = EdgeSplit(split.graph, split.train, split.test, split.valid, kind="given")
    found = []
    for enough in (200, 10):
        monkeypatch.setattr(stack, "ENOUGH_EDGES", enough)
        fits = [gelato.make("stack", **QUICK).fit(part) for part in (split, other)]
        assert [one.saw_validation_ for one in fits] == [enough == 10] * 2
        found.append([one.choice_.precision for one in fits])
    assert found[0][0] == found[0][1]
    assert found[1][0] != found[1][1]


def test_a_feature_that_knows_test_edges_is_caught(split, monkeypatch):
    """The test above has teeth: a planted leak makes it fail."""
    real = features._popularity
    found = []
    for part in (split, with_other_test_edges(split)):
        answers = part.graph.edges @ [part.graph.num_nodes, 1]

        def peeking(measures, pairs, answers=answers):
            leak = np.isin(pairs @ [measures.num_nodes, 1], answers) * 1.0
            return real(measures, pairs) | {"degree_product": leak}

        monkeypatch.setattr(features, "_popularity", peeking)
        found.append(gelato.make("stack", gate=False, **QUICK).fit(part))
    assert found[0].ranker_.texts != found[1].ranker_.texts
    one, two = (all_scores(model, split.train_graph) for model in found)
    assert np.any(one != two)


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
    from gelato.stacking.node_attributes import node_attributes

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
    share = links["expected_precision"].to_numpy()
    assert np.all(np.diff(share) <= 1e-12)
    assert (links["expected_low"] <= links["expected_precision"]).all()
    assert (links["expected_precision"] <= links["expected_high"]).all()
    assert "scored like this one" in model.prediction(top=1).notes[-1]
    listed = model.predict(pairs=[("n0", "n1"), tuple(links.row(0)[:2])])
    assert listed.columns[-1] == "reason"


def test_folds_are_kept_and_taken_up_again(split, tmp_path, monkeypatch):
    quick = {**QUICK, "gate": False}
    first = gelato.make("stack", **quick).fit(split, folder=tmp_path / "work")
    assert len(list((tmp_path / "work").glob("fold-*.npz"))) == 2
    (tmp_path / "work" / "fold-1.npz").unlink()
    made = []
    real = folds.make_fold

    def counted(graph, attributes, fold, **options):
        made.append(fold)
        return real(graph, attributes, fold, **options)

    monkeypatch.setattr(folds, "make_fold", counted)
    told = []
    second = gelato.make("stack", **quick).fit(
        split, folder=tmp_path / "work", resume=True, on_part=lambda *x: told.append(x)
    )
    assert made == [1]
    assert [done for _, done, _ in told] == [0, 1, 2, 2, 3]
    assert {total for _, _, total in told} == {4}
    assert told[2][0] == "hiding edges, 2 of 2 times"
    graph = split.train_graph
    np.testing.assert_array_equal(all_scores(first, graph), all_scores(second, graph))
    gelato.make("stack", seed=3, **quick).fit(
        split, folder=tmp_path / "work", resume=True
    )
    assert made == [1, 0, 1]  # folds of another seed are not ours


def test_a_killed_fit_goes_on_with_the_same_bits(split, model, tmp_path, monkeypatch):
    real = folds.make_fold

    def killed(graph, attributes, fold, **options):
        if fold == 1:
            raise KeyboardInterrupt
        return real(graph, attributes, fold, **options)

    monkeypatch.setattr(folds, "make_fold", killed)
    again = gelato.make("stack", gate=False, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        again.fit(split, folder=tmp_path)
    (tmp_path / ".fold-1.npz.99").write_bytes(b"half a file")
    monkeypatch.undo()
    again.fit(split, folder=tmp_path, resume=True)
    graph = split.train_graph
    np.testing.assert_array_equal(all_scores(model, graph), all_scores(again, graph))


class TestWithout:
    def test_fits_that_leave_parts_out_share_what_they_are_made_of(
        self, split, model, tmp_path, monkeypatch
    ):
        kept = {"folder": tmp_path / "folds", "tables": tmp_path / "tables"}
        whole = gelato.make("stack", gate=False, **QUICK).fit(split, **kept)
        graph = split.train_graph
        np.testing.assert_array_equal(
            all_scores(model, graph), all_scores(whole, graph)
        )
        gone = "attributes, mutual rank"
        asked = {"gate": False, "without": gone, **QUICK}
        alone = gelato.make("stack", **asked).fit(split)
        monkeypatch.setattr(folds, "make_fold", None)
        monkeypatch.setattr(folds.FeatureTable, "of", None)
        shared = gelato.make("stack", **asked).fit(split, resume=True, **kept)
        monkeypatch.undo()
        scores = all_scores(shared, graph)
        np.testing.assert_array_equal(all_scores(alone, graph), scores)
        assert np.any(scores != all_scores(whole, graph))
        link = shared.predict(top=1).row(0)
        parts = {p.group: p.contribution for p in shared.explain(*link[:2]).groups}
        assert not parts.get("attributes")
        assert not parts.get("mutual rank")
        assert parts["shared neighbours"] != 0

    def test_a_group_takes_its_ranks_along(self):
        names = tuple(features.feature_guide())
        gone = [names[at] for at in features.left_out(names, ["ridge walk"])]
        assert set(gone) >= {"ease", "ease_less", "partial", "ease_rank_less"}
        assert not {"ac", "ra_rank_less"} & set(gone)
        walks = {names[at] for at in features.left_out(names, ["longer walks"])}
        assert walks > set(gone) | {"ac", "ac_share_more"}
        assert len(features.left_out(names, features.GROUPS)) == len(names)

    def test_trees_start_and_blend(self, split, tmp_path):
        plain = gelato.make("stack", gate=False, without="trees", **QUICK).fit(split)
        assert plain.ranker_.texts == ()
        plain.save(tmp_path / "run")
        graph = split.train_graph
        np.testing.assert_array_equal(
            all_scores(plain, graph), all_scores(gelato.load(tmp_path / "run"), graph)
        )
        trees = gelato.make("stack", gate=False, without="start", **QUICK).fit(split)
        assert trees.ranker_.start.columns.size == 0
        fixed = gelato.make("stack", without="blend, ridge walk", **QUICK).fit(split)
        compared = [name for name, _ in fixed.choice_.precision]
        assert compared == ["stack", "ra", "ac"]
        with pytest.raises(GelatoError, match="Did you mean 'attributes'"):
            gelato.make("stack", without="attributesx")


def test_attributes_that_tell_nothing_are_left_out():
    bare = make_graph(attributes=False)
    scores = []
    for value in (None, 0.0, 3.0):
        same = None if value is None else np.full((90, 5), value, np.float32)
        part = split_edges(replace(bare, attributes=same), test=0.1)
        model = gelato.make("stack", gate=False, folds=1, rounds=5).fit(part)
        scores.append(all_scores(model, part.train_graph))
        told = any("same for all nodes" in note for note in model.notes_)
        assert told == (value is not None)
        np.testing.assert_array_equal(scores[0], scores[-1])


def test_a_newcomer_without_edges_and_attributes_is_refused():
    graph = make_graph(attributes=False)
    model = gelato.make("stack", gate=False, folds=1, rounds=5).fit(graph)
    ids = [*graph.node_ids.tolist(), "new"]
    newer = model.with_graph(Graph.from_indices(91, graph.edges, ids=ids))
    with pytest.raises(GelatoError, match="knows nothing about 'new': no edges"):
        newer.predict(per_node=2, nodes=["new"])


def test_a_matching_leaves_nothing_to_learn_from():
    """Whatever is hidden, both of its ends are isolated."""
    graph = Graph.from_indices(240, np.arange(240).reshape(-1, 2))
    model = gelato.make("stack", **QUICK).fit(split_edges(graph, valid=0.1, test=0.1))
    assert "no hidden edge is among the candidates" in model.notes_[-1]
    assert np.isfinite(gelato.evaluate(model, model.split_).ap)


def test_trees_of_leaves_and_twins():
    """Stars: hiding an edge isolates a leaf, and all leaves of a star are twins."""
    hubs = np.repeat(np.arange(12), 10)
    stars = np.stack([hubs, 12 + np.arange(120)], axis=1)
    ring = np.stack([np.arange(12), (np.arange(12) + 1) % 12], axis=1)
    X = np.zeros((132, 12), np.float32)
    X[np.arange(12), np.arange(12)] = X[12 + np.arange(120), hubs] = 1
    graph = Graph.from_indices(132, np.concatenate([stars, ring]), attributes=X)
    model = gelato.make("stack", gate=False, **QUICK).fit(split_edges(graph, test=0.1))
    scores = all_scores(model, model.split_.train_graph)
    assert np.isfinite(scores).all()
    assert len(model.predict(top=20)) == 20


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


def test_it_is_tuned_like_every_model(split):
    tuned = gelato.tune(
        "stack",
        split,
        parameters={"folds": 1, "gate": False},
        space={"rounds": (5, 10)},
        metric="ap",
    )
    assert tuned.trials.height == 2
    assert tuned.model.rounds == tuned.parameters["rounds"]
    found = gelato.evaluate(tuned.model, split, part="valid").ap
    assert found == pytest.approx(tuned.value)


def test_its_scorer_travels_to_workers(split, model):
    again = unpack(pack(model.scorer(split.train_graph)))
    rows = np.arange(split.graph.num_nodes)
    np.testing.assert_array_equal(
        again.score_rows(rows), all_scores(model, split.train_graph)
    )
