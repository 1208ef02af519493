"""The driver of a cluster: told what to do on standard input, one line of JSON each.

    python -m support.cluster_driver ADDRESS FOLDER

Every work is answered by a line of JSON with a digest of its bits, when results arrived
and from where. All times are of the clock that the processes of this computer share.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gelato
from gelato.engines import make_engine, use_engine
from gelato.ranking import scorers

NODES = 3_000
EPOCHS = 2
# Few enough rows for some ten spans, so that every machine has its share.
scorers._BLOCK_ROWS = 200


class Ambush:
    """Files by which a worker and whoever wants to cut it off find each other.

    Parameters
    ----------
    folder : Path
        Where they are; all machines see it.
    """

    def __init__(self, folder: Path) -> None:
        self.armed, self.caught = folder / "armed", folder / "caught"

    def set_up(self, victim: str) -> None:
        """Catch the machine with an address at the next item that it works on."""
        self.armed.write_text(victim)

    def pass_by(self, place: str) -> None:
        """Stay, at the start of an item, where the machine is wanted.

        The others wait until it is caught, so that there is work left for it.
        """
        try:
            wanted = self.armed.read_text() == place
        except FileNotFoundError:
            return
        if wanted:
            self.caught.touch()
            time.sleep(2.0)
        end = time.monotonic() + 60.0
        while self.armed.exists() and not self.caught.exists():
            if time.monotonic() > end:
                return
            time.sleep(0.05)

    def wait(self, seconds: float = 120.0) -> None:
        """Return as soon as the machine is at work on an item."""
        end = time.monotonic() + seconds
        while not self.caught.exists():
            if time.monotonic() > end:
                raise TimeoutError("The machine was given no work to lose.")
            time.sleep(0.01)

    def take_down(self) -> None:
        """Catch nobody any more."""
        self.armed.unlink(missing_ok=True)
        self.caught.unlink(missing_ok=True)


class Placed:
    """Do something, and tell where."""

    def __init__(self, function: Callable[[Any, Any], Any], ambush: Ambush) -> None:
        self.function, self.ambush = function, ambush

    def __call__(self, shared: Any, item: Any) -> tuple[str, Any]:
        import ray

        place = ray.util.get_node_ip_address()
        self.ambush.pass_by(place)
        return place, self.function(shared, item)


class Watched:
    """An engine that keeps when results came, and from where.

    Parameters
    ----------
    engine : Engine
        What works.
    ambush : Ambush
        Set up in the middle.
    victim : str
        For the machine with this address.
    middle : int, optional
        After so many results; never if not given.
    """

    def __init__(
        self, engine: Any, ambush: Ambush, victim: str, middle: int | None
    ) -> None:
        self.engine, self.ambush = engine, ambush
        self.victim, self.middle = victim, middle
        self.name, self.workers = engine.name, engine.workers
        self.arrived: list[float] = []
        self.places: dict[str, int] = {}

    def map(self, function: Any, shared: Any, items: Any) -> Iterator[Any]:
        """Map, and watch."""
        placed = Placed(function, self.ambush)
        for place, result in self.engine.map(placed, shared, items):
            self.arrived.append(time.monotonic())
            self.places[place] = self.places.get(place, 0) + 1
            if len(self.arrived) == self.middle:
                self.ambush.set_up(self.victim)
            yield result

    def close(self) -> None:
        """Leave the engine open."""


class Redone(logging.Handler):
    """Keeps when work was lost and is redone."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "redone" in record.getMessage():
            self.times.append(time.monotonic())


def answer(**told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def digest(*arrays: Any) -> str:
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(array.tobytes())
    return whole.hexdigest()


@cache
def drawn_split(nodes: int) -> gelato.EdgeSplit:
    """Return the split of a graph with hubs and attributes."""
    graph = gelato.make_synthetic_graph(
        nodes, average_degree=6.0, exponent=2.5, max_degree=100, attributes=16, seed=0
    )
    return gelato.split_edges(graph)


def evaluation(split: gelato.EdgeSplit) -> str:
    counts = gelato.evaluate(gelato.make("ac").fit(split), split).counts
    return digest(counts.scores, counts.positives, counts.above, counts.tied)


def prediction(split: gelato.EdgeSplit) -> str:
    links = gelato.make("ac").fit(split).predict(top=500)
    return digest(*(links[name].to_numpy() for name in links.columns))


def training(split: gelato.EdgeSplit) -> str:
    model = gelato.Gelato(epochs=EPOCHS, seed=1).fit(split)
    return digest(*(part.detach().numpy() for part in model.module_.parameters()))


def comparison(split: gelato.EdgeSplit) -> str:
    models: dict[str, Any] = {name: name for name in ("ac", "aa", "cos")}
    for seed in range(4):
        models[f"gelato {seed}"] = gelato.Gelato(epochs=1, seed=seed)
    table = gelato.compare(split, models)
    kept = [name for name in table.columns if not name.endswith("seconds")]
    return hashlib.sha256(table.select(kept).write_json().encode()).hexdigest()


WORKS = {
    "evaluation": evaluation,
    "prediction": prediction,
    "training": training,
    "compare": comparison,
}


def work_on(engine: Any, asked: dict[str, Any], ambush: Ambush) -> dict[str, Any]:
    """Do what is asked for, and return what was seen."""
    split = drawn_split(asked.get("nodes", NODES))
    watched = Watched(engine, ambush, asked.get("victim", ""), asked.get("middle"))
    redone, log = Redone(), logging.getLogger("gelato.engines.ray_cluster")
    log.addHandler(redone)
    log.setLevel(logging.INFO)
    started = time.monotonic()
    with use_engine(engine if engine.name == "local" else watched):
        found = WORKS[asked["work"]](split)
    log.removeHandler(redone)
    return {
        "digest": found,
        "seconds": time.monotonic() - started,
        "arrived": watched.arrived,
        "places": watched.places,
        "redone": redone.times,
        "edges": len(split.train),
        "held_out": len(split.test),
    }


def main() -> None:
    ambush = Ambush(Path(sys.argv[2]))
    drawn_split(NODES)
    with make_engine("ray", address=sys.argv[1]) as cluster:
        answer(workers=cluster.workers)
        look = cluster._replace_lost
        for line in sys.stdin:
            asked = json.loads(line)
            # What would happen if the driver did not look after its machines.
            blind = asked.get("blind", False)
            cluster._replace_lost = (lambda *given: None) if blind else look
            local = asked.get("engine") == "local"
            with make_engine("local", workers=1) as threads:
                answer(**work_on(threads if local else cluster, asked, ambush))


if __name__ == "__main__":
    main()
