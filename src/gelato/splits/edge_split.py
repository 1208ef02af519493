"""EdgeSplit: which edges a model may see, and which it is asked to find."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.exceptions import PolarsError

from gelato.errors import InputError, StoredFileError, UsageError
from gelato.graph import Graph, IntArray, canonical_pairs, find_pairs, pair_keys
from gelato.io import write_bytes_atomic
from gelato.text import html_facts, plural

Part: TypeAlias = Literal["train", "valid", "test"]

PARTS: tuple[Part, ...] = ("train", "valid", "test")


def checked_part(graph: Graph, given: npt.ArrayLike, part: Part) -> IntArray:
    """Return the pairs of a part canonical and sorted, or raise naming a wrong one."""
    pairs = np.asarray(given)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"The {part} part must be a (k, 2) array of node indices, not an array "
            f"of shape {pairs.shape} and type {pairs.dtype}."
        )
    pairs = pairs.astype(np.int64)
    n = graph.num_nodes
    outside = np.any((pairs < 0) | (pairs >= n), axis=1)
    if np.any(outside):
        raise InputError(
            f"The {part} part has the pair {pairs[outside][0].tolist()}, but nodes "
            f"are numbered 0 to {n - 1}."
        )
    loops = pairs[:, 0] == pairs[:, 1]
    if np.any(loops):
        node = graph.node_ids[pairs[loops][0, 0]]
        raise InputError(f"The {part} part links node {node!s} to itself.")
    pairs = canonical_pairs(pairs, directed=graph.directed)
    keys = pair_keys(pairs, n)
    order = np.argsort(keys, kind="stable")
    repeated = np.flatnonzero(np.diff(keys[order]) == 0)
    if repeated.size:
        pair = named(graph, pairs[order[repeated[0]]])
        raise InputError(f"The {part} part has the pair {pair} more than once.")
    return np.ascontiguousarray(pairs[order])


def refuse_leakage(graph: Graph, parts: dict[Part, IntArray]) -> None:
    """Raise naming a pair that is in two parts, if there is one."""
    for first, second in combinations(PARTS, 2):
        pairs = parts[second]
        shared = find_pairs(parts[first], pairs, graph.num_nodes) >= 0
        if np.any(shared):
            raise InputError(
                f"The split leaks: the pair {named(graph, pairs[shared][0])} is in "
                f"both the {first} and the {second} part "
                f"({np.count_nonzero(shared):,} in all).",
                hint="A pair may be in one part only, in either direction unless the "
                "graph is directed.",
            )


def check_membership(graph: Graph, pairs: IntArray, part: Part) -> None:
    """Raise naming a pair that is not an edge of the graph, if there is one."""
    missing = find_pairs(graph.edges, pairs, graph.num_nodes) < 0
    if np.any(missing):
        raise InputError(
            f"The {part} part has the pair {named(graph, pairs[missing][0])}, which "
            "is not an edge of the graph.",
            hint="split_given adds such edges to the graph.",
        )


def named(graph: Graph, pair: IntArray) -> str:
    """Return a pair as people know it: in the user's node ids."""
    u, v = (graph.node_ids[i : i + 1].tolist()[0] for i in pair)
    return f"({u!r}, {v!r})"


def with_added_edges(graph: Graph, parts: Iterable[IntArray]) -> Graph:
    """Return the graph with canonical pairs added as edges of weight 1."""
    pairs = np.concatenate(list(parts))
    new = np.unique(pairs[find_pairs(graph.edges, pairs, graph.num_nodes) < 0], axis=0)
    if not len(new):
        return graph
    edges = np.concatenate([graph.edges, new])
    order = np.argsort(pair_keys(edges, graph.num_nodes))
    count = "1 edge" if len(new) == 1 else f"{len(new):,} edges"
    notes = [f"added {count} of the given split"]
    weights, sides = graph.weights, graph.sides
    if weights is not None:
        weights = np.concatenate([weights, np.ones(len(new))])[order]
    if sides is not None and np.any(sides[new].sum(axis=1) != 1):
        if graph.ends is not None:
            raise InputError(
                "The given edges join nodes of one side of a bipartite graph.",
                hint="Leave out --bipartite, or these edges.",
            )
        sides = None  # the added edges join nodes of one kind
    if graph.times is not None:
        # Nobody knows when the new edges appeared, and a given split needs no times.
        notes.append("dropped the times of edges: the added ones have none")
    return replace(
        graph,
        edges=edges[order],
        weights=weights,
        times=None,
        sides=sides,
        notes=(*graph.notes, *notes),
    )


FORMAT = "gelato-split"
FORMAT_VERSION = 1
_FIELDS = (
    "fingerprint",
    "kind",
    "seed",
    "num_nodes",
    "num_edges",
    "directed",
    "node_ids",
)
_COLUMNS = {"source": pl.Int64, "target": pl.Int64, "part": pl.String}


def describe_graph(graph: Graph) -> dict[str, str]:
    """Return what a split's file records of its graph: size, kind and node ids."""
    ids = "\n".join(map(repr, graph.node_ids.tolist()))
    return {
        "num_nodes": str(graph.num_nodes),
        "num_edges": str(graph.num_edges),
        "directed": str(graph.directed).lower(),
        "node_ids": hashlib.sha256(ids.encode()).hexdigest()[:16],
    }


