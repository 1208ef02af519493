"""Gelato as a model: bad input, reduction to its heuristic, newer graphs, own parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

import gelato
from gelato.errors import GelatoError, InputError, OutputError, UsageError
from gelato.graph import Graph
from gelato.kernels.vectors import HAS_BFLOAT
from gelato.models.gelato import Gelato
from gelato.models.registry import preset
from gelato.nn.first_layer import PairFeatures
from gelato.splits import split_edges
from support.small_graphs import community_graph

QUICK = {"epochs": 3, "batches": 2, "hidden": 8}
ROWS = np.arange(40)


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(), valid=0.1, test=0.1)


@pytest.fixture(scope="module")
def model(split):
    return Gelato(eta=0.5, alpha=0.5, beta=0.5, **QUICK).fit(split)


class TestBadInput:
    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("eta", [-0.1, float("nan"), float("inf"), "0.5", None, True]),
            ("alpha", [-0.1, 1.1, float("nan")]),
            ("beta", [-0.1, 1.1]),
            ("t", [0, -1, 2.5, "3"]),
            ("hidden", [0]),
            ("chunk", [1]),
            ("dropout", [1, -0.1]),
            ("lr", [0, -1e-3, float("nan"), float("inf")]),
            ("epochs", [0, 1.5, None]),
            ("batches", [0]),
            ("validate_every", [0]),
            ("patience", [0]),
            ("valid", [0, 1]),
            ("seed", [-1, 0.5]),
            ("loss", ["npair", None]),
            ("training", ["all", "unbiase"]),
            ("negatives", ["far", None]),
            ("near_rate", [0, 1.5, "0.5", float("nan")]),
            ("masking", ["none"]),
            ("self_loops", ["some"]),
            ("heuristic", ["katz"]),
            ("similarity", ["jaccard"]),
            ("metric", ["precision", "hits@0", "prec@0%", None]),
        ],
    )
    def test_parameters_are_checked_before_any_work(self, name, values):
        for value in values:
            # Anything but a graph: it must not even be looked at.
            with pytest.raises(GelatoError, match=name) as caught:
                Gelato(**{name: value}).fit(None)
            assert caught.value.exit_code == 2
            assert repr(value) in str(caught.value)

    def test_near_names_are_suggested(self):
        with pytest.raises(GelatoError, match=r"Did you mean 'n-pair'.*listnet"):
            Gelato(loss="n-pairs").fit(None)
        with pytest.raises(GelatoError, match=r"Did you mean 'unbiased'"):
            Gelato(training="unbiasd").fit(None)
        with pytest.raises(UsageError, match="walks 3 steps"):
            Gelato(heuristic="mixture", t=2).fit(None)

    def test_more_batches_than_edges(self, split):
        with pytest.raises(InputError, match=r"training edges.*fewer batches"):
            Gelato(batches=10_000).fit(split)
        few = len(split.train) - 1
        with pytest.raises(UsageError, match="standardised"):
            Gelato(**QUICK | {"batches": few}, heuristic="cn").fit(split)

    def test_empty_validation_part(self):
        graph = community_graph()
        with pytest.raises(InputError, match="validation part"):
            Gelato(**QUICK).fit(split_edges(graph, valid=0.0, test=0.1))
        tiny = replace(graph, edges=graph.edges[:8])
        with pytest.raises(InputError, match=r"valid=0\.2"):
            Gelato(**QUICK).fit(tiny)

    def test_a_graph_without_edges(self):
        empty = Graph.from_indices(4, [], attributes=np.eye(4))
        with pytest.raises(GelatoError, match="edge"):
            Gelato(**QUICK).fit(empty)

    @pytest.mark.parametrize("value", [0.0, 1.0])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_attributes_that_tell_nothing_train_with_a_note(self, value, sparse, split):
        constant = np.full((40, 3), value, dtype=np.float32)
        attributes = sp.csr_array(constant) if sparse else constant
        data = replace(split, graph=replace(split.graph, attributes=attributes))
        model = Gelato(eta=0.5, alpha=0.5, **QUICK).fit(data)
        assert any("tell no pair from another" in note for note in model.notes_)
        assert np.isfinite(model.score_rows(ROWS)).all()
        assert model.training_.skipped == 0

    def test_extreme_attributes_stop_with_advice(self, split):
        huge = split.graph.attributes * np.float32(1e38)
        data = replace(split, graph=replace(split.graph, attributes=huge))
        with pytest.raises(GelatoError) as caught:
            Gelato(**QUICK).fit(data)
        assert caught.value.hint

    def test_a_model_that_is_not_fitted(self, split):
        with pytest.raises(UsageError, match="not been fitted"):
            Gelato().predict()
        with pytest.raises(UsageError, match="not been fitted"):
            gelato.evaluate(Gelato(), split)

    def test_callables_cannot_be_saved_and_are_named(self, split, tmp_path):
        def similarity(attributes, start, stop):
            return np.ones((stop - start, attributes.shape[0]))

        model = Gelato(similarity=similarity, **QUICK).fit(split)
        with pytest.raises(OutputError, match="similarity"):
            model.save(tmp_path / "run")
        assert not (tmp_path / "run").exists()


class TestReduction:
    @pytest.mark.parametrize("heuristic", ["ac", "cn", "aa", "ra"])
    def test_without_attributes_it_is_its_heuristic(self, heuristic, split):
        plain = replace(split, graph=replace(split.graph, attributes=None))
        model = Gelato(heuristic=heuristic, eta=0.5, alpha=0.2, **QUICK).fit(plain)
        assert any("reduces to its heuristic" in note for note in model.notes_)
        assert model.training_ is None
        expected = gelato.make(heuristic).fit(plain)
        np.testing.assert_array_equal(model.score_rows(ROWS), expected.score_rows(ROWS))

    def test_a_bare_graph_then_holds_nothing_out(self, split):
        model = Gelato(beta=0.0, alpha=0.5, **QUICK).fit(split.graph)
        assert model.split_ is None
        assert model.training_ is None
        assert np.isfinite(model.score_rows(ROWS)).all()

    def test_beta_0_is_cos_ac(self, split):
        model = Gelato(eta=1.0, alpha=0.5, beta=0.0).fit(split)
        assert model.training_ is None
        other = gelato.make("cos+ac").fit(split)
        np.testing.assert_array_equal(model.score_rows(ROWS), other.score_rows(ROWS))

    def test_a_mixture_learns_without_attributes(self, split):
        plain = replace(split, graph=replace(split.graph, attributes=None))
        model = Gelato(heuristic="mixture", **QUICK | {"lr": 0.1}).fit(plain)
        assert model.module_ is None
        coefficients = model.mixture_.coefficients()
        assert torch.isclose(coefficients.sum(), torch.tensor(1.0))
        assert coefficients.std() > 0.01
        assert (
            gelato.evaluate(model, plain).ap > gelato.evaluate(model, plain).random_ap
        )


class TestEvenStart:
    @pytest.fixture
    def split(self):
        """No node is isolated: a loop of weight 1 is the only thing that differs."""
        ring = [(u, (u + step) % 60) for u in range(60) for step in (1, 2, 3, 5, 7)]
        attributes = np.eye(6, dtype=np.float32)[np.arange(60) // 10]
        graph = Graph.from_indices(60, ring, attributes=attributes)
        found = split_edges(graph, valid=0.1, test=0.1)
        assert found.train_graph.degrees.min() > 0
        return found

    def test_training_starts_from_the_heuristic(self, split):
        first = Gelato(start="even", **QUICK).untrained(split)
        plain = gelato.make("ac").fit(split)
        np.testing.assert_allclose(
            first.score_rows(ROWS), plain.score_rows(ROWS), rtol=1e-5, atol=1e-9
        )

    def test_what_ranks_worse_is_not_kept(self, split, tmp_path):
        # A rate so large that no epoch is of any use.
        wild = Gelato(start="even", lr=1e3, metric="ap", **QUICK).fit(split)
        plain = gelato.make("ac").fit(split)
        assert wild.training_.best_epoch == 0
        assert len(wild.training_.history) == QUICK["epochs"]
        assert "the model is its heuristic" in wild.notes_[-1]
        for part in ("valid", "test"):
            ours, theirs = (gelato.evaluate(m, split, part=part) for m in (wild, plain))
            assert ours.ap == pytest.approx(theirs.ap, rel=1e-6)
        again = gelato.load(wild.save(tmp_path / "run"))
        np.testing.assert_array_equal(again.score_rows(ROWS), wild.score_rows(ROWS))

    def test_what_ranks_better_is(self, split):
        found = Gelato(start="even", metric="ap", epochs=15, batches=2, lr=0.01)
        found.fit(split)
        start = gelato.evaluate(gelato.make("ac").fit(split), split, part="valid").ap
        assert found.training_.best_epoch > 0
        assert found.training_.best_value > start

    def test_a_pair_model_of_ones_own_starts_as_it_likes(self):
        with pytest.raises(UsageError, match="start is 'even'"):
            Gelato(start="even", pair_model=lambda graph: None).check_parameters()


class TestPrecision:
    @pytest.mark.skipif(not HAS_BFLOAT, reason="this processor has no bfloat16")
    def test_bfloat16_is_near_and_stored(self, split, tmp_path):
        plain = Gelato(**QUICK).fit(split)
        model = Gelato(precision="bfloat16", **QUICK).fit(split)
        assert model.training_.history != plain.training_.history
        losses = [[e["loss"] for e in m.training_.history] for m in (model, plain)]
        np.testing.assert_allclose(*losses, rtol=0.02)
        again = gelato.load(model.save(tmp_path / "run"))
        assert again.precision == "bfloat16"
        np.testing.assert_array_equal(again.score_rows(ROWS), model.score_rows(ROWS))

    def test_runs_of_before_are_still_the_same_runs(self):
        assert "precision" not in Gelato().telling_params()
        assert "precision" in Gelato(precision="bfloat16").telling_params()

    def test_a_pair_model_of_ones_own_computes_as_it_likes(self):
        with pytest.raises(UsageError, match="precision is 'bfloat16'"):
            Gelato(
                precision="bfloat16", pair_model=lambda graph: None
            ).check_parameters()


class TestGraphNetworkAsPairModel:
    GIVEN = {"pair_model": "gcn", "eta": 0.5, "alpha": 0.5, "beta": 0.5} | QUICK

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, split):
        return Gelato(**cls.GIVEN).fit(split)

    def test_all_of_it_is_trained(self, model, split):
        start = Gelato(**self.GIVEN).untrained(split).module_.state_dict()
        for name, value in model.module_.state_dict().items():
            assert not torch.equal(value, start[name]), name

    def test_it_is_stored(self, model, split, tmp_path):
        plain = Gelato(**(self.GIVEN | {"pair_model": None})).fit(split)
        assert not np.allclose(model.score_rows(ROWS), plain.score_rows(ROWS))
        again = gelato.load(model.save(tmp_path / "run"))
        assert again.pair_model == "gcn"
        np.testing.assert_array_equal(again.score_rows(ROWS), model.score_rows(ROWS))

    def test_a_newer_graph_is_read_and_the_old_one_again(self, model, split):
        known = model.score_rows(ROWS)
        more = np.concatenate([split.graph.edges, [(0, 39), (1, 38)]])
        later = Graph.from_indices(40, more, attributes=split.graph.attributes)
        assert not np.array_equal(model.with_graph(later).score_rows(ROWS), known)
        np.testing.assert_array_equal(model.score_rows(ROWS), known)

    def test_a_step_reads_all_edges_but_its_positives(self, split):
        read = []

        class Flat(nn.Module):
            def __init__(self):
                super().__init__()
                self.level = nn.Parameter(torch.zeros(()))

            def read(self, graph):
                read.append({tuple(edge) for edge in graph.edges.tolist()})

            def forward(self, features):
                return self.level.sigmoid().expand(len(features))

        Gelato(**(self.GIVEN | {"pair_model": lambda graph: Flat()})).fit(split)
        known = {tuple(edge) for edge in split.train.tolist()}
        steps = [edges for edges in read if edges != known]
        assert len(steps) == QUICK["epochs"] * QUICK["batches"]
        for one, two in zip(steps[::2], steps[1::2], strict=True):
            assert one | two == known  # the two batches of an epoch share no positive
            assert len(one) + len(two) == len(known)

    def test_directed_graphs_are_refused_before_training(self):
        directed = community_graph(directed=True)
        with pytest.raises(GelatoError, match="gcn"):
            Gelato(**self.GIVEN).fit(split_edges(directed, valid=0.1, test=0.1))


class TestNewerGraphs:
    def test_new_edges_are_weighed_by_the_trained_model(self, model, split):
        later = Graph.from_indices(
            40,
            np.concatenate([split.graph.edges, [(0, 39), (1, 38)]]),
            attributes=split.graph.attributes,
        )
        newer = model.with_graph(later)
        table = newer.enhanced_edges()
        added = table.filter((table["source"] == 0) & (table["target"] == 39))
        assert added["is_edge"].to_list() == [True]
        features = PairFeatures(split.graph.attributes, [(0, 39)])
        with torch.no_grad():
            learned = float(model.module_(features))
        expected = 0.5 + 0.5 * (0.5 * learned + 0.5 * added["similarity"][0])
        assert added["weight"][0] == pytest.approx(expected, rel=1e-6)
        before, after = model.score_pairs([(0, 39)]), newer.score_pairs([(0, 39)])
        assert after[0] > before[0]
        assert model.graph_ is split.graph  # the old model stays as it was

    def test_new_nodes_are_linked_by_similarity(self, model, split):
        twin = split.graph.attributes.toarray()[[4]]
        attributes = np.concatenate([split.graph.attributes.toarray(), twin])
        later = Graph.from_indices(41, split.graph.edges, attributes=attributes)
        newer = model.with_graph(later)
        table = newer.enhanced_edges().filter(target=40)
        assert 4 in table["source"].to_list()  # the same attributes: cosine 1
        assert not table["is_edge"].any()
        assert (table["similarity"] > model.similar_.threshold).all()
        links = newer.predict(per_node=3, nodes=[40])
        assert (links["score"] > 0).any()
        old = model.with_graph(split.graph)
        known = model.score_rows(ROWS, edges="all")
        np.testing.assert_array_equal(old.score_rows(ROWS), known)

    def test_the_order_of_nodes_plays_no_part(self, model, split):
        order = np.random.default_rng(0).permutation(40)
        place = np.argsort(order)
        shuffled = Graph.from_indices(
            40, place[split.graph.edges], attributes=split.graph.attributes[order]
        )
        scores = model.with_graph(shuffled).score_rows(ROWS)
        known = model.score_rows(ROWS, edges="all")[np.ix_(order, order)]
        np.testing.assert_allclose(scores, known, rtol=1e-6, atol=1e-12)

    def test_newer_graphs_can_be_saved(self, model, split, tmp_path):
        twin = split.graph.attributes.toarray()[[4]]
        attributes = np.concatenate([split.graph.attributes.toarray(), twin])
        later = Graph.from_indices(41, split.graph.edges, attributes=attributes)
        newer = model.with_graph(later)
        again = gelato.load(newer.save(tmp_path / "run"))
        rows = np.arange(41)
        np.testing.assert_array_equal(again.score_rows(rows), newer.score_rows(rows))

    def test_other_attributes_are_refused(self, model, split):
        wide = replace(split.graph, attributes=np.ones((40, 13), dtype=np.float32))
        with pytest.raises(InputError, match=r"12 attributes per node.*has 13"):
            model.with_graph(wide)
        with pytest.raises(InputError, match="has 0"):
            model.scorer(replace(split.graph, attributes=None))
        names = tuple("abcdefghijkl")
        named = replace(split, graph=replace(split.graph, attribute_names=names))
        fitted = Gelato(beta=0.0).fit(named)
        turned = replace(named.graph, attribute_names=names[::-1])
        with pytest.raises(InputError, match="'a' where this graph has 'l'"):
            fitted.scorer(turned)
        renamed = replace(named.graph, attribute_names=("other", *names[1:]))
        with pytest.raises(InputError, match="lacks: 'a'"):
            fitted.with_graph(renamed)
        with pytest.raises(InputError, match="undirected"):
            model.with_graph(replace(split.graph, directed=True))


class GCNEncoder(nn.Module):
    """One graph convolution, then the dot product of two nodes through a sigmoid."""

    def __init__(self, graph, hidden=6):
        super().__init__()
        matrix = graph.adjacency.toarray() + np.eye(graph.num_nodes)
        roots = np.sqrt(matrix.sum(axis=1))
        self.matrix = torch.from_numpy(matrix / np.outer(roots, roots)).float()
        self.attributes = torch.from_numpy(graph.attributes.toarray())
        self.first = nn.Linear(graph.num_attributes, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(0.3)

    def forward(self, features):
        hidden = torch.relu(self.matrix @ self.first(self.attributes))
        hidden = self.second(self.dropout(self.matrix @ hidden))
        u, v = torch.from_numpy(features.pairs.T)
        return torch.sigmoid((hidden[u] * hidden[v]).sum(dim=1))


class TestPairModel:
    def test_a_gnn_encoder_takes_the_place_of_the_mlp(self, split, tmp_path):
        options = QUICK | {"epochs": 8, "lr": 0.02, "pair_model": GCNEncoder}
        model = Gelato(**options).fit(split)
        losses = [entry["loss"] for entry in model.training_.history]
        assert losses[-1] < losses[0]
        assert isinstance(model.module_, GCNEncoder)
        with pytest.raises(OutputError, match="pair_model"):
            model.save(tmp_path)

    def test_its_own_randomness_resumes_too(self, split, tmp_path):
        options = QUICK | {"pair_model": GCNEncoder}

        def stop(entry, progress):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Gelato(**options).fit(split, folder=tmp_path, on_epoch=stop)
        resumed = Gelato(**options).fit(split, folder=tmp_path, resume=True)
        straight = Gelato(**options).fit(split)
        for one, two in zip(
            resumed.module_.parameters(), straight.module_.parameters(), strict=True
        ):
            assert torch.equal(one, two)


def test_training_beats_its_heuristic_on_attributes_that_tell(split):
    model = Gelato(epochs=30, batches=2, hidden=16, lr=0.01, dropout=0.0).fit(split)
    trained = gelato.evaluate(model, split, part="valid").precision_at(1.0)
    plain = gelato.evaluate(gelato.make("ac"), split, part="valid").precision_at(1.0)
    assert trained >= plain
    best = max(entry["prec@100%"] for entry in model.training_.history)
    assert model.training_.best_value == best == pytest.approx(trained)


def test_presets_are_parameters_and_unknown_ones_are_met_with_suggestions():
    for name in Gelato.presets:
        Gelato(**preset(name)).check_parameters()
    with pytest.raises(GelatoError, match="Did you mean cora"):
        preset("corra")
