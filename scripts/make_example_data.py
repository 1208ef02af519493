"""Write the files of the tutorials and of the tour, from a seed.

The people are invented. Who works with whom follows from shared interests, the same
town, and common colleagues, so that both the edges and the attributes tell something.
The tour gets them tidy; the tutorials get them as such files arrive: exported from
Excel, in Latin-1 or UTF-16, with decimal commas, repeated rows and gaps.
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


ACCENTS = {"Bela": "Béla", "Tove": "Tóve", "Rania": "Rânia", "Jonas": "Jörn"}


def exported(
    people: list[list[str]], collaborations: list[list[str]]
) -> tuple[str, str]:
    """Return staff and projects as somebody exported them from a spreadsheet."""
    rng = np.random.default_rng(SEED)
    staff = ["Name;Town;Interests;Joined;Budget"]
    for name, town, words, year in people[1:-3]:  # the last three are not in the list
        budget = "" if rng.random() < 0.1 else f"{rng.integers(1, 90)}.500,00"
        day = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{year}"
        interests = words.replace(";", ", ")
        staff.append(f"{_accented(name)};{town};{interests};{day};{budget}")
    rows = []
    for one, other, year in collaborations[1:]:
        hours = f"{rng.integers(1, 30)},{rng.integers(10)}"
        day = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{year}"
        rows.append([_accented(one), _accented(other), day, hours])
    again = [rows[k] for k in rng.permutation(len(rows))[:25]]
    rows += [[b, f" {a}", *rest] for a, b, *rest in again]  # in the other order
    rows += [[a, a, *rest] for a, _, *rest in rows[:3]]
    rows += [[a, "", *rest] for a, _, *rest in rows[3:7]]
    projects = ["Person;Colleague;Since;Hours per week", *map(";".join, rows)]
    return _lines(staff), _lines(projects)


def purchases(seed: int = SEED) -> tuple[str, str]:
    """Return who bought what and when, and a list of the products."""
    rng = np.random.default_rng(seed)
    kinds = ("Garden", "Kitchen", "Office", "Travel")
    products = [f"{kind} {k:02d}" for kind in kinds for k in range(1, 13)]
    taste = rng.dirichlet(np.full(len(kinds), 0.35), size=90)
    rows = ["Customer\tProduct\tDate\tAmount"]
    for day in np.sort(rng.integers(0, 700, size=900)):
        customer = int(rng.integers(90))
        kind = int(rng.choice(len(kinds), p=taste[customer]))
        product = products[12 * kind + int(12 * rng.random() ** 1.6)]
        when = np.datetime64("2023-01-02") + int(day)
        year, month, date = str(when).split("-")
        amount = f"{rng.integers(3, 1800)},{rng.integers(10)}0"
        rows.append(f"C-{customer:03d}\t{product}\t{date}.{month}.{year}\t{amount}")
    prices = rng.integers(3, 200, size=len(products))
    listed = [
        "Product;Group;Price",
        *(f"{x};{x.split()[0]};{p},90" for x, p in zip(products, prices, strict=True)),
    ]
    return _lines(rows), _lines(listed)


def _accented(name: str) -> str:
    first, _, last = name.partition(" ")
    return f"{ACCENTS.get(first, first)} {last}"


def _lines(rows: list[str]) -> str:
    return "".join(f"{row}\r\n" for row in rows)


def files() -> dict[str, bytes]:
    """Return every file, by name."""
    people, collaborations = draw()
    staff, projects = exported(people, collaborations)
    bought, products = purchases()
    return {
        "people.csv": as_csv(people).encode(),
        "collaborations.csv": as_csv(collaborations).encode(),
        "staff.csv": staff.encode("latin-1"),
        "projects.csv": projects.encode("latin-1"),
        "purchases.txt": bought.encode("utf-16"),
        "products.csv": products.encode(),
    }


def main() -> int:
    """Write all files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (FOLDER / name).write_bytes(content)
        print(
            f"{len(content):,} bytes: {(FOLDER / name).relative_to(FOLDER.parents[1])}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
