"""Ray on three machines, made of network namespaces: one of them is cut off."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from support.ray_machines import DRIVER, MachineDriver, RayMachines, recovery_seconds
from support.small_network import Network, why_no_network

pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = pytest.mark.slow

# Without our own look at the cluster, a cut link went unnoticed for seven minutes.
_NOTICED = 60.0


@pytest.fixture(scope="module")
def cluster():
    reason = why_no_network()
    if reason:
        pytest.skip(reason)
    # Not in pytest's folder: the paths of sockets have to be short.
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with folder as name, Network(3) as network:
        yield RayMachines(network, Path(name))


@pytest.fixture(scope="module")
def driver(cluster):
    with MachineDriver(cluster.network.machines[DRIVER], cluster) as driver:
        yield driver


@pytest.mark.parametrize(
    ("work", "blow"), [("evaluation", "cut_link"), ("training", "kill")]
)
def test_a_machine_is_lost_in_the_middle(cluster, driver, work, blow, capsys):
    alone = driver.work(work, engine="local")
    spread = driver.spread(work)
    assert spread["digest"] == alone["digest"]
    middle = len(spread["arrived"]) // 3
    struck = driver.work(work, strike=getattr(cluster, blow), middle=middle)
    assert struck["digest"] == alone["digest"]
    assert len(struck["arrived"]) == len(spread["arrived"])
    assert struck["redone"]
    recovery = recovery_seconds(struck)
    with capsys.disabled():
        sys.stdout.write(f"\n{work}, {blow}: recovered in {recovery:.1f} s\n")
    assert 0 < recovery < _NOTICED
    cluster.bring_back()
