"""Shared by all tests: settings of hypothesis, the benchmark graphs."""

from __future__ import annotations

import os
import re
from collections import deque
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Two workers with two threads each wait for one another: the suite took twice as long.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("GELATO_THREADS", "1")

settings.register_profile(
    "default",
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# The same examples every time: what is found by chance must not refuse other work.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session", autouse=True)
def compile_once(tmp_path_factory):
    """Let a worker wait for a kernel that another one compiles, and load it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    from filelock import FileLock
    from numba.core.caching import NullCache
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    folder = tmp_path_factory.getbasetemp().parent  # of all workers
    usual = Dispatcher.compile

    def compile_alone(self, sig):
        if isinstance(self._cache, NullCache):
            return usual(self, sig)
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        # Kernels call each other in one direction: nobody waits in a circle. The lock
        # of this process comes first, or two of its threads might.
        with global_compiler_lock, FileLock(folder / f"{name}.lock"):
            return usual(self, sig)

    Dispatcher.compile = compile_alone
    yield
    Dispatcher.compile = usual


@pytest.fixture(scope="session")
def benchmark():
    """Load one of the five benchmark graphs, or skip where it is not at hand."""
    import gelato

    def load(name: str):
        folder = os.environ.get("GELATO_DATA")
        if name != "citeseer" and not folder:
            pytest.skip("GELATO_DATA names no folder with the benchmark graphs")
        if folder and not (Path(folder) / f"{name}.npz").exists():
            pytest.skip(f"GELATO_DATA has no {name}.npz")
        return gelato.load_dataset(name)

    return load


# Their kernels take two minutes to compile, as long as all others together. Those that
# cut out subgraphs serve two of the four, and nothing else.
HEAVY = re.compile(
    r"\b(nbfnet|seal|tlc-gnn|walkpool)\b|tlc_gnn|test_subgraphs|auto_encoder"
)


@pytest.hookimpl(tryfirst=True)  # before markers choose
def pytest_itemcollected(item):
    """Mark whatever runs a network with large kernels as slow."""
    if HEAVY.search(item.nodeid):
        item.add_marker(pytest.mark.slow)


def pytest_collection_modifyitems(items):
    """Deal files from both ends of the list to the workers, one after another.

    Neighbours use the same kernels, and a worker that needs one which another is
    compiling has to wait. So one begins with training and the other with the stack,
    whose kernels are the largest and have little in common.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    found = [list(group) for _, group in groupby(items, lambda item: item.path)]
    ends = {"training": -1, "stacking": 1}
    files = deque(sorted(found, key=lambda one: ends.get(one[0].path.parent.name, 0)))
    items.clear()
    while files:
        items.extend(files.popleft())
        files.reverse()
