"""EdgeSplit: which edges a model may see, and which it is asked to find."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from gelato.errors import UsageError
from gelato.graph import Graph, IntArray, pair_keys
from gelato.splits.files import (
    describe_graph,
    read_parts,
    refuse_other_graph,
    stored_error,
    write_parts,
)
from gelato.splits.pairs import (
    PARTS,
    Part,
    check_membership,
    checked_part,
    refuse_leakage,
    with_added_edges,
)

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

    @property
    def _parts(self) -> dict[Part, IntArray]:
        return {part: self.positives(part) for part in PARTS}

    @cached_property
    def train_graph(self) -> Graph:
        """The graph with only the training edges: what a model may look at."""
        return self.graph.with_edges(self.train)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that two splits share only if they are equal."""
        head = [self.graph.num_nodes, int(self.graph.directed)]
        sizes = [len(self.positives(part)) for part in PARTS]
        digest = hashlib.sha256(np.array(head + sizes, dtype="<i8").tobytes())
        for part in PARTS:
            digest.update(self.positives(part).astype("<i8").tobytes())
        return digest.hexdigest()[:16]

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

    def num_candidates(self, part: Part) -> int:
        """Return how many pairs are ranked for a part: all that are not known."""
        return self.graph.num_pairs - len(self.known(part))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the split to a Parquet file with columns source, target and part.

        Pairs are node indices; the file's metadata tell which graph they belong to.
        The file appears whole or not at all.
        """
        metadata = {
            "fingerprint": self.fingerprint,
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
        if split.fingerprint != metadata["fingerprint"]:
            raise stored_error(
                path,
                "was changed after it was written: its fingerprint is "
                f"{split.fingerprint}, and was {metadata['fingerprint']}.",
            )
        return split
