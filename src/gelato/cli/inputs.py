"""From options to data: the graph and the split."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gelato import text
from gelato.cli.console import Console
from gelato.cli.options import (
    CandidateOptions,
    DataOptions,
    SideOptions,
    SplitOptions,
)
from gelato.cli.settings import assignments
from gelato.errors import InputError, UsageError

if TYPE_CHECKING:
    from gelato.graph import Graph, IntArray
    from gelato.io import ReadReport
    from gelato.ranking.candidates import Candidates
    from gelato.ranking.evaluate import Part
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
            "reading": None if self.graph.reading is None else {**self.graph.reading},
        }


def load_graph(
    data: DataOptions, console: Console, sides: SideOptions | None = None
) -> LoadedGraph:
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
        loaded = _load_dataset(data, console)
    else:
        assert data.edges is not None
        loaded = _load_tables(data, data.edges)
    if data.symmetrise:
        loaded = replace(loaded, graph=loaded.graph.symmetrised())
    if data.bipartite:
        loaded = replace(loaded, graph=_between_sides(loaded))
    return replace(loaded, graph=between(loaded.graph, sides))


def between(graph: Graph, sides: SideOptions | None) -> Graph:
    """Return a graph in which only pairs between the node sets of two files count."""
    from gelato.io import read_nodes

    if sides is None or (sides.left is None and sides.right is None):
        return graph
    left, right = (
        None if path is None else graph.node_ids[read_nodes(path, graph)]
        for path in (sides.left, sides.right)
    )
    return graph.between(left, right)


def _between_sides(loaded: LoadedGraph) -> Graph:
    if not loaded.graph.is_bipartite:
        raise InputError(
            f"{loaded.name} is not bipartite: some edges join nodes of one kind, or "
            "there are too few edges to tell.",
            hint="Leave out --bipartite; --left and --right restrict candidates.",
        )
    return loaded.graph.between_sides()


def _load_dataset(data: DataOptions, console: Console) -> LoadedGraph:
    from gelato.datasets import load_dataset

    assert data.dataset is not None
    idle = data.given_table_options()
    if idle:
        raise UsageError(
            f"{idle[0]} says how to read a table, and --dataset needs none.",
            hint=f"Leave out {idle[0]}, or give your own graph with --edges FILE.",
        )
    graph = load_dataset(data.dataset, progress=console.note)
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
    if not data.attributes and (data.id or data.encode or data.missing):
        raise UsageError(
            "--id, --encode and --missing are about attributes, and there are none.",
            hint="Give the table of attributes with --attributes FILE.",
        )
    graph, report = read_graph_with_report(
        edges,
        data.attributes or None,
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
        missing_ids=data.missing_ids or "drop",
    )
    return LoadedGraph(graph, str(edges), report)


def _column(given: str | None) -> str | int | None:
    """Return a column's position where digits are given, else its name."""
    return int(given) if given is not None and given.isdecimal() else given


