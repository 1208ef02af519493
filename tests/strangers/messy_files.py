"""Files as people really have them, made by a script so that every byte is known.

``python tests/strangers/messy_files.py FOLDER`` writes them all, to be tried by hand.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

FIRST = [
    "Anna",
    "Ben",
    "Carla",
    "David",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Katja",
    "Liam",
    "Mona",
]
LAST = [
    "Adler",
    "Brandt",
    "Costa",
    "Dietz",
    "Engel",
    "Fuchs",
    "Götz",
    "Haas",
    "Ivanov",
    "Jung",
    "Klein",
    "Lang",
]
PRODUCTS = [
    "Apfel",
    "Birne",
    "Dattel",
    "Erbse",
    "Feige",
    "Gurke",
    "Kirsche",
    "Limette",
    "Mango",
    "Nuss",
]
GENES = [
    "TP53",
    "MDM2",
    "BRCA1",
    "BRCA2",
    "EGFR",
    "KRAS",
    "MYC",
    "PTEN",
    "RB1",
    "ATM",
    "CHEK2",
    "CDK4",
    "CDK6",
]

# 30 headers of two columns, with the kind of rows that stood below them.
HEADERS = (
    ("Person A,Person B", "people"),
    ("name1,name2", "first"),
    ("u,v", "first"),
    ("employee,manager", "people"),
    ("Kunde;Produkt", "purchases"),
    ("Von;Nach", "first"),
    ("source,target", "numbers"),
    ("from,to", "first"),
    ("i,j", "numbers"),
    ("a,b", "people"),
    ("node1,node2", "codes"),
    ("follower,followee", "first"),
    ("src,dst", "codes"),
    ("id1,id2", "codes"),
    ("user_id,movie_id", "numbers"),
    ("Author 1,Author 2", "people"),
    ("gene_a,gene_b", "genes"),
    ("x,y", "numbers"),
    ("Quelle;Ziel", "people"),
    ("expéditeur,destinataire", "mails"),
    ("origen,destino", "first"),
    ("FromAirport,ToAirport", "genes"),
    ("protein1\tprotein2", "genes"),
    ("start node,end node", "codes"),
    ("company,supplier", "people"),
    ("ego,alter", "first"),
    ("Mitarbeiter;Vorgesetzter", "people"),
    ("citing_doi,cited_doi", "dois"),
    ("player,team", "purchases"),
    ("thing,other", "first"),  # no word that anybody listed
)
HEADERLESS = (
    *("people", "first", "numbers", "codes", "genes"),
    *("mails", "dois", "purchases", "letters", "urls"),
)


def rows(kind: str, seed: int = 0, count: int = 40) -> list[tuple[str, str]]:
    """Return edges in the ids of one kind; the first ends may occur once only."""
    draw = random.Random(seed)
    people = [f"{first} {last}" for first in FIRST for last in LAST]
    pools = {
        "people": draw.sample(people, 25),
        "first": FIRST,
        "numbers": [str(k) for k in range(100, 125)],
        "codes": [f"node{k:03d}" for k in range(3, 28)],
        "genes": GENES,
        "mails": [f"{name.lower()}@mail.example" for name in FIRST],
        "dois": [f"10.1000/x{k}" for k in range(20, 45)],
        "letters": list("ABCDEFGHIJKLMNOP"),
        "urls": [f"https://site{k}.example/" for k in range(20)],
    }
    if kind == "purchases":
        return [(draw.choice(FIRST), draw.choice(PRODUCTS)) for _ in range(count)]
    pool = pools[kind]
    return [tuple(draw.sample(pool, 2)) for _ in range(count)]


def delimiter_of(header: str) -> str:
    """Return the character between the cells of a header."""
    return next(d for d in ";\t," if d in header)


def with_header(header: str, kind: str, seed: int = 0) -> str:
    """Return a file whose first line is a header."""
    between = delimiter_of(header)
    lines = [between.join(row) for row in rows(kind, seed)]
    return "\n".join([header, *lines]) + "\n"


def without_header(kind: str, seed: int = 0) -> str:
    """Return a file whose first line is an edge."""
    return "".join(f"{u},{v}\n" for u, v in rows(kind, seed))


def all_files() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of every file."""
    for number, (header, kind) in enumerate(HEADERS, start=1):
        suffix = "tsv" if "\t" in header else "csv"
        text = with_header(header, kind)
        yield f"header_{number:02d}_{kind}.{suffix}", text.encode()
    for kind in HEADERLESS:
        yield f"no_header_{kind}.csv", without_header(kind).encode()
    for name, text, encoding in TABLES:
        yield name, text.encode(encoding)


# Name, text and encoding of tables with one trouble each.
TABLES = (
    (
        "excel_edges.csv",
        "Von;Nach;weight;time\r\nMüller;Götz;1.234,5;09.12.2006\r\n"
        "Götz;Straße;0,75;24.12.2006\r\nStraße;Müller;12;01.02.2007\r\n",
        "cp1252",
    ),
    (
        "excel_people.csv",
        "Name;Größe;Umsatz;Eintritt;Team\r\nMüller;1,82;1.200,50;01.03.2001;rot\r\n"
        "Götz;1,64;950;15.07.2010;blau\r\nStraße;1,75;;30.11.2019;rot\r\n",
        "cp1252",
    ),
    ("utf16.csv", "source,target\nÅsa,Ødegård\nØdegård,Çelik\n", "utf-16"),
    ("utf16_plain.csv", "source,target\nAsa,Odegard\nOdegard,Celik\n", "utf-16-le"),
    ("sep_line.csv", "sep=;\nVon;Nach\nA1;B1\nB1;C1\n", "utf-8"),
    ("thousands.tsv", "source\ttarget\tweight\na\tb\t1,234.5\nb\tc\t12,000\n", "utf-8"),
    ("us_dates.csv", "source,target,time\na,b,12/31/2006\nb,c,1/2/2007\n", "utf-8"),
    ("which_dates.csv", "source,target,time\na,b,01/02/2006\nb,c,3/4/2007\n", "utf-8"),
    ("no_dates.csv", "source,target,time\na,b,2006-12-09\nb,c,Christmas\n", "utf-8"),
    (
        "missing_ids.csv",
        "source,target\nanna,ben\n,carla\nben,\n , \nben,NA\nanna,NA\ncarla,anna\n",
        "utf-8",
    ),
    (
        "loops_and_repeats.csv",
        "source,target\n" + "a,a\n" * 20 + "a,b\nb,c\nc,d\nd,a\n" * 203,
        "utf-8",
    ),
    (
        "pandas_index.csv",
        ",source,target\n0,anna,ben\n1,ben,carla\n2,carla,anna\n",
        "utf-8",
    ),
    (
        "pandas_index_names.csv",
        ",Person A,Person B\n0,anna,ben\n1,ben,carla\n2,carla,anna\n",
        "utf-8",
    ),
    ("pandas_numbers.csv", "0,1\nanna,ben\nben,carla\ncarla,anna\n", "utf-8"),
)


def write_all(folder: Path) -> None:
    """Write every file into a folder."""
    for name, content in all_files():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
