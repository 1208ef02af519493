"""``gelato data``: the benchmark graphs, and graphs drawn for tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer

from gelato import text
from gelato.cli.console import Console, make_facts, make_table
from gelato.cli.options import OutputOptions, argument, grouped, option
from gelato.cli.outputs import TABLE_SUFFIXES, check_output_file
from gelato.errors import MissingDataError, OutputError, UsageError

if TYPE_CHECKING:
    from gelato.datasets import DatasetFacts, GraphRecipe
    from gelato.graph import Graph


_LARGE = 10**9  # bytes that deserve a note
_MANY = 5_000_000  # edges
_NODES = 1 << 18  # whose words are written out together
_NAME = argument("NAME", "A graph of 'gelato data list'.")
# Origin to what it means for the user.
_WHERE = {
    "folder": "the folder of GELATO_DATA",
    "package": "part of gelato",
    "cache": "fetched earlier",
    "download": "not here yet: gelato data fetch",
}


def list_graphs(output: OutputOptions) -> None:
    """List the benchmark graphs and where each would come from."""
    from gelato.datasets import list_datasets

    console = Console(output)
    datasets = list_datasets()
    rows = [
        (
            facts.name,
            text.count(facts.nodes),
            text.count(facts.edges),
            text.count(facts.attributes),
            _WHERE[facts.origin],
        )
        for facts in datasets
    ]
    table = make_table("dataset", "nodes", "edges", "attributes", "where", rows=rows)
    table.columns[4].justify = "left"
    console.show(table)
    console.give({"datasets": [facts.to_dict() for facts in datasets]})


def show(output: OutputOptions, name: str = _NAME) -> None:
    """Describe a benchmark graph: size, source, licence, file."""
    console = Console(output)
    facts = _facts(name)
    console.show(
        make_facts(
            [
                ("name", facts.name),
                ("what it is", facts.description),
                ("nodes", text.count(facts.nodes)),
                ("edges", text.count(facts.edges)),
                ("attributes", text.count(facts.attributes)),
                ("source", facts.source),
                ("licence", facts.licence),
                ("where", _WHERE[facts.origin]),
                ("file", facts.path or "-"),
            ]
        )
    )
    console.give(facts.to_dict())


def print_path(output: OutputOptions, name: str = _NAME) -> None:
    """Print the file of a benchmark graph that is on this machine."""
    console = Console(output)
    facts = _facts(name)
    if facts.path is None:
        raise MissingDataError(
            f"The graph {name!r} is not on this machine.",
            hint=f"Fetch it with: gelato data fetch {name}",
        )
    console.show(facts.path)
    console.give({"name": name, "path": facts.path})


def fetch(output: OutputOptions, name: str = _NAME) -> None:
    """Fetch a benchmark graph if need be, check it, and print its file."""
    from gelato.datasets import dataset_path, load_dataset

    console = Console(output)
    path = dataset_path(name, progress=console.note)
    load_dataset(name)  # compares the content with what the name stands for
    console.show(str(path))
    console.give({"name": name, "path": str(path)})


def _facts(name: str) -> DatasetFacts:
    from gelato.datasets import list_datasets
    from gelato.datasets.catalog import find

    find(name)  # suggests near names
    return next(facts for facts in list_datasets() if facts.name == name)


@dataclass(frozen=True)
class MakeOptions:
    """What the graph is to look like. Defaults are the library's."""

    panel: ClassVar[str] = "Graph: what it looks like"
    nodes: int = option("--nodes N", "Number of nodes.", 1000)
    communities: int | None = option(
        "--communities N", "Communities (one per 30 nodes)."
    )
    average_degree: float | None = option(
        "--average-degree N", "Average number of neighbours (6)."
    )
    exponent: float | None = option(
        "--exponent N", "Exponent of the power law of degrees, above 1 (2.5)."
    )
    max_degree: int | None = option("--max-degree N", "No node has more edges (1,000).")
    inside: float | None = option(
        "--inside SHARE", "Edges that stay in a community (0.9)."
    )
    closure: float | None = option(
        "--closure SHARE", "Edges that close a triangle (0.4)."
    )
    words: float | None = option("--words N", "Attributes that a node has (12).")
    num_attributes: int | None = option(
        "--num-attributes N", "Different attributes; 0 for none (500)."
    )
    signal: float | None = option(
        "--signal SHARE", "Attributes that tell the community: 0 none, 1 all (0.7)."
    )
    seed: int | None = option("--seed N", "Decides everything that is random (0).")

    def recipe(self) -> dict[str, Any]:
        """Return the numbers that were given, by their names in the library."""
        given = dict(vars(self))
        given["attributes"] = given.pop("num_attributes")
        return {name: value for name, value in given.items() if value is not None}