def write_parts(
    path: Path, parts: dict[Part, IntArray], metadata: dict[str, str]
) -> None:
    """Write the parts to a file that appears whole or not at all."""
    pairs = np.concatenate([parts[part] for part in PARTS])
    names = [part for part in PARTS for _ in range(len(parts[part]))]
    columns = {"source": pairs[:, 0], "target": pairs[:, 1], "part": names}
    frame = pl.DataFrame(columns, schema=_COLUMNS)
    header = {"format": FORMAT, "version": str(FORMAT_VERSION), **metadata}
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=header)
    write_bytes_atomic(path, buffer.getvalue())


def read_parts(path: Path) -> tuple[dict[Part, IntArray], dict[str, str]]:
    """Return the parts and the metadata of a file, or raise naming what is wrong."""
    if not path.is_file():
        raise InputError(f"There is no split file {path}.")
    try:
        metadata = pl.read_parquet_metadata(path)
        frame = pl.read_parquet(path)
    except (OSError, PolarsError) as error:
        raise stored_error(path, f"cannot be read as Parquet: {error}.") from error
    _check_header(path, metadata)
    if dict(frame.schema) != _COLUMNS or frame.null_count().sum_horizontal().item():
        raise stored_error(path, f"has other columns than {', '.join(_COLUMNS)}.")
    foreign = set(frame["part"].unique()) - set(PARTS)
    if foreign:
        raise stored_error(path, f"names the unknown part {min(foreign)!r}.")
    parts: dict[Part, IntArray] = {}
    for part in PARTS:
        rows = frame.filter(pl.col("part") == part)
        parts[part] = np.column_stack([rows["source"], rows["target"]])
    return parts, metadata


def refuse_other_graph(path: Path, metadata: dict[str, str], graph: Graph) -> None:
    """Raise unless the file was written for a graph of this size, kind and ids."""
    ours = describe_graph(graph)
    phrases = {
        "num_nodes": "{} nodes",
        "directed": "directed = {}",
        "node_ids": "node ids of hash {}",
    }
    if metadata["kind"] != "given":  # its missing edges are added
        phrases["num_edges"] = "{} edges"
    for name, phrase in phrases.items():
        if metadata[name] != ours[name]:
            raise stored_error(
                path,
                f"was made for a graph with {phrase.format(metadata[name])}; this "
                f"one has {phrase.format(ours[name])}.",
            )


def stored_error(path: Path, reason: str) -> StoredFileError:
    """Return the error that says why a stored split is of no use."""
    return StoredFileError(
        f"The split {path} {reason}",
        hint="Give the graph that it was made of, or make the split again.",
    )


