"""Rankings, trainings and comparisons are the same bits on any engine."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato.engines import ThreadEngine, use_engine
from gelato.paper.runner import RunSpec, find_result, perform, perform_together
from gelato.ranking import best_candidates, best_per_node, candidates, score_pairs
from support import engine_tasks as tasks
from support.small_graphs import community_graph

COUNTS = ("scores", "positives", "above", "tied")
QUICK = {"epochs": 2, "batches": 2, "hidden": 8, "seed": 3}


@pytest.fixture(scope="module")
def split():
    return gelato.split_edges(community_graph(60), valid=0.1, test=0.2)


def _same(first, second):
    for name in COUNTS:
        one, two = getattr(first.counts, name), getattr(second.counts, name)
        assert one.tobytes() == two.tobytes(), name
    assert first.counts.near_pairs == second.counts.near_pairs


@pytest.mark.usefixtures("many_spans")
class TestRanking:
    @pytest.mark.parametrize("name", ["ac", "aa", "pa", "cos"])
    def test_evaluation(self, split, processes, name):
        model = gelato.make(name).fit(split)
        alone = gelato.evaluate(model, split, threads=1)
        _same(alone, gelato.evaluate(model, split, engine=ThreadEngine(3)))
        _same(alone, gelato.evaluate(model, split, engine=processes))

    def test_sampled_protocol(self, split, processes):
        options = {"protocol": "sampled", "seed": 4}
        model = gelato.make("ac").fit(split)
        alone = gelato.evaluate(model, split, **options)
        _same(alone, gelato.evaluate(model, split, engine=processes, **options))

    def test_a_scorer_of_one_s_own(self, split, processes):
        n = split.graph.num_nodes
        scorer = tasks.PlainScorer(np.random.default_rng(1).integers(0, 9, (n, n)))
        alone = gelato.evaluate(scorer, split)
        _same(alone, gelato.evaluate(scorer, split, engine=processes))

    def test_predictions(self, split, processes):
        model = gelato.make("ac").fit(split)
        for wanted in ({"top": 40}, {"per_node": 3}, {"top": 1500}):
            found = model.predict(**wanted, engine=processes)
            assert found.equals(model.predict(**wanted))

    def test_given_pairs_and_lists(self, split, processes):
        graph = split.train_graph
        scorer = gelato.make("ac").fit(split).scorer(graph)
        rule = candidates.all_pairs(graph, graph.edges)
        pairs = np.array([[5, 2], [0, 59], [5, 1], [58, 59], [3, 3]])
        alone = (
            score_pairs(scorer, pairs, 60),
            best_candidates(scorer, rule, 70).scores,
            best_per_node(scorer, rule, np.array([4, 59, 4]), 6)[1].pairs,
        )
        with use_engine(processes):
            spread = (
                score_pairs(scorer, pairs, 60),
                best_candidates(scorer, rule, 70).scores,
                best_per_node(scorer, rule, np.array([4, 59, 4]), 6)[1].pairs,
            )
        for one, two in zip(alone, spread, strict=True):
            assert one.tobytes() == two.tobytes()

    def test_progress_is_told(self, split, processes):
        told = []
        gelato.evaluate(
            gelato.make("ac").fit(split),
            split,
            engine=processes,
            progress=lambda done, total: told.append((done, total)),
        )
        assert told[-1] == (60, 60)
        assert len(told) > 5

    def test_a_worker_killed_in_the_middle_loses_nothing(
        self, split, processes, tmp_path
    ):
        model = gelato.make("ac").fit(split)
        engine = tasks.Deadly(processes, tmp_path / "died", maps=2)
        _same(
            gelato.evaluate(model, split), gelato.evaluate(model, split, engine=engine)
        )
        assert (tmp_path / "died").exists()


class TestTraining:
    def _weights(self, split, engine=None):
        with use_engine(engine):
            model = gelato.Gelato(**QUICK).fit(split)
        return b"".join(
            value.detach().numpy().tobytes() for value in model.module_.parameters()
        )

    @pytest.mark.slow
    def test_training_is_the_same_and_survives_a_killed_worker(
        self, split, processes, tmp_path
    ):
        alone = self._weights(split)
        assert self._weights(split, processes) == alone
        engine = tasks.Deadly(processes, tmp_path / "died", maps=6)
        assert self._weights(split, engine) == alone
        assert (tmp_path / "died").exists()


class TestRuns:
    def test_comparisons(self, split, processes):
        seconds = ("fit_seconds", "evaluate_seconds")
        alone = gelato.compare(split, ["cn", "ac", "aa"])
        told = []
        spread = gelato.compare(
            split,
            ["cn", "ac", "aa"],
            engine=processes,
            progress=lambda *x: told.append(x),
        )
        assert spread.drop(*seconds).equals(alone.drop(*seconds))
        assert told == [("cn", 1, 3), ("ac", 2, 3), ("aa", 3, 3)]

    def test_recorded_runs(self, processes, tmp_path):
        specs = [RunSpec("cn", "citeseer"), RunSpec("aa", "citeseer")]
        for spec, record in perform_together(processes, specs, tmp_path / "spread"):
            assert find_result(tmp_path / "spread", spec) == record
            alone = perform(spec, tmp_path / "alone", tmp_path / "work")
            for part in ("metrics", "biased_metrics"):
                del alone[part]["seconds"], record[part]["seconds"]
                assert record[part] == alone[part]
