"""Write the two csv files of the tutorial on own files, from a seed.

The people are invented. Who works with whom follows from shared interests, the same
town, and common colleagues, so that both the edges and the attributes tell something.
Run it with ``python scripts/make_example_data.py``; it writes to ``examples/data``.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent.parent / "examples" / "data"
SEED = 9
# How much a shared interest more is worth: the count to this power.
POWER = 3
PEOPLE, LINKS, BY_COLLEAGUES = 120, 420, 0.35

FIRST = (
    *("Ada", "Bela", "Carla", "Dario", "Edda", "Femi", "Gita", "Hugo", "Iris"),
    *("Jonas", "Kira", "Luca", "Mina", "Nils", "Olga", "Pablo", "Rania", "Sven"),
    *("Tove", "Yusuf"),
)
LAST = ("Abel", "Brandt", "Costa", "Dolan", "Egede", "Farah")
TOWNS = ("Aarhus", "Bergen", "Cork", "Delft")
TOPICS = {
    "soil": ("compost", "clay", "erosion", "roots"),
    "water": ("rivers", "wells", "floods", "salt"),
    "air": ("pollen", "wind", "ozone", "dust"),
    "sea": ("kelp", "tides", "plankton", "reefs"),
    "ice": ("glaciers", "cores", "snow", "permafrost"),
}


def draw(seed: int = SEED) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows of people and of collaborations, headers first."""
    rng = np.random.default_rng(seed)
    names = [f"{first} {last}" for last in LAST for first in FIRST][:PEOPLE]
    topics = list(TOPICS)
    topic = rng.integers(len(topics), size=PEOPLE)
    town = rng.integers(len(TOWNS), size=PEOPLE)
    words = [_interests(rng, topics[t]) for t in topic]
    shared = np.array([[len(a & b) for b in words] for a in words])
    liking = 0.02 + shared**POWER * np.where(town[:, None] == town, 4.0, 1.0)
    keen = rng.lognormal(0, 0.3, PEOPLE)
    liking *= np.outer(keen, keen)
    edges = _edges(rng, liking)
    years = rng.integers(2009, 2025, size=PEOPLE)
    people = [["name", "town", "interests", "joined"]]
    people += [
        [names[i], TOWNS[town[i]], ";".join(sorted(words[i])), str(years[i])]
        for i in range(PEOPLE)
    ]
    collaborations = [["person", "colleague", "since"]]
    collaborations += [
        [names[u], names[v], str(max(years[u], years[v]) + i * 4 // LINKS)]
        for i, (u, v) in enumerate(edges)
    ]
    return people, collaborations


def _interests(rng: np.random.Generator, topic: str) -> set[str]:
    """Three words of the person's topic, and one of any."""
    every = [word for words in TOPICS.values() for word in words]
    return {*rng.choice(TOPICS[topic], 3, replace=False), rng.choice(every)}


def _edges(rng: np.random.Generator, liking: np.ndarray) -> list[tuple[int, int]]:
    """Draw edges one by one: by liking, or through a colleague of a colleague."""
    n = len(liking)
    known = np.zeros((n, n), dtype=bool)
    edges: list[tuple[int, int]] = []
    while len(edges) < LINKS:
        weight = np.triu(np.where(known, 0.0, liking), 1)
        common = known.astype(int) @ known.astype(int)
        if rng.random() < BY_COLLEAGUES and np.any(weight * common):
            weight = weight * common
        pair = int(rng.choice(n * n, p=(weight / weight.sum()).ravel()))
        u, v = divmod(pair, n)
        known[u, v] = known[v, u] = True
        edges.append((u, v))
    return edges


def as_csv(rows: list[list[str]]) -> str:
    """Return rows as the text of a csv file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def main() -> int:
    """Write both files."""
    people, collaborations = draw()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, rows in (("people", people), ("collaborations", collaborations)):
        path = FOLDER / f"{name}.csv"
        path.write_text(as_csv(rows), encoding="utf-8")
        print(f"{len(rows) - 1:,} rows: {path.relative_to(FOLDER.parent.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
