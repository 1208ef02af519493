"""From options to data: the graph and the split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelato.cli.options import DataOptions, SplitOptions
from gelato.cli.screen import Screen
from gelato.cli.settings import assignments
from gelato.errors import InputError, UsageError

if TYPE_CHECKING:
    from gelato.graph import Graph
    from gelato.io import ReadReport
    from gelato.splits import EdgeSplit


@dataclass(frozen=True)
class LoadedGraph:
    """A graph, what it is called, and how it was read (if from a table)."""

    graph: Graph
    name: str
    report: ReadReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts that belong beside every result."""
        return {
            "name": self.name,
            "nodes": self.graph.num_nodes,
            "edges": self.graph.num_edges,
            "attributes": self.graph.num_attributes,
            "directed": self.graph.directed,
            "weighted": self.graph.is_weighted,
            "notes": list(self.graph.notes),
        }


def load_graph(data: DataOptions, screen: Screen) -> LoadedGraph:
    """Read the graph that the options name; exactly one of two ways."""
    if (data.edges is None) == (data.dataset is None):
        both = data.edges is not None
        raise UsageError(
            "--edges and --dataset exclude each other."
            if both
            else "There is no graph to work on.",
            hint="Give your own with --edges FILE, or a benchmark graph with --dataset "
            "NAME (citeseer needs no download).",
        )
    if data.dataset is not None:
        loaded = _load_dataset(data, screen)
    else:
        assert data.edges is not None
        loaded = _load_tables(data, data.edges)
    if data.symmetrise:
        loaded = replace(loaded, graph=loaded.graph.symmetrised())
    return loaded


def _load_dataset(data: DataOptions, screen: Screen) -> LoadedGraph:
    from gelato.datasets import load_dataset

    assert data.dataset is not None
    idle = data.given_table_options()
    if idle:
        raise UsageError(
            f"{idle[0]} says how to read a table, and --dataset needs none.",
            hint=f"Leave out {idle[0]}, or give your own graph with --edges FILE.",
        )
    graph = load_dataset(data.dataset, progress=screen.note)
    return LoadedGraph(graph, data.dataset)


def _load_tables(data: DataOptions, edges: Path) -> LoadedGraph:
    from gelato.io import read_graph_with_report, read_npz

    if edges.suffix.lower() == ".npz":
        idle = data.given_table_options()
        if idle:
            raise UsageError(
                f"{idle[0]} says how to read a table, and {edges} is an npz file, "
                "which says everything itself.",
                hint=f"Leave out {idle[0]}.",
            )
        return LoadedGraph(read_npz(edges), str(edges))
    if data.attributes is None and (data.id or data.encode or data.missing):
        raise UsageError(
            "--id, --encode and --missing are about attributes, and there are none.",
            hint="Give the table of attributes with --attributes FILE.",
        )
    graph, report = read_graph_with_report(
        edges,
        data.attributes,
        source=_column(data.source),
        target=_column(data.target),
        weight=_column(data.weight),
        time=_column(data.time),
        id=_column(data.id),
        directed=data.directed,
        header=data.header,
        delimiter=_delimiter(data.delimiter),
        encode=assignments(data.encode, "--encode", "COLUMN=KIND") or None,
        missing=data.missing or "zero",
    )
    return LoadedGraph(graph, str(edges), report)


def _column(text: str | None) -> str | int | None:
    """Return a column's position where digits are given, else its name."""
    return int(text) if text is not None and text.isdecimal() else text


def _delimiter(text: str | None) -> str | None:
    names = {"tab": "\t", r"\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    return None if text is None else names.get(text, text)


def load_split(
    data: DataOptions, split: SplitOptions, screen: Screen
) -> tuple[LoadedGraph, EdgeSplit]:
    """Read a graph and divide its edges as the options say."""
    from gelato.splits import EdgeSplit, split_by_time, split_edges

    _refuse_mixed(split)
    if split.train or split.valid_edges or split.test_edges:
        return _given_split(data, split, screen)
    if split.split_file is not None and not split.split_file.is_file():
        raise InputError(
            f"There is no split file {split.split_file}.",
            hint="Make one with: gelato evaluate ... --save-split FILE.parquet",
        )
    loaded = load_graph(data, screen)
    if loaded.graph.num_edges == 0:
        raise InputError(
            f"{loaded.name} has no edges, so there is nothing to split.",
            hint="See what was read and dropped with: gelato check",
        )
    if split.split_file is not None:
        return loaded, EdgeSplit.load(split.split_file, loaded.graph)
    shares: dict[str, Any] = {"valid": split.valid, "test": split.test}
    if not split.temporal:
        shares["seed"] = split.split_seed
    shares = {name: value for name, value in shares.items() if value is not None}
    divide = split_by_time if split.temporal else split_edges
    return loaded, divide(loaded.graph, **shares)


def _refuse_mixed(split: SplitOptions) -> None:
    ways = {
        "--split-file": split.split_file,
        "--temporal": split.temporal or None,
        "--split-seed": split.split_seed,
        "--train, --valid-edges and --test-edges": split.train
        or split.valid_edges
        or split.test_edges,
    }
    used = [name for name, value in ways.items() if value is not None]
    if len(used) > 1:
        raise UsageError(
            f"{used[0]} and {used[1]} exclude each other.",
            hint="A split is random, temporal, read from a file, or given.",
        )
    shares = split.valid is not None or split.test is not None
    if shares and (split.split_file or used[:1] == list(ways)[3:]):
        raise UsageError(
            f"--valid and --test are shares, and {used[0]} decides by itself.",
            hint="Leave one of them out.",
        )


def _given_split(
    data: DataOptions, split: SplitOptions, screen: Screen
) -> tuple[LoadedGraph, EdgeSplit]:
    from gelato.splits import split_given

    if split.test_edges is None and split.valid_edges is None:
        raise UsageError(
            "--train alone leaves nothing to rank.",
            hint="Name the held-out edges with --test-edges FILE.",
        )
    held_out: list[Any] = [split.valid_edges or [], split.test_edges or []]
    if data.edges is None and data.dataset is None:
        if split.train is None:
            raise UsageError(
                "There is no graph to work on.",
                hint="Give --edges FILE or --train FILE beside the held-out edges.",
            )
        if data.attributes is None:
            made = split_given(None, split.train, *held_out, directed=data.directed)
            return LoadedGraph(made.graph, str(split.train)), made
        data = replace(data, edges=split.train)
    loaded = load_graph(data, screen)
    made = split_given(loaded.graph, split.train, *held_out)
    return replace(loaded, graph=made.graph), made


def describe_split(split: EdgeSplit) -> dict[str, Any]:
    """Return what identifies a split."""
    return {
        "kind": split.kind,
        "seed": split.seed,
        "fingerprint": split.fingerprint,
        "train": len(split.train),
        "valid": len(split.valid),
        "test": len(split.test),
    }
