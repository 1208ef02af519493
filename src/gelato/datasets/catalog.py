"""The benchmark graphs that are known by name, and what makes sure of each.

Two checks guard a graph: the sha256 of every raw file, before anything in it is
read, and a digest of the graph's content, wherever it came from.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from gelato.datasets.convert import PLANETOID_PIECES
from gelato.errors import UnknownNameError
from gelato.graph import Graph

PACKAGE_DATA = Path(__file__).parent / "data"

RawFormat: TypeAlias = Literal["planetoid", "amazon"]


@dataclass(frozen=True)
class RawFile:
    """One file to fetch: its name, the sha256 of its content, where it lives."""

    name: str
    sha256: str
    url: str


@dataclass(frozen=True)
class Dataset:
    """What is known about a benchmark graph before it is loaded.

    Parameters
    ----------
    name : str
        The name that :func:`gelato.load_dataset` takes.
    num_nodes, num_edges, num_attributes : int
        Its size.
    content : str
        :func:`content_digest` of the graph.
    raw_format : {"planetoid", "amazon"}
        How its raw files are written.
    files : tuple of RawFile
        What a download fetches.
    description, source, licence : str
        For people to read.
    """

    name: str
    num_nodes: int
    num_edges: int
    num_attributes: int
    content: str
    raw_format: RawFormat
    files: tuple[RawFile, ...]
    description: str
    source: str
    licence: str


_ORIGIN = {
    "planetoid": (
        "github.com/kimiyoung/planetoid (Yang, Cohen, Salakhutdinov 2016)",
        "files under MIT with their repository; no licence stated for the data itself",
    ),
    "amazon": (
        "github.com/shchur/gnn-benchmark (Shchur et al. 2018; McAuley et al. 2015)",
        "files under MIT with their repository; no licence stated for the data itself",
    ),
}

# name: nodes, edges, attributes, content digest, raw format, description
_FACTS: dict[str, tuple[int, int, int, str, RawFormat, str]] = {
    "cora": (
        *(2708, 5278, 1433, "caccb4a0aa41e252"),
        "planetoid",
        "papers on machine learning, joined by citations; binary words",
    ),
    "citeseer": (
        *(3327, 4552, 3703, "1848226ee30250c5"),
        "planetoid",
        "papers on computer science, joined by citations; binary words",
    ),
    "pubmed": (
        *(19717, 44324, 500, "8de06d86af9c4263"),
        "planetoid",
        "papers on diabetes, joined by citations; TF-IDF words",
    ),
    "photo": (
        *(7650, 119081, 745, "e9d38b4c4c34c380"),
        "amazon",
        "cameras and the like, joined if bought together; words of reviews",
    ),
    "computers": (
        *(13752, 245861, 767, "bf20b25f90d3d6bf"),
        "amazon",
        "computer goods, joined if bought together; words of reviews",
    ),
}


@cache
def catalog() -> dict[str, Dataset]:
    """Return the known benchmark graphs by name."""
    files = _raw_files()
    known = {}
    for name, (n, m, r, content, raw_format, description) in _FACTS.items():
        source, licence = _ORIGIN[raw_format]
        known[name] = Dataset(
            name=name,
            num_nodes=n,
            num_edges=m,
            num_attributes=r,
            content=content,
            raw_format=raw_format,
            files=tuple(files[file] for file in raw_names(name, raw_format)),
            description=description,
            source=source,
            licence=licence,
        )
    return known


def find(name: str) -> Dataset:
    """Return what is known about a name, or raise suggesting near ones."""
    known = catalog()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name).lower().strip(), known, n=1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    if Path(str(name)).is_file():
        guess = "It is a file: --edges FILE, or gelato.read_graph, reads your own. "
    raise UnknownNameError(
        f"There is no dataset {name!r}.", hint=f"{guess}Known: {', '.join(known)}."
    )


def raw_names(name: str, raw_format: RawFormat) -> list[str]:
    """Return the names of the raw files of a dataset."""
    if raw_format == "amazon":
        return [f"amazon_electronics_{name}.npz"]
    return [f"ind.{name}.{piece}" for piece in PLANETOID_PIECES]


def content_digest(graph: Graph) -> str:
    """Return 16 hexadecimal digits over the edges, attributes and labels."""
    attributes = sp.csr_array(graph.attributes)
    digest = hashlib.sha256()
    for array, kind in (
        (np.array([graph.num_nodes, *attributes.shape]), "<i8"),
        (graph.edges, "<i8"),
        (attributes.indptr, "<i8"),
        (attributes.indices, "<i8"),
        (attributes.data, "<f4"),
        (graph.labels, "<i8"),
    ):
        digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return digest.hexdigest()[:16]


def _raw_files() -> dict[str, RawFile]:
    lines = (PACKAGE_DATA / "sources.tsv").read_text(encoding="utf-8").splitlines()
    rows = (RawFile(*line.split("\t")) for line in lines[1:])
    return {row.name: row for row in rows}
