"""Explanations sum to the score, and say what the model says."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import gelato
from gelato import heuristics
from gelato.errors import InputError, UsageError
from gelato.explain import steps as effects_module
from gelato.explain.pair import explain_pair
from gelato.explain.steps import attribute_effects
from gelato.graph import Graph
from gelato.models.gelato import Gelato
from gelato.models.two_stage import CosineAutocovariance
from gelato.report.figures import draw_explanation
from gelato.splits import split_edges
from support import strategies

WALKERS = ["cn", "aa", "ra", "ac1", "ac2", "ac3", "ac4", "ac3 all"]


def walker(name, graph):
    if name.startswith("ac"):
        loops = "all" if name.endswith("all") else "isolated"
        return heuristics.autocovariance(graph, t=int(name[2]), self_loops=loops)
    return {
        "cn": heuristics.common_neighbours,
        "aa": heuristics.adamic_adar,
        "ra": heuristics.resource_allocation,
    }[name](graph)


def attributed(n=24, sparse=True, seed=3, directed=False):
    rng = np.random.default_rng(seed)
    block = np.arange(n) % 2
    chance = np.where(block[:, None] == block[None, :], 0.4, 0.08)
    pairs = np.argwhere(np.triu(rng.random((n, n)) < chance, 1))
    X = (rng.random((n, 10)) < 0.1 + 0.5 * (np.arange(10) % 2 == block[:, None])) * 1.0
    if not sparse:
        X = X * rng.normal(size=X.shape)
    return Graph.from_indices(
        n,
        pairs,
        attributes=sp.csr_array(X) if sparse else X,
        attribute_names=[f"word {a}" for a in range(10)],
        ids=[f"node {i}" for i in range(n)],
        directed=directed,
    )


def fitted(graph, **options):
    settings = {"eta": 1.0, "alpha": 0.3, "beta": 0.6, "hidden": 8, **options}
    split = split_edges(graph, valid=0.1, test=0.0)
    return Gelato(epochs=2, batches=2, **settings).fit(split)


@pytest.fixture(scope="module")
def graph():
    return attributed()


@pytest.fixture(scope="module")
def model(graph):
    return fitted(graph)


class TestWalks:
    @settings(max_examples=80)
    @given(strategies.graphs(min_nodes=3, directed=False), st.data())
    def test_contributions_sum_to_the_score(self, graph, data):
        scorer = walker(data.draw(st.sampled_from(WALKERS)), graph)
        nodes = st.integers(0, graph.num_nodes - 1)
        u = data.draw(nodes)
        v = data.draw(nodes.filter(lambda node: node != u))
        why = explain_pair(scorer, graph, u, v, top=100_000)
        parts = [walk.contribution for walk in why.walks]
        score = scorer.score_rows(np.array([u]))[0, v]
        assert why.score == score
        assert len(why.walks) == why.num_walks
        assert sum(parts) + why.chance == pytest.approx(score, rel=1e-5, abs=1e-15)
        assert why.walk_score == pytest.approx(sum(parts), rel=1e-9)
        along = [walk.contribution for walk in why.walks if walk.through_pair]
        assert why.through_pair == pytest.approx(sum(along), rel=1e-6, abs=1e-15)
        assert bool(along) <= why.known
        for place in range(1, why.steps):
            here = [m.contribution for m in why.middle if m.place == place]
            assert sum(here) == pytest.approx(why.walk_score, rel=1e-9)
        for walk in why.walks:
            product = scorer.multiplier
            weights = {(e.source, e.target): e.weight for e in why.edges}
            for a, b in zip(walk.nodes[:-1], walk.nodes[1:], strict=True):
                product *= weights[min(a, b), max(a, b)]
            for k in walk.nodes[1:-1]:
                product *= scorer.factor[k]
            assert walk.contribution == pytest.approx(product, rel=1e-9)

    def test_directed_walks_follow_the_edges(self):
        graph = Graph.from_indices(4, [(0, 1), (1, 2), (2, 3), (3, 0)], directed=True)
        why = explain_pair(heuristics.autocovariance(graph), graph, 0, 3)
        assert [walk.nodes for walk in why.walks] == [(0, 1, 2, 3)]
        assert [(e.source, e.target) for e in why.edges] == [(0, 1), (1, 2), (2, 3)]
        assert why.walk_score + why.chance == pytest.approx(why.score, rel=1e-9)

    def test_only_the_strongest_are_listed_and_their_share_is_told(self, graph):
        scorer = heuristics.autocovariance(graph)
        few = explain_pair(scorer, graph, "node 0", "node 2", top=3)
        every = explain_pair(scorer, graph, "node 0", "node 2", top=10_000)
        assert few.walks == every.walks[:3]
        assert few.num_walks == len(every.walks) > 3
        listed = sum(walk.contribution for walk in few.walks)
        assert few.covered == pytest.approx(listed / few.walk_score)
        assert every.covered == pytest.approx(1.0)

    def test_loops_and_walks_through_the_pair_are_named(self):
        graph = Graph.from_indices(3, [(0, 1), (1, 2)], weights=[2.0, 1.0])
        scorer = heuristics.autocovariance(graph, self_loops="all")
        why = explain_pair(scorer, graph, 0, 1, top=50)
        assert why.known
        assert all(walk.through_pair for walk in why.walks)
        assert why.through_pair == pytest.approx(why.walk_score)
        loops = {edge.source for edge in why.edges if edge.is_loop}
        assert loops == {0, 1}
        text = why.to_text()
        assert "self-loop" in text
        assert "through the pair itself" in text
        assert "already an edge" in text

    def test_unrelated_nodes_score_what_chance_gives(self):
        graph = Graph.from_indices(4, [(0, 1), (2, 3)])
        why = explain_pair(heuristics.autocovariance(graph), graph, 0, 3)
        assert why.walks == ()
        assert why.chance == why.score < 0
        assert "no walk joins" in why.to_text()


class TestEnhanced:
    def test_edges_tell_what_the_model_made_of_them(self, graph, model):
        why = explain_pair(model, graph, "node 0", "node 2", top=40)
        assert why.walk_score + why.chance == pytest.approx(why.score, rel=1e-5)
        table = {
            (row["source"], row["target"]): row
            for row in model.enhanced_edges().iter_rows(named=True)
        }
        similar = {tuple(graph.node_ids[pair]) for pair in model.similar_.pairs}
        assert any(not edge.is_edge for edge in why.edges)
        for edge in why.edges:
            row = table[edge.source, edge.target]
            assert edge.weight == pytest.approx(row["weight"], rel=1e-6)
            assert edge.is_edge == row["is_edge"]
            assert edge.similarity == pytest.approx(row["similarity"])
            assert edge.is_similar == ((edge.source, edge.target) in similar)
            assert edge.own_weight == float(edge.is_edge)

    @pytest.mark.parametrize("sparse", [True, False])
    @pytest.mark.parametrize("cells", [1, 1 << 22])
    def test_effects_are_exact_leave_one_out(self, sparse, cells, monkeypatch):
        monkeypatch.setattr(effects_module, "_CELLS", cells)
        graph = attributed(sparse=sparse)
        model = fitted(graph)
        enhanced = model.enhanced(graph)
        weights = model.weights(graph, enhanced).double().numpy()
        for position in (0, len(enhanced.pairs) - 1):
            attributes, effects = attribute_effects(
                graph, enhanced, position, model.weights
            )
            u, v = enhanced.pairs[position]
            X = graph.attributes.toarray() if sparse else graph.attributes
            assert attributes.tolist() == np.flatnonzero(X[[u, v]].any(axis=0)).tolist()
            for attribute, effect in zip(attributes, effects, strict=True):
                without = np.array(X)
                without[[u, v], attribute] = 0
                changed = Graph.from_indices(
                    graph.num_nodes, graph.edges, attributes=without
                )
                again = gelato.nn.enhancement.enhance(
                    changed, alpha=0.3, beta=0.6, similar=model.similar_
                )
                expected = model.weights(changed, again).double().numpy()[position]
                assert effect == pytest.approx(weights[position] - expected, abs=2e-6)

    def test_effects_are_named_and_strongest_first(self, graph, model):
        why = explain_pair(
            model, graph, "node 0", "node 2", top_edges=2, top_attributes=3
        )
        for edge in why.edges[:2]:
            sizes = [abs(effect.effect) for effect in edge.effects]
            assert 0 < len(sizes) <= 3
            assert sizes == sorted(sizes, reverse=True)
            assert all(effect.name.startswith("word ") for effect in edge.effects)
        assert not any(edge.effects for edge in why.edges[2:])
        assert "word " in why.to_text()

    def test_cosine_weights_are_explained_without_a_network(self, graph):
        model = CosineAutocovariance(eta=0.5, alpha=0.0).fit(graph)
        why = explain_pair(model, graph, "node 0", "node 2")
        edge = next(e for e in why.edges if e.effects)
        assert edge.weight == pytest.approx(edge.similarity)

    def test_a_directed_model(self):
        graph = attributed(directed=True)
        model = fitted(graph)
        ends = graph.node_ids[graph.edges[0]].tolist()
        why = explain_pair(model, graph, *ends)
        assert why.walk_score + why.chance == pytest.approx(why.score, rel=1e-5)
        assert any(edge.effects for edge in why.edges)

    def test_a_mixture_sums_over_its_heuristics(self, graph):
        model = fitted(graph, heuristic="mixture")
        why = explain_pair(model, graph, "node 0", "node 2", top=100_000)
        total = sum(walk.contribution for walk in why.walks)
        assert total + why.chance == pytest.approx(why.score, rel=1e-5)
        assert {walk.part for walk in why.walks} == {"ac", "cn", "aa", "ra"}
        assert "several heuristics" in why.to_text()
        draw(why)

    def test_a_pair_model_of_ones_own_is_left_alone(self, graph):
        class Flat(nn.Module):
            def __init__(self):
                super().__init__()
                self.level = nn.Parameter(torch.zeros(()))

            def forward(self, features):
                return torch.sigmoid(self.level).expand(len(features))

        model = fitted(graph, pair_model=lambda graph: Flat())
        why = explain_pair(model, graph, "node 0", "node 2")
        assert not any(edge.effects for edge in why.edges)
        assert any("not the MLP" in note for note in why.notes)


class TestOtherScorers:
    @pytest.mark.parametrize("sparse", [True, False])
    def test_shared_attributes_sum_to_the_cosine(self, sparse):
        graph = attributed(sparse=sparse)
        scorer = heuristics.cosine(graph)
        for other in range(1, 8):
            why = explain_pair(scorer, graph, "node 0", f"node {other}")
            assert why.kind == "attributes"
            listed = sum(shared.contribution for shared in why.shared)
            assert listed + why.shared_rest == pytest.approx(why.score, abs=1e-12)
            full = explain_pair(
                scorer, graph, "node 0", f"node {other}", top_attributes=10
            )
            assert full.shared_rest == 0
            assert sum(s.contribution for s in full.shared) == pytest.approx(
                why.score, abs=1e-12
            )
            draw(why)

    def test_degrees_only(self):
        graph = Graph.from_indices(4, [(0, 1), (1, 2), (2, 3)])
        why = explain_pair(heuristics.preferential_attachment(graph), graph, 0, 2)
        assert why.kind == "closed form"
        assert why.chance == why.score == 2.0
        assert "degrees" in why.to_text()
        draw(why)

    def test_a_model_without_walks_says_so(self, graph):
        scores = np.add.outer(np.arange(24.0), np.arange(24.0))
        why = explain_pair(scores, graph, "node 1", "node 2")
        assert why.kind == "score only"
        assert why.score == 3.0
        assert "gives no walks" in why.to_text()
        draw(why)


class TestOutput:
    HOSTILE = ("<b>\x1b[31m", "=cmd|'!A1", "$x_{$", "line\nbreak", "\u202eback")

    def hostile(self):
        edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 4)]
        return Graph.from_indices(
            5,
            edges,
            ids=self.HOSTILE,
            attributes=np.eye(5),
            attribute_names=self.HOSTILE,
        )

    def test_json_holds_everything(self, graph, model):
        why = explain_pair(model, graph, "node 0", "node 2")
        data = json.loads(json.dumps(why.to_dict(), allow_nan=False))
        assert data["source"] == "node 0"
        assert len(data["walks"]) == len(why.walks)
        assert data["walks"][0]["nodes"] == list(why.walks[0].nodes)
        assert data["edges"][0]["effects"][0]["name"].startswith("word ")

    def test_ids_that_json_lacks_become_text(self):
        graph = Graph.from_indices(
            3, [(0, 1), (1, 2)], ids=[("a", 1), frozenset({2}), 3]
        )
        scorer = heuristics.common_neighbours(graph)
        data = explain_pair(scorer, graph, ("a", 1), 3).to_dict()
        json.dumps(data)
        assert data["target"] == 3

    def test_hostile_ids_cannot_rewrite_a_terminal(self):
        graph = self.hostile()
        for scorer in (heuristics.autocovariance(graph), heuristics.cosine(graph)):
            why = explain_pair(scorer, graph, self.HOSTILE[0], self.HOSTILE[2])
            assert all(c.isprintable() or c == "\n" for c in why.to_text())
            draw(why)

    def test_unknown_nodes_and_wrong_numbers(self, graph):
        scorer = heuristics.common_neighbours(graph)
        with pytest.raises(InputError, match="Did you mean 'node 1"):
            explain_pair(scorer, graph, "node1", "node 2")
        with pytest.raises(InputError, match="to itself"):
            explain_pair(scorer, graph, "node 1", "node 1")
        with pytest.raises(UsageError, match="at least 1"):
            explain_pair(scorer, graph, "node 1", "node 2", top=0)

    def test_the_picture_shows_every_listed_walk(self, graph, model):
        why = explain_pair(model, graph, "node 0", "node 2", top=6)
        axes = draw(why).axes[0]
        labels = {text.get_text() for text in axes.texts}
        assert {node for walk in why.walks for node in walk.nodes} == labels
        lines = [line for line in axes.get_lines() if len(line.get_xdata()) == 2]
        steps = {
            (i, walk.nodes[i], walk.nodes[i + 1], walk.through_pair)
            for walk in why.walks
            for i in range(why.steps)
        }
        assert len(lines) == len(steps)


def draw(why):
    figure = draw_explanation(why)
    figure.savefig(io.BytesIO(), format="svg")
    return figure
