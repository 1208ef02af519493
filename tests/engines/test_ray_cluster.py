"""A Ray cluster on this machine: the same results, and failures that are told."""

from __future__ import annotations

import socket

import numpy as np
import pytest

import gelato
from gelato.engines import make_engine
from gelato.engines.ray_cluster import check_address
from gelato.errors import EngineError, InputError, MissingExtraError
from support import engine_tasks as tasks
from support.small_graphs import community_graph

ray = pytest.importorskip("ray", reason="the extra ray is not installed")


@pytest.fixture(scope="module")
def split():
    return gelato.split_edges(community_graph(60), valid=0.1, test=0.2)


def _counts(result):
    names = ("scores", "positives", "above", "tied")
    return [getattr(result.counts, name).tobytes() for name in names]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
class TestCluster:
    def test_order_and_arrays(self, cluster):
        array = np.random.default_rng(0).random(1000)
        parts = [slice(k, k + 100) for k in range(0, 1000, 100)]
        found = list(cluster.map(tasks.total, {"array": array}, parts))
        assert found == [float(array[part].sum()) for part in parts]
        assert list(cluster.map(tasks.late, None, range(5))) == list(range(5))
        assert cluster.workers == 2

    def test_rankings_are_the_same(self, cluster, split, many_spans):
        stack = gelato.make("stack", rounds=10, folds=1)
        for model in (gelato.make("ac"), gelato.make("cos"), stack):
            model.fit(split)
            spread = gelato.evaluate(model, split, engine=cluster)
            assert _counts(spread) == _counts(gelato.evaluate(model, split))
            found = model.predict(top=50, engine=cluster)
            assert found.equals(model.predict(top=50))

    def test_a_function_made_on_the_fly(self, cluster, split):
        matrix = np.random.default_rng(1).random((60, 60))
        matrix += matrix.T
        spread = gelato.evaluate(lambda rows: matrix[rows], split, engine=cluster)
        assert _counts(spread) == _counts(gelato.evaluate(matrix, split))

    def test_a_killed_worker_loses_nothing(
        self, cluster, split, many_spans, tmp_path, capfd
    ):
        model = gelato.make("ac").fit(split)
        engine = tasks.Deadly(cluster, tmp_path / "died", maps=2)
        spread = gelato.evaluate(model, split, engine=engine)
        assert _counts(spread) == _counts(gelato.evaluate(model, split))
        assert (tmp_path / "died").exists()
        assert capfd.readouterr().out == ""

    def test_work_that_kills_every_worker_is_given_up(self, cluster):
        with pytest.raises(EngineError, match="lost 4 times"):
            list(cluster.map(tasks.die, None, [1]))

    def test_errors_arrive(self, cluster):
        with pytest.raises(InputError, match="is odd"):
            list(cluster.map(tasks.refuse, "gelato", range(4)))
        with pytest.raises(EngineError, match="OddError"):
            list(cluster.map(tasks.refuse, "odd", range(4)))

    def test_another_version_is_refused(self, cluster, monkeypatch):
        monkeypatch.setattr("gelato.engines.ray_cluster.__version__", "0.0.1")
        with pytest.raises(EngineError, match=r"version 0\.0\.1 here"):
            list(cluster.map(tasks.late, None, [1]))

    def test_no_room_is_told(self, cluster, monkeypatch):
        def full(value):
            raise ray.exceptions.OutOfDiskError

        monkeypatch.setattr(cluster._ray, "put", full)
        with pytest.raises(EngineError, match="no room for"):
            list(cluster.map(tasks.late, None, [1]))


class TestAddress:
    def test_nobody_there(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        with pytest.raises(EngineError, match=f"No cluster answers at .*{port}"):
            check_address(f"127.0.0.1:{port}")

    @pytest.mark.parametrize("address", ["here", "host:", ":1", "a:0", "a:99999"])
    def test_no_address_at_all(self, address):
        with pytest.raises(EngineError, match="not the address of a cluster"):
            check_address(address)

    def test_without_ray(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "ray", None)
        with pytest.raises(MissingExtraError, match=r"gelato-lp\[ray\]"):
            make_engine("ray")
