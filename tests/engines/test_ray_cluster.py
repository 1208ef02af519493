"""A Ray cluster on this machine: the same results, and failures that are told."""

from __future__ import annotations

import pickle
import socket

import numpy as np
import pytest

import gelato
from gelato.engines import make_engine
from gelato.engines.ray_cluster import Outcome, RayEngine, check_address, connect
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


class _Ref:
    """A task of the fake Ray: what becomes of it, ``None`` as long as nothing does."""

    def __init__(self, outcome):
        self.outcome = outcome


class _FakeRay:
    """Ray as far as an engine asks it, with one machine lost at the first look.

    Whatever was handed out before waits for ever, as calls do to a machine whose link
    is cut.
    """

    exceptions, cloudpickle = ray.exceptions, ray.cloudpickle

    def __init__(self):
        self.lost, self.handed_out, self.cancelled = False, [], []

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": 2}

    def nodes(self):
        return [{"NodeID": "a", "Alive": True}, {"NodeID": "b", "Alive": not self.lost}]

    def put(self, value):
        return value

    def remote(self, **options):
        def decorate(function):
            class Task:
                def remote(task, version, refs, item):
                    done = Outcome(pickle.loads(item)) if self.lost else None
                    self.handed_out.append((id(task), _Ref(done)))
                    return self.handed_out[-1][1]

            self.tasks = [*getattr(self, "tasks", []), Task()]  # ids stay apart
            return self.tasks[-1]

        return decorate

    def wait(self, refs, num_returns=1, timeout=None):
        ready = [ref for ref in refs if ref.outcome is not None]
        if not ready and timeout:
            self.lost = True
        return ready[:num_returns], []

    def get(self, ref):
        return ref.outcome

    def cancel(self, ref):
        self.cancelled.append(ref)


class TestLostMachine:
    """A machine that is cut off: Ray knows it, and its tasks never come back."""

    @pytest.fixture
    def fake(self, monkeypatch):
        fake = _FakeRay()
        monkeypatch.setattr("gelato.engines.ray_cluster.import_ray", lambda: fake)
        return fake

    def test_all_that_was_under_way_is_handed_out_again(self, fake):
        assert list(RayEngine().map(tasks.late, None, range(6))) == list(range(6))
        # Four were in flight, two per core, and each was handed out twice.
        assert len(fake.handed_out) == 6 + 4
        stuck = [ref for _, ref in fake.handed_out if ref.outcome is None]
        assert len(stuck) == 4
        assert fake.cancelled == stuck

    def test_later_tasks_have_another_name(self, fake):
        list(RayEngine().map(tasks.late, None, range(6)))
        names = [name for name, _ in fake.handed_out]
        assert len(set(names[:4])) == 1
        assert len(set(names[4:])) == 1
        assert names[0] != names[4]

    def test_an_earlier_loss_is_none_of_this_map(self, fake):
        engine = RayEngine()
        fake.lost = True
        assert list(engine.map(tasks.late, None, range(6))) == list(range(6))
        assert len(fake.handed_out) == 6


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

    def test_a_machine_that_has_not_joined_is_told_how(self, monkeypatch):
        def refuse(**options):
            raise ConnectionError("Failed to connect to Ray cluster")

        monkeypatch.setattr("gelato.engines.ray_cluster.check_address", lambda at: None)
        monkeypatch.setattr(ray, "init", refuse)
        with pytest.raises(EngineError, match="cannot be used") as caught:
            connect(ray, "10.0.0.5:6379", None, None)
        assert "ray start --address=10.0.0.5:6379" in caught.value.hint

    def test_without_ray(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "ray", None)
        with pytest.raises(MissingExtraError, match=r"gelato-lp\[ray\]"):
            make_engine("ray")
