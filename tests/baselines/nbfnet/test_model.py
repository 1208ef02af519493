"""NBFNet against a plain recursion, and each of its savings against doing without."""

from __future__ import annotations

from functools import partial

import numpy as np
import psutil
import pytest
import torch

import gelato
from gelato.baselines.nbfnet import rows as path_rows
from gelato.baselines.nbfnet import scorer as paths
from gelato.baselines.nbfnet import states as states_module
from gelato.baselines.nbfnet.rows import (
    PathGraph,
    PathWeights,
    _listed,
    background_rows,
    column_tiles,
    pair_rows,
    source_rows,
)
from gelato.baselines.nbfnet.states import (
    Propagation,
    layer_backward,
    layer_forward,
    path_states,
)
from gelato.errors import InputError, UsageError
from gelato.graph import Graph
from gelato.ranking.forecast import forecast
from gelato.splits import split_edges
from support.plain_paths import plain_logits, plain_states
from support.small_graphs import community_graph

WIDTH = 8


def sparse_graph(n=40, chance=0.045, seed=1):
    """Return a graph with far pairs, several pieces and isolated nodes."""
    rng = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(rng.random((n, n)) < chance, 1))
    return Graph.from_indices(n, edges)


def random_weights(layers, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return 0.4 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    w, t = WIDTH, layers
    found = [
        draw(w),
        draw(t, w),
        draw(t, 3, 4 * w, w),
        draw(t, w, w),
        draw(t, w),
        1 + draw(t, w),
        draw(t, w),
    ]
    return tuple(tensor.to(dtype).requires_grad_() for tensor in found)


def network(graph, layers=3, seed=3):
    model = gelato.make("nbfnet", dimensions=WIDTH, layers=layers, seed=seed)
    return model._module(graph).eval()


def scorer_of(module, graph):
    with torch.no_grad():
        return module.scorer(module.encode(module.prepare(graph)))


@pytest.fixture(scope="module")
def scored():
    graph = sparse_graph()
    module = network(graph)
    return graph, module, scorer_of(module, graph).score_rows(np.arange(40))


@pytest.fixture(scope="module")
def split():
    return split_edges(community_graph(60), valid=0.1, test=0.1)


class OneLayer(torch.autograd.Function):
    """The compiled forward and backward passes of a layer, and nothing else."""

    @staticmethod
    def forward(ctx, graph, rows, states, *tensors):
        weights = PathWeights.of(tensors)
        matrices = weights.by_class(0, graph)
        forward = weights.forward(0, matrices)
        table, out = states.detach().numpy(), np.zeros(states.shape)
        before = np.empty(states.shape)
        layer_forward(table, rows, graph.degrees, forward, out, before)
        turned = column_tiles(np.ascontiguousarray(matrices.transpose(0, 2, 1)))
        ctx.known = (table, rows, graph.degrees, graph.scales, (*forward, turned))
        ctx.before, ctx.sums = before, weights.zeros()
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx, gradient):
        by_states = np.zeros(gradient.shape)
        sums = ctx.sums.zeros()
        by_out = gradient.contiguous().numpy()
        layer_backward(*ctx.known, ctx.before, by_out, by_states, sums.sums(0))
        found = [torch.from_numpy(array) for array in (by_states, *sums)]
        return None, None, *found


