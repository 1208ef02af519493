"""A Ray cluster on machines of a small network, and a driver to talk to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support import TESTS
from support.cluster_driver import Ambush
from support.small_network import Machine, Network

HEAD, WORKER, DRIVER = range(3)
"""Places of the machines. The driver's offers no core."""

IN_FLIGHT = 4
"""Pieces that are under way at a time: two per core."""

PORT = 6379
# A machine that does not answer is given up after some ten seconds, not half a minute
# or more, and not so soon that busy cores look like a pulled cable.
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}
_SECONDS = 300.0


class RayMachines:
    """A head and a worker with a core each, and the driver's machine.

    Parameters
    ----------
    network : Network
        Of three machines.
    folder : Path
        For what Ray writes. The paths of its sockets must stay below 108 characters.
    health : dict
        How soon a machine that does not answer is given up; empty for Ray's own.
    """

    def __init__(
        self, network: Network, folder: Path, health: dict[str, str] = HEALTH
    ) -> None:
        self.network, self.folder = network, folder
        self.address = f"{network.machines[HEAD].address}:{PORT}"
        paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
        self.environment = {
            **os.environ,
            **health,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "only-for-this-test-of-gelato-0123456789",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_agent_register_timeout_ms": "120000",
        }
        self._started = 0
        self.start(HEAD)
        self.start(WORKER)
        self.start(DRIVER)

    @property
    def addresses(self) -> set[str]:
        """Where work is done."""
        return {self.network.machines[place].address for place in (HEAD, WORKER)}

    def start(self, place: int) -> None:
        """Let a machine join, or be the head."""
        machine = self.network.machines[place]
        self._started += 1
        head = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        machine.run(
            *(str(Path(sys.executable).with_name("ray")), "start"),
            *(head if place == HEAD else [f"--address={self.address}"]),
            f"--node-ip-address={machine.address}",
            f"--num-cpus={0 if place == DRIVER else 1}",
            f"--object-store-memory={80 * 2**20}",
            f"--temp-dir={self.folder / str(self._started)}",
            env=self.environment,
            timeout=_SECONDS,
        )

    def cut_link(self) -> None:
        """Take the worker's link down."""
        self.network.cut(WORKER)

    def kill(self) -> None:
        """Send SIGKILL to everything, raylet and workers, on the worker's machine."""
        self.network.machines[WORKER].turn_off()

    def bring_back(self) -> None:
        """Put a new machine in the worker's place, and let it join."""
        self.network.replace(WORKER)
        self.start(WORKER)


class MachineDriver:
    """A process on the driver's machine that works when asked to.

    Parameters
    ----------
    machine : Machine
        Where it runs.
    cluster : RayMachines
        What it uses.
    """

    def __init__(self, machine: Machine, cluster: RayMachines) -> None:
        self._ambush = Ambush(cluster.folder)
        command = [sys.executable, "-m", "support.cluster_driver", cluster.address]
        command.append(str(cluster.folder))
        self._cluster = cluster
        self._errors = cluster.folder / "driver.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                machine.inside(*command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=cluster.environment,
            )
        self.workers = self._answer()["workers"]

    def work(
        self, work: str, *, strike: Callable[[], None] | None = None, **asked: Any
    ) -> dict[str, Any]:
        """Do a work; return what the driver saw, and when the blow was struck.

        Parameters
        ----------
        work : {"evaluation", "prediction", "training", "compare"}
            Which.
        strike : callable, optional
            Called when ``middle`` results have arrived and the worker is at work.
        **asked
            ``engine``, ``nodes``, ``middle`` or ``blind`` (not to look for lost
            machines).
        """
        victim = self._cluster.network.machines[WORKER].address
        request = {"work": work, "victim": victim, **asked}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        struck = None
        if strike is not None:
            self._ambush.wait()
            strike()
            struck = time.monotonic()
            self._ambush.take_down()
        return self._answer() | {"struck": struck}

    def spread(self, work: str, **asked: Any) -> dict[str, Any]:
        """Do a work until both machines had a share; return what the driver saw.

        Short pieces are through on one of them before the other has started a worker.
        """
        for _ in range(20):
            seen = self.work(work, **asked)
            if set(seen["places"]) == self._cluster.addresses:
                return seen
            time.sleep(1.0)
        raise AssertionError(f"Only {[*seen['places']]} worked.")

    def close(self) -> None:
        """Let it leave the cluster, or end it if it does not."""
        try:
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The driver ended: {self._errors.read_text()[-4000:]}")
        found: dict[str, Any] = json.loads(line)
        return found


def recovery_seconds(seen: dict[str, Any]) -> float:
    """Return the time from the blow until all that was under way then had arrived.

    Results arrive in order, and two pieces per core are under way.
    """
    later = [moment for moment in seen["arrived"] if moment > seen["struck"]]
    return float(later[:IN_FLIGHT][-1] - seen["struck"])