def _check_header(path: Path, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise stored_error(path, "was not written by EdgeSplit.save.")
    version = metadata.get("version", "")
    if version != str(FORMAT_VERSION):
        raise stored_error(
            path,
            f"has format version {version or 'unknown'}; this program reads version "
            f"{FORMAT_VERSION}.",
        )
    missing = [name for name in _FIELDS if name not in metadata]
    if missing:
        raise stored_error(path, f"lacks the metadata {', '.join(missing)}.")


KINDS = ("random", "temporal", "given")


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """The edges of a graph, divided into training, validation and test edges.

    Parameters
    ----------
    graph : Graph
        All known edges, with the nodes, attributes and ids.
    train, valid, test : (k, 2) int pairs of node indices
        Kept as canonical pairs, sorted. ``u-v`` and ``v-u`` are one pair in an
        undirected graph; in a directed graph they are different edges, and one may
        be in another part than the other.
    kind : {"given", "random", "temporal"}
        How the parts came about.
    seed : int, optional
        The seed of a random split.

    Raises
    ------
    InputError
        If a pair is in two parts (leakage), twice in one, a self-loop, or not an
        edge of the graph.

    Examples
    --------
    >>> from gelato.splits import split_edges
    >>> split = split_edges(Graph.from_indices(9, [(i, i + 1) for i in range(8)]),
    ...                     valid=0.25, test=0.25)
    >>> split
    EdgeSplit(random, seed 0: 4 train, 2 valid, 2 test edges)
    """

    graph: Graph
    train: IntArray
    valid: IntArray
    test: IntArray
    kind: str = "given"
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(
                f"A split cannot be of kind {self.kind!r}.",
                hint=f"Kinds are {', '.join(KINDS)}.",
            )
        for part in PARTS:
            pairs = checked_part(self.graph, getattr(self, part), part)
            object.__setattr__(self, part, pairs)
        refuse_leakage(self.graph, self._parts)
        for part in PARTS:
            check_membership(self.graph, self.positives(part), part)

    def __repr__(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        sizes = ", ".join(f"{len(self.positives(part)):,} {part}" for part in PARTS)
        return f"EdgeSplit({self.kind}{seed}: {sizes} edges)"

    def _repr_html_(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        sizes = [(f"{part} edges", f"{len(self.positives(part)):,}") for part in PARTS]
        rows = [("kind", f"{self.kind}{seed}"), *sizes]
        return html_facts("EdgeSplit", [*rows, ("fingerprint", self.fingerprint)])

    @property
    def _parts(self) -> dict[Part, IntArray]:
        return {part: self.positives(part) for part in PARTS}

    @cached_property
    def train_graph(self) -> Graph:
        """The graph with only the training edges: what a model may look at."""
        return self.graph.with_edges(self.train)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that two splits share only if they are equal.

        The same edges among other pairs that can be links are another split.
        """
        if self.graph.ends is None:
            return self._edges_fingerprint
        rule = np.packbits(self.graph.ends).tobytes()
        return hashlib.sha256(self._edges_fingerprint.encode() + rule).hexdigest()[:16]

    @cached_property
    def _edges_fingerprint(self) -> str:
        head = [self.graph.num_nodes, int(self.graph.directed)]
        sizes = [len(self.positives(part)) for part in PARTS]
        digest = hashlib.sha256(np.array(head + sizes, dtype="<i8").tobytes())
        for part in PARTS:
            digest.update(self.positives(part).astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return what identifies the split, and its sizes, as plain data."""
        sizes = {str(part): len(self.positives(part)) for part in PARTS}
        about: dict[str, Any] = {"kind": self.kind, "seed": self.seed}
        if self.kind == "temporal":
            about["unseen"] = self.num_unseen("test")
        return {**about, "fingerprint": self.fingerprint, **sizes}

    def positives(self, part: Part) -> IntArray:
        """Return the edges of a part: the pairs that a ranking should put first."""
        if part not in PARTS:
            raise UsageError(
                f"A split has no part {part!r}.", hint=f"Parts are {', '.join(PARTS)}."
            )
        pairs: IntArray = getattr(self, part)
        return pairs

    def known(self, part: Part) -> IntArray:
        """Return the pairs that are not ranked for a part, sorted.

        None for training; the training edges for validation; the training and the
        validation edges for test. Validation thus counts test edges as negatives,
        as somebody who does not know the test edges must.
        """
        self.positives(part)  # refuses the name of a part that does not exist
        return self._known[part]

    @cached_property
    def _known(self) -> dict[Part, IntArray]:
        both = np.concatenate([self.train, self.valid])
        both = both[np.argsort(pair_keys(both, self.graph.num_nodes))]
        return {"train": self.train[:0], "valid": self.train, "test": both}

    def num_unseen(self, part: Part) -> int:
        """Return how many edges of a part have an end that no edge known before has."""
        seen = np.zeros(self.graph.num_nodes, dtype=bool)
        seen[self.known(part)] = True
        return int(np.count_nonzero(~seen[self.positives(part)].all(axis=1)))

    def num_candidates(self, part: Part) -> int:
        """Return how many pairs are ranked for a part: all that are not known."""
        known = int(np.count_nonzero(self.graph.admits(self.known(part))))
        return self.graph.num_pairs - known

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the split to a Parquet file with columns source, target and part.

        Pairs are node indices; the file's metadata tell which graph they belong to.
        The file appears whole or not at all.
        """
        metadata = {
            "fingerprint": self._edges_fingerprint,
            "kind": self.kind,
            "seed": "" if self.seed is None else str(self.seed),
            **describe_graph(self.graph),
        }
        write_parts(Path(path), self._parts, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str], graph: Graph) -> EdgeSplit:
        """Read a split that :meth:`save` wrote, for the graph that it was made of.

        The edges of a given split that are missing from ``graph`` are added to it,
        as they were when the split was made.

        Raises
        ------
        StoredFileError
            If the file is damaged, newer than this version, or of another graph.
        """
        path = Path(path)
        parts, metadata = read_parts(path)
        refuse_other_graph(path, metadata, graph)
        kind, seed = metadata["kind"], metadata["seed"]
        try:
            if kind == "given":
                graph = with_added_edges(graph, parts.values())
            split = cls(graph, **parts, kind=kind, seed=int(seed) if seed else None)
        except ValueError as error:  # InputError and UsageError among them
            raise stored_error(path, f"does not fit the graph: {error}") from error
        if split._edges_fingerprint != metadata["fingerprint"]:
            raise stored_error(
                path,
                "was changed after it was written: its fingerprint is "
                f"{split._edges_fingerprint}, and was {metadata['fingerprint']}.",
            )
        return only_links(split)


def only_links(split: EdgeSplit) -> EdgeSplit:
    """Return a split without held-out edges of pairs that cannot be links.

    A graph of two node sets may have edges inside one of them. They are known, and
    walked on in training, but nobody asks for them.
    """
    graph = split.graph
    valid, test = (pairs[graph.admits(pairs)] for pairs in (split.valid, split.test))
    lost = len(split.valid) + len(split.test) - len(valid) - len(test)
    if not lost:
        return split
    note = (
        f"{plural(lost, 'edge')} inside one of the two node sets left out of "
        "validation and test"
    )
    graph = replace(graph, notes=(*graph.notes, note))
    return replace(split, graph=graph, valid=valid, test=test)