def _delimiter(given: str | None) -> str | None:
    names = {"tab": "\t", r"\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    return None if given is None else names.get(given, given)


def load_split(
    data: DataOptions,
    split: SplitOptions,
    console: Console,
    sides: SideOptions | None = None,
) -> tuple[LoadedGraph, EdgeSplit]:
    """Read a graph and divide its edges as the options say."""
    from gelato.splits import EdgeSplit, split_by_time, split_edges

    _refuse_mixed(split)
    if split.train or split.valid_edges or split.test_edges:
        return _given_split(data, split, console, sides)
    if split.split_file is not None and not split.split_file.is_file():
        raise InputError(
            f"There is no split file {split.split_file}.",
            hint="Make one with: gelato evaluate ... --save-split FILE.parquet",
        )
    loaded = load_graph(data, console, sides)
    if loaded.graph.num_edges == 0:
        raise InputError(
            f"{loaded.name} has no edges, so there is nothing to split.",
            hint="See what was read and dropped with: gelato check",
        )
    if split.split_file is not None:
        made = EdgeSplit.load(split.split_file, loaded.graph)
        return replace(loaded, graph=made.graph), made
    by_time = split.temporal or split.cutoff is not None
    shares: dict[str, Any] = {"valid": split.valid, "test": split.test}
    shares |= {"cutoff": split.cutoff} if by_time else {"seed": split.split_seed}
    shares = {name: value for name, value in shares.items() if value is not None}
    made = (split_by_time if by_time else split_edges)(loaded.graph, **shares)
    return replace(loaded, graph=made.graph), made


def _refuse_mixed(split: SplitOptions) -> None:
    ways = {
        "--split-file": split.split_file,
        "--temporal" if split.cutoff is None else "--cutoff": split.temporal
        or split.cutoff
        or None,
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
    data: DataOptions,
    split: SplitOptions,
    console: Console,
    sides: SideOptions | None,
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
        if not data.attributes:
            made = split_given(None, split.train, *held_out, directed=data.directed)
            graph = between(made.graph, sides)
            if graph is not made.graph:
                made = split_given(graph, split.train, *held_out)
            return LoadedGraph(made.graph, str(split.train)), made
        data = replace(data, edges=split.train)
    loaded = load_graph(data, console, sides)
    made = split_given(loaded.graph, split.train, *held_out)
    return replace(loaded, graph=made.graph), made


def require_positives(split: EdgeSplit, part: Part) -> None:
    """Refuse a split whose part is empty, in the words of the command line."""
    if len(split.positives(part)):
        return
    edges = text.plural(split.graph.num_edges, "edge")
    raise InputError(
        f"The {part} part of the split has no edges: there is nothing to rank "
        f"(the graph has {edges}).",
        hint=f"Hold out more with --{part} SHARE, for example --{part} 0.3, or name "
        f"the edges with --{part}-edges FILE.",
    )


def keep_admitted(
    split: EdgeSplit, part: Part, rule: Candidates
) -> tuple[EdgeSplit, int]:
    """Return a split without the held-out edges that are no candidates, and how many.

    A narrow rule cannot find them, and the numbers then speak of the others only;
    whoever calls says so.
    """
    positives = split.positives(part)
    admitted = positives[rule.contains(positives)]
    outside = len(positives) - len(admitted)
    if not outside:
        return split, 0
    if not len(admitted):
        raise InputError(
            f"None of the {len(positives):,} {part} edges is a candidate.",
            hint="Widen the candidate rule.",
        )
    if part == "test":
        return replace(split, test=admitted), outside
    return replace(split, valid=admitted), outside


def refuse_mixed_rule(options: CandidateOptions) -> None:
    """Refuse node sets beside another rule, before anything is read."""
    sides = options.left is not None or options.right is not None
    if sides and options.candidates != "all":
        raise UsageError(
            f"--left and --right go with all pairs, not with {options.candidates!r}.",
            hint="Leave --candidates out.",
        )


def make_candidates(
    options: CandidateOptions, graph: Graph, known: IntArray
) -> Candidates:
    """Return the candidates that the options ask for, without known pairs."""
    from gelato.io import read_nodes, read_pairs
    from gelato.ranking import candidates as rules

    kind, _, argument = options.candidates.partition(":")
    refuse_mixed_rule(options)
    if options.left is not None or options.right is not None:
        left, right = (
            range(graph.num_nodes) if path is None else read_nodes(path, graph)
            for path in (options.left, options.right)
        )
        return rules.between(graph, left, right, known)
    if kind == "hops" and argument.isdecimal():
        return rules.within_hops(graph, int(argument), known)
    if kind == "file" and argument:
        return rules.listed(graph, read_pairs(Path(argument), graph), known)
    if options.candidates != "all":
        raise UsageError(
            f"{options.candidates!r} is not a candidate rule.",
            hint="Rules are: all, hops:K (for example hops:2), file:FILE.",
        )
    return rules.all_pairs(graph, known)


def candidate_limits(
    options: CandidateOptions, graph: Graph, known: IntArray
) -> dict[str, Any]:
    """Return the options as arguments of a prediction.

    Not as ready-made candidates where it can be helped: a rule that can be applied to
    the training edges as well tells the precision to expect among them.
    """
    from gelato.io import read_nodes

    kind, _, argument = options.candidates.partition(":")
    if options.left is not None or options.right is not None:
        ids = graph.node_ids
        return {
            "between": tuple(
                ids.tolist() if path is None else ids[read_nodes(path, graph)].tolist()
                for path in (options.left, options.right)
            )
        }
    if kind == "hops" and argument.isdecimal():
        return {"within_hops": int(argument)}
    if kind == "file":
        return {"rule": make_candidates(options, graph, known)}
    return {}


def node_of(graph: Graph, written: str) -> Hashable:
    """Return the id of a graph that is written like this, or suggest near ones."""
    from gelato.graph import unknown_node

    tries: list[Hashable] = [written]
    with suppress(ValueError):
        tries.append(int(written))
    index = next((found for x in tries if (found := graph.find(x)) is not None), None)
    if index is None:
        names = [str(node) for node in graph.node_ids.tolist()]
        # Two ids may be written alike; then the type of neither can be told.
        if names.count(written) == 1:
            index = names.index(written)
        else:
            raise InputError(
                unknown_node(tries[-1], graph.node_ids),
                hint="Write an id as your files do; in quotes if it has spaces.",
            )
    return cast(Hashable, graph.node_ids[index : index + 1].tolist()[0])
