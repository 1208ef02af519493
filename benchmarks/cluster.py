"""Ray on three machines made of network namespaces, and what a lost machine costs.

The head and a worker have a core each, the driver's machine has none. Evaluation,
prediction, training and ``compare`` run on threads, on the cluster, and on the cluster
while the worker is lost in the middle: once its link is cut, once everything on it is
killed. Counts the bytes that cross the worker's link. Writes
``results/benchmarks/cluster.json``; needs root.

    python benchmarks/cluster.py [--defaults] [--blind]

``--defaults`` adds a cut link under Ray's own health checks, ``--blind`` one that the
driver does not look for: that takes minutes. Without them, what the record holds of
either is kept. Recovery ends when all that was under way at the blow has arrived.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from gelato.io import write_text_atomic  # noqa: E402
from gelato.storage import environment  # noqa: E402
from support.cluster_driver import NODES, WORKS  # noqa: E402
from support.ray_machines import (  # noqa: E402
    DRIVER,
    HEALTH,
    WORKER,
    MachineDriver,
    RayMachines,
    recovery_seconds,
)
from support.small_network import Network, why_no_network  # noqa: E402

TARGET = ROOT / "results" / "benchmarks" / "cluster.json"
BLOWS = ("cut_link", "kill")
LARGER = 20_000

Started = tuple[RayMachines, MachineDriver]


@contextmanager
def started(health: dict[str, str]) -> Iterator[Started]:
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with folder as name, Network(3) as network:
        cluster = RayMachines(network, Path(name), health)
        with MachineDriver(network.machines[DRIVER], cluster) as driver:
            yield cluster, driver


def undisturbed(there: Started, work: str, nodes: int = NODES) -> dict[str, Any]:
    """Run on one thread and on the cluster, each when its kernels are loaded."""
    cluster, driver = there
    driver.work(work, engine="local", nodes=nodes)
    alone = driver.work(work, engine="local", nodes=nodes)
    driver.spread(work, nodes=nodes)
    before = cluster.network.traffic(WORKER)
    spread = driver.work(work, nodes=nodes)
    after = cluster.network.traffic(WORKER)
    return {
        "nodes": nodes,
        "edges": spread["edges"],
        "held_out": spread["held_out"],
        "one_thread_seconds": alone["seconds"],
        "cluster_seconds": spread["seconds"],
        "pieces": len(spread["arrived"]),
        "pieces_by_machine": spread["places"],
        "bytes_to_worker": after[0] - before[0],
        "bytes_from_worker": after[1] - before[1],
        "digest": alone["digest"],
        "same_bits": spread["digest"] == alone["digest"],
    }


def struck(
    there: Started, work: str, blow: str, known: dict[str, Any], **asked: Any
) -> dict[str, Any]:
    """Lose the worker in the middle, and put a new one in its place."""
    cluster, driver = there
    middle = known["pieces"] // 3
    seen = driver.work(work, strike=getattr(cluster, blow), middle=middle, **asked)
    cluster.bring_back()
    found = {
        "noticed_seconds": min(seen["redone"]) - seen["struck"],
        "recovery_seconds": recovery_seconds(seen),
        "same_bits": seen["digest"] == known["digest"],
    }
    said = ", ".join(f"{name} {value}" for name, value in found.items())
    print(f"{work}, {blow}: {said}", flush=True)
    return found


def matrix(there: Started) -> dict[str, Any]:
    works = {}
    for work in WORKS:
        known = undisturbed(there, work)
        print(f"{work}: {known}", flush=True)
        blows = {blow: struck(there, work, blow, known) for blow in BLOWS}
        works[work] = known | blows
    return works


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--blind", action="store_true")
    options = parser.parse_args()
    if why_no_network():
        sys.exit(why_no_network())
    record: dict[str, Any] = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    record |= {"environment": environment(), "health": HEALTH}
    busy = os.getloadavg()[0] > 1
    record["machine"] = f"{'busy with other work' if busy else 'idle'} at the start"
    record["load_average_before"] = os.getloadavg()
    with started(HEALTH) as there:
        record["works"] = matrix(there)
        record["larger"] = undisturbed(there, "evaluation", LARGER)
        if options.blind:
            known = record["works"]["evaluation"]
            blind = struck(there, "evaluation", "cut_link", known, blind=True)
            record["without_a_look"] = blind
    if options.defaults:
        with started({}) as there:
            known = undisturbed(there, "evaluation")
            defaults = struck(there, "evaluation", "cut_link", known)
            record["health_of_ray"] = defaults
    record["load_average_after"] = os.getloadavg()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(TARGET, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
