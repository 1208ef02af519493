"""Rankings, trainings and comparisons are the same bits on any engine."""

from __future__ import annotations

import numpy as np
import pytest

import gelato
from gelato.engines import ThreadEngine, current_engine, make_engine, use_engine
from gelato.errors import UnknownNameError, UsageError
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
    def test_evaluation(self, split, workers, name):
        model = gelato.make(name).fit(split)
        alone = gelato.evaluate(model, split, threads=1)
        _same(alone, gelato.evaluate(model, split, engine=ThreadEngine(3)))
        _same(alone, gelato.evaluate(model, split, engine=workers))

    def test_sampled_protocol(self, split, workers):
        options = {"protocol": "sampled", "seed": 4}
        model = gelato.make("ac").fit(split)
        alone = gelato.evaluate(model, split, **options)
        _same(alone, gelato.evaluate(model, split, engine=workers, **options))

    def test_a_scorer_of_one_s_own(self, split, workers):
        n = split.graph.num_nodes
        scorer = tasks.PlainScorer(np.random.default_rng(1).integers(0, 9, (n, n)))
        alone = gelato.evaluate(scorer, split)
        _same(alone, gelato.evaluate(scorer, split, engine=workers))

    def test_predictions(self, split, workers):
        model = gelato.make("ac").fit(split)
        for wanted in ({"top": 40}, {"per_node": 3}, {"top": 1500}):
            found = model.predict(**wanted, engine=workers)
            assert found.equals(model.predict(**wanted))

    def test_given_pairs_and_lists(self, split, workers):
        graph = split.train_graph
        scorer = gelato.make("ac").fit(split).scorer(graph)
        rule = candidates.all_pairs(graph, graph.edges)
        pairs = np.array([[5, 2], [0, 59], [5, 1], [58, 59], [3, 3]])
        alone = (
            score_pairs(scorer, pairs, 60),
            best_candidates(scorer, rule, 70).scores,
            best_per_node(scorer, rule, np.array([4, 59, 4]), 6)[1].pairs,
        )
        with use_engine(workers):
            spread = (
                score_pairs(scorer, pairs, 60),
                best_candidates(scorer, rule, 70).scores,
                best_per_node(scorer, rule, np.array([4, 59, 4]), 6)[1].pairs,
            )
        for one, two in zip(alone, spread, strict=True):
            assert one.tobytes() == two.tobytes()

    def test_progress_is_told(self, split, workers):
        told = []
        gelato.evaluate(
            gelato.make("ac").fit(split),
            split,
            engine=workers,
            progress=lambda done, total: told.append((done, total)),
        )
        assert told[-1] == (60, 60)
        assert len(told) > 5


class TestTraining:
    def _weights(self, split, engine=None):
        with use_engine(engine):
            model = gelato.Gelato(**QUICK).fit(split)
        return b"".join(
            value.detach().numpy().tobytes() for value in model.module_.parameters()
        )

    def test_training_on_workers_is_the_same(self, split, workers):
        assert self._weights(split, workers) == self._weights(split)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::ResourceWarning")
    def test_training_is_the_same_and_survives_a_killed_worker(
        self, split, cluster, tmp_path
    ):
        alone = self._weights(split)
        assert self._weights(split, cluster) == alone
        engine = tasks.Deadly(cluster, tmp_path / "died", maps=6)
        assert self._weights(split, engine) == alone
        assert (tmp_path / "died").exists()


class TestRuns:
    def test_comparisons(self, split, workers):
        seconds = ("fit_seconds", "evaluate_seconds")
        alone = gelato.compare(split, ["cn", "ac", "aa"])
        told = []
        spread = gelato.compare(
            split,
            ["cn", "ac", "aa"],
            engine=workers,
            progress=lambda *x: told.append(x),
        )
        assert spread.drop(*seconds).equals(alone.drop(*seconds))
        assert told == [("cn", 1, 3), ("ac", 2, 3), ("aa", 3, 3)]

    def test_recorded_runs(self, workers, tmp_path):
        specs = [RunSpec("cn", "citeseer"), RunSpec("aa", "citeseer")]
        for spec, record in perform_together(workers, specs, tmp_path / "spread"):
            assert find_result(tmp_path / "spread", spec) == record
            alone = perform(spec, tmp_path / "alone", tmp_path / "work")
            for part in ("metrics", "biased_metrics"):
                del alone[part]["seconds"], record[part]["seconds"]
                assert record[part] == alone[part]


class TestChoice:
    def test_by_name(self):
        assert make_engine("local", workers=3).workers == 3

    def test_unknown_names_and_addresses(self):
        with pytest.raises(UnknownNameError, match="Did you mean 'local'"):
            make_engine("locale")
        with pytest.raises(UsageError, match="no use for the address"):
            make_engine("local", address="a:1")

    def test_the_engine_that_is_gone_names_the_one_that_remains(self):
        with pytest.raises(UsageError, match='"ray" starts workers'):
            make_engine("processes")

    def test_the_engine_in_use(self):
        assert current_engine() is None
        with use_engine("local") as engine, use_engine(None) as same:
            assert current_engine() is engine is same
        assert current_engine() is None