class TestPropagation:
    # Slow: kernels are compiled for float64, which nothing else uses.
    @pytest.mark.slow
    @pytest.mark.parametrize("layers", [1, 2, 4])
    def test_states_and_gradients_are_those_of_the_plain_recursion(self, layers):
        graph, weights = sparse_graph(14, 0.15), random_weights(layers)
        pairs = np.array([(0, 1), (2, 5), (3, 3), (7, 9), (12, 4)])
        ours = path_states(PathGraph.of(graph), pairs, weights)
        plain = [plain_states(graph, u, *weights) for u in range(14)]
        expected = torch.stack(
            [torch.stack([plain[u][v], plain[v][u]]) for u, v in pairs.tolist()]
        )
        torch.testing.assert_close(ours, expected)
        factor = torch.randn(ours.shape, dtype=torch.float64)
        one, two = (
            torch.autograd.grad((states * factor).sum(), weights)
            for states in (ours, expected)
        )
        for mine, theirs in zip(one, two, strict=True):
            torch.testing.assert_close(mine, theirs)

    @pytest.mark.slow
    def test_the_backward_pass_by_finite_differences(self):
        """Of one layer, from states that are not equal: no messages tie."""
        graph = PathGraph.of(sparse_graph(7, 0.4))
        (rows,) = background_rows(graph, None, 1)
        rows = (*rows[:3], np.arange(7) % 3 == 0)
        weights = random_weights(1)
        states = torch.randn(7, WIDTH, dtype=torch.float64, requires_grad=True)
        layer = partial(OneLayer.apply, graph, rows)
        assert torch.autograd.gradcheck(layer, (states, *weights))

    def test_whole_network(self):
        graph = sparse_graph()
        module = network(graph)
        with torch.no_grad():
            expected = plain_logits(module, graph)
            pairs = torch.cartesian_prod(torch.arange(40), torch.arange(40))
            ours = module.decode(module.prepare(graph), pairs).reshape(40, 40)
        torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-5)
        rows = torch.from_numpy(scorer_of(module, graph).score_rows(np.arange(40)))
        torch.testing.assert_close(rows, expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("edges", [[], [(0, 1)]])
    def test_graphs_of_nearly_nothing(self, edges):
        graph = Graph.from_indices(3, np.array(edges, dtype=np.int64).reshape(-1, 2))
        module = network(graph)
        with torch.no_grad():
            expected = plain_logits(module, graph).numpy()
        ours = scorer_of(module, graph).score_rows(np.arange(3))
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)

    def test_published_number_of_weights(self):
        """13 w^2 + 4 w per layer, the query, and a net of 2 w units."""
        module = gelato.make("nbfnet")._module(community_graph(24))
        w = 32
        per_layer = 13 * w * w + w + 2 * w + w
        expected = 6 * per_layer + w + (2 * w) ** 2 + 2 * w + 2 * w + 1
        assert sum(p.numel() for p in module.parameters()) == expected


class TestSavings:
    """Nothing that is left out, shared or put off changes a bit."""

    def whole(self, graph, weights):
        """Return all states of all layers from every source, nothing left out."""
        propagation = Propagation(graph, weights)
        n = graph.num_nodes
        found = []
        for source in range(n):
            reach = (
                np.array([0, n]),
                np.arange(n, dtype=np.int32),
                # From layer 1 on, and the source from layer 0 on.
                np.where(np.arange(n) == source, 0, 1).astype(np.int32),
                np.full(n, weights.layers, np.int32),
            )
            sources = np.array([source])
            rows = _listed(graph, reach, sources, weights.layers)
            run = propagation.run(rows.layers)
            table = run.tables[-1][n:][rows.found]
            found.append(table[np.argsort(rows.nodes)])
        return np.stack(found)

    @pytest.fixture
    def known(self):
        graph = PathGraph.of(sparse_graph(30, 0.06))
        weights = PathWeights.of(random_weights(3, torch.float32))
        return graph, weights, self.whole(graph, weights)

    def test_only_what_a_source_reaches_is_computed(self, known):
        graph, weights, whole = known
        n = graph.num_nodes
        rows = source_rows(graph, np.arange(n), weights.layers)
        assert rows.count < 0.6 * n * n * weights.layers
        propagation = Propagation(graph, weights)
        ours = np.repeat(propagation.background.tables[-1][None], n, axis=0)
        states = propagation.run(rows.layers).tables[-1][n:]
        sources = np.repeat(np.arange(n), np.diff(rows.start))
        ours[sources, rows.nodes] = states[rows.found]
        np.testing.assert_array_equal(ours, whole)

    def test_only_what_a_target_sees_is_computed(self, known):
        graph, weights, whole = known
        n = graph.num_nodes
        pairs = np.stack(np.triu_indices(n), axis=1)
        rows, targets = pair_rows(graph, pairs, weights.layers)
        per_source = source_rows(graph, pairs.ravel(), weights.layers)
        assert rows.count < 0.3 * per_source.count
        propagation = Propagation(graph, weights)
        ours = propagation.run(rows.layers).tables[-1][targets].reshape(-1, 2, WIDTH)
        u, v = pairs.T
        np.testing.assert_array_equal(ours[:, 0], whole[u, v])
        np.testing.assert_array_equal(ours[:, 1], whole[v, u])

    def test_only_backgrounds_near_targets_are_computed(self, known):
        graph, weights, _ = known
        targets = np.array([4, 11])
        everywhere = Propagation(graph, weights).background
        near = Propagation(graph, weights, targets).background
        counts = [
            sum(len(rows[2]) for rows in background.layers)
            for background in (near, everywhere)
        ]
        assert counts[0] < 0.5 * counts[1]
        ours, expected = near.tables[-1], everywhere.tables[-1]
        np.testing.assert_array_equal(ours[targets], expected[targets])

    def test_weights_by_degree_are_the_sum_of_the_three(self, known):
        graph, weights, _ = known
        rng = np.random.default_rng(0)
        for c, degree in enumerate(graph.degrees):
            statistics = rng.normal(size=4 * WIDTH).astype(np.float32)
            own = rng.normal(size=WIDTH).astype(np.float32)
            logs = np.log(graph.degrees[graph.class_of] + 1)
            s = np.log(degree + 1) / logs.mean()
            scaled = np.concatenate([statistics, s * statistics, statistics / s])
            expected = scaled @ weights.gathered[1].reshape(-1, WIDTH)
            expected += own @ weights.own[1]
            inputs = np.concatenate([statistics, own])
            ours = inputs @ weights.by_class(1, graph)[c]
            np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("threads", ["1", "3"])
    def test_groups_and_threads_change_no_bit(self, threads, monkeypatch):
        graph = PathGraph.of(sparse_graph(30, 0.06))
        weights = random_weights(3, torch.float32)
        pairs = np.random.default_rng(0).integers(0, 30, (70, 2))

        def run():
            states = path_states(graph, pairs, weights)
            return states, torch.autograd.grad((states**2).sum(), weights)

        monkeypatch.setenv("GELATO_THREADS", "1")
        states, gradients = run()
        monkeypatch.setenv("GELATO_THREADS", threads)
        # Also without anything kept, and with sums of few groups at a time.
        monkeypatch.setattr(states_module, "_KEPT_ROWS", 100)
        monkeypatch.setattr(states_module, "_WINDOW", 2)
        again, gradients_again = run()
        assert torch.equal(states, again)
        for one, two in zip(gradients, gradients_again, strict=True):
            assert torch.equal(one, two)

    def test_groups_of_another_size_give_the_same_states(self, monkeypatch):
        graph = PathGraph.of(sparse_graph(30, 0.06))
        weights = random_weights(3, torch.float32)
        pairs = np.random.default_rng(0).integers(0, 30, (70, 2))
        with torch.no_grad():
            states = path_states(graph, pairs, weights)
            monkeypatch.setattr(states_module, "GROUP_PAIRS", 3)
            assert torch.equal(states, path_states(graph, pairs, weights))

    def test_batches_of_sources_and_blocks_of_pairs_change_no_score(self, monkeypatch):
        graph = sparse_graph()
        module = network(graph)
        rows = np.arange(40)
        expected = scorer_of(module, graph).score_rows(rows)
        monkeypatch.setattr(paths, "_GROUP_ROWS", 50)
        monkeypatch.setattr(paths, "_WINDOW", 2)
        monkeypatch.setattr(paths, "_budget", lambda: 4.0 * WIDTH * 30)
        ours = scorer_of(module, graph).score_rows(rows)
        np.testing.assert_array_equal(ours, expected)