def make(
    options: MakeOptions,
    output: OutputOptions,
    file: Path = argument(
        "FILE",
        "Where the graph goes: .npz holds all of it; .csv, .tsv or .parquet "
        "hold the edges.",
    ),
    attributes: Path | None = option(
        "--attributes FILE",
        "Beside a table of edges: a table with a list of words per node.",
    ),
    overwrite: bool = option("--overwrite", "Replace files that exist.", False),
) -> None:
    """Draw a graph with communities, hubs and attributes that tell of them."""
    from gelato.datasets import GraphRecipe, make_synthetic_graph

    console = Console(output)
    _check_files(file, attributes, options, overwrite=overwrite)
    recipe = options.recipe()
    _tell_size(console, GraphRecipe(**recipe))
    with console.progress("drawing edges and words") as progress:
        graph = make_synthetic_graph(**recipe, progress=progress)
    console.note(*graph.notes)
    written = _write(graph, file, attributes)
    console.show(make_facts(_drawn_facts(graph, written)))
    console.give(
        {
            "files": [str(path) for path in written],
            "recipe": recipe,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "attributes": graph.num_attributes,
            "notes": list(graph.notes),
        }
    )


def _tell_size(console: Console, recipe: GraphRecipe) -> None:
    """Say what a large graph takes, and refuse what this machine cannot hold."""
    import psutil

    needed, free = recipe.peak_bytes, psutil.virtual_memory().available
    words = f" and {text.plural(recipe.num_words, 'word')}" if recipe.num_words else ""
    edges = text.plural(recipe.num_edges, "edge")
    said = f"{edges}{words} take about {text.size(needed)} of memory to draw"
    if needed > free:
        raise UsageError(
            f"{said}, and {text.size(free)} are free.",
            hint="Draw fewer nodes, or no words: --num-attributes 0.",
        )
    if needed >= _LARGE:
        console.note(f"{said}.")


def _check_files(
    file: Path, attributes: Path | None, options: MakeOptions, *, overwrite: bool
) -> None:
    """Refuse what cannot be written, before anything is drawn."""
    check_output_file(file, (".npz", *TABLE_SUFFIXES))
    check_output_file(attributes, TABLE_SUFFIXES)
    if attributes is not None and file.suffix.lower() == ".npz":
        raise UsageError(
            f"{file} holds the attributes too, so --attributes has no meaning.",
            hint="Leave it out, or name a table of edges: edges.csv.",
        )
    if attributes is not None and options.num_attributes == 0:
        raise UsageError(
            "--attributes names a file, and --num-attributes 0 draws none.",
            hint="Leave one of them out.",
        )
    if attributes is not None and attributes.resolve() == file.resolve():
        raise UsageError(
            f"{file} cannot hold the edges and the attributes.",
            hint="Name two files.",
        )
    for path in (file, attributes):
        if path is not None and path.exists() and not overwrite:
            raise OutputError(
                f"{path} exists already.",
                hint="Name another file, or replace it with --overwrite.",
            )


def _write(graph: Graph, file: Path, attributes: Path | None) -> list[Path]:
    from gelato.io import to_frame, write_npz, write_table

    if file.suffix.lower() == ".npz":
        # Large ones are mapped when they are read, which compressed ones cannot be.
        small = graph.num_edges < _MANY
        return [write_npz(graph, file, compressed=small)]
    # Attributes first: edges alone would look like a finished graph.
    written = []
    if attributes is not None:
        written.append(write_table(_word_table(graph), attributes))
    return [write_table(to_frame(graph), file), *written]


def _word_table(graph: Graph) -> Any:
    """Return a list of words per node, which is how sparse attributes are read."""
    import polars as pl

    matrix: Any = graph.attributes
    words = pl.Series("word", [f"w{k}" for k in range(matrix.shape[1])])

    def some(first: int) -> pl.DataFrame:
        part = matrix[first : first + _NODES]
        rows = pl.DataFrame(
            {"id": part.nonzero()[0] + first, "word": words.gather(part.indices)}
        )
        lists = rows.group_by("id", maintain_order=True).agg(words=pl.col("word"))
        return lists.with_columns(pl.col("words").list.join(";"))

    # Every node has a word at least, so that every node has a row.
    return pl.concat([some(first) for first in range(0, graph.num_nodes, _NODES)])


def _drawn_facts(graph: Graph, written: list[Path]) -> list[tuple[str, str]]:
    names = " and ".join(str(path) for path in written)
    options = "--edges " + " --attributes ".join(str(path) for path in written)
    return [
        ("written", names),
        ("nodes", text.count(graph.num_nodes)),
        ("edges", text.count(graph.num_edges)),
        ("attributes", text.count(graph.num_attributes)),
        ("next", f"gelato run {options}"),
    ]


data = typer.Typer(
    help="List, describe, find or fetch the benchmark graphs; or draw a graph.",
    rich_markup_mode="rich",
)
data.command("list")(grouped(list_graphs))
data.command("show")(grouped(show))
data.command("path")(grouped(print_path))
data.command("fetch")(grouped(fetch))
data.command("make")(grouped(make))
