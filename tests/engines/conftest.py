"""Workers that tests share."""

from __future__ import annotations

import pytest

from support import engine_tasks as tasks


@pytest.fixture
def workers():
    """What Ray workers do, in this process: everything is packed and sent."""
    return tasks.PackedEngine()


@pytest.fixture(scope="package")
def cluster():
    """Two Ray workers of this machine; starting them takes a while."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    from gelato.engines.ray_cluster import RayEngine

    with RayEngine(2, object_store_memory=80 * 2**20) as engine:
        # Workers cannot import modules of tests: these are sent as code.
        ray.cloudpickle.register_pickle_by_value(tasks)
        yield engine
        ray.cloudpickle.unregister_pickle_by_value(tasks)


@pytest.fixture
def many_spans(monkeypatch):
    """Cut even small graphs into several spans."""
    monkeypatch.setattr("gelato.ranking.scorers._BLOCK_ROWS", 5)