class TestRows:
    def test_hops(self):
        graph = PathGraph.of(Graph.from_indices(6, [(0, 1), (1, 2), (2, 3), (3, 4)]))
        hops = path_rows.hops_from(*graph.edges, np.array([0, 5]), 2)
        assert hops.tolist() == [0, 1, 2, 3, 3, 0]

    def test_reach_of_pairs_is_where_both_balls_meet(self):
        graph = PathGraph.of(sparse_graph(30, 0.08))
        pairs = np.stack(np.triu_indices(30), axis=1)
        start, nodes, first, last = path_rows.pair_reach(*graph.edges, pairs, 4)
        hops = np.stack(
            [path_rows.hops_from(*graph.edges, np.array([u]), 4) for u in range(30)]
        )
        directions = np.concatenate([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2)
        for d, (u, v) in enumerate(directions):
            part = slice(start[d], start[d + 1])
            expected = np.flatnonzero((hops[u] + hops[v] <= 4) & (hops[u, v] <= 4))
            order = np.argsort(nodes[part])
            np.testing.assert_array_equal(nodes[part][order], expected)
            np.testing.assert_array_equal(first[part][order], hops[u, expected])
            np.testing.assert_array_equal(last[part][order], 4 - hops[v, expected])

    def test_backgrounds_of_all_nodes_by_default(self):
        graph = PathGraph.of(sparse_graph(30, 0.08))
        for _, class_start, place, source in background_rows(graph, None, 3):
            assert sorted(place.tolist()) == list(range(30))
            assert class_start[-1] == 30
            assert not source.any()


class TestScores:
    def test_symmetric_to_the_last_bit(self, scored):
        np.testing.assert_array_equal(scored[2], scored[2].T)

    def test_relabelled_nodes_get_the_same_bits(self, scored):
        graph, module, scores = scored
        order = np.random.default_rng(5).permutation(40)  # new label -> old label
        other = Graph.from_indices(40, np.argsort(order)[graph.edges])
        ours = scorer_of(module, other).score_rows(np.arange(40))
        np.testing.assert_array_equal(ours, scores[order][:, order])

    def test_blocks_lists_and_halves(self, scored):
        graph, module, scores = scored
        scorer, rows = scorer_of(module, graph), np.array([17, 4, 39])
        few = np.array([(3, 9), (9, 3), (0, 0)])
        listed = scorer.pair_scores(few)
        assert "near" not in scorer.__dict__  # six propagations were enough
        np.testing.assert_array_equal(listed, scores[few[:, 0], few[:, 1]])
        np.testing.assert_array_equal(scorer.score_rows(rows), scores[rows])
        half = np.where(np.arange(40)[None, :] > rows[:, None], scores[rows], 0.0)
        np.testing.assert_array_equal(scorer.score_rows_above(rows), half)
        pairs = np.random.default_rng(0).integers(0, 40, (200, 2))
        listed = scorer.pair_scores(pairs)
        np.testing.assert_array_equal(listed, scores[pairs[:, 0], pairs[:, 1]])

    def test_scores_that_do_not_fit_are_refused(self, scored, monkeypatch):
        graph, module, _ = scored
        free = psutil.virtual_memory()._replace(available=100)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        with pytest.raises(InputError, match=r"pairs within 3 edges.*estimate"):
            scorer_of(module, graph).score_rows(np.arange(2))

    def test_a_forecast_propagates_from_few_nodes_only(self, scored, monkeypatch):
        graph, module, _ = scored
        scorer = scorer_of(module, graph)
        monkeypatch.setattr(paths, "_TRIAL_SECONDS", 0.0)
        monkeypatch.setattr(paths, "_GROUP_ROWS", 50)
        seen = []
        original = paths.PathScorer._states

        def states(self, sources):
            seen.extend(sources.tolist())
            return original(self, sources)

        monkeypatch.setattr(paths.PathScorer, "_states", states)
        found = forecast(scorer, graph)
        assert 0 < len(set(seen)) < 20
        assert found.seconds > 0
        assert "near" not in scorer.__dict__


class TestTraining:
    def make(self, **parameters):
        options = {"dimensions": WIDTH, "layers": 3, "seed": 1, **parameters}
        return gelato.make("nbfnet", **options)

    def test_batches_cover_all_positives_unless_capped(self, split):
        assert self.make(batch_size=10)._batching(95) == (10, 10)
        assert self.make(batch_size=10, steps=3)._batching(95) == (10, 3)
        assert self.make()._batching(20) == (2, 2)
        assert self.make(training="unbiased")._batching(95) == (10, 10)
        assert self.make(training="unbiased", steps=3)._batching(95) == (10, 3)
        model = self.make(batch_size=10, steps=3, epochs=2).fit(split)
        assert model.steps_ == 3
        assert model.notes_[0] == "attributes are not used"
        assert "3 of" in model.notes_[1]

    def test_positives_are_hidden_by_default(self, split):
        model = self.make(batch_size=10)
        settings = model._settings(split)
        assert settings.masking
        task = model._network_task(model._module(split.train_graph), split, settings)
        visible, positives = task.hide(task.positives.batch(1, 0))
        ends = np.repeat(np.arange(60), np.diff(visible.indptr))
        known = set(zip(ends.tolist(), visible.indices.tolist(), strict=True))
        assert not known & {tuple(pair) for pair in positives.tolist()}
        assert len(known) == 2 * (len(split.train) - len(positives))

    def test_a_validation_in_steps(self, split):
        pairs = 2 * len(split.valid)
        model = self.make(batch_size=10)
        expected = pytest.approx(2.0 * 0.35 * pairs / 20)
        assert model.validation_seconds(split, 2.0) == expected
        model = self.make(training="unbiased", batches=5)
        assert model.validation_seconds(split, 2.0) < 2.0 * 0.35 * pairs / 300
        ranking = self.make(metric="prec@100%")
        assert ranking.validation_seconds(split, 2.0) is None

    def test_attributes_are_not_needed(self):
        graph = community_graph(40)
        bare = Graph.from_indices(40, graph.edges)
        with_attributes, without = (
            self.make(epochs=2, valid=0.1).fit(data).score_rows(np.arange(40))
            for data in (graph, bare)
        )
        np.testing.assert_array_equal(with_attributes, without)

    @pytest.mark.parametrize("dimensions", [12, 4, 0, 8.5])
    def test_widths_that_are_refused(self, dimensions, split):
        with pytest.raises(UsageError, match="dimensions is"):
            self.make(dimensions=dimensions).fit(split)

    def test_training_finds_more_than_chance(self, split):
        model = self.make(epochs=8, batch_size=32, metric="last").fit(split)
        losses = [entry["loss"] for entry in model.training_.history]
        assert np.mean(losses[-3:]) < np.mean(losses[:3])
        assert gelato.evaluate(model, split).auc > 0.6
